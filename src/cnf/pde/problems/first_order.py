"""Problems of first order on planar shapes: what their boundary lacks or has too much of, and which are refused."""

from __future__ import annotations

import numpy as np
import torch

from cnf.constraints import Constraint
from cnf.errors import ProblemError
from cnf.pde.domains.domain import Sample
from cnf.pde.patches.first_order import (
    comes_from_nowhere,
    is_carried,
    is_elliptic,
    is_isotropic,
    turns,
    wanted_on_boundary,
)
from cnf.pde.patches.found_again import holes_of, lost_share
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.outline import curves_of
from cnf.pde.patches.probes import Probes
from cnf.pde.patches.question import Question
from cnf.pde.patches.rounds import Round
from cnf.pde.patches.sectors import corners_of
from cnf.pde.patches.shaped import Shaped
from cnf.pde.problems.problem import Problem
from cnf.pde.problems.solving import undetermined

WHERE = ("solve", "method")
ALONG = (np.arange(64) + 0.5) / 64  # of every piece of the boundary, where its conditions are counted
INSIDE = 200  # points at which equations are looked at
ALIKE = 1e-6  # directions, and angles
LOST = 0.02  # of a known field that is found again: more is left open by the conditions


def refuse_first_order(problem: Problem, question: Question, orders: Orders) -> None:
    """What patches cannot do of first order on a planar shape, and conditions that its boundary does not take."""
    inside = problem.domain.fill(INSIDE, "halton", problem.seed).numpy()
    if len(orders.rows) != len(orders.channels):
        raise ProblemError(
            f"patches take one equation of first order for every channel; there are {len(orders.rows)} for "
            f"{len(orders.channels)} channels",
            WHERE,
        )
    if not is_carried(orders) and not is_elliptic(orders, inside):
        raise ProblemError(
            "where a boundary cuts patches, several channels of first order are those of systems in which nothing is "
            "carried along (elliptic ones: fluxes beside a pressure, divergence and curl) so far; use method = 'waves'",
            WHERE,
        )
    for curve in curves_of(problem.domain):
        points, normals = curve.at(curve.start + curve.measure * ALONG)
        given = sum(
            len(question.constraints[k].operator.rows)
            for k in range(len(question.places))
            if question.holds(k, curve, points, normals)
        )
        wanted = wanted_on_boundary(orders, points, normals)
        for wrong, more in ((wanted < given, True), (wanted > given, False)):
            if wrong.any():
                raise ProblemError(_said(orders, points[np.flatnonzero(wrong)[wrong.sum() // 2]], more), ("equations",))

    if is_carried(orders):
        nowhere = comes_from_nowhere(orders, inside, problem.domain._inside, problem.domain._size)
        if nowhere.any():
            at = inside[np.flatnonzero(nowhere)[0]]
            raise ProblemError(
                f"what {orders.channels[0]} is near ({at[0]:.3g}, {at[1]:.3g}) does not come from the boundary (it "
                "goes round, or starts from where nothing moves): patches cannot tell whether it is determined",
                WHERE,
            )
    elif not (known_to_determine(question, orders, inside) or found_out_by_patches(problem, orders, inside)):
        raise ProblemError(
            "on shapes with such corners, patches cannot tell whether these conditions leave a field of first order "
            "open; they take values of a pressure and fluxes along the normal, and for divergence and curl the normal "
            "component (or the tangential one) on all of a boundary without holes; use method = 'waves'",
            WHERE,
        )


def known_to_determine(question: Question, orders: Orders, inside: np.ndarray) -> bool:
    """Whether these conditions are of a kind that is known to leave no more than constants open, whatever the corners.

    Beside fluxes, values of their pressure, or fluxes along the normal; of two channels that turn as divergence and
    curl do, the normal component, or another at the same angle to it, on all of a boundary in one piece.
    """
    assert orders.weights is not None
    weight = np.array(orders.weights.channels)
    lower = np.flatnonzero(weight == weight.min())
    if len(lower) != 2 or len(weight) > 3:
        return False
    slants = [np.zeros(0)]  # directions of what is given of the two channels, from normals on
    for curve in curves_of(question.domain):
        points, normals = curve.at(curve.start + curve.measure * ALONG)
        for k in range(len(question.places)):
            if not question.holds(k, curve, points, normals):
                continue
            condition = question.at(k, Sample(torch.from_numpy(points), torch.from_numpy(normals)))
            given = _coefficients(condition, len(weight))
            if given is None or len(condition.operator.rows) > 1:
                return False
            if len(weight) == 3 and np.abs(given[:, weight == weight.max()]).min() > 0:
                continue  # a pressure is given, or what flows for a pressure
            along = (given[:, lower] @ [1, 1j]) / (normals @ [1, 1j])
            slants.append(along / np.abs(along))
    slant = np.concatenate(slants)
    if len(weight) == 3:
        return bool((np.abs(slant.imag) < ALIKE).all())
    turning = bool((turns(orders, inside) > 0).all())
    return turning and not len(holes_of(question.domain)) and bool((np.abs(slant - slant[0]) < ALIKE).all())


def _coefficients(condition: Constraint, channels: int) -> np.ndarray | None:
    """Of the channels in a condition on values, (P, C); None if it has derivatives, or looks elsewhere."""
    found = np.zeros((condition.points.shape[0], channels))
    for probe in condition.expanded():
        for request in probe.requests:
            if probe.nodes > 1 or any(sum(index) for index in request.weights):
                return None
            for weight in request.weights.values():
                found[:, request.channel] += np.broadcast_to(weight.detach().double().numpy(), len(found))
    return found


def found_out_by_patches(problem: Problem, orders: Orders, inside: np.ndarray) -> bool:
    """Whether fields that conditions leave open are smooth, so that patches lose a known field if there are any.

    Near corners they go like a power of the distance, unless the angle is a part of pi and equations are the same in
    all directions. Patches would then give the smooth field back, whatever else is open.
    """
    angles = np.array([corner.end - corner.start for corner in corners_of(problem.domain)])
    parts = np.pi / np.maximum(angles, 1e-3)
    even = bool((np.abs(parts - np.round(parts)) < ALIKE).all())
    return not len(angles) or (even and is_isotropic(orders, inside))


def _said(orders: Orders, at: np.ndarray, more: bool) -> str:
    place = f"near ({at[0]:.3g}, {at[1]:.3g})"
    if is_carried(orders):
        name = orders.channels[0]
        if more:
            return f"{name} is given {place}, where it does not flow in: give it where it flows in alone"
        return f"{name} flows in {place} and is not given there: give it on all parts of the boundary where it flows in"
    assert orders.weights is not None
    count = orders.weights.total // 2
    return (
        f"these equations take {count} condition{'s' if count > 1 else ''} everywhere on the boundary; {place} there "
        f"are {'more' if more else 'fewer'}"
    )


def may_go_round(problem: Problem) -> bool:
    """Whether a system of first order has holes to flow round: what is open there is found before it is refined."""
    plane = problem.domain.dimension == 2 and problem.space.frame.time == () and not problem.domain._is_box
    orders = [c.operator.order for c, p in zip(problem.constraints, problem._placing.places, strict=True)]
    return plane and max(orders) == 1 and len(problem.space.channels) > 1 and bool(len(holes_of(problem.domain)))


def refuse_lost(problem: Problem, question: Question, found: Round, probes: Probes) -> None:
    """Refuse a field that is one of many: conditions that do not even give a known one back leave it open."""
    orders = found.mesh.first
    if orders is None or not isinstance(found.mesh.shaped, Shaped):
        return
    lost = lost_share(found, question, orders, probes, holes_of(question.domain))
    if lost <= LOST:
        return
    if problem.solving.underdetermined != "refuse":
        raise ProblemError(
            "patches have no smoothest field for conditions of first order that leave it open; use method = 'waves'",
            WHERE,
        )
    raise undetermined(
        f"{min(lost, 1):.0%} of a known field is lost when it is found again from them; around a hole, normal "
        "components alone leave open what flows round it, tangential ones what flows out of it. Give the other "
        "component on a part of the boundary, or an integral"
    )
