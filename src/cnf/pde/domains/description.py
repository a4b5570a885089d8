"""Description: a domain from the plain table of a problem file, back to such a table, and as a line of English."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import sympy as sp

from cnf.errors import DomainError, FileError
from cnf.pde.domains.ball import Ball, Disk
from cnf.pde.domains.box import Box, Interval
from cnf.pde.domains.combinations import Difference, Intersection, Union
from cnf.pde.domains.domain import Domain, as_number
from cnf.pde.domains.groups import read_mesh_domain
from cnf.pde.domains.level_set import LevelSet
from cnf.pde.domains.outline import Outline
from cnf.pde.domains.polygon import Polygon
from cnf.pde.domains.solid import Solid
from cnf.pde.domains.tables import MOST_ENTRIES, check_shape, refuse_too_many
from cnf.pde.domains.timed import Timed

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

    >>> cnf.domains.domain_from({"type": "disk", "center": [0, 0], "radius": 2}).dimension
    2
    """
    refuse_too_many(description)
    return _Reader(number, expression, tuple(coordinates), folder or Path()).read(description, "domain", 1)


def describe(domain: Domain) -> dict[str, object]:
    """The table that `domain_from` turns into an equal domain.

    >>> cnf.domains.describe(cnf.domains.Disk([0, 0], 1))
    {'type': 'disk', 'center': [0.0, 0.0], 'radius': 1.0}
    """
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
        case Outline() | Solid():
            entries = _describe_drawn(domain)
        case Union() | Intersection():
            entries = {"type": type(domain).__name__.lower(), "of": [describe(shape) for shape in domain.shapes]}
        case Difference():
            holes = [describe(hole) for hole in domain.holes]
            entries = {"type": "difference", "of": describe(domain.outer), "minus": holes}
        case _:
            raise DomainError(f"a {type(domain).__name__} cannot be described; expected one of cnf.domains")
    return entries if domain.name is None else {**entries, "name": domain.name}


def _describe_drawn(domain: Outline | Solid) -> dict[str, object]:
    if isinstance(domain, Solid):
        mesh = domain._mesh
        labels = {"labels": list(domain.labels)} if domain.labels else {}
        return {"type": "mesh", "vertices": mesh.vertices.tolist(), "faces": mesh.faces.tolist(), **labels}
    entries: dict[str, object] = {"type": "outline", "paths": list(domain.paths), "smooth": domain.smooth}
    if any(domain.names):
        entries["names"] = list(domain.names)
    if domain.edges:
        entries["edges"] = [list(edges) for edges in domain.edges]
    return entries


def to_text(domain: Domain) -> str:
    """One line, such as "box [0, 1] x [0, 1] minus disk 'hole1' at (0.3, 0.3) of radius 0.1, t in [0, 1]".

    >>> cnf.domains.to_text(cnf.Box([0, 0], [1, 1]))
    'box [0, 1] x [0, 1]'
    """
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
        case Outline():
            smooth = ", smooth" if domain.smooth else ""
            polygons = domain.polygons()
            edges = f", {sum(map(len, polygons))} straight edges" if polygons is not None else ""
            count = len(domain.paths)
            return f"outline{name} of {count} closed curve{'s' if count > 1 else ''}{smooth}{edges}"
        case Solid():
            mended = f" ({'; '.join(domain.notes)})" if domain.notes else ""
            return f"mesh{name} of {len(domain._mesh.faces)} triangles{mended}"
        case Union() | Intersection():
            return f"{type(domain).__name__.lower()}{name} of {_list_text(domain.shapes)}"
        case Difference():
            text = f"{_inner_text(domain.outer)} minus {_list_text(domain.holes)}"
            return text if domain.name is None else f"difference{name}: {text}"
    raise DomainError(f"a {type(domain).__name__} cannot be described; expected one of cnf.domains")


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


