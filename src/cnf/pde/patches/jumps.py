"""Jumps: where right-hand sides are not smooth cells are cut, and what diffusion makes of jumping data is known.

Data of u_t = K u_xx + B u_x + C u + F jump inside the start, between the start and the boundary (u = 1 at the start,
u = 0 at an end), or at a moment on the boundary. What becomes of them is worked out in advance, order by order, and is
the base of the field: patches make up the rest, which is smooth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import sympy as sp
import torch

from cnf.bases.cells import Cells, Face
from cnf.bases.diffused_jumps import DiffusedJumps
from cnf.constraints import Constraint
from cnf.errors import CnfError
from cnf.operators.coefficients import Datum, RowFunction
from cnf.operators.evaluation import evaluate
from cnf.operators.frame import symbol
from cnf.operators.kinks import Surroundings, kink_arguments, roots
from cnf.operators.place import HERE
from cnf.pde.domains.domain import Sample
from cnf.pde.patches.building import holds_on
from cnf.pde.patches.expansions import Edge, Equation, Series, diffused, made_up, smooth_solution
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.question import Question

ORDERS = 8  # of an expansion, in tau
BESIDE = 1e-6  # of the domain: how far from a place its sides are looked at
MOST_CUTS = 64  # along a coordinate
SAME = 1e-9  # of the domain: positions that differ by no more are one, found with rounding
LARGE = 30.0  # terms of an expansion that outgrow the data by more would cancel against the rest of the field
NOTHING = 1e-12  # of the data: what jumps less is rounding
SEEN = 24  # points per coordinate by which the size of an expansion is judged

Known = tuple[tuple[float, float, float, float], np.ndarray]  # a row of `places` and one of `powers` of DiffusedJumps


def breaks(question: Question) -> list[list[float]]:
    """Per coordinate, where right-hand sides have kinks or jumps that lie across it."""
    domain, names = question.domain, question.space.coordinates
    found: list[set[float]] = [set() for _ in names]
    for constraint in question.constraints:
        side = constraint.right_hand_side
        for argument in kink_arguments(side.source if isinstance(side.source, tuple) else ()):
            own = [k for k, name in enumerate(names) if symbol(name) in argument.free_symbols]
            if len(own) == 1:
                (k,) = own
                found[k] |= set(_roots(argument, names[k], domain.lower[k], domain.upper[k], side.data))
    kept = [_apart(p, *ends) for p, ends in zip(found, zip(domain.lower, domain.upper, strict=True), strict=True)]
    return [positions if len(positions) <= MOST_CUTS else [] for positions in kept]


def _apart(positions: Iterable[float], low: float, high: float) -> list[float]:
    """Positions in order, without those that are an end or the one before but for rounding.

    A root of x^2 at 0 comes out as 1e-16: in a cell of that width, second derivatives are nothing but rounding.
    """
    kept = [low]
    for at in sorted(positions):
        if at - kept[-1] > SAME * (high - low) and high - at > SAME * (high - low):
            kept.append(at)
    return kept[1:]


def cut_at(cells: Cells, positions: Sequence[Sequence[float]]) -> Cells:
    """Cells cut across every coordinate at its positions, all cells that stretch over them."""
    for axis, places in enumerate(positions):
        for at in places:
            chosen = np.flatnonzero((cells.lower[:, axis] < at) & (at < cells.upper[:, axis]))
            cells = cells.cut(chosen, axis, [at] * len(chosen))
    return cells


def diffused_jumps(question: Question, orders: Orders) -> DiffusedJumps | None:
    """The known part of the field; None if no data jump, or the equation is not of that kind."""
    spatial = len(orders.spatial) == 1 and orders.time == 1 and question.domain._is_box and question.is_linear
    if not spatial or orders.highest != ((2, 1),) or len(question.inside) != 1:
        return None
    try:
        found = _Around(question, orders).all()
    except (_UnknownError, CnfError):
        return None
    if not found:
        return None
    places, powers = zip(*found, strict=True)
    return DiffusedJumps(torch.tensor(places, dtype=torch.float64), torch.from_numpy(np.stack(powers)))


class _UnknownError(Exception):
    """Something has no series: a callable, values at points only, a coefficient that is infinite there."""


@dataclass(frozen=True)
class _Around:
    """Everything that is asked of a problem around places of space-time."""

    question: Question
    orders: Orders

    @property
    def size(self) -> float:
        """How large the data are."""
        return max(float(c.values.abs().max()) for c in self.question.constraints)

    def all(self) -> list[Known]:
        """What is known around every place: inside the start, and at both ends, from the start on or later."""
        domain = self.question.domain
        (low, start), (high, _) = domain.lower, domain.upper
        found: list[Known | None] = []
        initial = self.on_face(1, 0)
        if initial is None:
            return []
        side = self.question.constraints[initial].right_hand_side
        sources = side.source if isinstance(side.source, tuple) else ()
        at_start = [e.xreplace({symbol(self.names[1]): sp.Float(start, 17)}) for e in sources]
        inner = {x for g in kink_arguments(at_start) for x in _roots(g, self.names[0], low, high, side.data)}
        for x in sorted(inner)[:MOST_CUTS]:
            equation = self.equation(x, start, 1)
            jump = self.start(initial, x, 1) - self.start(initial, x, -1)
            found.append(self.place(x, start, equation, jump, -1.0))
        for end, x, inward in ((0, low, 1), (1, high, -1)):
            own = self.on_face(0, end)
            if own is None:
                continue
            equation = self.equation(x, start, inward)
            edge = self.edge(own, x, start, inward, 1)
            if edge is None:
                continue
            smooth = smooth_solution(equation, self.start(initial, x, inward))
            found.append(self.place(x, start, equation, made_up(equation, edge, smooth, inward), inward))
            found += self.later(own, x, inward)
        return [place for place in found if place is not None]

    def later(self, condition: int, x: float, inward: int) -> list[Known | None]:
        """Places at an end where its data, or the source, jump at a later moment."""
        domain, time = self.question.domain, self.names[1]
        found: list[Known | None] = []
        moments: set[float] = set()
        for k in (condition, self.question.inside[0]):
            side = self.question.constraints[k].right_hand_side
            sources = side.source if isinstance(side.source, tuple) else ()
            at_end = [e.xreplace({symbol(self.names[0]): sp.Float(x, 17)}) for e in sources]
            for g in kink_arguments(at_end):
                moments |= set(_roots(g, time, domain.lower[1], domain.upper[1], side.data))
        for t in sorted(moments)[:MOST_CUTS]:
            after, before = self.equation(x, t, inward), self.equation(x, t, inward, -1)
            edge, earlier = self.edge(condition, x, t, inward, 1), self.edge(condition, x, t, inward, -1)
            if edge is None or earlier is None:
                continue
            equation = Equation(after.second, after.first, after.zeroth, after.source - before.source)
            change = Edge(edge.slope, edge.value, edge.given - earlier.given)
            smooth = smooth_solution(equation, np.zeros(ORDERS + 1))
            found.append(self.place(x, t, equation, made_up(equation, change, smooth, inward), inward))
        return found

    def place(self, x: float, t: float, equation: Equation, jump: np.ndarray, side: float) -> Known | None:
        """What is known around a place, without the orders that grow too large somewhere else; None if nothing."""
        if equation.diffusion <= 0:
            raise _UnknownError
        powers, place = diffused(equation, jump, side), (x, t, equation.diffusion, float(side))
        domain = self.question.domain
        axes = [np.linspace(a, b, SEEN) for a, b in zip(domain.lower, domain.upper, strict=True)]
        grid = torch.from_numpy(np.stack([g.ravel() for g in np.meshgrid(*axes)], axis=1))
        kept = np.zeros_like(powers)
        largest = 0.0
        for m in range(powers.shape[1]):
            only = np.zeros_like(powers)
            only[:, m] = powers[:, m]
            alone = DiffusedJumps(torch.tensor([place], dtype=torch.float64), torch.from_numpy(only)[None])
            own = float(alone(grid).abs().max())
            if not math.isfinite(own) or own > LARGE * self.size:
                break
            kept[:, m] = powers[:, m]
            largest = max(largest, own)
        return (place, kept) if largest > NOTHING * self.size else None

    @property
    def names(self) -> tuple[str, ...]:
        return self.question.space.coordinates

    def on_face(self, axis: int, end: int) -> int | None:
        """The number of the only condition on an end of a coordinate."""
        domain = self.question.domain
        low, high = (np.array(v) for v in (domain.lower, domain.upper))
        position = float((low, high)[end][axis])
        face = Face(0, -1, axis, end, position, low, high)
        found = [
            k
            for k, place in enumerate(self.question.places)
            if place.kind != "interior" and holds_on(place, face, self.orders)
        ]
        return found[0] if len(found) == 1 else None

    def near(self, x: float, t: float, right: int, later: int) -> np.ndarray:
        """A point beside a place."""
        domain = self.question.domain
        step = BESIDE * np.subtract(domain.upper, domain.lower)
        return np.array([x + right * step[0], t + later * step[1]])

    def equation(self, x: float, t: float, right: int, later: int = 1) -> Equation:
        """The equation inside as series around a place, as it is on one side of it."""
        k = self.question.inside[0]
        constraint = self.question.at(k, Sample(torch.tensor([[x, t]], dtype=torch.float64), None))
        beside = self.near(x, t, right, later)
        x_name, t_name = self.names
        named = {(): "u", ((x_name, 1),): "u_x", ((x_name, 2),): "u_xx", ((t_name, 1),): "u_t"}
        series = dict.fromkeys(named.values(), np.zeros((ORDERS + 1, ORDERS // 2 + 1)))
        for term in constraint.operator.rows[0]:
            key = named.get(tuple(term.derivatives))
            if key is None or term.place != HERE or len(constraint.operator.rows) != 1:
                raise _UnknownError
            data = dict(constraint.operator.data)
            series[key] = series[key] + _series(term.coefficient, self.names, data, (x, t), beside)
        source = self.side(constraint, (x, t), beside)
        by = series["u_t"]
        if by[0, 0] == 0:
            raise _UnknownError
        return Equation(*(_divided(a, by) for a in (-series["u_xx"], -series["u_x"], -series["u"], source)))

    def start(self, k: int, x: float, right: int) -> np.ndarray:
        """Powers of x of the values at the start, on one side of a place."""
        t = self.question.domain.lower[1]
        constraint = self.question.at(k, Sample(torch.tensor([[x, t]], dtype=torch.float64), None))
        beside = self.near(x, t, right, 0)
        if [len(row) for row in constraint.operator.rows] != [1]:
            raise _UnknownError
        ((term,),) = constraint.operator.rows
        if term.derivatives or term.place != HERE:
            raise _UnknownError
        factor = _series(term.coefficient, self.names, dict(constraint.operator.data), (x, t), beside)
        return _divided(self.side(constraint, (x, t), beside), factor)[:, 0]

    def edge(self, k: int, x: float, t: float, inward: int, later: int) -> Edge | None:
        """The condition at an end; None if it looks elsewhere as well (periodic ones) or at other derivatives."""
        normal = torch.tensor([[-float(inward)]], dtype=torch.float64)
        constraint = self.question.at(k, Sample(torch.tensor([[x, t]], dtype=torch.float64), normal))
        beside = self.near(x, t, 0, later)
        if len(constraint.operator.rows) != 1:
            return None
        series = [np.zeros((ORDERS + 1, ORDERS // 2 + 1)) for _ in range(2)]
        for term in constraint.operator.rows[0]:
            if term.place != HERE or tuple(term.derivatives) not in ((), ((self.names[0], 1),)):
                return None
            data = dict(constraint.operator.data)
            series[term.order] = series[term.order] + _series(term.coefficient, self.names, data, (x, t), beside)
        if not (series[1][0, 0] or series[0][0, 0]):
            raise _UnknownError
        return Edge(series[1][0], series[0][0], self.side(constraint, (x, t), beside)[0])

    def side(self, constraint: Constraint, at: tuple[float, float], beside: np.ndarray) -> Series:
        """The right-hand side as a series."""
        side = constraint.right_hand_side
        if isinstance(side.source, tuple):
            return _series(side.source[0], self.names, side.data, at, beside)
        if isinstance(side.source, int | float):
            return _series(sp.Float(side.source), self.names, {}, at, beside)
        raise _UnknownError


def _roots(argument: sp.Expr, name: str, low: float, high: float, data: dict[str, Datum]) -> list[float]:
    like = torch.zeros(1, 1, dtype=torch.float64)
    if {s.name for s in argument.free_symbols} - {name} - set(data):
        return []
    return [float(x) for x in roots(argument, symbol(name), low, high, Surroundings({}, data, like))]


def _series(
    expression: sp.Expr, names: Sequence[str], data: dict[str, Datum], at: tuple[float, float], beside: np.ndarray
) -> Series:
    """Powers of x and t around `at` of what the expression is at `beside`."""
    values, near = (
        {symbol(n): torch.tensor([v], dtype=torch.float64) for n, v in zip(names, place, strict=True)}
        for place in (at, beside)
    )
    like = torch.zeros(1, dtype=torch.float64)

    def value(e: sp.Expr, where: dict[sp.Symbol, torch.Tensor]) -> float:
        return float(evaluate(e, where, data, like).reshape(-1)[0].detach())

    fixed = {node: sp.Float(value(node, values), 17) for node in expression.atoms(RowFunction)}
    smooth = _branch(expression.xreplace(fixed), lambda e: value(e, near))
    found = np.zeros((ORDERS + 1, ORDERS // 2 + 1))
    x, t = (symbol(n) for n in names)
    later, k = smooth, 0
    while later != 0 and k <= ORDERS // 2:
        here, j = later, 0
        while here != 0 and j <= ORDERS - 2 * k:
            found[j, k] = value(here, values) / (math.factorial(j) * math.factorial(k))
            here, j = here.diff(x), j + 1
        later, k = later.diff(t), k + 1
    if not np.isfinite(found).all():
        raise _UnknownError
    return found


def _branch(expression: sp.Expr, value: Callable[[sp.Expr], float]) -> sp.Expr:
    """The expression without kinks: what Abs, sign, Max and Min are where `value` looks."""
    if not expression.atoms(sp.Abs, sp.sign, sp.Max, sp.Min):
        return expression
    parts = [_branch(part, value) for part in expression.args]
    if isinstance(expression, sp.Abs):
        return parts[0] if value(parts[0]) >= 0 else -parts[0]
    if isinstance(expression, sp.sign):
        return sp.Integer(int(np.sign(value(parts[0]))))
    if isinstance(expression, sp.Max | sp.Min):
        return (max if isinstance(expression, sp.Max) else min)(parts, key=value)
    return expression.func(*parts)


def _divided(a: Series, by: Series) -> Series:
    """a / by, as far as the series go."""
    found = np.zeros_like(a)
    left = a.copy()
    for k in range(a.shape[1]):
        for j in range(a.shape[0] - 2 * k):
            found[j, k] = left[j, k] / by[0, 0]
            left[j:, k:] -= found[j, k] * by[: a.shape[0] - j, : a.shape[1] - k]
    return found
