"""Files, reading PCD, the format of the Point Cloud Library: ascii, binary and binary_compressed.

A path comes in, `Decoded` comes out. What the header promises is compared with the size of the file before memory is
asked for. Points that were not measured are NaN in this format; they are left out, and a note says how many.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cnf.errors import FileError
from cnf.meshes.decoded import Decoded
from cnf.reading.sources import parse_numbers, read_bytes, show
from cnf.shapes.files.lzf import unpack_lzf

LONGEST, MOST_LINES, MOST_FIELDS, MOST_COLUMNS = 1 << 16, 200, 256, 4096  # bytes and lines of a header; its fields
KEYS = ("VERSION", "FIELDS", "SIZE", "TYPE", "COUNT", "WIDTH", "HEIGHT", "VIEWPOINT", "POINTS", "DATA")
KINDS = {(kind, size) for kind in "IU" for size in (1, 2, 4, 8)} | {("F", 4), ("F", 8)}
DATA = ("ascii", "binary", "binary_compressed")
AXES, DIRECTIONS = ("x", "y", "z"), ("normal_x", "normal_y", "normal_z")
PACKED = ("rgb", "rgba")  # three bytes of colour in the bits of one number
PADDING = "_"


@dataclass(frozen=True)
class Field:
    """One thing said of a point: its name, NumPy's type of little-endian numbers, and how many of them."""

    name: str
    kind: str
    count: int

    @property
    def size(self) -> int:
        """Bytes in a point."""
        return int(self.kind[-1]) * self.count


@dataclass(frozen=True)
class Layout:
    """What a header says: the fields of a point, how many points, how they are written, and where they begin."""

    fields: tuple[Field, ...]
    points: int
    data: str
    start: int  # byte of the file
    line: int  # that the points begin on


def read_pcd(source: Path) -> Decoded:
    """Decode a PCD file that `check_source` has passed."""
    content = read_bytes(source)
    layout = read_layout(content, source)
    body = memoryview(content)[layout.start :]
    read = {"ascii": read_ascii, "binary": read_binary, "binary_compressed": read_packed}[layout.data]
    return decode_columns(read(body, layout, source), layout, source)


# ---- header


def read_layout(content: bytes, source: Path) -> Layout:
    """The header, which ends with the line DATA."""
    entries: dict[str, list[str]] = {}
    position, number = 0, 0
    while "DATA" not in entries:
        end = content.find(b"\n", position, position + LONGEST)
        if end < 0 or number >= MOST_LINES:
            raise FileError(f"{source} is not a PCD file, or cut short: there is no line DATA in its header")
        words = content[position:end].split(b"#", 1)[0].decode("ascii", errors="replace").split()
        position, number = end + 1, number + 1
        if not words:
            continue
        if words[0] not in KEYS or words[0] in entries:
            raise FileError(f"{source}, line {number}: {show(' '.join(words).encode())} is no line of a PCD header")
        entries[words[0]] = words[1:]
    if entries["DATA"] not in [[name] for name in DATA]:
        raise FileError(f"{source}: its DATA is {' '.join(entries['DATA'])[:40]!r}; expected one of {', '.join(DATA)}")
    return Layout(read_fields(entries, source), count_points(entries, source), entries["DATA"][0], position, number + 1)


def read_fields(entries: dict[str, list[str]], source: Path) -> tuple[Field, ...]:
    """FIELDS with their SIZE, TYPE and COUNT, as many of each."""
    names = entries.get("FIELDS", [])
    sizes, types = entries.get("SIZE", []), entries.get("TYPE", [])
    counts = entries.get("COUNT", ["1"] * len(names))
    if not 0 < len(names) <= MOST_FIELDS or not len(names) == len(sizes) == len(types) == len(counts):
        raise FileError(
            f"{source}: its header has {len(names)} FIELDS, {len(sizes)} SIZE, {len(types)} TYPE and {len(counts)} "
            f"COUNT; expected as many of each, up to {MOST_FIELDS}"
        )
    fields = []
    for name, size, kind, count in zip(names, sizes, types, counts, strict=True):
        if not size.isdigit() or len(size) > 2 or (kind, int(size)) not in KINDS:
            raise FileError(
                f"{source}: field {name[:40]!r} has TYPE {kind[:9]!r} and SIZE {size[:9]!r}; unknown in PCD"
            )
        if not count.isdigit() or len(count) > 4 or not 0 <= int(count) <= MOST_COLUMNS:
            raise FileError(f"{source}: field {name[:40]!r} has COUNT {count[:9]!r}; expected up to {MOST_COLUMNS}")
        fields.append(Field(name, f"<{kind.lower()}{size}", int(count)))
    named = [field.name for field in fields if field.name != PADDING]
    if len(set(named)) != len(named):
        raise FileError(f"{source}: one of its FIELDS comes twice: {', '.join(named)[:200]}")
    return tuple(fields)


