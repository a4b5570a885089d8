"""Shapes, the collection: PLY files whose triangles are strips, as those of Stanford's and Cyberware's scans are.

In comes a little-endian binary file with `element vertex` (floats alone) and `element tristrips` (one list of ints);
out goes a mesh. Every vertex of a strip makes a triangle with the two before it, every other one turned around; -1
ends a strip. Other files are for `cnf.shapes.files.reading`.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from cnf.errors import FileError
from cnf.meshes.mesh import Mesh

HEADER = re.compile(
    rb"ply\s+format binary_little_endian 1\.0\s+(?:comment[^\n]*\n)*"
    rb"element vertex (\d+)\s+((?:property float \w+\s+){3,})"
    rb"element tristrips 1\s+property list u?int u?int vertex_ind(?:ices|ex)\s+end_header\r?\n"
)
LARGEST_HEADER = 4096  # bytes


def has_strips(path: Path) -> bool:
    """Whether the header speaks of strips."""
    with path.open("rb") as stream:
        return b"element tristrips" in stream.read(LARGEST_HEADER)


def read_strips(path: Path) -> Mesh:
    """The mesh of a file of strips; x, y, z are the first three numbers of a vertex."""
    content = path.read_bytes()
    header = HEADER.match(content[:LARGEST_HEADER])
    if header is None:
        raise FileError(f"{path} has triangle strips in a layout that is not known here; save it with faces instead")
    count, width = int(header[1]), header[2].count(b"property")
    start = header.end() + 4 * count * width
    try:
        numbers = np.frombuffer(content, "<f4", count * width, header.end())
        (length,) = np.frombuffer(content, "<i4", 1, start)
        strip = np.frombuffer(content, "<i4", length, start + 4)
    except ValueError:
        raise FileError(f"{path} ends early: its header promises {count} vertices and their strips") from None
    return Mesh(numbers.reshape(count, width)[:, :3].astype(np.float64), cut_strips(strip))


def cut_strips(strip: np.ndarray) -> np.ndarray:
    """Triangles (F, 3) of strips that -1 separates."""
    ends = strip < 0
    place = np.arange(len(strip))
    began = np.maximum.accumulate(np.where(ends, place + 1, 0))  # where the strip of every place starts
    corners = np.stack([strip[:-2], strip[1:-1], strip[2:]], axis=1).astype(np.int64)
    odd = (place[2:] - began[2:]) % 2 == 1
    corners[odd] = corners[odd][:, [1, 0, 2]]
    a, b, c = corners.T
    return corners[(corners >= 0).all(axis=1) & (a != b) & (b != c) & (c != a)]
