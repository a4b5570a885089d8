"""Reflectance, tensor files: named arrays in one binary file, the container of the `.bsdf` measurements.

A path comes in, a dictionary of arrays comes out, and the other way round. Layout, little endian: the magic
`tensor_file` with a zero byte, two bytes of version, the number of fields (uint32), then for each field the length of
its name (uint16), the name, the number of axes (uint16), the kind of number (uint8), the place of its data from the
start of the file (uint64) and its shape (uint64 per axis). The data follow, each at a multiple of eight bytes. Every
number of the header is compared with the file before it is used.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from cnf.errors import FileError
from cnf.files import write_atomically
from cnf.reading.sources import check_source, read_bytes

MAGIC = b"tensor_file\0"
VERSION = (1, 0)
LARGEST_FILE = 2**30  # bytes; the largest published measurement has a tenth of this
MOST_FIELDS, MOST_AXES, LONGEST_NAME = 1024, 16, 256
KINDS = {1: "u1", 2: "i1", 3: "<u2", 4: "<i2", 5: "<u4", 6: "<i4", 7: "<u8", 8: "<i8", 9: "<f2", 10: "<f4", 11: "<f8"}
CODES = {np.dtype(kind): code for code, kind in KINDS.items()}


def read_tensor_file(path: object) -> dict[str, np.ndarray]:
    """The arrays of a tensor file by name, in the order of the file; read-only views of one buffer."""
    source = check_source(path)
    if source.stat().st_size > LARGEST_FILE:
        raise FileError(f"{source} has {source.stat().st_size} bytes; at most {LARGEST_FILE} of a tensor file are read")
    content = read_bytes(source)
    if not content.startswith(MAGIC):
        raise FileError(f"{source} is not a tensor file: it does not begin with 'tensor_file'")
    header = Header(content, source)
    major, minor, count = header.take("BBI")
    if major != VERSION[0]:
        raise FileError(f"{source} is a tensor file of version {major}.{minor}; only version 1 is read")
    if count > MOST_FIELDS:
        raise FileError(f"{source} is damaged: it claims {count} fields; at most {MOST_FIELDS} are read")
    fields: dict[str, np.ndarray] = {}
    for _ in range(count):
        name, field = header.take_field()
        if name in fields:
            raise FileError(f"{source} is damaged: its field {name!r} is there twice")
        fields[name] = field
    return fields


def write_tensor_file(path: object, fields: Mapping[str, np.ndarray]) -> Path:
    """Write arrays of numbers by name; read back by `read_tensor_file` bit for bit."""
    arrays = {name: np.asarray(field) for name, field in fields.items()}
    arrays = {name: np.ascontiguousarray(a, a.dtype.newbyteorder("<")).reshape(a.shape) for name, a in arrays.items()}
    names = {name: name.encode("utf-8") for name in arrays}
    for name, array in arrays.items():
        if array.dtype not in CODES:
            raise FileError(f"field {name!r} has the type {array.dtype}; a tensor file holds integers and floats")
        if not 0 < len(names[name]) <= LONGEST_NAME or array.ndim > MOST_AXES:
            raise FileError(f"field {name[:40]!r} has a name or a shape that a tensor file cannot hold")
    if len(arrays) > MOST_FIELDS:
        raise FileError(f"{len(arrays)} fields; a tensor file holds at most {MOST_FIELDS}")
    end = len(MAGIC) + 6 + sum(2 + len(names[name]) + 11 + 8 * array.ndim for name, array in arrays.items())
    header, places = MAGIC + struct.pack("<BBI", *VERSION, len(arrays)), []
    for name, array in arrays.items():
        end += -end % 8
        places.append(end)
        header += struct.pack("<H", len(names[name])) + names[name]
        header += struct.pack(f"<HBQ{array.ndim}Q", array.ndim, CODES[array.dtype], end, *array.shape)
        end += array.nbytes
    if end > LARGEST_FILE:
        raise FileError(f"cannot write {path}: it would have {end} bytes; at most {LARGEST_FILE} are read back")

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            file.write(header)
            for place, array in zip(places, arrays.values(), strict=True):
                file.write(b"\0" * (place - file.tell()))
                file.write(array.tobytes())

    return write_atomically(path, write)


class Header:
    """A place in the header that moves forward; whatever lies outside of the file is refused."""

    def __init__(self, content: bytes, source: Path):
        self.content, self.source, self.place = content, source, len(MAGIC)

    def take(self, layout: str) -> tuple[int, ...]:
        """The next numbers of the header."""
        size = struct.calcsize("<" + layout)
        if self.place + size > len(self.content):
            raise FileError(f"{self.source} is damaged: it ends within its header, after {len(self.content)} bytes")
        numbers = struct.unpack_from("<" + layout, self.content, self.place)
        self.place += size
        return numbers

    def take_field(self) -> tuple[str, np.ndarray]:
        """The next field's name and its array."""
        (length,) = self.take("H")
        if not 0 < length <= LONGEST_NAME:
            raise FileError(f"{self.source} is damaged: a field's name has {length} bytes")
        (encoded,) = self.take(f"{length}s")
        try:
            name = encoded.decode("utf-8")  # type: ignore[attr-defined]
        except UnicodeDecodeError:
            raise FileError(f"{self.source} is damaged: a field's name is not text") from None
        axes, code, offset = self.take("HBQ")
        if axes > MOST_AXES or code not in KINDS:
            raise FileError(
                f"{self.source} is damaged: its field {name!r} has {axes} axes and numbers of the kind {code}"
            )
        shape = self.take(f"{axes}Q")
        kind, size = np.dtype(KINDS[code]), math.prod(shape)  # Python's integers: the product cannot overflow
        if offset + size * kind.itemsize > len(self.content) or max(shape, default=0) > len(self.content):
            raise FileError(
                f"{self.source} is damaged or cut short: its field {name!r} needs {size * kind.itemsize} bytes "
                f"from {offset} on, the file has {len(self.content)}"
            )
        return name, np.frombuffer(self.content, kind, size, offset if size else 0).reshape(shape)
