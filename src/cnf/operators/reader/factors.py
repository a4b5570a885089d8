"""One factor at a time: atoms, the scripts on them, and all the ways to write a derivative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import sympy as sp
from lark import Token, Tree

from cnf.operators.place import HERE, Place
from cnf.operators.reader import notation
from cnf.operators.reader.derivatives import (
    derivative,
    differentiated,
    operator_power,
    primed,
    read_accent,
    read_derivative_fraction,
    read_partial,
)
from cnf.operators.reader.expressions import applied, number, power
from cnf.operators.reader.names import CONSTANTS
from cnf.operators.reader.notation import Node, head, scripts, start
from cnf.operators.reader.values import MAX_ORDER, Action, Item, Value, scalar, stacked, transposed

if TYPE_CHECKING:
    from cnf.operators.reader.semantics import Reader


def read_factor(reader: Reader, node: Node) -> Item | None:
    """The value or operator of a factor; None for an empty group {}."""
    atom, marks = head(node), scripts(node)
    if isinstance(atom, Token) and atom.type == "NAME":
        return _name(reader, atom, marks)
    if isinstance(atom, Token) and atom.type == "PARTIAL":
        return read_partial(reader, atom, marks)
    item = TOKENS[atom.type](reader, atom) if isinstance(atom, Token) else TREES[str(atom.data)](reader, atom)
    if item is None:
        if marks:
            raise reader.error("there is nothing before this script to attach it to", start(marks[0]))
        return None
    return scripted(reader, item, marks)


# -- atoms ----------------------------------------------------------------------------------------------------


def _number(reader: Reader, token: Token) -> Item:
    with reader.located(start(token)):
        return scalar(number(str(token)), start(token))


def _bold(reader: Reader, token: Token) -> Item:
    with reader.located(start(token)):
        return reader.names.bold(str(token), start(token))


def _nabla(reader: Reader, token: Token) -> Item:
    return Action(reader.calculus.gradient, 1, start(token), r"\nabla")


def read_bracket(reader: Reader, tree: Tree) -> Item | None:
    """What stands between brackets; a list with commas is a vector."""
    parts = notation.entries(tree)
    for part in parts:
        if len(part.children) > 1:
            raise reader.error("an equation cannot stand inside brackets", start(part.children[1]))
    if not parts:
        return None
    items = [reader.sum(part.children[0]) for part in parts]
    if len(items) == 1 and (tree.data == "group" or isinstance(items[0], Action)):
        return items[0]
    values = [reader.value(item) for item in items]
    at = start(tree)
    if len(values) == 1:
        return replace(values[0], at=at, kind="group" if values[0].has_field else "")
    return _stacked(reader, values, at)


def _stacked(reader: Reader, values: Sequence[Value], at: int) -> Value:
    for value in values:
        if value.shape:
            raise reader.error("the entries of a vector must be scalars", value.at)
    return replace(stacked(values, (len(values),)), at=at)


def _pmatrix(reader: Reader, tree: Tree) -> Item:
    return _stacked(reader, [reader.value(reader.sum(c)) for c in tree.children[1:]], start(tree))


def _magnitude(reader: Reader, tree: Tree) -> Item:
    value = reader.value(reader.sum(tree.children[1]))
    with reader.located(start(tree)):
        if not value.shape:
            return scalar(applied("abs", [reader.scalar(value, "an absolute value")]), start(tree))
        parts = [row.in_jets(reader.names.frame) for row in value.rows]
        return scalar(power(sp.Add(*(part**2 for part in parts)), sp.Rational(1, 2)), start(tree))


def _restricted(reader: Reader, tree: Tree) -> Item:
    value = reader.value(reader.sum(tree.children[1]))
    return replace(value, place=_condition(reader, tree.children[-1]), kind="", at=start(tree))


def _condition(reader: Reader, argument: Node) -> Place:
    """{x=0, t=1} -> the point to go to."""
    found = []
    for part in notation.entries(argument):
        factors = notation.single_product(part.children[0])
        name = notation.letter(factors[0]) if factors and len(factors) == 1 and len(part.children) == 2 else None
        if name is None or name.name not in reader.names.frame.coordinates or name.order != 1:
            raise reader.error("expected a coordinate and its value behind the bar, as in |_{x=0}", start(part))
        found.append((name.name, reader.expression(reader.sum(part.children[1]), "a point")))
    if not found or len(dict(found)) < len(found):
        raise reader.error("expected each coordinate once behind the bar, as in |_{x=0}", start(argument))
    return Place(tuple(sorted(found, key=lambda pair: pair[0])))


def _root(reader: Reader, tree: Tree) -> Item:
    base = reader.scalar(reader.argument(tree.children[-1]), "a root")
    with reader.located(start(tree)):
        degree = sp.Integer(2)
        if len(tree.children) == 3:
            degree = reader.expression(reader.sum(tree.children[1]), "a root")
        return scalar(power(base, power(degree, sp.S.NegativeOne)), start(tree))


def _digits(reader: Reader, token: Token) -> Item:
    above, below = (number(digit) for digit in str(token))
    with reader.located(start(token)):
        return scalar(above * power(below, sp.S.NegativeOne), start(token))


def _fraction(reader: Reader, tree: Tree) -> Item:
    above, below = tree.children[1:]

    def is_variable(name: str) -> bool:
        return name in reader.names.frame.coordinates or reader.names.is_direction(name)

    found = notation.derivative(above, below, is_variable, reader.source)
    if found is not None:
        return read_derivative_fraction(reader, found, start(tree))
    divisor = reader.reciprocal(reader.argument(below))
    item = reader.argument(above)
    if isinstance(item, Action):
        action = item
        return replace(action, apply=lambda v: reader.multiplied(divisor, action.apply(v)))
    with reader.located(start(tree)):
        return replace(reader.multiplied(divisor, reader.value(item)), at=start(tree))


TOKENS: dict[str, Callable[[Reader, Token], Item | None]] = {
    "NUMBER": _number,
    "DIGITS": _digits,
    "BOLD": _bold,
    "NABLA": _nabla,
    "DELTA": lambda reader, token: Action(reader.calculus.laplacian, 0, start(token), r"\Delta"),
    "DIVERGENCE": lambda reader, token: Action(reader.calculus.divergence, -1, start(token), r"\nabla\cdot"),
    "CURL": lambda reader, token: Action(
        reader.calculus.curl, -1 if len(reader.names.frame.spatial) == 2 else 0, start(token), r"\nabla\times"
    ),
}
TREES: dict[str, Callable[[Reader, Tree], Item | None]] = {
    "group": read_bracket,
    "paren": read_bracket,
    "vector": _pmatrix,
    "magnitude": _magnitude,
    "restricted": _restricted,
    "root": _root,
    "fraction": _fraction,
    "accent": read_accent,
}


# -- names and derivatives ------------------------------------------------------------------------------------


def _name(reader: Reader, token: Token, marks: Sequence[Tree]) -> Item:
    """A name with its subscript: the longest known name first, what is left are derivatives."""
    names, base, at = reader.names, str(token), start(token)
    subscripts = [mark for mark in marks if mark.data == "sub"]
    if len(subscripts) > 1:
        raise reader.error("a second subscript; write them in one, as in u_{xt}", start(subscripts[1]))
    wrt = notation.letters(subscripts[0].children[-1], reader.source) if subscripts else []
    for count in range(len(wrt), -1, -1):
        full = "_".join([base, "".join(w.name for w in wrt[:count])]) if count else base
        if names.is_known(full, "_" in base):
            break
    if not names.is_known(full, "_" in base) and full not in CONSTANTS:
        written = (
            base if all(w.name in names.frame.coordinates for w in wrt) else "_".join([base, *(w.name for w in wrt)])
        )
        raise reader.error(names.unknown(written, _run_of_letters(reader.source, at)), at)
    with reader.located(at):
        value = names.value(full, at)
        if count < len(wrt) and value.kind not in ("field", "callable", "expression", "rows"):
            raise reader.error(names.unknown("_".join([base, "".join(w.name for w in wrt)]), base), at)
        derived = derivative(reader, wrt[count:], at).apply(value) if wrt[count:] else value
    return scripted(reader, replace(derived, kind=value.kind, at=at), [m for m in marks if m not in subscripts])


def _run_of_letters(source: str, at: int) -> str:
    end = at
    while end < len(source) and source[end].isalpha():
        end += 1
    return source[at:end] or source[at]


# -- scripts --------------------------------------------------------------------------------------------------


def scripted(reader: Reader, item: Item, marks: Sequence[Tree]) -> Item:
    """The item with its scripts applied in the order written."""
    for k, mark in enumerate(marks):
        if mark.data in ("sub", "sup") and mark.data in [m.data for m in marks[:k]]:
            raise reader.error("a second script of the same kind; use braces to say what it belongs to", start(mark))
        if isinstance(item, Action):
            item = _powered(reader, item, mark)
        elif mark.data == "sup":
            item = _raised(reader, item, mark)
        elif mark.data == "bar":
            item = replace(reader.value(item), place=_condition(reader, mark.children[-1]), kind="")
        else:
            item = differentiated(reader, item, mark)
    return item


def _powered(reader: Reader, action: Action, mark: Tree) -> Action:
    """\\Delta^2, \\nabla^4, (\\partial_t + c \\partial_x)^2."""
    if mark.data != "sup":
        raise reader.error(f"this script on {action.text} cannot be read", start(mark))
    order = operator_power(reader, mark)
    base = action
    if action.rank == 1 and action.text == r"\nabla" and order % 2 == 0:
        base, order = replace(action, apply=reader.calculus.laplacian, rank=0), order // 2
    if base.rank:
        raise reader.error(f"{action.text} can only be raised to even powers, as in \\nabla^2 u", start(mark))

    def apply(value: Value) -> Value:
        for _ in range(order):
            value = base.apply(value)
        return value

    return replace(base, apply=apply)


def _raised(reader: Reader, value: Value, mark: Tree) -> Value:
    argument = mark.children[-1]
    if value.rank == 2 and str(argument) in ("T", "top"):
        return transposed(reader.value(value))
    factors = notation.single_product(argument)
    bracket = head(factors[0]) if factors and len(factors) == 1 else None
    if value.kind == "field" and isinstance(bracket, Tree) and bracket.data == "paren":
        order = notation.whole(notation.entries(bracket)[0])
        if order is None or order > MAX_ORDER:
            raise reader.error("expected the order of the derivative, as in u^{(3)}", start(bracket))
        return primed(reader, value, order, start(mark))
    if value.has_field and notation.whole(argument) == 1:
        return reader.value(value)
    if value.shape:
        raise reader.error(r"a vector has no powers; write \mathbf{b}\cdot\mathbf{b}", start(mark))
    exponent = reader.scalar(reader.argument(argument), "an exponent")
    # As in \partial_x u(0, t), in \partial_x u(0, t)^2 the derivative comes first, then the point.
    there = value.place if value.has_field and exponent.is_number else HERE
    base = reader.scalar(value if there.is_here else replace(value, place=HERE), "a base")
    with reader.located(start(argument)):
        raised = scalar(power(base, exponent), value.at)
        return replace(raised, kind="power" if value.kind == "field" and raised.has_field else "", place=there)
