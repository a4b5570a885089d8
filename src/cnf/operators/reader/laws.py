"""Laws: functions of the field. `k(u)`, `k(u, x)` with a callable k, and expressions in the channels that have a name.

A callable law gets one column per argument, (P, n) -> (P,): a `DataFunction` whose arguments are expressions in jets,
so that the chain rule of SymPy differentiates it and forward mode gives k'(u), k''(u), ... Derivatives by the arguments
are written k'(u) for one argument and k^{(1,0)}(u, x) for several.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import sympy as sp
from lark import Token, Tree

from cnf.errors import OperatorError
from cnf.operators.coefficients import DataFunction, data_function
from cnf.operators.field_functions import Jet, has_jets
from cnf.operators.reader import notation
from cnf.operators.reader.notation import Node, head, is_token, scripts, start
from cnf.operators.reader.values import MAX_ORDER, Value, scalar

if TYPE_CHECKING:
    from cnf.operators.reader.semantics import Reader


def read_derivative_of_law(reader: Reader, node: Node, bracket: Node) -> Value | None:
    """k'(u), k^{(1,0)}(u, x): a derivative of a callable by its arguments; None if this is something else."""
    atom, marks = head(node), scripts(node)
    if not marks or not is_token(atom, "NAME") or not reader.names.is_callable(str(atom)):
        return None
    orders = _orders(marks)
    if orders is None:
        return None
    name, at = str(atom), start(node)
    parts = notation.entries(head(bracket))
    if len(orders) != len(parts):
        example = ",".join(["1"] + ["0"] * (len(parts) - 1))
        raise reader.error(
            f"which derivative of {name}? It has {len(parts)} argument(s) here: write {name}^{{({example})}} for the "
            "derivative by the first one",
            at,
        )
    if sum(orders) > MAX_ORDER:
        raise reader.error(f"derivatives of order above {MAX_ORDER} cannot be used", at)
    arguments = [reader.value(reader.sum(part.children[0])) for part in parts]
    return _law(reader, name, orders, arguments, at)


def _orders(marks: Sequence[Tree]) -> tuple[int, ...] | None:
    """How often each argument is differentiated, by the primes or the bracket in the superscript behind a name."""
    if all(mark.data == "prime" for mark in marks):
        return (sum(int(str(mark.children[0])) for mark in marks),)
    if len(marks) > 1 or marks[0].data != "sup":
        return None
    factors = notation.single_product(marks[0].children[-1])
    inner = head(factors[0]) if factors and len(factors) == 1 else None
    if not isinstance(inner, Tree) or inner.data != "paren":
        return None
    found = [notation.whole(part) for part in notation.entries(inner)]
    return tuple(order for order in found if order is not None) if None not in found else None


def read_law(reader: Reader, value: Value, bracket: Node, arguments: Sequence[Value]) -> Value | None:
    """What a coefficient with the field in the bracket behind it means; None if that is a product."""
    if has_jets(value.constant):
        return _written_out(reader, value, bracket, arguments)
    function = value.constant
    if not isinstance(function, DataFunction) or isinstance(function, Jet):
        return None
    parts = notation.entries(head(bracket))
    if any(function.orders):
        raise reader.error(
            f"derivative of {function.data} by which of its arguments? Write {function.data}'(u) for that of a law, "
            "and \\cdot before the bracket for a product",
            value.at,
        )
    if len(parts) == 1 and sum(not isinstance(child, Token) for child in parts[0].children[0].children) > 1:
        what = reader.source[value.at : start(bracket)].strip()
        raise reader.error(
            f"is this {what} times the bracket, or the function {what} of it? Not clear; for a product write \\cdot "
            f"before the bracket, for the function a second pair of brackets, as in {what}((u - 1))",
            start(bracket),
        )
    return _law(reader, function.data, (0,) * len(parts), arguments, value.at)


def _law(reader: Reader, name: str, orders: Sequence[int], arguments: Sequence[Value], at: int) -> Value:
    with reader.located(at):
        reader.names.use_law(name)
        expressions = [reader.scalar(argument, f"an argument of {name}") for argument in arguments]
        return scalar(data_function(name, tuple(orders))(*expressions), at)


def _written_out(reader: Reader, value: Value, bracket: Node, arguments: Sequence[Value]) -> Value:
    """k(u) for an expression that is called k: the channels and coordinates it depends on."""
    frame = reader.names.frame
    what = reader.source[value.at : start(bracket)].strip()
    channels = {jet.channel for jet in value.constant.atoms(Jet)}
    named: set[str] = set()
    for argument in arguments:
        expression = None if argument.shape else argument.rows[0].in_jets(frame)
        if isinstance(expression, Jet) and not any(expression.orders):
            named.add(expression.channel)
        elif not isinstance(expression, sp.Symbol):
            raise reader.error(
                f"{what} is an expression in {', '.join(sorted(channels))} already; write {what} or "
                f"{what}({', '.join(sorted(channels))}), and \\cdot before the bracket for a product",
                argument.at,
            )
    missing = channels - named
    if missing:
        raise reader.error(f"{what} also depends on {', '.join(sorted(missing))}", start(bracket))
    return scalar(value.constant, value.at)


def refuse_mixed_widths(expressions: Iterable[sp.Expr]) -> None:
    """A callable gets one column for each of its arguments: it cannot have two here and one there."""
    widths: dict[str, int] = {}
    calls = {f for e in expressions for f in e.atoms(DataFunction) if not isinstance(f, Jet)}
    for call in sorted(calls, key=sp.default_sort_key):
        before = widths.setdefault(call.data, len(call.args))
        if before != len(call.args):
            raise OperatorError(
                f"the callable {call.data!r} is used with {before} and with {len(call.args)} arguments; it gets one "
                "column for each, as many as there are coordinates where it is a coefficient: give each use a callable "
                "of its own"
            )
