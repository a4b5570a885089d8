"""Source: the text of a problem file -> plain values, and back from an entry to its line."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from cnf.errors import ProblemError
from cnf.files import read_text

LARGEST = 2**20  # bytes; a problem is written by hand
QUOTED = re.compile(r"'''.*?'''|\"\"\".*?\"\"\"|'[^'\n]*'|\"(?:\\.|[^\"\\\n])*\"|#[^\n]*", re.DOTALL)
ADVICE = {  # by words of the parser's message; the last is for all others
    ("escape", "\\", "Illegal character"): "write LaTeX between single quotes, equation = '\\Delta u = 0'",
    ("overwrite", "twice"): "this is given twice, so remove or rename one",
    ("Invalid value",): "write text and LaTeX between quotes, k = '1 + x^2'; numbers and true or false without",
    ("",): "a line is name = value or [name]; look for a quote or bracket that is missing here or before",
}

Where = tuple[str | int, ...]


def read_source(path: Path) -> tuple[str, dict]:
    """The text of the file and its entries."""
    text = read_text(path, LARGEST)
    return text, parse_source(path, text)


def parse_source(path: Path, text: str) -> dict:
    """The entries in the text of a file."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ProblemError(f"{path}, {_explained(str(error), text)}") from None
    except ValueError as error:  # a number of thousands of digits
        raise ProblemError(f"{path}: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise ProblemError(f"{path}: the entries are nested too deeply") from None


def _explained(message: str, text: str) -> str:
    """What is wrong with the notation: the line, the parser's message and what to do."""
    what, _, place = message.removesuffix(")").rpartition(" (at ")
    found = re.match(r"line (\d+), (column \d+)", place)
    line, column = (found[1], f" ({found[2]})") if found else (str(len(text.rstrip().splitlines())), "")
    advice = next(advice for words, advice in ADVICE.items() if any(word in what for word in words))
    return f"line {line}: {what[:1].lower()}{what[1:]}{column}; {advice}"


def find_line(text: str, where: Where) -> int | None:
    """The line, counted from one, on which an entry is written; the nearest entry around it if it is not found."""
    if not where:
        return None
    bare = QUOTED.sub(_blank, text)
    start, end, found = 0, len(bare), None
    for depth, key in enumerate(where):
        if isinstance(key, int):
            start, end = _table_of_array(bare, start, end, key)
            found = start if start else found
            continue
        name = re.escape(key)
        headers = [m.start(1) for m in re.finditer(rf"^[ \t]*(\[\[?\s*{name}\s*\]\]?)", bare, re.MULTILINE)]
        index = where[depth + 1] if depth + 1 < len(where) else 0
        if depth == 0 and headers:
            start = headers[min(index, len(headers) - 1) if isinstance(index, int) else 0]
            following = re.compile(r"^[ \t]*\[", re.MULTILINE).search(bare, bare.find("]", start))
            end, found = following.start() if following else len(bare), start
            continue
        match = re.compile(rf"(?:^|[\s,{{.])({name})\s*[=.]", re.MULTILINE).search(bare, start, end)
        if match is None:
            break
        start = found = match.start(1)
    return None if found is None else text.count("\n", 0, found) + 1


def _blank(match: re.Match[str]) -> str:
    """What is quoted names no entry, unless it is itself a key."""
    quoted = match.group()
    if re.match(r"\s*[=.]", match.string[match.end() :][:20]) and re.fullmatch(r"(['\"])[\w ]+\1", quoted):
        return f" {quoted[1:-1]} "
    return re.sub(r"[^\n]", " ", quoted)


def _table_of_array(bare: str, start: int, end: int, index: int) -> tuple[int, int]:
    """The extent of an item of `key = [{...}, {...}]`; a header of its own was found already otherwise."""
    if bare.startswith("[", start):
        return start, end
    level, count = 0, -1
    opened = start
    for place in range(start, end):
        if bare[place] in "[{":
            level += 1
            if bare[place] == "{" and level == 2:
                count, opened = count + 1, place
        elif bare[place] in "]}":
            level -= 1
            if level == 1 and count == index:
                return opened, place
            if level == 0:
                break
    return start, end
