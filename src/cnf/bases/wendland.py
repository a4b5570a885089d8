"""The polynomials of Wendland's kernels and of their derivatives: exact coefficients, and their values."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

Numbers = TypeVar("Numbers", Tensor, np.ndarray)


def horner(coefficients: Sequence[float], r: Tensor, lowest: int) -> Tensor:
    """r^lowest times the polynomial of r."""
    total = torch.full_like(r, coefficients[-1]) if len(coefficients) == 1 else coefficients[-1] * r
    for place, c in enumerate(reversed(coefficients[:-1])):
        total = (total if place == 0 else total * r) + c
    return total * r**lowest if lowest else total


def power_of(known: dict[int, Numbers], exponent: int) -> Numbers:
    """known[1]**exponent by squaring, several times faster than the general power; what was found is kept."""
    if exponent not in known:
        half = exponent // 2
        known[exponent] = power_of(known, half) * power_of(known, exponent - half)
    return known[exponent]


def wendland_table(ell: int, k: int) -> tuple[int, list[Fraction], int]:
    """I^k (1-r)^ell (k >= 0) or (-(1/r) d/dr)^|k| (1-r)^ell as (1-r)^power * r^lowest * polynomial, exactly."""
    power, p, lowest = ell, [Fraction(1)], 0
    for _ in range(max(k, 0)):
        # full polynomial q = t p(t) (1-t)^power; integrate from r to 1; divide by (1-r)^(power+1)
        q = [Fraction(0), *p]
        for _ in range(power):
            q = _times(q, [Fraction(1), Fraction(-1)])
        primitive = [Fraction(0)] + [c / (i + 1) for i, c in enumerate(q)]
        integral = [-c for c in primitive]
        integral[0] += sum(primitive, Fraction(0))
        power += 1
        p = integral
        for _ in range(power):
            p = _divided(p)
        # one more factor (1 - r) divides out whenever it is there
        while len(p) > 1 and sum(p) == 0:
            p, power = _divided(p), power + 1
    for _ in range(max(-k, 0)):
        # -(1/r) d/dr [ (1-r)^power r^lowest p ] = (1-r)^(power-1) r^(lowest-2) [ power r p - (1-r)(lowest p + r p') ]
        slope = [c * i for i, c in enumerate(p)]
        inner = [lowest * c for c in p]
        inner = [a + b for a, b in zip(inner, slope, strict=True)]
        minus = _times(inner, [Fraction(1), Fraction(-1)])
        plus = [Fraction(0)] + [power * c for c in p]
        p = [a - b for a, b in zip(plus, minus, strict=True)]
        power, lowest = power - 1, lowest - 2
        while len(p) > 1 and p[0] == 0:
            p, lowest = p[1:], lowest + 1
    return power, p, lowest


def _times(a: list[Fraction], b: list[Fraction]) -> list[Fraction]:
    result = [Fraction(0)] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            result[i + j] += x * y
    return result


def _divided(p: list[Fraction]) -> list[Fraction]:
    """p / (1 - r), which must divide it."""
    quotient, carry = [], Fraction(0)
    for c in p[:-1]:
        carry += c
        quotient.append(carry)
    return quotient
