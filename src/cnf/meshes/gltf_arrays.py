"""Files, reading glTF: the JSON and the arrays behind it. A path comes in, `Asset` comes out.

Either a GLB, which has its numbers within, or a .gltf whose numbers are in `data:` addresses. Any other address would
have us read a file or a server that a stranger names, so it is refused. Every size is compared with the bytes that are
there before an array is made, and arrays are views of these bytes.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from cnf.errors import FileError
from cnf.reading.sources import read_bytes, show

MAGIC, JSON, BINARY = b"glTF", 0x4E4F534A, 0x004E4942
LONGEST = 2**24  # bytes of JSON; the numbers are elsewhere
KINDS = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
COLUMNS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4}
PACKED = ("KHR_draco_mesh_compression", "EXT_meshopt_compression", "KHR_meshopt_compression")


@dataclass(frozen=True, eq=False)
class Asset:
    """The entries of a file, and its buffers; whatever an entry says is checked where it is used."""

    entries: dict[str, Any]
    buffers: tuple[memoryview, ...]
    source: Path
    size: int  # bytes of the file

    def find(self, kind: str, number: object) -> dict[str, Any]:
        """Entry `number` of the list `kind`, such as "meshes"."""
        listed = self.entries.get(kind, [])
        if not isinstance(listed, list) or not is_count(number) or number >= len(listed):
            raise FileError(f"{self.source}: there is no entry {show_entry(number)} among its {kind}")
        found = listed[number]
        if not isinstance(found, dict):
            raise FileError(f"{self.source}: entry {number} of its {kind} is no object")
        return found

    def array(self, number: object, columns: tuple[int, ...]) -> np.ndarray:
        """The numbers of an accessor, (count, k) with k one of `columns`; whole numbers that mean shares as floats."""
        accessor = self.find("accessors", number)
        place = f"{self.source}: accessor {number}"
        if "sparse" in accessor or "bufferView" not in accessor:
            raise FileError(f"{place} is sparse, which is not read here; save the file without that")
        kind, width = KINDS.get(as_key(accessor.get("componentType"))), COLUMNS.get(as_key(accessor.get("type")))
        if kind is None or width not in columns:
            raise FileError(f"{place} has {show_entry(accessor.get('type'))}; expected {columns} numbers each")
        view = self.find("bufferViews", accessor["bufferView"])
        self.find("buffers", view.get("buffer"))
        data = self.buffers[view["buffer"]]
        item = np.dtype(kind).itemsize * width
        count, first, begin, length = (
            self._count(entry, key, place)
            for entry, key in (
                (accessor, "count"),
                (accessor, "byteOffset"),
                (view, "byteOffset"),
                (view, "byteLength"),
            )
        )
        stride = self._count(view, "byteStride", place) or item
        needed = first + (count - 1) * stride + item if count else 0
        if begin + length > len(data) or needed > length or stride < item:
            raise FileError(f"{place} asks for {needed} bytes of {length}, which are not there: cut short, or damaged")
        steps = (stride, np.dtype(kind).itemsize)
        values: np.ndarray = np.ndarray((count, width), kind, data, begin + first if count else 0, steps)
        if accessor.get("normalized") is True and kind[1] in "iu":
            return np.maximum(values / np.iinfo(values.dtype).max, -1.0)
        return values

    def _count(self, entry: dict[str, Any], key: str, place: str) -> int:
        value = entry.get(key, 0)
        if not is_count(value):
            raise FileError(f"{place}: its {key} is {show_entry(value)}; expected a whole number")
        return value


def is_count(value: object) -> TypeGuard[int]:
    """A whole number that can be one of bytes or entries."""
    return type(value) is int and 0 <= value < 2**48


def as_key(value: object) -> Any:
    """What can be looked up."""
    return value if isinstance(value, int | str) else None


def show_entry(value: object) -> str:
    """A value of the JSON for messages, short."""
    return show(repr(value)[:60].encode())


def read_asset(source: Path) -> Asset:
    """The JSON and the buffers of a .glb or .gltf file."""
    content = memoryview(read_bytes(source))
    text, binary = split_chunks(content, source) if content[:4] == MAGIC else (content, None)
    if len(text) > LONGEST:
        raise FileError(f"{source} has {len(text)} bytes of JSON; at most {LONGEST} are read: save it as .glb")
    try:
        entries = json.loads(bytes(text))
    except (ValueError, RecursionError):
        raise FileError(f"{source} is not glTF: its JSON cannot be read") from None
    if not isinstance(entries, dict) or not isinstance(entries.get("asset"), dict):
        raise FileError(f"{source} is not glTF: its JSON has no 'asset'")
    if not str(entries["asset"].get("version", "")).startswith("2."):
        raise FileError(f"{source} is glTF {show_entry(entries['asset'].get('version'))}; version 2 is read")
    required = entries.get("extensionsRequired", [])
    packed = [name for name in PACKED if isinstance(required, list) and name in required]
    if packed:
        raise FileError(f"{source} is packed with {packed[0]}, which is not read here; save it without compression")
    listed = entries.get("buffers", [])
    if not isinstance(listed, list):
        raise FileError(f"{source}: its buffers are no list")
    buffers = tuple(open_buffer(entry, number, binary, source) for number, entry in enumerate(listed))
    return Asset(entries, buffers, source, len(content))


def split_chunks(content: memoryview, source: Path) -> tuple[memoryview, memoryview | None]:
    """The JSON of a GLB and the binary part behind it, if there is one."""
    version, length = (int.from_bytes(content[k : k + 4], "little") for k in (4, 8))
    if len(content) < 20 or version != 2 or length > len(content):
        raise FileError(
            f"{source} is GLB version {version} of {length} bytes, but has {len(content)}; version 2 is read: cut "
            "short, or damaged"
        )
    chunks: list[tuple[int, memoryview]] = []
    start = 12
    while start + 8 <= length and len(chunks) < 2:
        size, kind = (int.from_bytes(content[start + k : start + k + 4], "little") for k in (0, 4))
        if start + 8 + size > length:
            raise FileError(f"{source} promises a part of {size} bytes, but has {length - start - 8}: cut short?")
        chunks.append((kind, content[start + 8 : start + 8 + size]))
        start += 8 + size
    if not chunks or chunks[0][0] != JSON:
        raise FileError(f"{source} is no GLB: its first part is not JSON")
    return chunks[0][1], chunks[1][1] if len(chunks) > 1 and chunks[1][0] == BINARY else None


def open_buffer(entry: object, number: int, binary: memoryview | None, source: Path) -> memoryview:
    """The bytes of a buffer: the binary part of a GLB, or of a `data:` address; no other file is opened."""
    uri = entry.get("uri") if isinstance(entry, dict) else None
    if uri is None:
        if number == 0 and binary is not None:
            return binary
        raise FileError(f"{source}: its buffer {number} has no numbers")
    head, comma, body = uri.partition(",") if isinstance(uri, str) else ("", "", "")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        raise FileError(
            f"{source} keeps its numbers elsewhere ({show_entry(uri)}), and no other file or address is opened; save "
            "it as .glb, which is one file"
        )
    try:
        return memoryview(base64.b64decode(body, validate=True))
    except (binascii.Error, ValueError):
        raise FileError(f"{source}: its buffer {number} is not base64") from None
