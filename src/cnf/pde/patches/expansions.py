"""Expansions: solutions of u_t = K u_xx + B u_x + C u + F around a place where their data jump, order by order.

A place is (x0, t0), or a corner of space-time. On either side of it there is a smooth formal solution, a series in x
and t that starts from the data of that side. Two of them differ by a series D without F; what diffusion makes of that
is s = sum_m tau^m (P_m(xi) erfc(side xi) + Q_m(xi) e^{-xi^2}), where 2 P_m are the terms of D of weight m (x counts 1,
t counts 2) and the Q_m follow one after the other from the equation,

    -Q_m'' / 4 + xi Q_m' / 2 + (m + 1) Q_m / 2 = R_m - side P_m' / sqrt(pi),

R_m being what terms of lower weight leave. At a corner D is that of a fictitious jump at the boundary, such that s
makes up for what the smooth solution misses of the condition there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cnf.bases.diffused_jumps import slopes

Series = np.ndarray  # (M + 1, M // 2 + 1): coefficients of x^j t^k; only those with j + 2 k <= M count


@dataclass(frozen=True)
class Equation:
    """u_t = K u_xx + B u_x + C u + F, as series around the place; `diffusion` is K there."""

    second: Series
    first: Series
    zeroth: Series
    source: Series

    @property
    def orders(self) -> int:
        return self.second.shape[0] - 1

    @property
    def diffusion(self) -> float:
        return float(self.second[0, 0])


def times(a: Series, b: Series) -> Series:
    """The product, as far as the series go."""
    found = np.zeros_like(a)
    for j, k in zip(*np.nonzero(a), strict=True):
        found[j:, k:] += a[j, k] * b[: a.shape[0] - j, : a.shape[1] - k]
    return found


def along_x(a: Series, order: int = 1) -> Series:
    """The derivative of that order by x."""
    found = a
    for _ in range(order):
        lower = np.zeros_like(found)
        lower[:-1] = found[1:] * np.arange(1, found.shape[0])[:, None]
        found = lower
    return found


def smooth_solution(equation: Equation, start: np.ndarray, source: bool = True) -> Series:
    """The series that starts from sum_j start[j] x^j (M + 1,)."""
    found = np.zeros_like(equation.second)
    found[:, 0] = start
    for k in range(found.shape[1] - 1):
        slope = times(equation.second, along_x(found, 2)) + times(equation.first, along_x(found))
        slope = slope + times(equation.zeroth, found) + (equation.source if source else 0.0)
        found[:, k + 1] = slope[:, k] / (k + 1)
    weight = np.indices(found.shape)
    return np.where(weight[0] + 2 * weight[1] <= equation.orders, found, 0.0)


def diffused(equation: Equation, jump: np.ndarray, side: float) -> np.ndarray:
    """Coefficients (2, M + 1, N) of what becomes of the jump sum_j jump[j] x^j where side x < 0."""
    orders, unit = equation.orders, 2 * math.sqrt(equation.diffusion)
    found = np.zeros((2, orders + 1, 3 * orders + 3))
    difference = smooth_solution(equation, jump, source=False) / 2
    for m in range(orders + 1):
        for k in range(m // 2 + 1):
            found[0, m, m - 2 * k] = difference[m - 2 * k, k] * unit ** (m - 2 * k)
        right = _from_lower(equation, found, m, side)
        right[: orders * 3 + 2] -= side / math.sqrt(math.pi) * np.arange(1, found.shape[2]) * found[0, m, 1:]
        found[1, m] = _gaussian_part(right, m)
    return found


def _gaussian_part(right: np.ndarray, m: int) -> np.ndarray:
    """Q with -Q'' / 4 + xi Q' / 2 + (m + 1) Q / 2 = right, from the highest power down."""
    found = np.zeros(len(right) + 2)
    for d in reversed(range(len(right))):
        found[d] = (right[d] + (d + 2) * (d + 1) / 4 * found[d + 2]) * 2 / (d + m + 1)
    return found[: len(right)]


def _from_lower(equation: Equation, found: np.ndarray, m: int, side: float) -> np.ndarray:
    """The Gaussian part of what orders below m leave of the equation at tau^(m - 2), (N,)."""
    unit, width = 2 * math.sqrt(equation.diffusion), found.shape[2]
    slope = slopes(found, side)
    second = slopes(slope, side)
    total = np.zeros(width)
    for series, own, lost in (
        (equation.second, second[1] / unit**2, 2),
        (equation.first, slope[1] / unit, 1),
        (equation.zeroth, found[1], 0),
    ):
        for j, k in zip(*np.nonzero(series), strict=True):
            lower = m - 2 + lost - j - 2 * k
            if 0 <= lower < m:
                part = own[lower][: width - j] * series[j, k] * unit**j
                total[j : j + len(part)] += part
    return total


@dataclass(frozen=True)
class Edge:
    """a(t) u_x + b(t) u = g(t) at the boundary, by powers of t, (M // 2 + 1,) each."""

    slope: np.ndarray
    value: np.ndarray
    given: np.ndarray

    @property
    def order(self) -> int:
        return int(abs(self.slope[0]) > 0)

    def applied(self, coefficients: np.ndarray, equation: Equation, side: float) -> np.ndarray:
        """What it makes of tau^m phi_m at xi = 0, by powers of tau from tau^-1 on, (M + 2,)."""
        at_wall = coefficients[:, :, 0].sum(axis=0)
        inward = slopes(coefficients, side)[:, :, 0].sum(axis=0) / (2 * math.sqrt(equation.diffusion))
        found = np.zeros(len(at_wall) + 1)
        for k, (a, b) in enumerate(zip(self.slope, self.value, strict=True)):
            found[2 * k :] += a * np.append(inward, 0.0)[: len(found) - 2 * k]
            found[2 * k + 1 :] += b * at_wall[: len(found) - 2 * k - 1]
        return found

    def missed(self, smooth: Series) -> np.ndarray:
        """What a smooth solution leaves of the condition, by powers of tau from tau^-1 on, (M + 2,)."""
        found = np.zeros(smooth.shape[0] + 1)
        count = len(self.given)
        left = self.given - np.convolve(self.slope, smooth[1])[:count] - np.convolve(self.value, smooth[0])[:count]
        found[1::2][: len(left)] = left[: len(found[1::2])]
        return found


def made_up(equation: Equation, edge: Edge, smooth: Series, side: float) -> np.ndarray:
    """The jump (M + 1,) beyond the boundary that makes up for what the smooth solution misses of its condition."""
    orders, wanted = equation.orders, edge.missed(smooth)
    jump = np.zeros(orders + 1)
    for m in range(orders + 1):
        at = m + 1 - edge.order  # where the power of tau stands that this order decides
        without = edge.applied(diffused(equation, jump, side), equation, side)[at]
        jump[m] = 1.0
        slope = edge.applied(diffused(equation, jump, side), equation, side)[at] - without
        jump[m] = (wanted[at] - without) / slope if abs(slope) > 1e-14 else 0.0
    return jump
