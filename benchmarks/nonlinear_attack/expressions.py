"""Expressions: random nonlinear conditions, each as LaTeX and, by another hand, as SymPy expressions in u(x, ...)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import sympy as sp

from benchmarks.attack.setting import Setting


@dataclass(frozen=True)
class Written:
    """The left-hand side as a user writes it, and what its rows mean; `over`: integrated over the unit box."""

    latex: str
    rows: tuple[sp.Expr, ...]
    over: bool = False


def coordinates_of(setting: Setting) -> tuple[sp.Symbol, ...]:
    return tuple(sp.Symbol(name, real=True) for name in setting.coordinates)


def channels_of(setting: Setting) -> tuple[sp.Expr, ...]:
    return tuple(sp.Function(name)(*coordinates_of(setting)) for name in setting.channels)


class Writer:
    """Draws conditions for the coordinates and channels of a setting."""

    def __init__(self, rng: np.random.Generator, setting: Setting):
        self.rng, self.setting = rng, setting
        self.x, self.u = coordinates_of(setting), channels_of(setting)
        self.space = [k for k, name in enumerate(setting.coordinates) if name != "t"]

    def number(self, low: float = 0.2, high: float = 2.0) -> tuple[str, sp.Expr]:
        text = f"{self.rng.uniform(low, high):.3f}"
        return text, sp.Float(text, 30)

    def one_of(self, *choices: object) -> object:
        return choices[int(self.rng.integers(len(choices)))]

    # -- what is linear --------------------------------------------------------------------------------------------

    def value(self, channel: int | None = None) -> tuple[str, sp.Expr]:
        c = int(self.rng.integers(len(self.u))) if channel is None else channel
        return self.setting.channels[c], self.u[c]

    def slope(self, channel: int | None = None) -> tuple[str, sp.Expr]:
        (name, u), k = self.value(channel), int(self.rng.integers(len(self.x)))
        return f"{name}_{{{self.setting.coordinates[k]}}}", sp.diff(u, self.x[k])

    def atom(self) -> tuple[str, sp.Expr]:
        drawn = self.rng.random()
        if drawn < 0.6:
            return self.value()
        if drawn < 0.9:
            return self.slope()
        name, u = self.value()
        j, k = self.rng.integers(len(self.x), size=2)
        names = self.setting.coordinates
        return f"{name}_{{{names[j]}{names[k]}}}", sp.diff(u, self.x[j], self.x[k])

    def linear(self, channel: int) -> tuple[str, sp.Expr]:
        """A principal part for a channel: -Laplace, a first derivative, both, or the value."""
        name, u = self.value(channel)
        c, number = self.number()
        laplacian = (rf"{c} \Delta {name}", number * sum(sp.diff(u, self.x[k], 2) for k in self.space))
        if not self.space:
            laplacian = (rf"{c} {name}_{{tt}}", number * sp.diff(u, self.x[0], 2))
        first = self.slope(channel)
        kind = int(self.rng.integers(4))
        if kind == 0:
            return f"-{laplacian[0]}", -laplacian[1]
        if kind == 1:
            return first
        if kind == 2:
            return f"{first[0]} - {laplacian[0]}", first[1] - laplacian[1]
        return f"{c} {name}", number * u

    # -- what is not -----------------------------------------------------------------------------------------------

    def term(self) -> tuple[str, sp.Expr]:
        """One nonlinear term."""
        c, number = self.number()
        made: Callable[[], tuple[str, sp.Expr]] = self.one_of(  # type: ignore[assignment]
            self.power, self.power, self.product, self.product, self.function, self.function, self.function
        )
        if self.rng.random() < 0.15:
            made = self.vectorial
        latex, expr = made()
        if self.rng.random() < 0.15:
            other, factor = self.one_of((r"\cos(x)", sp.cos), ("e^{x}", sp.exp))  # type: ignore[misc]
            if self.setting.coordinates[0] == "x":
                latex, expr = f"{other} {latex}", factor(self.x[0]) * expr
        return f"{c} {latex}", number * expr

    def power(self) -> tuple[str, sp.Expr]:
        (a, expr), n = self.atom(), int(self.one_of(2, 2, 3, 3, 4))  # type: ignore[call-overload]
        return f"({a})^{n}", expr**n

    def product(self) -> tuple[str, sp.Expr]:
        (a, one), (b, other) = self.value(), self.atom()
        kind = int(self.rng.integers(4))
        if kind == 0:
            return rf"\frac{{{a}}}{{1 + ({b})^2}}", one / (1 + other**2)
        if kind == 1:
            return rf"\sin({a}) {b}", sp.sin(one) * other
        return f"{a} {b}", one * other

    def function(self) -> tuple[str, sp.Expr]:
        a, expr = self.atom() if self.rng.random() < 0.7 else self.value()
        shift, number = self.number(1.0, 3.0)
        choices = {
            rf"\sin({a})": sp.sin(expr),
            rf"\cos({a})": sp.cos(expr),
            f"e^{{{a}}}": sp.exp(expr),
            f"e^{{-({a})^2}}": sp.exp(-(expr**2)),
            rf"\tanh({a})": sp.tanh(expr),
            rf"\sqrt{{1 + ({a})^2}}": sp.sqrt(1 + expr**2),
            rf"\sqrt{{{shift} + {a}}}": sp.sqrt(number + expr),
            rf"\ln({shift} + {a})": sp.log(number + expr),
            rf"\ln(1 + ({a})^2)": sp.log(1 + expr**2),
            rf"\frac{{1}}{{{shift} + {a}}}": 1 / (number + expr),
            rf"\frac{{1}}{{{a}}}": 1 / expr,
            rf"|{a}|": sp.Abs(expr),
            rf"|{a}| {a}": sp.Abs(expr) * expr,
            rf"\sin({shift} ({a})^2)": sp.sin(number * expr**2),
        }
        return list(choices.items())[int(self.rng.integers(len(choices)))]

    def vectorial(self) -> tuple[str, sp.Expr]:
        """|grad u|, |grad u|^2 or div(k(u) grad u) of one channel."""
        if not self.space:
            return self.power()
        (name, u), (c, number) = self.value(), self.number()
        square = sum(sp.diff(u, self.x[k]) ** 2 for k in self.space)
        flux = lambda k: sum(sp.diff(k * sp.diff(u, self.x[j]), self.x[j]) for j in self.space)  # noqa: E731
        norm = sp.sqrt(square)
        choices = [
            (rf"|\nabla {name}|", norm),
            (rf"|\nabla {name}|^2", square),
            (rf"\nabla\cdot((1 + {c} {name}^2) \nabla {name})", flux(1 + number * u**2)),
            (rf"\nabla\cdot(e^{{{name}}} \nabla {name})", flux(sp.exp(u))),
            (rf"\nabla\cdot\frac{{\nabla {name}}}{{\sqrt{{1 + |\nabla {name}|^2}}}}", flux(1 / sp.sqrt(1 + square))),
        ]
        if len(self.space) == 1:  # |d/dx u| as it is meant there
            choices[0] = (choices[0][0], sp.Abs(sp.diff(u, self.x[self.space[0]])))
        return choices[int(self.rng.integers(len(choices)))]

    # -- conditions ------------------------------------------------------------------------------------------------

    def equation(self, channel: int) -> Written:
        """A principal part, or none, and one or two nonlinear terms."""
        latex, expr = self.linear(channel) if self.rng.random() < 0.85 else ("", sp.S.Zero)
        for _ in range(1 + int(self.rng.random() < 0.4)):
            more, added = self.term()
            plus = self.rng.random() < 0.6
            latex = (f"{latex} + {more}" if plus else f"{latex} - {more}") if latex else (more if plus else f"-{more}")
            expr = expr + added if plus else expr - added
        return Written(latex, (expr,))

    def flow(self) -> Written:
        """(u . grad) u - nu Laplace u: one row per coordinate of space."""
        nu, number = self.number()
        moving = self.u[: len(self.space)]
        rows = []
        for c in range(len(self.space)):
            carried = sum(moving[i] * sp.diff(moving[c], self.x[k]) for i, k in enumerate(self.space))
            rows.append(carried - number * sum(sp.diff(moving[c], self.x[k], 2) for k in self.space))
        return Written(rf"(\mathbf{{u}}\cdot\nabla)\mathbf{{u}} - {nu} \Delta \mathbf{{u}}", tuple(rows))

    def edge(self) -> Written:
        """A nonlinear condition of the kind that boundaries have."""
        (a, slope), (b, value), (c, number) = self.slope(), self.value(), self.number()
        beyond = self.one_of(("^2", 2), ("^3", 3), ("^4", 4))
        assert isinstance(beyond, tuple)
        return Written(f"{a} + {c} {b}{beyond[0]}", (slope + number * value ** beyond[1],))

    def integral(self) -> Written:
        """The integral of a nonlinear term over the unit box."""
        latex, expr = self.term()
        names = self.setting.coordinates
        return Written(r"\int_0^1 " * len(names) + f"({latex}) " + " ".join(rf"\, d{n}" for n in names), (expr,), True)

    def known(self) -> tuple[sp.Expr, ...]:
        """Smooth functions, one per channel, that a problem may be made for."""
        found = []
        for _ in self.u:
            slopes = [float(f"{v:.2f}") for v in self.rng.uniform(-2, 2, len(self.x))]
            phase = sp.Float(f"{self.rng.uniform(-2, 2):.2f}")
            inner = sum(s * x for s, x in zip(slopes, self.x, strict=True)) + phase
            size = sp.Float(f"{self.rng.uniform(0.3, 1.5):.2f}")
            found.append(size * self.one_of(sp.sin, sp.cos, sp.tanh, sp.exp)(inner / 2))  # type: ignore[operator]
        return tuple(found)
