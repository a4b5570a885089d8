"""Answer: the solved problem with everything that was measured about it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cnf.certificate.certificate import Certificate
from cnf.errors import ProblemError
from cnf.field import ConstrainedField
from cnf.pde.problems.problem import Problem
from cnf.pde.tuning.trial import RESOLVED, Trial, Tuning
from cnf.solution import Solution

GRID = {1: 1001, 2: 101, 3: 41}  # points per coordinate, by dimension
NEAR_MISS = 1e-5  # relative residual that a user might accept
MOST_GRID_POINTS = 5_000_000


@dataclass(frozen=True)
class Grid:
    """A regular grid over the bounding box: `points` (P, D), first coordinate slowest; NaN outside the domain."""

    axes: tuple[Tensor, ...]
    points: Tensor
    inside: Tensor  # (P,) bool
    values: Tensor  # (P, C)
    exact: Tensor | None  # (P, C), NaN for channels whose exact solution is not known

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(axis) for axis in self.axes)


@dataclass(frozen=True, eq=False)
class Answer:
    """`answer(points)` is the field; the rest says how far it can be trusted."""

    problem: Problem
    field: ConstrainedField
    solution: Solution
    tuning: Tuning
    held_out: dict[str, float]  # relative residual where the equation was not imposed, NaN if it has no other points
    disagreement: float | None  # relative difference to another solution of the same conditions: estimates the error
    errors: dict[str, float] | None  # relative L2 error of each channel, if the exact solution is given
    seconds: float
    measured: float | None = None  # the error as measured against a finer field, where there is one
    choice: str = ""  # why it was solved the way it was, if that was left open

    def __call__(self, points: Tensor) -> Tensor:
        """(P, D) -> (P, C)."""
        return self.solution(points)

    @property
    def certificate(self) -> Certificate:
        return self.solution.certificate

    @property
    def conditions(self) -> int:
        return self.certificate.conditions

    @property
    def worst_held_out(self) -> float:
        """The largest relative held-out residual, NaN if none could be measured."""
        known = [value for value in self.held_out.values() if not math.isnan(value)]
        return max(known, default=math.nan)

    @property
    def estimate(self) -> float:
        """An estimate of the relative error, NaN if there is none.

        The larger of what the equations miss between the points and the difference to a second solution. No bound: an
        ill-posed problem amplifies the former, and two fields may share a mistake. On patches, the difference to a
        field of higher degree on the same cells, and not less than what values on the boundary miss between points.
        """
        if self.measured is not None:
            return self.measured
        found = [v for v in (self.worst_held_out, self.disagreement) if v is not None and not math.isnan(v)]
        return max(found, default=math.nan)

    @property
    def source(self) -> str:
        """Where the estimate comes from."""
        if self.measured is not None:
            return "a field of higher degree, values on the boundary between the points"
        return "residual between the points, second solution"

    @property
    def off_target(self) -> str:
        """What there is to say if the estimate misses what was asked for; empty if nothing was asked or it does not."""
        if self.measured is None or self.measured <= (target := self.problem.solving.target or RESOLVED):
            return ""
        return (
            f"the target of {target:.0e} is not reached: the estimate of the relative error is {self.measured:.1e}; "
            "data and coefficients that jump, and layers thinner than cells can become, need more than patches have"
        )

    @property
    def resolved(self) -> bool:
        """False if the equations hold at their points but visibly not between them; on patches, by the estimate.

        Second derivatives are off near any corner, however right the field is.
        """
        if self.measured is not None:
            return self.measured <= RESOLVED  # what is not known is not resolved
        return not self.worst_held_out > RESOLVED

    def verdict(self) -> list[str]:
        """What to think of it, in sentences."""
        lines = []
        certificate = self.certificate
        if certificate.exact and self.resolved:
            lines.append(f"every condition holds: worst relative residual {certificate.worst:.1e}")
        elif certificate.exact:
            lines.append(f"every condition holds at its points: worst relative residual {certificate.worst:.1e}, but")
        else:
            lines.append(
                f"NOT EXACT: worst relative residual {certificate.worst:.1e} (tolerance {certificate.tolerance:.0e}): "
                f"{certificate.advice()}"
            )
        if not self.resolved:
            lines.append(
                f"NOT RESOLVED: between the points the equations are off by {self.worst_held_out:.1e} (relative). "
                "Use more points; if that does not help, the equations contradict each other or their data jump"
            )
        found = self.problem.check()
        lines += [f"hint: {hint}" for hint in (found.missing if self.resolved and certificate.exact else found.hints)]
        if (better := self.passed_over()) is not None:
            lines.append(
                f"note: {better} is {self.tuning.best.residual / better.residual:.0f} times better between the points, "
                f"but misses its conditions by {better.missed:.0e}; a larger tolerance in [solve] would take it"
            )
        lines += [f"NOT REACHED: {self.off_target}"] if self.off_target else []
        lines += [f"note: {self.choice}"] if self.choice else []
        if self.tuning.interrupted:
            lines.append("tuning was interrupted: this is the best field found so far")
        return lines

    def passed_over(self) -> Trial | None:
        """A trial that was much better between the points, but a little off at them."""
        best = self.tuning.best
        others = [t for t in self.tuning.trials if t.conditions == best.conditions and t.missed <= NEAR_MISS]
        found = min(others, key=lambda t: t.residual, default=best)
        return found if best.exact and not found.exact and found.residual < 0.1 * best.residual else None

    def grid(self, counts: int | Sequence[int] | None = None) -> Grid:
        """The field on a regular grid over the bounding box, `counts` points per coordinate."""
        return make_grid(self.problem, self.solution, counts)

    def __repr__(self) -> str:
        error = "" if self.errors is None else f", error {max(self.errors.values()):.1e}"
        return f"Answer({self.problem.title!r}: {self.certificate.summary()}{error})"


def make_grid(problem: Problem, solution: Solution, counts: int | Sequence[int] | None = None) -> Grid:
    """Field and exact solution on a regular grid."""
    domain = problem.domain
    dimension = domain.dimension
    if counts is None:
        counts = GRID.get(dimension, 15)
    per_axis = [counts] * dimension if isinstance(counts, int) else list(counts)
    if len(per_axis) != dimension or min(per_axis) < 2 or math.prod(per_axis) > MOST_GRID_POINTS:
        raise ProblemError(
            f"a grid has at least 2 points per coordinate and at most {MOST_GRID_POINTS} in all; got {per_axis} for "
            f"{dimension} coordinates"
        )
    axes = tuple(
        torch.linspace(a, b, n, dtype=torch.float64)
        for a, b, n in zip(domain.lower, domain.upper, per_axis, strict=True)
    )
    points = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).reshape(-1, dimension)
    extent = max(b - a for a, b in zip(domain.lower, domain.upper, strict=True))
    inside = domain.contains(points, -1e-9 * extent)
    channels = problem.space.channels
    values = torch.full((points.shape[0], len(channels)), math.nan, dtype=torch.float64)
    exact = None
    with torch.no_grad():
        values[inside] = solution(points[inside]).to(torch.float64)
        if problem.exact is not None:
            exact = torch.full_like(values, math.nan)
            for k, channel in enumerate(channels):
                if channel in problem.exact:
                    exact[inside, k] = problem.exact[channel](points[inside]).reshape(-1)
    return Grid(axes, points, inside, values, exact)


def measure_errors(problem: Problem, solution: Solution) -> dict[str, float] | None:
    """Relative L2 error per channel with a known exact solution (absolute where that is zero)."""
    if problem.exact is None:
        return None
    grid = make_grid(problem, solution)
    assert grid.exact is not None
    found = {}
    for k, channel in enumerate(problem.space.channels):
        if channel not in problem.exact:
            continue
        known = grid.inside & torch.isfinite(grid.exact[:, k])  # an expression may be 0/0 in a corner
        wanted, off = grid.exact[known, k], (grid.values - grid.exact)[known, k]
        scale = float(wanted.abs().max()) if len(wanted) else 0.0
        unit = scale if scale > 0 else 1.0  # squares of very small numbers would vanish
        size = float((wanted / unit).square().mean().sqrt())
        found[channel] = float((off / unit).square().mean().sqrt()) / (size or 1.0)
    return found
