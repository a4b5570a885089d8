"""Recovering: the unknown numbers of a problem from the equations that are fitted, by Gauss and Newton's method.

For given numbers the problem is solved as any other, exactly. On the patches or waves of that answer the field is
differentiable in the numbers: they are moved until what the sensors miss, in the sense of least squares, is smallest.
Then the problem is solved anew with what was found, until the numbers stay: in the end there is an answer with its
certificate and its estimate for the numbers that are reported.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from cnf.constraints import Constraint
from cnf.errors import BasisError, CnfWarning, NotANumberError, ProblemError
from cnf.field import ConstrainedField
from cnf.operators.nonlinear import Called, State
from cnf.pde.problems.entries import listed
from cnf.pde.problems.learning import with_learnable
from cnf.pde.problems.recovered import Misfit, Recovered
from cnf.solution import Solution

if TYPE_CHECKING:
    from cnf.pde.problems.answer import Answer
    from cnf.pde.problems.problem import Problem
    from cnf.pde.tuning.trial import Report

WHERE = ("unknowns",)
ROUNDS = 6  # answers that a search may take
ON_THE_WAY = 1e-3  # target of the first of them
STEPS = 60  # that the numbers may take on one field
DAMPED, FREE, STUCK = 1e-3, 1e-9, 1e9  # damping to begin with; below, there is none; above, nothing gets better
STAYS = 1e-11  # of a number: changes that are none
ROUNDING = 1e-13  # of the measurements: what is missed by less is met
FLAT = 1e-6  # share of what is missed that the numbers could change: no more is a minimum
BLIND, ALIKE = 1e-10, 1e-7  # measurements that change by less, with one number or with several of them together
ADJOINTS = 64  # measurements up to which slopes are found by adjoint solves, one for each; differences beyond
APART = 1e-4  # of a number: how far these differences reach
NEAR = 1e-6  # of a number: steps that may not show in what is missed
SMALL = 0.1  # of where a number began: smaller ones are compared with that
FARTHEST = 1.0  # times its size: what a number is changed by at once
TWICE = 2.0  # times the difference of two fields: how far off one of them may be
BEYOND = 1e100  # times the measurements: no number to go on with
NO_SLOPES = "the field has no derivatives in them"
CANNOT = "shorter and shorter steps do not help, though {:.0%} of what is missed seems within their reach"


@dataclass
class Sensors:
    """What the sensors miss as a function of the unknowns, relative to the sizes of the measurements."""

    field: ConstrainedField
    conditions: tuple[Constraint, ...]
    unknowns: tuple[Tensor, ...]  # the numbers in the field and in the conditions
    begun: np.ndarray  # where they began in the first place

    def units(self, values: np.ndarray) -> np.ndarray:
        """What changes of the numbers are compared with: their sizes, as long as these say anything."""
        return np.maximum(np.abs(values), np.where(self.begun == 0, 1.0, SMALL * np.abs(self.begun)))

    def solved(self, values: np.ndarray) -> Solution | None:
        """The field for these numbers; None if there is none."""
        with torch.no_grad():
            for number, value in zip(self.unknowns, values, strict=True):
                number.fill_(float(value))
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):  # a step too far is found out, and not taken
                warnings.simplefilter("ignore", CnfWarning)
                found = self.field.solve(measure=False)
        except (NotANumberError, BasisError):
            return None
        return None if found.convergence is not None and found.convergence.stopped else found

    def off(self, solution: Solution) -> Tensor:
        """(M,)."""
        parts = [solution.residual(c).reshape(-1) / size_of(c) for c in self.conditions]
        return torch.cat(parts)

    def missed(self, values: np.ndarray) -> np.ndarray | None:
        """(M,); None if there is no field for these numbers."""
        with torch.no_grad():
            solution = self.solved(values)
            found = None if solution is None else self.off(solution).numpy()
        return found if found is not None and np.abs(found).max() < BEYOND else None

    def with_slopes(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """(M,) and its derivatives (M, n) in the unknowns; None if there is no field for these numbers."""
        if sum(c.rows for c in self.conditions) > ADJOINTS:
            return self._by_differences(values)
        solution = self.solved(values)
        if solution is None:
            return None
        off = self.off(solution)
        slopes = np.zeros((len(off), len(self.unknowns)))
        for k in range(len(off)) if off.requires_grad else ():
            grads = torch.autograd.grad(off[k], self.unknowns, retain_graph=True, allow_unused=True)
            slopes[k] = [0.0 if g is None else float(g) for g in grads]
        found = off.detach().numpy()
        return (found, slopes) if max(np.abs(found).max(), np.abs(slopes).max()) < BEYOND else None

    def _by_differences(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        off, columns = self.missed(values), []
        for k, unit in enumerate(self.units(values)):
            step = np.zeros(len(values))
            step[k] = APART * unit
            sides = [self.missed(values + step), self.missed(values - step)]
            if off is None or sides[0] is None or sides[1] is None:
                return None
            columns.append((sides[0] - sides[1]) / (2 * step[k]))
        return None if off is None else (off, np.stack(columns, axis=1))


@dataclass(frozen=True)
class Fit:
    """Where a search on one field ended."""

    values: np.ndarray  # (n,)
    off: np.ndarray  # (M,)
    slopes: np.ndarray  # (M, n)
    steps: int
    units: np.ndarray  # (n,) sizes of the numbers
    stopped: str = ""  # why, if not at a minimum

    @property
    def inverse(self) -> np.ndarray:
        """(n, M): what the numbers are changed by if measurements are."""
        return self.units[:, None] * np.linalg.pinv(self.slopes * self.units)


def recover(problem: Problem, report: Report | None = None) -> Answer:
    """The answer with the numbers that fit the sensors best, and what is known about them."""
    names = tuple(problem.unknowns)
    begun = values = np.array([float(value) for value in problem.unknowns.values()])
    refuse_too_few(problem)
    steps = 0
    start: State | None = None  # what a nonlinear problem goes on from
    for number in range(1, ROUNDS + 1):
        rough = number == 1
        ways = dict(zip(names, map(learnable, values), strict=True))
        begin, target = problem.start if start is None else start, ON_THE_WAY if rough else None
        asked = problem.with_parameters(ways, begin, target, continued=start is None)
        assert asked.present is not None
        answer = asked.present._solved(report)
        refuse_unsolved(answer, dict(zip(names, values, strict=True)), steps)
        if answer.solution.convergence is not None:
            start = Called(answer.solution, f"the field for {listed(dict(zip(names, values, strict=True)))}")
        field = with_learnable(asked, answer).field.train()
        sensors = Sensors(field, asked.sensors, tuple(ways.values()), begun)
        fit = search(sensors, values)
        steps += fit.steps
        refuse_blind(names, fit)
        if fit.stopped:
            raise ProblemError(stalled(names, fit), WHERE)
        shift = np.abs(fit.values - values)
        numerical = np.abs(fit.inverse) @ measurement_errors(answer)
        numerical = np.maximum(numerical, np.maximum(shift, np.abs(fit.inverse @ fit.off)))
        settled = shift <= np.maximum(STAYS * np.abs(values), 0.1 * numerical)
        if (not rough and settled.all()) or answer.tuning.interrupted or number == ROUNDS:
            found = recovered(answer, sensors, values, fit, numerical, steps)
            return replace(answer, recovered=found)
        values = fit.values
    raise AssertionError("the last round returns")


def learnable(value: float) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor(float(value), dtype=torch.float64))


def search(sensors: Sensors, begin: np.ndarray) -> Fit:
    """Damped steps from `begin` on, until the numbers stay."""
    values, damping = begin, DAMPED
    known = sensors.with_slopes(values)
    if known is None:  # the answer for these numbers is there, so slopes are not
        return Fit(values, np.zeros(0), np.zeros((0, len(values))), 0, sensors.units(values), NO_SLOPES)
    off, slopes = known
    for number in range(STEPS):
        units = sensors.units(values)
        scaled = slopes * units
        free = damped(scaled, off, 0.0)  # of the whole step, for damped ones are short anywhere
        if is_minimum(scaled, off, free):
            return Fit(values + units * free, off, slopes, number, units)
        step = damped(scaled, off, damping)
        step *= units * min(1.0, FARTHEST / np.abs(step).max())
        new = sensors.missed(values + step)
        if new is None or not new @ new < off @ off:
            if damping > STUCK:
                share = float(np.linalg.norm(scaled @ free) / np.linalg.norm(off))
                near = share <= FLAT or np.abs(free).max() <= NEAR  # what is left is in the rounding of the field
                return Fit(values, off, slopes, number, units, "" if near else CANNOT.format(share))
            damping = max(10 * damping, DAMPED)
            continue
        values, damping = values + step, damping / 10 if damping > FREE else 0.0
        known = sensors.with_slopes(values)
        if known is None:
            return Fit(values, off, slopes, number, units, NO_SLOPES)
        off, slopes = known
    return Fit(values, off, slopes, STEPS, sensors.units(values), f"{STEPS} steps were not enough")


def damped(scaled: np.ndarray, off: np.ndarray, damping: float) -> np.ndarray:
    """The step (n,) of least squares, each number held back by so much of what it does to the measurements."""
    held = np.diag(math.sqrt(damping) * np.linalg.norm(scaled, axis=0))
    rows = np.concatenate([scaled, held]) if damping else scaled
    return -np.linalg.lstsq(rows, np.concatenate([off, np.zeros(len(rows) - len(off))]), rcond=None)[0]


def is_minimum(scaled: np.ndarray, off: np.ndarray, step: np.ndarray) -> bool:
    """Whether a step changes next to nothing: the numbers, or what is missed."""
    gain = np.linalg.norm(scaled @ step)
    return bool(np.abs(step).max() <= STAYS or gain <= ROUNDING * math.sqrt(len(off)))


def size_of(condition: Constraint) -> float:
    """Of measurements: root mean square, or one if all are zero."""
    return float(condition.values.detach().square().mean().sqrt()) or 1.0


def measurement_errors(answer: Answer) -> np.ndarray:
    """(M,): how far off the field may be where it is measured, relative to the sizes of measurements.

    By the estimate of its values; and by what a second field measures, for fluxes are further off than values. What
    both happen to agree on at one place counts as the others of the same equation.
    """
    found = []
    with torch.no_grad():
        for condition in answer.problem.sensors:
            off = torch.full((condition.rows,), answer.estimate, dtype=torch.float64)
            if answer.second is not None:
                apart = (answer.solution.residual(condition) - answer.second.residual(condition)).reshape(-1)
                typical = apart.square().mean().sqrt()
                off = off.maximum(TWICE * apart.abs().maximum(typical) / size_of(condition))
            found.append(off.nan_to_num(math.inf))
    return torch.cat(found).numpy()


def recovered(
    answer: Answer, sensors: Sensors, values: np.ndarray, fit: Fit, numerical: np.ndarray, steps: int
) -> Recovered:
    """What is reported: the numbers of the answer, and what its own field misses at the sensors."""
    misfits = []
    with torch.no_grad():
        for condition in answer.problem.sensors:
            off = answer.solution.residual(condition).reshape(-1)
            rms, most = float(off.square().mean().sqrt()), float(off.abs().max())
            misfits.append(Misfit(condition.name, len(off), rms, most, size_of(condition)))
    rows, free = len(fit.off), len(fit.off) - len(values)
    inverse = fit.inverse
    spread = np.full(len(values), math.nan)
    if free > 0:
        spread = np.linalg.norm(inverse, axis=1) * np.linalg.norm(fit.off) / math.sqrt(free)
    names, known = tuple(answer.problem.unknowns), answer.problem.exact_unknowns
    errors = {n: abs(v - known[n]) / (abs(known[n]) or 1.0) for n, v in zip(names, values, strict=True) if n in known}
    return Recovered(
        dict(zip(names, values.tolist(), strict=True)),
        dict(zip(names, spread.tolist(), strict=True)),
        dict(zip(names, numerical.tolist(), strict=True)),
        tuple(misfits),
        rows,
        steps,
        errors or None,
        answer.second is None and any(c.operator.order > 0 for c in answer.problem.sensors),
    )


# -- what is refused ---------------------------------------------------------------------------------------------------


def refuse_too_few(problem: Problem) -> None:
    rows = sum(c.rows for c in problem.sensors)
    if rows < len(problem.unknowns):
        raise ProblemError(
            f"{len(problem.unknowns)} unknowns cannot be found from {rows} measurement{'s' if rows > 1 else ''}; give "
            "more of these, or make some unknowns parameters",
            WHERE,
        )


def refuse_unsolved(answer: Answer, values: Mapping[str, float], steps: int) -> None:
    """Without a field there is nothing to compare with measurements."""
    certificate = answer.certificate
    if certificate.exact:
        return
    given = "they begin with" if steps == 0 else "the search came to"
    raise ProblemError(
        f"with the values that {given} ({listed(values)}) the equations are not met: worst relative residual "
        f"{certificate.worst:.1e}, {certificate.advice()}; begin with other values",
        WHERE,
    )


def refuse_blind(names: Sequence[str], fit: Fit) -> None:
    """Numbers that the measurements do not depend on, alone or together."""
    if not len(fit.off):
        return
    scaled = fit.slopes * fit.units
    sizes = np.linalg.norm(scaled, axis=0) / math.sqrt(len(fit.off))
    at = listed(dict(zip(names, fit.values, strict=True)))
    for name, size in zip(names, sizes, strict=True):
        if size <= BLIND:
            raise ProblemError(
                f"the measurements do not depend on {name!r} (at {at}), so that they cannot determine it; measure "
                "something that does, or begin with another value",
                ("unknowns", name),
            )
    _, singular, directions = np.linalg.svd(scaled / np.linalg.norm(scaled, axis=0))
    if singular[-1] <= ALIKE * singular[0]:
        involved = [name for name, part in zip(names, directions[-1], strict=True) if abs(part) > 0.1]
        raise ProblemError(
            f"the measurements do not tell {' and '.join(involved)} apart (at {at}): they can change together without "
            "being seen. Measure something else as well, or make one of them a parameter",
            ("unknowns", involved[0]),
        )


def stalled(names: Sequence[str], fit: Fit) -> str:
    at = listed(dict(zip(names, fit.values, strict=True)))
    return (
        f"the search for unknowns ended at {at} after {fit.steps} steps, and that is no minimum: {fit.stopped}. Begin "
        "with other values, nearer to what they should be"
    )
