"""A PCD file of three points, packed by `struct` in each of the three ways of writing it."""

from __future__ import annotations

import struct

import numpy as np

PCD = (
    "# .PCD v0.7\nVERSION 0.7\nFIELDS x y z normal_x normal_y normal_z rgb _ label\nSIZE 4 4 4 4 4 4 4 1 2\n"
    "TYPE F F F F F F F U U\nCOUNT 1 1 1 1 1 1 1 3 1\nWIDTH 3\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS 3\nDATA {}\n"
)
ROWS = [(1, 2, 3, 0, 0, 1, 0xFF3300, 7), (4, 5, 6, 0, 1, 0, 0x0000FF, 8), (np.nan, 0, 0, 0, 0, 1, 0, 9)]


def pcd(kind: str) -> bytes:
    """Three points, one not measured, with normals, packed colours, padding and a label."""
    head = PCD.format(kind).encode()
    rows = [struct.pack("<6fI3xH", *row) for row in ROWS]
    if kind == "binary":
        return head + b"".join(rows)
    if kind == "ascii":
        shades = [struct.unpack("<f", struct.pack("<I", row[6]))[0] for row in ROWS]
        lines = [" ".join(map(repr, [*map(float, r[:6]), s, 0, 0, 0, r[7]])) for r, s in zip(ROWS, shades, strict=True)]
        return head + "\n".join(lines).encode()
    sizes = [4] * 7 + [3, 2]  # field by field
    starts = np.cumsum([0, *sizes])
    plain = b"".join(row[a : a + n] for a, n in zip(starts, sizes, strict=False) for row in rows)
    packed = b"".join(bytes([len(plain[k : k + 32]) - 1]) + plain[k : k + 32] for k in range(0, len(plain), 32))
    return head + struct.pack("<II", len(packed), len(plain)) + packed
