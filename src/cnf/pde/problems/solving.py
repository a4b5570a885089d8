"""Solving a problem: tuning, the second opinion, the answer."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import replace

import torch
from torch import Tensor

from cnf.certificate import judge
from cnf.errors import CnfError, CnfWarning, UnderdeterminedError
from cnf.pde.problems.answer import Answer, measure_errors
from cnf.pde.problems.check import check_problem, refuse_bare_parts
from cnf.pde.problems.planning import PROBES, count_functions, fewer_conditions, make_plan
from cnf.pde.problems.problem import Problem
from cnf.pde.problems.uniqueness import lost_share
from cnf.pde.tuning import Plan, Settings, Trial, Tuning, tune
from cnf.pde.tuning.trial import Report, as_mapping
from cnf.solution import Solution

LONG, SHORT = 0.5, 0.15  # waves of the test field, over the extent of the domain
OPEN_SHORT = 0.02  # as below, for short waves, where a condition seems to be missing anyway
OPEN = 0.5  # share of a known field that may be lost when it is found again from its conditions


def solve_problem(problem: Problem, report: Report | None = None) -> Answer:
    """Tune, solve, certify."""
    started = time.perf_counter()
    refuse_bare_parts(problem)
    plan = make_plan(problem)
    tuning = tune(plan, report)
    field = tuning.solved
    assert field is not None
    with torch.no_grad():
        solution = field.solution
        second = second_trial(plan, tuning)
        disagreement = None if second is None else difference(tuning.best.values, second.values)
        held_out = measure_held_out(plan, solution)
    judge(solution.certificate, "warn")
    answer = Answer(
        problem,
        field,
        solution,
        replace(tuning, solved=None),
        held_out,
        disagreement,
        measure_errors(problem, solution),
        time.perf_counter() - started,
    )
    if problem.solving.underdetermined == "refuse":
        refuse_open(answer)
    return replace(answer, seconds=time.perf_counter() - started)


def measure_held_out(plan: Plan, solution: Solution) -> dict[str, float]:
    found = {c.name: math.nan for c in solution.constraints}
    if plan.checks is not None:
        found |= {name: float(value) for name, value in plan.checks.by_equation(solution).items()}
    return found


def second_trial(plan: Plan, tuning: Tuning) -> Trial | None:
    """The next best field that meets the conditions too; one more is solved if there is none."""
    best = tuning.best
    others = [t for t in tuning.trials if t is not best and t.exact and t.values is not None]
    full = [t for t in others if t.conditions == best.conditions]
    if full or others:
        return min(full or others, key=lambda t: t.score)
    return None if best.values is None else second_opinion(plan, tuning)


def second_opinion(plan: Plan, tuning: Tuning) -> Trial | None:
    """The same conditions met with smaller bandwidths."""
    chosen = Settings(**tuning.best.settings)  # type: ignore[arg-type]
    other = replace(chosen.widened(0.8), steps=0)
    assert plan.probes is not None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CnfWarning)
            solution = plan.build(other).eval().solution
    except CnfError:
        return None
    residual = math.nan if plan.checks is None else math.exp(float(plan.checks(solution)) / 2)
    return Trial(as_mapping(other), math.nan, residual, values=solution(plan.probes))


def difference(a: Tensor | None, b: Tensor | None) -> float:
    """The largest relative difference of a channel, (P, C); channels that are almost zero count by the others."""
    assert a is not None and b is not None
    sizes = a.square().mean(dim=0).sqrt()
    floor = 1e-3 * float(sizes.max())
    off = (a - b).square().mean(dim=0).sqrt()
    return float((off / sizes.clamp_min(floor or 1.0)).max())


def refuse_open(answer: Answer) -> None:
    """Refuse a field that is one of many."""
    problem = answer.problem
    if not answer.certificate.exact:
        return
    constraints = fewer_conditions(problem) or problem.constraints
    probes = problem.domain.fill(PROBES, "halton", problem.seed)
    hints = check_problem(problem).missing
    lost = 0.0
    for length, limit in ((LONG, OPEN), (SHORT, OPEN_SHORT))[: 2 if hints else 1]:
        lost = lost_share(problem, constraints, lambda n: count_functions(problem.space, n, 2.0), probes, length)
        if lost > limit:
            break
    else:
        return
    missing = f" Missing: {'; '.join(hints)}." if hints else ""
    raise UnderdeterminedError(
        "the conditions do not determine the field: of another field, made up as a test, "
        f"{min(lost, 1):.0%} is lost when it is found again from its conditions.{missing} Add conditions or points, or "
        "ask for the smoothest field with underdetermined = 'minimum-norm' in [solve]"
    )
