"""Objectives: numbers that say how good a solved field is between its conditions, without knowing the answer.

All are losses of a solution on a natural-logarithm scale of squares, differentiable, so that they rank trials and train
covariances alike. None needs a weight set by hand: every equation is measured by its own natural size.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cnf.constraints import Constraint
from cnf.errors import TrainingError
from cnf.solution import Solution
from cnf.training.held_out import LeaveOneOut, natural_sizes, safe_log
from cnf.training.losses import Condition, Loss, TotalVariation


class HeldOutEquations(Loss):
    """The mean squared residual of the equations at other points, prepared as constraints of the same names.

    >>> space = cnf.Space("x", "u")
    >>> at, between = (space.constraint("u = x", at=cnf.Box(0, 1).grid(n), name="data") for n in (5, 9))
    >>> solution = cnf.ConstrainedField(cnf.bases.RandomFourier(space, 12, 0.8), [at]).solve()
    >>> sorted(cnf.tuning.HeldOutEquations([between]).by_equation(solution))
    ['data']
    """

    label = "held_out_equations"

    def __init__(self, checks: Sequence[Constraint], *, name: str | None = None):
        super().__init__(1.0, name)
        if not checks:
            raise TrainingError(
                "no equation of this problem can be checked at other points: each has its values only at its own "
                "points; tune by leave-one-out instead"
            )
        self.checks = tuple(checks)

    def measure(self, solution: Solution, generator: torch.Generator | None) -> Tensor:
        parts = [size.square() for size in self.by_equation(solution).values()]
        return safe_log(torch.stack(parts).mean())

    def by_equation(self, solution: Solution) -> dict[str, Tensor]:
        """Root mean square of the residual over its natural size, by name."""
        sizes = dict(zip((c.name for c in solution.constraints), natural_sizes(solution.constraints), strict=True))
        return {c.name: (solution.residual(c) / sizes[c.name]).square().mean().sqrt() for c in self.checks}


class PaperObjective(Loss):
    """Condition number plus total variation, each by its logarithm: what the paper trains its covariances on."""

    label = "condition_and_variation"

    def __init__(self, points: Tensor):
        super().__init__(1.0, None)
        self.condition, self.variation = Condition(log=True), TotalVariation(points)

    def measure(self, solution: Solution, generator: torch.Generator | None) -> Tensor:
        return self.condition(solution, generator) + safe_log(self.variation(solution, generator))


def make_objective(name: str, checks: Sequence[Constraint], inside: Tensor) -> Loss:
    """The loss called `name`: `checks` for held-out, `inside` (P, D) where the paper's variation is measured.

    >>> type(cnf.tuning.make_objective("leave-one-out", [], torch.zeros(1, 1))).__name__
    'LeaveOneOut'
    """
    if name == "held-out":
        return HeldOutEquations(checks)
    if name == "leave-one-out":
        return LeaveOneOut(log=True)
    return PaperObjective(inside)
