"""The commands of `cnf`: options are checked here, the work is done by applications and reports."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from cnf.cli import material_compare, materials_study, problems, shapes_study  # noqa: F401  # they add their commands
from cnf.cli.material import fit as fit_material
from cnf.cli.material import material
from cnf.cli.planar import shape
from cnf.cli.reconstruct import reconstruct
from cnf.cli.studies import study
from cnf.cli.terminal import Seed, check_folder, open_console, say
from cnf.errors import CnfError

app = typer.Typer(
    name="cnf",
    help="Neural fields that meet linear differential conditions exactly.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(study, name="study")
app.command()(problems.solve)
app.command()(problems.check)
app.command()(problems.new)
app.command()(reconstruct)
app.add_typer(shape, name="shape")
app.add_typer(material, name="material")

Out = Annotated[
    Path, typer.Option("--out", help="Folder for pictures and tables; made if it is not there.", show_default=True)
]


def _print_version(wanted: bool) -> None:
    if wanted:
        import cnf

        say(f"cnf {cnf.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Neural fields that meet linear differential conditions exactly."""


@app.command()
def demo(out: Out = Path("results/demo"), seed: Seed = 0) -> None:
    """Run the whole demonstration; takes a minute or two.

    The paper's advection problem by three methods, the light path problem, a problem file, a surface through points,
    and a material: certificates, errors beside the paper's, and pictures.
    """
    from cnf.applications import solve_light_path
    from cnf.applications.advection import METHODS
    from cnf.applications.shapes.generated import sample_knot
    from cnf.cli.runs import describe_ends, run_advection, write_text
    from cnf.data import write_cloud
    from cnf.problems.templates import read_template
    from cnf.reports import plots, tables

    folder = check_folder(out)
    console = open_console()
    say("1. Advection on scattered points: u_t + 0.1 u_x = 0, u(x, 0) = sin(2 pi x)")
    say("   1024 conditions, perturbation 0.1; every bandwidth is chosen by the held-out residual\n")
    results = run_advection(console, [0.1], [seed], METHODS)
    for result in results:
        say(f"\n{result.method}: {result.certificate}")
    table = tables.advection_table(results)
    say(f"\nErrors on the unit square, beside the paper's (it has no random-fourier):\n\n{table}")
    say("\n2. Light path: two learnable quadratics between fixed end points, least travel time where n = 1 + 2y\n")
    path = solve_light_path()
    light = tables.light_path_table(path)
    say(f"{light}\n\n{describe_ends(path)}\n{path.certificate}")
    write_text(folder / "tables.txt", f"{table}\n\n{light}\n")
    order = sorted(results, key=lambda r: -r.rmse)
    made = [
        plots.plot_advection(order, folder / "advection.png"),
        plots.plot_slices(order[-1], folder / "advection_slices.png"),
        plots.plot_tuning([r for r in results if r.trials], folder / "advection_tuning.png"),
        plots.plot_light_path(path, folder / "light_path.png"),
        plots.plot_learning(
            path.history, folder / "light_path_learning.png", "light path", "travel time", path.exact_time
        ),
    ]
    say("\n3. A problem file: the Poisson equation on a square with a hole, as written by cnf new poisson\n")
    example = folder / "poisson.toml"
    write_text(example, read_template("poisson"))
    problems.solve(example, out=folder / "poisson", seed=seed)
    say("\n4. A surface through points with exact normals and colours: cnf reconstruct knot.ply --snap\n")
    cloud = folder / "knot.ply"
    write_cloud(sample_knot(4000, seed), cloud)
    reconstruct(cloud, out=folder / "knot_mesh.ply", resolution=120, snap=True, up="z", seed=seed)
    say("\n5. A material, 100 measurements of it exact: cnf material fit ggx:gold:0.15 with a small budget\n")
    fit_material(
        "ggx:gold:0.15",
        out=folder / "gold",
        samples=60_000,
        epochs=4,
        batch=1000,
        parameters=50_000,
        size=192,
        seed=seed,
    )
    names = ", ".join(p.name for p in made)
    say(f"\npictures are in {folder}: {names}, knot_mesh.png, gold/render.png and poisson/report.html")