def count_points(entries: dict[str, list[str]], source: Path) -> int:
    """POINTS, or WIDTH times HEIGHT."""
    found: dict[str, int] = {}
    for key in ("POINTS", "WIDTH", "HEIGHT"):
        words = entries.get(key)
        if words is None:
            continue
        if len(words) != 1 or not words[0].isdigit() or len(words[0]) > 12:
            raise FileError(f"{source}: its {key} is {' '.join(words)[:40]!r}; expected a count")
        found[key] = int(words[0])
    area = found["WIDTH"] * found.get("HEIGHT", 1) if "WIDTH" in found else None
    points = found.get("POINTS", area)
    if points is None or area not in (None, points):
        raise FileError(f"{source}: POINTS is {points}, WIDTH times HEIGHT {area}; expected the same number")
    return points


# ---- points: one array (P, count) per field


def read_ascii(body: memoryview, layout: Layout, source: Path) -> list[np.ndarray]:
    """Numbers in rows; packed colours are given back the bits they had."""
    width = sum(field.count for field in layout.fields)
    needed = layout.points * width
    if 2 * needed > len(body) + 1:
        raise promise(layout, 2 * needed - 1, len(body), source)
    numbers = parse_numbers(bytes(body), source, "points of a PCD file", layout.line)
    if len(numbers) != needed:
        raise FileError(f"{source} promises {layout.points} points of {width} numbers, but has {len(numbers)} numbers")
    ends = np.cumsum([field.count for field in layout.fields])
    columns = np.split(numbers.reshape(layout.points, width), ends[:-1], axis=1)
    with np.errstate(all="ignore"):
        return [
            block.astype(field.kind) if field.name in PACKED else block
            for block, field in zip(columns, layout.fields, strict=True)
        ]


def read_binary(body: memoryview, layout: Layout, source: Path) -> list[np.ndarray]:
    """Point by point."""
    row = sum(field.size for field in layout.fields)
    if layout.points * row > len(body):
        raise promise(layout, layout.points * row, len(body), source)
    kind = np.dtype([(str(k), field.kind, (field.count,)) for k, field in enumerate(layout.fields)])
    rows = np.frombuffer(body, kind, layout.points if row else 0)
    return [rows[str(k)] for k in range(len(layout.fields))]


def read_packed(body: memoryview, layout: Layout, source: Path) -> list[np.ndarray]:
    """Field by field, packed by LZF, behind the sizes of the packed and the unpacked bytes."""
    packed, unpacked = (int.from_bytes(body[k : k + 4], "little") for k in (0, 4))
    needed = layout.points * sum(field.size for field in layout.fields)
    if len(body) < 8 or packed > len(body) - 8 or unpacked != needed:
        raise FileError(
            f"{source} promises {layout.points} points in {needed} bytes, packed into {packed}, but has {unpacked} in "
            f"{max(len(body) - 8, 0)}: it was cut short or is damaged"
        )
    plain = unpack_lzf(body[8 : 8 + packed], unpacked, source)
    columns, start = [], 0
    for field in layout.fields:
        count = layout.points * field.count
        columns.append(np.frombuffer(plain, field.kind, count, start).reshape(layout.points, field.count))
        start += layout.points * field.size
    return columns


def promise(layout: Layout, needed: int, there: int, source: Path) -> FileError:
    return FileError(
        f"{source} promises {layout.points} points in at least {needed} bytes, but has {there}: it was cut short or is "
        "damaged"
    )


# ---- meaning


def decode_columns(columns: list[np.ndarray], layout: Layout, source: Path) -> Decoded:
    """Points, normals, colours and all else, without the points that were not measured."""
    found = {f.name: block for f, block in zip(layout.fields, columns, strict=True) if f.name != PADDING and f.count}
    if any(name not in found or found[name].shape[1] != 1 for name in AXES):
        raise FileError(f"{source}: its points have no x, y and z; their fields are {', '.join(found)[:200] or 'none'}")
    points = np.concatenate([found.pop(name) for name in AXES], axis=1).astype(np.float64)
    measured = np.isfinite(points).all(axis=1)
    lost = len(points) - int(measured.sum())
    notes = (f"{lost} of {len(points)} points were not measured (NaN), and are left out",) if lost else ()
    normals = None
    if all(name in found and found[name].shape[1] == 1 for name in DIRECTIONS):
        normals = np.concatenate([found.pop(name) for name in DIRECTIONS], axis=1).astype(np.float64)[measured]
        normals[~np.isfinite(normals).all(axis=1)] = 0  # unknown ones are filled in later, and told
    attributes = {}
    for name, block in found.items():
        if name in PACKED and block.dtype.itemsize == 4 and block.shape[1] == 1:
            bits = np.ascontiguousarray(block).view("<u4")
            attributes["colours"] = (
                np.concatenate([bits >> shift & 255 for shift in (16, 8, 0)], axis=1)[measured] / 255
            )
        else:
            values = block[measured].astype(np.float64)
            if np.isfinite(values).all():
                attributes[name] = values
            else:
                notes = (*notes, f"the field {name[:40]!r} has values that are not finite, and is not used")
    return Decoded(points[measured], normals, None, attributes, notes)
