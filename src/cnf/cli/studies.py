"""`cnf study`: the paper's comparisons of bases, as commands that print their table and keep their numbers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cnf.cli.terminal import Seed, check_folder, open_console, say
from cnf.errors import CnfError

if TYPE_CHECKING:
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


def _write_text(path: Path, text: str) -> None:
    from cnf.cli.runs import write_text

    write_text(path, f"{text}\n")
