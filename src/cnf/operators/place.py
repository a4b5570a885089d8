"""Where a term looks at the field: at the point itself, at a substituted point, or over an integral.

A place is a map tau from the point x (and integration variables s) to the point where the field is evaluated, and the
ranges the integration variables run over:  x -> int ds [ ... f(tau(x, s)) ].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import sympy as sp

from cnf.operators.frame import symbol
from cnf.operators.pairs import widened


@dataclass(frozen=True)
class Integral:
    """One integration variable and its limits (expressions in the coordinates and in outer variables)."""

    variable: sp.Symbol
    lower: sp.Expr
    upper: sp.Expr

    def map(self, change: Callable[[sp.Expr], sp.Expr]) -> Integral:
        return Integral(change(self.variable), change(self.lower), change(self.upper))


@dataclass(frozen=True)
class Place:
    """Coordinates not in `substitution` keep their value; integrals are listed from the outside in."""

    substitution: tuple[tuple[str, sp.Expr], ...] = ()
    integrals: tuple[Integral, ...] = ()

    @property
    def is_here(self) -> bool:
        return not self.substitution and not self.integrals

    def at(self, coordinate: str) -> sp.Expr:
        """The expression that coordinate takes at this place."""
        return dict(self.substitution).get(coordinate, symbol(coordinate))

    def map(self, change: Callable[[sp.Expr], sp.Expr]) -> Place:
        return Place(
            tuple((name, change(expression)) for name, expression in self.substitution),
            tuple(integral.map(change) for integral in self.integrals),
        )

    @property
    def expressions(self) -> list[sp.Expr]:
        return [e for _, e in self.substitution] + [e for i in self.integrals for e in (i.lower, i.upper)]

    @property
    def free_symbols(self) -> set[sp.Symbol]:
        """Every symbol in the substituted expressions and in the limits."""
        return set().union(*(e.free_symbols for e in self.expressions))

    @property
    def sort_key(self) -> tuple:
        return (
            tuple((name, sp.default_sort_key(e)) for name, e in self.substitution),
            tuple((sp.default_sort_key(i.lower), sp.default_sort_key(i.upper)) for i in self.integrals),
        )


HERE = Place()


def point(**coordinates: sp.Expr | float) -> Place:
    """The place with the given coordinates substituted."""
    return Place(tuple(sorted((name, widened(sp.sympify(value))) for name, value in coordinates.items())))


def over(coordinate: str, lower: sp.Expr | float, upper: sp.Expr | float) -> Place:
    """The integral of the field over one coordinate."""
    variable = sp.Dummy(coordinate, real=True)
    return Place(
        ((coordinate, variable),), (Integral(variable, *(widened(sp.sympify(limit)) for limit in (lower, upper))),)
    )


def replace(expression: sp.Expr, substitution: Mapping[sp.Symbol, sp.Expr]) -> sp.Expr:
    """Simultaneous substitution."""
    return expression.xreplace(dict(substitution)) if substitution else expression


def derivative(expression: sp.Expr, x: sp.Symbol) -> sp.Expr:
    """d expression / dx, without SymPy's machinery for the cases that come up in every term."""
    if expression == x:
        return sp.S.One
    return expression.diff(x) if x in expression.free_symbols else sp.S.Zero


def inside(outer: Place, coefficient: sp.Expr, inner: Place, names: tuple[str, ...]) -> tuple[sp.Expr, Place]:
    """Evaluate `coefficient * f(inner)` at `outer`: the coefficient and place of the result."""
    fresh = {i.variable: sp.Dummy(i.variable.name.lstrip("_"), real=True) for i in inner.integrals}
    moved = {symbol(name): expression for name, expression in outer.substitution} | fresh
    substitution = []
    for name in names:
        expression = replace(inner.at(name), moved)
        if expression != symbol(name):
            substitution.append((name, expression))
    integrals = outer.integrals + tuple(i.map(lambda e: replace(e, moved)) for i in inner.integrals)
    return replace(coefficient, moved), Place(tuple(sorted(substitution, key=lambda pair: pair[0])), integrals)


def canonical(coefficient: sp.Expr, place: Place) -> tuple[sp.Expr, Place]:
    """Name and order the integration variables in one standard way, so that equal terms compare equal."""
    if not place.integrals:
        return coefficient, place
    integrals = place.integrals
    variables = {i.variable for i in integrals}
    if not any((i.lower.free_symbols | i.upper.free_symbols) & variables for i in integrals):
        coordinate_of = {v: name for name, e in reversed(place.substitution) for v in e.free_symbols & variables}
        integrals = tuple(sorted(integrals, key=lambda i: (coordinate_of.get(i.variable, ""), str((i.lower, i.upper)))))
    rename = {i.variable: sp.Symbol(f"_{k}", real=True) for k, i in enumerate(integrals)}
    renamed = Place(place.substitution, integrals).map(lambda e: replace(e, rename))
    return replace(coefficient, rename), renamed
