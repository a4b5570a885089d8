"""Tree -> values: the third stage of reading, where factors act on each other.

A product is read from the right: an operator acts on everything to its right in the product, a scalar multiplies it.
A dot or cross between two vectors binds more loosely than that, so \\nabla u \\cdot \\mathbf{n} is (\\nabla u) . n,
while a dot between scalars is a plain product. a / b c is (a / b) c.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import sympy as sp
from lark import Token, Tree

from cnf.errors import LatexError, OperatorError
from cnf.operators.place import HERE
from cnf.operators.reader.expressions import power
from cnf.operators.reader.factors import read_bracket, read_factor
from cnf.operators.reader.names import Names
from cnf.operators.reader.notation import Node, is_bare, start
from cnf.operators.reader.reach import read_item
from cnf.operators.reader.tokens import MAX_DEPTH
from cnf.operators.reader.values import (
    Action,
    Calculus,
    Item,
    Value,
    added,
    crossed,
    described,
    dotted,
    multiplied,
    negated,
    scalar,
)

Linked = tuple[str, Item]  # how an item is joined to the one before it ("", "DOT", "CROSS"), and the item


class Reader:
    """Evaluates the trees of one string; every error it lets out shows the place."""

    def __init__(self, source: str, names: Names):
        self.source: str = source
        self.names: Names = names
        self.calculus: Calculus = Calculus(names.frame)
        self.depth: int = 0

    # -- errors -----------------------------------------------------------------------------------------------

    @contextmanager
    def located(self, at: int) -> Iterator[None]:
        """Errors of the algebra inside get the position `at`."""
        try:
            yield
        except LatexError:
            raise
        except OperatorError as error:
            raise self.error(str(error), at) from None

    def error(self, message: str, at: int) -> LatexError:
        return LatexError(message, self.source, at)

    def multiplied(self, a: Value, b: Value) -> Value:
        return multiplied(a, b, self.names.frame)

    # -- values of a certain kind -----------------------------------------------------------------------------

    def value(self, item: Item) -> Value:
        """A finished value: nothing waits for an operand any more."""
        if isinstance(item, Action):
            raise self.error(f"what does {item.text} act on? Write the field after it, as in {item.text} u", item.at)
        with self.located(item.at):
            return self.calculus.settled(item)

    def expression(self, item: Item, what: str) -> sp.Expr:
        """A scalar free of the field."""
        value = self.value(item)
        if value.has_field:
            raise self.error(f"{what} must be free of the field", value.at)
        return self.scalar(value, what)

    def scalar(self, item: Item, what: str) -> sp.Expr:
        """A scalar as one expression, the field in it as jets."""
        value = self.value(item)
        if value.shape:
            raise self.error(f"{what} must be a scalar, not {described(value)}", value.at)
        with self.located(value.at):
            return value.rows[0].in_jets(self.names.frame)

    def argument(self, node: Node) -> Item:
        """What stands in a script, under a root, above a fraction bar."""
        item = read_bracket(self, node) if isinstance(node, Tree) and node.data == "group" else read_factor(self, node)
        if item is None:
            raise self.error("this group is empty; expected an expression", start(node))
        return item

    def reciprocal(self, item: Item) -> Value:
        at = item.at
        divisor = self.scalar(item, "a quotient")
        with self.located(at):
            return scalar(power(divisor, sp.S.NegativeOne), at)

    # -- sums -------------------------------------------------------------------------------------------------

    def sum(self, tree: Tree) -> Item:
        parts: list[Item] = []
        negative = False
        for child in tree.children:
            if isinstance(child, Token):
                negative ^= child.value == "-"
                continue
            item = self.product(child.children)
            parts.append(self.negated(item) if negative else item)
            negative = False
        return parts[0] if len(parts) == 1 else self.added(parts)

    def negated(self, item: Item) -> Item:
        if isinstance(item, Action):
            return replace(item, apply=lambda v: negated(item.apply(v)))
        return negated(self.value(item))

    def added(self, parts: Sequence[Item]) -> Item:
        waiting = [p for p in parts if isinstance(p, Action)]
        if waiting:
            return self._added_actions(parts, waiting[-1])
        values = [self.value(p) for p in parts]
        for value in values[1:]:
            if value.shape != values[0].shape:
                raise self.error(f"cannot add {described(values[0])} and {described(value)}", value.at)
        with self.located(values[0].at):
            return added(values)

    def _added_actions(self, parts: Sequence[Item], last: Action) -> Action:
        """(1 - \\Delta): scalars in a sum of operators multiply the operand."""
        for part in parts:
            if isinstance(part, Value) and part.has_field:
                self.value(last)  # raises: one part has its operand, the other has none
        fixed = [p if isinstance(p, Action) else self.value(p) for p in parts]

        def apply(operand: Value) -> Value:
            return added([p.apply(operand) if isinstance(p, Action) else self.multiplied(p, operand) for p in fixed])

        return Action(apply, last.rank, last.at, last.text)

    # -- products ---------------------------------------------------------------------------------------------

    def product(self, nodes: Sequence[Node]) -> Item:
        self.depth += 1
        if self.depth > 2 * MAX_DEPTH:
            raise self.error("this is nested too deeply", start(nodes[0]))
        items = self._items(list(nodes))
        self.depth -= 1
        if not items:
            raise self.error("this group is empty; expected an expression", start(nodes[0]))
        return self._folded(items)

    def _items(self, nodes: list[Node]) -> list[Linked]:
        found: list[Linked] = []
        index, link = 0, ""
        while index < len(nodes):
            node = nodes[index]
            if isinstance(node, Token) and node.type in ("DOT", "CROSS", "STAR", "SLASH"):
                link, index = node.type, index + 1
                continue
            if link == "" and index and is_bare(node, "NUMBER") and is_bare(nodes[index - 1], "NUMBER"):
                raise self.error(r"two numbers stand side by side; write \cdot between them", start(node))
            items, index = read_item(self, nodes, index)
            if link == "SLASH" and items:
                items = [self.reciprocal(items[0]), *items[1:]]
            for item in items:
                found.append((link if link in ("DOT", "CROSS") else "", item))
                link = ""
        return found

    def _folded(self, items: list[Linked]) -> Item:
        """Split at the dots and crosses that join vectors, fold each segment, join the results."""
        chunks: list[list[Item]] = [[items[0][1]]]
        links: list[str] = []
        for link, item in items[1:]:
            if link:
                links.append(link)
                chunks.append([item])
            else:
                chunks[-1].append(item)
        segments, joins = [chunks[0]], []
        for link, chunk in zip(links, chunks[1:], strict=True):
            if _rank(segments[-1]) >= 1 and _rank(chunk) >= 1:
                joins.append(link)
                segments.append(chunk)
            else:
                segments[-1] = segments[-1] + chunk
        if joins.count("CROSS") > 1:
            raise self.error("which cross product comes first? Use brackets", segments[2][0].at)
        left = segments[0]
        for link, segment in zip(joins, segments[1:], strict=True):
            left = [self._joined(link, left, self._segment(segment))]
        return self._segment(left)

    def _segment(self, items: Sequence[Item]) -> Item:
        result = items[-1]
        for left in reversed(items[:-1]):
            result = self._juxtaposed(left, result)
        return result

    def _juxtaposed(self, left: Item, right: Item) -> Item:
        if isinstance(left, Action):
            if isinstance(right, Action):
                inner = right
                return Action(lambda v: left.apply(inner.apply(v)), left.rank + right.rank, right.at, right.text)
            with self.located(left.at):
                applied = left.apply(replace(right, place=HERE))
            return replace(applied, at=left.at, kind="", place=right.place)
        factor = self.value(left)
        if isinstance(right, Action):
            inner = right
            rank = factor.rank + right.rank
            return Action(lambda v: self.multiplied(factor, inner.apply(v)), rank, right.at, right.text)
        with self.located(left.at):
            return self.multiplied(factor, self.value(right))

    def _joined(self, link: str, left: Sequence[Item], right: Item) -> Item:
        """left . right; operators before a field-free b reach over: \\partial_t \\mathbf{b} \\cdot \\nabla u."""
        split = max((k + 1 for k, item in enumerate(left) if isinstance(item, Action)), default=0)
        operand = list(left[split:])
        reaches = isinstance(right, Value) and right.has_field and operand
        if split and reaches and not any(isinstance(v, Value) and v.has_field for v in operand):
            return self._segment([*left[:split], self._joined(link, operand, right)])
        first = self.value(self._segment(left))
        join, frame = dotted if link == "DOT" else crossed, self.names.frame
        if isinstance(right, Action):
            inner = right
            return Action(lambda v: join(first, inner.apply(v), frame), right.rank - 1, right.at, right.text)
        with self.located(first.at):
            return replace(join(first, self.value(right), frame), at=first.at)


def _rank(items: Sequence[Item]) -> int:
    return sum(item.rank for item in items)
