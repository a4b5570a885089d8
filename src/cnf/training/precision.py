"""Precision: networks of a basis evaluated in another precision inside losses; the conditions keep the field's.

The one way that `fit(precision=...)` and the terms of `cnf.losses` take: the solution that a loss sees.
"""

from __future__ import annotations

import torch

from cnf.errors import ConstraintError, TrainingError
from cnf.solution import Solution

PRECISIONS = (torch.float32, torch.float64)


def check_precision(precision: object, what: str = "") -> torch.dtype | None:
    """None, or one of the precisions there are; `what` leads the error."""
    if precision is not None and precision not in PRECISIONS:
        raise TrainingError(f"{what}precision is torch.float32 or torch.float64; got {precision!r}")
    return precision


def seen_in(precision: torch.dtype | None, solution: Solution, what: str = "") -> Solution:
    """The same solution, its basis functions evaluated in that precision; None: as it is."""
    if precision is None:
        return solution
    try:
        return solution.in_precision(precision)
    except ConstraintError as error:
        raise TrainingError(f"{what}{error}; leave precision out") from None
