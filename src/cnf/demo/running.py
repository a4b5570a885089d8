"""Several advection problems one after the other, with a display of how far each is."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from rich.console import Console

from cnf.demo.advection import Advection, solve_advection
from cnf.demo.light_path import LightPath
from cnf.errors import CnfWarning
from cnf.reports.progress import part
from cnf.training.history import History

SCAN, SPREADS = 10, 5  # trials to expect


def run_advection(
    console: Console, levels: Sequence[float], seeds: Sequence[int], methods: Sequence[str], steps: int = 10
) -> list[Advection]:
    """Every combination; skewed-rbf starts from the bandwidth that rbf found, if rbf ran before it."""
    found = []
    for level in levels:
        for seed in seeds:
            bandwidth: float | None = None
            for method in methods:
                start = bandwidth if method == "skewed-rbf" else None
                total = (SCAN if start is None else 0) + (SPREADS + steps if method == "skewed-rbf" else 0)
                with part(console, method, total) as shown, warnings.catch_warnings():
                    warnings.simplefilter("ignore", CnfWarning)  # the certificates say the same, and are printed
                    result = solve_advection(level, method, seed, steps=steps, bandwidth=start, report=shown.tell)
                    shown.result = f"RMSE {result.rmse:.1e}, worst relative residual {result.residual:.1e}"
                check_finished(result.history)
                bandwidth = result.bandwidth if method == "rbf" else bandwidth
                found.append(result)
    return found


def check_finished(history: History | None) -> None:
    """Half a training is no result: `fit` ends in good order on Ctrl-C, and so it is passed on here."""
    if history is not None and history.stopped == "interrupted":
        raise KeyboardInterrupt


def describe_ends(result: LightPath) -> str:
    return f"end points off by at most {result.end_error:.1e} at any of {len(result.history)} steps"
