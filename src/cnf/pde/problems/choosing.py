"""Choosing between waves over the whole domain and patches, by what is known beforehand and by what both measure.

Geometry and formulas are known before anything is solved. Where they say that the solution is not smooth (jumps, narrow
features, waves or layers shorter than the domain), patches come first: waves would spend their time for nothing.
Corners count if there is a target: some solutions are smooth there all the same, and waves then more accurate. So do
equations that are not linear: waves are tuned by many trials, and every one of them is an iteration. Where
nothing is known against waves, patches on a box are looked at, for no more than the time that waves take to tune: if
they meet the target, or rounding without one, that is the answer. Otherwise waves come first: where a solution is
smooth they take any domain, any order and any number of coordinates. Whoever came first and misses what was asked for,
the other has a try, unless its first cells already say that it would take longer than is left: the time of two minutes,
or, with a target, several times what was spent.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace

from cnf.errors import CnfError, CnfWarning, ProblemError, UnderdeterminedError, UnfollowedError
from cnf.pde.patches.adapting import ROUNDING, SECONDS
from cnf.pde.patches.evidence import roughness
from cnf.pde.patches.rounds import clocks, worked_since
from cnf.pde.problems.answer import Answer
from cnf.pde.problems.asking_patches import question_of
from cnf.pde.problems.on_patches import solve_on_patches
from cnf.pde.problems.patch_refusals import refuse_unsuitable
from cnf.pde.problems.problem import Problem
from cnf.pde.problems.solving import solve_problem
from cnf.pde.tuning.trial import Report

AIMED = 20.0  # seconds that a look at patches may take if there is a target
LOOK, LOOKS = 8.0, 4  # seconds and rounds without one
FLAT = 2  # coordinates up to which patches come down to rounding in that time
LONGER = 4.0  # times as long as waves: what patches may take where those miss a target
USELESS = 0.3  # an estimate above: zero would do nearly as well
PATCHES = "solved on patches"
WAVES = "waves over the whole domain"
ITERATED = f"its equations are not linear, and {WAVES} would iterate in every trial"


def solve_by_choice(problem: Problem, report: Report | None = None) -> Answer:
    """Waves, or patches where those do better; with regions patches alone, for waves are smooth where they meet."""
    if problem.regions is not None:
        return replace(solve_on_patches(problem, report), choice=f"{PATCHES}: {WAVES} are smooth where regions meet")
    if problem.about_waves or problem.solving.underdetermined != "refuse":
        return solve_problem(problem, report)
    if refused := why_not_patches(problem):
        return replace(solve_problem(problem, report), refused=refused)
    aimed = problem.solving.target is not None  # else accuracy counts for more than time
    question = question_of(problem)
    rough = roughness(question, corners=aimed) or ("" if question.is_linear else ITERATED)
    looked = tried(lambda: look_at_patches(problem, report)) if not rough and one_round_may_do(problem) else None
    if isinstance(looked, Answer) and (as_good_as_it_gets(looked) or looked.tuning.interrupted):
        why = "one round meets the target" if aimed else "exact to rounding"
        return replace(looked, choice=f"{PATCHES}: {why}, before {WAVES} were tried")
    started = clocks()
    ways = [lambda: solve_problem(problem, report, bool(rough)), lambda: patches_in_time(problem, report, started)]
    limit = None if aimed else SECONDS
    first, second = (lambda: solve_on_patches(problem, report, seconds=limit), ways[0]) if rough else ways
    found = tried(first)
    if isinstance(found, Answer) and (good_enough(found) or found.tuning.interrupted):
        if rough:
            return replace(found, choice=f"{PATCHES}: {rough}")
        return better(found, looked, rough) if isinstance(looked, Answer) else found
    try:
        other = tried(second)
    except KeyboardInterrupt:
        kept = [answer for answer in (found, looked) if isinstance(answer, Answer)]
        if not kept:
            raise
        best = min(kept, key=rank)
        return replace(best, tuning=replace(best.tuning, interrupted=True))
    if not isinstance(other, Answer) and isinstance(looked, Answer):
        other = looked  # what the look at patches found is better than nothing of them
    return better(*((other, found) if rough else (found, other)), rough)


def look_at_patches(problem: Problem, report: Report | None) -> Answer:
    """One round if there is a target, else as many as are quick, to rounding."""
    if problem.solving.target is not None:
        return solve_on_patches(problem, report, most=1, seconds=AIMED)
    return solve_on_patches(problem, report, most=LOOKS, target=ROUNDING, seconds=LOOK)


def patches_in_time(problem: Problem, report: Report | None, started: tuple[float, float]) -> Answer:
    """Patches after waves that missed what was asked for, within the time that this leaves them."""
    spent = worked_since(started)
    left = SECONDS - spent if problem.solving.target is None else max(SECONDS, LONGER * spent)
    return solve_on_patches(problem, report, seconds=left)


def as_good_as_it_gets(answer: Answer) -> bool:
    """Whether waves have nothing to add: the target is met, or rounding without one."""
    return good_enough(answer) and (answer.problem.solving.target is not None or answer.estimate <= ROUNDING)


def tried(way: Callable[[], Answer]) -> Answer | CnfError:
    """An answer, or why there is none; what is left open by the conditions is refused, whoever finds out."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CnfWarning)  # the certificate of what is chosen says it
            return way()
    except UnderdeterminedError:
        raise  # another way to solve it would not determine it either
    except UnfollowedError as error:
        if error.grows:  # a field that ends before its time ends for waves as well
            raise
        return error
    except CnfError as error:
        return error


