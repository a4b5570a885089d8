"""`python -m studies normals`: the paper's planar shapes with exact normals, beside other methods."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cnf.errors import CnfWarning
from cnf.reports.terminal import Seed, check_folder, open_console, say, split_words
from cnf.shapes.commands.planar import Epochs, show_loss

if TYPE_CHECKING:
    from cnf.shapes.planar.fields import Size
    from studies.normals.study import Case


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
    from cnf.shapes.planar.fields import QUICK, Size
    from studies.normals.shapes import SHAPES
    from studies.normals.study import METHODS, check_study

    names, ways = split_words(shapes) or list(SHAPES), split_words(methods) or list(METHODS)
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
    from cnf.reports.progress import part
    from studies.normals import study as planar_study
    from studies.normals.report import write_numbers

    console, starts = open_console(), planar_study.Starts()
    for name in shapes:
        say(f"\n{name}")
        for method in methods:
            with part(console, method, size.epochs) as shown, warnings.catch_warnings():
                warnings.simplefilter("ignore", CnfWarning)  # residuals are in the table

                def tell(step: int, loss: float, shown=shown) -> None:
                    show_loss(shown, step, loss)

                case = planar_study.study_case(name, method, size, seed, starts=starts, side=side, report=tell)
                shown.result = f"normal error {case.after.normal_error:.1e}, eikonal loss {case.after.eikonal:.2g}"
            cases.append(case)
            write_numbers(cases, folder)


def _report_normals(cases: list[Case], folder: Path, size: Size) -> None:
    """Print the tables; write tables and pictures."""
    from cnf.shapes.planar.fields import CLIP, FIXED_POINTS, Size
    from studies.normals import report as reports
    from studies.normals.study import INFERENCE_POINTS

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
