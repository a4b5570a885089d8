"""Ranges: what a coefficient does inside whole cells of the integration variables, by interval arithmetic.

For every cell a lower and an upper bound of an expression are found, a bound of its slope along each variable, and its
pace: how many natural units (radians of a sine, widths of a peak) it may go through per unit of length. A peak of any
width shows in these bounds, however few points are looked at: that is what makes them different from samples. Bounds
may be wider than the truth and become sharp as cells shrink.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import sympy as sp
import torch
from torch import Tensor

from cnf.operators.coefficients import DataFunction, Datum, factors
from cnf.operators.detail import Detail
from cnf.operators.evaluation import evaluate, evaluate_all, repeated
from cnf.operators.field_functions import Jet

NEGLIGIBLE = 1e-19  # parts of a sum this much smaller than its largest value anywhere do not show
ROUNDING = 1e-10  # a kink at the edge of a cell, up to this share of what its argument does there, is not inside
LOOKS = {1: 9, 2: 5, 3: 3}  # at the field in a cell, along every variable
SMOOTH_POWER = 8  # powers up to which polynomials are followed by the nodes of any cell
SATURATED = {sp.tanh: 20.0, sp.erf: 7.0}  # arguments beyond which these are constant to rounding


@dataclass(frozen=True)
class Bounds:
    """`lower`, `upper` (B,); `slope`, `pace` (B, V)."""

    lower: np.ndarray
    upper: np.ndarray
    slope: np.ndarray
    pace: np.ndarray

    @property
    def size(self) -> np.ndarray:
        return np.maximum(np.abs(self.lower), np.abs(self.upper))

    @property
    def least(self) -> np.ndarray:
        """The smallest absolute value."""
        return np.where(_straddles(self), 0.0, np.minimum(np.abs(self.lower), np.abs(self.upper)))


def _straddles(b: Bounds) -> np.ndarray:
    """Where zero lies inside the range, not just at its edge."""
    slack = ROUNDING * (b.upper - b.lower)
    return (b.lower < -slack) & (b.upper > slack)


@dataclass(frozen=True)
class Ranges:
    """The bounds of expressions in cells `lower`, `upper` (B, V) of the variables.

    All else in the expressions stands for its values at the points: `values` as in `evaluate`. `cut` are the arguments
    of kinks at which cells are divided anyway. `doubts` collects what is not known of callables. Jets are those of a
    known field: values and slopes are looked at in every cell, its detail says how much may lie between the looks.
    """

    variables: Sequence[sp.Symbol]
    lower: np.ndarray
    upper: np.ndarray
    values: Mapping[sp.Symbol, Tensor]
    data: Mapping[str, Datum]
    like: Tensor
    cut: frozenset[sp.Expr] = frozenset()
    doubts: set[str] | None = None
    detail: Detail | None = None  # of the field whose jets are in the expressions
    shared: dict[sp.Expr, Bounds | None] = field(default_factory=dict)  # what occurs several times, worked out once

    def of(self, node: sp.Expr) -> Bounds:
        shared: dict[sp.Expr, Bounds | None] = dict.fromkeys(repeated([node]))
        with np.errstate(all="ignore"):
            return replace(self, shared=shared)._of(node)

    def _of(self, node: sp.Expr) -> Bounds:
        if node not in self.shared:
            return self._visited(node)
        known = self.shared[node]
        if known is None:
            known = self.shared[node] = self._visited(node)
        return known

    def _visited(self, node: sp.Expr) -> Bounds:
        if node in self.variables:
            v = list(self.variables).index(node)
            slope = np.zeros(self.lower.shape)
            slope[:, v] = 1.0
            return Bounds(self.lower[:, v], self.upper[:, v], slope, np.zeros_like(slope))
        if node.is_Number:
            return self._filled(float(node), float(node))
        if symbols_in(node).isdisjoint(self.variables):
            return self._constant(node)
        if node.is_Add:
            return self._sum([self._of(a) for a in node.args])
        if node.is_Mul:
            return self._product([self._of(a) for a in factors(node)])
        if node.is_Pow:
            return self._power(*node.args)
        if isinstance(node, Jet) and self.detail is not None:
            return self._jet(node, self.detail)
        if isinstance(node, DataFunction):
            return self._callable(node)
        if isinstance(node, sp.Max | sp.Min):
            return self._extreme(node)
        if isinstance(node, sp.atan2):
            return self._angle(node)
        if node.func in (sp.sec, sp.csc, sp.cot):
            below = {sp.sec: sp.cos, sp.csc: sp.sin, sp.cot: sp.tan}[node.func](node.args[0])
            return self._reciprocal(self._of(below), 1.0)
        return self._function(node.func, self._of(node.args[0]), node.args[0])

    def _filled(self, lower: float, upper: float) -> Bounds:
        count, zero = self.lower.shape[0], np.zeros(self.lower.shape)
        return Bounds(np.full(count, lower), np.full(count, upper), zero, zero)

    def _constant(self, node: sp.Expr) -> Bounds:
        """Constant along the variables: its values at the points."""
        found = evaluate(node, self.values, self.data, self.like).detach().to(torch.float64)
        return self._filled(float(found.min()), float(found.max()))

    def _sum(self, parts: Sequence[Bounds]) -> Bounds:
        lower, upper, slope = (
            np.sum([getattr(p, name) for p in parts], axis=0) for name in ("lower", "upper", "slope")
        )
        total = np.maximum(np.abs(lower), np.abs(upper))
        largest = total[np.isfinite(total)].max(initial=0.0)
        paces = [np.where((p.size <= NEGLIGIBLE * largest)[:, None], 0.0, p.pace) for p in parts]
        return Bounds(lower, upper, slope, np.maximum.reduce(paces))

    def _product(self, parts: Sequence[Bounds]) -> Bounds:
        total = parts[0]
        for part in parts[1:]:
            corners = [a * b for a in (total.lower, total.upper) for b in (part.lower, part.upper)]
            slope = _times(total.slope, part.size[:, None]) + _times(part.slope, total.size[:, None])
            pace = np.maximum(total.pace, part.pace)
            low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)  # NaN: zero times infinity
            low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
            total = Bounds(low, high, slope, pace)
        return total

    def _power(self, base: sp.Expr, exponent: sp.Expr) -> Bounds:
        if symbols_in(exponent).isdisjoint(self.variables):
            held = self._constant(exponent)
            n, below = float(held.lower[0]), self._of(base)
            if exponent.is_Integer and n > 0:
                return self._whole_power(below, int(n))
            if n == held.upper[0]:
                return self._reciprocal(below, -n)
        if base == sp.E:
            return self._function(sp.exp, self._of(exponent), exponent)
        logarithm = self._function(sp.log, self._of(base), base)
        return self._function(sp.exp, self._product([self._of(exponent), logarithm]), exponent)

    def _whole_power(self, b: Bounds, n: int) -> Bounds:
        low, high = b.lower**n, b.upper**n
        if n % 2 == 0:
            low, high = np.where(_straddles(b), 0.0, np.minimum(low, high)), np.maximum(low, high)
        slope = _times(b.slope, (n * b.size ** (n - 1))[:, None])
        pace = b.pace if n <= SMOOTH_POWER else np.maximum(b.pace, n * b.slope / b.size[:, None])
        return Bounds(low, high, slope, pace)

    def _reciprocal(self, b: Bounds, n: float) -> Bounds:
        """b^-n, singular where b is zero unless it is a root (n < 0)."""
        least, size = b.least, b.size
        ends = np.stack([least**-n, size**-n])
        low, high = ends.min(axis=0), ends.max(axis=0)
        odd = n.is_integer() and n % 2 == 1
        if odd:
            low, high = (
                np.where(b.lower < 0, -high, low),
                np.where(b.lower < 0, np.where(b.upper > 0, high, -low), high),
            )
        pace = np.maximum(b.pace, (1 + abs(n)) * b.slope / least[:, None])
        slope = _times(b.slope, (abs(n) * np.maximum(least ** (-n - 1), size ** (-n - 1)))[:, None])
        return Bounds(low, high, slope, pace)

    def _is_cut(self, argument: sp.Expr) -> bool:
        return argument in self.cut or -argument in self.cut

    def _extreme(self, node: sp.Expr) -> Bounds:
        choose = np.maximum if isinstance(node, sp.Max) else np.minimum
        parts = [self._of(a) for a in node.args]
        total = parts[0]
        for k, part in enumerate(parts[1:], 1):
            pace, slope = np.maximum(total.pace, part.pace), np.maximum(total.slope, part.slope)
            lower, upper = choose(total.lower, part.lower), choose(total.upper, part.upper)
            apart = _ahead(total, part, choose is np.maximum), _ahead(part, total, choose is np.maximum)
            for ahead, one in zip(apart, (total, part), strict=True):  # one of them decides all over the cell
                pace, slope = (np.where(ahead[:, None], b, a) for a, b in ((pace, one.pace), (slope, one.slope)))
            if len(parts) > 2 or not self._is_cut(node.args[0] - node.args[k]):
                pace = np.where((apart[0] | apart[1])[:, None], pace, np.inf)
            total = Bounds(lower, upper, slope, pace)
        return total

    def _angle(self, node: sp.Expr) -> Bounds:
        y, x = (self._of(a) for a in node.args)
        radius = np.hypot(y.least, x.least)[:, None]
        torn = (y.lower <= 0) & (y.upper >= 0) & (x.lower < 0)  # across the negative axis it jumps
        pace = np.where(torn[:, None], np.inf, np.maximum(np.maximum(x.pace, y.pace), (x.slope + y.slope) / radius))
        whole = self._filled(-np.pi, np.pi)
        return Bounds(whole.lower, whole.upper, (x.slope + y.slope) / radius, pace)

    def _callable(self, node: DataFunction) -> Bounds:
        """What a callable does between points is known only if it says so: `shortest_length`."""
        lengths = declared_lengths(self.data[node.data], len(node.args))
        if lengths is None:
            if self.doubts is not None:
                self.doubts.add(
                    f"the callable {node.data!r} may vary anywhere; give it as an expression, or say over which "
                    f"distance at least it varies: function.shortest_length = 0.1"
                )
            lengths = np.full(len(node.args), np.inf)
        # Two looks at every cell tell the size; the length then bounds the slope.
        both = np.repeat([[0.25], [0.75]], self.lower.shape[1], axis=1)
        ((least, most),) = self._seen([node], both)
        largest = np.maximum(np.abs(least), np.abs(most))
        pace = sum(self._of(a).slope / lengths[k] for k, a in enumerate(node.args))
        return Bounds(-2 * largest, 2 * largest, _times(pace, 2 * largest[:, None]), pace)

    def _jet(self, node: Jet, detail: Detail) -> Bounds:
        """A derivative of a known field: what is seen of it in a cell, and what its slopes may add between the looks.

        A cell that is resolved spans few natural units of the field, and the looks are close beside those. Slopes are
        looked at themselves; twice their largest covers what they do in between.
        """
        where = [self._of(a) for a in node.args]
        boxes = (np.stack([b.lower for b in where], axis=1), np.stack([b.upper for b in where], axis=1))
        paces = detail.pace(*boxes)  # (B, D)
        pace = np.sum([_times(paces[:, k, None], b.slope) for k, b in enumerate(where)], axis=0)
        along = [k for k, b in enumerate(where) if b.slope.any()]
        each = LOOKS.get(len(self.variables), 2)
        shares = (
            np.stack(np.meshgrid(*[np.arange(each)] * len(self.variables)), -1).reshape(-1, len(self.variables)) + 0.5
        ) / each
        (least, most), *slopes = self._seen([node, *(node.fdiff(k + 1) for k in along)], shares)
        steepest = {k: 2 * np.maximum(np.abs(a), np.abs(b)) for k, (a, b) in zip(along, slopes, strict=True)}
        slope = np.sum(
            [np.zeros_like(pace), *(_times(where[k].slope, s[:, None]) for k, s in steepest.items())], axis=0
        )
        between = (slope * (self.upper - self.lower)).sum(axis=1) / (2 * each)
        return Bounds(least - between, most + between, slope, pace)

    def _seen(self, nodes: Sequence[sp.Expr], shares: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """The least and the largest value of expressions in every cell, (B,) each, at `shares` (n, V) of its sides."""
        count = self.lower.shape[0]
        found = [(np.full(count, np.inf), np.full(count, -np.inf)) for _ in nodes]
        like = self.like[:, :1].expand(-1, count)
        for share in shares:
            inside = torch.as_tensor(self.lower + share * (self.upper - self.lower)).to(self.like)
            values = {**self.values, **{s: inside[None, :, v] for v, s in enumerate(self.variables)}}
            for k, seen in enumerate(evaluate_all(nodes, values, self.data, like)):
                shown = seen.detach().to(torch.float64).expand(like.shape)
                least, most = shown.amin(dim=0).cpu().numpy(), shown.amax(dim=0).cpu().numpy()
                found[k] = (np.minimum(found[k][0], least), np.maximum(found[k][1], most))
        return found

    def _function(self, function: type[sp.Expr], u: Bounds, argument: sp.Expr) -> Bounds:
        if function in (sp.Abs, sp.sign):
            inside = _straddles(u) & (not self._is_cut(argument))
            pace = np.where(inside[:, None], np.inf, u.pace)
            if function is sp.Abs:
                return Bounds(u.least, u.size, u.slope, pace)
            return Bounds(
                np.sign(u.lower), np.sign(u.upper), np.zeros_like(u.slope), np.where(inside[:, None], pace, 0.0)
            )
        lower, upper, steepest, units = FUNCTIONS[function](u)
        return Bounds(
            lower, upper, _times(u.slope, steepest[:, None]), np.maximum(u.pace, _times(u.slope, units[:, None]))
        )


@lru_cache(maxsize=4096)
def symbols_in(node: sp.Expr) -> frozenset[sp.Symbol]:
    """SymPy looks for them anew whenever it is asked."""
    return frozenset(node.free_symbols)


def declared_lengths(function: object, width: int) -> np.ndarray | None:
    """The shortest distances, one per coordinate, over which a callable says it varies."""
    length = getattr(function, "shortest_length", None)
    if length is None:
        return None
    return np.broadcast_to(np.asarray(length, dtype=np.float64), (width,))


def _times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A product in which nothing times anything is nothing."""
    return np.where((a == 0) | (b == 0), 0.0, a * b)


