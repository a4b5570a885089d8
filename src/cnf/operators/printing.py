"""Operators as LaTeX that the reader turns back into the same operator."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import sympy as sp
from sympy.printing.latex import LatexPrinter

from cnf.operators.coefficients import DataFunction, RowFunction
from cnf.operators.field_functions import FieldIntegral, Jet, has_jets
from cnf.operators.frame import Frame
from cnf.operators.reader.vocabulary import GREEK

if TYPE_CHECKING:
    from cnf.operators.operator import Row, Term

SPARE_NAMES = ("s", "r", "q", "w", "z", "a", "b", "c")


def latex_name(name: str) -> str:
    """A name as LaTeX: a letter as itself, a Greek letter as its command, anything longer upright."""
    if len(name) == 1:
        return name
    return f"\\{name}" if name in GREEK else f"\\mathrm{{{name}}}"


class CoefficientPrinter(LatexPrinter):
    """SymPy's printer with exact floats and the library's names for data."""

    def __init__(self, frame: Frame | None, names: Mapping[sp.Symbol, str], dots: bool = False):
        super().__init__({"mul_symbol": "dot" if dots else None, "fold_short_frac": False})
        self.coordinate_names = frame.coordinates if frame else ()
        self.names = names

    def _print_Float(self, value: sp.Float) -> str:  # noqa: N802 (SymPy's naming)
        return repr(float(value))

    def _print_Symbol(self, value: sp.Symbol, style: str = "plain") -> str:  # noqa: N802
        return self.names.get(value, latex_name(value.name))

    def _print_Function(self, function: sp.Function, exp: str | None = None) -> str:  # noqa: N802
        if not isinstance(function, DataFunction | RowFunction):
            return super()._print_Function(function, exp)
        if isinstance(function, Jet):
            return self._print_jet(function, exp)
        if isinstance(function, DataFunction) and any(map(has_jets, function.args)):
            return self._print_law(function, exp)
        text = latex_name(function.data)
        orders = getattr(function, "orders", ())
        steps = "".join(derivative_latex(n, k) for n, k in zip(self.coordinate_names, orders, strict=False) if k)
        if isinstance(function, DataFunction):  # always with arguments: a bracket behind it would be read as those
            text += f"({', '.join(self._print(a) for a in function.args)})"
        if steps:
            text = f"\\left({steps}{text}\\right)"
        return text if exp is None else f"{text}^{{{exp}}}"

    def _print_jet(self, jet: Jet, exp: str | None) -> str:
        """u, u_{xx}, u_{x}(0, t): derivatives as subscripts, which products and powers need no brackets for."""
        text = latex_name(jet.channel)
        steps = "".join(latex_name(n) * k for n, k in zip(self.coordinate_names, jet.orders, strict=True))
        text += f"_{{{steps}}}" if steps else ""
        here = [self.names.get(a, "") or self._print(a) for a in jet.args]
        if here != [latex_name(n) for n in self.coordinate_names]:
            text = f"\\left({text}({', '.join(here)})\\right)"
        return text if exp is None else f"{text}^{{{exp}}}"

    def _print_law(self, law: DataFunction, exp: str | None) -> str:
        """k(u), k''(u), k^{(1,0)}(u, x): derivatives are those by the arguments."""
        text = latex_name(law.data)
        if any(law.orders):
            one = len(law.orders) == 1 and law.orders[0] <= 3
            text += "'" * law.orders[0] if one else f"^{{({','.join(map(str, law.orders))})}}"
        given = ", ".join(map(self._print, law.args))
        inner = f"\\left({given}\\right)" if len(law.args) == 1 and law.args[0].is_Add else given
        text += f"({inner})"
        return text if exp is None else f"\\left({text}\\right)^{{{exp}}}"

    def _print_FieldIntegral(self, integral: FieldIntegral, exp: str | None = None) -> str:  # noqa: N802
        integrand, variable, lower, upper = (self._print(a) for a in integral.args)
        return f"\\int_{{{lower}}}^{{{upper}}} \\left({integrand}\\right) \\, d{variable}"


def expression_latex(expression: sp.Expr, frame: Frame) -> str:
    """An expression in jets as LaTeX that reads back to it."""
    names = _free_names(expression, frame)
    text = CoefficientPrinter(frame, names, dots=True).doprint(expression)
    return re.sub(r" \\cdot (?!\\left\(|\d)", " ", text)  # a bracket behind the field would be read as its point


def _free_names(expression: sp.Expr, frame: Frame) -> dict[sp.Symbol, str]:
    """Names for the variables of integrals."""
    variables = sorted({i.args[1] for i in expression.atoms(FieldIntegral)}, key=sp.default_sort_key)
    taken = {s.name for s in expression.free_symbols - set(variables)} | set(frame.coordinates + frame.channels)
    taken |= {f.func.data for f in expression.atoms(DataFunction, RowFunction)}
    return dict(zip(variables, [n for n in SPARE_NAMES if n not in taken], strict=False))


def derivative_latex(coordinate: str, order: int) -> str:
    power = "" if order == 1 else f"^{{{order}}}"
    return f"\\partial_{{{latex_name(coordinate)}}}{power} "


def row_latex(row: Row, frame: Frame | None) -> str:
    """One row, terms joined by their signs."""
    if not row:
        return "0"
    text = ""
    for term in row:
        piece = _term_latex(term, frame)
        if not text:
            text = piece
        else:
            text += f" - {piece[1:].lstrip()}" if piece.startswith("-") else f" + {piece}"
    return text


def _term_latex(term: Term, frame: Frame | None) -> str:
    names = _variable_names(term, frame)
    printer = CoefficientPrinter(frame, names)
    field = "".join(derivative_latex(n, k) for n, k in term.derivatives) + (
        latex_name(term.channel) if term.channel else ""
    )
    coordinates = frame.coordinates if frame else tuple(n for n, _ in term.place.substitution)
    moved = [n for n, e in term.place.substitution if names.get(e, "") != latex_name(n)]
    if moved:
        field += f"({', '.join(printer.doprint(term.place.at(n)) for n in coordinates)})"
    coefficient = term.coefficient
    sign = ""
    if coefficient.could_extract_minus_sign():
        sign, coefficient = "-", -coefficient
    if coefficient != 1:
        text = printer.doprint(coefficient)
        field = f"\\left({text}\\right) {field}" if coefficient.is_Add else f"{text} {field}"
    for integral in reversed(term.place.integrals):
        lower, upper = printer.doprint(integral.lower), printer.doprint(integral.upper)
        field = f"\\int_{{{lower}}}^{{{upper}}} {field} \\, d{names[integral.variable]}"
    return sign + field.strip()


def _variable_names(term: Term, frame: Frame | None) -> dict[sp.Symbol, str]:
    """Names for integration variables: the coordinate itself where nothing else uses it, else a spare letter."""
    substitution = term.place.substitution
    names: dict[sp.Symbol, str] = {}
    taken = set(frame.coordinates + frame.channels) if frame else {n for n, _ in substitution}
    free = {s.name for s in term.coefficient.free_symbols} | {
        s.name for i in term.place.integrals for s in i.lower.free_symbols | i.upper.free_symbols
    }
    free |= {s.name for _, e in substitution for s in e.free_symbols}
    free |= {f.func.data for f in term.coefficient.atoms(DataFunction, RowFunction)}
    spare = [n for n in SPARE_NAMES if n not in taken | free]
    for integral in term.place.integrals:
        own = [n for n, e in substitution if e == integral.variable]
        users = [n for n, e in substitution if integral.variable in e.free_symbols]
        if len(own) == 1 and users == own and own[0] not in free:
            names[integral.variable] = latex_name(own[0])
        else:
            names[integral.variable] = spare.pop(0)
    return names
