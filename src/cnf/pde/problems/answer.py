"""Answer: the solved problem with everything that was measured about it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from cnf.certificate.certificate import Certificate
from cnf.certificate.convergence import Convergence
from cnf.errors import ProblemError
from cnf.field import ConstrainedField
from cnf.pde.domains import Domain
from cnf.pde.patches.mesh import Mesh
from cnf.pde.patches.probes import Probes
from cnf.pde.problems.beginning import Passed
from cnf.pde.problems.course import Course
from cnf.pde.problems.iterating import disagreements, idle_notes
from cnf.pde.problems.problem import Problem
from cnf.pde.problems.recovered import Recovered
from cnf.pde.tuning.trial import RESOLVED, Trial, Tuning
from cnf.solution import Solution

GRID = {1: 1001, 2: 101, 3: 41}  # points per coordinate, by dimension; beyond, as many as make up GRID_POINTS
GRID_POINTS = 30_000
SAMPLED = 5000  # points at which errors are measured where a grid would be too coarse
NEAR_MISS = 1e-5  # relative residual that a user might accept
MOST_GRID_POINTS = 5_000_000
BESIDE = 1e-6  # of the domain: how near the inside of it must be to a point of its boundary
BEGIN_ELSEWHERE = (
    "Newton's iteration did not converge: there may be no solution, or it began too far from one; begin near it with "
    "start, or with an easier problem by continuation, in [solve]"
)
TWICE = 2.0  # the difference of two fields: as much as an estimate may be too small, seen on problems that were drawn


@dataclass(frozen=True)
class Grid:
    """A regular grid over the bounding box: `points` (P, D), first coordinate slowest; NaN outside the domain.

    >>> domain = cnf.domains.Interval(0, 1)
    >>> problem = cnf.Problem("x", domain=domain, equations={"interior": "u'' = -2", "boundary": "u = 0"}, points=12)
    >>> grid = problem.solve().grid(5)
    >>> grid.shape, grid.points.shape, [round(value, 6) for value in grid.values[:, 0].tolist()]
    ((5,), torch.Size([5, 1]), [0.0, 0.1875, 0.25, 0.1875, 0.0])
    """

    axes: tuple[Tensor, ...]
    points: Tensor
    inside: Tensor  # (P,) bool
    values: Tensor  # (P, C)
    exact: Tensor | None  # (P, C), NaN for channels whose exact solution is not known

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of nodes along every coordinate."""
        return tuple(len(axis) for axis in self.axes)