def better(waves: Answer | CnfError, patches: Answer | CnfError, rough: str) -> Answer:
    """The one that ranks first, with a note on what the other left; the error of waves if both failed.

    Patches that cannot be followed in time say where, and waves that are not good enough say nothing against that.
    """
    if isinstance(patches, UnfollowedError) and not (isinstance(waves, Answer) and good_enough(waves)):
        raise patches
    if isinstance(patches, Answer) and not (isinstance(waves, Answer) and rank(waves) <= rank(patches)):
        return replace(patches, choice=f"{PATCHES}: {f'{rough}; ' if rough else ''}{WAVES} {what_it_left(waves)}")
    if isinstance(waves, CnfError):
        raise waves
    return replace(waves, choice=waves.choice or f"solved by {WAVES}: patches {what_it_left(patches)}")


def what_it_left(other: Answer | CnfError) -> str:
    """In words, what came of a way that was not taken."""
    if isinstance(other, CnfError):
        return f"could not solve it ({first_part(other)})"
    return f"left an estimate of {other.estimate:.1e}" if math.isfinite(other.estimate) else "left no estimate"


def why_not_patches(problem: Problem) -> str:
    """Why patches do not take the domain or the equations; empty if they do."""
    try:
        refuse_unsuitable(problem)
    except ProblemError as error:
        return first_part(error)
    return ""


def first_part(error: CnfError) -> str:
    """What is wrong, without the entry that says so and the advice that follows."""
    return (error.message if isinstance(error, ProblemError) else str(error)).split(";")[0]


def one_round_may_do(problem: Problem) -> bool:
    """On boxes with conditions on their sides: measurements inside and integrals take patches many rounds."""
    if problem.solving.target is None and problem.domain.dimension > FLAT:
        return False
    return problem.domain._is_box and all(p.kind not in ("file", "nowhere") for p in problem._placing.places)


def good_enough(answer: Answer) -> bool:
    """Exact, resolved, and as good as was asked for."""
    target = answer.problem.solving.target
    met = target is None or answer.estimate <= target
    return answer.certificate.exact and answer.resolved and met


def rank(answer: Answer) -> tuple[bool, bool, float]:
    """Exact fields first, then those with the smaller estimate; what is hardly better than nothing comes last."""
    return not answer.estimate <= USELESS, not answer.certificate.exact, answer.estimate
