"""Choosing between waves over the whole domain and patches, by what is known beforehand and by what both measure.

Geometry and formulas are known before anything is solved. Where they say that the solution is not smooth (jumps, narrow
features, waves or layers shorter than the domain), patches come first: waves would spend their time for nothing.
Corners count if there is a target: some solutions are smooth there all the same, and waves then more accurate. Where
nothing is known against waves, and a target is given, one round of patches is looked at, which takes a part of the time
that waves take to tune; if it meets the target, that is the answer. Otherwise waves come first: where a solution is
smooth they are the most accurate, and they take any domain and any order. Whoever came first and misses what was asked
for, the other has a try.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace

from cnf.errors import CnfError, CnfWarning, ProblemError, UnderdeterminedError
from cnf.pde.patches.evidence import roughness
from cnf.pde.problems.answer import Answer
from cnf.pde.problems.on_patches import question_of, refuse_unsuitable, solve_on_patches
from cnf.pde.problems.problem import Problem
from cnf.pde.problems.solving import solve_problem
from cnf.pde.tuning.trial import Report

PATCHES = "solved on patches"
WAVES = "waves over the whole domain"


def solve_by_choice(problem: Problem, report: Report | None = None) -> Answer:
    """Waves, or patches where those do better; with regions patches alone, for waves are smooth where they meet."""
    if problem.regions is not None:
        return solve_on_patches(problem, report)
    if not patches_take(problem):
        return solve_problem(problem, report)
    aimed = problem.solving.target is not None  # else accuracy counts for more than time
    rough = roughness(question_of(problem), corners=aimed)
    if not rough and aimed and one_round_may_do(problem):
        looked = tried(lambda: solve_on_patches(problem, report, most=1))
        if isinstance(looked, Answer) and (good_enough(looked) or looked.tuning.interrupted):
            return replace(looked, choice=f"{PATCHES}: one round meets the target, before {WAVES} were tried")
    ways = [lambda: solve_problem(problem, report, bool(rough)), lambda: solve_on_patches(problem, report)]
    first, second = ways[::-1] if rough else ways
    found = tried(first)
    if isinstance(found, Answer) and (good_enough(found) or found.tuning.interrupted):
        return replace(found, choice=f"{PATCHES}: {rough}") if rough else found
    try:
        other = tried(second)
    except KeyboardInterrupt:
        if not isinstance(found, Answer):
            raise
        return replace(found, tuning=replace(found.tuning, interrupted=True))
    return better(*((other, found) if rough else (found, other)), rough)


def tried(way: Callable[[], Answer]) -> Answer | CnfError:
    """An answer, or why there is none; what is left open by the conditions is refused, whoever finds out."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CnfWarning)  # the certificate of what is chosen says it
            return way()
    except UnderdeterminedError:
        raise  # another way to solve it would not determine it either
    except CnfError as error:
        return error


def better(waves: Answer | CnfError, patches: Answer | CnfError, rough: str) -> Answer:
    """The one that ranks first, with a note if it is patches; the error of waves if both failed."""
    if isinstance(patches, Answer) and not (isinstance(waves, Answer) and rank(waves) <= rank(patches)):
        before = f"left an estimate of {waves.estimate:.1e}" if isinstance(waves, Answer) else "could not solve it"
        return replace(patches, choice=f"{PATCHES}: {f'{rough}; ' if rough else ''}{WAVES} {before}")
    if isinstance(waves, CnfError):
        raise waves
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


def one_round_may_do(problem: Problem) -> bool:
    """On boxes with conditions on their sides: measurements inside and integrals take patches many rounds."""
    return problem.domain._is_box and all(p.kind not in ("file", "nowhere") for p in problem._placing.places)


def good_enough(answer: Answer) -> bool:
    """Exact, resolved, and as good as was asked for."""
    target = answer.problem.solving.target
    met = target is None or answer.estimate <= target
    return answer.certificate.exact and answer.resolved and met and not math.isnan(answer.estimate)


def rank(answer: Answer) -> tuple[bool, float]:
    """Exact fields first, then those with the smaller estimate."""
    return not answer.certificate.exact, answer.estimate if math.isfinite(answer.estimate) else math.inf
