"""Files, reading in pieces: clouds that memory does not hold, from binary PLY, NPY and LAS or LAZ.

In comes a path, out goes a `Source`: how many points there are, what else is known of each, and the points themselves,
a bounded number at a time. What is wrong with a file is said as it is by the readers of whole files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cnf.errors import FileError
from cnf.meshes.decoded import Decoded, check_finite
from cnf.meshes.ply import Table, check_promise, decode_vertices, names
from cnf.meshes.ply_header import LONGEST, Element, read_header
from cnf.reading.sources import check_source
from cnf.shapes.files.scans import check_las, find_package, iterate_las
from cnf.shapes.files.tables import decode_unnamed

AT_ONCE = 1 << 18  # points
LARGEST = 1 << 46  # bytes: a file that is read in pieces may be as large as a disk


@dataclass(frozen=True, eq=False)
class Source:
    """A file of `count` points; `read()` starts at the first one, each time it is called."""

    path: Path
    count: int
    read: Callable[[], Iterator[Decoded]]

    def pieces(self) -> Iterator[Decoded]:
        """All points in order, finite, so many at a time."""
        seen = 0
        for piece in self.read():
            check_finite(piece.points, self.path, seen)
            seen += len(piece.points)
            yield piece
        if seen != self.count:
            raise FileError(f"{self.path} changed while it was read: {seen} points instead of {self.count}")


def open_source(path: object) -> Source:
    """The file, if it is of a kind that can be read in pieces and holds points without faces."""
    source = check_source(path, LARGEST)
    ending = source.suffix.lower()
    if ending not in PIECEWISE:
        raise FileError(
            f"{source}: files ending in {ending!r} are read whole only; clouds larger than memory are read from "
            "binary .ply, .npy, .las or .laz"
        )
    try:
        found = PIECEWISE[ending](source)
    except OSError as error:
        raise FileError(f"{source} cannot be read: {error.strerror or error}") from None
    if not found.count:
        raise FileError(f"{source} holds no points")
    return found


def _open_ply(source: Path) -> Source:
    with source.open("rb") as file:
        header = read_header(file.read(LONGEST), source)
    if not header.order:
        raise FileError(f"{source} is PLY in text, which is read whole only; write it as binary PLY")
    vertices = next((e for e in header.elements if e.name in ("vertex", "vertices", "point")), None)
    if vertices is None:
        raise FileError(f"{source} has no element 'vertex', so no points; it has {names(header.elements)}")
    before = header.elements[: header.elements.index(vertices)]
    if any(e.has_lists for e in (*before, vertices)) or any(e.count for e in header.elements if "face" in e.name):
        raise FileError(f"{source} is a mesh, or has lists beside its points: it is read whole only")
    start = header.start + sum(e.count * e.row_type(header.order).itemsize for e in before)
    kind = vertices.row_type(header.order)
    check_promise(vertices, vertices.count * kind.itemsize, source.stat().st_size - start, "bytes", source)

    def read() -> Iterator[Decoded]:
        for rows in _blocks(source, kind, start, vertices.count):
            table: Table = {p.name: (rows[p.name], None) for p in vertices.properties}
            yield decode_vertices(table, Element("vertex", len(rows), vertices.properties), source, None, ())

    return Source(source, vertices.count, read)


def _open_npy(source: Path) -> Source:
    try:
        mapped = np.load(source, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # NumPy reads the header as Python's tokens, which fail in many ways
        raise FileError(f"{source} cannot be read as numbers ({type(error).__name__})") from None
    if mapped.ndim != 2 or mapped.dtype.kind not in "biuf" or not mapped.flags.c_contiguous:
        raise FileError(
            f"{source} has shape {mapped.shape} of {mapped.dtype}; expected a row of numbers for each point"
        )
    count, width, start = len(mapped), mapped.shape[1], getattr(mapped, "offset", 0)
    kind = np.dtype((mapped.dtype, (width,)))
    del mapped

    def read() -> Iterator[Decoded]:
        for rows in _blocks(source, kind, start, count):
            yield decode_unnamed(rows.astype(np.float64), source)

    return Source(source, count, read)


def _open_las(source: Path) -> Source:
    count = check_las(source)
    laspy = find_package("laspy", f"{source}: LAS and LAZ files need laspy", "'laspy[lazrs]'")
    return Source(source, count, lambda: iterate_las(laspy, source, AT_ONCE))


def _blocks(source: Path, kind: np.dtype, start: int, count: int) -> Iterator[np.ndarray]:
    """Rows of a table in a file, some at a time."""
    base = kind.base if kind.subdtype else kind
    with source.open("rb") as file:
        file.seek(start)
        for first in range(0, count, AT_ONCE):
            wanted = min(AT_ONCE, count - first)
            numbers = kind.itemsize // base.itemsize
            rows = np.fromfile(file, base, wanted * numbers)
            if len(rows) != wanted * numbers:
                raise FileError(f"{source} ends after {first} of {count} points: it was cut short")
            yield rows.reshape(wanted, numbers) if kind.subdtype else rows


PIECEWISE = {".ply": _open_ply, ".npy": _open_npy, ".las": _open_las, ".laz": _open_las}  # ending -> how
