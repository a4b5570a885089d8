"""`cnf export`: a saved field, or a mesh, as a file of another program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cnf.errors import CnfError, FileError
from cnf.reports.terminal import say

if TYPE_CHECKING:
    from cnf.solution import Solution

MODELS = {"onnx": ".onnx", "torchscript": ".pt", "pt2": ".pt2"}
SAMPLES = {"npz": ".npz", "vtk": ".vti", "gltf": ".glb"}
ENDINGS = {**MODELS, **SAMPLES}
FIELDS = ("solution.pt", "field.pt")  # in the folders of `cnf solve` and `cnf shape 2d`
MESHES = (".ply", ".obj", ".stl")
PRECISIONS = ("float32", "float64")


def export(
    file: Annotated[
        Path,
        typer.Argument(
            help="A field that was saved, a folder of cnf solve or cnf shape 2d, or a mesh of cnf reconstruct."
        ),
    ],
    to: Annotated[str, typer.Option(metavar="|".join(ENDINGS), help="What to write.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Where; default: the name of the file with another ending, or field."),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(metavar="|".join(PRECISIONS), help="Of a model; default: the field's, float32 for onnx."),
    ] = None,
    points: Annotated[int | None, typer.Option(min=2, help="Of a grid, along every coordinate.")] = None,
) -> None:
    """Write a solved field, or a mesh, for other programs."""
    if to not in ENDINGS:
        raise CnfError(f"--to is one of {', '.join(ENDINGS)}; got {to!r}")
    if precision is not None and (precision not in PRECISIONS or to not in MODELS):
        raise CnfError(f"--precision is {' or '.join(PRECISIONS)}, of {', '.join(MODELS)}; got {precision!r} for {to}")
    if points is not None and to not in SAMPLES:
        raise CnfError(f"--points is of a grid: {', '.join(SAMPLES)}; {to} takes any points")
    from cnf.exporting.targets import choose_target

    source = field_in(file)
    is_mesh = source.suffix.lower() in MESHES
    if points is not None and is_mesh:
        raise CnfError(f"--points is of the grid of a field; {source} is a mesh, which has its own")
    target = choose_target(source, ENDINGS[to], out)
    exported = (export_mesh(source, target, to), "") if is_mesh else export_field(source, target, to, precision, points)
    written, told = exported
    say(f"{written} written, {written.stat().st_size / 1024:.0f} kB{told}")


def field_in(file: Path) -> Path:
    """The file itself, or the field in a folder of results."""
    if not file.is_dir():
        return file
    found = [file / name for name in FIELDS if (file / name).is_file()]
    if not found:
        raise FileError(f"there is no field in {file}; expected {' or '.join(FIELDS)}, as cnf solve --out writes them")
    return found[0]


def export_field(source: Path, target: Path, to: str, precision: str | None, points: int | None) -> tuple[Path, str]:
    """The file, and what to say of it."""
    solution = solution_in(source)
    if to in SAMPLES:
        from cnf.exporting.samples import write_sample

        return write_sample(solution, target, to, points), ""
    import torch

    from cnf.exporting.models import write_measured

    dtype = None if precision is None else getattr(torch, precision)
    written, difference = write_measured(solution, target, to, dtype)
    return written, f"; measured {difference}"


def solution_in(source: Path) -> Solution:
    from cnf.loading import load

    return load(source).eval().settle(measure=False)


def export_mesh(source: Path, target: Path, to: str) -> Path:
    """A mesh: as arrays, or as glTF."""
    from cnf.exporting.samples import write_surface
    from cnf.meshes.reading import read_surface
    from cnf.reports.arrays import write_arrays

    mesh = read_surface(source)
    if to == "gltf":
        return write_surface(target, mesh)
    if to == "npz":
        return write_arrays(target, {"points": mesh.vertices, "faces": mesh.faces})
    raise CnfError(f"{source} is a mesh, which is written as gltf or npz; {to} is for fields that were saved")


def add_to(app: typer.Typer) -> None:
    """Put the command into `app`."""
    app.command()(export)
