"""Choosing between waves over the whole domain and patches, by what both are measured to miss.

Waves come first: where a solution is smooth they are the most accurate, and they take any domain and any order. Where
they leave the field unresolved or miss what was asked for, patches have a try, if they know the domain and the
equations.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

from cnf.errors import CnfError, CnfWarning, ProblemError, UnderdeterminedError
from cnf.pde.problems.answer import Answer
from cnf.pde.problems.on_patches import refuse_unsuitable, solve_on_patches
from cnf.pde.problems.problem import Problem
from cnf.pde.problems.solving import solve_problem
from cnf.pde.tuning.trial import Report


def solve_by_choice(problem: Problem, report: Report | None = None) -> Answer:
    """Waves, or patches where those do better; with regions patches alone, for waves are smooth where they meet."""
    if problem.regions is not None:
        return solve_on_patches(problem, report)
    if not patches_take(problem):
        return solve_problem(problem, report)
    failure: CnfError | None = None
    waves: Answer | None = None
    try:
        waves = solve_problem(problem, report)
    except UnderdeterminedError:
        raise  # another way to solve it would not determine it either
    except CnfError as error:
        failure = error
    if waves is not None and (good_enough(waves) or waves.tuning.interrupted):
        return waves
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CnfWarning)  # the certificate of what is chosen says it
            patches = solve_on_patches(problem, report)
    except CnfError:
        patches = None  # then the answer of waves stands, with all it says about itself
    except KeyboardInterrupt:
        if waves is None:
            raise
        return replace(waves, tuning=replace(waves.tuning, interrupted=True))
    if patches is not None and (waves is None or rank(patches) < rank(waves)):
        before = "could not solve it" if waves is None else f"left an estimate of {waves.estimate:.1e}"
        note = f"solved on patches: waves over the whole domain {before}"
        return replace(patches, choice=note)
    if waves is None:
        assert failure is not None
        raise failure
    return waves


def patches_take(problem: Problem) -> bool:
    """Whether patches know the domain and the equations, and nothing was said about waves."""
    if problem.about_waves or problem.solving.underdetermined != "refuse":
        return False
    try:
        refuse_unsuitable(problem)
    except ProblemError:
        return False
    return True


def good_enough(answer: Answer) -> bool:
    """Exact, resolved, and as good as was asked for."""
    target = answer.problem.solving.target
    met = target is None or answer.estimate <= target
    return answer.certificate.exact and answer.resolved and met and not math.isnan(answer.estimate)


def rank(answer: Answer) -> tuple[bool, float]:
    """Exact fields first, then those with the smaller estimate."""
    return not answer.certificate.exact, answer.estimate if math.isfinite(answer.estimate) else math.inf
