"""`cnf study normals` and `cnf shape 2d`: planar shapes with exact normals, the paper's four and your own."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cnf.cli.studies import _words, study
from cnf.cli.terminal import Seed, check_folder, open_console, say
from cnf.errors import CnfError, CnfWarning

if TYPE_CHECKING:
    from cnf.applications.shapes.planar_curve import PlanarCurve
    from cnf.applications.shapes.planar_methods import Size
    from cnf.applications.shapes.planar_study import Case
    from cnf.cli.display import Part
    from cnf.data import Prepared

shape = typer.Typer(help="Fields and curves through points with normals.", no_args_is_help=True, rich_markup_mode=None)

Epochs = Annotated[int | None, typer.Option(min=1, help="Of the training; by default the paper's 50.")]


@study.command()
def normals(
    shapes: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="From circle, line, triangle, diamond, with commas; default: all."),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="From exact, pseudo, siren, hermite, with commas; default: all."),
    ] = None,
    epochs: Epochs = None,
    seed: Seed = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="A look: small networks, 20 epochs of 300 points; not the paper's size.")
    ] = False,
    out: Annotated[Path, typer.Option("--out", help="Folder for tables, CSV and pictures.", show_default=True)] = Path(
        "results/studies/normals"
    ),
) -> None:
    """The paper's planar shapes with exact normals, beside pseudo-normals, SIREN and Hermite functions.

    Takes about three quarters of an hour on two free cores, about a minute with --quick. The CSV files are written
    after every case, so Ctrl-C loses only the one that is running.
    """
    from cnf.applications.shapes.planar_methods import QUICK, Size
    from cnf.applications.shapes.planar_shapes import SHAPES
    from cnf.applications.shapes.planar_study import METHODS, check_study

    names, ways = _words(shapes) or list(SHAPES), _words(methods) or list(METHODS)
    check_study(names, ways)
    size = QUICK if quick else Size()
    size = size if epochs is None else replace(size, epochs=epochs)
    folder = check_folder(out)
    say(
        f"d = 0 and grad d = n at 9 or 12 points; encoder 2 -> {size.hidden} -> {size.features}, {size.epochs} epochs "
        f"of {size.points} points"
    )
    cases: list[Case] = []
    try:
        _run_normals(cases, names, ways, size, seed, folder, 61 if quick else 101)
    except KeyboardInterrupt:
        if cases:
            say("\ninterrupted; what is finished:")
            _report_normals(cases, folder, size)
        raise
    _report_normals(cases, folder, size)


def _run_normals(
    cases: list[Case], shapes: list[str], methods: list[str], size: Size, seed: int, folder: Path, side: int
) -> None:
    """Every case into `cases`, their numbers into the folder after each."""
    from cnf.applications.shapes import planar_study
    from cnf.cli.display import part
    from cnf.reports.planar_shapes import write_numbers

    console, starts = open_console(), planar_study.Starts()
    for name in shapes:
        say(f"\n{name}")
        for method in methods:
            with part(console, method, size.epochs) as shown, warnings.catch_warnings():
                warnings.simplefilter("ignore", CnfWarning)  # residuals are in the table

                def tell(step: int, loss: float, shown=shown) -> None:
                    _show(shown, step, loss)

                case = planar_study.study_case(name, method, size, seed, starts=starts, side=side, report=tell)
                shown.result = f"normal error {case.after.normal_error:.1e}, eikonal loss {case.after.eikonal:.2g}"
            cases.append(case)
            write_numbers(cases, folder)


def _report_normals(cases: list[Case], folder: Path, size: Size) -> None:
    """Print the tables; write tables and pictures."""
    from cnf.applications.shapes.planar_methods import CLIP, FIXED_POINTS, Size
    from cnf.applications.shapes.planar_study import INFERENCE_POINTS
    from cnf.reports import planar_shapes as reports

    paper = Size()
    same = (size.hidden, size.features, size.points) == (paper.hidden, paper.features, paper.points)
    notes = (
        "Normal error: mean |grad d - n| over the points, by reverse-mode differentiation of the field's values. "
        "Worst |d| at the points, eikonal loss and distance RMSE (against the exact signed distance) at "
        f"{FIXED_POINTS} fixed points, all after training. Exact normals start from a circle trained with as many "
        f"points, pseudo-normals do not, as in the paper. {size.epochs} epochs of {size.points} points, Adam with lr "
        f"{size.rate:g} and gradients cut to {CLIP:g}; the width of the Gaussian starts as that of smallest eikonal "
        "loss among a few for which the conditions hold to 1e-12. Networks in the loss are evaluated in float32, "
        f"conditions in float64. SIREN makes {size.epochs * size.siren_steps} steps. Seconds are medians; inference "
        f"is one evaluation at {INFERENCE_POINTS} points. The paper names neither its hardware nor the number of "
        "points it timed." + ("" if same else " The networks are smaller than the paper's.")
    )
    say(f"\n{reports.study_text(cases)}\n\n{notes}")
    reports.write_numbers(cases, folder)
    reports.write_tables(cases, folder, notes)
    reports.plot_fields(cases, folder / "normals_fields.png")
    reports.plot_errors(cases, folder / "normals_errors.png")
    if any(c.course.step for c in cases):
        reports.plot_curves(cases, folder / "normals_curves.png")
    say(f"\ntables, CSV and pictures are in {folder}")


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
    from cnf.applications.shapes.planar_curve import check_curve, fit_curve
    from cnf.cli.display import part
    from cnf.reports.planar_curve import write_curve

    if not train and (quick or epochs is not None):
        raise CnfError("--quick and --epochs belong to --train; add it, or leave them out")
    if offset is not None and (normals != "pseudo" or not 0 < offset < float("inf")):
        raise CnfError(f"--offset is a positive length for --normals pseudo; got {offset:g} with --normals {normals}")
    folder = check_folder(out)
    prepared = _read(file, neighbours, seed)
    check_curve(prepared, normals, train)
    size = _size(quick, epochs)
    say(f"{len(prepared)} points, spacing {prepared.spacing * prepared.scale:.3g}, {normals} normals")
    for note in prepared.notes:
        say(f"  {note}")
    with part(open_console(), "field", size.epochs if train else 0) as shown:

        def tell(step: int, loss: float) -> None:
            _show(shown, step, loss)

        found = fit_curve(prepared, normals, offset=offset, train=train, size=size, seed=seed, report=tell)
        shown.result = found.chosen
    say(f"\n{found.field.certificate}\n\n{_describe(found)}")
    made = write_curve(found, folder)
    say(f"\nwritten to {folder}: {', '.join(path.name for path in made)}")
    if not found.field.certificate.exact:
        raise CnfError(f"the conditions do not hold: {found.field.certificate.advice()}")


def _show(shown: Part, step: int, loss: float) -> None:
    if shown.bar is not None:
        shown.bar.update(shown.task, completed=step, detail=f"eikonal loss {loss:.3g}")  # type: ignore[arg-type]


def _read(file: Path, neighbours: int, seed: int) -> Prepared:
    from cnf.data import prepare_cloud, read_cloud

    cloud = read_cloud(file)
    if cloud.dimension != 2:
        raise CnfError(f"{file} has points with {cloud.dimension} coordinates; cnf shape 2d takes x and y (and nx, ny)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)  # they are among the notes
        return prepare_cloud(cloud, neighbours=neighbours, seed=seed)


def _size(quick: bool, epochs: int | None) -> Size:
    from cnf.applications.shapes.planar_methods import QUICK, Size

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