def _ahead(a: Bounds, b: Bounds, larger: bool) -> np.ndarray:
    """Where a is the larger (or the smaller) one all over the cell, up to its edge."""
    slack = ROUNDING * (np.abs(a.upper - a.lower) + np.abs(b.upper - b.lower))
    return a.lower >= b.upper - slack if larger else a.upper <= b.lower + slack


# Every function: range (lower, upper), steepest slope, and natural units per unit of its argument; each (B,).
Facts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _rising(function: Callable[[np.ndarray], np.ndarray], slope: Callable[[Bounds], np.ndarray], units) -> Callable:
    return lambda u: (function(u.lower), function(u.upper), slope(u), units(u))


def _one(u: Bounds) -> np.ndarray:
    return np.ones_like(u.lower)


def _wave(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[Bounds], Facts]:
    def facts(u: Bounds) -> Facts:
        middle, half = function((u.lower + u.upper) / 2), (u.upper - u.lower) / 2
        return np.maximum(middle - half, -1.0), np.minimum(middle + half, 1.0), _one(u), _one(u)

    return facts


def _tangent(u: Bounds) -> Facts:
    turns = np.floor(u.lower / np.pi + 0.5)
    whole = (np.floor(u.upper / np.pi + 0.5) == turns) & np.isfinite(u.upper - u.lower)
    gap = np.where(whole, np.pi / 2 - np.maximum(np.abs(u.lower - turns * np.pi), np.abs(u.upper - turns * np.pi)), 0.0)
    low, high = (np.where(whole, np.tan(end), sign * np.inf) for end, sign in ((u.lower, -1), (u.upper, 1)))
    return low, high, 1 / np.sin(np.maximum(gap, 0)) ** 2, 1 + 1 / np.maximum(gap, 0)


