"""Problems with an error asked for: one line each about what came out, beside what was asked.

In come cases, out goes the number of those that missed. Times are processor seconds, everything included.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import cnf
from cnf.errors import CnfWarning


def known(answer: cnf.Answer) -> float:
    """The error against the exact solution that the problem gives, of the worst channel."""
    assert answer.errors is not None
    return max(answer.errors.values())


@dataclass(frozen=True)
class Case:
    """Entries of a `cnf.Problem`, the error and the seconds asked for, and how the error is measured."""

    name: str
    entries: dict[str, object]
    asked: float
    seconds: float = math.inf  # nothing asked
    error: Callable[[cnf.Answer], float] = known


def solved(entries: dict[str, object]) -> tuple[cnf.Answer, float]:
    """The answer and the seconds it took."""
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)
        answer = cnf.Problem(**entries).solve()  # type: ignore[arg-type]
    return answer, time.process_time() - started


def run_cases(cases: Iterable[Case], *, estimated: bool = False, patches: bool = False) -> int:
    """How many missed the error or the seconds asked for, or are not exact; `estimated`: or have no estimate.

    With `patches` the table tells how many there are.
    """
    cases, missed = tuple(cases), 0
    width = max(len(case.name) for case in cases)
    limited = any(math.isfinite(case.seconds) for case in cases)
    head = f"{'':<{width}} {'error':>8} {'asked':>8} {'estimate':>9} {'exact':>6}"
    head += (f" {'patches':>8}" if patches else "") + f" {'conditions':>11} {'s':>6}"
    print(head + (f" {'asked':>6}" if limited else ""))
    for case in cases:
        answer, seconds = solved(case.entries)
        error, exact = case.error(answer), answer.certificate.exact
        good = error <= case.asked and seconds <= case.seconds and exact
        good = good and (math.isfinite(answer.estimate) or not estimated)
        missed += not good
        count = f" {answer.field.basis.cells.count:>8}" if patches else ""  # type: ignore[attr-defined]
        limit = f" {case.seconds:6.0f}" if math.isfinite(case.seconds) else f" {'-':>6}"
        print(
            f"{case.name:<{width}} {error:8.1e} {case.asked:8.0e} {answer.estimate:9.1e} {'yes' if exact else 'NO':>6}"
            f"{count} {answer.conditions:>11} {seconds:6.1f}{limit if limited else ''}{'' if good else '  MISSED'}",
            flush=True,
        )
    return missed
