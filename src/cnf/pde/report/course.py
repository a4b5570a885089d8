"""What is said of an iteration, a continuation and time in windows: tables in words, for page, terminal and files."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cnf.reports.tables import Table

if TYPE_CHECKING:
    from cnf.pde.problems.answer import Answer
    from cnf.pde.problems.course import Window

UNKNOWN = "-"


def newton_facts(answer: Answer) -> dict[str, str]:
    """What Newton's iteration did, what is known of the solution, values passed through, windows: label -> text."""
    lines = (line.removeprefix("Newton ") for line in answer.certificate.newton)
    facts = dict(zip(("newton", "solution"), lines, strict=False))
    if answer.passed:
        facts["continuation"] = "; ".join(passed.describe() for passed in answer.passed)
    if answer.course is not None:
        facts["windows"] = answer.course.describe()
    return facts


def continuation_table(answer: Answer) -> Table:
    """The values that a continuation went through, in order."""
    names = list(answer.passed[0].values)
    rows = [
        [
            *(f"{passed.values[name]:.6g}" for name in names),
            passed.steps if passed.steps else None,
            f"{passed.seconds:.1f}",
            "solved" if passed.found else "no solution found: a smaller step",
        ]
        for passed in answer.passed
    ]
    return Table([*names, "Newton steps", "seconds", "result"], rows, left=["result"])


def course_table(answer: Answer) -> Table:
    """The windows of time; columns that no window has are left out."""
    course = answer.course
    assert course is not None
    columns = {
        "from": [f"{w.start:.4g}" for w in course.windows],
        "to": [f"{w.end:.4g}" for w in course.windows],
        "cells": [UNKNOWN if w.cells is None else str(w.cells) for w in course.windows],
        "Newton steps": [UNKNOWN if w.steps is None else str(w.steps) for w in course.windows],
        "between the points": [_number(w.between) for w in course.windows],
        "estimate": [_number(w.estimate) for w in course.windows],
        "of the whole": [_share(w) for w in course.windows],
        "error": [_number(w.error) for w in course.windows],
    }
    known = {name: cells for name, cells in columns.items() if set(cells) != {UNKNOWN}}
    return Table(list(known), list(zip(*known.values(), strict=True)), left=0)


def _number(value: float) -> str:
    return UNKNOWN if math.isnan(value) else f"{value:.1e}"


def _share(window: Window) -> str:
    if math.isnan(window.share):
        return UNKNOWN
    return "< 1 %" if 0 < window.share < 0.005 else f"{100 * window.share:.0f} %"