@app.command()
def advection(
    perturbation: Annotated[
        list[float],
        typer.Option(metavar="NUMBER", help="Noise of the grid; repeat for several (paper: 0.01 0.05 0.1 0.5 1)."),
    ] = [0.1],  # noqa: B006
    method: Annotated[
        list[str], typer.Option(metavar="NAME", help="random-fourier, rbf or skewed-rbf; repeat for several.")
    ] = ["random-fourier"],  # noqa: B006
    seeds: Annotated[int, typer.Option(min=1, help="How many random grids.")] = 1,
    steps: Annotated[int, typer.Option(min=0, help="Training steps of skewed-rbf.")] = 10,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for a picture per grid; none if left out.")] = None,
) -> None:
    """Solve the advection equation on scattered points."""
    from cnf.applications.advection import METHODS
    from cnf.cli.runs import run_advection
    from cnf.errors import nearest
    from cnf.reports import plots, tables

    for level in perturbation:
        if not (math.isfinite(level) and level >= 0):
            raise CnfError(f"--perturbation is a standard deviation, a finite number of at least 0; got {level:g}")
    for name in method:
        if name not in METHODS:
            raise CnfError(
                f"there is no --method {name!r}; choose one of {', '.join(METHODS)}." + nearest(name, METHODS)
            )
    folder = check_folder(out) if out is not None else None
    results = run_advection(open_console(), perturbation, range(seeds), method, steps)
    for result in results:
        say(f"\n{result.method}, perturbation {result.perturbation:g}, seed {result.seed}: {result.certificate}")
    say(f"\n{tables.advection_table(results)}")
    if folder is not None:
        groups: dict[tuple[float, int], list] = {}
        for result in results:
            groups.setdefault((result.perturbation, result.seed), []).append(result)
        for (level, seed), group in groups.items():
            plots.plot_advection(group, folder / f"advection_{level:g}_{seed}.png")
        say(f"\npictures are in {folder}")


@app.command("light-path")
def light_path(
    steps: Annotated[
        int, typer.Option(min=1, help="Most training steps (L-BFGS); it stops when nothing changes.")
    ] = 100,
    seed: Seed = 1,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for pictures; none if left out.")] = None,
) -> None:
    """Find the path of least time between two points."""
    from cnf.applications import solve_light_path
    from cnf.cli.runs import describe_ends
    from cnf.reports import plots, tables

    folder = check_folder(out) if out is not None else None
    result = solve_light_path(steps=steps, seed=seed)
    say(tables.light_path_table(result))
    say(f"\n{describe_ends(result)}\n{result.certificate}")
    if folder is not None:
        plots.plot_light_path(result, folder / "light_path.png")
        plots.plot_learning(
            result.history, folder / "light_path_learning.png", "light path", "travel time", result.exact_time
        )
        say(f"\npictures are in {folder}")


@app.command()
def read(
    latex: Annotated[
        str, typer.Argument(help=r"An operator or equation, such as '\partial_t u + \beta \partial_x u = 0'.")
    ],
    coordinates: Annotated[str, typer.Option(help="Names of the coordinates.")] = "x t",
    channels: Annotated[str, typer.Option(help="Names of the field's channels.")] = "u",
    given: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="NAME=NUMBER",
            help="A coefficient: beta=0.1, a vector n=1,0, or a function f=; repeatable.",
        ),
    ] = [],  # noqa: B006
) -> None:
    """Show how an equation in LaTeX is understood."""
    from cnf.cli.runs import describe_reading, read_coefficients

    say(describe_reading(latex, coordinates, channels, read_coefficients(given)))


@app.command()
def version() -> None:
    """Print the version."""
    _print_version(True)
