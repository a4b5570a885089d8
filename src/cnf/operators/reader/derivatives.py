"""Derivatives, in all the ways they are written: operators, fractions, subscripts, primes, dots, directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lark import Token, Tree

from cnf.errors import nearest
from cnf.operators.place import HERE
from cnf.operators.reader import notation
from cnf.operators.reader.notation import Letter, start
from cnf.operators.reader.values import MAX_ORDER, Action, Item, Value, vector

if TYPE_CHECKING:
    from cnf.operators.reader.semantics import Reader

DIFFERENTIABLE = (
    "field",
    "group",
    "callable",
    "expression",
)  # kinds of value that primes, dots and subscripts may follow


def derivative(reader: Reader, wrt: Sequence[Letter], at: int, text: str = "") -> Action:
    """The derivative with respect to each letter in turn: a coordinate, or a direction such as the normal n."""
    names = reader.names
    for part in wrt:
        if part.name not in names.frame.coordinates and not names.is_direction(part.name):
            raise reader.error(
                f"there is no coordinate {part.name!r}; the space has {', '.join(names.frame.coordinates)}."
                + nearest(part.name, names.frame.coordinates)
                + f" If it is a direction, give it as a keyword: {part.name}=[...]",
                part.at,
            )
    if len(wrt) > MAX_ORDER:
        raise reader.error(f"derivatives of order above {MAX_ORDER} cannot be used", at)
    orders = {part.name: sum(1 for other in wrt if other.name == part.name) for part in wrt}
    directions: dict[str, Value] = {}
    for part in wrt:
        if part.name not in names.frame.coordinates and part.name not in directions:
            with reader.located(part.at):
                directions[part.name] = vector(names.direction(part.name))

    def apply(value: Value) -> Value:
        for name, order in orders.items():
            if name in directions:
                value = reader.calculus.along(value, directions[name], order)
            else:
                value = reader.calculus.repeated(value, [(name, order)])
        return value

    return Action(apply, 0, at, text)


def read_partial(reader: Reader, token: Token, marks: Sequence[Tree]) -> Item:
    """\\partial_x, \\partial_{xy}, \\partial_x^2, \\partial^2_{xy}."""
    kinds = [mark.data for mark in marks]
    if kinds not in (["sub"], ["sub", "sup"], ["sup", "sub"]):
        raise reader.error(r"a derivative with respect to what? Write \partial_x", start(token))
    wrt = notation.letters(marks[kinds.index("sub")].children[-1], reader.source)
    text = rf"\partial_{{{''.join(w.name for w in wrt)}}}"
    if "sup" in kinds:
        mark = marks[kinds.index("sup")]
        order = operator_power(reader, mark)
        if len(wrt) > 1 and (order != len(wrt) or kinds[0] == "sub"):
            message = f"is this of order {order} or {order * len(wrt)}? Write {text}, or ({text})^{{{order}}}"
            raise reader.error(message, start(mark))
        wrt = wrt * order if len(wrt) == 1 else wrt
    return derivative(reader, wrt, start(token), text)


def operator_power(reader: Reader, mark: Tree) -> int:
    order = notation.whole(mark.children[-1])
    if order is None or not 1 <= order <= MAX_ORDER:
        message = f"the power of an operator is a whole number from 1 to {MAX_ORDER}"
        raise reader.error(message, start(mark.children[-1]))
    return order


def read_derivative_fraction(reader: Reader, found: notation.Derivative, at: int) -> Item:
    if sum(w.order for w in found.wrt) > MAX_ORDER:
        raise reader.error(f"derivatives of order above {MAX_ORDER} cannot be used", found.wrt[0].at)
    wrt = [Letter(w.name, w.at) for w in found.wrt for _ in range(w.order)]
    action = derivative(reader, wrt, at, rf"\frac{{\partial}}{{\partial {wrt[0].name}}}" if wrt else r"\frac{d}{dx}")
    if not found.operand:
        return action
    item = reader.product(found.operand)
    if isinstance(item, Action):
        inner = item
        return replace(inner, apply=lambda v: action.apply(inner.apply(v)))
    with reader.located(at):
        # As in \partial_x u(0, t): the derivative first, then the point.
        there = item.place
        return replace(action.apply(replace(item, place=HERE)), at=at, kind=item.kind, place=there)


def read_accent(reader: Reader, tree: Tree) -> Item:
    order = str(tree.children[0]).count("d") if str(tree.children[0]) != r"\dot" else 1
    frame = reader.names.frame
    clocks = frame.time if frame.time else frame.coordinates
    if len(clocks) != 1:
        message = "a dot is the derivative in time, and it is not clear which coordinate is time; write \\partial_t"
        raise reader.error(message, start(tree))
    value = reader.value(reader.argument(tree.children[1]))
    if value.kind not in DIFFERENTIABLE:
        raise reader.error("a dot has no meaning here; it is a derivative of the field, as in \\dot{u}", start(tree))
    with reader.located(start(tree)):
        return replace(reader.calculus.repeated(value, [(clocks[0], order)]), kind=value.kind, at=start(tree))


def differentiated(reader: Reader, value: Value, mark: Tree) -> Value:
    """Primes, and subscripts on brackets or vectors: (a u)_x, \\mathbf{u}_t."""
    if mark.data == "prime":
        return primed(reader, value, int(str(mark.children[0])), start(mark))
    if value.kind not in DIFFERENTIABLE:
        raise reader.error("a subscript has no meaning here", start(mark))
    wrt = notation.letters(mark.children[-1], reader.source)
    with reader.located(start(mark)):
        return replace(derivative(reader, wrt, value.at).apply(reader.value(value)), kind=value.kind)


def primed(reader: Reader, value: Value, order: int, at: int) -> Value:
    frame = reader.names.frame
    if value.kind not in DIFFERENTIABLE:
        raise reader.error("a prime has no meaning here; it is a derivative of the field, as in u'", at)
    if len(frame.coordinates) != 1:
        names = ", ".join(frame.coordinates)
        raise reader.error(f"with the coordinates {names} a prime is not clear; write \\partial_{names[0]} u", at)
    if order > MAX_ORDER:
        raise reader.error(f"derivatives of order above {MAX_ORDER} cannot be used", at)
    with reader.located(at):
        return replace(reader.calculus.repeated(reader.value(value), [(frame.coordinates[0], order)]), kind=value.kind)
