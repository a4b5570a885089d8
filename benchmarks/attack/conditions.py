"""Conditions: every operator of the language, as LaTeX and, beside it, written out by hand as a sum of terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import torch
from torch import nn

from benchmarks.attack.formulas import Formula, draw_formula
from benchmarks.attack.setting import Setting, decimal

Index = tuple[int, ...]
Coefficient = Callable[[np.ndarray], np.ndarray]  # points (P, D) -> (P,)
NAMES = ((r"\kappa", "kappa"), (r"\beta", "beta"), (r"\mu", "mu"), (r"\lambda", "lambda"), (r"\rho", "rho"))


@dataclass(frozen=True)
class Term:
    """coefficient * d^index of a channel: here, at a point with coordinates replaced, or integrated along axes.

    Under an integral the coefficient is a function of the point that moves.
    """

    coefficient: Coefficient
    channel: int
    index: Index
    moved: tuple[tuple[int, float], ...] = ()
    over: tuple[tuple[int, float, float | None], ...] = ()  # axis, lower, upper; None: up to the point itself


@dataclass
class Asked:
    """What one constraint asks: LaTeX, the data that go with it, and the rows by hand."""

    latex: str
    rows: list[list[Term]]
    given: dict[str, object] = field(default_factory=dict)
    breaks: dict[int, list[float]] = field(default_factory=dict)  # for quadrature, by axis
    learnt: dict[str, float] = field(default_factory=dict)  # learnable coefficients, as they were when it was solved

    def read_parameters(self) -> None:
        self.learnt.update(
            {name: float(value) for name, value in self.given.items() if isinstance(value, nn.Parameter)}
        )

    @property
    def order(self) -> int:
        return max(sum(term.index) for row in self.rows for term in row)


def constant(value: float) -> Coefficient:
    return lambda x: np.full(x.shape[0], value)


def formula_at(formula: Formula, order: int = 0, factor: float = 1.0) -> Coefficient:
    return lambda x: factor * formula.at(x, order)


class Maker:
    """Writes conditions for `count` points of a setting."""

    def __init__(self, rng: np.random.Generator, setting: Setting, points: np.ndarray, learnable: float = 0.0):
        self.rng, self.setting, self.points, self.learnable = rng, setting, points, learnable
        self.names = (NAMES[k % len(NAMES)] if k < len(NAMES) else (f"c_{k}", f"c_{k}") for k in count())
        self.given: dict[str, object] = {}
        self.breaks: dict[int, list[float]] = {}
        self.learnt: dict[str, float] = {}

    def make(self, family: str) -> Asked:
        latex, rows = getattr(self, f"_{family}")()
        return Asked(latex, rows, self.given, self.breaks, self.learnt)

    # -- parts ------------------------------------------------------------------------------------------------------

    def _index(self, order: int, axes: list[int] | None = None) -> Index:
        index = [0] * self.setting.dimension
        for _ in range(order):
            index[int(self.rng.choice(axes or range(self.setting.dimension)))] += 1
        return tuple(index)

    def _unit(self, *axes: int) -> Index:
        index = [0] * self.setting.dimension
        for axis in axes:
            index[axis] += 1
        return tuple(index)

    def _channel(self) -> tuple[int, str]:
        c = int(self.rng.integers(len(self.setting.channels)))
        return c, self.setting.channels[c]

    def _zero(self) -> Index:
        return (0,) * self.setting.dimension

    def _number(self) -> tuple[str, float]:
        text, value = decimal(self.setting.magnitude(self.rng, self.setting.coefficient_spread))
        return f"({text})", value

    def _formula(self, axis: int | None = None, variable: str | None = None) -> tuple[str, Formula]:
        """A coefficient that may be differentiated or moved: an expression, or a callable under a name."""
        formula = draw_formula(self.rng, self.setting, axis)
        self.breaks.setdefault(formula.axis, []).extend(formula.breaks)
        if variable is not None or self.rng.random() < 0.5:
            return formula.latex(variable), formula
        latex, name = next(self.names)
        self.given[name] = formula.callable()
        return latex, formula

    def _coefficient(self) -> tuple[str, Coefficient]:
        """Any coefficient that only multiplies."""
        rng, kind = self.rng, self.rng.random()
        if kind < 0.2:
            text, value = self._number()
            return text, constant(value)
        if kind < 0.5:
            latex, formula = self._formula()
            return latex, formula_at(formula)
        latex, name = next(self.names)
        size = self.setting.magnitude(rng, self.setting.coefficient_spread)
        if kind < 0.5 + 0.5 * self.learnable:
            self.given[name] = nn.Parameter(torch.tensor(size, dtype=torch.float64))
            self.learnt[name] = size
            return latex, lambda x: np.full(x.shape[0], self.learnt[name])
        if kind < 0.75 or self.points.shape[0] == 1:
            self.given[name] = size
            return latex, constant(size)
        table = size * rng.uniform(0.2, 1.5, self.points.shape[0])
        self.given[name] = torch.tensor(table)
        return latex, lambda x: table

    def _bounds(self, axis: int) -> tuple[str, str, float, float]:
        low, size = self.setting.lower[axis], self.setting.length[axis]
        a, b = sorted(self.rng.uniform(-0.05, 1.05, 2))
        if b - a < 0.2:
            a, b = 0.0, 1.0
        (left, low_at), (right, high_at) = decimal(low + a * size), decimal(low + b * size)
        return left, right, low_at, high_at

    def _derivative(self, channel: str, index: Index) -> str:
        """One of the notations."""
        names, style = self.setting.coordinates, self.rng.integers(3)
        if style == 0:
            return f"{channel}_{{{''.join(n * k for n, k in zip(names, index, strict=True))}}}"
        if style == 1:
            parts = [
                rf"\partial_{n}^{k}" if k > 1 else rf"\partial_{n}" for n, k in zip(names, index, strict=True) if k
            ]
            return " ".join(parts) + f" {channel}"
        below = " ".join(
            rf"\partial {n}^{k}" if k > 1 else rf"\partial {n}" for n, k in zip(names, index, strict=True) if k
        )
        order = sum(index)
        return rf"\frac{{\partial{f'^{order}' if order > 1 else ''} {channel}}}{{{below}}}"

    # -- families ---------------------------------------------------------------------------------------------------

    def _values(self):
        (c, u), zero = self._channel(), self._zero()
        style = self.rng.random()
        if style < 0.25:
            return u, [[Term(constant(1), c, zero)]]
        latex, k = self._coefficient()
        if style < 0.6 or len(self.setting.channels) == 1:
            return f"{latex} {u}", [[Term(k, c, zero)]]
        other = (c + 1) % len(self.setting.channels)
        v = self.setting.channels[other]
        text, factor = self._number()
        first = [Term(k, c, zero), Term(constant(-factor), other, zero)]
        if style < 0.8:
            return rf"{latex} {u} - {text} {v}", [first]
        return rf"{latex} {u} - {text} {v} \\ {v}", [first, [Term(constant(1), other, zero)]]

    def _derivatives(self):
        c, u = self._channel()
        index = self._index(int(self.rng.integers(1, self.setting.highest_order + 1)))
        latex, terms = self._derivative(u, index), [Term(constant(1), c, index)]
        if self.rng.random() < 0.5:
            factor, k = self._coefficient()
            latex, terms = f"{factor} {latex}", [Term(k, c, index)]
        if self.rng.random() < 0.5:
            lower = self._index(int(self.rng.integers(0, sum(index))))
            factor, k = self._coefficient()
            latex += f" + {factor} {self._derivative(u, lower) if sum(lower) else u}"
            terms.append(Term(k, c, lower))
        return latex, [terms]

    def _calculus(self):
        axes, (c, u) = self.setting.spatial, self._channel()
        styles = ["gradient", "laplacian", "directional", "normal", "along"]
        styles += ["bilaplacian"] if self.setting.highest_order >= 4 else []
        if len(self.setting.channels) >= len(axes):
            styles += ["divergence"] * 2 + (["curl"] * 2 if len(axes) > 1 else [])
        style = str(self.rng.choice(styles))
        one = constant(1)
        if style == "gradient":
            return rf"\nabla {u}", [[Term(one, c, self._unit(k))] for k in axes]
        if style == "laplacian":
            latex = str(self.rng.choice([r"\nabla^2", r"\Delta"]))
            return f"{latex} {u}", [[Term(one, c, self._unit(k, k)) for k in axes]]
        if style == "bilaplacian":
            pure = [Term(one, c, self._unit(k, k, k, k)) for k in axes]
            mixed = [Term(constant(2), c, self._unit(j, j, k, k)) for j in axes for k in axes if j < k]
            return rf"\Delta^2 {u}", [pure + mixed]
        if style == "divergence":
            return r"\nabla\cdot\mathbf{u}", [[Term(one, i, self._unit(k)) for i, k in enumerate(axes)]]
        if style == "curl":
            pairs = [(0, 1)] if len(axes) == 2 else [(1, 2), (2, 0), (0, 1)]
            rows = [[Term(one, j, self._unit(axes[i])), Term(constant(-1), i, self._unit(axes[j]))] for i, j in pairs]
            return r"\nabla\times\mathbf{u}", rows
        if style == "directional":
            direction = [decimal(self.setting.magnitude(self.rng, 0.3))[1] for _ in axes]
            self.given["b"] = direction
            terms = [Term(constant(b), c, self._unit(k)) for b, k in zip(direction, axes, strict=True)]
            return rf"(\mathbf{{b}}\cdot\nabla) {u}", [terms]
        table = self.rng.standard_normal((self.points.shape[0], len(axes)))
        table /= np.linalg.norm(table, axis=1, keepdims=True)
        if self.points.shape[0] == 1:
            self.given["n"] = table[0].tolist()
        else:
            self.given["n"] = torch.tensor(table)
        terms = [Term(lambda x, k=k: table[:, k], c, self._unit(axis)) for k, axis in enumerate(axes)]
        return (rf"\mathbf{{n}}\cdot\nabla {u}" if style == "normal" else rf"\partial_n {u}"), [terms]

    def _composition(self):
        (c, u), axes = self._channel(), self.setting.spatial
        style = int(self.rng.integers(4))
        if style == 0 and self.setting.dimension > 1:
            j, k = self.rng.permutation(self.setting.dimension)[:2]
            text, value = self._number()
            names = self.setting.coordinates
            terms = [Term(constant(1), c, self._unit(j)), Term(constant(value), c, self._unit(k))]
            return rf"(\partial_{names[j]} + {text} \partial_{names[k]}) {u}", [terms]
        latex, k = self._formula(int(self.rng.choice(axes)))
        here = k.axis
        if style == 1:
            name = self.setting.coordinates[here]
            terms = [Term(formula_at(k), c, self._unit(here, here)), Term(formula_at(k, 1), c, self._unit(here))]
            return rf"\partial_{name} ({latex} \partial_{name} {u})", [terms]
        if style == 2:
            terms = [Term(formula_at(k), c, self._unit(a, a)) for a in axes]
            terms += [Term(formula_at(k, 2), c, self._zero()), Term(formula_at(k, 1, 2.0), c, self._unit(here))]
            return rf"\Delta ({latex} {u})", [terms]
        terms = [Term(formula_at(k), c, self._unit(a, a)) for a in axes] + [Term(formula_at(k, 1), c, self._unit(here))]
        return rf"\nabla\cdot({latex} \nabla {u})", [terms]

    def _integrals(self):
        (c, u), axis = self._channel(), int(self.rng.integers(self.setting.dimension))
        name, style = self.setting.coordinates[axis], int(self.rng.integers(5))
        left, right, low, high = self._bounds(axis)
        over = ((axis, low, high),)
        if style == 0:
            return rf"\int_{{{left}}}^{{{right}}} {u} \, d{name}", [[Term(constant(1), c, self._zero(), over=over)]]
        if style == 1:
            low_text, low_at = decimal(self.setting.lower[axis])
            place = ", ".join("s" if k == axis else n for k, n in enumerate(self.setting.coordinates))
            terms = [Term(constant(1), c, self._zero(), over=((axis, low_at, None),))]
            return rf"\int_{{{low_text}}}^{{{name}}} {u}({place}) \, ds", [terms]
        if style == 2:  # the derivative under the integral: values at the two ends
            ends = [
                Term(constant(1), c, self._zero(), moved=((axis, high),)),
                Term(constant(-1), c, self._zero(), moved=((axis, low),)),
            ]
            return rf"\int_{{{left}}}^{{{right}}} {self._derivative(u, self._unit(axis))} \, d{name}", [ends]
        latex, k = self._formula(axis)
        terms = [Term(formula_at(k), c, self._zero(), over=over)]
        whole = rf"\int_{{{left}}}^{{{right}}} {latex} {u} \, d{name}"
        if style == 3:
            return whole, [terms]
        text, value = self._number()
        return rf"{whole} + {text} {u}", [[*terms, Term(constant(value), c, self._zero())]]

    def _double(self):
        if self.setting.dimension == 1:
            return self._integrals()
        c, u = self._channel()
        j, k = sorted(self.rng.permutation(self.setting.dimension)[:2].tolist())
        (a, b, low, high), (e, f, low2, high2) = self._bounds(j), self._bounds(k)
        names = self.setting.coordinates
        over = ((j, low, high), (k, low2, high2))
        latex, coefficient = "", constant(1)
        if self.rng.random() < 0.5:
            latex, formula = self._formula(j)
            coefficient = formula_at(formula)
        whole = rf"\int_{{{e}}}^{{{f}}} \int_{{{a}}}^{{{b}}} {latex} {u} \, d{names[j]} \, d{names[k]}"
        return whole, [[Term(coefficient, c, self._zero(), over=over)]]

    def _nonlocal(self):
        (c, u), axis = self._channel(), int(self.rng.integers(self.setting.dimension))
        left, right, low, high = self._bounds(axis)
        names = self.setting.coordinates

        def at(value: str) -> str:
            return ", ".join(value if k == axis else n for k, n in enumerate(names))

        style, zero = int(self.rng.integers(4)), self._zero()
        first, last = ((axis, low),), ((axis, high),)
        if style == 0:
            pair = [Term(constant(1), c, zero, moved=first), Term(constant(-1), c, zero, moved=last)]
            return f"{u}({at(left)}) - {u}({at(right)})", [pair]
        if style == 1:
            along, name = self._unit(axis), names[axis]
            pair = [Term(constant(1), c, along, moved=first), Term(constant(-1), c, along, moved=last)]
            return rf"\partial_{name} {u}({at(left)}) - \partial_{name} {u}({at(right)})", [pair]
        latex, k = self._coefficient()
        if style == 2:
            return f"{u} - {latex} {u}({at(left)})", [
                [Term(constant(1), c, zero), Term(minus(k), c, zero, moved=first)]
            ]
        along = self._unit(axis)
        terms = [Term(k, c, along), Term(constant(1), c, zero, moved=last)]
        return f"{latex} {self._derivative(u, along)} + {u}({at(right)})", [terms]


def moved(points: np.ndarray, term: Term) -> np.ndarray:
    """Where a term looks, (P, D)."""
    place = points.copy()
    for axis, value in term.moved:
        place[:, axis] = value
    return place


def minus(coefficient: Coefficient) -> Coefficient:
    return lambda x: -coefficient(x)


FAMILIES = ("values", "derivatives", "calculus", "composition", "integrals", "double", "nonlocal")
