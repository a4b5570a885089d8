"""Entries: checks of the plain values that a problem is written in; every complaint names the entry."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from cnf.errors import ProblemError, nearest

Where = tuple[str | int, ...]


def check_table(value: object, known: Iterable[str], where: Where) -> dict:
    """A table whose keys are all known; an unknown one names the nearest."""
    table = check_any_table(value, where)
    valid = tuple(known)
    for key in table:
        if key not in valid:
            raise ProblemError(
                f"there is no entry {key!r} here; known are {', '.join(valid)}.{nearest(str(key), valid)}",
                (*where, str(key)),
            )
    return table


def check_any_table(value: object, where: Where) -> dict:
    """A table with any keys."""
    if not isinstance(value, Mapping):
        raise ProblemError(f"expected a table of entries, got {shown(value)}", where)
    return {str(key): entry for key, entry in value.items()}


def any_table(given: object, key: str) -> dict:
    """A table with keys of any name; nothing is an empty one."""
    if given is not None and not isinstance(given, Mapping):
        raise ProblemError(f"expected a table of entries, got {shown(given)}", (key,))
    return dict(given or {})


def check_text(value: object, where: Where) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ProblemError(f"expected a text that is not empty, got {shown(value)}", where)
    if any(ord(letter) < 32 and letter not in "\n\t" for letter in value):
        raise ProblemError(f"control characters are not allowed in a text, got {shown(value)}", where)
    return value


def check_choice(value: object, choices: Sequence[str], where: Where) -> str:
    if value not in choices:
        raise ProblemError(
            f"expected one of {', '.join(choices)}; got {shown(value)}.{nearest(str(value), choices)}", where
        )
    return str(value)


def check_count(value: object, where: Where, most: int = 1_000_000, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ProblemError(f"expected a whole number from {least} to {most}, got {shown(value)}", where)
    return value


def check_number(value: object, where: Where, positive: bool = True) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ProblemError(f"expected a number, got {shown(value)}", where)
    if positive and not value > 0:
        raise ProblemError(f"expected a number larger than 0, got {shown(value)}", where)
    return float(value)


def check_names(value: object, where: Where) -> tuple[str, ...]:
    """'x y' or ["x", "y"] -> ("x", "y")."""
    if isinstance(value, str):
        found = tuple(value.replace(",", " ").split())
    elif isinstance(value, Sequence) and all(isinstance(part, str) for part in value):
        found = tuple(value)
    else:
        raise ProblemError(f"expected names such as 'x y' or ['x', 'y'], got {shown(value)}", where)
    if not found:
        raise ProblemError("expected at least one name", where)
    return found


def listed(values: Mapping[str, float]) -> str:
    """Numbers by name, as they are told."""
    return ", ".join(f"{name} = {value:g}" for name, value in values.items())


def shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
