"""Reading NumPy's files: NPZ archives and NPY arrays of plain numbers, with nothing unpickled.

Sizes in the headers are compared with the file before memory is asked for.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np

from cnf.errors import FileError
from cnf.files import LARGEST


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
