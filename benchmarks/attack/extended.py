"""Extended: the field in many digits, from its stored weights and parameters, by textbook formulas.

Settles what nested differentiation in float64 cannot: whether a derivative is really missed, or only the reference
rounded. Derivatives are divided differences in a hundred digits or so. Parts without a formula here raise
`UnknownPartError`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import mpmath as mp
import numpy as np
import sympy as sp
import torch
from torch import Tensor, nn

import cnf
from benchmarks.attack.conditions import Asked, Index, Term, moved
from benchmarks.attack.extended_networks import Point, UnknownPartError, network, numbers
from benchmarks.attack.networks import Rescaled
from cnf import bases, kernels

STEP = 20  # of differences, as a negative power of ten: at kinks of a rough kernel their error is of first order


class Extended:
    """f_c(x) for points of mpf; `parts` are the conditions, which Hermite functions are made of."""

    def __init__(self, solution: cnf.Solution, parts: Sequence[tuple[Asked, np.ndarray]]):
        weights = getattr(solution.expansion, "weights", None)
        if weights is None or getattr(solution.expansion, "evaluator", None) is None:
            raise UnknownPartError("patches")
        if getattr(solution.expansion.evaluator, "precision", None) is not None:
            raise UnknownPartError("another precision")
        self.weights = weights.detach().double().numpy()
        self.basis, self.base, self.parts = solution.basis, solution.base, parts

    def value(self, channel: int, x: Point) -> Any:
        total = mp.mpf(0)
        if type(self.basis) is not bases.Hermite:
            own = self.weights if self.weights.ndim == 1 else self.weights[:, channel]
            found = functions(self.basis, x, channel)
            total = mp.fsum(mp.mpf(float(w)) * v for w, v in zip(own, found, strict=True) if w)
        if self.base is None:
            return total
        inner = getattr(self.base, "_base", None)
        if not isinstance(inner, nn.Module):
            raise UnknownPartError("base")
        return total + network(inner, x)[channel]

    def hermite(self, channel: int, index: Index, x: Point, step: Any) -> Any:
        """sum_j beta_j L_j^y d_x^index k(x - y): derivatives in y are those of k(z), with a sign."""
        kernel, weights, total = self.basis.kernel, self.weights.reshape(self.weights.shape[0]), []
        j = 0
        for asked, points in self.parts:
            for row in asked.rows:
                if any(term.over for term in row):
                    raise UnknownPartError("an integral in Hermite")
                for term in row:
                    strengths, places = term.coefficient(points), moved(points, term)
                    order = tuple(a + b for a, b in zip(index, term.index, strict=True))
                    for p in range(points.shape[0]):
                        if term.channel != channel or not weights[j + p]:
                            continue
                        z = [v - mp.mpf(float(a)) for v, a in zip(x, places[p], strict=True)]
                        zero = [mp.mpf(0)] * len(z)
                        slope = central(lambda *y: profile(kernel, _square(y, zero, kernel)), z, order, step)  # noqa: B023
                        sign = -1 if sum(term.index) % 2 else 1
                        total.append(sign * mp.mpf(float(weights[j + p])) * mp.mpf(float(strengths[p])) * slope)
                j += points.shape[0]
        return mp.fsum(total)

    def derivative(self, channel: int, index: Index, point: np.ndarray) -> Any:
        inner = max((t.index for a, _ in self.parts for row in a.rows for t in row), key=sum)
        with mp.workdps(digits(index, inner)):
            x = [mp.mpf(float(v)) for v in point]
            step = mp.mpf(10) ** -STEP * _reach(self.basis)
            if type(self.basis) is bases.Hermite:
                found = self.hermite(channel, index, x, step)
                return (
                    found if self.base is None else found + central(lambda *y: self.value(channel, y), x, index, step)
                )
            return central(lambda *y: self.value(channel, y), x, index, step)

    def row(self, terms: Sequence[Term], weights: Sequence[float], places: Sequence[np.ndarray]) -> Any:
        """The sum of terms at the places where they look, (D,) each."""
        with mp.workdps(max(digits(t.index) for t in terms)):
            found = [self.derivative(t.channel, t.index, place) for t, place in zip(terms, places, strict=True)]
            return mp.fsum(mp.mpf(float(w)) * v for w, v in zip(weights, found, strict=True))


def digits(*indices: Index) -> int:
    """As many as differences of these orders lose, and forty."""
    return 40 + STEP * sum(map(sum, indices))


def _reach(basis: nn.Module) -> Any:
    """A length over which the functions vary."""
    lengths = [m.length.min() for m in basis.modules() if isinstance(getattr(m, "length", None), Tensor)]
    lengths += [m.bandwidth.min() for m in basis.modules() if isinstance(m, bases.RandomFourier)]
    lengths += [m.log_bandwidth.exp().min() for m in basis.modules() if isinstance(m, bases.SkewedRBF)]
    lengths += [m.scale.min() for m in basis.modules() if isinstance(m, bases.Polynomial)]
    lengths += [m.length.min() for m in basis.modules() if isinstance(m, Rescaled)]
    return mp.mpf(min((float(v.detach()) for v in lengths), default=1.0))


def central(function: Callable[..., Any], x: Point, index: Index, step: Any) -> Any:
    """d^index by central differences of the lowest order, axis by axis: the error is O(step^2)."""
    for axis, order in enumerate(index):
        if order:
            rest = tuple(0 if k == axis else n for k, n in enumerate(index))
            parts = []
            for k in range(order + 1):
                shifted = list(x)
                shifted[axis] = x[axis] + (mp.mpf(order) / 2 - k) * step
                parts.append((-1) ** k * mp.binomial(order, k) * central(function, shifted, rest, step))
            return mp.fsum(parts) / step**order
    return function(*x)


# -- bases ----------------------------------------------------------------------------------------------------------


def functions(basis: nn.Module, x: Point, channel: int) -> list:
    """All functions at a point."""
    kind = type(basis)
    if kind is bases.Concat:
        return [v for member in basis.bases for v in functions(member, x, channel)]
    if kind is bases.Polynomial:
        z = [(v - c) / s for v, c, s in zip(x, numbers(basis.center), numbers(basis.scale), strict=True)]
        return [mp.fprod(v**n for v, n in zip(z, e, strict=True)) for e in basis.exponents]
    if kind is bases.RandomFourier:
        omega = numbers(basis.directions / basis.bandwidth)
        scale = mp.sqrt(mp.mpf(2) / basis.size)
        phases = numbers(basis.phases)
        return [scale * mp.cos(mp.fdot(o, x) + b) for o, b in zip(omega, phases, strict=True)]
    if kind is bases.SkewedRBF:
        return _skewed(basis, x)
    if kind is bases.Kernel:
        return _kernel(basis, x)
    if kind is bases.Hybrid:
        window = [profile(basis.window, _square(x, a, basis.window)) for a in numbers(basis.anchors)]
        return [a * b for a, b in zip(functions(basis.inner, x, channel), window, strict=True)]
    if kind is bases.ConstraintLayer:
        return network(basis.network, x)
    if kind is bases.Independent:
        found = [network(member, x) for member in basis.networks]
        return [v[channel if len(v) > 1 else 0] for v in found]
    if kind is bases.Hypernet:
        found = [network(member, x) for member in _generated(basis.network, basis)]
        return [v[channel if len(v) > 1 else 0] for v in found]
    if kind is bases.HypernetKernel:
        found = []
        for member, anchor in zip(_generated(basis.encoder, basis), numbers(basis.anchors), strict=True):
            here, centre = network(member, x), network(member, anchor)
            if basis.kernel.distance:
                found.append(profile(basis.kernel, _square(here, centre, basis.kernel)))
            else:
                found.append(mp.fdot(here, centre))
        return found
    raise UnknownPartError(kind.__name__)


def _generated(pattern: nn.Module, basis: nn.Module) -> list[nn.Module]:
    """One network for every function, its parameters as the hypernetwork writes them."""
    written, made = basis.hypernetwork(), []
    for j in range(basis.size):
        member = copy.deepcopy(pattern)
        with torch.no_grad():
            for name, parameter in member.named_parameters():
                parameter.copy_(written[name][j])
        made.append(member)
    return made


def _skewed(basis: nn.Module, x: Point) -> list:
    root = basis.snapshot().root
    found = []
    for anchor, lower in zip(numbers(basis.anchors), numbers(root), strict=True):
        d = [v - a for v, a in zip(x, anchor, strict=True)]
        z = [mp.fsum(lower[a][k] * d[a] for a in range(len(d))) for k in range(len(d))]
        found.append(mp.exp(-mp.fsum(v * v for v in z) / 2))
    return found


def _kernel(basis: nn.Module, x: Point) -> list:
    anchors = numbers(basis.anchors)
    if basis.encoder is None:
        if not basis.kernel.distance:
            return [mp.fdot(x, a) for a in anchors]
        return [profile(basis.kernel, _square(x, a, basis.kernel)) for a in anchors]
    here = network(basis.encoder, x)
    centres = [network(basis.encoder, a) for a in anchors]
    if not basis.kernel.distance:
        return [mp.fdot(here, c) for c in centres]
    return [profile(basis.kernel, _square(here, c, basis.kernel)) for c in centres]


def _square(x: Point, y: Point, kernel: nn.Module) -> Any:
    lengths = numbers(kernel.length) if kernel.length.dim() else [mp.mpf(float(kernel.length))] * len(x)
    return mp.fsum(((a - b) / length) ** 2 for a, b, length in zip(x, y, lengths, strict=True))


def profile(kernel: nn.Module, s: Any) -> Any:
    """k as a function of the squared, scaled distance."""
    kind = type(kernel)
    if kind is kernels.Gaussian:
        return mp.exp(-s / 2)
    if kind is kernels.TruncatedGaussian:
        return mp.exp(-s / 2) if s < 9 else mp.mpf(0)
    if kind is kernels.Wendland:
        r = mp.sqrt(s)
        return mp.polyval(wendland(kernel.k, kernel.dimension), r) if r < 1 else mp.mpf(0)
    if kind is kernels.Matern:
        z, p = mp.sqrt(2 * mp.mpf(kernel.nu) * s), int(kernel.nu - 0.5)
        terms = [mp.fac(p + i) / (mp.fac(i) * mp.fac(p - i)) * (2 * z) ** (p - i) for i in range(p + 1)]
        return mp.exp(-z) * mp.fac(p) / mp.fac(2 * p) * mp.fsum(terms)
    raise UnknownPartError(kind.__name__)


@lru_cache(maxsize=16)
def wendland(k: int, dimension: int) -> list:
    """Coefficients, highest first, of int_r^1 t (t^2 - r^2)^(k-1) (1 - t)^l dt, brought to 1 at r = 0."""
    r, t = sp.symbols("r t")
    ell = dimension // 2 + k + 1
    found = (
        (1 - r) ** ell if k == 0 else sp.integrate(sp.expand(t * (t**2 - r**2) ** (k - 1) * (1 - t) ** ell), (t, r, 1))
    )
    poly = sp.Poly(sp.expand(found), r)
    with mp.workdps(40 + 8 * STEP):
        return [mp.mpf(c.p) / c.q for c in (v / poly.eval(0) for v in poly.all_coeffs())]
