"""`cnf reconstruct`: a point cloud in, a mesh through its points out."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cnf.errors import CnfError, CnfWarning, SingularSystemError
from cnf.files import check_writable
from cnf.reports.terminal import Scheduler, Seed, Workers, choose_workers, open_console, say

if TYPE_CHECKING:
    from cnf.shapes.clouds.cloud import PointCloud
    from cnf.shapes.clouds.preparation import Prepared
    from cnf.shapes.reconstruction.outcome import Outcome
    from cnf.shapes.reconstruction.reconstruct import Reconstruction

STAGES, TILED_STAGES = 9, 20


def reconstruct(
    cloud: Annotated[
        Path,
        typer.Argument(
            help="Points: PLY, OBJ, XYZ, CSV, NPZ, PCD, LAS, LAZ, E57; a mesh (also STL, OFF, GLB) is sampled."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The mesh: .ply, .obj, .stl, .off, .glb, .npz; default CLOUD_mesh.ply."),
    ] = None,
    resolution: Annotated[
        int | None, typer.Option(help="Grid nodes along the longest side; default: by the spacing of the points.")
    ] = None,
    normals: Annotated[str, typer.Option(metavar="exact|pseudo", help="How the normals enter.")] = "exact",
    solver: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="auto (blend), blend (patches), sparse (one system) or local (the paper's, pseudo only).",
        ),
    ] = "auto",
    snap: Annotated[bool, typer.Option("--snap", help="Draw the mesh through every point.")] = False,
    sharp: Annotated[
        bool, typer.Option("--sharp", help="Keep sharp edges and corners instead of rounding them.")
    ] = False,
    sharp_angle: Annotated[
        float | None, typer.Option(metavar="DEGREES", help="The same, where the surface turns by so much; default: 25.")
    ] = None,
    refine: Annotated[int, typer.Option(help="Split every face in four, so many times.")] = 0,
    flatness: Annotated[
        float, typer.Option(help="Split faces farther than this from the surface, in grid steps; 0: none.")
    ] = 0.02,
    open_rims: Annotated[bool, typer.Option("--open", help="Leave holes open instead of closing them.")] = False,
    points: Annotated[
        int | None, typer.Option(min=4, help="Use at most so many points, evenly spread; default: all.")
    ] = None,
    part: Annotated[
        int | None,
        typer.Option(help="Solve and mesh more than twice so many points in parts of about so many; default: 50000."),
    ] = None,
    workers: Workers = 1,
    scheduler: Scheduler = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Most memory of each process, such as 4GB; clouds that need more are done by tiles on disk.",
        ),
    ] = None,
    merge: Annotated[
        float, typer.Option(help="Join points nearer than this; the longest side counts 2.", show_default=True)
    ] = 1e-9,
    sample: Annotated[int, typer.Option(min=4, help="Points to take if the file is a mesh.")] = 10_000,
    flip: Annotated[bool, typer.Option("--flip", help="Turn all normals round.")] = False,
    neighbours: Annotated[
        int | None, typer.Option(help="Points inside the support of the kernel; default: 200, 55 in one sparse system.")
    ] = None,
    support: Annotated[float | None, typer.Option(help="Its radius instead; the longest side counts 2.")] = None,
    offset: Annotated[float, typer.Option(help="Of pseudo-normals; the longest side counts 2.")] = 0.01,
    picture: Annotated[bool, typer.Option("--picture/--no-picture", help="Shaded views as PNG.")] = True,
    viewer: Annotated[
        bool, typer.Option("--viewer/--no-viewer", help="A page to turn it around, one HTML file, also offline.")
    ] = True,
    up: Annotated[str, typer.Option(metavar="AXIS", help="Which axis points up in picture and page.")] = "y",
    turn: Annotated[float, typer.Option(metavar="DEGREES", help="Turn the shape in picture and page.")] = 0.0,
    seed: Seed = 0,
) -> None:
    """A mesh through a point cloud, with exact normals; closed unless told otherwise.

    Writes the mesh, and beside it a shaded picture (.png), a page to turn it around (.html) and all numbers (.json).
    Colours and other values of the points come along. Normals that are missing are estimated.
    """
    from cnf.reports.plots import check_pictures
    from cnf.shapes.clouds.preparation import prepare_cloud
    from cnf.shapes.files.reading import read_cloud
    from cnf.shapes.report.results import Look, list_files, write_results

    target, look = check_target(cloud, out), Look(cloud.stem, up, turn, picture, viewer)
    for file in list_files(target, look):
        check_writable(file)
    if picture:
        check_pictures()
    if not math.isfinite(turn):
        raise CnfError(f"--turn is an angle in degrees; got {turn:g}")
    if up.lstrip("-") not in ("x", "y", "z"):
        raise CnfError(f"--up is x, y or z, with a minus sign if it points down; got {up!r}")
    placed: dict[str, Any] = {
        **{"resolution": resolution, "neighbours": neighbours, "support": support, "flatness": flatness},
        **{"part": part, "workers": choose_workers(workers, scheduler)},
    }
    whole = {
        "--points": points is not None,
        "--snap": snap,
        "--sharp": sharp or sharp_angle is not None,
        "--refine": refine > 0,
        "--open": open_rims,
        "--normals": normals != "exact",
        "--solver": solver not in ("auto", "blend"),
    }
    names = [name for name, given in whole.items() if given]
    if limit := choose_tiles(cloud, target, memory, names, workers + 1):
        make_tiles(cloud, target, limit, merge=merge, flip=flip, **placed)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)  # the notes say the same
        given = read_cloud(cloud, sample, seed)
        check_names(given, target)
        prepared = prepare_cloud(turned(given) if flip else given, most=points, seed=seed, merge=merge)
    made = make_surface(
        prepared,
        normals_mode=normals,
        solver=solver,
        offset=offset,
        snap=snap,
        sharp=sharp if sharp_angle is None else sharp_angle,
        refinements=refine,
        close=not open_rims,
        **placed,
    )
    say(f"\nwritten: {', '.join(map(str, write_results(made, target, look)))}")
    check_exact(made)


def make_surface(prepared: Prepared, **settings: Any) -> Reconstruction:
    """Reconstruct with a display of the stages, and tell what was found."""
    from cnf.reports.progress import part
    from cnf.shapes.reconstruction.reconstruct import reconstruct as reconstruct_surface
    from cnf.shapes.report.summary import summarise

    for note in dict.fromkeys(prepared.notes):  # now: they may explain what goes wrong later
        say(f"note: {note}")
    with part(open_console(), "reconstruction", STAGES) as shown, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CnfWarning)
        try:
            made = reconstruct_surface(prepared, report=shown.step, **settings)
        except SingularSystemError:
            raise CnfError(
                f"the conditions of {len(prepared)} points are numerically dependent: points nearly coincide, or the "
                "support is far larger than their distances. Join close points (--merge 1e-5), or take fewer "
                "--neighbours"
            ) from None
        shown.result = f"{len(made.cloud)} points, {len(made.mesh.faces)} faces"
        caution = [str(w.message) for w in caught if issubclass(w.category, CnfWarning)]
    for note in dict.fromkeys([*made.notes[len(prepared.notes) :], *caution]):
        say(f"note: {note}")
    say(f"\n{summarise(made)}")
    return made


def choose_tiles(cloud: Path, target: Path, memory: str | None, whole: list[str], processes: int) -> str:
    """The memory that each process may take if the points of a file need more, else nothing.

    `whole`: options that need the whole mesh, or the whole cloud, in memory. Without `--memory`, so many processes
    share what there is, or take what they took in an unfinished run that is gone on with.
    """
    from cnf.memory import memory_there_is
    from cnf.shapes.files.pieces import PIECEWISE, open_source
    from cnf.shapes.tiles.folder import Folder
    from cnf.shapes.tiles.sizes import fits, read_memory

    limit = memory_there_is() if memory is None else read_memory(memory)
    if cloud.suffix.lower() not in PIECEWISE:
        if memory is not None and cloud.exists() and cloud.stat().st_size > limit:
            raise CnfError(
                f"{cloud} has more bytes than --memory {memory}, and files of its kind are read whole only; write it "
                f"as {', '.join(PIECEWISE)}"
            )
        return ""
    try:
        count = open_source(cloud).count
    except CnfError:
        if memory is None:  # without normals, say, which is for those who read it whole
            return ""
        raise
    if memory is None and not whole and (before := Folder.beside(target).memory()):
        return str(before)
    if fits(count, limit):
        return ""
    if memory is None:
        there = f"{count} points may need more memory than the {limit / 1e9:.1f} GB that there are"
        if whole:
            say(f"note: {there}, and with {', '.join(whole)} they are all held at once")
            return ""
        say(f"note: {there}: they are done by tiles on disk (--memory SIZE says how much to take)")
        return f"{limit / processes:.0f}B"
    if whole:
        raise CnfError(
            f"{', '.join(whole)}: not for clouds that need more than --memory {memory}, which are done by tiles; "
            "leave it out, or give more memory"
        )
    return memory


def make_tiles(cloud: Path, target: Path, memory: str, **settings: Any) -> None:
    """Reconstruct by tiles on disk, with a display of the steps; the mesh and its numbers are written."""
    from cnf.reports.progress import part
    from cnf.shapes.report.results import NUMBERS, find_earlier
    from cnf.shapes.report.summary import summarise, write_summary
    from cnf.shapes.tiles.run import reconstruct_tiles

    seen: set[str] = set()

    def tell(words: str) -> None:
        step = words.partition(":")[0]  # "means: 3 of 64" is the same step as "means: 2 of 64"
        (shown.note if step in seen else shown.step)(words)
        seen.add(step)

    with part(open_console(), "reconstruction", TILED_STAGES) as shown, warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)  # the notes say the same
        try:
            made = reconstruct_tiles(cloud, target, memory, report=tell, **settings)
        except BaseException as error:
            for note in getattr(error, "__notes__", ()):  # that the same command goes on, where it does
                say(note)
            raise
        shown.result = f"{made.points} points, {made.numbers.faces} faces"
    for note in dict.fromkeys(made.notes):
        say(f"note: {note}")
    say(f"\n{summarise(made)}")
    numbers = target.with_suffix(NUMBERS)
    for file in find_earlier(target, [target, numbers]):
        file.unlink(missing_ok=True)
    write_summary(made, numbers)
    say(f"\nwritten: {target}, {numbers}")
    check_exact(made)


def check_exact(made: Outcome) -> None:
    if not made.certificate.exact:
        raise CnfError(f"the mesh was written, but the conditions do not hold: {made.certificate.advice()}")


def check_target(cloud: Path, out: Path | None) -> Path:
    """Where the mesh goes; never onto the points themselves."""
    from cnf.shapes.files.writing import MESH_ENDINGS

    target = out if out is not None else Path(f"{cloud.stem}_mesh.ply")
    if target.suffix.lower() not in MESH_ENDINGS:
        raise CnfError(f"a mesh is written as {', '.join(MESH_ENDINGS)}; got {str(target)!r}")
    if target.exists() and cloud.exists() and target.samefile(cloud):
        raise CnfError(f"--out {target} is the input itself; give the mesh another name")
    return target


def check_names(cloud: PointCloud, target: Path) -> None:
    """Attributes must have names that the file can hold; said before the work, not after."""
    for name in cloud.attributes:
        if target.suffix.lower() == ".ply" and not name.isascii():
            raise CnfError(f"PLY files name attributes in ASCII; rename {name!r}, or write .npz")


def turned(cloud: PointCloud) -> PointCloud:
    """The cloud with its normals reversed."""
    if cloud.normals is None:
        raise CnfError("--flip turns normals round, but the file has none; estimated ones point outward already")
    return replace(cloud, normals=-cloud.normals)
