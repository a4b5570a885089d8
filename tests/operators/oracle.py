"""Operators applied to fields given as SymPy expressions; a few lines that share nothing with the library's algebra."""

from __future__ import annotations

from collections.abc import Mapping

import sympy as sp

from cnf.operators.operator import Operator, Term

x, y, z, t, theta = (sp.Symbol(n, real=True) for n in ("x", "y", "z", "t", "theta"))

POINT = {
    x: sp.Rational(3, 7),
    y: sp.Rational(5, 11),
    z: sp.Rational(2, 13),
    t: sp.Rational(7, 17),
    theta: sp.Rational(1, 3),
}


def acted(operator: Operator, fields: Mapping[str, sp.Expr]) -> list[sp.Expr]:
    """Every row of the operator on the fields, by SymPy's own diff, subs and integrate."""
    return [sp.Add(*(_term(term, fields) for term in row)) for row in operator.rows]


def _term(term: Term, fields: Mapping[str, sp.Expr]) -> sp.Expr:
    value = fields[str(term.channel)]
    for name, order in term.derivatives:
        value = sp.diff(value, sp.Symbol(name, real=True), order)
    value = value.subs({sp.Symbol(n, real=True): e for n, e in term.place.substitution}, simultaneous=True)
    value = term.coefficient * value
    for span in reversed(term.place.integrals):
        value = sp.integrate(sp.expand(value), (span.variable, span.lower, span.upper))
    return value


def assert_equal(found: sp.Expr, expected: sp.Expr) -> None:
    """Equal at a generic point, to 25 digits: no simplification needed."""
    difference = sp.N(sp.sympify(found - expected).subs(POINT), 30)
    size = 1 + abs(sp.N(sp.sympify(expected).subs(POINT), 30))
    assert abs(difference) < 1e-12 * size, f"{found} is not {expected}"
