"""`python -m studies shapes` and `scaling`: surfaces through points, by cnf and by others; and how the work grows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cnf.errors import CnfError
from cnf.reports.tables import write_text
from cnf.reports.terminal import Seed, check_folder, say, split_words

if TYPE_CHECKING:
    from cnf.shapes.clouds.mesh import Mesh
    from studies.shapes.scaling import Run
    from studies.shapes.study import Row

Threads = Annotated[int, typer.Option(min=1, help="For every method.")]
Timeout = Annotated[float, typer.Option(metavar="SECONDS", min=1, help="After which a run is stopped.")]


def shapes(
    shapes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="From spot, max-planck, horse, nefertiti, bunny, armadillo, with commas; default: the first four.",
        ),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="Ours: cnf, cnf-snapped, cnf-refined, cnf-blend, cnf-pseudo, paper; "
            "others: scipy-tps, open3d-..., pymeshlab-...; "
            "default: all.",
        ),
    ] = None,
    points: Annotated[int, typer.Option(min=4, help="Drawn from each shape.")] = 10_000,
    resolution: Annotated[int, typer.Option(min=8, help="Nodes of the grid along its longest side.")] = 160,
    samples: Annotated[int, typer.Option(min=1, help="Of each surface, for measuring.")] = 100_000,
    seed: Seed = 0,
    threads: Threads = 1,
    peers_python: Annotated[
        Path | None, typer.Option("--peers-python", help="A Python that has open3d and pymeshlab; default: this one.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder that has the meshes in mesh/; default: environment variable CNF_DATA.")
    ] = None,
    timeout: Timeout = 1800,
    pictures: Annotated[bool, typer.Option("--pictures/--no-pictures", help="Shaded pictures of every mesh.")] = True,
    out: Annotated[Path, typer.Option("--out", help="Folder for tables, CSV, meshes and pictures.")] = Path(
        "results/studies/shapes"
    ),
) -> None:
    """Surfaces through 10,000 points with normals, by cnf and by other packages: distances, time, memory.

    Finished rows are kept in the folder and not run again with the same settings, so Ctrl-C loses only the run that is
    going on.
    """
    from studies.shapes import study as studies

    names = split_words(shapes) or list(studies.PAPER_SHAPES)
    studies.check_names(names)
    folder_of_meshes = studies.find_folder(data)
    truths = [(name, studies.read_shape(name, folder_of_meshes)) for name in names]
    setting = studies.Setting(points, resolution, seed, threads, samples)
    found, missing = studies.find_methods(split_words(methods) or studies.METHODS, peers_python)
    folder = check_folder(out)
    for package in dict.fromkeys(missing.values()):
        left_out = ", ".join(name for name, reason in missing.items() if reason == package)
        say(f"left out: {left_out}: {package}")
    if not found:
        raise CnfError("none of the methods can run here; see the lines above")
    say(f"{points} points with normals, resolution {resolution}, {threads} thread{'s' if threads > 1 else ''}\n")
    rows: list[Row] = []

    def tell(row: Row, known: bool) -> None:
        rows.append(row)
        say(f"  {row.shape:<11} {row.method:<23} {_result(row)}{'   (from an earlier run)' if known else ''}")

    try:
        studies.run_study(truths, found, setting, folder, timeout=timeout, report=tell)
    except KeyboardInterrupt:
        if rows:
            say("\ninterrupted; what is finished:")
            _report_shapes(rows, truths, folder, pictures=False)
        raise
    _report_shapes(rows, truths, folder, pictures)


def _result(row: Row) -> str:
    if row.measures is None:
        return row.note
    return f"{row.seconds or 0:6.1f} s   Chamfer {row.measures.chamfer:.2e}   inputs {row.measures.input_max:.0e}"


def _report_shapes(rows: list[Row], truths: list[tuple[str, Mesh]], folder: Path, pictures: bool) -> None:
    """Print the tables; write tables and pictures."""
    from studies.shapes import report as reports
    from studies.shapes.study import mesh_path

    say(f"\n{reports.study_text(rows)}\n\n{reports.study_notes(rows)}")
    reports.write_study(rows, folder / "shapes.txt")
    if any(row.finished for row in rows):
        reports.plot_study(rows, folder / "shapes.png")
    if pictures:
        from cnf.shapes.files.reading import read_mesh

        for shape, truth in truths:
            kept = [(r, mesh_path(folder, r)) for r in rows if r.shape == shape and r.finished]
            meshes = [(row, read_mesh(path)) for row, path in kept if path.exists()]
            reports.draw_shape(shape, truth, meshes, folder / f"shapes_{shape}.png")
            reports.draw_shape(shape, truth, meshes, folder / f"shapes_{shape}_errors.png", errors=True)
    say(f"\ntables, CSV, meshes and pictures are in {folder}")


def scaling(
    sizes: Annotated[
        list[str] | None,
        typer.Option(metavar="NUMBERS", help="Numbers of points, such as 1000,10000; default: 1000 to 200000."),
    ] = None,
    mode: Annotated[str, typer.Option(help="blend: patches, joined; sparse: one sparse system.")] = "blend",
    resolution: Annotated[
        int | None, typer.Option(min=8, help="Of the grid; default: 160 at 10000 points, growing with their root.")
    ] = None,
    threads: Threads = 1,
    seed: Seed = 0,
    timeout: Timeout = 3600,
    out: Annotated[Path, typer.Option("--out", help="Folder for table, CSV and picture.")] = Path(
        "results/studies/scaling"
    ),
) -> None:
    """Time and memory of a reconstruction against its number of points, with fitted exponents.

    The surface is a rippled torus made by cnf itself; every size runs in its own process.
    """
    from studies.shapes import scaling as work
    from studies.shapes import scaling_report as reports

    asked = [_whole_number(word) for word in split_words(sizes)] or list(work.SIZES)
    work.check_sizes(asked, mode)
    folder = check_folder(out)
    say(f"a rippled torus, values and normals exact, mode {mode}, {threads} thread{'s' if threads > 1 else ''}\n")
    runs: list[Run] = []

    def tell(run: Run) -> None:
        runs.append(run)
        reports.write_scaling(runs, folder / f"scaling_{mode}.csv")
        say(f"  {run.size:>8} points   {run.note or f'{run.seconds:.1f} s   {run.megabytes:.0f} MB'}")

    work.run_sizes(asked, mode, resolution=resolution, threads=threads, seed=seed, timeout=timeout, report=tell)
    text = reports.scaling_text(runs)
    say(f"\n{text}")
    write_text(folder / f"scaling_{mode}.txt", f"{text}\n")
    if any(run.seconds for run in runs):
        reports.plot_scaling(runs, folder / f"scaling_{mode}.png")
    say(f"\ntable, CSV and picture are in {folder}")


def _whole_number(word: str) -> int:
    try:
        return int(word.replace("_", ""))
    except ValueError:
        raise CnfError(f"--sizes takes whole numbers, such as 1000,10000; got {word!r}") from None
