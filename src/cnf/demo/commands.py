"""`cnf demo`, `cnf advection` and `cnf light-path`: worked problems, and a tour of everything."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from cnf.errors import CnfError
from cnf.materials.commands.single import fit as fit_material
from cnf.pde import commands as problems
from cnf.reports.terminal import Seed, check_folder, open_console, say
from cnf.shapes.commands.surfaces import reconstruct

Out = Annotated[
    Path, typer.Option("--out", help="Folder for pictures and tables; made if it is not there.", show_default=True)
]


def demo(out: Out = Path("results/demo"), seed: Seed = 0) -> None:
    """Run the whole demonstration; takes a minute or two.

    The paper's advection problem by three methods, the light path problem, a problem file, a surface through points,
    and a material: certificates, errors beside the paper's, and pictures.
    """
    from cnf.demo import plots, tables
    from cnf.demo.advection import METHODS
    from cnf.demo.light_path import solve_light_path
    from cnf.demo.running import describe_ends, run_advection
    from cnf.pde.problems.templates import read_template
    from cnf.reports.tables import write_text
    from cnf.shapes.clouds.generated import sample_knot
    from cnf.shapes.files.writing import write_cloud

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
    from cnf.demo import plots, tables
    from cnf.demo.advection import METHODS
    from cnf.demo.running import run_advection
    from cnf.errors import nearest

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


def light_path(
    steps: Annotated[
        int, typer.Option(min=1, help="Most training steps (L-BFGS); it stops when nothing changes.")
    ] = 100,
    seed: Seed = 1,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for pictures; none if left out.")] = None,
) -> None:
    """Find the path of least time between two points."""
    from cnf.demo import plots, tables
    from cnf.demo.light_path import solve_light_path
    from cnf.demo.running import describe_ends

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


def add_to(app: typer.Typer) -> None:
    """Put the commands of this slice into `app`."""
    app.command()(demo)
    app.command()(advection)
    app.command("light-path")(light_path)
