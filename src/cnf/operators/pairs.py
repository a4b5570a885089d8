"""Pairs: numbers with twice the digits, for coefficients whose sums cancel.

1000000 (x - 1000000) becomes 1000000 x - 10^12 when it is multiplied out, and loses twelve digits near x = 1000000 if
it is then evaluated in one. A `Pair` is an unevaluated sum of a value and of what that value lacks. Sums and products
of pairs are right to about 32 digits, by the error-free transformations of Knuth and of Dekker; functions carry what
their arguments lack by their slope. So it does not matter how an expression was rearranged before.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import sympy as sp
import torch
from torch import Tensor

DIGITS = 34  # that numbers in expressions are kept with
SPLITTER = 2.0**27 + 1  # Dekker's: halves the digits of a float64


@dataclass(frozen=True)
class Pair:
    """`value` + `rest`, float64; no rest: not kept track of, or nothing."""

    value: Tensor
    rest: Tensor | None = None

    @property
    def total(self) -> Tensor:
        return self.value if self.rest is None else self.value + self.rest

    def moved(self, value: Tensor, slope: Tensor) -> Pair:
        """A function of this one, its value and its slope here known."""
        return Pair(value, None if self.rest is None else _usable(slope * self.rest))


def wide(value: float | str) -> sp.Float:
    """A number of float64 for expressions: products with others keep what float64 has no room for."""
    return sp.Float(value, DIGITS)


def widened(expression: sp.Expr) -> sp.Expr:
    """The same with its numbers kept in more digits, so that no product of them is rounded."""
    return expression.xreplace({n: wide(float(n)) for n in expression.atoms(sp.Float) if n == wide(float(n))})


def narrowed(expression: sp.Expr) -> sp.Expr:
    """The same with numbers of float64: what is printed has no more digits."""
    return expression.xreplace({n: sp.Float(float(n)) for n in expression.atoms(sp.Float)})


@cache
def halves(number: sp.Expr) -> tuple[float, float]:
    """A number as the nearest one of float64, and what that lacks."""
    value = float(number)
    return value, float(sp.Float(number, DIGITS) - sp.Float(value, DIGITS))


def plus(a: Pair, b: Pair, careful: bool) -> Pair:
    total = a.value + b.value
    if not careful:
        return Pair(total)
    x, y, s = a.value.detach(), b.value.detach(), total.detach()
    back = s - x
    return _settled(total, _added(_usable((x - (s - back)) + (y - back)), a.rest, b.rest))


def _settled(value: Tensor, rest: Tensor) -> Pair:
    """The rest of a sum that cancelled may be anything but small: it goes into the value as far as that has room."""
    total = value + rest
    return Pair(total, _usable(rest.detach() - (total - value).detach()))


def times(a: Pair, b: Pair, careful: bool) -> Pair:
    product = a.value * b.value
    if not careful:
        return Pair(product)
    x, y, p = a.value.detach(), b.value.detach(), product.detach()
    (x1, x2), (y1, y2) = _split(x), _split(y)
    lacking = _usable(((x1 * y1 - p) + x1 * y2 + x2 * y1) + x2 * y2)
    crossed = [_usable(one.value * other.rest) for one, other in ((a, b), (b, a)) if other.rest is not None]
    return Pair(product, _added(lacking, *crossed))


def inverse(a: Pair, careful: bool) -> Pair:
    quotient = Pair(1 / a.value)
    if not careful:
        return quotient
    back = times(quotient, a, careful)
    return Pair(quotient.value, _usable((1 - back.value - (0.0 if back.rest is None else back.rest)) * quotient.value))


def whole_power(a: Pair, exponent: int, careful: bool) -> Pair:
    if not careful:
        return Pair(a.value**exponent)
    if exponent < 0:
        return inverse(whole_power(a, -exponent, careful), careful)
    found, factor = Pair(torch.ones_like(a.value)), a
    while exponent:
        if exponent & 1:
            found = times(found, factor, careful)
        exponent >>= 1
        if exponent:
            factor = times(factor, factor, careful)
    return found


def _split(x: Tensor) -> tuple[Tensor, Tensor]:
    scaled = SPLITTER * x
    high = scaled - (scaled - x)
    return high, x - high


def _added(first: Tensor, *others: Tensor | None) -> Tensor:
    for other in others:
        if other is not None:
            first = first + other
    return first


def _usable(rest: Tensor) -> Tensor:
    """Beyond the range of float64 nothing can be said of what is lacking."""
    return torch.where(torch.isfinite(rest), rest, 0.0)