@dataclass(frozen=True, eq=False)
class Answer:
    """`answer(points)` is the field; the rest says how far it can be trusted.

    >>> domain = cnf.domains.Interval(0, 1)
    >>> problem = cnf.Problem("x", domain=domain, equations={"interior": "u'' = -2", "boundary": "u = 0"}, points=12)
    >>> answer = problem.solve()
    >>> answer.certificate.exact, answer.resolved
    (True, True)
    >>> round(answer(torch.tensor([[0.5]], dtype=torch.float64)).item(), 6)  # x (1 - x)
    0.25
    """

    problem: Problem
    field: ConstrainedField
    solution: Solution
    tuning: Tuning
    held_out: dict[str, float]  # mean relative residual where it was not imposed, NaN if it has no other points
    disagreement: float | None  # relative difference to a field from other points: estimates the error
    errors: dict[str, float] | None  # relative L2 error of each channel, if the exact solution is given
    seconds: float  # that it took, with everything that was tried on the way to it
    measured: float | None = None  # the error as measured against fields of other degrees, on patches
    mesh: Mesh | None = None  # the patches, if it was solved on some
    choice: str = ""  # why it was solved the way it was, if that was left open
    refused: str = ""  # why patches do not take the problem, if they were asked
    largest: dict[str, float] = field(default_factory=dict)  # largest relative residual at the points of `held_out`
    recovered: Recovered | None = None  # the unknowns of the problem, if it had some
    floor: float = 0.0  # what the boundary is measured to miss, and peaks that no point has seen: no estimate is less
    course: Course | None = None  # how it does as time goes on, if there is time
    passed: tuple[Passed, ...] = ()  # the values of parameters that a continuation went through
    second: Solution | None = None  # another field for the same question, kept if measurements are compared on both

    def __call__(self, points: Tensor) -> Tensor:
        """(P, D) -> (P, C)."""
        return self.problem.asked_of(self.solution(points))

    @property
    def certificate(self) -> Certificate:
        """That of the solution: what was measured at the points."""
        return self.solution.certificate

    @property
    def convergence(self) -> Convergence | None:
        """Of Newton's iteration; None if all conditions are linear."""
        return self.solution.convergence

    @property
    def conditions(self) -> int:
        """How many rows were solved for."""
        return self.certificate.conditions

    @property
    def worst_held_out(self) -> float:
        """The largest of the mean relative residuals between the points, NaN if none could be measured."""
        known = [value for value in self.held_out.values() if not math.isnan(value)]
        return max(known, default=math.nan)

    @property
    def estimate(self) -> float:
        """An estimate of the relative error, infinite if there is none.

        Twice the difference to a second field, from other points and other waves. No bound: two fields may share a
        mistake. On patches, the difference to fields of other degrees, on smaller cells at entrant corners. Not less
        than what values on the boundary miss between points, nor than the part of a formula that no point has seen.
        There is none for a field that Newton's iteration did not converge to: another may stop at the same one.
        """
        if self.stopped:
            return math.inf
        if self.measured is not None:
            found = self.measured
        elif self.disagreement is None:
            found = self.worst_held_out
        else:
            found = TWICE * self.disagreement
        return math.inf if math.isnan(found) else max(found, self.floor)

    @property
    def attempts(self) -> str:
        """How often it was tried, in words: trials of waves, rounds of patches."""
        count, kind = len(self.tuning.trials), "trial" if self.measured is None else "round"
        return f"{count} {kind}" if count == 1 else f"{count} {kind}s"

    @property
    def source(self) -> str:
        """Where the estimate comes from."""
        if self.measured is not None:
            return "fields of other degrees, values on the boundary between the points"
        if self.disagreement is None:
            return "residual between the points"
        left_open = self.problem.solving.underdetermined == "minimum-norm"
        without = "; what the conditions leave open is not in it" if left_open else ""
        return f"a second field from other points, values on the boundary between the points{without}"

    @property
    def off_target(self) -> str:
        """What there is to say if the estimate misses what was asked for; empty if nothing was asked or it does not."""
        target = self.problem.solving.target or RESOLVED
        if self.judged <= target:
            return ""
        known = f"is {self.judged:.1e}" if math.isfinite(self.judged) else "was not measured"
        missed = f"the target of {target:.0e} is not reached: the estimate of the relative error {known}; "
        if self.tuning.interrupted:
            return f"{missed}the search for a better field was interrupted"
        if self.stopped:
            return f"{missed}{BEGIN_ELSEWHERE[0].lower()}{BEGIN_ELSEWHERE[1:]}"
        if self.measured is not None:
            return (
                f"{missed}data and coefficients that jump, and layers thinner than cells can become, need more than "
                "patches have"
            )
        held = "the conditions hold at their points but not between them: " if self.certificate.exact else ""
        patches = f"; patches do not take it: {self.refused}" if self.refused else ", or method = 'patches'"
        return (
            f"{missed}{held}there are too few points, conditions contradict each other, or their data jump. Use more "
            f"points (count in [points]){patches}"
        )

    @property
    def stopped(self) -> bool:
        """Whether Newton's iteration ended without having converged."""
        return self.convergence is not None and bool(self.convergence.stopped)

    @property
    def remedy(self) -> str:
        """What to do about a field that is off between the points, and what else may be wrong."""
        if self.stopped:
            return BEGIN_ELSEWHERE
        wrong = "the equations contradict each other or their data jump"
        if self.convergence is not None:  # a field between points may be made up where there is no solution
            wrong = f"there may be no solution near (begin elsewhere with start or continuation in [solve]), or {wrong}"
        if self.measured is None:
            return f"Use more points; if that does not help, {wrong}"
        return (
            "Target, time or rounding ended the refinement: ask for more, or give [regions] to what jumps; otherwise, "
            f"{wrong}"
        )

    @property
    def judged(self) -> float:
        """What targets are compared with: the estimate; of a field that is one of many on purpose, the residual."""
        open_on_purpose = self.problem.solving.underdetermined == "minimum-norm" and self.measured is None
        return self.worst_held_out if open_on_purpose else self.estimate

    @property
    def resolved(self) -> bool:
        """False if the field is off between the points, visibly and by more than was asked for.

        Residuals may be large near any corner nevertheless; what is not known is not resolved.
        """
        return self.judged <= max(RESOLVED, self.problem.solving.target or 0.0)

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
            off = f"is off by {self.judged:.1e}" if math.isfinite(self.judged) else "may be off by anything"
            lines.append(
                f"NOT RESOLVED: between the points the field {off}, the equations by "
                f"{self.worst_held_out:.1e} (relative, on average). "
                f"{self.remedy}"
            )
        found = self.problem.check()
        lines += [f"hint: {hint}" for hint in (found.missing if self.resolved and certificate.exact else found.hints)]
        lines += [f"note: {note}" for note in (*idle_notes(self.problem), *self.disagreements)]
        if (better := self.passed_over()) is not None:
            lines.append(
                f"note: {better} is {self.tuning.best.residual / better.residual:.0f} times better between the points, "
                f"but misses its conditions by {better.missed:.0e}; a larger tolerance in [solve] would take it"
            )
        lines += self.recovered.fitted() if self.recovered is not None else []
        lines += [f"NOT REACHED: {self.off_target}"] if self.off_target else []
        lines += [f"note: {self.choice}"] if self.choice else []
        if self.tuning.interrupted:
            lines.append("tuning was interrupted: this is the best field found so far")
        return lines

    @property
    def disagreements(self) -> list[str]:
        """Where start and boundary contradict each other, if that may be why a target is not reached."""
        return disagreements(self.problem) if self.off_target else []

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
        counts = GRID.get(dimension) or max(3, int(GRID_POINTS ** (1 / dimension)))
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
    inside[inside.clone()] = has_inside_near(domain, points[inside], BESIDE * extent)
    channels = problem.space.channels
    values = torch.full((points.shape[0], len(channels)), math.nan, dtype=torch.float64)
    exact = None
    with torch.no_grad():
        values[inside] = problem.asked_of(solution(points[inside])).to(torch.float64)
        if problem.exact is not None:
            exact = torch.full_like(values, math.nan)
            for k, channel in enumerate(channels):
                if channel in problem.exact:
                    exact[inside, k] = problem.exact[channel](points[inside]).reshape(-1)
    return Grid(axes, points, inside, values, exact)


