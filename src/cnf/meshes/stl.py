"""Files, reading STL: binary or ascii triangles without shared corners. A path comes in, `Decoded` comes out."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from cnf.errors import FileError
from cnf.meshes.decoded import Decoded
from cnf.meshes.mesh import Mesh
from cnf.reading.sources import parse_numbers, read_bytes

TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("colour", "<u2")])
HEAD = 84  # a title of 80 bytes, and the number of triangles


def read_stl(source: Path) -> Decoded:
    """Decode an STL file that `check_source` has passed; corners at the same place become one vertex."""
    data = read_bytes(source)
    promised = int.from_bytes(data[80:HEAD], "little") if len(data) >= HEAD else 0
    if data[:5].lower() == b"solid" and len(data) != HEAD + promised * TRIANGLE.itemsize:
        body = b"\n".join(re.findall(rb"^\s*vertex\s+(.*)$", data, flags=re.MULTILINE))
        corners = parse_numbers(body, source, "corners")
        if len(corners) == 0 or len(corners) % 9:
            raise FileError(f"{source}: {len(corners)} numbers in lines 'vertex x y z' make no triangles; cut short?")
    else:
        if len(data) < HEAD + promised * TRIANGLE.itemsize or not promised:
            raise FileError(
                f"{source} promises {promised} triangles in {HEAD + promised * TRIANGLE.itemsize} bytes, but has "
                f"{len(data)} bytes: it was cut short, or is no STL file"
            )
        corners = np.frombuffer(data, TRIANGLE, promised, offset=HEAD)["corners"].astype(np.float64)
    vertices = np.ascontiguousarray(corners).reshape(-1, 3)
    if not np.isfinite(vertices).all():
        raise FileError(f"{source}: a corner of its triangles is not finite; the file is damaged")
    mesh = Mesh(vertices, np.arange(len(vertices)).reshape(-1, 3)).weld()
    return Decoded(mesh.vertices, None, mesh.faces)
