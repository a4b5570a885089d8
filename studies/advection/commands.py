"""`python -m studies advection`: the paper's advection tables, ours beside them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cnf.errors import CnfError
from cnf.reports.terminal import check_folder, open_console, say, split_words

if TYPE_CHECKING:
    from rich.console import Console

    from studies.advection.study import Case


def advection(
    levels: Annotated[
        list[str] | None,
        typer.Option(metavar="NUMBERS", help="Noise of the grid, such as 0.01,0.1; default: the paper's five."),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="From random-fourier, rbf, skewed-rbf, skewed-rbf-paper, siren, with commas; default: all.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many random grids per level.")] = 1,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Steps of skewed-rbf, by default 10; skewed-rbf-paper takes 10 times, siren 200 times as many.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A look: 16 x 16 instead of 32 x 32 points, 3 steps; not the paper's size.")
    ] = False,
    out: Annotated[Path, typer.Option("--out", help="Folder for tables, CSV and pictures.", show_default=True)] = Path(
        "results/studies/advection"
    ),
) -> None:
    """The paper's advection tables, ours beside them: errors, learning curves, training and inference time.

    Takes about a quarter of an hour, one or two minutes with --quick. The CSV files are written after every case, so
    Ctrl-C loses only the one that is running.
    """
    from cnf.demo.advection import LEVELS
    from studies.advection.study import STUDY_METHODS, check_study

    asked = [_number(word) for word in split_words(levels)] or list(LEVELS)
    names = split_words(methods) or list(STUDY_METHODS)
    side, budget = (16, steps or 3) if quick else (32, steps or 10)
    check_study(asked, names, seeds, budget)
    folder = check_folder(out)
    say(f"u_t + 0.1 u_x = 0, u(x, 0) = sin(2 pi x): {side * side} conditions on grids perturbed by Gaussian noise")
    cases: list[Case] = []
    try:
        _run_advection(open_console(), cases, asked, range(seeds), names, side, budget, folder)
    except KeyboardInterrupt:
        if cases:
            say("\ninterrupted; what is finished:")
            _report_advection(cases, folder, side)
        raise
    _report_advection(cases, folder, side)


def _run_advection(
    console: Console,
    cases: list[Case],
    levels: list[float],
    seeds: range,
    methods: list[str],
    side: int,
    steps: int,
    folder: Path,
) -> None:
    """Every case into `cases`, their numbers into the folder after each."""
    from cnf.demo.running import SCAN, SPREADS
    from cnf.reports.progress import part
    from cnf.training.bandwidth import ScanStep
    from studies.advection.baselines import LOOKS
    from studies.advection.report import write_numbers
    from studies.advection.study import PACE, study_case

    for level in levels:
        for seed in seeds:
            say(f"\nperturbation {level:g}" + (f", seed {seed}" if len(seeds) > 1 else ""))
            for method in methods:
                soft = method in ("siren", "skewed-rbf-paper")
                own = steps * PACE.get(method, 0)
                total = min(own, LOOKS) if method == "siren" else own + (0 if soft else SCAN)
                with part(console, method, total + (SPREADS if method == "skewed-rbf" else 0)) as shown:

                    def tell(trial: ScanStep, shown=shown, soft=soft) -> None:
                        if not soft:
                            shown.tell(trial)
                        elif shown.bar is not None:
                            detail = f"step {trial.value:g}: loss {trial.loss:.3g}"
                            shown.bar.update(shown.task, advance=1, detail=detail)

                    case = study_case(level, method, seed, side=side, steps=steps, report=tell)
                    shown.result = f"RMSE {case.rmse:.1e}, worst residual {case.residual:.1e}"
                cases.append(case)
                write_numbers(cases, folder)


def _report_advection(cases: list[Case], folder: Path, side: int) -> None:
    """Print the tables; write tables and pictures."""
    from studies.advection import report as reports

    grids = len({c.seed for c in cases})
    size = "" if side == 32 else f" The paper has 1024 conditions, this run {side * side}."
    notes = (
        f"RMSE and nRMSE as PDEBench defines them, on 101 x 101 points of the unit square; {grids} random grid"
        f"{'s, the worst shown' if grids > 1 else ''} per level.{size} Residuals are absolute. Seconds are medians; "
        "training is everything until the field is there, inference is one evaluation at the 10201 points. The paper "
        "gives neither its steps nor its hardware, nor at how many points it timed inference."
    )
    if any(c.method == "skewed-rbf-paper" for c in cases):
        notes += (
            " skewed-rbf-paper is the paper's objective with a start, learning rate and weights of ours, for it gives "
            "none; its error depends on them."
        )
    say(f"\n{reports.study_text(cases)}\n\n{notes}")
    reports.write_numbers(cases, folder)
    reports.write_tables(cases, folder, notes)
    reports.plot_errors(cases, folder / "advection_errors.png")
    if any(c.curve.step for c in cases):
        reports.plot_curves(cases, folder / "advection_curves.png")
    level = 0.1 if any(c.perturbation == 0.1 for c in cases) else cases[0].perturbation
    seed = cases[0].seed
    maps = [c for c in cases if c.perturbation == level and c.seed == seed]
    reports.plot_maps(maps, folder / "advection_maps.png")
    say(f"\ntables, CSV and pictures are in {folder}")


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise CnfError(f"--levels takes numbers, such as 0.01,0.1; got {word!r}") from None
