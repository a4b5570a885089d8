r"""Tokens -> tree: the second stage of reading, by descent: one method per rule of the grammar.

    start: row (";" row)* [";"]
    row: sum ("=" sum)*
    sum: PM* product (PM+ product)*
    product: factor ((DOT | CROSS | STAR | SLASH)? factor)*
    factor: atom script*
    script: "_" argument | "^" argument | PRIME | BAR "_" argument
    atom: word | argument | "(" list ")" | "|" sum "|" | \left. sum \right|_ argument | accent | vector
    argument: name or number | "{" [list] "}" | \frac argument argument | \sqrt ["[" sum "]"] argument
    list: entry ("," entry)*
    entry: sum ["=" sum]

The grammar knows only structure: rows, sums, products as flat lists of factors, scripts and brackets. What a factor
does to those on its right (multiply, differentiate, integrate, call) needs to know what the names mean and is settled
in `semantics`. Tokens whose types start with an underscore leave no trace in the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from lark import Token, Tree
from lark.tree import Meta

from cnf.errors import LatexError
from cnf.operators.reader.tokens import tokenize

SIMPLE = frozenset({"NUMBER", "NAME", "BOLD", "DIGITS"})
WORDS = SIMPLE | {"FUNC", "INT", "PARTIAL", "NABLA", "DELTA", "DIVERGENCE", "CURL"}
ATOMS = WORDS | {"LBRACE", "LPAR", "LABS", "LEVAL", "FRAC", "SQRT", "ACCENT", "BEGIN"}
BETWEEN = frozenset({"DOT", "CROSS", "STAR", "SLASH"})
END = "$END"
TERM = r"expected a term here, such as u, 2 or \partial_x u"
MORE = "expected +, -, a factor or the end"
POINT = "expected the point behind the bar, as in |_{x=0}"

Node = Token | Tree


def parse(source: str, words: Collection[str] = (), coordinates: Collection[str] = ()) -> Tree:
    """The tree of `source`, or an error in plain words."""
    tokens = tokenize(source, words, coordinates)
    if not tokens:
        raise LatexError("the string is empty; expected an operator such as u or \\partial_x u", source, 0)
    try:
        return _Descent(source, tokens).start()
    except RecursionError:
        raise LatexError("this is nested too deeply to be worked out", source, 0) from None


class _Descent:
    """One pass over the tokens; `at` is the next one."""

    def __init__(self, source: str, tokens: list[Token]):
        self.source, self.tokens, self.at = source, tokens, 0

    # -- rules -------------------------------------------------------------------------------------------------------

    def start(self) -> Tree:
        begin, rows = self.position, [self.row()]
        while self.passes("_SEMI") and self.kind != END:
            rows.append(self.row())
        if self.kind != END:
            raise self.error(MORE)
        return self.tree("start", rows, begin)

    def row(self) -> Tree:
        begin, sides = self.position, [self.sum()]
        while self.passes("_EQUALS"):
            sides.append(self.sum())
        return self.tree("row", sides, begin)

    def sum(self) -> Tree:
        begin = self.position
        parts: list[Node] = [*self.signs(), self.product()]
        while self.kind == "PM":
            parts += [*self.signs(), self.product()]
        return self.tree("sum", parts, begin)

    def signs(self) -> list[Node]:
        found: list[Node] = []
        while self.kind == "PM":
            found.append(self.take())
        return found

    def product(self) -> Tree:
        begin, parts = self.position, [self.factor()]
        while self.kind in BETWEEN or self.kind in ATOMS:
            parts += [self.take(), self.factor()] if self.kind in BETWEEN else [self.factor()]
        return self.tree("product", parts, begin)

    def factor(self) -> Node:
        begin, parts = self.position, [self.atom()]
        while (script := self.script()) is not None:
            parts.append(script)
        return self.tree("factor", parts, begin)

    def script(self) -> Tree | None:
        begin, kind = self.position, self.kind
        if kind in ("UNDER", "CARET"):
            return self.tree("sub" if kind == "UNDER" else "sup", [self.take(), self.argument()], begin)
        if kind == "PRIME":
            return self.tree("prime", [self.take()], begin)
        if kind == "BAR":
            return self.tree("bar", [self.take(), self.take("UNDER", POINT), self.argument()], begin)
        return None

    def atom(self) -> Node:
        begin, kind = self.position, self.kind
        if kind in WORDS:
            return self.take()
        if kind == "LPAR":
            return self.tree("paren", self.bracketed(self.listed, "_RPAR"), begin)
        if kind == "LABS":
            return self.tree("magnitude", self.bracketed(self.sum, "_RABS"), begin)
        if kind == "LEVAL":
            inner = self.bracketed(self.sum, "_REVAL")
            return self.tree("restricted", [*inner, self.take("UNDER", POINT), self.argument()], begin)
        if kind == "ACCENT":
            return self.tree("accent", [self.take(), self.argument()], begin)
        return self.vector() if kind == "BEGIN" else self.argument()

    def vector(self) -> Tree:
        begin = self.position
        parts: list[Node] = [self.take(), self.sum()]
        while self.kind in ("_SEMI", "_AMP"):
            if self.take().type == "_SEMI" and self.kind == "_END":
                break
            parts.append(self.sum())
        self.take("_END")
        return self.tree("vector", parts, begin)

    def argument(self) -> Node:
        begin, kind = self.position, self.kind
        if kind in SIMPLE:
            return self.take()
        if kind == "LBRACE":
            empty = self.tokens[self.at + 1].type == "_RBRACE"
            inner = [self.take(), self.take()][:1] if empty else self.bracketed(self.listed, "_RBRACE")
            return self.tree("group", inner, begin)
        if kind == "FRAC":
            return self.tree("fraction", [self.take(), self.argument(), self.argument()], begin)
        if kind == "SQRT":
            sign = self.take()
            degree = self.bracketed(self.sum, "_RSQ")[1:] if self.kind == "_LSQ" else []
            return self.tree("root", [sign, *degree, self.argument()], begin)
        raise self.error(TERM)

    def listed(self) -> Tree:
        begin, entries = self.position, [self.entry()]
        while self.passes("_COMMA"):
            entries.append(self.entry())
        return self.tree("list", entries, begin)

    def entry(self) -> Tree:
        begin, sides = self.position, [self.sum()]
        if self.passes("_EQUALS"):
            sides.append(self.sum())
        return self.tree("entry", sides, begin)

    # -- steps -------------------------------------------------------------------------------------------------------

    @property
    def kind(self) -> str:
        return self.tokens[self.at].type if self.at < len(self.tokens) else END

    @property
    def position(self) -> int:
        return int(self.tokens[self.at].start_pos or 0) if self.at < len(self.tokens) else len(self.source.rstrip())

    def take(self, kind: str | None = None, expected: str = MORE) -> Token:
        """The next token, which must be of this kind."""
        if self.kind == END or (kind is not None and self.kind != kind):
            raise self.error(expected)
        self.at += 1
        return self.tokens[self.at - 1]

    def passes(self, kind: str) -> bool:
        """Whether the next token is of this kind; then it is behind us."""
        found = self.kind == kind
        self.at += found
        return found

    def bracketed(self, read: Callable[[], Tree], closing: str) -> list[Node]:
        """An opening bracket and what is inside, up to the closing one."""
        found: list[Node] = [self.take(), read()]
        self.take(closing)
        return found

    def tree(self, name: str, children: Sequence[Node], begin: int) -> Tree:
        meta = Meta()
        meta.empty, meta.start_pos = False, begin
        return Tree(name, list(children), meta)

    def error(self, expected: str) -> LatexError:
        if self.kind == END:
            return LatexError(f"the string ends too early; {expected}", self.source, self.position)
        token = self.tokens[self.at]
        if self.kind in ("UNDER", "CARET", "PRIME", "BAR") and expected == TERM:
            return LatexError(f"there is nothing before this {token.value} to attach it to", self.source, self.position)
        if self.kind == "_EQUALS" and expected != TERM:
            expected = "an equation cannot stand here"
        if self.kind == "_AMP":
            expected = "& separates entries only inside pmatrix"
        return LatexError(f"did not expect {token.value!r} here; {expected}", self.source, self.position)
