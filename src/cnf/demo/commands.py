"""`cnf demo`, `cnf advection` and `cnf light-path`: worked problems, and a tour of everything."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Annotated

import typer

from cnf.errors import CnfError, CnfWarning
from cnf.materials.commands.single import fit_and_write
from cnf.pde.commands import read_problem, solve_and_write
from cnf.reports.results import Results, check_target, publish
from cnf.reports.terminal import Seed, open_console, say
from cnf.shapes.commands.surfaces import check_exact, make_surface

Out = Annotated[
    Path, typer.Option("--out", help="Folder for pictures and tables; made if it is not there.", show_default=True)
]

PARTS = {  # what the demo has, and seconds on one processor of an idle machine
    "Advection on scattered points: u_t + 0.1 u_x = 0, u(x, 0) = sin(2 pi x), by three methods": 30,
    "Light path: two learnable quadratics between fixed end points, least travel time where n = 1 + 2y": 5,
    "A problem file: the Poisson equation on a square with a hole, as written by cnf new poisson": 10,
    "A surface through points with exact normals and colours": 10,
    "A material, 100 of its values exact, with a small budget": 15,
}


def demo(out: Out = Path("results/demo"), seed: Seed = 0) -> None:
    """Run the whole demonstration; takes a few minutes.

    The paper's advection problem by three methods, the light path problem, a problem file, a surface through points,
    and a material: certificates, errors beside the paper's, and pictures. The folder is written when all of it is done.
    """
    from cnf.reports.plots import check_pictures

    check_target(out)
    say(f"{len(PARTS)} parts, about {sum(PARTS.values())} s in all on an idle machine; {out} is written at the end")
    check_pictures()
    with publish(out, "demo") as results:
        names = show_equations(results, seed)
        show_problem(results, seed)
        names += show_surface(results, seed)
        names += show_material(results, seed)
    say(f"\npictures are in {out}: {', '.join(names)} and poisson/report.html (run {results.run.identifier})")


def begin(number: int) -> None:
    """Say which part comes now, before anything large is imported for it."""
    title, seconds = list(PARTS.items())[number - 1]
    say(f"\n{number} of {len(PARTS)}, about {seconds} s: {title}")


def show_equations(results: Results, seed: int) -> list[str]:
    """The paper's two problems; names of the pictures."""
    begin(1)
    from cnf.demo import plots, tables
    from cnf.demo.advection import METHODS
    from cnf.demo.light_path import solve_light_path
    from cnf.demo.running import check_finished, describe_ends, run_advection
    from cnf.files import write_text

    folder = results.folder
    say("   1024 conditions, perturbation 0.1; every bandwidth is chosen by the held-out residual\n")
    solved = run_advection(open_console(), [0.1], [seed], METHODS)
    for result in solved:
        say(f"\n{result.method}: {result.certificate}")
    table = tables.advection_table(solved)
    say(f"\nErrors on the unit square, beside the paper's (it has no random-fourier):\n\n{table}")
    begin(2)
    say()
    path = solve_light_path()
    check_finished(path.history)
    light = tables.light_path_table(path)
    say(f"{light}\n\n{describe_ends(path)}\n{path.certificate}")
    write_text(folder / "tables.txt", f"{table}\n\n{light}\n\nrun {results.run.identifier}\n")
    order = sorted(solved, key=lambda r: -r.rmse)
    made = [
        plots.plot_advection(order, folder / "advection.png"),
        plots.plot_slices(order[-1], folder / "advection_slices.png"),
        plots.plot_tuning([r for r in solved if r.trials], folder / "advection_tuning.png"),
        plots.plot_light_path(path, folder / "light_path.png"),
        plots.plot_learning(
            path.history, folder / "light_path_learning.png", "light path", "travel time", path.exact_time
        ),
    ]
    return [path.name for path in made]


