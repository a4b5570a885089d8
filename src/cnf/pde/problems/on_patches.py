"""A problem solved on patches, as an answer with its certificate and its estimate."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from cnf.bases import Cover
from cnf.bases.local_functions import Products
from cnf.bases.piecewise import Piecewise
from cnf.certificate import judge
from cnf.certificate.sizes import natural_sizes
from cnf.errors import CnfWarning, OverdeterminedError, ProblemError
from cnf.pde.patches.adapting import ROUNDS, adapt
from cnf.pde.patches.building import conditions_wanted, orders_of
from cnf.pde.patches.interfaces import interface_ties
from cnf.pde.patches.mesh import Mesh
from cnf.pde.patches.probes import Probes
from cnf.pde.patches.question import Question
from cnf.pde.patches.rounds import Round
from cnf.pde.patches.shaped import Shaped
from cnf.pde.patches.shaped_layout import Border
from cnf.pde.patches.slabs import Slabs
from cnf.pde.patches.solid import Solid
from cnf.pde.problems.answer import Answer, measure_errors
from cnf.pde.problems.asking_patches import lowered, question_of
from cnf.pde.problems.balance import contradictions
from cnf.pde.problems.between import Between, look_between
from cnf.pde.problems.check import refuse_bare_parts, refuse_missing_starts
from cnf.pde.problems.course import course_of
from cnf.pde.problems.coverage import boundary_gaps, crowded
from cnf.pde.problems.first_order import may_go_round, refuse_lost
from cnf.pde.problems.patch_refusals import refuse_free_motions, refuse_unsuitable
from cnf.pde.problems.places import HELD_OUT_FACE
from cnf.pde.problems.placing import ELSEWHERE
from cnf.pde.problems.problem import Problem
from cnf.pde.problems.solving import refuse_open
from cnf.pde.tuning.trial import Report, Trial, Tuning
from cnf.solution import Solution
from cnf.systems.tied import CellExpansion

FAR = 1e5  # times as far as conditions are changed by: fields of other degrees may be off together
FEW_LEFT_OPEN = 0.01  # of the functions: what follows from other conditions leaves some free


def solve_on_patches(
    problem: Problem,
    report: Report | None = None,
    most: int = ROUNDS,
    target: float | None = None,
    seconds: float | None = None,
) -> Answer:
    """Refine, solve, certify; `report` is called with every round, of which there are so many at `most`.

    `target`: another than that of the problem; `seconds`: what it may take, refused at once if the first cells take
    longer.
    """
    started = time.perf_counter()
    target = problem.solving.target if target is None else target
    refuse_unsuitable(problem)
    refuse_bare_parts(problem)
    refuse_missing_starts(problem)
    refuse_free_motions(problem)
    if most > 1 and problem.solving.underdetermined == "refuse" and (boundary_gaps(problem) or may_go_round(problem)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CnfWarning)
            solve_on_patches(problem, most=0)  # refuses a field that is open before it is refined in vain

    def tell(found: Round) -> None:
        if report is not None:
            report(as_trial(found))

    question = lowered(question_of(problem))
    try:
        adapted = adapt(question, target, tell, partial(miss_values, problem), most, seconds)
    except OverdeterminedError:
        where = crowded(problem)
        raise ProblemError(
            f"there are more conditions than the equations of the interior take{': ' if where else ''}{where}; drop "
            "those that say the same twice, or contradict each other"
        ) from None
    solution, probes = responding(adapted.chosen), adapted.probes
    with torch.no_grad():
        between = look_between(problem, solution, field_size(problem.asked_of(solution(probes.points)), probes))
        across = look_across(question, solution, probes)
        boundary = max(between.boundary, miss_values(problem, solution, probes))
    refuse_lost(problem, question, adapted.chosen, probes)
    judge(solution.certificate, "warn")
    trials = [as_trial(found) for found in adapted.rounds]  # Ctrl-C may come before a round was told
    measured = solution.certificate.exact, solution.certificate.worst
    trials[adapted.best] = replace(trials[adapted.best], exact=measured[0], missed=measured[1])
    tuning = Tuning("refinement", tuple(trials), trials[adapted.best], adapted.interrupted)
    answer = Answer(
        problem,
        adapted.chosen.field,
        solution,
        tuning,
        between.mean | across.mean,
        adapted.estimate,
        measure_errors(problem, solution, probes),
        time.perf_counter() - started,
        measured=max(adapted.estimate, boundary, moved_by_what_is_missed(solution, adapted.chosen)),
        mesh=adapted.chosen.mesh,
        largest=between.largest | across.largest,
        second=adapted.second if problem.fitted else None,
    )
    mesh = adapted.chosen.mesh
    if problem.solving.underdetermined == "refuse" and share_left_open(answer, mesh, solution.certificate.rank) > 0:
        refuse_open(answer)  # a condition may be missing
    if share_left_open(answer, mesh, solution.certificate.conditions) > FEW_LEFT_OPEN + share_at_corners(answer):
        # No condition is missing, so these patches have too few points: fields of all degrees may agree on anything.
        answer = replace(answer, measured=math.inf)
    if problem.solving.underdetermined != "refuse" and contradictions(problem):
        answer = replace(answer, measured=math.inf)  # there is no solution that it could be near to
    with torch.no_grad():
        second = None if adapted.second is None else problem.asked_of(adapted.second(probes.points))
    course = course_of(problem, solution, probes, second, answer.estimate, adapted.windows, mesh)
    return replace(answer, course=course, seconds=time.perf_counter() - started)


def responding(found: Round) -> Solution:
    """The solution of a round; of nonlinear equations, with how far it moves if its conditions change a little."""
    convergence = found.solution.convergence
    if convergence is None or convergence.stopped:
        return found.solution
    return replace(found.solution, convergence=replace(convergence, response=found.field.response()))


def moved_by_what_is_missed(solution: Solution, found: Round) -> float:
    """What is missed between the points, as far as it moves a solution that its conditions hardly determine."""
    if solution.convergence is None or not solution.convergence.response > FAR:
        return 0.0
    return min(1.0, solution.convergence.response * max(found.unmet, found.worst))


def share_left_open(answer: Answer, mesh: Mesh, conditions: int) -> float:
    """The share of functions that so many conditions leave free beyond those that the layout of the points does."""
    basis, certificate = answer.field.basis, answer.certificate
    assert isinstance(basis, Piecewise)
    functions = int(basis.active().sum())
    orders = orders_of(lowered(question_of(answer.problem)))
    in_space = mesh.shaped.slabs[0].shaped if isinstance(mesh.shaped, Slabs) else mesh.shaped
    if isinstance(in_space, Solid) and mesh.shaped_layout is not None:
        laid_out = mesh.shaped_layout.conditions(certificate.channels, sum(orders.multipliers))
        return max(laid_out - conditions, 0) / functions
    spatial = [p for k, p in enumerate(basis.degree) if k != basis.time]
    own = 0 if basis.without_corner or len(spatial) == 1 else 1 if len(spatial) == 2 else 12 * max(spatial)
    if basis.local is not None:  # more functions than conditions, on purpose
        own += basis.local.size - len(Products(basis.degree, basis.without_corner, basis.corner_depth).exponents)
    if mesh.first is not None and isinstance(mesh.shaped, Shaped):
        wanted = conditions_wanted(lowered(question_of(answer.problem)), mesh.first, mesh) + basis.brought_conditions
        return max(wanted - conditions, 0) / functions
    room = 0 if mesh.shaped_layout is None else mesh.shaped_layout.room
    room *= len(orders.spread)  # others have as many conditions as functions
    free = functions - conditions
    return max(free - own * basis.cells.count * certificate.channels - room, 0) / functions


def share_at_corners(answer: Answer) -> float:
    """The share of functions that belong to corners: points of equations may, or may not, make room for them."""
    basis = answer.field.basis
    assert isinstance(basis, Piecewise)
    return sum(basis.corners[k].count for k in basis.at_corner if k >= 0) / int(basis.active().sum())


def as_trial(found: Round) -> Trial:
    """A round of refinement, shown like a trial of a tuning; only the one that is kept is measured."""
    return Trial(
        {"cells": found.mesh.patches.count, "degree": max(found.mesh.degree)},
        math.log10(max(found.worst, 1e-300)),
        found.worst,
        exact=None,
        missed=math.nan,
        conditions=found.conditions,
        seconds=found.seconds,
    )


def miss_values(problem: Problem, solution: Solution, probes: Probes) -> float:
    """What values on the boundary and their jumps on interfaces miss of the field's size between their points."""
    with torch.no_grad():
        size = field_size(problem.asked_of(solution(probes.points)), probes)
        values = [check for check in problem.checks() if check.operator.order == 0]
        off = [float(solution.residual(c).square().mean().sqrt()) / size for c in values]
        return max([look_across(lowered(question_of(problem)), solution, probes).boundary, *off])


