"""Files, reading PLY: the body, ascii or binary of both byte orders. A path comes in, `Decoded` comes out.

Tables are decoded by NumPy in one piece; only faces of mixed sizes need a loop over rows.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from cnf.errors import FileError
from cnf.meshes.decoded import Decoded, check_faces, triangulate
from cnf.meshes.ply_header import LONGEST, Element, Header, read_header
from cnf.meshes.strips import END, cut_strips
from cnf.reading.sources import parse_numbers

Table = dict[str, tuple[np.ndarray, np.ndarray | None]]  # name -> all values in a row, and for lists how many per row
FACES, STRIPS, INDICES = ("face", "faces"), ("tristrips",), ("vertex_indices", "vertex_index")
SCALES = {"u1": 255.0, "u2": 65535.0}  # colours given as integers
LONGEST_LIST = 4096  # above, rows are not tried to be of one size


def read_ply(source: Path) -> Decoded:
    """Decode a PLY file that `check_source` has passed."""
    with source.open("rb") as file:
        header = read_header(file.read(LONGEST), source)
        file.seek(header.start)
        tables = read_binary(file, header, source) if header.order else read_ascii(file.read(), header, source)
    vertices = next((e for e in header.elements if e.name in ("vertex", "vertices", "point")), None)
    if vertices is None:
        raise FileError(f"{source} has no element 'vertex', so no points; it has {names(header.elements)}")
    columns = tables.pop(vertices.name)
    return decode_vertices(columns, vertices, source, *decode_faces(tables, header, vertices.count, source))


def names(elements: tuple[Element, ...]) -> str:
    """For messages."""
    return ", ".join(repr(e.name[:40]) for e in elements) or "nothing"


# ---- tables


def read_binary(file, header: Header, source: Path) -> dict[str, Table]:
    """Every element of a binary body; a count is believed only as far as the file has bytes for it."""
    tables: dict[str, Table] = {}
    remaining = source.stat().st_size - header.start
    for element in header.elements:
        least = sum(int((p.length or p.kind)[1]) for p in element.properties)
        check_promise(element, element.count * least, remaining, "bytes", source)
        if element.has_lists:
            rest = np.fromfile(file, np.uint8, remaining)
            tables[element.name], size = read_binary_rows(rest, element, header.order, source)
            file.seek(header.start + (source.stat().st_size - header.start - remaining) + size)
        else:
            size = element.count * least
            kind = element.row_type(header.order)
            rows = np.fromfile(file, kind, element.count if least else 0)
            if least and len(rows) != element.count:
                raise FileError(f"{source} changed while it was read")
            tables[element.name] = {p.name: (rows[p.name], None) for p in element.properties}
        remaining -= size
    return tables


def check_promise(element: Element, needed: int, there: int, unit: str, source: Path) -> None:
    """Refuse a header that promises more than the file can hold, before memory is asked for."""
    if needed > there:
        raise FileError(
            f"{source} promises {element.count} rows of {element.name[:40]!r}, at least {needed} {unit}, "
            f"but has {there} left: it was cut short or is damaged"
        )


def read_binary_rows(data: np.ndarray, element: Element, order: str, source: Path) -> tuple[Table, int]:
    """An element with lists, from bytes (B,): first as rows all like the first one, else row by row; and its size."""
    if element.count == 0:
        return {p.name: (np.empty(0, p.kind), np.empty(0, int) if p.length else None) for p in element.properties}, 0
    places, lengths, end = walk_rows(data, element, order, source, rows=1)
    if max(lengths[p.name][0] for p in element.properties if p.length) <= LONGEST_LIST and element.count * end <= len(
        data
    ):
        kind = np.dtype(
            [
                part
                for i, p in enumerate(element.properties)
                for part in (
                    [(f"n{i}", order + p.length), (f"v{i}", order + p.kind, (int(lengths[p.name][0]),))]
                    if p.length
                    else [(f"v{i}", order + p.kind)]
                )
            ]
        )
        rows = data[: element.count * end].view(kind)
        if all((rows[f"n{i}"] == lengths[p.name][0]).all() for i, p in enumerate(element.properties) if p.length):
            table: Table = {}
            for i, p in enumerate(element.properties):
                counts = rows[f"n{i}"].astype(np.int64) if p.length else None
                table[p.name] = rows[f"v{i}"].reshape(-1), counts
            return table, element.count * end
    places, lengths, end = walk_rows(data, element, order, source, rows=element.count)
    return {
        p.name: (gather(data, places[p.name], lengths.get(p.name), order + p.kind), lengths.get(p.name))
        for p in element.properties
    }, end


def walk_rows(
    data: np.ndarray, element: Element, order: str, source: Path, rows: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], int]:
    """Where each value or list of the first rows starts, how long each list is, and where the last row ends."""
    byteorder = "little" if order == "<" else "big"
    raw = data.data
    places: dict[str, list[int]] = {p.name: [] for p in element.properties}
    lengths: dict[str, list[int]] = {p.name: [] for p in element.properties if p.length}
    plan = [
        (
            places[p.name],
            lengths.get(p.name),
            int(p.length[1]) if p.length else 0,
            (p.length or "u")[0] == "i",
            int(p.kind[1]),
        )
        for p in element.properties
    ]
    offset = 0
    for row in range(rows):
        for starts, counts, width, signed, size in plan:
            if counts is None:
                starts.append(offset)
                offset += size
                continue
            count = int.from_bytes(raw[offset : offset + width], byteorder, signed=signed)  # type: ignore[arg-type]
            starts.append(offset + width)
            counts.append(count)
            offset += width + count * size
            if count < 0:
                raise FileError(f"{source}: row {row} of {element.name[:40]!r} has a list of length {count}")
        if offset > len(data):
            raise FileError(f"{source} ends inside row {row} of {element.name[:40]!r}: it was cut short or is damaged")
    return as_arrays(places), as_arrays(lengths), offset


def as_arrays(lists: dict[str, list[int]]) -> dict[str, np.ndarray]:
    """Lists of integers as int64 arrays."""
    return {name: np.array(values, dtype=np.int64) for name, values in lists.items()}


def gather(data: np.ndarray, starts: np.ndarray, counts: np.ndarray | None, kind: str) -> np.ndarray:
    """Values of a type that start at scattered bytes, `counts` of them at each start, in a row."""
    size = int(kind[-1])
    if counts is not None and len(starts) == 1:  # all strips of a large mesh may be one list
        return data[starts[0] : starts[0] + counts[0] * size].view(kind)
    if counts is not None:
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = np.repeat(starts, counts) + within * size
    return data[starts[:, None] + np.arange(size)].reshape(-1).view(kind)


def read_ascii(body: bytes, header: Header, source: Path) -> dict[str, Table]:
    """Every element of an ascii body, which is a stream of numbers whatever its lines are."""
    stream = parse_numbers(body, source, "a PLY body", header.lines + 1)
    tables: dict[str, Table] = {}
    position = 0
    for element in header.elements:
        there = len(stream) - position
        check_promise(element, element.count * len(element.properties), there, "numbers", source)
        if element.has_lists:
            tables[element.name], size = read_ascii_rows(stream[position:], element, source)
        else:
            size = element.count * len(element.properties)
            block = stream[position : position + size].reshape(-1 if size else 0, len(element.properties) or 1)
            tables[element.name] = {p.name: (block[:, i], None) for i, p in enumerate(element.properties)}
        position += size
    return tables


def read_ascii_rows(stream: np.ndarray, element: Element, source: Path) -> tuple[Table, int]:
    """An element with lists from numbers (N,): as rows all like the first one, else row by row; and its size."""
    if len(element.properties) == 1 and element.count and 0 <= stream[0] <= LONGEST_LIST:
        length = int(stream[0])
        size = element.count * (length + 1)
        if size <= len(stream) and (stream[: size : length + 1] == length).all():
            block = stream[:size].reshape(element.count, length + 1)
            return {element.properties[0].name: (block[:, 1:].reshape(-1), block[:, 0].astype(np.int64))}, size
    places: dict[str, list[int]] = {p.name: [] for p in element.properties}
    lengths: dict[str, list[int]] = {p.name: [] for p in element.properties if p.length}
    offset, total = 0, len(stream)
    for row in range(element.count):
        for p in element.properties:
            count = 1.0
            if p.length:
                count = stream[offset] if offset < total else 0.0
                if not 0 <= count <= total or count != int(count):
                    raise FileError(f"{source}: row {row} of {element.name[:40]!r} has a list of length {count:g}")
                lengths[p.name].append(int(count))
                offset += 1
            places[p.name].append(offset)
            offset += int(count)
        if offset > total:
            raise FileError(f"{source} ends inside row {row} of {element.name[:40]!r}: it was cut short or is damaged")
    starts, counts = as_arrays(places), as_arrays(lengths)
    data = stream.view(np.uint8)
    return {
        p.name: (gather(data, starts[p.name] * 8, counts.get(p.name), "=f8"), counts.get(p.name))
        for p in element.properties
    }, offset


# ---- meaning


def decode_faces(
    tables: dict[str, Table], header: Header, count: int, source: Path
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Triangles (F, 3) from polygons and strips, or None; and notes on what is left out."""
    notes = tuple(f"the element {e.name!r} is not used" for e in header.elements if e.name == "edge")
    found = []
    if polygons := find_lists(tables, FACES, count, source):
        corners, counts = polygons
        if (counts > 3).any():
            notes = (*notes, f"{(counts > 3).sum()} polygons of more than 3 corners were split into triangles")
        found.append(triangulate(corners, counts))
    if strips := find_lists(tables, STRIPS, count, source):
        found.append(cut_strips(*strips))
    faces = np.concatenate(found) if found else np.empty((0, 3), dtype=np.int64)
    return check_faces(faces, count, source) if len(faces) else None, notes


