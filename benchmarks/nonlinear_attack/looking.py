"""Looking: a condition evaluated on `solution(x)` as a black box, by its SymPy expression.

Derivatives come from nested reverse-mode differentiation of queries; the expression, its summands and its slopes are
evaluated by NumPy. Integrals are Gauss-Legendre sums of two orders. Nothing of the library's operators takes part.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import sympy as sp
import torch

import cnf
from benchmarks.attack.reference import Reference, nested
from benchmarks.attack.setting import Setting
from benchmarks.nonlinear_attack.expressions import channels_of, coordinates_of

NODES = {1: (160, 200), 2: (40, 48), 3: (14, 18)}  # per coordinate, of two rules
EPS = np.finfo(np.float64).eps


@dataclass(frozen=True)
class Jets:
    """A row of a condition in plain symbols: one per derivative of a channel that occurs in it."""

    setting: Setting
    expr: sp.Expr

    @cached_property
    def found(self) -> dict[sp.Expr, tuple[sp.Symbol, int, tuple[int, ...]]]:
        """Derivative or function -> its symbol, channel and multi-index."""
        x, u = coordinates_of(self.setting), channels_of(self.setting)
        known = {}
        for node in (*self.expr.atoms(sp.Derivative), *(a for a in self.expr.atoms(sp.Function) if a in u)):
            function = node.expr if isinstance(node, sp.Derivative) else node
            counts = dict(node.variable_count) if isinstance(node, sp.Derivative) else {}
            index = tuple(int(counts.get(v, 0)) for v in x)
            known[node] = (sp.Symbol(f"j{len(known)}", real=True), u.index(function), index)
        return known

    @cached_property
    def plain(self) -> sp.Expr:
        derivatives = {node: s for node, (s, _, _) in self.found.items() if isinstance(node, sp.Derivative)}
        values = {node: s for node, (s, _, _) in self.found.items() if not isinstance(node, sp.Derivative)}
        return self.expr.xreplace(derivatives).xreplace(values)

    @property
    def symbols(self) -> list[sp.Symbol]:
        return [s for s, _, _ in self.found.values()]

    def evaluated(self, wanted: list[sp.Expr], points: np.ndarray, jets: list[np.ndarray]) -> list[np.ndarray]:
        """Expressions in jets and coordinates at points (P, D), each (P,)."""
        function = sp.lambdify([*coordinates_of(self.setting), *self.symbols], wanted, "numpy")
        with np.errstate(all="ignore"):
            made = function(*points.T, *jets)
        return [np.broadcast_to(np.asarray(m, dtype=float), points.shape[:1]) for m in made]

    @cached_property
    def slopes(self) -> list[sp.Expr]:
        return [sp.diff(self.plain, s).replace(sp.Derivative, lambda *a: sp.S.Zero) for s in self.symbols]

    @cached_property
    def summands(self) -> list[list[sp.Expr]]:
        """As it is written, and multiplied out: sizes of terms are those of either."""
        return [list(sp.Add.make_args(e)) for e in (self.plain, sp.expand(self.plain, func=False))]


def values_of(setting: Setting, expressions: list[sp.Expr], points: np.ndarray) -> list[np.ndarray]:
    """Expressions in the coordinates at points (P, D), each (P,)."""
    made = sp.lambdify(coordinates_of(setting), expressions, "numpy")(*points.T)
    return [np.broadcast_to(np.asarray(m, dtype=float), points.shape[:1]) for m in made]


@dataclass
class Seen:
    """A row at its points, each (P,): its value, how far that may be off, the sizes of its terms and of its slopes."""

    value: np.ndarray
    doubt: np.ndarray
    terms: np.ndarray
    slopes: np.ndarray  # sum of |dN / d jet| / lengths^order
    amplitude: float


class Looker:
    """Looks at one solution."""

    def __init__(self, solution: cnf.Solution, setting: Setting, rng: np.random.Generator, lengths: np.ndarray):
        self.solution, self.setting, self.lengths = solution, setting, lengths
        self.reference = Reference(solution, setting, rng, EPS)

    def row(self, expr: sp.Expr, points: np.ndarray, over: bool) -> Seen:
        if over:
            return self._integral(expr)
        return self._at(expr, points)

    def _at(self, expr: sp.Expr, points: np.ndarray) -> Seen:
        jets = Jets(self.setting, expr)
        derivatives, roundings, stretched = [], [], []
        for _, channel, index in jets.found.values():
            found = self.derivative(points, channel, index)
            derivatives.append(found)
            roundings.append(self.reference.rounding(points, channel, index) + 8 * EPS * np.abs(found))
            stretched.append(1 / np.prod(self.lengths ** np.array(index)))
        (value,) = jets.evaluated([jets.plain], points, derivatives)
        sizes = [sum(np.abs(s) for s in jets.evaluated(some, points, derivatives)) for some in jets.summands]
        slopes = [np.abs(s) for s in jets.evaluated(jets.slopes, points, derivatives)] if jets.found else []
        doubt = sum((s * r for s, r in zip(slopes, roundings, strict=True)), np.zeros(len(points)))
        terms = np.maximum(*sizes)
        natural = sum((s * f for s, f in zip(slopes, stretched, strict=True)), np.zeros(len(points)))
        values = self.reference.query(points)
        return Seen(value, doubt + 16 * EPS * terms, terms, natural, float(np.abs(values).max()))

    def derivative(self, points: np.ndarray, channel: int, index: tuple[int, ...]) -> np.ndarray:
        return nested(self.solution, torch.tensor(points), channel, index)

    def _integral(self, expr: sp.Expr) -> Seen:
        """Two rules; what they differ by is doubt."""
        found = []
        for count in NODES[self.setting.dimension]:
            nodes, weights = (a / 2 for a in np.polynomial.legendre.leggauss(count))
            axes = self.setting.dimension
            points = np.array(list(itertools.product(nodes + 0.5, repeat=axes)))
            weight = np.array([np.prod(w) for w in itertools.product(weights, repeat=axes)])
            seen = self._at(expr, points)
            found.append([weight @ a for a in (seen.value, seen.doubt, seen.terms, seen.slopes)] + [seen.amplitude])
        (first, *_), (value, doubt, terms, slopes, amplitude) = found
        doubt += 4 * abs(first - value)
        return Seen(*(np.array([v]) for v in (value, doubt, terms, slopes)), amplitude)
