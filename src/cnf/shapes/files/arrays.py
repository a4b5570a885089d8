"""Data, reading NumPy's files: NPZ with points, normals and attributes by name, NPY with columns as in a table.

A path comes in, `Decoded` comes out. Sizes in the headers are compared with the file before memory is asked for, and
nothing is unpickled.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np

from cnf.data.sources import Decoded, check_faces
from cnf.data.tables import decode_unnamed
from cnf.errors import FileError
from cnf.files import LARGEST

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


def read_arrays(source: Path, largest: int = LARGEST) -> dict[str, np.ndarray]:
    """All arrays of an NPZ archive that unpacks to at most `largest` bytes."""
    arrays: dict[str, np.ndarray] = {}
    try:
        with zipfile.ZipFile(source) as archive:
            entries = [entry for entry in archive.infolist() if entry.filename.endswith(".npy")]
            unpacked = sum(entry.file_size for entry in entries)
            if unpacked > largest:
                raise FileError(f"{source} unpacks to {unpacked} bytes; at most {largest} are read")
            for entry in entries:
                name = entry.filename.removesuffix(".npy")
                with archive.open(entry) as file:
                    arrays[name] = read_array(file, entry.file_size, source, f"its array {name[:40]!r}")
    except FileError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError) as error:
        raise FileError(f"{source} is damaged or not an NPZ archive ({type(error).__name__})") from None
    return arrays


def read_array(file: IO[bytes], size: int, source: Path, what: str) -> np.ndarray:
    """One array in NPY format, whose header must fit the `size` bytes that are there."""
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        if dtype.hasobject or math.prod(shape) * dtype.itemsize + file.tell() > size:
            kind = "Python objects" if dtype.hasobject else f"shape {shape}, more than the {size} bytes there are"
            raise FileError(f"{source}: {what} has {kind}; it is damaged or not plain numbers, and is not read")
        file.seek(0)
        return np.load(file, allow_pickle=False)
    except FileError:
        raise
    except Exception as error:  # NumPy reads the header as Python's tokens, which fail in many ways
        raise FileError(f"{source}: {what} cannot be read as numbers ({type(error).__name__})") from None


def table_of(array: np.ndarray, source: Path, what: str) -> np.ndarray:
    """As (P, k) float64."""
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise FileError(f"{source}: {what} has shape {array.shape} of {array.dtype}; expected a row of numbers each")
    return array.astype(np.float64)
