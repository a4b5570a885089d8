"""Description: a domain from the plain table of a problem file, back to such a table, and as a line of English."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import sympy as sp

from cnf.errors import DomainError, nearest
from cnf.pde.domains.ball import Ball, Disk
from cnf.pde.domains.box import Box, Interval
from cnf.pde.domains.combinations import Difference, Intersection, Union
from cnf.pde.domains.domain import Domain, as_number
from cnf.pde.domains.level_set import LevelSet
from cnf.pde.domains.polygon import Polygon
from cnf.pde.domains.timed import Timed

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
    "union": ("of",),
    "difference": ("of", "minus"),
    "intersection": ("of",),
}

OPTIONAL: dict[str, tuple[str, ...]] = {"polygon": ("edges",), "level-set": ("coordinates",)}


Number = Callable[[object], float]
Expression = Callable[[str], sp.Expr]


def domain_from(
    description: Mapping[str, object],
    number: Number | None = None,
    *,
    expression: Expression | None = None,
    coordinates: Sequence[str] = (),
    folder: Path | None = None,
) -> Domain:
    """The domain that a table such as `{"type": "box", "lower": [0, 0], "upper": [1, 1], "time": [0, 1]}` describes.

    `number` turns every numeric entry into a float; left out, entries must be numbers. `expression` reads LaTeX in the
    `coordinates`. Their own `CnfError`s pass through, so that a text such as 'pi' can be refused where it is read.
    Files are looked for in `folder`.
    """
    if _count(description) > MOST_ENTRIES:
        raise DomainError(f"domain: more than {MOST_ENTRIES} shapes")
    return _Reader(number, expression, tuple(coordinates), folder or Path()).read(description, "domain", 1)


def describe(domain: Domain) -> dict[str, object]:
    """The table that `domain_from` turns into an equal domain."""
    if isinstance(domain, Timed):
        return {**describe(domain.space), "time": [domain.start, domain.end]}
    entries: dict[str, object]
    match domain:
        case Interval():
            entries = {"type": "interval", "from": domain.lower[0], "to": domain.upper[0]}
        case Box():
            entries = {"type": "box", "lower": list(domain.lower), "upper": list(domain.upper)}
        case Ball():
            kind = "disk" if isinstance(domain, Disk) else "ball"
            entries = {"type": kind, "center": list(domain.center), "radius": domain.radius}
        case Polygon():
            entries = {"type": "polygon", "vertices": [list(vertex) for vertex in domain.vertices]}
            if domain.edges is not None:
                entries["edges"] = list(domain.edges)
        case LevelSet():
            expression = domain.level.latex
            if expression is None:
                raise DomainError("a level set by a Python function cannot be described; give it in LaTeX")
            entries = {"type": "level-set", "expression": expression, "coordinates": list(domain.level.names)}
            entries |= {"lower": list(domain.low), "upper": list(domain.high)}
        case Union() | Intersection():
            entries = {"type": type(domain).__name__.lower(), "of": [describe(shape) for shape in domain.shapes]}
        case Difference():
            holes = [describe(hole) for hole in domain.holes]
            entries = {"type": "difference", "of": describe(domain.outer), "minus": holes}
        case _:
            raise DomainError(f"a {type(domain).__name__} cannot be described; expected one of cnf.domains")
    return entries if domain.name is None else {**entries, "name": domain.name}


def to_text(domain: Domain) -> str:
    """One line, such as "box [0, 1] x [0, 1] minus disk 'hole1' at (0.3, 0.3) of radius 0.1, t in [0, 1]"."""
    if isinstance(domain, Timed):
        return f"{to_text(domain.space)}, t in [{domain.start:g}, {domain.end:g}]"
    name = f" {domain.name!r}" if domain.name is not None else ""
    match domain:
        case Box():
            sides = " x ".join(f"[{a:g}, {b:g}]" for a, b in zip(domain.lower, domain.upper, strict=True))
            return f"{'interval' if isinstance(domain, Interval) else 'box'}{name} {sides}"
        case Ball():
            kind = "disk" if isinstance(domain, Disk) else "ball"
            return f"{kind}{name} at {_point_text(domain.center)} of radius {domain.radius:g}"
        case Polygon():
            listed = ", ".join(map(_point_text, domain.vertices))
            return f"polygon{name} " + (
                f"through {listed}" if len(domain.vertices) <= 6 else f"of {len(domain.vertices)} vertices"
            )
        case LevelSet():
            shown = domain.level.latex or "the level function"
            return f"level set{name} of {shown if len(shown) <= 80 else 'an expression'}, negative inside"
        case Union() | Intersection():
            return f"{type(domain).__name__.lower()}{name} of {_list_text(domain.shapes)}"
        case Difference():
            text = f"{_inner_text(domain.outer)} minus {_list_text(domain.holes)}"
            return text if domain.name is None else f"difference{name}: {text}"
    raise DomainError(f"a {type(domain).__name__} cannot be described; expected one of cnf.domains")


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] == "i" else f"a {kind}"


def _point_text(point: Sequence[float]) -> str:
    return f"({', '.join(f'{x:g}' for x in point)})"


def _inner_text(domain: Domain) -> str:
    text = to_text(domain)
    return f"({text})" if isinstance(domain, Union | Intersection | Difference) else text


def _list_text(shapes: Sequence[Domain]) -> str:
    shown = [_inner_text(shape) for shape in shapes[:6]]
    if len(shapes) > 6:
        shown.append(f"{len(shapes) - 6} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _count(table: object, depth: int = 1) -> int:
    """How many shapes a table describes; counted before any is built, for combinations take time."""
    if not isinstance(table, Mapping) or depth > DEEPEST:
        return 1
    below = [entry for key in ("of", "minus") for entry in _entries(table.get(key))]
    return 1 + sum(_count(entry, depth + 1) for entry in below[: MOST_ENTRIES + 1])


def _entries(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else [value] if isinstance(value, Mapping) else []


@dataclass(frozen=True)
class _Reader:
    """Reads nested tables; every error names the place, such as `domain.minus[0].radius`."""

    number: Number | None
    expression: Expression | None
    coordinates: tuple[str, ...]
    folder: Path

    def read(self, table: object, place: str, depth: int) -> Domain:
        kind, entries = self._checked(table, place, depth)
        name = entries.get("name")
        if name is not None and not isinstance(name, str):
            raise DomainError(f"{place}.name must be a text, got {name!r}")
        try:
            shape = self._build(kind, entries, name, place, depth)
            if "time" not in entries:
                return shape
            ends = self._numbers(entries["time"], f"{place}.time")
            if len(ends) != 2:
                raise DomainError(f"{place}.time must be two numbers, start and end, got {len(ends)}")
            return Timed(shape, *ends)
        except DomainError as error:
            if str(error).startswith("domain"):
                raise  # names its place already
            raise DomainError(f"{place}: {error}") from None

    def _checked(self, table: object, place: str, depth: int) -> tuple[str, Mapping[str, object]]:
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
                raise DomainError(
                    f"{place}.{key} is unknown; {_a(kind)} has {', '.join(known)}.{nearest(str(key), known)}"
                )
        for key in required:
            if key not in table:
                raise DomainError(f"{place}.{key} is missing; {_a(kind)} needs {' and '.join(required)}")
        return kind, table

    def _build(self, kind: str, entries: Mapping[str, object], name: str | None, place: str, depth: int) -> Domain:
        match kind:
            case "interval":
                start, end = (self._number(entries[k], f"{place}.{k}") for k in ("from", "to"))
                return Interval(start, end, name=name)
            case "box":
                lower, upper = (self._numbers(entries[k], f"{place}.{k}", alone=True) for k in ("lower", "upper"))
                return Box(lower, upper, name=name)
            case "disk" | "ball":
                center = self._numbers(entries["center"], f"{place}.center")
                radius = self._number(entries["radius"], f"{place}.radius")
                return (Disk if kind == "disk" else Ball)(center, radius, name=name)
            case "polygon":
                rows = self._list(entries["vertices"], f"{place}.vertices")
                vertices = [self._numbers(r, f"{place}.vertices[{k}]") for k, r in enumerate(rows)]
                edges = self._list(entries["edges"], f"{place}.edges") if "edges" in entries else None
                for k, edge in enumerate(edges or ()):
                    if not isinstance(edge, str):
                        raise DomainError(f"{place}.edges[{k}] must be a text, got {edge!r}")
                return Polygon(vertices, name=name, edges=edges)
            case "level-set":
                return self._level_set(entries, name, place)
            case "difference":
                outer = self.read(entries["of"], f"{place}.of", depth + 1)
                return Difference(outer, self._shapes(entries["minus"], f"{place}.minus", depth), name=name)
            case _:
                shapes = self._shapes(entries["of"], f"{place}.of", depth)
                return (Union if kind == "union" else Intersection)(shapes, name=name)

    def _level_set(self, entries: Mapping[str, object], name: str | None, place: str) -> Domain:
        latex = entries["expression"]
        if not isinstance(latex, str):
            raise DomainError(f"{place}.expression must be LaTeX in the coordinates, negative inside, got {latex!r}")
        lower, upper = (self._numbers(entries[k], f"{place}.{k}") for k in ("lower", "upper"))
        names = self.coordinates[: len(lower)] or None
        if "coordinates" in entries:
            names = tuple(map(str, self._list(entries["coordinates"], f"{place}.coordinates")))
        level = latex if self.expression is None else self.expression(latex)
        return LevelSet(level, lower, upper, name=name, coordinates=names)

    def _shapes(self, value: object, place: str, depth: int) -> list[Domain]:
        tables = [value] if isinstance(value, Mapping) else self._list(value, place)
        return [self.read(table, f"{place}[{k}]", depth + 1) for k, table in enumerate(tables)]

    def _list(self, value: object, place: str) -> list:
        try:
            if isinstance(value, str | bytes | Mapping):
                raise TypeError
            entries = list(value)  # type: ignore[call-overload]
        except TypeError:
            raise DomainError(f"{place} must be a list, got {value!r}") from None
        if not 0 < len(entries) <= MOST_ENTRIES:
            raise DomainError(f"{place} must have between 1 and {MOST_ENTRIES} entries, got {len(entries)}")
        return entries

    def _numbers(self, value: object, place: str, alone: bool = False) -> list[float]:
        """A list of numbers; a number by itself where that is `alone`."""
        if alone and not hasattr(value, "__len__"):
            return [self._number(value, place)]
        return [self._number(entry, f"{place}[{k}]") for k, entry in enumerate(self._list(value, place))]

    def _number(self, value: object, place: str) -> float:
        if self.number is None:
            return as_number(value, place)
        try:
            converted = self.number(value)
        except (TypeError, ValueError) as error:
            raise DomainError(f"{place} is not a number: {value!r} ({error})") from None
        return as_number(converted, place)
