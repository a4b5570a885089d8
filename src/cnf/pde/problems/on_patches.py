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
from cnf.pde.patches.evening import PARTS, is_steady
from cnf.pde.patches.following import free_motions
from cnf.pde.patches.interfaces import interface_ties
from cnf.pde.patches.local_bases import LOCAL_BASES
from cnf.pde.patches.lowering import with_moments
from cnf.pde.patches.mesh import Mesh, is_aligned
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.probes import Probes
from cnf.pde.patches.question import Question
from cnf.pde.patches.rates import with_rates
from cnf.pde.patches.rounds import Round
from cnf.pde.patches.shaped import Shaped, swings_on_cut_patches
from cnf.pde.patches.shaped_layout import Border
from cnf.pde.patches.slabs import Slabs
from cnf.pde.patches.solid import Solid, is_curved_solid, space_of
from cnf.pde.problems.answer import Answer, measure_errors
from cnf.pde.problems.balance import contradictions
from cnf.pde.problems.between import Between, look_between
from cnf.pde.problems.check import check_problem, refuse_bare_parts, refuse_missing_starts
from cnf.pde.problems.coverage import boundary_gaps, crowded
from cnf.pde.problems.first_order import may_go_round, refuse_first_order, refuse_lost
from cnf.pde.problems.places import HELD_OUT_FACE, sample
from cnf.pde.problems.placing import ELSEWHERE
from cnf.pde.problems.problem import Problem
from cnf.pde.problems.solving import refuse_open, undetermined
from cnf.pde.tuning.trial import Report, Trial, Tuning
from cnf.solution import Solution
from cnf.systems.tied import CellExpansion

WHERE = ("solve", "method")
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
    solution, probes = adapted.chosen.solution, adapted.probes
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
        measured=max(adapted.estimate, boundary),
        mesh=adapted.chosen.mesh,
        largest=between.largest | across.largest,
    )
    mesh = adapted.chosen.mesh
    if problem.solving.underdetermined == "refuse" and share_left_open(answer, mesh, solution.certificate.rank) > 0:
        refuse_open(answer)  # a condition may be missing
    if share_left_open(answer, mesh, solution.certificate.conditions) > FEW_LEFT_OPEN + share_at_corners(answer):
        # No condition is missing, so these patches have too few points: fields of all degrees may agree on anything.
        answer = replace(answer, measured=math.inf)
    if problem.solving.underdetermined != "refuse" and contradictions(problem):
        answer = replace(answer, measured=math.inf)  # there is no solution that it could be near to
    return replace(answer, seconds=time.perf_counter() - started)


def question_of(problem: Problem) -> Question:
    """What patches need to know."""
    placing, local = problem._placing, problem.solving.local
    question = Question(
        problem.space,
        problem.domain,
        problem.constraints,
        placing.places,
        lambda k, sample: placing._constraint(k, sample, {}),
        problem.solving.tolerance,
        problem.seed,
        problem.regions,
        problem.jumps,
        LOCAL_BASES.get(local) if isinstance(local, str) else local,
        state=problem.start,
    )
    return question.shown()


def lowered(question: Question) -> Question:
    """With channels for rates and moments, so that patches know the orders."""
    return with_moments(with_rates(question)).shown()


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
                off = (expansion.jump(tie) - tie.condition.values).abs()
                natural = natural_sizes([*solution.constraints, tie.condition])[-1]
                mean[tie.condition.name] = float(off.mean()) / natural
                most[tie.condition.name] = float(off.max()) / natural
                worst = max(worst, float(off.square().mean().sqrt()) / size) if kind == "values" else worst
    return Between(mean, most, worst)


def field_size(values: Tensor, probes: Probes) -> float:
    """Of a field with values (P, C) at the probes: root mean square over points and channels."""
    return float(probes.size(values).square().mean().sqrt()) or 1.0


