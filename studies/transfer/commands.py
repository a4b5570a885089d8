"""`python -m studies transfer`: a basis trained for one initial state solves others."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cnf.errors import CnfError
from cnf.reports.tables import write_text
from cnf.reports.terminal import Seed, check_folder, open_console, say

if TYPE_CHECKING:
    pass

Out = Annotated[Path | None, typer.Option("--out", help="Folder for table, CSV and pictures; none if left out.")]


def transfer(
    perturbation: Annotated[float, typer.Option(metavar="NUMBER", help="Noise of the grid.")] = 0.1,
    seed: Seed = 0,
    out: Out = None,
) -> None:
    """A basis trained for one initial state solves five others without training.

    Takes about half a minute. Errors are on the unit square, beside the paper's table.
    """
    from cnf.demo.running import SCAN, SPREADS
    from cnf.reports.progress import part
    from studies.transfer import report as reports
    from studies.transfer.study import study_transfer

    if not (math.isfinite(perturbation) and perturbation >= 0):
        raise CnfError(f"--perturbation is a standard deviation, a finite number of at least 0; got {perturbation:g}")
    folder = check_folder(out) if out is not None else None
    say(f"skewed RBF on scattered points (perturbation {perturbation:g}), trained for u(x, 0) = sin(2 pi x) only\n")
    with part(open_console(), "training", SCAN + SPREADS + 10) as shown:
        result = study_transfer(perturbation, seed, report=shown.tell)
        shown.result = f"RMSE {result.trained.rmse:.1e}, worst relative residual {result.trained.residual:.1e}"
    table = reports.transfer_table(result)
    say("\nu(x, 0) = sin(2 pi x) + mu, solved without training: RMSE and nRMSE of ours, nRMSE of the paper's")
    say(f"\n{table}")
    slowest = max(row.seconds for row in result.rows)
    worst = max(row.residual for row in result.rows)
    say(f"\nupdates take at most {slowest:.3f} s; conditions hold to {worst:.1e} (relative)")
    if folder is not None:
        write_text(folder / "transfer.txt", f"{table}\n")
        reports.write_transfer(result, folder / "transfer.csv")
        reports.plot_transfer(result, folder / "transfer.png")
        say(f"\ntable, CSV and picture are in {folder}")
