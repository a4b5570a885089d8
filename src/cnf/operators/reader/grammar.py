"""Tokens -> tree: the second stage of reading, an LALR grammar for `lark`.

The grammar knows only structure: rows, sums, products as flat lists of factors, scripts and brackets. What a factor
does to those on its right (multiply, differentiate, integrate, call) needs to know what the names mean and is settled
in `semantics`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache

from lark import Lark, Token, Tree
from lark.exceptions import LarkError, UnexpectedToken
from lark.lexer import Lexer

from cnf.errors import LatexError
from cnf.operators.reader.tokens import tokenize

GRAMMAR = r"""
start: row (_SEMI row)* _SEMI?
row: sum (_EQUALS sum)*
sum: PM* product (PM+ product)*
product: factor ((DOT | CROSS | STAR | SLASH)? factor)*
factor: atom script*

script: UNDER argument         -> sub
      | CARET argument         -> sup
      | PRIME                  -> prime
      | BAR UNDER argument     -> bar

?atom: NUMBER | NAME | BOLD | FUNC | INT | PARTIAL | NABLA | DELTA | DIVERGENCE | CURL | DIGITS
     | group
     | LPAR list _RPAR                                  -> paren
     | LABS sum _RABS                                   -> magnitude
     | LEVAL sum _REVAL UNDER argument                  -> restricted
     | fraction
     | root
     | ACCENT argument                                  -> accent
     | BEGIN sum ((_SEMI | _AMP) sum)* _SEMI? _END      -> vector

?argument: NUMBER | NAME | BOLD | DIGITS | group | fraction | root
group: LBRACE list? _RBRACE
fraction: FRAC argument argument
root: SQRT (_LSQ sum _RSQ)? argument
list: entry (_COMMA entry)*
entry: sum (_EQUALS sum)?

%declare NUMBER NAME BOLD FUNC INT PARTIAL NABLA DELTA DIVERGENCE CURL DIGITS FRAC SQRT ACCENT PM DOT CROSS STAR SLASH
%declare UNDER CARET PRIME BAR LPAR _RPAR LABS _RABS LEVAL _REVAL LBRACE _RBRACE _LSQ _RSQ BEGIN _END
%declare _SEMI _AMP _EQUALS _COMMA
"""


class _Given(Lexer):
    """Hands lark the tokens that were made beforehand."""

    def __init__(self, configuration: object):
        pass

    def lex(self, tokens: list[Token]) -> Iterator[Token]:  # type: ignore[override]
        yield from tokens


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", lexer=_Given, propagate_positions=True)


def parse(source: str, words: Collection[str] = (), coordinates: Collection[str] = ()) -> Tree:
    """The tree of `source`, or an error in plain words."""
    tokens = tokenize(source, words, coordinates)
    if not tokens:
        raise LatexError("the string is empty; expected an operator such as u or \\partial_x u", source, 0)
    try:
        return _parser().parse(tokens)
    except UnexpectedToken as error:
        raise _explained(error, source) from None
    except LarkError:
        raise LatexError("this cannot be read", source, 0) from None


def _explained(error: UnexpectedToken, source: str) -> LatexError:
    token = error.token
    wants_term = "NUMBER" in error.expected
    expected = "expected +, -, a factor or the end"
    if wants_term:
        expected = r"expected a term here, such as u, 2 or \partial_x u"
    elif error.expected == {"UNDER"}:
        expected = "expected the point behind the bar, as in |_{x=0}"
    if token.type == "$END":
        return LatexError(f"the string ends too early; {expected}", source, len(source.rstrip()))
    if token.type in ("UNDER", "CARET", "PRIME", "BAR") and wants_term:
        return LatexError(f"there is nothing before this {token.value} to attach it to", source, token.start_pos)
    if token.type == "_EQUALS":
        expected = "an equation cannot stand here" if not wants_term else expected
    if token.type == "_AMP":
        expected = "& separates entries only inside pmatrix"
    return LatexError(f"did not expect {token.value!r} here; {expected}", source, token.start_pos)
