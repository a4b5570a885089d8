"""Line search without gradients: a coarse scan on a logarithmic scale, then a few steps of golden section.

Over the range that matters the losses used for tuning have one broad valley with a floor of rounding noise, where
gradients mean little; about ten evaluations find the valley.
"""

from __future__ import annotations

import math
from collections.abc import Callable

GOLDEN = (math.sqrt(5) - 1) / 2
LARGEST_SCAN = 40

Attempt = Callable[[float], float]


def search_line(attempt: Attempt, start: float, ratio: float, scan: int, refine: int) -> None:
    """Try start + k ratio for k = 0 ... scan - 1, go on while the best lies at an end, then narrow around it.

    All values are logarithms; `attempt` returns the loss (infinite if there is none) and keeps what was tried.
    """
    tried = [start + k * ratio for k in range(scan)]
    losses = [attempt(v) for v in tried]
    while (
        len(tried) < LARGEST_SCAN
        and math.isfinite(min(losses))
        and (at := losses.index(min(losses))) in (0, len(tried) - 1)
    ):
        where = tried[0] - ratio if at == 0 else tried[-1] + ratio
        place = 0 if at == 0 else len(tried)
        tried.insert(place, where)
        losses.insert(place, attempt(where))
    best = tried[losses.index(min(losses))]
    narrow(attempt, best - ratio, best + ratio, refine)


def narrow(attempt: Attempt, low: float, high: float, steps: int) -> None:
    """Golden section search; the caller keeps what was tried."""
    inner = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)]
    values = [attempt(v) for v in inner[: min(2, steps)]]
    for _ in range(steps - 2):
        if values[0] <= values[1]:
            high, inner[1], values[1] = inner[1], inner[0], values[0]
            inner[0] = high - GOLDEN * (high - low)
            values[0] = attempt(inner[0])
        else:
            low, inner[0], values[0] = inner[0], inner[1], values[1]
            inner[1] = low + GOLDEN * (high - low)
            values[1] = attempt(inner[1])


def walk(attempt: Attempt, start: float, known: float, step: float, most: int) -> tuple[float, float]:
    """From `start`, whose loss is `known`, step on while the loss falls; returns the best place and its loss."""
    for _ in range(most):
        found = attempt(start + step)
        if not found < known:
            break
        start, known = start + step, found
    return start, known
