"""Fitting: where points are too few for a field that is exact and right between them, the closest one on average.

Equations are known everywhere, not at the points alone. The same waves fitted to several times as many conditions, by
least squares, miss each of them a little and are right between them as far as that many waves go. Exact fields of that
size either are too smooth to be solved for or so narrow that they are nothing between their points.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import scipy.linalg
import torch

from cnf.constraints import Constraint
from cnf.errors import CnfWarning
from cnf.field import ConstrainedField
from cnf.pde.problems.between import Opinion, draw_probes, opinion_on
from cnf.pde.problems.guiding import OTHER, weighed_rows
from cnf.pde.problems.planning import build_basis, build_field, first_settings
from cnf.pde.problems.problem import Problem
from cnf.pde.tuning import HeldOutEquations, Settings
from cnf.pde.tuning.trial import Report, Trial, Tuning, as_mapping
from cnf.solution import Solution
from cnf.systems.expansions import expand_over
from cnf.systems.formulation import KnownAccount, SavedWeights

COPIES = 6  # times as many conditions as the field has
FACTORS = (0.175, 0.25, 0.35, 0.5, 0.75)  # on the bandwidths where tuning begins
MOST = 1000  # conditions of the field: beyond, fits take minutes
OFF = 1e-2  # residual between the points from which on an exact field is of no use
BETTER = 0.2  # of what the exact field misses between the points: a fit is worth missing conditions for
DEPENDENT = 1e-12  # pivots over the largest
NOTE = "fitted by least squares: exact at its points, the field would miss {:.0e} between them"


@dataclass(frozen=True)
class FittedAccount(KnownAccount):
    """Weights by least squares; what they miss is meant."""

    def reason_for(self, violated: Sequence[Constraint], times: float) -> str:
        return (
            "there are too few points for a field that is exact and right between them, so it is fitted by least "
            "squares. Use more points (count in [points]), or method = 'patches'"
        )


@dataclass(frozen=True)
class Fit:
    """The fitted field, the trials it was found by, and a second fit from other points and waves."""

    field: ConstrainedField
    tuning: Tuning
    second: Opinion
    note: str


def fit_unresolved(problem: Problem, tuning: Tuning, report: Report | None) -> Fit | None:
    """A fit in place of a field that is off between its points; None if it is not, or fits are no better."""
    checks, best = problem.checks(), tuning.best
    asked = problem.basis.type == "random-fourier" and problem.tuning.objective is None
    unique = problem.solving.underdetermined == "refuse"
    off = best.residual > OFF and not tuning.interrupted
    linear = all(c.nonlinear is None for c in problem.constraints)  # others have no least squares of one step
    if not (asked and unique and off and linear and checks and best.conditions <= MOST):
        return None
    missed, probes = HeldOutEquations(checks), draw_probes(problem)
    conditions = many_conditions(problem, 0)
    own = Settings(**best.settings)  # type: ignore[arg-type]
    trials, found = list(tuning.trials), None
    try:
        for factor in FACTORS if problem.basis.bandwidth is None else (1.0,):
            started = time.perf_counter()
            start = first_settings(problem).widened(factor)
            settings = replace(start, size=own.size, poles=own.poles)
            solution = fitted(problem, settings, conditions, problem.seed)
            with torch.no_grad():
                residual = math.exp(float(missed(solution)) / 2)
            seconds = time.perf_counter() - started
            named = {**as_mapping(settings), "fit": "least squares"}
            trial = Trial(named, math.log10(max(residual, 1e-300)), residual, False, math.nan, best.conditions, seconds)
            trials.append(trial)
            if report is not None:
                report(trial)
            if found is None or residual < found[1].residual:
                found = settings, trial, solution
    except KeyboardInterrupt:
        return None
    if found is None or not found[1].residual < BETTER * best.residual:
        return None
    settings, trial, solution = found
    other = fitted(problem, settings, many_conditions(problem, COPIES), problem.seed + OTHER)
    second = opinion_on(solution, other, probes)
    field = build_field(problem, problem.constraints, settings).eval()
    account = FittedAccount("least squares", (), 1, min(solution.weights.numel(), problem.conditions))
    field.restore(SavedWeights({"weights": solution.weights}, account))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)  # whoever takes the field judges it
        certificate = field.solution.certificate
    trial = replace(trial, missed=certificate.worst, exact=certificate.exact)
    return Fit(field, replace(tuning, trials=(*trials, trial), best=trial), second, NOTE.format(best.residual))


def many_conditions(problem: Problem, first: int) -> list[Constraint]:
    """The conditions of the problem at `COPIES` sets of points, counted from `first`: its own are the first of all."""
    sets = [
        problem.constraints if not k else problem.elsewhere(problem.seed + OTHER * k)
        for k in range(first, first + COPIES)
    ]
    return [condition for constraints in sets for condition in constraints]


def fitted(problem: Problem, settings: Settings, conditions: Sequence[Constraint], seed: int) -> Solution:
    """The waves of these settings closest to all conditions, on average."""
    basis = build_basis(problem, problem.constraints, settings, seed)
    matrix, right = weighed_rows(basis, conditions)
    weights = scipy.linalg.lstsq(
        matrix, right, cond=DEPENDENT, lapack_driver="gelsy", overwrite_a=True, check_finite=False
    )[0]
    table = torch.from_numpy(weights.reshape(len(problem.space.channels), -1).T.copy())  # (N, C)
    with torch.no_grad():
        expansion = expand_over(basis, basis.snapshot(), table, KnownAccount("least squares"))
    return Solution(problem.space, basis, expansion, constraints=problem.constraints)
