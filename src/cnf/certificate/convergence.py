"""Convergence: what the iteration behind a nonlinear solve did, as plain data of its certificate."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from itertools import pairwise

LINEAR, ROUNDING = 0.25, 1e-11  # changes that fall no faster, and those that say nothing any more
SENSITIVE, CURVED = 1e3, 1e-3
RESPONDS = 1e5  # times as far as conditions are changed by: they hardly determine the field
FLAT = 1e-6


@dataclass(frozen=True)
class Convergence:
    """Newton's iteration: what the conditions missed before the first and after every step, relative to their terms."""

    start: str  # what it began with
    missed: tuple[float, ...]
    changes: tuple[float, ...]  # of the field at the points of the conditions, step by step, relative to its size
    shortened: int = 0  # steps that the line search cut short
    stopped: str = ""  # why it ended without having converged; empty if it converged
    flat: float = math.inf  # the least that the terms of a condition change with the field there, of their sizes
    sensitivity: float = math.nan  # the change of the field by the last step, over what the conditions missed before it
    response: float = math.nan  # how far the field moves with small random changes of all conditions, if that was tried

    @property
    def steps(self) -> int:
        return len(self.changes)

    @property
    def contraction(self) -> float:
        """The last change over the one before, of those that come after more than rounding; NaN if there is none."""
        rates = [after / before for before, after in pairwise(self.changes) if before > ROUNDING]
        return rates[-1] if rates else math.nan

    @property
    def singular(self) -> str:
        """What the steps say of the linearisation at the solution: in which way it is singular, or nothing.

        Next to a regular one, changes fall quadratically: the next change is about sensitivity x change^2, which is
        small, or the solution need not be the only one near. Next to a fold or a multiple root every change is about
        half the one before.
        """
        if self.flat < FLAT:
            return "a condition hardly changes with the field there"
        if self.response > RESPONDS:
            return f"the field moves {self.response:.0e} times as far as the conditions are changed by"
        last = self.changes[-3:]
        rates = [after / before if before > 0 else 0.0 for before, after in pairwise(last)]
        if len(rates) == 2 and min(rates) > LINEAR and last[-1] > ROUNDING:
            return f"changes fall by {rates[-1]:.1g} a step only"
        if last and self.sensitivity > SENSITIVE and self.sensitivity * last[-1] > CURVED:
            return f"the field moves {self.sensitivity:.0e} times as far as the conditions are missed by"
        return ""

    def held(self) -> Convergence:
        """The same where all conditions were measured and hold, whatever the iteration thought of it."""
        return replace(self, stopped="")

    def verdict(self, exact: bool, violated: bool, rank: int, conditions: int, unknowns: int) -> str:
        """What is known of the solution, in a few words, from the rank of the conditions linearised around it."""
        if self.stopped:
            return "NOT CONVERGED"
        if violated:
            return "converged as far as rounding lets it"
        if not exact:
            return "converged; not all conditions were measured"
        if rank < conditions:
            return "a solution; whether it is the only one near is not known, for its linearisation is singular"
        if rank < unknowns:
            slow = f" ({self.singular}: they leave much room, or are nearly singular)" if self.singular else ""
            return (
                f"a solution; the conditions leave room{slow}, and of the fields near it this has the smallest "
                "weights; other starts may lead to others"
            )
        if self.singular:
            return (
                "a solution; whether it is the only one near is not known, for its linearisation is nearly singular "
                f"({self.singular}): a fold, a bifurcation or a multiple root may be here"
            )
        return "a solution, locally unique; other starts may lead to others"

    def lines(self, verdict: str) -> list[str]:
        """For a certificate that is printed, with what it says of the solution."""
        cut = f", {self.shortened} of them cut short" if self.shortened else ""
        rate = "" if math.isnan(self.contraction) else f", contraction {self.contraction:.0e}"
        last = f", last change {self.changes[-1]:.0e}" if self.changes else ""
        steps = "1 step" if self.steps == 1 else f"{self.steps} steps"
        return [f"Newton from {self.start}: {steps}{cut}{last}{rate}", verdict]

    def to_dict(self) -> dict[str, object]:
        plain = asdict(self)
        return plain | {
            "missed": [m if math.isfinite(m) else None for m in self.missed],
            "changes": [c if math.isfinite(c) else None for c in self.changes],
            "flat": self.flat if math.isfinite(self.flat) else None,
            "steps": self.steps,
            "contraction": self.contraction if math.isfinite(self.contraction) else None,
            "response": self.response if math.isfinite(self.response) else None,
            "sensitivity": self.sensitivity if math.isfinite(self.sensitivity) else None,
        }
