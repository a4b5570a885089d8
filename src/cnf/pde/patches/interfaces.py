"""Interfaces: what must agree, or jump, where two regions meet: the conditions given, or else values and fluxes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import sympy as sp
import torch
from torch import Tensor

from cnf.bases.ties import Tie
from cnf.constraints.constraint import RightHandSide, make_constraint
from cnf.errors import ProblemError
from cnf.operators import partial
from cnf.operators.coefficients import Datum, as_coefficient
from cnf.operators.field_functions import PREFIX, Jet
from cnf.operators.field_jets import as_jet
from cnf.operators.nonlinear import NonlinearOperator
from cnf.operators.operator import Operator, Term
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.question import Question
from cnf.pde.patches.shaped_layout import Border

Flux = Operator | NonlinearOperator


def interface_ties(question: Question, orders: Sequence[Orders], number: int, kind: str, border: Border) -> list[Tie]:
    """Conditions on interface `number` at the points of a border, for "values" or "fluxes"; `orders` by region."""
    regions = question.regions
    assert regions is not None
    face = regions.interfaces[number]
    points, normals = (torch.from_numpy(np.ascontiguousarray(a)) for a in (border.points, border.normals))
    first, second = (torch.from_numpy(a) for a in (border.first, border.second))
    given = [jump for jump in question.jumps if number in jump.interfaces and _kind(jump.operator(number)) == kind]
    found = []
    for jump in given:
        beyond, here = jump.at(number, points, normals)
        found.append(Tie(beyond, second, first, here))
    between = f"{regions.names[face.first]} and {regions.names[face.second]}"
    if kind == "values":
        known = {term.channel for jump in given for row in jump.operator(number).rows for term in row}
        for channel in orders[face.first].spread:
            if channel not in known:
                operator = question.space.operator(partial(question.space.coordinates[0], 0, channel))
                found.append(_tie(operator, operator, points, second, first, f"[{channel}] between {between}"))
    elif not given:
        refuse_ambiguous(orders[face.first], orders[face.second], between)
        flows = [conormals(orders[k], normals) for k in (face.second, face.first)]
        for k, (ahead, behind) in enumerate(zip(*flows, strict=True)):
            label = "[flux]" if len(flows[0]) == 1 else f"[flux {k + 1}]"
            sides = as_laws(ahead, behind, between)
            found.append(_tie(*sides, points, second, first, f"{label} between {between}"))
    return found


def _kind(operator: Operator) -> str:
    return "fluxes" if operator.order else "values"


def as_laws(there: Operator, here: Operator, between: str) -> tuple[Flux, Flux]:
    """Fluxes with the field in their coefficients: nonlinear, unless both sides have the same coefficients."""
    sides = [[(term.key, term.coefficient) for term in flow.rows[0]] for flow in (there, here)]
    own = [{name: datum for name, datum in flow.data if not name.startswith(PREFIX)} for flow in (there, here)]
    normal = {f"n_{name}" for name in there._needs_frame().coordinates}
    same = own[0].keys() == own[1].keys() and all(own[0][n] is own[1][n] for n in own[0] if n not in normal)
    jets = {jet for side in sides for _, coefficient in side for jet in coefficient.atoms(Jet)}
    if not jets or (sides[0] == sides[1] and same):
        return there, here
    if any(any(jet.orders) for jet in jets):
        raise ProblemError(
            f"the flux between {between} does not follow from coefficients that depend on the slope of the field and "
            "jump; say what must not jump there: on = 'interface', '[ ... ] = 0'"
        )
    laws = []
    for flow, data in zip((there, here), own, strict=True):
        frame = flow._needs_frame()
        whole = sp.Add(*(as_jet(term, frame) for term in flow.rows[0]))
        laws.append(NonlinearOperator.of([((), whole)], frame, data))
    return laws[0], laws[1]


def _tie(there: Flux, here: Flux, points: Tensor, second: Tensor, first: Tensor, name: str) -> Tie:
    frame = there.frame
    assert frame is not None
    conditions = [make_constraint(name, operator, points, RightHandSide(0.0, frame)) for operator in (there, here)]
    return Tie(conditions[0], second, first, None if there is here else conditions[1])


def conormals(orders: Orders, normals: Tensor) -> list[Operator]:
    """What flows along normals (P, D) by equations of second order, one operator per channel."""
    along = [orders.fluxes(axis) for axis in orders.spatial]
    if not all(along):
        raise ProblemError("equations of regions have second derivatives along all coordinates, in every channel")
    found = []
    for flows in zip(*along, strict=True):
        terms: list[Term] = []
        data: dict[str, Datum] = {}
        for axis, flow in zip(orders.spatial, flows, strict=True):
            name = f"n_{orders.coordinates[axis]}"
            frame = flow._needs_frame()
            component, values = as_coefficient(name, normals[:, axis], frame)
            terms += [term.replaced(coefficient=component * term.coefficient) for term in flow.rows[0]]
            data |= dict(flow.data) | ({name: values} if values is not None else {})
        found.append(Operator.of([terms], flows[0].frame, data))
    return found


def stiffness_of(question: Question) -> list[float]:
    """How large the coefficients of the highest derivatives are, region by region; nothing without regions."""
    found = []
    for area in range(question.areas if question.regions is not None else 0):
        highest = max(question.constraints[k].operator.order for k in question.inside_of(area))
        sizes = [
            float(weight.abs().mean())
            for k in question.inside_of(area)
            for probe in question.constraints[k].expanded()
            for request in probe.requests
            for index, weight in request.weights.items()
            if sum(index) == highest
        ]
        found.append(max(sizes))
    return found


def refuse_ambiguous(first: Orders, second: Orders, between: str) -> None:
    """Of mixed derivatives in a system nobody knows which flux they belong to; it matters if coefficients jump."""
    if len(first.channels) > 1 and _mixed(first) != _mixed(second):
        raise ProblemError(
            f"the flux between {between} does not follow from equations with mixed derivatives whose coefficients "
            "jump; say what must not jump there, the traction for instance: on = 'interface', '[ ... ] = 0'"
        )


def _mixed(orders: Orders) -> set[tuple]:
    return {
        (number, term.channel, term.derivatives, term.coefficient)
        for number, equation in enumerate(orders.equations)
        for row in equation.operator.rows
        for term in row
        if len(term.derivatives) > 1
    }