def show_problem(results: Results, seed: int) -> None:
    """A problem file, as anyone would begin with."""
    begin(3)
    say()
    from cnf.files import write_text
    from cnf.pde.problems.templates import read_template

    example = results.folder / "poisson.toml"
    write_text(example, read_template("poisson"))
    solve_and_write(read_problem(example, {"seed": seed}), results.within("poisson"))


def show_surface(results: Results, seed: int) -> list[str]:
    """A mesh through points of a knot; names of the pictures."""
    begin(4)
    from cnf.shapes.clouds.generated import sample_knot
    from cnf.shapes.clouds.preparation import prepare_cloud
    from cnf.shapes.files.reading import read_cloud
    from cnf.shapes.files.writing import write_cloud
    from cnf.shapes.report.results import Look, write_results

    say("   cnf reconstruct knot.ply --snap --resolution 120 --up z\n")
    cloud, mesh = (results.folder / name for name in ("knot.ply", "knot_mesh.ply"))
    write_cloud(sample_knot(4000, seed), cloud)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)  # the notes say the same
        prepared = prepare_cloud(read_cloud(cloud, seed=seed), seed=seed)
    made = make_surface(prepared, resolution=120, snap=True)
    write_results(made, mesh, Look("knot", up="z"))
    check_exact(made)
    return ["knot_mesh.png"]


def show_material(results: Results, seed: int) -> list[str]:
    """A fitted material; names of the pictures."""
    begin(5)
    from cnf.materials.commands import options
    from cnf.materials.fitting.folders import Source
    from cnf.materials.rendering.stage import Stage

    words = "ggx:gold:0.15"
    budget = {"samples": 60_000, "epochs": 4, "batch": 1000, "parameters": 50_000}
    say(f"   cnf material fit {words} {' '.join(f'--{name} {n}' for name, n in budget.items())} --size 192\n")
    settings = options.choose_settings(False, **budget, seed=seed)
    stage = Stage.of(options.open_material(words), options.open_light(), 192)
    fit_and_write(stage, "kernel-siren", settings, results.within("gold"), Source(words))
    return ["gold/render.png"]


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
    from cnf.reports.plots import check_pictures

    for level in perturbation:
        if not (math.isfinite(level) and level >= 0):
            raise CnfError(f"--perturbation is a standard deviation, a finite number of at least 0; got {level:g}")
    for name in method:
        if name not in METHODS:
            raise CnfError(
                f"there is no --method {name!r}; choose one of {', '.join(METHODS)}." + nearest(name, METHODS)
            )
    if out is not None:
        check_pictures()
        check_target(out)
    results = run_advection(open_console(), perturbation, range(seeds), method, steps)
    for result in results:
        say(f"\n{result.method}, perturbation {result.perturbation:g}, seed {result.seed}: {result.certificate}")
    say(f"\n{tables.advection_table(results)}")
    if out is not None:
        groups: dict[tuple[float, int], list] = {}
        for result in results:
            groups.setdefault((result.perturbation, result.seed), []).append(result)
        with publish(out, "advection") as kept:
            for (level, seed), group in groups.items():
                plots.plot_advection(group, kept.folder / f"advection_{level:g}_{seed}.png")
        say(f"\npictures are in {out} (run {kept.run.identifier})")


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
    from cnf.demo.running import check_finished, describe_ends
    from cnf.reports.plots import check_pictures

    if out is not None:
        check_pictures()
        check_target(out)
    result = solve_light_path(steps=steps, seed=seed)
    check_finished(result.history)
    say(tables.light_path_table(result))
    say(f"\n{describe_ends(result)}\n{result.certificate}")
    if out is not None:
        with publish(out, "light path") as kept:
            plots.plot_light_path(result, kept.folder / "light_path.png")
            learning = kept.folder / "light_path_learning.png"
            plots.plot_learning(result.history, learning, "light path", "travel time", result.exact_time)
        say(f"\npictures are in {out} (run {kept.run.identifier})")


def add_to(app: typer.Typer) -> None:
    """Put the commands of this slice into `app`."""
    app.command()(demo)
    app.command()(advection)
    app.command("light-path")(light_path)
