"""Reading GeoJSON: polygons with holes, alone or as features with names. A path comes in, named curves come out.

Coordinates are taken as they are, x and y: longitudes and latitudes are not projected.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

from cnf.errors import FileError
from cnf.reading.outlines.drawing import Drawing
from cnf.reading.outlines.strokes import MOST_STROKES, Stroke, chain_of

DEEPEST = 20  # collections within collections


def read_geojson(source: Path, data: bytes) -> Drawing:
    """All rings of all polygons, those of a feature under its name (property `name`, or `id`)."""
    try:
        table = json.loads(data)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise FileError(f"{source} is not a JSON file that can be read: {str(error)[:100]}") from None
    drawing = Drawing(source)
    _Reader(source, drawing).read(table, "", 0)
    if not drawing.groups:
        raise FileError(f"{source} has no polygons; expected GeoJSON with geometries of type Polygon or MultiPolygon")
    return drawing


class _Reader:
    def __init__(self, source: Path, drawing: Drawing):
        self.source, self.drawing = source, drawing

    def read(self, table: object, name: str, depth: int) -> None:
        if not isinstance(table, dict) or depth > DEEPEST:
            raise FileError(f"{self.source}: expected a GeoJSON object with a 'type', got {str(table)[:60]!r}")
        kind = table.get("type")
        match kind:
            case "FeatureCollection" | "GeometryCollection":
                for part in self._list(table.get("features" if kind == "FeatureCollection" else "geometries"), kind):
                    self.read(part, name, depth + 1)
            case "Feature":
                properties = table.get("properties")
                called = properties.get("name") if isinstance(properties, dict) else None
                called = table.get("id") if called is None else called
                if table.get("geometry") is not None:
                    self.read(table["geometry"], "" if called is None else str(called)[:100], depth + 1)
            case "Polygon":
                self.drawing.add(name, self._rings(table.get("coordinates")))
            case "MultiPolygon":
                polygons = self._list(table.get("coordinates"), kind)
                self.drawing.add(name, [ring for polygon in polygons for ring in self._rings(polygon)])
            case "Point" | "MultiPoint" | "LineString" | "MultiLineString":
                self.drawing.notes.append(f"{self.source.name}: a {kind} bounds nothing and is left out")
            case _:
                raise FileError(f"{self.source}: {str(kind)[:40]!r} is no type of GeoJSON")

    def _rings(self, coordinates: object) -> list[list[Stroke]]:
        rings = []
        for ring in self._list(coordinates, "Polygon"):
            points = [self._point(point) for point in self._list(ring, "ring")]
            curve = chain_of(points)
            if not curve:
                raise FileError(f"{self.source}: a ring has {len(points)} points, three different ones are needed")
            rings.append(curve)
        return rings

    def _list(self, value: object, what: str) -> list:
        if not isinstance(value, list) or len(value) > MOST_STROKES:
            raise FileError(
                f"{self.source}: a {what} has a list of at most {MOST_STROKES} entries, got {str(value)[:40]!r}"
            )
        return value

    def _point(self, value: object) -> complex:
        numbers = value[:2] if isinstance(value, list) else []
        fits = len(numbers) == 2 and all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers)
        if not fits or not all(math.isfinite(n) for n in numbers):
            raise FileError(f"{self.source}: a point is a list of two finite numbers, got {str(value)[:60]!r}")
        return complex(*numbers)
