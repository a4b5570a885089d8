"""Sizes: what a limit of memory means, and what a run takes of memory and disk.

In comes `--memory 4GB`; out go points of a tile and of what is sorted at once, and whether a cloud is held in memory.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from cnf.errors import CnfError
from cnf.shapes.reconstruction.parts import LEAST_PART, PART

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
# Measured on a rippled torus: libraries, and what a point takes in memory if the cloud is held whole, or of a tile:
# 1000 bytes of a million points, but ten million took more than 22 GB as the pieces of their mesh were joined.
LIBRARIES, WHOLE, OF_TILE = 3.5e8, 2500, 11_000  # bytes
SORTED, MOST_SORTED = 250, 1 << 21  # bytes for a row that is sorted, with all copies; rows at most
LEAST_GIVEN = math.ceil((LIBRARIES + LEAST_PART * OF_TILE) / 1e6)  # MB
ON_DISK = 900  # bytes for a point: tables, trees, pieces of the mesh and the mesh itself


@dataclass(frozen=True)
class Sizes:
    """Points of a tile, and rows that are sorted at once."""

    part: int
    rows: int


def read_memory(text: str | int | float) -> float:
    """Bytes of "4GB", "500 MiB" or a number of bytes."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]*)\s*", str(text))
    unit = match[2].upper() if match else ""
    unit = f"{unit}B" if len(unit) == 1 and unit != "B" else unit
    if not match or unit not in UNITS:
        raise CnfError(f"memory is a number with a unit, such as 4GB or 500MB; got {text!r}")
    return float(match[1]) * UNITS[unit]


def write_memory(size: float) -> str:
    """As people write it, such as "4 GB" or "4 bytes"."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "KB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size:g} byte{'s' * (size != 1)}"


def fits(points: int, memory: float) -> bool:
    """Whether so many points can be reconstructed with all of them in memory."""
    return LIBRARIES + WHOLE * points + OF_TILE * min(points, PART) <= memory


def choose_sizes(memory: float, part: int | None, columns: int) -> Sizes:
    """As large as memory allows, and no larger than without a limit; `columns` of numbers for a point."""
    room = memory - LIBRARIES
    most = int(room / OF_TILE)
    if most < LEAST_PART:
        raise CnfError(
            f"{write_memory(memory)} of memory are too little: the libraries take {write_memory(LIBRARIES)}, a tile of "
            f"{LEAST_PART} points {write_memory(LEAST_PART * OF_TILE)}; give {LEAST_GIVEN}MB or more"
            f"{', and a unit, such as 4GB' * (memory < UNITS['MB'])}"
        )
    if part is not None and part > most:
        raise CnfError(
            f"parts of {part} points take about {(LIBRARIES + part * OF_TILE) / 1e9:.1f} GB; give more memory, or "
            f"parts of {most} points at most"
        )
    rows = int(min(MOST_SORTED, room / (SORTED * max(1, columns / 7))))
    return Sizes(part or min(PART, most), rows)
