"""One factor at a time: atoms, the scripts on them, and all the ways to write a derivative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import sympy as sp
from lark import Token, Tree

from cnf.errors import nearest
from cnf.operators import notation
from cnf.operators.expressions import applied, number, power
from cnf.operators.notation import Letter, Node, head, scripts, start
from cnf.operators.place import Place
from cnf.operators.values import MAX_ORDER, Action, Item, Value, multiplied, scalar, stacked, transposed, vector

if TYPE_CHECKING:
    from cnf.operators.semantics import Reader


def read_factor(reader: Reader, node: Node) -> Item | None:
    """The value or operator of a factor; None for an empty group {}."""
    atom, marks = head(node), scripts(node)
    if isinstance(atom, Token) and atom.type == "NAME":
        return _name(reader, atom, marks)
    if isinstance(atom, Token) and atom.type == "PARTIAL":
        return _partial(reader, atom, marks)
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
    return _stacked(reader, [reader.value(reader.sum(c)) for c in tree.children[1:]], start(tree))  # type: ignore[arg-type]


def _magnitude(reader: Reader, tree: Tree) -> Item:
    inner = reader.expression(reader.sum(tree.children[1]), "an absolute value")  # type: ignore[arg-type]
    with reader.located(start(tree)):
        return scalar(applied("abs", [inner]), start(tree))


def _restricted(reader: Reader, tree: Tree) -> Item:
    value = reader.value(reader.sum(tree.children[1]))  # type: ignore[arg-type]
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
    base = reader.expression(reader.argument(tree.children[-1]), "a root")
    with reader.located(start(tree)):
        degree = sp.Integer(2)
        if len(tree.children) == 3:
            degree = reader.expression(reader.sum(tree.children[1]), "a root")  # type: ignore[arg-type]
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
        return _derivative_fraction(reader, found, start(tree))
    divisor = reader.reciprocal(reader.argument(below))
    item = reader.argument(above)
    if isinstance(item, Action):
        action = item
        return replace(action, apply=lambda v: multiplied(divisor, action.apply(v)))
    with reader.located(start(tree)):
        return replace(multiplied(divisor, reader.value(item)), at=start(tree))


def _derivative_fraction(reader: Reader, found: notation.Derivative, at: int) -> Item:
    if sum(w.order for w in found.wrt) > MAX_ORDER:
        raise reader.error(f"derivatives of order above {MAX_ORDER} cannot be used", found.wrt[0].at)
    wrt = [Letter(w.name, w.at) for w in found.wrt for _ in range(w.order)]
    action = _derivative(reader, wrt, at, rf"\frac{{\partial}}{{\partial {wrt[0].name}}}" if wrt else r"\frac{d}{dx}")
    if not found.operand:
        return action
    item = reader.product(found.operand)
    if isinstance(item, Action):
        inner = item
        return replace(inner, apply=lambda v: action.apply(inner.apply(v)))
    with reader.located(at):
        return replace(action.apply(reader.value(item)), at=at, kind=item.kind)


def _accent(reader: Reader, tree: Tree) -> Item:
    order = str(tree.children[0]).count("d") if str(tree.children[0]) != r"\dot" else 1
    frame = reader.names.frame
    clocks = frame.time if frame.time else frame.coordinates
    if len(clocks) != 1:
        raise reader.error("a dot is the derivative in time, and it is not clear which coordinate is time; write \\partial_t", start(tree))
    value = reader.value(reader.argument(tree.children[1]))
    with reader.located(start(tree)):
        return replace(reader.calculus.repeated(value, [(clocks[0], order)]), kind=value.kind, at=start(tree))


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
    "accent": _accent,
}


# -- names and derivatives ------------------------------------------------------------------------------------


def _name(reader: Reader, token: Token, marks: Sequence[Tree]) -> Item:
    """A name with its subscript: the longest known name first, what is left are derivatives."""
    names, base, at = reader.names, str(token), start(token)
    index = next((k for k, mark in enumerate(marks) if mark.data == "sub"), None)
    if index is None:
        with reader.located(at):
            return scripted(reader, names.value(base, at), marks)
    wrt = notation.letters(marks[index].children[-1], reader.source)
    for count in range(len(wrt), -1, -1):
        full = "_".join([base, "".join(w.name for w in wrt[:count])]) if count else base
        if names.is_known(full):
            break
    with reader.located(at):
        value = names.value(full, at)
        if count < len(wrt) and value.kind not in ("field", "callable", "expression", "rows"):
            raise reader.error(names.unknown("_".join([base, "".join(w.name for w in wrt)])), at)
        derived = _derivative(reader, wrt[count:], at).apply(value) if wrt[count:] else value
    marks = [mark for k, mark in enumerate(marks) if k != index]
    return scripted(reader, replace(derived, kind=value.kind, at=at), marks)


def _partial(reader: Reader, token: Token, marks: Sequence[Tree]) -> Item:
    """\\partial_x, \\partial_{xy}, \\partial_x^2, \\partial^2_{xy}."""
    kinds = [mark.data for mark in marks]
    if kinds not in (["sub"], ["sub", "sup"], ["sup", "sub"]):
        raise reader.error(r"a derivative with respect to what? Write \partial_x", start(token))
    wrt = notation.letters(marks[kinds.index("sub")].children[-1], reader.source)
    text = rf"\partial_{{{''.join(w.name for w in wrt)}}}"
    if "sup" in kinds:
        mark = marks[kinds.index("sup")]
        order = _operator_power(reader, mark)
        if len(wrt) > 1 and (order != len(wrt) or kinds[0] == "sub"):
            raise reader.error(f"is this of order {order} or {order * len(wrt)}? Write {text}, or ({text})^{{{order}}}", start(mark))
        wrt = wrt * order if len(wrt) == 1 else wrt
    return _derivative(reader, wrt, start(token), text)


def _derivative(reader: Reader, wrt: Sequence[Letter], at: int, text: str = "") -> Action:
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


# -- scripts --------------------------------------------------------------------------------------------------


def scripted(reader: Reader, item: Item, marks: Sequence[Tree]) -> Item:
    """The item with its scripts applied in the order written."""
    for k, mark in enumerate(marks):
        if mark.data in ("sub", "sup") and mark.data in [m.data for m in marks[:k]]:
            raise reader.error("a second script of the same kind; put it in braces to say what it belongs to", start(mark))
        if isinstance(item, Action):
            item = _powered(reader, item, mark)
        elif mark.data == "sup":
            item = _raised(reader, item, mark)
        elif mark.data == "bar":
            item = replace(reader.value(item), place=_condition(reader, mark.children[-1]), kind="")
        else:
            item = _differentiated(reader, item, mark)
    return item


def _operator_power(reader: Reader, mark: Tree) -> int:
    order = notation.whole(mark.children[-1])
    if order is None or not 1 <= order <= MAX_ORDER:
        raise reader.error(f"the power of an operator is a whole number from 1 to {MAX_ORDER}", start(mark.children[-1]))
    return order


def _powered(reader: Reader, action: Action, mark: Tree) -> Action:
    """\\Delta^2, \\nabla^4, (\\partial_t + c \\partial_x)^2."""
    if mark.data != "sup":
        raise reader.error(f"this script on {action.text} cannot be read", start(mark))
    order = _operator_power(reader, mark)
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
        return _primed(reader, value, order, start(mark))
    value = reader.value(value)
    if value.has_field:
        if notation.whole(argument) == 1:
            return value
        raise reader.nonlinear("a power of the field", value.at)
    if value.shape:
        raise reader.error(r"a vector has no powers; write \mathbf{b}\cdot\mathbf{b}", start(mark))
    exponent = reader.expression(reader.argument(argument), "an exponent")
    with reader.located(start(argument)):
        return replace(scalar(power(value.constant, exponent), value.at), kind="")


def _differentiated(reader: Reader, value: Value, mark: Tree) -> Value:
    """Primes, and subscripts on brackets or vectors: (a u)_x, \\mathbf{u}_t."""
    if mark.data == "prime":
        return _primed(reader, value, int(mark.children[0]), start(mark))
    if value.kind not in ("field", "group", "callable", "expression"):
        raise reader.error("a subscript has no meaning here", start(mark))
    wrt = notation.letters(mark.children[-1], reader.source)
    with reader.located(start(mark)):
        return replace(_derivative(reader, wrt, value.at).apply(reader.value(value)), kind=value.kind)


def _primed(reader: Reader, value: Value, order: int, at: int) -> Value:
    frame = reader.names.frame
    if value.kind not in ("field", "group", "callable", "expression"):
        raise reader.error("a prime has no meaning here; it is a derivative of the field, as in u'", at)
    if len(frame.coordinates) != 1:
        raise reader.error(
            f"a prime is a derivative where there is one coordinate; here there are {', '.join(frame.coordinates)}, so write \\partial_{frame.coordinates[0]} u",
            at,
        )
    if order > MAX_ORDER:
        raise reader.error(f"derivatives of order above {MAX_ORDER} cannot be used", at)
    with reader.located(at):
        return replace(reader.calculus.repeated(reader.value(value), [(frame.coordinates[0], order)]), kind=value.kind)
