"""Arithmetic on coefficient expressions that no string can make hang or explode.

SymPy evaluates eagerly: 9^(9^9) would be worked out digit by digit and (1 + x + y)^500 expanded term by term. The
reader does all powers and function calls through this file, which bounds them first. Everything here raises
`OperatorError`;
the reader adds the place in the string.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import sympy as sp

from cnf.errors import OperatorError
from cnf.operators.coefficients import DataFunction, RowFunction
from cnf.operators.evaluation import UNARY
from cnf.operators.field_functions import FieldIntegral
from cnf.operators.pairs import wide

MAX_POWER = 64  # highest power of an expression that may be written
MAX_EXPONENT = 1024  # highest power that may arise, as in (x^8)^8
MAX_BITS = 512  # length of whole numbers kept exactly
MAX_MONOMIALS = 1000  # terms of a coefficient multiplied out
MAX_MAGNITUDE = 1e300

FUNCTIONS: dict[str, Callable[..., sp.Expr]] = {
    "sin": sp.sin,
    "cos": sp.cos,
    "tan": sp.tan,
    "cot": sp.cot,
    "sec": sp.sec,
    "csc": sp.csc,
    "sinh": sp.sinh,
    "cosh": sp.cosh,
    "tanh": sp.tanh,
    "arcsin": sp.asin,
    "arccos": sp.acos,
    "arctan": sp.atan,
    "asin": sp.asin,
    "acos": sp.acos,
    "atan": sp.atan,
    "exp": sp.exp,
    "ln": sp.log,
    "log": sp.log,
    "erf": sp.erf,
    "sign": sp.sign,
    "sgn": sp.sign,
    "abs": sp.Abs,
    "max": sp.Max,
    "min": sp.Min,
    "atan2": sp.atan2,
    "atan_2": sp.atan2,
}
ARGUMENTS: dict[str, tuple[int, int]] = {"max": (2, 8), "min": (2, 8), "atan2": (2, 2), "atan_2": (2, 2)}


def number(text: str) -> sp.Expr:
    """A number as written: exact when whole and short, a float otherwise."""
    if text.isdigit() and len(text) <= 18:
        return sp.Integer(int(text))
    value = float(text)
    if not math.isfinite(value):
        raise OperatorError(f"the number {text} is too large")
    return wide(value)


def power(base: sp.Expr, exponent: sp.Expr) -> sp.Expr:
    """base ** exponent, refused when it would not fit."""
    if base.is_Number and exponent.is_Number:
        return _number_power(base, exponent)
    if exponent.is_Number:
        if base == sp.E and abs(exponent) > MAX_POWER:
            return _number_power(base, exponent)  # e^{-1/0.001}, as formulas of layers have it
        if abs(exponent) > MAX_POWER:
            raise OperatorError(f"the exponent {exponent} is too large; powers up to {MAX_POWER} can be used")
        if max((_bits(n) for n in base.atoms(sp.Number)), default=0) * float(abs(exponent)) > 2 * MAX_BITS:
            raise OperatorError("this power has numbers that are too large")
    elif base != sp.E and any(abs(n) > MAX_POWER for n in exponent.atoms(sp.Number)):
        raise OperatorError(f"the exponent has numbers above {MAX_POWER}; write it with e^{{...}} instead")
    return checked(base**exponent)


def _number_power(base: sp.Expr, exponent: sp.Expr) -> sp.Expr:
    exact = base.is_Rational and exponent.is_Rational and abs(exponent) <= MAX_POWER
    if exact and _bits(base) * abs(float(exponent)) <= MAX_BITS:
        return checked(base**exponent)
    try:
        value = math.exp(float(exponent)) if base == sp.E else float(base) ** float(exponent)
    except (OverflowError, ZeroDivisionError):
        raise OperatorError("this power is too large for a number, or divides by zero") from None
    if isinstance(value, complex):
        raise OperatorError("this power is not a real number")
    return checked(wide(value))


def _bits(value: sp.Expr) -> int:
    if not value.is_Rational:
        return 64
    return max(int(value.p).bit_length(), int(value.q).bit_length())


def applied(name: str, arguments: Sequence[sp.Expr]) -> sp.Expr:
    """The named function of its arguments."""
    least, most = ARGUMENTS.get(name, (1, 1))
    if not least <= len(arguments) <= most:
        need = f"{least} to {most} arguments" if least < most else "one argument" if most == 1 else f"{most} arguments"
        raise OperatorError(f"\\{name} takes {need}, not {len(arguments)}")
    return checked(FUNCTIONS[name](*arguments))


def checked(expression: sp.Expr) -> sp.Expr:
    """The expression itself, if it is real and finite and its numbers and powers have a usable size."""
    if expression.has(sp.zoo, sp.nan, sp.oo, -sp.oo):
        raise OperatorError("this is not a finite number; is something divided by zero?")
    if expression.has(sp.I):
        raise OperatorError("this is not a real number")
    for value in expression.atoms(sp.Number):
        if _bits(value) > 2 * MAX_BITS or (value.is_Float and abs(value) > MAX_MAGNITUDE):
            raise OperatorError("this has numbers that are too large")
    for node in expression.atoms(sp.Pow):
        if node.exp.is_Number and abs(node.exp) > MAX_EXPONENT:
            raise OperatorError(f"this has powers above {MAX_EXPONENT}")
    return expression


def supported(expression: sp.Expr) -> sp.Expr:
    """The expression itself, if it is made only of what can be evaluated on tensors."""
    for node in sp.preorder_traversal(expression):
        plain = node.is_Number or node.is_NumberSymbol or node.is_Symbol or node.is_Add or node.is_Mul or node.is_Pow
        known = isinstance(node, DataFunction | RowFunction | FieldIntegral) or node.func in UNARY
        if not plain and not known and node.func not in (sp.Max, sp.Min, sp.atan2):
            if isinstance(node, sp.DiracDelta):
                raise OperatorError(
                    "a coefficient that jumps (sign, or |x| twice) is differentiated here; give each side an equation "
                    "of its own, in a problem file by [regions] and a value of the coefficient for each"
                )
            raise OperatorError(f"the coefficient contains {node.func.__name__}, which cannot be evaluated")
    return checked(expression)


def monomials(expression: sp.Expr) -> int:
    """How many terms multiplying out will give, found without doing it; refused above the bound."""
    if expression.is_Add:
        count = sum(monomials(a) for a in expression.args)
    elif expression.is_Mul:
        count = math.prod(monomials(a) for a in expression.args)
    elif expression.is_Pow:
        count = _power_monomials(*expression.args)
    else:
        for argument in expression.args:
            monomials(argument)
        # A logarithm is split into one term per factor.
        count = len(sp.Mul.make_args(expression.args[0])) if expression.func is sp.log else 1
    if count > MAX_MONOMIALS:
        raise OperatorError(f"multiplied out, a coefficient has more than {MAX_MONOMIALS} terms")
    return count


def _power_monomials(base: sp.Expr, exponent: sp.Expr) -> int:
    terms, _ = monomials(base), monomials(exponent)
    if terms == 1:
        return 1
    steps = math.ceil(max((abs(float(n)) for n in exponent.atoms(sp.Number)), default=1))
    count = math.comb(terms + steps - 1, steps) if steps <= MAX_EXPONENT else MAX_MONOMIALS + 1
    if count > MAX_MONOMIALS:
        raise OperatorError(f"multiplied out, a power has more than {MAX_MONOMIALS} terms")
    return count


def size(expression: sp.Expr) -> int:
    """Number of nodes of the expression tree."""
    count, stack = 0, [expression]
    while stack:
        node = stack.pop()
        count += 1
        stack.extend(node.args)
    return count
