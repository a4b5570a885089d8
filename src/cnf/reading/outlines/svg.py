"""Reading SVG: closed paths and basic shapes with their transformations. A path comes in, named curves come out.

The file is read as a stream of elements: nothing is fetched, and files that declare entities are refused. The y axis of
pictures points down; here it points up, so curves look as they do in the picture.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from xml.parsers import expat

from cnf.errors import FileError
from cnf.reading.outlines.drawing import Drawing
from cnf.reading.outlines.strokes import Stroke, chain_of, ellipse, line, read_path

MOST_ELEMENTS = 100_000
DEEPEST = 200
SKIPPED = ("defs", "clipPath", "mask", "marker", "pattern", "symbol", "metadata", "filter")
SHAPES = ("path", "rect", "circle", "ellipse", "polygon", "polyline")
NUMBERS = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
STEP = re.compile(r"\s*,?\s*(matrix|translate|scale|rotate|skewX|skewY)\s*\(([^()]*)\)")

PLACES: tuple[str, ...] = ("x", "y", "cx", "cy")
SIZES: tuple[str, ...] = ("width", "height", "r", "rx", "ry")
Matrix = tuple[float, float, float, float, float, float]
UNCHANGED: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


def read_svg(source: Path, data: bytes) -> Drawing:
    """All closed curves of a picture, each element under its `id`."""
    return _Picture(source).read(data)


class _Picture:
    """Collects curves while expat goes through the file."""

    def __init__(self, source: Path):
        self.source = source
        self.drawing = Drawing(source)
        self.matrices: list[Matrix] = []
        self.hidden = 0  # how many of the elements around are not drawn
        self.elements = 0

    def read(self, data: bytes) -> Drawing:
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.StartElementHandler = self._begin
        parser.EndElementHandler = self._end
        parser.EntityDeclHandler = self._refuse_entity
        try:
            parser.Parse(data, True)
        except expat.ExpatError as error:
            raise FileError(f"{self.source} is not an SVG file that can be read: {error}") from None
        return self.drawing

    def _refuse_entity(self, *_: object) -> None:
        raise FileError(f"{self.source} declares entities, which are not read; save it as plain SVG")

    def _begin(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(" ")[2]
        self.elements += 1
        if self.elements == 1 and name != "svg":
            raise FileError(f"{self.source} is not an SVG file: it begins with <{name[:40]}>")
        if self.elements > MOST_ELEMENTS or len(self.matrices) > DEEPEST:
            raise FileError(f"{self.source} has more than {MOST_ELEMENTS} elements or {DEEPEST} levels; simplify it")
        style = attributes.get("style", "").replace(" ", "")
        skip = name in SKIPPED or attributes.get("display") == "none" or "display:none" in style
        if skip or self.hidden:
            self.hidden += 1
            return
        if name == "use":
            raise FileError(f"{self.source} draws by <use>, which is not read; save it with copies instead of clones")
        own = self._matrix(attributes.get("transform", ""))
        if not self.matrices:
            own = _product(self._upright(attributes), own)
        self.matrices.append(_product(self.matrices[-1], own) if self.matrices else own)
        if name in SHAPES:
            curves = self._curves(name, attributes)
            matrix = self.matrices[-1]
            self.drawing.add(attributes.get("id", ""), [[s.moved(matrix) for s in curve] for curve in curves])

    def _end(self, _: str) -> None:
        if self.hidden:
            self.hidden -= 1
        else:
            self.matrices.pop()

    def _upright(self, attributes: dict[str, str]) -> Matrix:
        """Turned over about the middle of the picture."""
        box = [float(n) for n in NUMBERS.findall(attributes.get("viewBox", ""))]
        height = NUMBERS.match(attributes.get("height", ""))
        middle = 2 * box[1] + box[3] if len(box) == 4 else float(height[0]) if height else 0.0
        if not math.isfinite(middle):
            raise FileError(f"{self.source}: the size of the picture is not finite")
        return (1.0, 0.0, 0.0, -1.0, 0.0, middle)

    def _curves(self, name: str, attributes: dict[str, str]) -> list[list[Stroke]]:
        called = attributes.get("id", "")
        what = f"{self.source}: <{name}>{f' {called[:40]!r}' if called else ''}"
        if name == "path":
            return read_path(attributes.get("d", ""), what)
        if name in ("polygon", "polyline"):
            numbers = self._numbers(attributes.get("points", ""), what)
            points = [complex(x, y) for x, y in zip(numbers[::2], numbers[1::2], strict=False)]
            if name == "polyline" and points and points[0] != points[-1]:
                raise FileError(f"{what} is open: its last point is not its first; make it a polygon")
            return [chain_of(points)]
        value = {key: self._number(attributes[key], what) for key in PLACES if key in attributes}
        size = {key: self._number(attributes[key], what) for key in SIZES if key in attributes}
        if name == "rect":
            return [_rectangle(value, size)]
        centre = complex(value.get("cx", 0.0), value.get("cy", 0.0))
        rx, ry = (size.get("r", 0.0),) * 2 if name == "circle" else (size.get("rx", 0.0), size.get("ry", 0.0))
        return [ellipse(centre, rx, ry)] if rx > 0 and ry > 0 else []

    def _number(self, text: str, what: str) -> float:
        match = re.fullmatch(rf"\s*({NUMBERS.pattern})(px)?\s*", text)
        if not match or not math.isfinite(float(match[1])):
            raise FileError(f"{what}: {text[:40]!r} is not a number; only plain numbers and px are read")
        return float(match[1])

    def _numbers(self, text: str, what: str) -> list[float]:
        values = [float(n) for n in NUMBERS.findall(text)]
        if not all(map(math.isfinite, values)) or NUMBERS.sub("", text).strip(" ,\t\r\n"):
            raise FileError(f"{what}: its points are not a list of numbers")
        return values

    def _matrix(self, text: str) -> Matrix:
        found = UNCHANGED
        at = 0
        while match := STEP.match(text, at):
            at = match.end()
            numbers = self._numbers(match[2], f"{self.source}: the transformation {text[:40]!r}")
            step = _step(match[1], numbers)
            if step is None:
                raise FileError(f"{self.source}: the transformation {match[0][:60].strip()!r} has the wrong numbers")
            found = _product(found, step)
        if text[at:].strip(" ,\t\r\n"):
            raise FileError(f"{self.source}: the transformation {text[:60]!r} cannot be read")
        return found


def _step(kind: str, n: list[float]) -> Matrix | None:
    match kind, len(n):
        case "matrix", 6:
            return (n[0], n[1], n[2], n[3], n[4], n[5])
        case "translate", 1 | 2:
            return (1.0, 0.0, 0.0, 1.0, n[0], n[1] if len(n) > 1 else 0.0)
        case "scale", 1 | 2:
            return (n[0], 0.0, 0.0, n[-1], 0.0, 0.0)
        case "rotate", 1 | 3:
            cos, sin = math.cos(math.radians(n[0])), math.sin(math.radians(n[0]))
            x, y = n[1:] or (0.0, 0.0)
            return (cos, sin, -sin, cos, x - cos * x + sin * y, y - sin * x - cos * y)
        case "skewX", 1:
            return (1.0, 0.0, math.tan(math.radians(n[0])), 1.0, 0.0, 0.0)
        case "skewY", 1:
            return (1.0, math.tan(math.radians(n[0])), 0.0, 1.0, 0.0, 0.0)
    return None


def _product(m: Matrix, n: Matrix) -> Matrix:
    """First n, then m."""
    return (
        m[0] * n[0] + m[2] * n[1],
        m[1] * n[0] + m[3] * n[1],
        m[0] * n[2] + m[2] * n[3],
        m[1] * n[2] + m[3] * n[3],
        m[0] * n[4] + m[2] * n[5] + m[4],
        m[1] * n[4] + m[3] * n[5] + m[5],
    )


def _rectangle(value: dict[str, float], size: dict[str, float]) -> list[Stroke]:
    x, y, width, height = value.get("x", 0.0), value.get("y", 0.0), size.get("width", 0.0), size.get("height", 0.0)
    if width <= 0 or height <= 0:
        return []
    rx, ry = size.get("rx", size.get("ry", 0.0)), size.get("ry", size.get("rx", 0.0))
    rx, ry = min(max(rx, 0.0), width / 2), min(max(ry, 0.0), height / 2)
    if rx == 0 or ry == 0:
        return chain_of([complex(x, y), complex(x + width, y), complex(x + width, y + height), complex(x, y + height)])
    found: list[Stroke] = []
    quarters = [(x + width - rx, y + ry, -0.5), (x + width - rx, y + height - ry, 0.0)]
    quarters += [(x + rx, y + height - ry, 0.5), (x + rx, y + ry, 1.0)]
    for cx, cy, turn in quarters:
        corner = Stroke((complex(cx, cy), complex(rx), complex(0, ry)), (turn * math.pi, math.pi / 2))
        if found and abs(found[-1].end - corner.start) > 1e-12 * (width + height):
            found.append(line(found[-1].end, corner.start))
        found.append(corner)
    if abs(found[-1].end - found[0].start) > 1e-12 * (width + height):
        found.append(line(found[-1].end, found[0].start))
    return found
