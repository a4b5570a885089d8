"""Axes: the values that a number of a problem goes through, from words such as "nu=0.1:1:20"."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cnf.errors import CnfError

MOST = 10_000  # cases
DIGITS = 12  # of values in a range: 0.3, not 0.30000000000000004
NOTATION = "write nu=0.1:1:20 (from, to, how many), nu=1e-3:1:10:log, or nu=0.1,0.2,0.5"
Number = int | float


@dataclass(frozen=True)
class Axis:
    """The name or dotted key of a number, and its values in their order."""

    key: str
    values: tuple[Number, ...]


def read_axes(given: Mapping[str, object] | Sequence[str]) -> tuple[Axis, ...]:
    """From ["nu=0.1:1:20", ...], or {"nu": "0.1:1:20"} or {"nu": [0.1, 0.2]}."""
    if isinstance(given, Mapping):
        axes = tuple(_axis(str(key), values) for key, values in given.items())
    else:
        axes = tuple(_split(text) for text in given)
    if not axes:
        raise CnfError(f"a sweep needs a number to go through values; {NOTATION}")
    keys = [axis.key for axis in axes]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise CnfError(f"{twice} is swept twice; give all its values in one list")
    count = math.prod(len(axis.values) for axis in axes)
    if count > MOST:
        raise CnfError(f"{count} cases are asked for; a sweep has at most {MOST}")
    return axes


def combine(axes: Sequence[Axis]) -> list[dict[str, Number]]:
    """Every combination of values, the last axis quickest."""
    keys = [axis.key for axis in axes]
    return [dict(zip(keys, values, strict=True)) for values in itertools.product(*(axis.values for axis in axes))]


def _split(text: str) -> Axis:
    key, equals, values = text.partition("=")
    if not equals or not key.strip():
        raise CnfError(f"{text!r} does not say what is swept; {NOTATION}")
    return _axis(key.strip(), values)


def _axis(key: str, given: object) -> Axis:
    if isinstance(given, str):
        values = _range(key, given) if ":" in given else tuple(_number(key, part) for part in given.split(","))
    elif isinstance(given, Sequence):
        values = tuple(_checked(key, value) for value in given)
    else:
        raise CnfError(f"the values of {key} are a text or a list of numbers; got {given!r}. {NOTATION}")
    if not values:
        raise CnfError(f"{key} has no values; {NOTATION}")
    if len(set(values)) < len(values):
        twice = next(value for value in values if values.count(value) > 1)
        raise CnfError(f"{key} is {twice:.12g} twice; give each value once")
    return Axis(key, values)


def _range(key: str, text: str) -> tuple[Number, ...]:
    """from:to:count, evenly spaced, or with :log by even factors."""
    parts = [part.strip() for part in text.split(":")]
    spacing = parts.pop() if len(parts) == 4 else "linear"
    if len(parts) != 3 or spacing not in ("linear", "log"):
        raise CnfError(f"{key}={text} is no range; {NOTATION}")
    low, high, count = _number(key, parts[0]), _number(key, parts[1]), _number(key, parts[2])
    if not isinstance(count, int) or not 2 <= count <= MOST:
        raise CnfError(f"a range has from 2 to {MOST} values; got {parts[2]!r} in {key}={text}")
    if spacing == "log" and not low * high > 0:
        raise CnfError(f"even factors need two numbers of one sign, neither of them 0; got {key}={text}")
    steps = [k / (count - 1) for k in range(count)]
    if spacing == "log":
        found = [low * (high / low) ** step for step in steps]
    else:
        found = [low + (high - low) * step for step in steps]
    ends = {0: low, count - 1: high}  # as they were written
    rounded = [float(ends.get(k, f"{value:.{DIGITS}g}")) for k, value in enumerate(found)]
    whole = isinstance(low, int) and isinstance(high, int) and all(value.is_integer() for value in rounded)
    return tuple(int(value) if whole else value for value in rounded)


def _number(key: str, text: str) -> Number:
    word = text.strip()
    if re.fullmatch(r"[+-]?\d{1,15}", word):
        return int(word)
    try:
        return _checked(key, float(word))
    except ValueError:
        raise CnfError(f"{word!r} is no number, in the values of {key}; {NOTATION}") from None


def _checked(key: str, value: object) -> Number:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise CnfError(f"the values of {key} are finite numbers; got {value!r}")
    return int(value) if isinstance(value, int) else float(value)  # not of NumPy
