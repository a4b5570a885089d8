"""Files, reading PLY: the header. Bytes come in, the list of elements with their properties comes out.

Our own reader rather than trimesh's: per-point properties of any name are kept, counts are checked against the size of
the file before memory is asked for, and point clouds can be read without an optional package. (plyfile is GPL.)
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cnf.errors import FileError
from cnf.reading.sources import show

LONGEST = 1 << 18  # bytes of a header
MOST = 512  # elements or properties
TYPES = {
    **dict.fromkeys(["char", "int8"], "i1"),
    **dict.fromkeys(["uchar", "uint8"], "u1"),
    **dict.fromkeys(["short", "int16"], "i2"),
    **dict.fromkeys(["ushort", "uint16"], "u2"),
    **dict.fromkeys(["int", "int32"], "i4"),
    **dict.fromkeys(["uint", "uint32"], "u4"),
    **dict.fromkeys(["long", "int64", "longlong"], "i8"),
    **dict.fromkeys(["ulong", "uint64", "ulonglong"], "u8"),
    **dict.fromkeys(["float", "float32"], "f4"),
    **dict.fromkeys(["double", "float64"], "f8"),
}
FORMATS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}


@dataclass(frozen=True)
class Property:
    """One column of an element; with `length`, a list whose length has that type."""

    name: str
    kind: str  # NumPy's letter and bytes, such as f4
    length: str | None = None


@dataclass(frozen=True)
class Element:
    """A table of the file: how many rows, and its columns."""

    name: str
    count: int
    properties: tuple[Property, ...]

    @property
    def has_lists(self) -> bool:
        """Whether rows differ in size."""
        return any(p.length for p in self.properties)

    def row_type(self, order: str) -> np.dtype:
        """The layout of one row without lists, for a byte order of < or >."""
        return np.dtype([(p.name, order + p.kind) for p in self.properties])


@dataclass(frozen=True)
class Header:
    """Elements in the order of the file, the byte order (empty: ascii), where the body starts and on which line."""

    elements: tuple[Element, ...]
    order: str
    start: int
    lines: int


def read_header(opening: bytes, source: Path) -> Header:
    """Read the header at the start of a file; `opening` is its first LONGEST bytes or all of it."""
    if not opening.startswith((b"ply\n", b"ply\r", b"ply \n")):
        raise FileError(f"{source} is not a PLY file: it starts with {show(opening[:12])}, not with 'ply'")
    breaks = b"\r\n" if b"\r\n" in opening[:5] else opening[3:4] if opening[3:4] == b"\r" else b"\n"
    elements: list[tuple[str, int, list[Property]]] = []
    order: str | None = None
    position, number = 0, 0
    while True:
        end = opening.find(breaks, position)
        if end < 0:
            raise FileError(f"{source} has no end_header in its first {len(opening)} bytes: cut short, or damaged")
        line = opening[position:end].strip()
        position, number = end + len(breaks), number + 1
        words_in = line.split()
        if not words_in or number == 1 or words_in[0] in (b"comment", b"obj_info"):
            continue  # comments may be in any encoding
        place = f"{source}, line {number}"
        try:
            words = [word.decode("ascii") for word in words_in]
        except UnicodeDecodeError:
            raise FileError(f"{place}: {show(line)} is not ASCII text, so no header of a PLY file") from None
        if words == ["end_header"]:
            break
        if words[0] == "format":
            order = read_format(words, place)
        elif words[0] == "element":
            elements.append(read_element(words, [name for name, _, _ in elements], place))
        elif words[0] == "property":
            if not elements:
                raise FileError(f"{place}: a property before the first element")
            elements[-1][2].append(read_property(words, [p.name for p in elements[-1][2]], place))
        else:
            raise FileError(f"{place}: {show(line)} is not a line of a PLY header")
    if order is None:
        raise FileError(f"{source}: its header has no line 'format ascii 1.0' or 'format binary_little_endian 1.0'")
    found = tuple(Element(name, count, tuple(properties)) for name, count, properties in elements)
    return Header(found, order, position, number)


def read_format(words: list[str], place: str) -> str:
    """The byte order in 'format binary_little_endian 1.0'."""
    if len(words) != 3 or words[1] not in FORMATS or words[2] != "1.0":
        raise FileError(f"{place}: {' '.join(words)!r} is no known format; expected one of {', '.join(FORMATS)}, 1.0")
    return FORMATS[words[1]]


def read_element(words: list[str], before: list[str], place: str) -> tuple[str, int, list[Property]]:
    """'element vertex 8'."""
    if len(words) != 3 or not words[2].isdigit() or len(words[2]) > 15:
        raise FileError(f"{place}: {' '.join(words)[:60]!r} should be 'element', a name and a count")
    if words[1] in before or len(before) >= MOST:
        raise FileError(f"{place}: element {words[1][:60]!r} comes twice or is one of too many")
    return words[1], int(words[2]), []


def read_property(words: list[str], before: list[str], place: str) -> Property:
    """'property float x' or 'property list uchar int vertex_indices'."""
    is_list = len(words) == 5 and words[1] == "list"
    kinds = words[2:4] if is_list else words[1:2]
    if not is_list and len(words) != 3:
        raise FileError(f"{place}: {' '.join(words)[:60]!r} should be 'property', a type and a name")
    for kind in kinds:
        if kind not in TYPES:
            raise FileError(f"{place}: {kind[:60]!r} is not a type of PLY; expected one of {', '.join(TYPES)}")
    if is_list and TYPES[kinds[0]][0] == "f":
        raise FileError(f"{place}: the length of a list must be an integer, not {kinds[0]}")
    if words[-1] in before or len(before) >= MOST:
        raise FileError(f"{place}: property {words[-1][:60]!r} comes twice or is one of too many")
    return Property(words[-1], TYPES[kinds[-1]], TYPES[kinds[0]] if is_list else None)
