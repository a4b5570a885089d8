"""`cnf reconstruct`: a point cloud in, a mesh through its points out."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cnf.errors import CnfError, CnfWarning, FileError, SingularSystemError
from cnf.files import check_writable, hash_file, read_text
from cnf.reports.results import publish_files
from cnf.reports.terminal import Seed, open_console, say

if TYPE_CHECKING:
    from cnf.shapes.clouds.cloud import PointCloud
    from cnf.shapes.clouds.preparation import Prepared
    from cnf.shapes.reconstruction.reconstruct import Reconstruction

STAGES = 9
LARGEST = 2**24  # bytes of the numbers of an earlier run


def reconstruct(
    cloud: Annotated[Path, typer.Argument(help="Points: PLY, OBJ, XYZ, CSV, NPZ, NPY; a mesh (also STL) is sampled.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The mesh: .ply, .obj, .stl or .npz; default CLOUD_mesh.ply.")
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
    refine: Annotated[int, typer.Option(help="Split every face in four, so many times.")] = 0,
    flatness: Annotated[
        float, typer.Option(help="Split faces farther than this from the surface, in grid steps; 0: none.")
    ] = 0.02,
    open_rims: Annotated[bool, typer.Option("--open", help="Leave holes open instead of closing them.")] = False,
    points: Annotated[
        int | None, typer.Option(min=4, help="Use at most so many points, evenly spread; default: all.")
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
    up: Annotated[str, typer.Option(metavar="AXIS", help="Which axis points up in the picture.")] = "y",
    turn: Annotated[float, typer.Option(metavar="DEGREES", help="Turn the shape in the picture.")] = 0.0,
    seed: Seed = 0,
) -> None:
    """A mesh through a point cloud, with exact normals; closed unless told otherwise.

    Writes the mesh, a shaded picture (.png) and all numbers (.json) beside it. Colours and other values of the points
    come along. Normals that are missing are estimated.
    """
    from cnf.reports.plots import check_pictures
    from cnf.shapes.clouds.preparation import prepare_cloud
    from cnf.shapes.files.reading import read_cloud

    target = check_target(cloud, out)
    for file in list_files(target, picture):
        check_writable(file)
    if picture:
        check_pictures()
    if not math.isfinite(turn):
        raise CnfError(f"--turn is an angle in degrees; got {turn:g}")
    if up.lstrip("-") not in ("x", "y", "z"):
        raise CnfError(f"--up is x, y or z, with a minus sign if it points down; got {up!r}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)  # the notes say the same
        given = read_cloud(cloud, sample, seed)
        check_names(given, target)
        prepared = prepare_cloud(turned(given) if flip else given, most=points, seed=seed, merge=merge)
    made = make_surface(
        prepared,
        resolution=resolution,
        normals_mode=normals,
        solver=solver,
        neighbours=neighbours,
        support=support,
        offset=offset,
        snap=snap,
        flatness=flatness,
        refinements=refine,
        close=not open_rims,
    )
    write_surface(made, target, Look(cloud.stem, up, turn) if picture else None)
    say(f"\nwritten: {', '.join(map(str, list_files(target, picture)))}")
    check_exact(made)


@dataclass(frozen=True)
class Look:
    """What the picture of a surface needs to know."""

    title: str
    up: str = "y"
    turn: float = 0.0


def list_files(target: Path, picture: bool) -> list[Path]:
    """The mesh, its picture and its numbers; these last, for they have the checksums of the others."""
    return [target, *([target.with_suffix(".png")] if picture else []), target.with_suffix(".json")]


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


def write_surface(made: Reconstruction, target: Path, look: Look | None) -> None:
    """All files or none of them."""
    from cnf.shapes.files.writing import write_mesh
    from cnf.shapes.report.summary import draw_reconstruction, write_summary

    files = list_files(target, look is not None)
    with publish_files(files, [] if look is not None else find_picture(target)) as results:
        write_mesh(made.mesh, results.folder / target.name)
        if look is not None:
            draw_reconstruction(made, results.folder / files[1].name, look.up, look.turn, look.title)
        write_summary(made, results.folder / files[-1].name, results.record())


def find_picture(target: Path) -> list[Path]:
    """The picture of an earlier run, which would be taken for this one's; what somebody else put there stays."""
    picture = target.with_suffix(".png")
    try:
        known = json.loads(read_text(target.with_suffix(".json"), LARGEST))["run"]["files"][picture.name]
        return [picture] if hash_file(picture) == known else []
    except (FileError, OSError, LookupError, TypeError, ValueError, RecursionError):
        return []


def check_exact(made: Reconstruction) -> None:
    if not made.certificate.exact:
        raise CnfError(f"the mesh was written, but the conditions do not hold: {made.certificate.advice()}")


def check_target(cloud: Path, out: Path | None) -> Path:
    """Where the mesh goes; never onto the points themselves."""
    target = out if out is not None else Path(f"{cloud.stem}_mesh.ply")
    if target.suffix.lower() not in (".ply", ".obj", ".stl", ".npz"):
        raise CnfError(f"a mesh is written as .ply, .obj, .stl or .npz; got {str(target)!r}")
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
