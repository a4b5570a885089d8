"""Solving a problem: tuning, the second opinion, the answer."""

from __future__ import annotations

import time
from dataclasses import replace

from cnf.certificate import judge
from cnf.errors import UnderdeterminedError
from cnf.pde.patches.probes import Probes
from cnf.pde.problems.answer import Answer, measure_errors
from cnf.pde.problems.between import Opinion, differ_from_second, draw_probes, hidden_share, look_between
from cnf.pde.problems.check import check_problem, refuse_bare_parts
from cnf.pde.problems.course import course_of
from cnf.pde.problems.fitting import fit_unresolved
from cnf.pde.problems.planning import PROBES, count_functions, fewer_conditions, make_plan
from cnf.pde.problems.problem import Problem
from cnf.pde.problems.uniqueness import lost_share
from cnf.pde.tuning import Settings, tune
from cnf.pde.tuning.trial import Report, Tuning
from cnf.solution import Solution

LONG, SHORT = 0.5, 0.15  # waves of the test field, over the extent of the domain
OPEN_SHORT = 0.02  # as below, for short waves, where a condition seems to be missing anyway
OPEN = 0.5  # share of a known field that may be lost when it is found again from its conditions


def solve_problem(problem: Problem, report: Report | None = None, fit_if_off: bool = True) -> Answer:
    """Tune, solve, certify; a field that is far off between its points gives way to a fit, unless others have a try."""
    started = time.perf_counter()
    refuse_bare_parts(problem)
    plan = make_plan(problem)
    tuning = tune(plan, report)
    fit = fit_unresolved(problem, tuning, report) if fit_if_off else None
    tuning, field = (tuning, tuning.solved) if fit is None else (fit.tuning, fit.field)
    assert field is not None
    solution = field.solution
    between = look_between(problem, solution)
    judge(solution.certificate, "warn")
    second = second_opinion(problem, tuning, solution) if fit is None else fit.second
    answer = Answer(
        problem,
        field,
        solution,
        replace(tuning, solved=None),
        between.mean,
        None if second is None else second.apart,
        measure_errors(problem, solution),
        time.perf_counter() - started,
        choice="" if fit is None else fit.note,
        largest=between.largest,
        floor=max(between.boundary, hidden_share(problem)),
        second=None if second is None or not problem.fitted else second.solution,
    )
    if problem.solving.underdetermined == "refuse":
        refuse_open(answer, fit is not None)
    even = Probes.all_alike(draw_probes(problem) if second is None else second.points)
    course = course_of(problem, solution, even, None if second is None else second.values, answer.estimate)
    return replace(answer, course=course, seconds=time.perf_counter() - started)


def second_opinion(problem: Problem, tuning: Tuning, solution: Solution) -> Opinion | None:
    """A field from other points and other waves."""
    return differ_from_second(problem, Settings(**tuning.best.settings), solution)  # type: ignore[arg-type]


def refuse_open(answer: Answer, fitted: bool = False) -> None:
    """Refuse a field that is one of many; conditions that are missed say nothing about that, unless on purpose."""
    problem = answer.problem
    if not answer.certificate.exact and not fitted:
        return
    # Near the answer: elsewhere conditions that are not linear may have other solutions, or none that is found.
    constraints = [c.linearised(answer.solution) for c in fewer_conditions(problem) or problem.constraints]
    probes = problem.domain.fill(PROBES, "halton", problem.seed)
    hints = check_problem(problem).missing
    lost = 0.0
    for length, limit in ((LONG, OPEN), (SHORT, OPEN_SHORT))[: 2 if hints else 1]:
        lost = lost_share(problem, constraints, lambda n: count_functions(problem.space, n, 2.0), probes, length)
        if lost > limit:
            break
    else:
        return
    lose = f"{min(lost, 1):.0%} of a test field is lost when it is found again from them. Add conditions or more points"
    raise undetermined(f"Missing: {'; '.join(hints)}. Add this or more points" if hints else lose)


def undetermined(why: str) -> UnderdeterminedError:
    """`why` says what is missing and what to add, for there is another way than that."""
    return UnderdeterminedError(
        f"the conditions do not determine the field. {why}, or ask for the smoothest field with "
        "underdetermined = 'minimum-norm' in [solve]"
    )
