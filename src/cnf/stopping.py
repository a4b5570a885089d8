"""Stopping: what is said of an iteration that ends without having converged."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

STEADY, SHARES = 10, (0.2, 0.9)  # steps that left such a share of what was missed: the linearisation is singular
NO_NUMBER = (
    "a condition, or its slope, is not a number at the field that the iteration came to (a division by zero, a root or "
    "logarithm of a negative number); give a start at which they are, nearer to the solution"
)
GROWS = (
    "the iterates grow beyond all bounds: the solution may blow up before the end, or there is none; ask for less "
    "time, or give a start near the solution"
)


def steady(merits: Sequence[float], norms: Sequence[float]) -> str:
    """What is said if every step left the same share of what was missed, to the end; nothing if not."""
    last = [m for m in merits if m > 0][-STEADY - 1 :]
    shares = [after / before for before, after in pairwise(last)]
    if len(shares) < STEADY or not all(SHARES[0] < s < SHARES[1] for s in shares):
        return ""
    if norms[-1] > 2 * norms[-STEADY]:  # what is missed falls beside terms that grow
        return GROWS
    return (
        f"every step leaves {shares[-1]:.0%} of what the conditions were missed by, and the solution is never reached: "
        "their linearisation is singular there. Ask for a multiple root itself (u = 0, not u^2 = 0), change a "
        "parameter a little, or give a start near another solution"
    )


def stalled(missed: Sequence[float]) -> str:
    return (
        f"after {len(missed) - 1} {'step' if len(missed) == 2 else 'steps'} the conditions are missed by "
        f"{missed[-1]:.0e} of their terms and no longer get "
        "closer. There may be no solution, or the start is too far from one: give a start near it, change a parameter "
        "step by step, or use a finer basis (a smaller bandwidth, more functions)"
    )