def find_lists(
    tables: dict[str, Table], elements: tuple[str, ...], count: int, source: Path
) -> tuple[np.ndarray, np.ndarray] | None:
    """The vertex numbers of an element, all in a row as int64, and how many each of its rows has; None if none."""
    for table in (tables[name] for name in elements if name in tables):
        for corners, counts in (table[key] for key in INDICES if key in table):
            if counts is None or not len(corners):
                return None
            if corners.dtype.kind == "f":
                if not (corners == np.rint(corners)).all():
                    raise FileError(f"{source}: its faces have vertex numbers that are not whole")
                corners = np.clip(corners, END - 1, count)  # what is beyond stays beyond
            elif (
                corners.dtype.kind == "u" and corners.dtype.itemsize >= 4
            ):  # the end of a strip, written without a sign
                corners = np.where(corners == np.iinfo(corners.dtype).max, END, corners.astype(np.int64))
            return corners.astype(np.int64), counts
    return None


def decode_vertices(
    columns: Table, element: Element, source: Path, faces: np.ndarray | None, notes: tuple[str, ...]
) -> Decoded:
    """Points, normals, colours and everything else that is said of a point."""
    kinds = {p.name: p.kind for p in element.properties}
    found = {name: values for name, (values, counts) in columns.items() if counts is None}
    axes: list[str] = [name for name in ("x", "y", "z") if name in found]
    if axes not in (["x", "y", "z"], ["x", "y"]):
        raise FileError(f"{source}: its points have no x, y and z; their properties are {', '.join(kinds) or 'none'}")
    points = stack(found, axes)
    directions = ["n" + name for name in axes]
    normals = stack(found, directions) if all(name in found for name in directions) else None
    attributes: dict[str, np.ndarray] = {}
    for colours in (["red", "green", "blue"], ["r", "g", "b"]):
        if all(name in found for name in colours):
            attributes["colours"] = stack(found, colours) / SCALES.get(kinds[colours[0]], 1.0)
            break
    for name in tuple(found):  # a_0, a_1, ... are the columns of one attribute
        match = re.fullmatch(r"(.+)_0", name)
        series = [f"{match[1]}_{i}" for i in range(len(found))] if match else []
        series = series[: next((i for i, one in enumerate(series) if one not in found), len(series))]
        if match and match[1] not in found and len(series) > 1:
            attributes[match[1]] = stack(found, series)
    for name in list(found):
        scale = SCALES.get(kinds[name], 1.0) if name in ("red", "green", "blue", "alpha") else 1.0
        attributes[name] = stack(found, [name]) / scale
    return Decoded(points, normals, faces, attributes, notes)


def stack(found: dict[str, np.ndarray], wanted: list[str]) -> np.ndarray:
    """Columns (P,) taken out of `found` and put side by side, (P, k) float64."""
    columns = [found.pop(name) for name in wanted]
    block = np.empty((len(columns[0]), len(columns)))
    for i, column in enumerate(columns):
        block[:, i] = column
    return block