def refuse_free_motions(problem: Problem) -> None:
    """Refuse a problem whose conditions all hold for a constant, or a motion of first degree, beside any solution.

    Its patches leave out as many conditions inside as there are such motions: nothing else would tell.
    """
    domain = problem.domain
    if problem.solving.underdetermined != "refuse":
        return
    if len(free_motions(question_of(problem).constraints, domain.lower, domain.upper)):
        missing = "; ".join(check_problem(problem).missing)
        free = "All of them hold for a constant, or a motion as of a body, as well. Give a value somewhere, or a mean"
        raise undetermined(f"Missing: {missing}" if missing else free)


def refuse_unsuitable(problem: Problem) -> None:
    """What patches cannot do yet is refused before anything is solved."""
    domain = problem.domain
    if space_of(domain).dimension > 3:
        raise ProblemError("patches cover domains of up to three coordinates and time; use method = 'waves'", WHERE)
    if problem.regions is not None:
        refuse_in_regions(problem)
    if not any(place.kind == "interior" for place in problem._placing.places):
        raise ProblemError("patches need an equation on the interior", WHERE)
    if problem.solving.underdetermined == "minimum-norm" and (gaps := boundary_gaps(problem)):
        raise ProblemError(  # their smallest weights are not those of the smoothest field: no estimate would be right
            f"patches have no smoothest field for conditions that leave it open ({gaps[0]}); use method = 'waves'",
            WHERE,
        )
    for equation in problem.equations:
        if equation.points is not None or equation.layout is not None:
            raise ProblemError(
                "patches place their points themselves; leave points and layout out", ("equations", equation.number)
            )
    if not domain._is_box or problem.regions is not None:
        refuse_inner_slices(problem)
    orders = orders_of(lowered(question_of(problem)))
    rates = orders.highest[len(problem.space.channels) :]
    if orders.time is not None and any(highest[k] for highest in rates for k in orders.spatial):
        raise ProblemError(
            "patches take no derivatives in space of u_t beside u_{tt} so far, such as u_{xxt}; use method = 'waves'",
            WHERE,
        )
    wanted = tuple(1 if k == orders.time else 2 for k in range(domain.dimension))
    own = [h for h, multiplier in zip(orders.highest, orders.multipliers, strict=True) if not multiplier]
    planar = orders.time is not None and domain.dimension == 3  # and time
    own = [h for h in own if not planar or any(h[k] for k in orders.spatial)]  # others are local to a point
    local = [e for e in orders.equations if orders.is_local(e)]
    paired = sum(len(e.operator.rows) for e in local) == len(orders.channels) - len(orders.spread)
    cut = not domain._is_box or is_curved_solid(domain, problem.regions)
    many = domain.dimension >= 3 and cut  # a solid, or the plane and time
    unlike = any(highest != wanted for highest in own) or (planar and not paired)
    if cut and many and any(orders.multipliers) and (orders.time is not None or problem.regions is not None):
        raise ProblemError(
            "a pressure takes curved solids, and planar domains that are no boxes, without regions in space and "
            "without time so far; use method = 'waves'",
            WHERE,
        )
    if cut and not many and orders.first and problem.regions is None:
        refuse_first_order(problem, lowered(question_of(problem)), orders)
    elif cut and unlike:
        raise ProblemError(
            "on domains that are no boxes, and around curved regions in space, patches take equations of second order "
            "in all coordinates of space and of first order in time, in all channels, so far (without time, plates "
            "such as \\Delta^2 u, and a pressure as well, and in the plane first order throughout; in the plane during "
            "time, u_{tt}, and channels without derivatives in space, each with an equation of its own); use method = "
            "'waves'",
            WHERE,
        )
    if swings_on_cut_patches(domain, orders.swings):
        refuse_on_cut_patches(problem)
    if is_curved_solid(domain, problem.regions) and orders.time is not None:
        refuse_during_time(problem)
    refuse_unlike_orders(orders)


def refuse_unlike_orders(orders: Orders) -> None:
    """Channels of different orders, unless those of lower order are multipliers."""
    for axis in orders.spatial:
        different = {n for n in (highest[axis] for highest in orders.highest) if n}
        if len(different) > 1 and not any(orders.multipliers):
            raise ProblemError(
                "patches need the same order in all channels so far (a pressure of order 1 beside velocities of order "
                "2 has another); use method = 'waves'",
                WHERE,
            )


