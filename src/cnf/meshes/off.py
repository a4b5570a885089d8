"""Files, reading OFF: points, normals, colours and polygons, as text. A path comes in, `Decoded` comes out.

The first word says what a point has: C colours, N normals. Colours of faces are not read.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from cnf.errors import FileError
from cnf.meshes.decoded import Decoded, check_faces, triangulate
from cnf.meshes.obj import read_rows
from cnf.reading.sources import parse_numbers, read_bytes, show

KEYWORD = re.compile(rb"(ST)?(C)?(N)?OFF\Z")
WIDTHS = {3: 0, 6: 3, 7: 4}  # numbers of a point without normals -> of its colour
LONGEST, MOST = 12, 2**40  # digits of a count; vertex numbers are held below this


def read_off(source: Path) -> Decoded:
    """Decode an OFF file that `check_source` has passed."""
    lines = read_bytes(source).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    rows = [number for number, line in enumerate(lines) if line.split(b"#", 1)[0].strip()]
    words = lines[rows[0]].split(b"#", 1)[0].split() if rows else []
    kind = KEYWORD.match(words[0]) if words else None
    if kind is None:
        raise FileError(
            f"{source} is not an OFF file that is read here: it starts with {show(words[0] if words else b'')}; "
            "expected OFF, COFF, NOFF or CNOFF, as text"
        )
    counts, rows = (words[1:], rows[1:]) if len(words) > 1 else (words_of(lines, rows[1:2]), rows[2:])
    vertices, faces = check_counts(counts, len(rows), source)
    table = read_rows(lines, rows[:vertices], 0, source) if vertices else np.empty((0, 3))
    table = table[:, :-2] if kind[1] else table  # texture coordinates come last
    points, normals, attributes = split_columns(table, kind[3] is not None, source)
    corners, sizes = read_polygons(lines, rows[vertices : vertices + faces], source)
    notes: tuple[str, ...] = ()
    if (sizes > 3).any():
        notes = (f"{(sizes > 3).sum()} polygons of more than 3 corners were split into triangles",)
    triangles = check_faces(triangulate(corners, sizes), vertices, source)
    return Decoded(points, normals, triangles if len(triangles) else None, attributes, notes)


def words_of(lines: list[bytes], rows: list[int]) -> list[bytes]:
    """The words on some lines, without comments."""
    return [word for row in rows for word in lines[row].split(b"#", 1)[0].split()]


def check_counts(words: list[bytes], there: int, source: Path) -> tuple[int, int]:
    """Numbers of vertices and faces, if there are as many lines."""
    numbers = [int(word) for word in words[:3] if word.isdigit() and len(word) <= LONGEST]
    if len(numbers) < 2 or len(numbers) != len(words):
        raise FileError(
            f"{source}: {show(b' '.join(words))} should be the numbers of vertices, faces and edges, as text"
        )
    if numbers[0] + numbers[1] > there:
        raise FileError(
            f"{source} promises {numbers[0]} vertices and {numbers[1]} faces, but has {there} lines for them: it was "
            "cut short or is damaged"
        )
    return numbers[0], numbers[1]


def split_columns(
    table: np.ndarray, directed: bool, source: Path
) -> tuple[np.ndarray, np.ndarray | None, dict[str, np.ndarray]]:
    """Points, normals and colours of 0 to 1."""
    width = table.shape[1]
    if width < (6 if directed else 3):
        raise FileError(f"{source}: its points have {width} numbers each; expected {6 if directed else 3} or more")
    normals = table[:, 3:6].copy() if directed else None
    colours = WIDTHS.get(width - 3 * directed, 0)
    attributes = {}
    if colours and len(table):
        values = table[:, -colours:][:, :3]
        attributes["colours"] = values / (255 if values.max() > 1 else 1)
    return table[:, :3].copy(), normals, attributes


def read_polygons(lines: list[bytes], rows: list[int], source: Path) -> tuple[np.ndarray, np.ndarray]:
    """Vertex numbers of all polygons in a row, and how many each has; a colour behind them is left out."""
    if not rows:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    parts = [lines[row].split(b"#", 1)[0].split() for row in rows]
    sizes = parse_numbers(b"\n".join(part[0] for part in parts), source, "sizes of faces")
    lengths = np.array([len(part) - 1 for part in parts])
    wrong = (sizes != np.rint(sizes)) | (sizes < 0) | (sizes > lengths)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise FileError(
            f"{source}, line {rows[row] + 1}: {show(lines[rows[row]])} should be a number of corners and the corners"
        )
    counts = sizes.astype(np.int64)
    words = b" ".join(word for part, size in zip(parts, counts.tolist(), strict=True) for word in part[1 : size + 1])
    corners = parse_numbers(words, source, "corners of faces")
    if not (corners == np.rint(corners)).all():
        raise FileError(f"{source}: its faces have vertex numbers that are not whole")
    return np.clip(corners, -1, MOST).astype(np.int64), counts