@dataclass(frozen=True)
class _Reader:
    """Reads nested tables; every error names the place, such as `domain.minus[0].radius`."""

    number: Number | None
    expression: Expression | None
    coordinates: tuple[str, ...]
    folder: Path

    def read(self, table: object, place: str, depth: int) -> Domain:
        kind, entries = check_shape(table, place, depth)
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
        except (DomainError, FileError) as error:
            if str(error).startswith("domain"):
                raise  # names its place already
            raise DomainError(f"{place}: {error}") from None

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
                edges = self._texts(entries["edges"], f"{place}.edges") if "edges" in entries else None
                return Polygon(vertices, name=name, edges=edges)
            case "level-set":
                return self._level_set(entries, name, place)
            case "outline":
                return self._outline(entries, name, place)
            case "mesh":
                return self._solid(entries, name, place)
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

    def _outline(self, entries: Mapping[str, object], name: str | None, place: str) -> Domain:
        if ("file" in entries) == ("paths" in entries):
            raise DomainError(f"{place}: an outline has either a file (SVG, GeoJSON, CSV) or paths")
        smooth = self._smooth(entries, place)
        if "paths" in entries:
            for key in ("scale", "only"):
                if key in entries:
                    raise DomainError(f"{place}.{key} is for outlines from files")
            given = entries["paths"]
            paths = [given] if isinstance(given, str) else self._list(given, f"{place}.paths")
            names = self._texts(entries["names"], f"{place}.names") if "names" in entries else None
            edges = self._list(entries["edges"], f"{place}.edges") if "edges" in entries else ()
            return Outline(
                paths, names, smooth, name, [self._texts(e, f"{place}.edges[{k}]") for k, e in enumerate(edges)]
            )
        for key in ("names", "edges"):
            if key in entries:
                raise DomainError(
                    f"{place}.{key} is for outlines by paths; curves of files have the names they have there"
                )
        return Outline.read(
            self._file(entries["file"], f"{place}.file"), smooth, *self._scale_and_only(entries, place), name
        )

    def _smooth(self, entries: Mapping[str, object], place: str) -> bool | float:
        smooth = entries.get("smooth", False)
        return smooth if isinstance(smooth, bool) else self._number(smooth, f"{place}.smooth")

    def _scale_and_only(self, entries: Mapping[str, object], place: str) -> tuple[float, list[str]]:
        """By how much a file is scaled, and which of its groups are taken."""
        only = self._texts(entries["only"], f"{place}.only") if "only" in entries else []
        return self._number(entries.get("scale", 1.0), f"{place}.scale"), only

    def _solid(self, entries: Mapping[str, object], name: str | None, place: str) -> Domain:
        if "file" in entries:
            for key in ("vertices", "faces", "labels"):
                if key in entries:
                    raise DomainError(f"{place}.{key} is for meshes without a file")
            file, smooth = self._file(entries["file"], f"{place}.file"), self._smooth(entries, place)
            scale, only = self._scale_and_only(entries, place)
            if file.suffix.lower() == ".msh":
                return read_mesh_domain(file, smooth, scale, only, name)
            if smooth or only:
                raise DomainError(f"{place}: `smooth` and `only` are for gmsh files; other meshes have no groups")
            return Solid.read(file, scale, name)
        if not ("vertices" in entries and "faces" in entries) or {"scale", "smooth", "only"} & set(entries):
            raise DomainError(f"{place}: a mesh has a file (STL, OBJ, PLY, MSH), or vertices and faces")
        labels = entries.get("labels")
        if labels is not None and not (isinstance(labels, list) and all(isinstance(text, str) for text in labels)):
            raise DomainError(f"{place}.labels must be a list of texts, one for every face")
        return Solid(entries["vertices"], entries["faces"], name, labels)

    def _file(self, value: object, place: str) -> Path:
        """A path, relative to the folder of the problem."""
        if not isinstance(value, str) or not value:
            raise DomainError(f"{place} must be the name of a file, got {value!r}")
        return self.folder / value

    def _texts(self, value: object, place: str) -> list[str]:
        for k, text in enumerate(found := self._list(value, place)):
            if not isinstance(text, str):
                raise DomainError(f"{place}[{k}] must be a text, got {text!r}")
        return found

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
