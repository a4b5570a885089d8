"""Rates: equations of second order in time get a channel for the rate of change, v = u_t.

Polynomials in time that meet u_tt = c^2 u_xx at points, and start with the u and u_t of the slab before, grow: whatever
the points, there are frequencies that every slab amplifies. u_t = v and v_t = c^2 u_xx, both at Radau's points, amplify
none. So u_t is read as v and u_tt as v_t, and u_t = v is one more equation of the interior.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import sympy as sp

from cnf.operators.operator import Row, Term
from cnf.pde.patches.question import Question
from cnf.pde.patches.widening import new_name, widened


def with_rates(question: Question) -> Question:
    """The same question in first order in time, with channels for rates after those that were asked for."""
    if question.time is None:
        return question
    clock = question.space.coordinates[question.time]
    while rated := _rated(question, clock):
        rates = {channel: new_name("rate", channel, question.space) for channel in rated}
        meanings = {
            rate: (f"rate of {channel}", [Term(channel, derivatives=((clock, 1),)), Term(rate, sp.Integer(-1))])
            for channel, rate in rates.items()
        }
        question = widened(question, meanings, partial(_in_rates, clock=clock, rates=rates))
    return question


def _rated(question: Question, clock: str) -> list[str]:
    """The channels that equations of the interior differentiate more than once in time."""
    equations = (question.constraints[k] for k in question.inside)
    terms = (term for equation in equations for row in equation.operator.rows for term in row)
    found = {term.channel for term in terms if dict(term.derivatives).get(clock, 0) > 1}
    return [channel for channel in question.space.channels if channel in found]


def _in_rates(row: Row, clock: str, rates: Mapping[str, str]) -> list[Term]:
    return [_in_rate(term, clock, rates) for term in row]


def _in_rate(term: Term, clock: str, rates: Mapping[str, str]) -> Term:
    """A derivative in time of a rated channel as one less of its rate; others as they are."""
    orders = dict(term.derivatives)
    if term.channel is None or term.channel not in rates or clock not in orders:
        return term
    orders[clock] -= 1
    left = tuple(sorted((name, order) for name, order in orders.items() if order))
    return term.replaced(channel=rates[term.channel], derivatives=left)
