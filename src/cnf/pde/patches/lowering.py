"""Lowering: plates. Equations of fourth order whose highest part is that of Laplace twice get a channel w = Laplace u.

Then they are of second order, in two channels, on whatever domain patches cover: u and w are tied by values and fluxes,
which are the deflection, the slope, the moment and the shear. Conditions on the boundary are read in w where they can.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from cnf.operators.operator import Row, Term
from cnf.operators.place import HERE
from cnf.pde.patches.question import Question
from cnf.pde.patches.widening import new_name, widened

Index = tuple[int, ...]


def with_moments(question: Question) -> Question:
    """The same question in second order, with w = Laplace u after the channels that were asked for, where that goes."""
    space, names = question.space, question.space.coordinates
    rows = [row for k in question.inside for row in question.constraints[k].operator.rows]
    stiff = {term.channel for row in rows for term in row if term.order > 2}
    if question.time is not None or question.regions is not None or len(names) < 2 or not stiff:
        return question
    moments = {channel: new_name("laplace", channel, space) for channel in space.channels if channel in stiff}

    def rewritten(row: Row) -> list[Term]:
        return [part for channel in space.channels for part in _divided(row, channel, moments.get(channel), names)]

    if any(term.order > 2 for row in rows for term in rewritten(row)):
        return question
    meanings = {
        moment: (
            f"Laplace {channel}",
            [*(Term(channel, derivatives=((name, 2),)) for name in names), Term(moment, sp.Integer(-1))],
        )
        for channel, moment in moments.items()
    }
    return widened(question, meanings, rewritten)


def _divided(row: Row, channel: str, moment: str | None, names: Sequence[str]) -> list[Term]:
    """The terms of a channel, those of every order from two on as derivatives of `moment` if they are divisible."""
    own = [term for term in row if term.channel == channel]
    found = [term for term in own if moment is None or term.order < 2 or term.place != HERE]
    for order in sorted({term.order for term in own} - {0, 1}) if moment is not None else ():
        part = [term for term in own if term.order == order and term.place == HERE]
        quotient = _by_laplace({_index(term, names): term.coefficient for term in part})
        if quotient is None:
            found += part
            continue
        found += [
            Term(moment, factor, tuple((name, n) for name, n in sorted(zip(names, index, strict=True)) if n))
            for index, factor in quotient.items()
        ]
    return found


def _index(term: Term, names: Sequence[str]) -> Index:
    orders = dict(term.derivatives)
    return tuple(orders.get(name, 0) for name in names)


def _by_laplace(terms: dict[Index, sp.Expr]) -> dict[Index, sp.Expr] | None:
    """The quotient of a sum of derivatives by the Laplacian; None if something is left over."""
    left, found = dict(terms), {}
    while left:
        index = max(left)
        factor = sp.simplify(left.pop(index))
        if factor == 0:
            continue
        if index[0] < 2:
            return None
        rest = (index[0] - 2, *index[1:])
        found[rest] = factor
        for k in range(1, len(rest)):
            other = tuple(n + 2 * (k == j) for j, n in enumerate(rest))
            left[other] = left.get(other, sp.Integer(0)) - factor
    return found
