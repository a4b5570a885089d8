"""Reading outlines: the reader for a file by its ending. A path comes in, a `Drawing` comes out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cnf.errors import FileError, nearest
from cnf.reading.outlines.drawing import Drawing
from cnf.reading.outlines.geojson import read_geojson
from cnf.reading.outlines.sheet import read_sheet
from cnf.reading.outlines.svg import read_svg
from cnf.reading.sources import check_source, read_bytes

LARGEST = 32 * 2**20  # bytes
READERS: dict[str, Callable[[Path, bytes], Drawing]] = {
    ".svg": read_svg,
    ".geojson": read_geojson,
    ".json": read_geojson,
    ".csv": read_sheet,
    ".txt": read_sheet,
    ".xy": read_sheet,
}


def read_outline(path: object) -> Drawing:
    """The closed curves of an SVG, GeoJSON or CSV file."""
    source = check_source(path, LARGEST)
    ending = source.suffix.lower()
    if ending not in READERS:
        raise FileError(
            f"{source}: no outline is read from files ending in {ending!r}; expected {', '.join(READERS)}."
            f"{nearest(ending, READERS)}"
        )
    drawing = READERS[ending](source, read_bytes(source))
    if not drawing.groups:
        raise FileError(f"{source} has no closed curves; draw paths, polygons, rectangles or ellipses")
    return drawing