def _even_growing(u: Bounds) -> Facts:
    return np.cosh(u.least), np.cosh(u.size), np.sinh(u.size), _one(u)


def _within_one(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[Bounds], Facts]:
    def facts(u: Bounds) -> Facts:
        ends = [function(np.clip(end, -1, 1)) for end in (u.lower, u.upper)]
        gap = np.maximum(1 - u.size, 0.0)
        return np.minimum(*ends), np.maximum(*ends), 1 / np.sqrt(gap), 1 + 1 / gap

    return facts


def _unsaturated(function: type[sp.Expr]) -> Callable[[Bounds], np.ndarray]:
    return lambda u: np.where(u.least < SATURATED[function], 1.0, 0.0)


def _error_function(x: np.ndarray) -> np.ndarray:
    return torch.erf(torch.as_tensor(x)).numpy()


FUNCTIONS: dict[type[sp.Expr], Callable[[Bounds], Facts]] = {
    sp.sin: _wave(np.sin),
    sp.cos: _wave(np.cos),
    sp.tan: _tangent,
    sp.asin: _within_one(np.arcsin),
    sp.acos: _within_one(np.arccos),
    sp.atan: _rising(np.arctan, lambda u: 1 / (1 + u.least**2), lambda u: 1 / np.maximum(1.0, u.least)),
    sp.sinh: _rising(np.sinh, lambda u: np.cosh(u.size), _one),
    sp.cosh: _even_growing,
    sp.tanh: _rising(np.tanh, lambda u: 1 / np.cosh(u.least) ** 2, _unsaturated(sp.tanh)),
    sp.erf: _rising(_error_function, lambda u: 2 / np.sqrt(np.pi) * np.exp(-(u.least**2)), _unsaturated(sp.erf)),
    sp.exp: _rising(np.exp, lambda u: np.exp(u.upper), _one),
    sp.log: _rising(
        lambda x: np.log(np.maximum(x, 0.0)), lambda u: 1 / np.maximum(u.lower, 0), lambda u: 2 / np.maximum(u.lower, 0)
    ),
}
