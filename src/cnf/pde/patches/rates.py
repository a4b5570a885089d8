"""Rates: equations of second order in time get a channel for the rate of change, v = u_t.

Polynomials in time that meet u_tt = c^2 u_xx at points, and start with the u and u_t of the slab before, grow: whatever
the points, there are frequencies that every slab amplifies. u_t = v and v_t = c^2 u_xx, both at Radau's points, amplify
none. So u_t is read as v and u_tt as v_t, and u_t = v is one more equation of the interior.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import sympy as sp

from cnf.constraints import Constraint, Space
from cnf.constraints.constraint import RightHandSide, make_constraint
from cnf.operators.operator import Operator, Term
from cnf.pde.domains.domain import Sample
from cnf.pde.patches.question import Question


@dataclass(frozen=True)
class Interior:
    """The whole of it, as a `Part`."""

    kind: str = "interior"
    shape: str | None = None
    fixed: Mapping[int, float] | None = None
    region: int | None = None


def with_rates(question: Question) -> Question:
    """The same question in first order in time, with channels for rates after those that were asked for."""
    time = question.time
    if time is None:
        return question
    clock = question.space.coordinates[time]
    while rated := _rated(question, time):
        question = _first_order(question, clock, rated)
    return question


def _rated(question: Question, time: int) -> list[str]:
    """The channels that equations of the interior differentiate more than once in time."""
    clock = question.space.coordinates[time]
    equations = (question.constraints[k] for k in question.inside)
    terms = (term for equation in equations for row in equation.operator.rows for term in row)
    found = {term.channel or "" for term in terms if dict(term.derivatives).get(clock, 0) > 1}
    return [channel for channel in question.space.channels if channel in found]


def _first_order(question: Question, clock: str, rated: list[str]) -> Question:
    """With v for u_t of every rated channel u."""
    space = question.space
    rates = {channel: _name_of_rate(channel, space) for channel in rated}
    wider = Space(space.coordinates, (*space.channels, *rates.values()), time=space.frame.time, vectors=space.vectors)
    known = [_in_rates(c, wider, clock, rates) for c in question.constraints]
    points, side = question.constraints[question.inside[0]].points, RightHandSide(0.0, wider.frame)
    added = []
    for channel, rate in rates.items():
        row = [Term(channel, derivatives=((clock, 1),)), Term(rate, sp.Integer(-1))]
        added.append(make_constraint(f"rate of {channel}", Operator.of([row], wider.frame), points, side))

    def at(k: int, sample: Sample) -> Constraint:
        if k >= len(known):
            return added[k - len(known)].at(sample.points)
        return _in_rates(question.at(k, sample), wider, clock, rates)

    return replace(
        question,
        space=wider,
        constraints=[*known, *added],
        places=[*question.places, *[Interior()] * len(added)],
        at=at,
        asked=question.asked or len(space.channels),
    )


def _in_rates(constraint: Constraint, wider: Space, clock: str, rates: Mapping[str, str]) -> Constraint:
    """The same condition with every derivative in time of a rated channel as one less of its rate."""
    rows = [[_in_rate(term, clock, rates) for term in row] for row in constraint.operator.rows]
    return replace(constraint, operator=Operator.of(rows, wider.frame, dict(constraint.operator.data)))


def _in_rate(term: Term, clock: str, rates: Mapping[str, str]) -> Term:
    orders = dict(term.derivatives)
    if term.channel is None or term.channel not in rates or clock not in orders:
        return term
    orders[clock] -= 1
    left = tuple(sorted((name, order) for name, order in orders.items() if order))
    return term.replaced(channel=rates[term.channel], derivatives=left)


def _name_of_rate(channel: str, space: Space) -> str:
    found = f"rate_{channel.replace('_', '')}"
    while found in (*space.channels, *space.coordinates):
        found += "x"
    return found
