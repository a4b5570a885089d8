"""LaTeX source -> tokens: the first stage of reading, one linear scan.

Spacing, sizing (`\\left`, `\\big`) and fonts disappear here; names come out as the space knows them; brackets are
matched and their depth bounded, so later stages see only balanced text. A script without braces takes one
letter or digit, as in LaTeX; where that would surprise (`u_xx`, `x^10`) it is an error.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from lark import Token

from cnf.errors import LatexError, nearest
from cnf.operators.reader.vocabulary import FUNCTION_NAMES, GREEK

MAX_LENGTH = 10_000
MAX_DEPTH = 50

BOLD_FONT = r"\\(?:mathbf|boldsymbol|bm|pmb|vec|hat|overrightarrow)(?![A-Za-z])\s*"
FONTS = r"mathbf|boldsymbol|bm|pmb|vec|hat|overrightarrow|mathrm|mathit|mathsf|text|textrm|operatorname|rm"
WORD = r"\\?[A-Za-z][A-Za-z0-9]*(?:\\?_(?:\{[A-Za-z0-9]+\}|[A-Za-z0-9]+))*"
BRACED = rf"\{{\s*{WORD}\s*\}}"
PATTERNS = [
    ("space", r"(?:\s|~|\\[,;:!> ]|\\(?:quad|qquad|displaystyle|textstyle|limits|nolimits|thinspace)(?![A-Za-z]))+"),
    ("number", r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"),
    ("zero", rf"{BOLD_FONT}\{{\s*0\s*\}}"),
    ("bold", rf"{BOLD_FONT}(?:\{{\s*{BOLD_FONT}{BRACED}\s*\}}|{BRACED}|\\[A-Za-z]+|[A-Za-z])"),
    ("upright", rf"\\(?:mathrm|mathit|mathsf|text|textrm|operatorname\*?|rm)(?:\s*\{{\s*{WORD}\s*\}}|\s+[A-Za-z])"),
    ("environment", r"\\(?:begin|end)\s*\{\s*[A-Za-z]+\*?\s*\}"),
    ("digits", r"\\[dtc]?frac\s*[0-9]\s*[0-9]"),
    ("sized", r"\\(?:left|right|[bB]igg?[lr]?)(?![A-Za-z])\s*(?:\\[{}|]|\\[lr]?[vV]ert(?![A-Za-z])|[()\[\]|.])"),
    ("primes", r"'+|\^\s*\{\s*(?:\\prime\s*)+\}|\^\s*\\prime(?![A-Za-z])"),
    ("newline", r"\\\\"),
    ("brace", r"\\[{}]"),
    ("norm", r"\\\||\\[lr]?Vert(?![A-Za-z])"),
    ("command", r"\\[A-Za-z]+"),
    ("letter", r"[A-Za-z]"),
    ("sign", r"[()\[\]{}|_^+\-*/,;&=]"),
]
SCANNER = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in PATTERNS))

SIGNS = {
    "_": "UNDER",
    "^": "CARET",
    "+": "PM",
    "-": "PM",
    "*": "STAR",
    "/": "SLASH",
    ",": "_COMMA",
    ";": "_SEMI",
    "&": "_AMP",
    "=": "_EQUALS",
}
COMMANDS = {
    "frac": "FRAC",
    "dfrac": "FRAC",
    "tfrac": "FRAC",
    "cfrac": "FRAC",
    "sqrt": "SQRT",
    "int": "INT",
    "partial": "PARTIAL",
    "nabla": "NABLA",
    "Delta": "DELTA",
    "dot": "ACCENT",
    "ddot": "ACCENT",
    "dddot": "ACCENT",
    "cdot": "DOT",
    "times": "CROSS",
    "ast": "STAR",
}
VECTOR_CALCULUS = {"grad": "NABLA", "div": "DIVERGENCE", "curl": "CURL", "rot": "CURL", "laplacian": "DELTA"}
CLOSES = {"(": ")", "[": "]", r"\{": r"\}", "{": "}", "|": "|", r"\|": r"\|", r"\left.": r"\right|", r"\begin": r"\end"}
ADVICE = {
    "iint": r"write one \int for each variable",
    "iiint": r"write one \int for each variable",
    "oint": r"write it as \int with limits, such as \int_0^1 u \, ds",
    "Box": r"write \partial_t^2 u - c^2 \Delta u",
    "square": r"write \partial_t^2 u - c^2 \Delta u",
    "sum": "write the terms out",
    "lim": r"write the point in brackets, such as u(0, t)",
    "infty": "limits and points must be finite",
    "laplace": r"write \Delta u",
    "lap": r"write \Delta u",
    "∂": r"write \partial",
    "∇": r"write \nabla",
    "Δ": r"write \Delta",
    "∫": r"write \int",
    "·": r"write \cdot",
    "×": r"write \times",
    "−": "write a plain minus sign -",
    "π": r"write \pi",
    "$": "leave out the dollar signs",
    "'": "a prime stands after the field, as in u'",
}


def tokenize(source: str, words: Collection[str], coordinates: Collection[str]) -> list[Token]:
    """The tokens of `source`; `words` are the names longer than a letter that may be written without a font."""
    if len(source) > MAX_LENGTH:
        raise LatexError(f"the string has {len(source)} characters; at most {MAX_LENGTH} can be read")
    return _Tokenizer(source, sorted(words, key=len, reverse=True), frozenset(coordinates)).run()


class _Tokenizer:
    """One pass over one string; `open` are the brackets not yet closed."""

    def __init__(self, source: str, words: list[str], coordinates: frozenset[str]):
        self.source, self.words, self.coordinates = source, words, coordinates
        self.tokens: list[Token] = []
        self.open: list[tuple[str, int, str]] = []  # bracket, position, type of its closing token
        self.position = 0

    def run(self) -> list[Token]:
        while self.position < len(self.source):
            match = SCANNER.match(self.source, self.position)
            if match is None:
                character = self.source[self.position]
                raise self.error(f"the character {character!r} cannot be used here{self.advice(character)}")
            kind, text = str(match.lastgroup), match.group()
            if kind == "letter":
                text = self.word_at(text)
            if kind != "space":
                getattr(self, f"read_{kind}")(text)
            self.position += len(text)
        if self.open:
            bracket, position, _ = self.open[-1]
            raise LatexError(f"this {bracket} is never closed; expected {CLOSES[bracket]}", self.source, position)
        return self.tokens

    def word_at(self, letter: str) -> str:
        """The longest known name that starts here, or the letter; in a script only coordinates are looked for."""
        pool = [w for w in self.words if w in self.coordinates] if self.awaits_script() else self.words
        return next((w for w in pool if self.source.startswith(w, self.position)), letter)

    # -- what the patterns mean -------------------------------------------------------------------------------

    def read_number(self, text: str) -> None:
        if not self.awaits_script():
            return self.add("NUMBER", text)
        if len(text) > 1:
            sign = self.tokens[-1].value
            raise self.error(f"{sign}{text} takes only its first digit in LaTeX; write {sign}{{{text}}}")
        self.add("NUMBER", text)

    def read_zero(self, text: str) -> None:
        self.add("NUMBER", "0")

    def read_bold(self, text: str) -> None:
        self.add("BOLD", _last_word(text))

    def read_upright(self, text: str) -> None:
        name = _last_word(text)
        if name in self.words:
            self.add("NAME", name)
        elif name in VECTOR_CALCULUS:
            self.add(VECTOR_CALCULUS[name], name)
        else:
            self.add("FUNC" if name in FUNCTION_NAMES else "NAME", name)

    def read_environment(self, text: str) -> None:
        word, name = re.findall(r"[A-Za-z]+\*?", text)
        if name not in ("pmatrix", "bmatrix", "matrix", "array", "vmatrix", "Bmatrix"):
            raise self.error(f"the environment {name!r} cannot be read; use pmatrix for a vector and ; between rows")
        if word == "begin":
            self.open_bracket(r"\begin", "BEGIN", "_END")
        else:
            self.close_bracket(r"\end")

    def read_digits(self, text: str) -> None:
        self.add("DIGITS", re.sub(r"[^0-9]", "", text))

    def read_sized(self, text: str) -> None:
        parts = re.fullmatch(r"(\\[A-Za-z]+?)\s*(\\[{}|]|\\[lr]?[vV]ert|[()\[\]|.])", text)
        assert parts is not None  # the pattern "sized" is this one
        command, bracket = parts.groups()
        if bracket == ".":
            if command != r"\left":
                raise self.error(f"{command}. closes nothing; expected a bracket after {command}")
            return self.open_bracket(r"\left.", "LEVAL", "_REVAL")
        if bracket == r"\|" or bracket.endswith("Vert"):
            return self.read_norm(text)
        if bracket == "|" or bracket.endswith("vert"):
            return self.read_bar(command)
        self.read_bracket(bracket)

    def read_bar(self, command: str) -> None:
        top = self.open[-1][0] if self.open else ""
        if command == r"\right" and top == r"\left.":
            return self.close_bracket(r"\right|")
        if top == "|" and command != r"\left":
            return self.close_bracket("|")
        follows = re.compile(r"\\?(?:right|[bB]igg?[lr]?)?\s*(?:\||\\r?vert)\s*_").match(self.source, self.position)
        if follows and command != r"\left":
            return self.add("BAR", "|")
        if command == r"\right":
            raise self.error(r"\right| closes nothing; expected \left| or \left. before it")
        self.open_bracket("|", "LABS", "_RABS")

    def read_norm(self, text: str) -> None:
        """The length of a vector; of a number its absolute value, as between plain bars."""
        if self.open and self.open[-1][0] == r"\|" and not text.startswith(r"\left"):
            return self.close_bracket(r"\|")
        self.open_bracket(r"\|", "LABS", "_RABS")

    def read_primes(self, text: str) -> None:
        if not self.tokens:
            raise self.error("a prime must follow the field, as in u'")
        self.add("PRIME", str(text.count("'") + text.count("prime")))

    def read_newline(self, text: str) -> None:
        self.add("_SEMI", text)

    def read_brace(self, text: str) -> None:
        self.read_bracket(text)

    def read_bracket(self, bracket: str) -> None:
        if bracket in CLOSES:
            kind = ("LBRACE", "_RBRACE") if bracket == "{" else ("LPAR", "_RPAR")
            if bracket == "[" and self.tokens and self.tokens[-1].type == "SQRT":
                kind = ("_LSQ", "_RSQ")
            self.open_bracket(bracket, *kind)
        else:
            self.close_bracket(bracket)

    def read_command(self, text: str) -> None:
        name = text[1:]
        if name in ("lvert", "rvert", "vert"):
            self.read_bar("")
        elif name in COMMANDS:
            self.add(COMMANDS[name], text)
        elif name in FUNCTION_NAMES:
            self.add("FUNC", name)
        elif name in GREEK or name in ("pi", "ell", "top"):
            self.add("NAME", name)
        else:
            raise self.error(self.explained(name))

    def read_letter(self, word: str) -> None:
        following = self.source[self.position + 1 : self.position + 2]
        if self.awaits_script() and word in self.coordinates and len(word) == 1 and following in self.coordinates:
            hint = f"write {{{word}{following}...}} or put a space after it"
            raise self.error(f"in LaTeX only {word} is in the script; {hint}")
        self.add("NAME", word)

    def read_sign(self, text: str) -> None:
        if text == "|":
            self.read_bar("")
        elif text in SIGNS:
            if text in "+-" and self.awaits_script():
                sign = self.tokens[-1].value
                raise self.error(f"a signed script needs braces; write {sign}{{{text}...}}")
            self.add(SIGNS[text], text)
        else:
            self.read_bracket(text)

    # -- brackets, scripts, errors ----------------------------------------------------------------------------

    def open_bracket(self, bracket: str, kind: str, closing: str) -> None:
        self.open.append((bracket, self.position, closing))
        if len(self.open) > MAX_DEPTH:
            raise self.error(f"brackets are nested deeper than {MAX_DEPTH} levels")
        self.add(kind, bracket)

    def close_bracket(self, bracket: str) -> None:
        if not self.open:
            raise self.error(f"this {bracket} closes nothing")
        opened, position, closing = self.open.pop()
        if CLOSES[opened] != bracket:
            opener = f"the {opened} at character {position + 1}"
            raise self.error(f"found {bracket} where {CLOSES[opened]} was expected to close {opener}")
        self.add(closing, bracket)

    def awaits_script(self) -> bool:
        return bool(self.tokens) and self.tokens[-1].type in ("UNDER", "CARET")

    def add(self, kind: str, text: str) -> None:
        self.tokens.append(Token(kind, text, start_pos=self.position, line=1, column=self.position + 1))

    def explained(self, name: str) -> str:
        """Why a command cannot be read."""
        if name in ("left", "right") or name.lower().startswith("big"):
            return f"expected a bracket after \\{name}"
        if re.fullmatch(FONTS, name):
            return f"expected a name after \\{name}, as in \\{name}{{b}}"
        return f"the command \\{name} is not known{self.advice(name)}"

    def advice(self, name: str) -> str:
        if name in ADVICE:
            return f"; {ADVICE[name]}"
        if name in self.words:
            return rf"; write \mathrm{{{name}}}"
        return "." + nearest(name, [*COMMANDS, *FUNCTION_NAMES, *GREEK, "pi", "mathbf", "mathrm", "left", "right"])

    def error(self, message: str) -> LatexError:
        return LatexError(message, self.source, self.position)


def _last_word(text: str) -> str:
    """The name inside font commands: \\hat{\\mathbf{n}} -> n, \\mathrm{u\\_1} -> u_1."""
    inner = re.search(rf"({WORD})\s*\}}*\s*\}}*\Z", text)
    assert inner is not None
    return re.sub(r"[\\{}]", "", inner.group(1))
