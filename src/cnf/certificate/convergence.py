"""Convergence: what the iteration behind a nonlinear solve did, as plain data of its certificate."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Convergence:
    """Newton's iteration: what the conditions missed before the first and after every step, relative to their terms."""

    start: str  # what it began with
    missed: tuple[float, ...]
    changes: tuple[float, ...]  # of the field at the points of the conditions, step by step, relative to its size
    shortened: int = 0  # steps that the line search cut short
    stopped: str = ""  # why it ended without having converged; empty if it converged

    @property
    def steps(self) -> int:
        return len(self.changes)

    @property
    def contraction(self) -> float:
        """The last change over the one before; NaN if there are not two."""
        changes = [c for c in self.changes if c > 0]
        return changes[-1] / changes[-2] if len(changes) > 1 else math.nan

    def verdict(self, exact: bool, rank: int, conditions: int, unknowns: int) -> str:
        """What is known of the solution, in a few words, from the rank of the conditions linearised around it."""
        if self.stopped:
            return "NOT CONVERGED"
        if not exact:
            return "converged as far as rounding lets it"
        if rank < conditions:
            return "a solution; whether it is the only one near is not known, for its linearisation is singular"
        if rank < unknowns:
            return "a solution; the conditions leave room, and of the fields near it this has the smallest weights"
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
            "steps": self.steps,
            "contraction": self.contraction if math.isfinite(self.contraction) else None,
        }
