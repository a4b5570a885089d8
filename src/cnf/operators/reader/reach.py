"""Factors that reach to their right for something: functions for an argument, integrals for a differential, names for a
bracket to be called with. All of them return items and the index of the first factor they did not use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import sympy as sp

from cnf.operators.frame import symbol
from cnf.operators.place import Place
from cnf.operators.reader import notation
from cnf.operators.reader.expressions import applied, power
from cnf.operators.reader.factors import read_factor, scripted
from cnf.operators.reader.laws import read_derivative_of_law, read_law
from cnf.operators.reader.notation import Node, head, is_bare, is_round, is_token, scripts, start
from cnf.operators.reader.values import Action, Item, Value, scalar

if TYPE_CHECKING:
    from cnf.operators.reader.semantics import Reader


def read_item(reader: Reader, nodes: Sequence[Node], index: int) -> tuple[list[Item], int]:
    """The factor at `index` with everything that belongs to it."""
    node, following = nodes[index], nodes[index + 1] if index + 1 < len(nodes) else None
    atom = head(node)
    if is_token(atom, "INT"):
        return _integral(reader, nodes, index)
    if is_token(atom, "FUNC"):
        value, index = _function(reader, nodes, index)
        return [value], index
    if is_bare(node, "NABLA") and following is not None and is_token(following, "DOT", "CROSS"):
        flat = len(reader.names.frame.spatial) == 2
        if following.type == "DOT":  # type: ignore[union-attr]
            return [Action(reader.calculus.divergence, -1, start(node), r"\nabla\cdot")], index + 2
        return [Action(reader.calculus.curl, -1 if flat else 0, start(node), r"\nabla\times")], index + 2
    if following is not None and is_round(following):
        slope = read_derivative_of_law(reader, node, following)
        if slope is not None:
            return [scripted(reader, slope, scripts(following))], index + 2
    item = read_factor(reader, node)
    if item is None:
        return [], index + 1
    if isinstance(item, Value) and item.kind and following is not None and is_round(following):
        return _called(reader, item, following), index + 2
    return [item], index + 1


# -- functions ------------------------------------------------------------------------------------------------


def _function(reader: Reader, nodes: Sequence[Node], index: int) -> tuple[Value, int]:
    node = nodes[index]
    name, at = str(head(node)), start(node)
    if index + 1 >= len(nodes) or is_token(nodes[index + 1], "DOT", "CROSS", "STAR", "SLASH"):
        raise reader.error(f"\\{name} needs an argument, as in \\{name}(x)", at)
    marks = scripts(node)
    if name == "atan" and marks and marks[0].data == "sub" and notation.whole(marks[0].children[-1]) == 2:
        name, marks = "atan2", marks[1:]  # as SymPy prints it
    inner, outer = _bracket_behind(nodes[index + 1])
    if inner is not None:
        arguments = [reader.scalar(reader.sum(e.children[0]), f"\\{name}") for e in notation.entries(inner)]
        index += 2
    else:
        value, index = _bare_argument(reader, nodes, index + 1, name)
        arguments = [reader.scalar(value, f"\\{name}")]
    with reader.located(at):
        result = _with_scripts(reader, applied(name, arguments), name, marks)
    item = scripted(reader, scalar(result, at), outer)
    return reader.value(item), index


def _bracket_behind(node: Node) -> tuple[Node | None, list]:
    """The bracket that is the whole argument, in ( ) or in { ( ) }, and the scripts on it."""
    inside = notation.single_product(head(node)) if not isinstance(node, notation.Token) else None
    core = inside[0] if inside and len(inside) == 1 and not scripts(inside[0]) else node
    atom = head(core)
    if isinstance(atom, notation.Tree) and atom.data == "paren":
        return atom, scripts(node)
    return None, []


def _bare_argument(reader: Reader, nodes: Sequence[Node], index: int, name: str) -> tuple[Item, int]:
    """\\sin 2 \\pi x: numbers and constants up to one coordinate; anything less clear needs a bracket."""
    if is_token(head(nodes[index]), "FUNC"):
        reader.depth += 1
        if reader.depth > 50:
            raise reader.error("this is nested too deeply", start(nodes[index]))
        value, index = _function(reader, nodes, index)
        reader.depth -= 1
        return value, index
    end = index + 1
    while end < len(nodes) and _is_constant(reader, nodes[end - 1]) and _is_plain(reader, nodes[end]):
        end += 1
    item = reader.product(nodes[index:end])
    if end < len(nodes):
        swallowed = _is_constant(reader, nodes[end - 1]) and _is_field(reader, nodes[end])
        if swallowed or _is_plain(reader, nodes[end]):
            message = f"what is the argument of \\{name}? Put it in brackets, as in \\{name}(x)"
            raise reader.error(message, start(nodes[end]))
    return item, end


def _is_constant(reader: Reader, node: Node) -> bool:
    """A number, or a name whose value does not depend on the point."""
    if is_token(head(node), "NUMBER"):
        return True
    part = notation.letter(node) if is_token(head(node), "NAME") else None
    if part is None or part.name in reader.names.frame.channels or part.name in reader.names.frame.coordinates:
        return False
    if part.name in reader.names.given:
        return not callable(reader.names.given[part.name])
    return part.name == "pi"


def _is_plain(reader: Reader, node: Node) -> bool:
    """A constant, a coordinate or an integration variable."""
    if _is_constant(reader, node):
        return True
    part = notation.letter(node) if is_token(head(node), "NAME") else None
    return part is not None and (part.name in reader.names.frame.coordinates or part.name in reader.names.bound)


def _is_field(reader: Reader, node: Node) -> bool:
    atom = head(node)
    return is_token(atom, "NAME") and str(atom) in reader.names.frame.channels


def _with_scripts(reader: Reader, result: sp.Expr, name: str, marks: Sequence[notation.Tree]) -> sp.Expr:
    """\\sin^2 and \\log_{10}."""
    for script in marks:
        value = sp.S.NegativeOne
        if script.data in ("sub", "sup"):
            value = reader.expression(reader.argument(script.children[-1]), "a script")
        if script.data == "sub" and name == "log":
            result = result * power(applied("log", [value]), sp.S.NegativeOne)
        elif script.data == "sup" and value != -1:
            result = power(result, value)
        else:
            hint = f"; write \\arc{name} or 1 / \\{name}" if script.data == "sup" else ""
            raise reader.error(f"this script on \\{name} cannot be read{hint}", start(script))
    return result


# -- integrals ------------------------------------------------------------------------------------------------


def _integral(reader: Reader, nodes: Sequence[Node], index: int) -> tuple[list[Item], int]:
    sign = nodes[index]
    at = start(sign)
    limits = {s.data: s.children[-1] for s in scripts(sign)}
    if set(limits) != {"sub", "sup"} or len(scripts(sign)) != 2:
        raise reader.error(r"the integral needs both limits, as in \int_0^1 u \, dx", at)
    lower, upper = (reader.expression(reader.argument(limits[k]), "a limit") for k in ("sub", "sup"))

    def is_differential(first: Node, second: Node) -> bool:
        return _is_differential(reader, first, second)

    end = notation.closing_differential(nodes, index + 1, is_differential)
    if end is None:
        advice = r"a sum under it needs brackets, as in \int_0^1 (u + v) \, dx"
        raise reader.error(f"the integral has no differential such as dx; {advice}", at)
    if end == index + 1:
        raise reader.error("the integral is empty; write what is integrated before the differential", start(nodes[end]))
    value = _integrated(reader, nodes[index + 1 : end], notation.letter(nodes[end + 1]), lower, upper, at)
    item = scripted(reader, value, [s for s in scripts(nodes[end + 1]) if s.data != "sub"])
    return [item], end + 2


def _is_differential(reader: Reader, first: Node, second: Node) -> bool:
    part = notation.letter(second) if is_token(head(second), "NAME") else None
    if not is_bare(first, "NAME", "d") or part is None:
        return False
    if reader.names.is_known("d") and reader.source[start(first)] != "\\":
        return False  # then only an upright \mathrm{d} is a differential
    names = reader.names
    return part.name in names.frame.coordinates or part.name in names.bound or not names.is_known(part.name)


def _integrated(
    reader: Reader, nodes: Sequence[Node], variable: notation.Letter | None, lower: sp.Expr, upper: sp.Expr, at: int
) -> Value:
    assert variable is not None
    name, calculus = variable.name, reader.calculus
    if name in reader.names.frame.coordinates:
        value = reader.value(reader.product(nodes))
        with reader.located(at):
            return replace(calculus.integrated(value, name, lower, upper), at=at)
    fresh = sp.Dummy(name, real=True)
    outer = reader.names.bound
    reader.names.bound = outer | {name: fresh}
    value = reader.value(reader.product(nodes))
    reader.names.bound = outer
    if fresh not in value.free_symbols:
        raise reader.error(
            f"{name!r} is no coordinate and does not occur in the integral; integrate over one of "
            f"{', '.join(reader.names.frame.coordinates)}, or write the point as in u({name})",
            variable.at,
        )
    with reader.located(at):
        return replace(calculus.integrated(value, fresh, lower, upper), at=at)


# -- calls ----------------------------------------------------------------------------------------------------


def _called(reader: Reader, value: Value, bracket: Node) -> list[Item]:
    """u(0, t), a(x): the value at a point; or a product, where the bracket cannot be a list of arguments."""
    parts = notation.entries(head(bracket))
    names = reader.names.frame.coordinates
    bare = [_bare_coordinate(reader, part) for part in parts]
    if value.kind == "group" and len(parts) == 1:
        return [value, *_factor(reader, bracket)]
    if value.kind in ("number", "rows", "expression", "callable"):
        if all(bare) and len(set(bare)) == len(bare):
            return [_written_out(reader, value, [b for b in bare if b], bracket)]
        if value.kind in ("number", "rows"):
            return [value, *_factor(reader, bracket)]
    arguments = [reader.value(reader.sum(part.children[0])) for part in parts]
    if value.kind == "callable" and any(argument.has_field for argument in arguments):
        law = read_law(reader, value, bracket, arguments)
        if law is not None:
            return [scripted(reader, law, scripts(bracket))]
    if value.kind in ("expression", "callable", "field", "power") and len(parts) == 1 and arguments[0].has_field:
        return [value, scripted(reader, arguments[0], scripts(bracket))]
    varies = value.kind == "power" and any(
        a.free_symbols & {symbol(n) for n in names} for a in arguments
    )  # u^2(1 - x), but not u^2(0)
    if len(parts) != len(names) or (len(names) == 1 and (value.kind == "expression" or varies) and not all(bare)):
        what = reader.source[value.at : start(bracket)].strip()
        given = f"{what} takes {len(names)} argument(s), ({', '.join(names)}), not {len(parts)}"
        if len(parts) == len(names):
            given = f"is this {what} times the bracket, or {what} at another point? Not clear"
        raise reader.error(f"{given}; for a product write \\cdot before the bracket", start(bracket))
    point = [(n, reader.expression(a, "a point")) for n, a in zip(names, arguments, strict=True)]
    moved = tuple(sorted((n, e) for n, e in point if e != symbol(n)))
    return [scripted(reader, replace(reader.value(value), place=Place(moved), kind=""), scripts(bracket))]


def _factor(reader: Reader, node: Node) -> list[Item]:
    item = read_factor(reader, node)
    return [] if item is None else [item]


def _bare_coordinate(reader: Reader, part: notation.Tree) -> str | None:
    factors = notation.single_product(part.children[0]) if len(part.children) == 1 else None
    found = notation.letter(factors[0]) if factors and len(factors) == 1 else None
    is_coordinate = found is not None and found.order == 1 and found.name in reader.names.frame.coordinates
    return found.name if found is not None and is_coordinate else None


def _written_out(reader: Reader, value: Value, arguments: Sequence[str], bracket: Node) -> Item:
    """a(x): the coefficient with its coordinates; in another order than the space's they are a point to go to."""
    if value.kind == "number":
        raise reader.error(
            "this coefficient is a number, not a function; leave the bracket out, or write \\cdot for a product",
            start(bracket),
        )
    names = reader.names.frame.coordinates
    missing = {s.name for s in value.constant.free_symbols if s.name in names} - set(arguments)
    if value.kind == "expression" and missing:
        raise reader.error(f"this coefficient also depends on {', '.join(sorted(missing))}", start(bracket))
    point: tuple[tuple[str, sp.Expr], ...] = ()
    if len(arguments) == len(names) and value.kind == "callable":
        point = tuple(sorted((n, symbol(a)) for n, a in zip(names, arguments, strict=True) if n != a))
    return scripted(reader, replace(value, kind="", place=Place(point)), scripts(bracket))
