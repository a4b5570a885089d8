"""Patch refusals: what patches cannot do yet, said before anything is solved, with what to do instead."""

from __future__ import annotations

from cnf.errors import ProblemError
from cnf.pde.patches.building import orders_of
from cnf.pde.patches.evening import PARTS, is_steady
from cnf.pde.patches.following import free_motions
from cnf.pde.patches.mesh import is_aligned
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.shaped import swings_on_cut_patches
from cnf.pde.patches.solid import is_curved_solid, space_of
from cnf.pde.problems.asking_patches import lowered, question_of
from cnf.pde.problems.check import check_problem
from cnf.pde.problems.coverage import boundary_gaps
from cnf.pde.problems.first_order import refuse_first_order
from cnf.pde.problems.places import sample
from cnf.pde.problems.problem import Problem
from cnf.pde.problems.solving import undetermined

WHERE = ("solve", "method")


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
