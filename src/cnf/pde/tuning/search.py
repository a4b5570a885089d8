"""One search for settings: what is tuned, every field that was tried, and the best of them so far."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from cnf.errors import CnfError, CnfWarning
from cnf.field import ConstrainedField
from cnf.operators.nonlinear import Called
from cnf.pde.tuning.objectives import HeldOutEquations
from cnf.pde.tuning.trial import Report, Settings, Trial, as_mapping
from cnf.solution import Solution
from cnf.training.losses import Loss

SCAN = 4  # trials of the first scan over bandwidths
ALIKE = math.log10(1.1)  # fields of all bandwidths are equally good up to that


@dataclass(frozen=True)
class Guiding:
    """How a field is solved with guides, fewer of them in a rehearsal (True), when, and with how many functions.

    >>> guiding = cnf.tuning.Guiding(lambda field, rehearsal: field.solve(), above=1e-6, size=2.0)
    >>> guiding.above, guiding.size
    (1e-06, 2.0)
    """

    solve: Callable[[ConstrainedField, bool], Solution]
    above: float  # residual between the points that is worth it
    size: float  # functions per condition at full size


@dataclass(frozen=True)
class Plan:
    r"""What is tuned: how to build a field from settings, what makes one better, and where to begin.

    >>> space, box = cnf.Space("x", "u"), cnf.Box(0, 1)
    >>> at, between = (space.constraint(r"u = \sin(6 x)", at=x, name="data") for x in (box.grid(12), box.halton(20)))
    >>> def build(settings):
    ...     return cnf.ConstrainedField(cnf.bases.RandomFourier(space, 24, settings.bandwidth), [at])
    >>> loss = cnf.tuning.make_objective("held-out", [between], box.grid(30))
    >>> plan = cnf.tuning.Plan(build, "held-out", loss, cnf.tuning.Settings((0.4,)), free=frozenset({"bandwidth"}))
    >>> plan.build(plan.start).basis.size
    24
    """

    build: Callable[[Settings], ConstrainedField]
    objective: str
    loss: Loss
    start: Settings
    rehearse: Callable[[Settings], ConstrainedField] | None = None  # the same problem with fewer points
    checks: HeldOutEquations | None = None  # to report the held-out residual whatever the objective
    free: frozenset[str] = frozenset({"bandwidth", "size"})  # names of the settings that may change
    factors: tuple[float, float] = (0.0, math.inf)  # smallest and largest factor on the bandwidths of the start
    steps: int = 0  # training steps of all covariances at the end
    enough: float = 1e-13  # residual between the points at which to stop; there is nothing to gain but rounding below
    seed: int = 0
    guiding: Guiding | None = None  # if the equations are known between their points


@dataclass
class Search:
    """The state of one search: trials so far, which of them had the full size, and fields that were trained."""

    plan: Plan
    report: Report | None
    trials: list[Trial] = field(default_factory=list)
    settings: list[Settings] = field(default_factory=list)
    full: list[int] = field(default_factory=list)
    trained: dict[int, ConstrainedField] = field(default_factory=dict)  # by trial; all others can be built again
    reached: tuple[float, Solution] | None = None  # the best solution of nonlinear conditions, with its score

    def begun(self, built: ConstrainedField) -> ConstrainedField:
        """The same, where an iteration begins with what is known by now: bandwidths change little of the field."""
        if self.reached is not None:
            built.start = Called(self.reached[1], "the best field so far")
        return built

    def attempt(self, settings: Settings, rehearsal: bool) -> float:
        """Build, solve, measure; returns what the search minimises."""
        build = self.plan.rehearse if rehearsal and self.plan.rehearse is not None else self.plan.build
        started = time.perf_counter()
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore", CnfWarning)  # the final certificate repeats what still holds
                built = self.begun(build(settings).eval())
                guiding = self.plan.guiding if settings.guided else None
                solution = built.solve(measure=False) if guiding is None else guiding.solve(built, rehearsal)
                trial = self.measured(solution, settings, started)
                self.remember(solution, trial.score)
            full = not rehearsal
            if full and settings.guided:
                self.trained[len(self.trials)] = built  # it keeps its weights: no need to solve it again
        except CnfError:
            trial, full = Trial(as_mapping(settings), math.inf, exact=False, missed=math.inf), False
        self.record(trial, settings, full)
        return trial.score

    def remember(self, solution: Solution, score: float) -> None:
        """Keep what an iteration found, if it is the best so far."""
        if solution.convergence is None or solution.convergence.stopped:
            return
        if self.reached is None or score < self.reached[0]:
            self.reached = score, solution

    def measured(self, solution: Solution, settings: Settings, started: float) -> Trial:
        plan, missed = self.plan, solution.roughly_missed()
        residual = math.nan
        if plan.checks is not None:
            residual = math.exp(float(plan.checks(solution)) / 2)
        loss = residual if plan.loss is plan.checks else math.exp(min(700.0, float(plan.loss(solution)) / 2))
        return Trial(
            as_mapping(settings),
            math.log10(max(loss, 1e-300)),
            residual,
            missed <= solution.tolerance,
            missed,
            sum(c.rows for c in solution.constraints),
            time.perf_counter() - started,
        )

    def record(self, trial: Trial, settings: Settings, full: bool) -> None:
        self.trials.append(trial)
        self.settings.append(settings)
        self.full += [len(self.trials) - 1] if full else []
        if self.report is not None:
            self.report(trial)

    @property
    def best(self) -> int | None:
        """The best at full size."""
        return min(self.full, key=lambda k: self.trials[k].score, default=None)

    def leader(self) -> tuple[Settings, Trial]:
        """The best so far, of a rehearsal if there was nothing else."""
        index = min(range(len(self.trials)), key=lambda k: self.trials[k].score)
        return self.settings[index], self.trials[index]

    @property
    def done(self) -> bool:
        return bool(self.trials) and self.plan.objective != "paper" and self.leader()[1].score < self.enough

    @property
    def indifferent(self) -> bool:
        """Whether fields of any bandwidth are as good: other functions decide, those with poles for instance."""
        losses = [t.loss for t in self.trials[:SCAN] if t.exact]
        return "bandwidth" in self.plan.free and len(losses) == SCAN and max(losses) - min(losses) < ALIKE

    @property
    def enough(self) -> float:
        """The score below which the search stops."""
        return math.log10(self.plan.enough)
