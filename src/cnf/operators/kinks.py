"""Kinks: where coefficients under an integral are not smooth, and how the cells of a rule are laid along them.

Arguments of Abs, sign, Max and Min are looked at, innermost variable first. A kink at fixed values of one variable
becomes breaks between cells. One that moves with the point or with outer variables becomes a cut, if its argument is
linear in the variable; where the cut meets a limit the outer integrand has a kink in turn. All others are left to
halving cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
import sympy as sp
from torch import Tensor

from cnf.operators.coefficients import DataFunction, Datum
from cnf.operators.place import Place
from cnf.operators.ranges import Ranges
from cnf.operators.rules import Cut

MOST_CUTS = 3  # each doubles the nodes
MOST_ROOTS = 256
HALVINGS = 52  # to the last bit


@dataclass(frozen=True)
class Layout:
    """Cuts, breaks per variable, the variables measured in shares of their range, and the arguments dealt with."""

    cuts: tuple[Cut, ...]
    breaks: tuple[np.ndarray, ...]
    relative: tuple[bool, ...]
    settled: frozenset[sp.Expr]


@dataclass(frozen=True)
class Surroundings:
    """What is known at the points: `values` of the coordinates, data, the spans of the variables' limits."""

    values: Mapping[sp.Symbol, Tensor]
    data: Mapping[str, Datum]
    like: Tensor

    def ranges(self, variables: Sequence[sp.Symbol], lower: np.ndarray, upper: np.ndarray, **known) -> Ranges:
        return Ranges(variables, lower, upper, self.values, self.data, self.like, **known)

    def varies(self, expression: sp.Expr) -> bool:
        """True if an expression without variables differs from point to point."""
        found = self.ranges((), np.zeros((1, 0)), np.zeros((1, 0))).of(expression)
        return bool(found.lower[0] != found.upper[0])


def kink_arguments(expressions: Iterable[sp.Expr]) -> list[sp.Expr]:
    """What is zero where an expression has a kink."""
    found: dict[sp.Expr, None] = {}
    for expression in expressions:
        for node in expression.atoms(sp.Abs, sp.sign):
            found[node.args[0]] = None
        for node in expression.atoms(sp.Max, sp.Min):
            found |= dict.fromkeys(a - b for a, b in combinations(node.args, 2))
    return list(found)


def lay_along_kinks(
    place: Place, coefficients: Sequence[sp.Expr], near: Surroundings, spans: Sequence[tuple[float, float]]
) -> Layout:
    """`spans`: the least and the largest value each variable takes anywhere."""
    variables = [i.variable for i in place.integrals]
    limits = [(i.lower, i.upper) for i in place.integrals]
    relative = [any(e.free_symbols & set(variables) for e in pair) for pair in limits]
    pending = kink_arguments([*coefficients, *(e for pair in limits for e in pair)])
    cuts: list[Cut] = []
    settled: set[sp.Expr] = set()
    breaks: list[np.ndarray] = [np.empty(0) for _ in variables]
    for v in reversed(range(len(variables))):
        own, outer = variables[v], set(variables[:v])
        mine = [g for g in pending if own in g.free_symbols and not g.free_symbols & set(variables[v + 1 :])]
        for argument in sorted(mine, key=lambda g: not g.free_symbols & outer):  # what moves with outer ones first
            places = _zeros_of(argument, own)
            tied = bool(argument.free_symbols & outer)
            if not tied and not relative[v] and not _moves(argument, own, near):
                breaks[v] = np.union1d(breaks[v], roots(argument, own, *spans[v], near))
                continue
            taken = sum(cut.variable == v for cut in cuts)
            fits = 0 < len(places) <= MOST_CUTS - len(cuts) and not ((relative[v] or tied) and taken + len(places) > 1)
            if fits:
                relative[v] = relative[v] or tied
                settled.add(argument)
                cuts += [Cut(v, where) for where in places]
                pending += [w - limit for w in places for limit in limits[v] if (w - limit).free_symbols & outer]
    return Layout(tuple(cuts), tuple(breaks), tuple(relative), frozenset(settled))


def _zeros_of(argument: sp.Expr, variable: sp.Symbol) -> list[sp.Expr]:
    """Where an argument that is linear in the variable on either side of its kinks vanishes; empty for all others."""
    sizes = sorted(argument.atoms(sp.Abs), key=sp.default_sort_key)
    signs = product(*[(1, -1)] * len(sizes)) if len(sizes) < MOST_CUTS else ()
    found = []
    for sign in signs:
        straight = argument.xreplace({a: s * a.args[0] for a, s in zip(sizes, sign, strict=True)})
        slope = straight.diff(variable) if not straight.atoms(DataFunction, sp.sign, sp.Max, sp.Min) else sp.nan
        if not slope.is_number or not slope.is_finite or slope == 0:
            return []
        found.append(-straight.xreplace({variable: sp.S.Zero}) / slope)
    return found


def _moves(argument: sp.Expr, variable: sp.Symbol, near: Surroundings) -> bool:
    """Whether the zeros of an argument differ from point to point."""
    others = argument.free_symbols - {variable}
    return any(near.varies(s) for s in others) or bool(argument.atoms(DataFunction))


def roots(argument: sp.Expr, variable: sp.Symbol, low: float, high: float, near: Surroundings) -> np.ndarray:
    """Where the argument changes sign, by halving every interval in which it may; none if there are too many."""
    lower, upper = np.array([[low]]), np.array([[high]])
    for _ in range(HALVINGS):
        middle = (lower + upper) / 2
        lower, upper = np.concatenate([lower, middle]), np.concatenate([middle, upper])
        found = near.ranges([variable], lower, upper).of(argument)
        kept = (found.lower <= 0) & (found.upper >= 0)
        lower, upper = lower[kept], upper[kept]
        if not lower.size or lower.shape[0] > MOST_ROOTS:
            return np.empty(0)
    centres = np.sort((lower + upper)[:, 0] / 2)
    apart = np.diff(centres, prepend=-np.inf) > 1e-12 * (high - low)
    inside = centres[apart]
    return inside[(inside > low) & (inside < high)]
