"""`cnf study`: the paper's comparisons of bases, as commands that print their tables and keep their numbers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cnf.cli.terminal import Seed, check_folder, open_console, say
from cnf.errors import CnfError

if TYPE_CHECKING:
    from rich.console import Console

    from cnf.applications.advection_study import Case
    from cnf.applications.conditioning import Conditioning

study = typer.Typer(help="Rerun the paper's studies of bases.", no_args_is_help=True, rich_markup_mode=None)

Out = Annotated[Path | None, typer.Option("--out", help="Folder for table, CSV and pictures; none if left out.")]


@study.command()
def conditioning(
    points: Annotated[int, typer.Option(help="How many points, a square number (paper: 4096).")] = 256,
    parameters: Annotated[float, typer.Option(metavar="NUMBER", help="Parameters per basis (paper: 1.3e6).")] = 1e5,
    steps: Annotated[int, typer.Option(min=1, help="Training steps.")] = 60,
    seed: Seed = 0,
    out: Out = None,
) -> None:
    """Condition number of four bases while they are trained for it.

    The default takes well under two minutes; the paper's size (--points 4096 --parameters 1.3e6) takes hours on a small
    machine, nearly all of them for the hypernet.
    """
    from cnf.applications.conditioning import BASES, Progress, check_study, train_basis
    from cnf.cli.display import part
    from cnf.reports import studies

    check_study(points, parameters, steps, seed)
    folder = check_folder(out) if out is not None else None
    console = open_console()
    say(f"{points} points, about {parameters:g} parameters, {steps} steps of Adam on the log condition number\n")
    results: list[Conditioning] = []
    for name in BASES:
        with part(console, name, steps) as shown:

            def tell(progress: Progress, shown=shown) -> None:
                if shown.bar is not None:
                    shown.bar.update(shown.task, advance=1, detail=f"condition {progress.condition:.1e}")

            results.append(train_basis(name, points, parameters, steps, seed, report=tell))
            shown.result = f"condition {results[-1].start:.1e} to {results[-1].end:.1e}"
    table = studies.conditioning_table(results)
    say(f"\n{table}")
    if folder is not None:
        _write_text(folder / "conditioning.txt", table)
        studies.write_conditioning(results, folder / "conditioning.csv")
        title = f"{points} points, {parameters:g} parameters: trained for the condition number alone"
        studies.plot_conditioning(results, folder / "conditioning.png", title)
        say(f"\ntable, CSV and picture are in {folder}")


@study.command()
def transfer(
    perturbation: Annotated[float, typer.Option(metavar="NUMBER", help="Noise of the grid.")] = 0.1,
    seed: Seed = 0,
    out: Out = None,
) -> None:
    """A basis trained for one initial state solves five others without training.

    Takes about half a minute. Errors are on the unit square, beside the paper's table.
    """
    from cnf.applications.transfer import study_transfer
    from cnf.cli.display import part
    from cnf.cli.runs import SCAN, SPREADS
    from cnf.reports import studies

    if not (math.isfinite(perturbation) and perturbation >= 0):
        raise CnfError(f"--perturbation is a standard deviation, a finite number of at least 0; got {perturbation:g}")
    folder = check_folder(out) if out is not None else None
    say(f"skewed RBF on scattered points (perturbation {perturbation:g}), trained for u(x, 0) = sin(2 pi x) only\n")
    with part(open_console(), "training", SCAN + SPREADS + 10) as shown:
        result = study_transfer(perturbation, seed, report=shown.tell)
        shown.result = f"RMSE {result.trained.rmse:.1e}, worst relative residual {result.trained.residual:.1e}"
    table = studies.transfer_table(result)
    say("\nu(x, 0) = sin(2 pi x) + mu, solved without training: RMSE and nRMSE of ours, nRMSE of the paper's")
    say(f"\n{table}")
    slowest = max(row.seconds for row in result.rows)
    worst = max(row.residual for row in result.rows)
    say(f"\nupdates take at most {slowest:.3f} s; conditions hold to {worst:.1e} (relative)")
    if folder is not None:
        _write_text(folder / "transfer.txt", table)
        studies.write_transfer(result, folder / "transfer.csv")
        studies.plot_transfer(result, folder / "transfer.png")
        say(f"\ntable, CSV and picture are in {folder}")


@study.command()
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
    from cnf.applications.advection import LEVELS
    from cnf.applications.advection_study import STUDY_METHODS, check_study

    asked = [_number(word) for word in _words(levels)] or list(LEVELS)
    names = _words(methods) or list(STUDY_METHODS)
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
    from cnf.applications.advection_baselines import LOOKS
    from cnf.applications.advection_study import PACE, study_case
    from cnf.cli.display import part
    from cnf.cli.runs import SCAN, SPREADS
    from cnf.reports.advection_study import write_numbers
    from cnf.tuning.bandwidth import ScanStep

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
    from cnf.reports import advection_study as reports

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


def _words(given: list[str] | None) -> list[str]:
    """["a,b", "c"] -> ["a", "b", "c"], each once."""
    parts = [word.strip() for text in given or [] for word in text.split(",")]
    return list(dict.fromkeys(word for word in parts if word))


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise CnfError(f"--levels takes numbers, such as 0.01,0.1; got {word!r}") from None


def _write_text(path: Path, text: str) -> None:
    from cnf.cli.runs import write_text

    write_text(path, f"{text}\n")
