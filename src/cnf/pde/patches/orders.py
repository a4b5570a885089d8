"""Orders: how often the equations of a problem differentiate along every coordinate, and what flows across faces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy as sp

from cnf.constraints import Constraint
from cnf.operators.operator import Operator, Term
from cnf.operators.place import HERE


@dataclass(frozen=True)
class Orders:
    """`highest[c][k]`: the highest derivative of channel c along coordinate k among the equations of the interior."""

    coordinates: tuple[str, ...]
    channels: tuple[str, ...]
    time: int | None  # number of the time coordinate
    highest: tuple[tuple[int, ...], ...]
    equations: tuple[Constraint, ...]

    @staticmethod
    def of(equations: Sequence[Constraint], time: int | None) -> Orders:
        frame = equations[0].operator._needs_frame()
        highest = {c: dict.fromkeys(frame.coordinates, 0) for c in frame.channels}
        for term in (t for e in equations for row in e.operator.rows for t in row):
            own = highest[term.channel or ""]
            for name, order in term.derivatives:
                own[name] = max(own[name], order)
        table = tuple(tuple(highest[c][k] for k in frame.coordinates) for c in frame.channels)
        return Orders(frame.coordinates, frame.channels, time, table, tuple(equations))

    def along(self, axis: int) -> int:
        return max(orders[axis] for orders in self.highest)

    @property
    def spatial(self) -> list[int]:
        return [k for k in range(len(self.coordinates)) if k != self.time]

    def normal_derivatives(self, axis: int) -> list[tuple[str, int]]:
        """Channels and orders of what must agree across a face, 0 to n - 1 for an equation of order n."""
        return [(c, j) for c, orders in zip(self.channels, self.highest, strict=True) for j in range(orders[axis])]

    def fluxes(self, axis: int) -> list[Operator]:
        """What flows across a face by equations of second order: a d_l u for every term a d_k d_l u.

        Empty if the equations are not of that kind; the normal derivatives serve then.
        """
        if axis == self.time or any(orders[axis] != 2 for orders in self.highest):
            return []
        name, found = self.coordinates[axis], []
        for equation in self.equations:
            for row in equation.operator.rows:
                terms = [part for term in row for part in _flux(term, name)]
                if terms:
                    found.append(Operator.of([terms], equation.operator.frame, dict(equation.operator.data)))
        return found if len(found) == len(self.channels) else []


def orders_along(equation: Constraint) -> list[int]:
    """The highest derivative along every coordinate in an equation."""
    found = dict.fromkeys(equation.operator._needs_frame().coordinates, 0)
    for term in (t for row in equation.operator.rows for t in row):
        for name, order in term.derivatives:
            found[name] = max(found[name], order)
    return list(found.values())


def _flux(term: Term, name: str) -> list[Term]:
    orders = dict(term.derivatives)
    if term.order != 2 or name not in orders or term.place != HERE:
        return []
    share = sp.Integer(1) if orders[name] == 2 else sp.Rational(1, 2)
    orders[name] -= 1
    left = tuple(sorted((k, n) for k, n in orders.items() if n))
    return [term.replaced(derivatives=left, coefficient=share * term.coefficient)]
