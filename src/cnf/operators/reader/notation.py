"""Patterns of notation, found in the tree before anything is evaluated.

Which letters stand in a subscript, whether a fraction is a derivative, which differential closes an integral: all of
these depend on how things are written, not on what they are worth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lark import Token, Tree

from cnf.errors import LatexError

Node = Token | Tree


def start(node: Node) -> int:
    """Where a node begins in the source."""
    position = node.start_pos if isinstance(node, Token) else node.meta.start_pos
    return int(position or 0)


def head(node: Node) -> Node:
    """The atom of a factor."""
    return node.children[0] if isinstance(node, Tree) and node.data == "factor" else node


def scripts(node: Node) -> list[Tree]:
    return node.children[1:] if isinstance(node, Tree) and node.data == "factor" else []


def is_token(node: Node, *kinds: str) -> bool:
    return isinstance(node, Token) and node.type in kinds


def is_bare(node: Node, kind: str, text: str | None = None) -> bool:
    """A factor that is one token without scripts."""
    atom = head(node)
    return is_token(atom, kind) and not scripts(node) and (text is None or str(atom) == text)


def is_round(node: Node) -> bool:
    """A bracket ( ... ), which may be the argument of what stands before it."""
    atom = head(node)
    return isinstance(atom, Tree) and atom.data == "paren" and str(atom.children[0]) == "("


def entries(node: Node) -> list[Tree]:
    """The comma separated parts of a bracket or a brace group."""
    inner = [c for c in node.children if isinstance(c, Tree) and c.data == "list"] if isinstance(node, Tree) else []
    return list(inner[0].children) if inner else []


def single_product(node: Node) -> list[Node] | None:
    """The factors of a group that holds one product without signs or commas; None for anything else."""
    if isinstance(node, Token):
        return [node]
    parts: list[Node] = list(entries(node)) if node.data == "group" else [node]
    while len(parts) == 1 and isinstance(parts[0], Tree) and parts[0].data in ("entry", "sum"):
        parts = list(parts[0].children)
    if len(parts) == 1 and isinstance(parts[0], Tree) and parts[0].data == "product":
        return list(parts[0].children)
    return [node] if node.data not in ("group", "sum") else None


def whole(node: Node) -> int | None:
    """The whole number a script holds, if it is one."""
    factors = single_product(node)
    if factors and len(factors) == 1 and not scripts(factors[0]) and is_token(head(factors[0]), "NUMBER"):
        text = str(head(factors[0]))
        return int(text) if text.isdigit() and len(text) < 6 else None
    return None


@dataclass(frozen=True)
class Letter:
    """A name in a subscript or under a derivative, its position, and the order if one is written."""

    name: str
    at: int
    order: int = 1


def letter(node: Node) -> Letter | None:
    """x, x_1, \\theta, x^2 -> a letter with its order."""
    atom = head(node)
    if not is_token(atom, "NAME", "BOLD", "NUMBER"):
        return None
    name, order = str(atom), 1
    for script in scripts(node):
        inner = letters_or_none(script.children[-1]) if script.data == "sub" else None
        power = whole(script.children[-1]) if script.data == "sup" else None
        if inner is not None:
            name += "_" + "".join(part.name for part in inner)
        elif power is not None:
            order = power
        else:
            return None
    return Letter(name, start(atom), order)


def letters_or_none(argument: Node) -> list[Letter] | None:
    """The letters of a subscript: {xxt}, {1,x}, {x_1 x_1}."""
    groups = [argument] if isinstance(argument, Token) or argument.data != "group" else list(entries(argument))
    found: list[Letter] = []
    for group in groups:
        factors = single_product(group)
        parts = [letter(f) for f in factors] if factors else [None]
        for part in parts:
            if part is None:
                return None
            found.append(part)
    return found or None


def letters(argument: Node, source: str) -> list[Letter]:
    found = letters_or_none(argument)
    if found is None:
        raise LatexError("a subscript here is a list of coordinates, as in u_{xx}", source, start(argument))
    return [Letter(part.name, part.at) for part in found for _ in range(min(part.order, 1000))]


@dataclass(frozen=True)
class Derivative:
    """A derivative written as a fraction: with respect to what, and the factors it acts on (none: it still waits)."""

    wrt: tuple[Letter, ...]
    operand: tuple[Node, ...]


def derivative(
    numerator: Node, denominator: Node, is_variable: Callable[[str], bool], source: str
) -> Derivative | None:
    """The derivative that a fraction stands for, or None for a quotient."""
    above, below = single_product(numerator), single_product(denominator)
    if not above or not below or not _is_differential_sign(below[0]):
        return None
    upright_d = is_token(head(below[0]), "NAME")
    wrt = _below(below)
    if upright_d and (wrt is None or not all(is_variable(w.name) for w in wrt) or not _is_differential_sign(above[0])):
        return None
    if wrt is None:
        message = r"expected \partial and a coordinate for each derivative, as in \partial x^2 \partial y"
        raise LatexError(message, source, start(below[0]))
    if not _is_differential_sign(above[0]):
        raise LatexError(r"expected \partial at the start of the numerator", source, start(above[0]))
    order = _order(above[0], source)
    if order != sum(w.order for w in wrt):
        raise LatexError(
            f"the orders do not match: {order} above, {sum(w.order for w in wrt)} below", source, start(above[0])
        )
    return Derivative(tuple(wrt), tuple(above[1:]))


def _is_differential_sign(node: Node) -> bool:
    atom = head(node)
    return is_token(atom, "PARTIAL") or (is_token(atom, "NAME") and str(atom) == "d")


def _order(node: Node, source: str) -> int:
    marks = scripts(node)
    if not marks:
        return 1
    order = whole(marks[0].children[-1]) if len(marks) == 1 and marks[0].data == "sup" else None
    if order is None:
        raise LatexError("the order of a derivative is a whole number, as in \\partial^2", source, start(marks[0]))
    return order


def _below(factors: Sequence[Node]) -> list[Letter] | None:
    found = []
    for sign, name in zip(factors[::2], factors[1::2], strict=False):
        part = letter(name)
        if not _is_differential_sign(sign) or scripts(sign) or part is None:
            return None
        found.append(part)
    return found if len(factors) % 2 == 0 else None


def closing_differential(
    factors: Sequence[Node], begin: int, is_differential: Callable[[Node, Node], bool]
) -> int | None:
    """Index of the d of the differential that closes the integral sign at begin - 1; inner integrals close first."""
    depth, index = 0, begin
    while index < len(factors):
        if is_token(head(factors[index]), "INT"):
            depth += 1
        elif index + 1 < len(factors) and is_differential(factors[index], factors[index + 1]):
            if depth == 0:
                return index
            depth -= 1
            index += 1
        index += 1
    return None
