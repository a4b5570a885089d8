"""Tables: what the plain table of a domain may say, checked before any shape is built or anything large is imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cnf.errors import DomainError, nearest

LAYOUT_NAMES = ("grid", "jittered", "halton", "poisson", "random")  # what they do: `LAYOUTS` in layouts.py
MOST_ENTRIES = 1000  # vertices of a polygon, coordinates of a point, shapes altogether
DEEPEST = 8  # shapes within shapes

# What a table of each type must have; `name` may be in any, `time` in the outermost.
KEYS: dict[str, tuple[str, ...]] = {
    "interval": ("from", "to"),
    "box": ("lower", "upper"),
    "disk": ("center", "radius"),
    "ball": ("center", "radius"),
    "polygon": ("vertices",),
    "level-set": ("expression", "lower", "upper"),
    "outline": (),
    "mesh": (),
    "union": ("of",),
    "difference": ("of", "minus"),
    "intersection": ("of",),
}

OPTIONAL: dict[str, tuple[str, ...]] = {
    "polygon": ("edges",),
    "level-set": ("coordinates",),
    "outline": ("file", "paths", "names", "edges", "smooth", "scale", "only"),
    "mesh": ("file", "vertices", "faces", "labels", "scale", "smooth", "only"),
}


def check_shapes(table: object, place: str = "domain", depth: int = 1) -> None:
    """Every table of a shape and of the shapes within it: keys and types, no numbers."""
    refuse_too_many(table)
    _, entries = check_shape(table, place, depth)
    for key in ("of", "minus"):
        value = entries.get(key)
        for k, inner in enumerate(_entries(value)):
            alone = isinstance(value, Mapping) and entries["type"] == "difference" and key == "of"
            check_shapes(inner, f"{place}.{key}" if alone else f"{place}.{key}[{k}]", depth + 1)


def refuse_too_many(table: object) -> None:
    """More shapes than anyone means are refused before any is built: combinations take time."""
    if _count(table) > MOST_ENTRIES:
        raise DomainError(f"domain: more than {MOST_ENTRIES} shapes")


def check_shape(table: object, place: str, depth: int) -> tuple[str, Mapping[str, object]]:
    """The type and the entries of a table in which all keys are known and none is missing."""
    if not isinstance(table, Mapping):
        raise DomainError(f"{place} must be a table such as {{ type = 'box', ... }}, got {table!r}")
    if depth > DEEPEST:
        raise DomainError(f"{place}: shapes are nested more than {DEEPEST} deep")
    if "type" not in table:
        raise DomainError(f"{place}.type is missing; expected one of {', '.join(KEYS)}")
    kind = table["type"]
    if not isinstance(kind, str) or kind not in KEYS:
        raise DomainError(f"{place}.type is {kind!r}; expected one of {', '.join(KEYS)}.{nearest(str(kind), KEYS)}")
    required = KEYS[kind]
    known = ("type", *required, *OPTIONAL.get(kind, ()), "name", *(("time",) if depth == 1 else ()))
    for key in table:
        if key == "time" and depth > 1:
            raise DomainError(f"{place}.time: time belongs to the whole domain; put it next to domain.type")
        if key not in known:
            raise DomainError(f"{place}.{key} is unknown; {_a(kind)} has {', '.join(known)}.{nearest(str(key), known)}")
    for key in required:
        if key not in table:
            raise DomainError(f"{place}.{key} is missing; {_a(kind)} needs {' and '.join(required)}")
    return kind, table


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] == "i" else f"a {kind}"


def _count(table: object, depth: int = 1) -> int:
    """How many shapes a table describes; counted before any is built, for combinations take time."""
    if not isinstance(table, Mapping) or depth > DEEPEST:
        return 1
    below = [entry for key in ("of", "minus") for entry in _entries(table.get(key))]
    return 1 + sum(_count(entry, depth + 1) for entry in below[: MOST_ENTRIES + 1])


def _entries(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else [value] if isinstance(value, Mapping) else []
