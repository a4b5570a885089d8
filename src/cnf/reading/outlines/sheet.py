"""Reading outlines from text: a point in every row. A path comes in, named curves come out.

Columns are x and y, by name or the first two; a column `curve` tells curves apart, or else empty lines do.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path

from cnf.errors import FileError
from cnf.reading.outlines.drawing import Drawing
from cnf.reading.outlines.strokes import MOST_STROKES, chain_of
from cnf.reading.sheets import is_number

NAMES = ("curve", "name", "id")


def read_sheet(source: Path, data: bytes) -> Drawing:
    """One closed polygon for every curve; a repeated last point is left out."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileError(f"{source} is not a text file in UTF-8; expected rows of numbers x, y") from None
    lines = [line.strip() for line in text.splitlines()]
    written = [line for line in lines if line and not line.startswith("#")]
    if not written:
        raise FileError(f"{source} has no rows of numbers")
    separator = next((s for s in (";", "\t", ",") if s in written[0]), " ")
    curves: dict[str, list[complex]] = {}
    columns: tuple[int, int, int | None] | None = None
    section = 0
    for number, line in enumerate(lines, start=1):
        if not line:
            section += bool(curves)
            continue
        if line.startswith("#"):
            continue
        try:
            row = line.split() if separator == " " else next(csv.reader([line], delimiter=separator))
        except (csv.Error, StopIteration):
            raise FileError(f"{source}, line {number} cannot be read as a row of a table") from None
        row = [entry.strip() for entry in row]
        if columns is None:
            header = not all(map(is_number, row))
            columns = _columns(row if header else [], source)
            if header:
                continue
        point = _point(row, columns, f"{source}, line {number}")
        name = row[columns[2]][:100] if columns[2] is not None else f"\n{section}"  # no name of a file has a line end
        curves.setdefault(name, []).append(point)
        if sum(map(len, curves.values())) > MOST_STROKES:
            raise FileError(f"{source} has more than {MOST_STROKES} points; simplify it")
    drawing = Drawing(source)
    for name, points in curves.items():
        curve = chain_of(points)
        if not curve:
            raise FileError(f"{source}: a curve of {len(points)} points; at least three different ones are needed")
        drawing.add("" if name.startswith("\n") else name, [curve])
    return drawing


def _columns(header: list[str], source: Path) -> tuple[int, int, int | None]:
    """Where x, y and the name of the curve stand."""
    words = [word.lower().strip("\"'") for word in header]
    name = next((words.index(n) for n in NAMES if n in words), None)
    if not words or ("x" not in words and "y" not in words):
        return (0, 1, name if name is not None and name > 1 else None)
    if "x" not in words or "y" not in words:
        raise FileError(f"{source}: the columns {', '.join(header)[:80]} have no x and y")
    return (words.index("x"), words.index("y"), name)


def _point(row: list[str], columns: tuple[int, int, int | None], place: str) -> complex:
    if len(row) <= max(columns[:2]) or (columns[2] is not None and len(row) <= columns[2]):
        raise FileError(f"{place}: {len(row)} entries; expected x and y")
    x, y = row[columns[0]], row[columns[1]]
    for entry in (x, y):
        if not is_number(entry) or not math.isfinite(float(entry)):
            raise FileError(f"{place}: {entry[:40]!r} is not a finite number")
    return complex(float(x), float(y))
