"""First look: a problem file as far as it can be judged without its mathematics, before anything large is imported.

In: a file. Out: its text and its entries, all of whose keys are known and whose LaTeX is well formed. Mistakes in
writing are answered at once; what names mean, and whether numbers make sense, is found by `Problem` itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cnf.errors import CnfError, LatexError, ProblemError
from cnf.operators.reader.grammar import parse
from cnf.pde.domains.tables import check_shapes
from cnf.pde.problems import options
from cnf.pde.problems.entries import check_names, check_table
from cnf.pde.problems.equation import Equation, read_equations
from cnf.pde.problems.misspelt import (
    refuse_unknown_part,
    refuse_unknown_regions,
    refuse_unknown_symbols,
    unused_names,
)
from cnf.pde.problems.source import find_line, read_source

KEYS = (
    *("title", "description", "coordinates", "channels", "vectors", "seed", "parameters", "unknowns"),
    *("domain", "regions", "equations", "points", "basis", "tuning", "solve", "exact"),
)


def look_over(source: Path, changes: Mapping[str, object]) -> tuple[str, dict]:
    """The text of a file and its entries, some of them changed; a table among the changes changes what it has."""
    text, entries = read_source(source)
    return text, look_at(source, text, entries, changes)


def look_at(source: Path, text: str, entries: dict, changes: Mapping[str, object]) -> dict:
    """The same for a text that was read before."""
    with naming_lines(source, text):
        check_table(entries, KEYS, ())
        for key in ("coordinates", "domain", "equations"):
            if key not in entries:
                raise ProblemError(f"the entry {key!r} is missing")
        for key, value in check_table(changes, KEYS, ()).items():
            both = isinstance(value, Mapping) and isinstance(entries.get(key), Mapping)
            entries[key] = {**entries[key], **value} if both else value
        coordinates = check_names(entries["coordinates"], ("coordinates",))
        _look_at_domain(entries["domain"], ("domain",))
        regions = entries.get("regions")
        for name, shape in regions.items() if isinstance(regions, Mapping) else ():
            _look_at_domain(shape, ("regions", str(name)))
        options.read_points(entries.get("points"))
        options.read_basis(entries.get("basis"), len(coordinates))
        options.read_tuning(entries.get("tuning"))
        options.read_solve(entries.get("solve"))
        refuse_unknown_regions(entries.get("parameters"), regions)
        for k, equation in enumerate(read_equations(entries["equations"])):
            refuse_unknown_part(equation.on, entries["domain"], regions, coordinates, ("equations", k, "on"))
            _look_at_latex(equation, entries, coordinates, ("equations", k, "equation"))
    return entries


@contextmanager
def naming_lines(source: Path, text: str) -> Iterator[None]:
    """Complaints about entries name the file and the line."""
    try:
        yield
    except ProblemError as error:
        raise named(error, source, text) from None
    except CnfError as error:
        raise ProblemError(f"{source}: {error}") from None


def named(error: ProblemError, source: Path, text: str) -> ProblemError:
    """The same complaint with the file and the line."""
    line = find_line(text, error.where)
    place = f"{source}, line {line}" if line is not None else f"{source}"
    return type(error)(f"{place}: {error.message if line is not None else error}")


def _look_at_domain(given: object, where: tuple[str, ...]) -> None:
    if not isinstance(given, Mapping):
        return  # said by the problem, which knows what else it takes
    try:
        check_shapes(given)
    except CnfError as error:
        raise ProblemError(str(error), where) from None


def _look_at_latex(equation: Equation, entries: Mapping, coordinates: tuple[str, ...], where: tuple) -> None:
    """Commands, brackets and order of symbols; equations whose names are in a file, or with jumps, have to wait."""
    if equation.file is not None or "[" in equation.latex:
        return
    tables = [entries.get(key) for key in ("parameters", "unknowns", "vectors")]
    names = {str(name) for table in tables if isinstance(table, Mapping) for name in table}
    channels = check_names(entries.get("channels", "u"), ("channels",))
    words = {n for n in (*names, *coordinates, *channels) if len(n) > 1 and "_" not in n}
    try:
        tree = parse(equation.latex, words, coordinates)
        refuse_unknown_symbols(tree, equation.latex, coordinates, channels, names, unused_names(entries))
    except LatexError as error:
        raise ProblemError(str(error), where) from None
