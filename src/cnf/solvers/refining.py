"""Refining: weights corrected by what rows still miss, for as long as that helps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

CORRECTIONS = 4
HALF = 0.5  # of what is missing: corrections that leave more are the last
ROUNDED = float(np.finfo(np.float64).eps)  # of the weights: rows as large as one that miss less are not corrected

Off = tuple[np.ndarray, np.ndarray]  # of rows (M,) and of ties


@dataclass(frozen=True)
class Tried:
    """Weights (cells, n), after so many steps, and what they miss; `beyond` is the sum of the steps in y, if needed."""

    weights: np.ndarray
    off: Off
    beyond: np.ndarray | None = None
    steps: int = 0


def refined(step: Callable[[Tried], Tried], begun: Tried, squares: Off) -> Tried:
    """Steps from weights to better ones; `squares` are the sums of squares of every row."""
    scale = [np.maximum(np.sqrt(each), 1e-300) for each in squares]

    def size(off: Off) -> float:
        with np.errstate(over="ignore"):  # rows may vanish around zero: infinite is as far off as it gets
            return float(sum(np.linalg.norm(a / b) for a, b in zip(off, scale, strict=True)))

    found = begun
    for k in range(1 + CORRECTIONS):
        better = step(found)
        gain = size(better.off) / max(size(found.off), 1e-300)
        if k and gain > 1:
            break
        found = better
        if k and (gain > HALF or size(found.off) <= ROUNDED * np.linalg.norm(found.weights)):
            break
    return found
