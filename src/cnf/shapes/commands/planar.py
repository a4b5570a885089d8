"""`cnf shape 2d`: a distance field and a curve through points of the plane, with exact normals."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cnf.errors import CnfError, CnfWarning
from cnf.reports.results import check_target
from cnf.reports.terminal import Seed, open_console, say

if TYPE_CHECKING:
    from cnf.reports.progress import Part
    from cnf.shapes.clouds.preparation import Prepared
    from cnf.shapes.planar.curve import PlanarCurve
    from cnf.shapes.planar.fields import Size

shape = typer.Typer(help="Fields and curves through points with normals.", no_args_is_help=True, rich_markup_mode=None)

Epochs = Annotated[int | None, typer.Option(min=1, help="Of the training; by default the paper's 50.")]


@shape.callback()
def root() -> None:
    """Fields and curves through points with normals."""


@shape.command("2d")
def fit_2d(
    file: Annotated[Path, typer.Argument(metavar="POINTS", help="CSV with columns x, y and, if known, nx, ny.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for curve, field and pictures.", show_default=True)] = Path(
        "results/shape"
    ),
    normals: Annotated[
        str, typer.Option(metavar="KIND", help="exact: grad d = n; pseudo: d = +-offset beside the points.")
    ] = "exact",
    offset: Annotated[
        float | None, typer.Option(metavar="LENGTH", help="Of pseudo-normals; default: half the spacing.")
    ] = None,
    neighbours: Annotated[int, typer.Option(min=2, help="Points that decide a normal that is not given.")] = 6,
    train: Annotated[
        bool, typer.Option("--train", help="Train a hypernet kernel on the eikonal loss; few points only.")
    ] = False,
    epochs: Epochs = None,
    quick: Annotated[bool, typer.Option("--quick", help="With --train: small networks, 20 epochs.")] = False,
    seed: Seed = 0,
) -> None:
    """A distance field and a curve through points of the plane, exact at every point.

    Normals that are not given are estimated and oriented. Exit code 0 only if every condition holds.
    """
    from cnf.reports.progress import part
    from cnf.shapes.planar.curve import check_curve, fit_curve
    from cnf.shapes.report.curve import write_curve

    if not train and (quick or epochs is not None):
        raise CnfError("--quick and --epochs belong to --train; add it, or leave them out")
    if offset is not None and (normals != "pseudo" or not 0 < offset < float("inf")):
        raise CnfError(f"--offset is a positive length for --normals pseudo; got {offset:g} with --normals {normals}")
    check_target(out)
    prepared = _read(file, neighbours, seed)
    check_curve(prepared, normals, train)
    size = _size(quick, epochs)
    say(f"{len(prepared)} points, spacing {prepared.spacing * prepared.scale:.3g}, {normals} normals")
    for note in prepared.notes:
        say(f"  {note}")
    with part(open_console(), "field", size.epochs if train else 0) as shown:

        def tell(step: int, loss: float) -> None:
            show_loss(shown, step, loss)

        found = fit_curve(prepared, normals, offset=offset, train=train, size=size, seed=seed, report=tell)
        shown.result = found.chosen
    say(f"\n{found.field.certificate}\n\n{_describe(found)}")
    made = write_curve(found, out)
    say(f"\nwritten to {out}: {', '.join(path.name for path in made)}")
    if not found.field.certificate.exact:
        raise CnfError(f"the conditions do not hold: {found.field.certificate.advice()}")


def show_loss(shown: Part, step: int, loss: float) -> None:
    if shown.bar is not None:
        shown.bar.update(shown.task, completed=step, detail=f"eikonal loss {loss:.3g}")  # type: ignore[arg-type]


def _read(file: Path, neighbours: int, seed: int) -> Prepared:
    from cnf.shapes.clouds.preparation import prepare_cloud
    from cnf.shapes.files.reading import read_cloud

    cloud = read_cloud(file)
    if cloud.dimension != 2:
        raise CnfError(f"{file} has points with {cloud.dimension} coordinates; cnf shape 2d takes x and y (and nx, ny)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)  # they are among the notes
        return prepare_cloud(cloud, neighbours=neighbours, seed=seed)


def _size(quick: bool, epochs: int | None) -> Size:
    from cnf.shapes.planar.fields import QUICK, Size

    size = QUICK if quick else Size()
    return size if epochs is None else replace(size, epochs=epochs)


def _describe(found: PlanarCurve) -> str:
    """What came out, in words."""
    count = len(found.curves)
    curves = f"{count} curve{'' if count == 1 else 's'}, {found.closed} closed"
    dropped = f"; {found.dropped} zero level sets that pass by no point were left out" if found.dropped else ""
    return (
        f"worst |d| at the points {found.value_error * found.prepared.scale:.1e}, mean normal error "
        f"{found.normal_error:.1e}; {curves}{dropped}"
    )
