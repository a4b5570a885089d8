"""Misspelt: names that mean nothing for sure, found in a problem file before anything large is imported.

What only the finished problem can tell (names that a file of a drawing or a mesh brings along, variables of integrals)
is left to it: nothing is refused here that it would take.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from lark import Token, Tree

from cnf.errors import LatexError, ProblemError, nearest
from cnf.operators.reader.vocabulary import similar_symbol, unknown_symbol
from cnf.pde.domains.part_names import PARTS, REST, known_parts, unknown_part

OWN_MEANING = frozenset({"d", "e", "pi", "n", "f"})  # differentials, constants, normals, the vector of all channels


def refuse_unknown_regions(parameters: object, regions: object) -> None:
    """A parameter with a value for each region names regions that are there."""
    names = list(regions) if isinstance(regions, Mapping) else []
    for name, value in parameters.items() if isinstance(parameters, Mapping) and names else ():
        for key in value if isinstance(value, Mapping) else ():
            if key not in (*names, REST):
                raise ProblemError(
                    f"the parameter {name!r} has a value for {key!r}, which is no region; they are "
                    f"{', '.join(map(str, names))}.{nearest(str(key), names)}",
                    ("parameters", str(name)),
                )


def refuse_unknown_part(
    on: str | None, domain: object, regions: object, coordinates: tuple[str, ...], where: tuple
) -> None:
    """A part that is nearly called "interior", "boundary" or like a region, and that no shape has as its name."""
    areas = [*map(str, regions), REST] if isinstance(regions, Mapping) else []
    known = [*PARTS, *areas]
    words = " ".join((on or "").split())
    if not words or words in known or any(sign in words for sign in "=,") or " " in words:
        return
    meant = nearest(words, known) and isinstance(domain, Mapping) and words not in set(_texts(domain))
    if meant and not _has_file(domain):
        shapes = dict.fromkeys(_names_of_shapes(domain))
        raise ProblemError(unknown_part(words, known_parts(areas, shapes, coordinates)), where)


def _names_of_shapes(domain: object) -> Iterator[str]:
    """Names of shapes, curves and edges, at any depth."""
    if isinstance(domain, Mapping):
        for key, value in domain.items():
            yield from _texts(value) if key in ("name", "names", "edges") else _names_of_shapes(value)
    for value in domain if isinstance(domain, list | tuple) else ():
        yield from _names_of_shapes(value)


def _texts(table: object) -> Iterator[str]:
    """Every text in a table, at any depth."""
    if isinstance(table, str):
        yield table
    for value in table.values() if isinstance(table, Mapping) else table if isinstance(table, list | tuple) else ():
        yield from _texts(value)


def unused_names(entries: Mapping) -> set[str]:
    """Parameters whose name no text of the file has, as a word of its own."""
    tables = [entries.get(key) for key in ("parameters", "unknowns")]
    given = {str(name) for table in tables if isinstance(table, Mapping) for name in table}
    words = {word for text in _texts(entries) for word in re.findall(r"[A-Za-z]+(?:_[A-Za-z0-9]+)?", text)}
    return given - words


def _has_file(table: object) -> bool:
    if isinstance(table, Mapping):
        return "file" in table or any(_has_file(value) for value in table.values())
    return isinstance(table, list | tuple) and any(_has_file(value) for value in table)


def refuse_unknown_symbols(
    tree: Tree,
    source: str,
    coordinates: tuple[str, ...],
    channels: tuple[str, ...],
    others: Collection[str],
    unused: Collection[str],
) -> None:
    """A plain name of an equation that is no coordinate, channel or parameter, nor the beginning of one.

    `unused`: parameters that nothing seems to use, one of which may be meant.
    """
    if any(token.type == "INT" for token in _tokens(tree)):
        return  # it has variables of its own
    known = {name.rstrip("_") for name in (*coordinates, *channels, *others)} | OWN_MEANING
    begun = known | {name.split("_")[0] for name in known}
    for token in _plain_names(tree):
        if str(token) not in begun:
            valid = [*coordinates, *channels, *others]
            advice = f"{similar_symbol(str(token), valid, unused)} Give it in [parameters]: {token} = ..."
            raise LatexError(unknown_symbol(str(token), coordinates, channels, advice), source, token.start_pos or 0)


def _tokens(tree: Tree) -> Iterator[Token]:
    for child in tree.children:
        if isinstance(child, Token):
            yield child
        else:
            yield from _tokens(child)


def _plain_names(tree: Tree) -> Iterator[Token]:
    """Names that stand for themselves: what hangs below or above another, or is accented, belongs to that."""
    for child in tree.children:
        if isinstance(child, Token):
            if child.type == "NAME" and tree.data == "factor":
                yield child
        elif child.data not in ("sub", "bar", "accent"):
            yield from _plain_names(child)
