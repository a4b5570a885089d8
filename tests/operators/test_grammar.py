"""The parser by descent beside one that lark builds from the same grammar: the same trees, the same errors."""

import random
import re

import pytest
from lark import Lark, Tree
from lark.exceptions import UnexpectedToken
from lark.lexer import Lexer

from cnf.errors import LatexError
from cnf.operators.reader.grammar import parse
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
WRITTEN = [
    r"u_{xx} + \frac{a}{b} u = \sin(x)",
    r"\int_0^1 u \, dx = 0 ;",
    r"\left. u \right|_{x=0} = 1",
    r"\begin{pmatrix} a \\ b & c \\ \end{pmatrix} \cdot \nabla u",
    r"\sqrt[3]{x} \sqrt2 u'' + {} \dot u^2",
    r"u|_{x=0} - u(0, t) = |x| + (t = 1)",
    r"-+\nabla\times\mathbf{u} * 2 / v; \Delta u = 0",
]
PIECES = [*"uvx2+-=;&(){}_^'|[],*/", r"\frac", r"\sqrt", r"\left.", r"\right|", "_{x=0}"]


class Given(Lexer):
    """Hands lark the tokens that were made beforehand."""

    def __init__(self, configuration):
        pass

    def lex(self, tokens):
        yield from tokens


@pytest.fixture(scope="module")
def oracle() -> Lark:
    return Lark(GRAMMAR, parser="lalr", lexer=Given, propagate_positions=True)


def altered(source: str, rng: random.Random) -> str:
    """The string with some pieces left out or put in."""
    pieces = re.findall(r"\\[a-zA-Z.]+|\\\\|\S", source)
    for _ in range(rng.randint(0, 3)):
        at = rng.randrange(len(pieces))
        pieces[at : at + 1] = [] if rng.random() < 0.5 and len(pieces) > 1 else [pieces[at], rng.choice(PIECES)]
    return " ".join(pieces)


def outlined(tree: Tree) -> list:
    return [tree, [(str(t.data), t.meta.start_pos) for t in tree.iter_subtrees()]]


def test_the_parser_reads_its_grammar(oracle: Lark):
    """600 strings, most of them wrong somewhere: the same tree and positions, or an error at the same place."""
    rng, read, refused = random.Random(0), 0, 0
    for k in range(600):
        source = altered(WRITTEN[k % len(WRITTEN)], rng)
        try:
            tokens = tokenize(source, (), ("x", "t"))
        except LatexError:
            continue
        try:
            wanted = outlined(oracle.parse(tokens))
        except UnexpectedToken as error:
            with pytest.raises(LatexError) as raised:
                parse(source, (), ("x", "t"))
            ends = error.token.type == "$END"
            assert raised.value.position == (len(source.rstrip()) if ends else error.token.start_pos)
            assert ("a term here" in str(raised.value)) <= ("NUMBER" in error.expected)
            refused += 1
        else:
            assert outlined(parse(source, (), ("x", "t"))) == wanted
            read += 1
    assert read > 100 and refused > 100


def test_deep_nesting_is_refused():
    with pytest.raises(LatexError, match="nested too deeply"):
        parse(r"\sqrt" * 1900 + "2")