def look_across(question: Question, solution: Solution, probes: Probes) -> Between:
    """What the conditions on interfaces miss between their points, and what values there miss of the field's size."""
    if question.regions is None:
        return Between({}, {}, 0.0)
    basis, expansion = solution.basis, solution.expansion
    assert isinstance(basis, Piecewise) and isinstance(basis.cells, Cover) and isinstance(expansion, CellExpansion)
    orders = [orders_of(question, area) for area in range(question.areas)]
    size = field_size(solution(probes.points), probes)
    mean, most, worst = {}, {}, 0.0
    for number, face in enumerate(question.regions.interfaces):
        points, normals = face.sample(HELD_OUT_FACE, question.seed + ELSEWHERE)
        border = Border(points, normals, *(basis.cells.locate(points, k) for k in (face.first, face.second)))
        for kind in ("values", "fluxes"):
            for tie in interface_ties(question, orders, number, kind, border):
                jump = expansion.jump(tie)
                off = jump.off.abs()
                near = replace(jump.conditions[0], values=tie.condition.values)  # linearising asks for nothing
                natural = natural_sizes([*solution.constraints, near])[-1]
                mean[tie.condition.name] = float(off.mean()) / natural
                most[tie.condition.name] = float(off.max()) / natural
                worst = max(worst, float(off.square().mean().sqrt()) / size) if kind == "values" else worst
    return Between(mean, most, worst)


def field_size(values: Tensor, probes: Probes) -> float:
    """Of a field with values (P, C) at the probes: root mean square over points and channels."""
    return float(probes.size(values).square().mean().sqrt()) or 1.0