def refuse_during_time(problem: Problem) -> None:
    """What patches cannot do yet in curved solids during time, where slabs are solved in stages or not at all."""
    if problem.regions is not None:
        raise ProblemError("curved solids during time take no regions so far", ("regions",))
    if not is_steady(question_of(problem), normals=True):
        raise ProblemError(
            "in curved solids during time, patches take equations and boundary conditions whose coefficients are "
            "formulas without t so far (right-hand sides may be any); use method = 'waves'",
            WHERE,
        )
    time, domain = problem.domain.dimension - 1, problem.domain
    for k, place in enumerate(problem._placing.places):
        fixed = place.fixed or {}
        if place.kind not in PARTS or len(fixed) > 1 or fixed.get(time, domain.lower[time]) != domain.lower[time]:
            raise ProblemError(
                "in curved solids during time, patches take conditions inside, on the boundary and at the start so "
                f"far, not {place.text!r}; use method = 'waves'",
                ("equations", problem.equations[k].number, "on"),
            )


def refuse_on_cut_patches(problem: Problem) -> None:
    """What swings where a boundary cuts patches is held by stages that damp what such patches do not resolve."""
    if lowered(question_of(problem)).asked is None:
        raise ProblemError(
            "where a boundary cuts patches, waves are written with u_{tt} so far, not as a system of first order; use "
            "method = 'waves'",
            WHERE,
        )
    if not is_steady(question_of(problem), normals=True):
        raise ProblemError(
            "where a boundary cuts patches, equations with u_{tt} and their conditions take coefficients that are "
            "formulas without t so far (right-hand sides may be any); use method = 'waves'",
            WHERE,
        )


def refuse_in_regions(problem: Problem) -> None:
    """What patches cannot do yet where there are regions."""
    regions, channels = problem.regions, len(problem.space.channels)
    assert regions is not None
    if regions.space.dimension != 2 and regions.during is not None and regions.flat_at is None:
        raise ProblemError(
            "in space and during time, regions meet in flat faces across the coordinates so far: boxes, and what they "
            "make together",
            ("regions",),
        )
    for k, name in enumerate(regions.names):
        places = problem._placing.places
        own = [c for c, p in zip(problem.constraints, places, strict=True) if p.kind == "interior" and p.region == k]
        rows = sum(len(c.operator.rows) for c in own)
        if rows != channels:
            raise ProblemError(
                f"the region {name!r} has {rows} equations for {channels} channels; give one for each",
                ("equations", problem.equations[problem.constraints.index(own[-1])].number),
            )
    question = lowered(question_of(problem))
    if len({orders_of(question, area).highest for area in range(question.areas)}) > 1:
        raise ProblemError("the equations of all regions must have derivatives of the same orders", ("equations",))
    orders = orders_of(question)
    if not orders.second:
        raise ProblemError(
            "equations of regions have second derivatives along all coordinates of space so far", ("equations",)
        )
    if len(orders.spread) < len(orders.channels) and not is_aligned(problem.domain, regions):
        raise ProblemError(
            "equations with u_{tt} take regions that meet in flat faces across the coordinates of a box so far",
            ("regions",),
        )


def refuse_inner_slices(problem: Problem) -> None:
    """On a domain that is no box, x = 0 may be a side of it or run through it; patches know sides only."""
    for k, place in enumerate(problem._placing.places):
        if place.kind != "slice" or len(place.fixed or {}) != 1:
            continue
        points = sample(place, problem.domain, 64, "halton", 0).points
        if bool(problem.domain.contains(points, 1e-6 * problem.domain._size).any()):
            raise ProblemError(
                f"{place.text} runs through the inside of the domain; patches take conditions on its boundary: name "
                "the shape or the edge, such as on = 'edge 1'",
                ("equations", problem.equations[k].number, "on"),
            )
