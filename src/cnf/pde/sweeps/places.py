"""Places: where in a problem file a number is that a sweep changes, and the changes that give it another value."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from cnf.errors import CnfError, nearest
from cnf.pde.problems.entries import shown
from cnf.pde.problems.first_look import KEYS
from cnf.pde.sweeps.axes import Number

# Numbers that a file may leave out: their table gets them.
LEFT_OUT: dict[str, tuple[str, ...]] = {
    "points": ("count", "boundary"),
    "basis": ("size", "bandwidth"),
    "tuning": ("steps",),
    "solve": ("tolerance", "target"),
}
Place = tuple[str | int, ...]


def find_place(entries: Mapping[str, Any], key: str) -> Place:
    """Where a number is, by the name of a parameter or unknown, or by its dotted key: "nu", "points.count".

    Entries of lists have their number, from 0: "domain.upper.0".
    """
    words = key.split(".")
    tables = [name for name in ("parameters", "unknowns") if words[0] in _table(entries, name)]
    place: Place = (tables[0], *words) if tables else tuple(words)
    if place[0] not in KEYS:
        known = [*_table(entries, "parameters"), *_table(entries, "unknowns")]
        raise CnfError(
            f"the problem has no number called {key!r}; a sweep changes its parameters"
            f"{' (' + ', '.join(known) + ')' if known else ', of which it has none'} or any number by its dotted key, "
            f"such as points.count.{nearest(words[0], [*known, *KEYS])}"
        )
    return _followed(entries, place, key)


def _table(entries: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = entries.get(name)
    return found if isinstance(found, Mapping) else {}


def _followed(entries: Mapping[str, Any], place: Place, key: str) -> Place:
    """The place with numbers for entries of lists, if there is a number at its end."""
    top, last = str(place[0]), place[-1]
    if len(place) <= 2 and last in ("seed", *LEFT_OUT.get(top, ())):
        given = entries.get(top)
        if not isinstance(given, Mapping) or last not in given:  # left out, or in its short form
            return place
    found: Any = entries
    followed: list[str | int] = []
    for word in place:
        if isinstance(found, Mapping) and word in found:
            followed.append(word)
        elif isinstance(found, list) and str(word).isdigit() and int(word) < len(found):
            followed.append(int(word))
        else:
            raise CnfError(f"there is no {key!r} in the problem: {_missing(found, word, followed)}")
        found = found[followed[-1]]
    named = followed[0] in ("parameters", "unknowns") and isinstance(found, str)  # LaTeX in place of a number
    if not named and (isinstance(found, bool) or not isinstance(found, int | float)):
        raise CnfError(f"{key} is no number but {shown(found)}; a sweep changes one number")
    return tuple(followed)


def _missing(found: Any, word: str | int, followed: Sequence[str | int]) -> str:
    where = ".".join(map(str, followed)) or "it"
    if isinstance(found, Mapping):
        return f"{where} has {', '.join(map(str, found)) or 'nothing'}.{nearest(str(word), map(str, found))}"
    if isinstance(found, list):
        return f"{where} is a list of {len(found)}, numbered from 0"
    return f"{where} is {shown(found)}"


def make_changes(entries: Mapping[str, Any], values: Mapping[Place, Number]) -> dict[str, Any]:
    """What `Problem.read` takes: the entries at the top of the file below which a number is changed."""
    tops: dict[str, Any] = {str(place[0]): copy.deepcopy(entries.get(str(place[0]))) for place in values}
    for place, value in values.items():
        top = str(place[0])
        if len(place) == 1:
            tops[top] = value
            continue
        tops[top] = _as_table(top, tops[top])
        inner = tops[top]
        for word in place[1:-1]:
            inner = inner[word]
        before = inner.get(place[-1]) if isinstance(inner, Mapping) else inner[place[-1]]
        inner[place[-1]] = _alike(value, before)
    return tops


def _alike(value: Number, before: object) -> Number:
    """Counts are whole, however they were written in a range; what had a point, or was LaTeX, need not be."""
    if isinstance(before, float | str):
        return float(value)
    return int(value) if float(value).is_integer() else value


def _as_table(top: str, given: Any) -> Any:
    """A table where a file has the short form: points = 500, basis = 'rbf', tuning = 'none'."""
    short = {"points": "count", "basis": "type", "tuning": "objective"}
    if given is None:
        return {}
    return given if isinstance(given, Mapping | list) or top not in short else {short[top]: given}
