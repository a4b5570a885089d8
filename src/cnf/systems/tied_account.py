"""What is known of tied cells, for their certificate."""

from __future__ import annotations

from collections.abc import Sequence

from cnf.constraints import Constraint
from cnf.solvers.marching import MarchedFactor
from cnf.solvers.null_space import TiedFactor
from cnf.solvers.spread import SpreadFactor
from cnf.systems.formulation import Account

BEYOND_ROUNDING = 1e4  # times the tolerance from which on a miss is no rounding


class TiedAccount(Account):
    """Cells factored one by one, ties by one sparse system; the `loose` ones among them are no conditions.

    `at_once` is the share of the cells that one such system ties.
    """

    remedy = "other cells: a target in [solve] refines them where the equations are off"

    def __init__(self, factor: TiedFactor | MarchedFactor | SpreadFactor, cells: int, loose: int = 0, note: str = ""):
        self.name = f"null spaces of {cells} cells, tied by {factor.ties.count - loose} conditions"
        self._rank = factor.rank - loose  # each has an unknown of its own: none depends on the others
        self.at_once = factor.at_once
        self.notes = (note,) if note else ()

    def rank(self) -> int:
        return self._rank

    def condition(self) -> float:
        return float("nan")

    def reason_for(self, violated: Sequence[Constraint], times: float) -> str:
        if times <= BEYOND_ROUNDING:
            return (
                "patches round by more than the tolerance here, thin ones and those that a boundary cuts most of all; "
                f"a tolerance {times:.0e} times as large is met"
            )
        return (
            "conditions contradict each other, where they meet or on the whole, or cells are too coarse or too "
            "distorted to meet them all; see the hints, and the estimate of the error"
        )
