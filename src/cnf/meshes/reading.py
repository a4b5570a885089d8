"""Meshes from files: STL, OBJ or PLY by the ending. A path comes in, points and faces come out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cnf.errors import FileError
from cnf.meshes.decoded import Decoded, check_finite, decode_file
from cnf.meshes.mesh import Mesh
from cnf.meshes.obj import read_obj
from cnf.meshes.ply import read_ply
from cnf.meshes.stl import read_stl
from cnf.reading.sources import check_source

READERS: dict[str, Callable[[Path], Decoded]] = {".ply": read_ply, ".obj": read_obj, ".stl": read_stl}
LARGEST = 2**29  # bytes


def read_surface(path: object) -> Mesh:
    """The triangles of an STL, OBJ or PLY file; polygons are cut into triangles."""
    source = check_source(path, LARGEST)
    decoded = decode_file(source, READERS)
    check_finite(decoded.points, source)
    if decoded.faces is None or not len(decoded.faces):
        raise FileError(f"{source} has {len(decoded.points)} points but no faces: it bounds nothing")
    if decoded.points.shape[1] != 3:
        raise FileError(f"{source}: faces need points with x, y and z")
    return Mesh(decoded.points, decoded.faces)
