"""Formulas: functions of one coordinate as LaTeX, as a callable of torch, and by hand with two derivatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from benchmarks.attack.setting import Setting, decimal

KINDS = ("affine", "quadratic", "sine", "exponential", "rational", "peak")


@dataclass(frozen=True)
class Formula:
    """c * shape(v) of the coordinate v on `axis`, with z = a (v - o)."""

    kind: str
    axis: int
    name: str  # of the coordinate
    c: float
    a: float
    o: float

    def latex(self, name: str | None = None) -> str:
        """As an expression; `name` replaces the coordinate's (an integration variable, say)."""
        c, a, o = (decimal(v)[0] for v in (self.c, self.a, self.o))
        z = f"({a} ({name or self.name} - {o}))" if self.o >= 0 else f"({a} ({name or self.name} + {o[1:]}))"
        shape = {
            "affine": f"(2 + {z})",
            "quadratic": f"(1 + {z}^2)",
            "sine": rf"\sin{z}",
            "exponential": f"e^{{{z}}}",
            "rational": rf"\frac{{1}}{{1 + {z}^2}}",
            "peak": f"e^{{-{z}^2}}",
        }[self.kind]
        return f"({c}) {shape}"

    def shape(self, z, module):  # numpy or torch
        return {
            "affine": lambda: 2 + z,
            "quadratic": lambda: 1 + z**2,
            "sine": lambda: module.sin(z),
            "exponential": lambda: module.exp(z),
            "rational": lambda: 1 / (1 + z**2),
            "peak": lambda: module.exp(-(z**2)),
        }[self.kind]()

    def at(self, points: np.ndarray, order: int = 0) -> np.ndarray:
        """The derivative of that order along the axis at points (P, D), in float64."""
        z = self.a * (points[:, self.axis] - self.o)
        one = np.ones_like(z)
        bell, root = np.exp(-(z**2)), 1 / (1 + z**2)
        found = {
            "affine": (2 + z, one, 0 * z),
            "quadratic": (1 + z**2, 2 * z, 2 * one),
            "sine": (np.sin(z), np.cos(z), -np.sin(z)),
            "exponential": (np.exp(z),) * 3,
            "rational": (root, -2 * z * root**2, (6 * z**2 - 2) * root**3),
            "peak": (bell, -2 * z * bell, (4 * z**2 - 2) * bell),
        }[self.kind][order]
        return self.c * self.a**order * found

    def callable(self) -> Callable[[Tensor], Tensor]:
        return lambda p: self.c * self.shape(self.a * (p[:, self.axis] - self.o), torch)

    @property
    def breaks(self) -> list[float]:
        """Where a quadrature along the axis should look closely."""
        width = 1 / abs(self.a)
        return [self.o + k * width for k in (-30, -6, -3, -1, 0, 1, 3, 6, 30)] if self.kind == "peak" else []


def draw_formula(rng: np.random.Generator, setting: Setting, axis: int | None = None, kind: str | None = None):
    """A formula that varies over the box; a peak as narrow as the setting allows."""
    axis = int(rng.integers(setting.dimension)) if axis is None else axis
    if kind is None:
        kind = "peak" if rng.random() < setting.peaked else str(rng.choice(KINDS[:-1]))
    length = setting.length[axis]
    width = 10 ** rng.uniform(np.log10(setting.narrowest), 0) if kind == "peak" else 1 / rng.uniform(0.3, 2)
    origin = setting.lower[axis] + length * rng.uniform(0.1, 0.9)
    sign = 1.0 if kind == "peak" else float(rng.choice([-1, 1]))
    numbers = (setting.magnitude(rng, setting.coefficient_spread), sign / (width * length), origin)
    c, a, o = (decimal(v)[1] for v in numbers)
    return Formula(kind, axis, setting.coordinates[axis], c, a, o)