def has_inside_near(domain: Domain, points: Tensor, step: float) -> Tensor:
    """Which of the points (P, D) of a domain or its boundary have the inside of it beside them, (P,) bool.

    Where a shape that is cut out ends on the boundary, what is left of it there is no part of the domain.
    """
    found = domain.contains(points, step)
    for signs in itertools.product((-1.0, 1.0), repeat=points.shape[1]) if not bool(found.all()) else ():
        open_ = ~found
        found[open_] = domain.contains(points[open_] + step * points.new_tensor(signs), 0.1 * step)
    return found


def measure_errors(problem: Problem, solution: Solution, probes: Probes | None = None) -> dict[str, float] | None:
    """Relative L2 error per channel with a known exact solution (absolute where that is zero).

    At the probes where fields were compared, or on a grid, or at random points.
    """
    if problem.exact is None:
        return None
    if probes is not None:
        points = probes.points
        with torch.no_grad():
            values = problem.asked_of(solution(points)).to(torch.float64)
    elif problem.domain.dimension in GRID:
        grid = make_grid(problem, solution)
        points, values = grid.points[grid.inside], grid.values[grid.inside]
    else:
        points = problem.domain.fill(SAMPLED, "random", problem.seed + 1)
        with torch.no_grad():
            values = problem.asked_of(solution(points)).to(torch.float64)
    shares = torch.ones(len(points), dtype=torch.float64) if probes is None else probes.shares
    found = {}
    for k, channel in enumerate(problem.space.channels):
        if channel not in problem.exact:
            continue
        exact = problem.exact[channel](points).reshape(-1)
        known = torch.isfinite(exact)  # an expression may be 0/0 in a corner
        wanted, off = exact[known], (values[:, k] - exact)[known]
        scale = float(wanted.abs().max()) if len(wanted) else 0.0
        unit = scale if scale > 0 else 1.0  # squares of very small numbers would vanish
        size, missed = (float((shares[known] @ (part / unit).square()).sqrt()) for part in (wanted, off))
        found[channel] = missed / (size or float(shares[known].sum()) ** 0.5)
    return found
