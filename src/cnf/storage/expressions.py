"""Expressions as plain data and back: the tree itself, so that nothing is printed, parsed or worked out.

A whole number or float stands for itself; everything else is a list that starts with what it is:

    x^2 + pi/3   ->   ["Add", ["Mul", ["Rational", 1, 3], ["Constant", "Pi"]], ["Pow", ["Symbol", "x"], 2]]

Trees come back as they were, down to the order of their terms: sums are rounded in the order they are taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import sympy as sp

from cnf.errors import CnfError, FileError
from cnf.operators.coefficients import DataFunction, RowFunction, data_function, row_function
from cnf.operators.evaluation import FOLDED, UNARY
from cnf.operators.field_functions import FieldIntegral, Jet, jet_function
from cnf.operators.frame import NAME, symbol
from cnf.operators.pairs import halves, wide

VARIABLE = re.compile(r"_\d{1,3}\Z")  # of an integral
DEEPEST = 100  # functions within functions
CONSTANTS: dict[str, sp.Expr] = {type(c).__name__: c for c in (sp.pi, sp.E, sp.EulerGamma, sp.GoldenRatio, sp.Catalan)}
FUNCTIONS: dict[str, Callable[..., sp.Expr]] = {f.__name__: f for f in (*UNARY, *FOLDED, sp.Pow, FieldIntegral)}


def describe_expression(expression: sp.Expr, depth: int = 0) -> object:
    """The tree of an expression that can be evaluated."""
    if depth > DEEPEST:
        raise CnfError(f"a coefficient has functions nested more than {DEEPEST} deep and cannot be saved; simplify it")
    if expression.is_Integer:
        return int(expression)
    if expression.is_Rational:
        return ["Rational", int(expression.p), int(expression.q)]
    if expression.is_Float:
        value, rest = halves(expression)
        return ["Float", value, rest] if rest else value
    if expression.is_Symbol:
        return ["Symbol", expression.name]
    if type(expression).__name__ in CONSTANTS:
        return ["Constant", type(expression).__name__]
    parts = [describe_expression(part, depth + 1) for part in expression.args]
    if isinstance(expression, Jet):
        return ["Jet", expression.channel, list(expression.orders), *parts]
    if isinstance(expression, DataFunction):
        return ["Data", expression.data, list(expression.orders), *parts]
    if isinstance(expression, RowFunction):
        return ["Row", expression.data, *parts]
    name = expression.func.__name__
    if FUNCTIONS.get(name) is not expression.func:
        raise CnfError(
            f"the function {name} in a coefficient cannot be saved; write it with the functions of the reader"
        )
    return [name, *parts]


def build_expression(tree: object, depth: int = 0) -> sp.Expr:
    """The expression of a tree; one that `describe_expression` would not write is refused."""
    if isinstance(tree, int) and not isinstance(tree, bool):
        return sp.Integer(tree)
    if isinstance(tree, float):
        return wide(tree)
    if not isinstance(tree, list) or len(tree) < 2 or not isinstance(tree[0], str) or depth > DEEPEST:
        raise FileError("a coefficient in the file is damaged")
    kind, *parts = tree
    if kind == "Rational":
        return sp.Rational(_whole(parts[0]), _whole(parts[-1]))
    if kind == "Float" and len(parts) == 2 and all(isinstance(part, float) for part in parts):
        return wide(parts[0]) + wide(parts[1])
    if kind == "Symbol":
        return symbol(_name(parts[0]))
    if kind == "Constant" and parts[0] in CONSTANTS:
        return CONSTANTS[parts[0]]
    if kind == "Data":
        orders = tuple(_whole(order) for order in parts[1])
        return data_function(_name(parts[0]), orders)(*_built(parts[2:], depth), evaluate=False)
    if kind == "Jet":
        orders = tuple(_whole(order) for order in parts[1])
        return jet_function(_name(parts[0]), orders)(*_built(parts[2:], depth), evaluate=False)
    if kind == "Row":
        return row_function(_name(parts[0]), len(parts) - 1)(*_built(parts[1:], depth), evaluate=False)
    if kind not in FUNCTIONS:
        raise FileError(f"a coefficient in the file has the function {kind!r}, which this version of cnf does not know")
    return FUNCTIONS[kind](*_built(parts, depth), evaluate=False)


def _built(trees: list, depth: int) -> list[sp.Expr]:
    return [build_expression(tree, depth + 1) for tree in trees]


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise FileError("a coefficient in the file is damaged: a whole number is missing")
    return value


def _name(value: object) -> str:
    if not isinstance(value, str) or not (NAME.match(value) or VARIABLE.match(value)):
        raise FileError(f"a coefficient in the file is damaged: {value!r:.40} is not a name")
    return value
