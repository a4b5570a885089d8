"""Files, reading OBJ: points, normals, colours and polygons. A path comes in, `Decoded` comes out.

Texture coordinates are not read, so a seam does not cut the surface: corners are joined by the number of their point.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from cnf.errors import FileError
from cnf.meshes.decoded import Decoded, check_faces, triangulate
from cnf.reading.sources import parse_numbers, read_bytes, show


def read_obj(source: Path) -> Decoded:
    """Decode an OBJ file that `check_source` has passed."""
    text = read_bytes(source).replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\\\n", b"  ")
    lines = text.split(b"\n")
    del text
    rows: dict[bytes, list[int]] = {b"v": [], b"vn": [], b"f": []}
    for number, line in enumerate(lines):
        key = line[:2].strip() if line[:2] != b"vn" else b"vn"
        if key in rows and line[len(key) : len(key) + 1] in (b" ", b"\t"):
            rows[key].append(number)
    if not rows[b"v"]:
        raise FileError(f"{source} has no line 'v x y z', so no points; it starts with {show(lines[0])}")
    vertices = read_rows(lines, rows[b"v"], 2, source)
    if vertices.shape[1] not in (3, 4, 6, 7):
        raise FileError(f"{source}: its points have {vertices.shape[1]} numbers each; expected x y z, or x y z r g b")
    attributes = {"colours": vertices[:, -3:].copy()} if vertices.shape[1] >= 6 else {}
    points = np.ascontiguousarray(vertices[:, :3])
    directions = read_rows(lines, rows[b"vn"], 3, source) if rows[b"vn"] else np.empty((0, 3))
    if not rows[b"f"]:
        normals = directions if directions.shape == points.shape else None
        notes = () if normals is not None or not len(directions) else ("its normals fit no points and are not used",)
        return Decoded(points, normals, None, attributes, notes)
    faces, counts, normals = read_faces(lines, rows, len(points), directions, source)
    notes = ()
    if (counts > 3).any():
        notes = (f"{(counts > 3).sum()} polygons of more than 3 corners were split into triangles",)
    return Decoded(points, normals, faces if len(faces) else None, attributes, notes)


def read_rows(lines: list[bytes], rows: list[int], skip: int, source: Path) -> np.ndarray:
    """The numbers on some lines behind their keyword, as many on each as on the first, (len(rows), k)."""
    body = b"\n".join([lines[row][skip:] for row in rows])
    width = len(lines[rows[0]][skip:].split(b"#")[0].split())
    if b"#" in body:
        body = re.sub(rb"#[^\n]*", b"", body)
    counts = words_per_line(body)
    if width == 0 or (counts != width).any():
        row = int(np.flatnonzero(counts != max(width, 1))[0])
        text = show(lines[rows[row]])
        raise FileError(f"{source}, line {rows[row] + 1}: {text} has {counts[row]} numbers; expected {width or 3}")
    try:
        return parse_numbers(body, source, "").reshape(len(rows), width)
    except FileError:
        for row in rows:  # the message with the line of the file
            parse_numbers(lines[row][skip:].split(b"#")[0], source, show(lines[row]), row + 1)
        raise


def words_per_line(text: bytes) -> np.ndarray:
    """How many words each line has, (lines,)."""
    letters = np.frombuffer(text + b"\n", np.uint8)
    blank = (letters == 32) | ((letters >= 9) & (letters <= 13))
    starts = ~blank
    starts[1:] &= blank[:-1]
    ends = np.flatnonzero(letters == 10)
    before = np.searchsorted(np.flatnonzero(starts), ends)
    return np.diff(before, prepend=0)


def read_faces(
    lines: list[bytes], rows: dict[bytes, list[int]], count: int, directions: np.ndarray, source: Path
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Triangles (F, 3), the corners of each polygon, and a normal per point where all of its corners agree on one."""
    chosen = rows[b"f"]
    body = b"\n".join([lines[row][2:] for row in chosen])
    if b"#" in body:
        body = re.sub(rb"#[^\n]*", b"", body)
    counts = words_per_line(body)
    corners = resolve(
        numbers_of(re.sub(rb"/\S*", b"", body), "corners", source), rows[b"v"], chosen, counts, count, source
    )
    faces = check_faces(triangulate(corners, counts), count, source)
    with_normals = re.findall(rb"/[^\s/]*/([^\s/]+)", body) if len(directions) else []
    if len(with_normals) != len(corners):
        return faces, counts, None
    numbers = numbers_of(b" ".join(with_normals), "normals of corners", source)
    numbers = resolve(numbers, rows[b"vn"], chosen, counts, len(directions), source)
    normals = np.zeros((count, 3))
    normals[corners] = directions[numbers]
    agreed = (normals[corners] == directions[numbers]).all()  # else hard edges: the faces know better
    return faces, counts, normals if agreed and len(np.unique(corners)) == count else None


def numbers_of(text: bytes, what: str, source: Path) -> np.ndarray:
    """Whole numbers, not zero, (N,)."""
    values = parse_numbers(text, source, what)
    wrong = (values != np.rint(values)) | (values == 0) | (np.abs(values) > 2**40)
    if wrong.any():
        raise FileError(f"{source}: {values[wrong][0]:g} among the {what} of its faces; they are counted from 1")
    return values.astype(np.int64)


def resolve(
    numbers: np.ndarray, given: list[int], faces: list[int], counts: np.ndarray, count: int, source: Path
) -> np.ndarray:
    """Numbers from 1, or counted backwards from the face's own line if negative, as numbers from 0."""
    before = np.repeat(np.searchsorted(np.array(given), np.array(faces)), counts)  # rows given above the face
    if len(before) != len(numbers):
        raise FileError(f"{source}: a corner of its faces cannot be read")
    found = np.where(numbers > 0, numbers - 1, before + numbers)
    wrong = (found < 0) | (found >= count)
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        row = faces[int(np.searchsorted(np.cumsum(counts), first, side="right"))]
        raise FileError(f"{source}, line {row + 1}: a face uses number {numbers[first]}, but there are only {count}")
    return found
