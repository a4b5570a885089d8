"""Files, reading NumPy's files: NPZ with points, normals and attributes by name, NPY with columns as in a table.

A path comes in, `Decoded` comes out. Sizes in the headers are compared with the file before memory is asked for, and
nothing is unpickled.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cnf.errors import FileError
from cnf.meshes.decoded import Decoded, check_faces
from cnf.reading.arrays import read_array, read_arrays, table_of
from cnf.shapes.files.tables import decode_unnamed

POINTS, NORMALS, FACES = ("points", "vertices", "xyz"), ("normals",), ("faces",)


def read_npy(source: Path) -> Decoded:
    """Decode an NPY file of (P, 2), (P, 3) or (P, 6) numbers."""
    with source.open("rb") as file:
        return decode_unnamed(table_of(read_array(file, source.stat().st_size, source, "it"), source, "it"), source)


def read_npz(source: Path) -> Decoded:
    """Decode an NPZ archive: points, normals and faces by name, all else with P rows as attributes."""
    arrays = read_arrays(source)
    key = next((name for name in POINTS if name in arrays), None)
    if key is None:
        raise FileError(f"{source} has no array 'points'; it has {', '.join(sorted(arrays))[:200] or 'none'}")
    points = table_of(arrays.pop(key), source, f"its array {key!r}")
    if points.shape[1] not in (2, 3):
        raise FileError(f"{source}: its array {key!r} has shape {points.shape}; expected (P, 3) or (P, 2)")
    normals = next((table_of(arrays.pop(n), source, f"its array {n!r}") for n in NORMALS if n in arrays), None)
    if normals is not None and normals.shape != points.shape:
        raise FileError(f"{source}: its normals have shape {normals.shape}, its points {points.shape}")
    faces = arrays.pop("faces") if "faces" in arrays and points.shape[1] == 3 else None
    if faces is not None:
        if faces.ndim != 2 or faces.shape[1] != 3 or faces.dtype.kind not in "iu":
            raise FileError(f"{source}: its faces have shape {faces.shape} of {faces.dtype}; expected (F, 3) integers")
        faces = check_faces(faces.astype(np.int64), len(points), source) if len(faces) else None
    attributes, unused = {}, []
    for name, array in arrays.items():
        if array.ndim in (1, 2) and len(array) == len(points) and array.dtype.kind in "biuf":
            attributes[name] = array.astype(np.float64) / (255 if name == "colours" and array.dtype == np.uint8 else 1)
        else:
            unused.append(name)
    notes = (f"not used, as they are not one row of numbers per point: {', '.join(unused)[:200]}",) if unused else ()
    return Decoded(points, normals, faces, attributes, notes)
