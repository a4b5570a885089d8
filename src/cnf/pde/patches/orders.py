"""Orders: how often the equations of a problem differentiate along every coordinate, and what flows across faces.

Channels may differ in order. Weights s of the rows and t of the channels (Douglis and Nirenberg's) say what belongs to
the highest order of a system: derivatives of channel j in row i up to s_i + t_j. For Stokes they are t = (2, 2, 1) and
s = (0, 0, -1): a pressure that is differentiated once stands beside velocities that are differentiated twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import sympy as sp
import torch
from scipy.optimize import linear_sum_assignment

from cnf.constraints import Constraint
from cnf.operators.expansion import expand
from cnf.operators.operator import Operator, Row, Term
from cnf.operators.place import HERE

ABSENT = -1e6  # the order of a channel that does not occur


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
    def rows(self) -> list[Row]:
        """All rows of the equations, in order."""
        return [row for equation in self.equations for row in equation.operator.rows]

    @cached_property
    def weights(self) -> Weights | None:
        """Of rows and channels; None if no channel can be assigned to every row, or as many rows are not there."""
        return self._weighed(self.spatial)

    def _weighed(self, axes: Sequence[int]) -> Weights | None:
        """By the derivatives along these coordinates together."""
        table = np.full((len(self.rows), len(self.channels)), ABSENT)
        names = [self.coordinates[k] for k in axes]
        for i, row in enumerate(self.rows):
            for term in row:
                order = sum(n for name, n in term.derivatives if name in names)
                j = self.channels.index(term.channel or "")
                table[i, j] = max(table[i, j], order)
        return weigh(table)

    @cached_property
    def multipliers(self) -> tuple[bool, ...]:
        """Channels like a pressure: of lower order than others, and not there to be differentiated on their own.

        Along a coordinate, as many conditions go across a face as the determinant of the system has derivatives. If
        these are as many as the rows have on their own, every row counts its own points. A row such as the divergence
        has one too many: what it restrains are the others, and its multiplier is the channel of lower order. All False
        for systems without such rows.
        """
        none = (False,) * len(self.channels)
        along = [self._weighed([axis]) for axis in self.spatial]
        weights = self.weights
        if weights is None or all(w is None or sum(w.own) == w.total for w in along):
            return none
        found = tuple(bool(t < max(weights.channels)) for t in weights.channels)
        return found if sum(found) == sum(s < 0 for s in weights.rows) else none

    @property
    def lower(self) -> tuple[int, ...]:
        """By how much the order of every channel is lower than the highest: 1 for a pressure."""
        if not any(self.multipliers) or self.weights is None:
            return (0,) * len(self.channels)
        return tuple(max(self.weights.channels) - t for t in self.weights.channels)

    @property
    def second(self) -> bool:
        """Whether all channels that space differentiates have second order along all its coordinates.

        Multipliers apart; rates of change and what else is local to a point have no neighbours to agree with.
        """
        own = [h for h, multiplier in zip(self.highest, self.multipliers, strict=True) if not multiplier]
        own = [h for h in own if any(h[k] for k in self.spatial)]
        return bool(own) and all(orders[k] == 2 for orders in own for k in self.spatial)

    @property
    def first(self) -> bool:
        """Whether no equation has derivatives of more than first order, along any coordinate, and there is no time."""
        orders = {term.order for row in self.rows for term in row}
        return self.time is None and max(orders) == 1 and all(any(h) for h in self.highest)

    @property
    def spread(self) -> list[str]:
        """Channels that equations differentiate in space, so that neighbours must agree on them."""
        return [
            c for c, orders in zip(self.channels, self.highest, strict=True) if any(orders[k] for k in self.spatial)
        ]

    def is_local(self, equation: Constraint) -> bool:
        return is_local(equation, self.time)

    @property
    def swings(self) -> bool:
        """Whether something goes to and fro undamped: u_t = v without derivatives in space, beside v_t = Laplace u.

        What is local and only exchanges with its place, as w_t = u - w beside diffusion of u, does not.
        """
        if self.time is None:
            return False
        clock, spread = self.coordinates[self.time], self.spread
        terms = (t for e in self.equations if self.is_local(e) for row in e.operator.rows for t in row)
        return any(t.channel in spread and dict(t.derivatives).get(clock, 0) > 0 for t in terms)

    def restrains(self, equation: Constraint) -> list[bool]:
        """Which rows of an equation of the interior are those that multipliers stand for, like a divergence."""
        start = 0
        for other in self.equations:
            count = len(other.operator.rows)
            if other is equation and any(self.multipliers) and self.weights is not None:
                return [s < 0 for s in self.weights.rows[start : start + count]]
            start += count
        return [False] * len(equation.operator.rows)

    def counted(self, equation: Constraint) -> list[int]:
        """The orders along all coordinates by which the points of an equation are counted.

        Those it has; an equation that restrains others has as many points as its multipliers have functions.
        """
        if any(self.restrains(equation)):
            return [self.along(k) for k in range(len(self.coordinates))]
        return orders_along(equation)

    @property
    def spatial(self) -> list[int]:
        return [k for k in range(len(self.coordinates)) if k != self.time]

    def normal_derivatives(self, axis: int) -> list[tuple[str, int]]:
        """Channels and orders of what must agree across a face, 0 to n - 1 for an equation of order n."""
        kept = [c for c, multiplier in enumerate(self.multipliers) if not multiplier]
        return [(self.channels[c], j) for c in kept for j in range(self.highest[c][axis])]

    def tied_at_coarse(self, axis: int) -> set[tuple[str, int]]:
        """Which of `normal_derivatives` are tied at the points of the coarser side of a face: half of them.

        The higher derivatives; for systems of first order, where there are none, the channels of lower weight, such as
        the fluxes beside a pressure: one condition belongs to either side.
        """
        known = self.normal_derivatives(axis)
        if self.along(axis) > 1 or self.weights is None:
            return {(channel, j) for channel, j in known if j >= -(-self.along(axis) // 2)}
        weight = dict(zip(self.channels, self.weights.channels, strict=True))
        return set(sorted(known, key=lambda entry: -weight[entry[0]])[-(-len(known) // 2) :])

    def stream(self, axis: int, points: np.ndarray) -> np.ndarray | None:
        """The speed b (P,) of b u_k + .. = f across a coordinate, for one channel of first order there; else None."""
        if len(self.channels) > 1 or self.along(axis) != 1 or axis == self.time:
            return None
        index = tuple(int(k == axis) for k in range(len(self.coordinates)))
        probes = expand(self.equations[0].operator, torch.from_numpy(points))
        found = np.zeros(len(points))
        for weight in (r.weights[index] for probe in probes for r in probe.requests if index in r.weights):
            found += weight.detach().expand(len(points)).numpy()
        return found

    def fluxes(self, axis: int) -> list[Operator]:
        """What flows across a face by equations of second order: a d_l u for every term a d_k d_l u, p for p_k.

        Empty if the equations are not of that kind; the normal derivatives serve then.
        """
        own = [c for c, multiplier in enumerate(self.multipliers) if not multiplier and self.channels[c] in self.spread]
        if axis == self.time or any(self.highest[c][axis] != 2 for c in own):
            return []
        name, found = self.coordinates[axis], []
        full = {c: 1 if multiplier else 2 for c, multiplier in zip(self.channels, self.multipliers, strict=True)}
        for equation in self.equations:
            for row, restrains in zip(equation.operator.rows, self.restrains(equation), strict=True):
                if restrains:
                    continue
                terms = [part for term in row for part in _flux(term, name, full[term.channel or ""])]
                if terms:
                    found.append(Operator.of([terms], equation.operator.frame, dict(equation.operator.data)))
        return found if len(found) == len(own) else []


@dataclass(frozen=True)
class Weights:
    """`rows` s and `channels` t with order(i, j) <= s_i + t_j; `own`: the highest order in every row."""

    rows: tuple[int, ...]
    channels: tuple[int, ...]
    own: tuple[int, ...]

    @property
    def total(self) -> int:
        """The order of the determinant: how many conditions go across a face."""
        return sum(self.rows) + sum(self.channels)


def weigh(table: np.ndarray) -> Weights | None:
    """The weights of orders (R, C), ABSENT where a channel does not occur in a row, with the highest row at 0.

    An assignment of largest total order is sought first; then weights are raised until all orders are covered, which
    leaves equality on the assignment.
    """
    if table.shape[0] != table.shape[1]:
        return None
    rows, columns = linear_sum_assignment(table, maximize=True)
    if (table[rows, columns] <= ABSENT / 2).any():
        return None
    lowered = np.zeros(len(rows))
    for _ in range(table.shape[0] + 1):
        channels = (table + lowered[:, None]).max(axis=0)
        before, lowered = lowered, channels[columns] - table[rows, columns]
        if (before == lowered).all():
            break
    own = table.max(axis=1)
    return Weights(*(tuple(int(v) for v in values) for values in (-lowered, channels, own)))


def is_local(equation: Constraint, time: int | None) -> bool:
    """Whether an equation has no derivatives in space, as u_t = v: every point has its own."""
    return not any(order for k, order in enumerate(orders_along(equation)) if k != time)


def orders_along(equation: Constraint) -> list[int]:
    """The highest derivative along every coordinate in an equation."""
    found = dict.fromkeys(equation.operator._needs_frame().coordinates, 0)
    for term in (t for row in equation.operator.rows for t in row):
        for name, order in term.derivatives:
            found[name] = max(found[name], order)
    return list(found.values())


def _flux(term: Term, name: str, full: int) -> list[Term]:
    """The part of a term of `full` order that flows across a face of coordinate `name`."""
    orders = dict(term.derivatives)
    if term.order != full or name not in orders or term.place != HERE:
        return []
    share = sp.Integer(1) if orders[name] == full else sp.Rational(1, 2)
    orders[name] -= 1
    left = tuple(sorted((k, n) for k, n in orders.items() if n))
    return [term.replaced(derivatives=left, coefficient=share * term.coefficient)]
