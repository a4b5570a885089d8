"""Files, reading tables of numbers: XYZ, TXT, CSV, PTS. A path comes in, `Decoded` comes out.

Columns are x y [z] and then normals, or what a header line names. Without a header the number of columns decides: 2 and
3 are points, 6 are points and normals (or colours, if they are whole numbers up to 255); any other number is ambiguous
and refused with advice.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np

from cnf.errors import FileError
from cnf.meshes.decoded import Decoded
from cnf.reading.sheets import is_number
from cnf.reading.sources import explain, show

LONGEST_LINE, MOST_COLUMNS, HEADING = 1 << 16, 256, 100  # bytes; columns; lines to look through for the first numbers
ALIASES = {
    **{f"{stem}{axis}": f"n{axis}" for stem in ("normal_", "normal", "n_") for axis in "xyz"},
    **{name: name for name in ("x", "y", "z", "nx", "ny", "nz", "red", "green", "blue")},
}
LETTERS = {"r": "red", "g": "green", "b": "blue"}  # if all three are there
COLOURS = ["red", "green", "blue"]


def read_table(source: Path) -> Decoded:
    """Decode a table that `check_source` has passed."""
    skipped, header, delimiter, width, promised = read_opening(source)
    if width > MOST_COLUMNS:
        raise FileError(f"{source}, line {skipped + 1}: {width} columns; at most {MOST_COLUMNS} are read")
    try:
        rows = np.loadtxt(source, delimiter=delimiter, skiprows=skipped, comments="#", ndmin=2, encoding="utf-8-sig")
    except (ValueError, UnicodeError, MemoryError, OverflowError, OSError) as error:
        raise FileError(f"{source}: {explain(str(error), skipped)}") from None
    if rows.size == 0:
        raise FileError(f"{source} holds no numbers")
    if promised is not None and promised != len(rows):
        raise FileError(f"{source} promises {promised} points in its first line, but has {len(rows)}: cut short?")
    if header and len(header) != rows.shape[1]:
        raise FileError(f"{source}: its header names {len(header)} columns, its rows have {rows.shape[1]}")
    return decode_named(header, rows, source) if header else decode_unnamed(rows, source)


def read_opening(source: Path) -> tuple[int, list[str], str | None, int, int | None]:
    """Lines before the numbers, names of the columns, the delimiter, how many columns, and a promised count of rows."""
    header: list[str] = []
    promised = None
    try:
        with source.open(encoding="utf-8-sig") as file:
            for number in range(HEADING):
                line = file.readline(LONGEST_LINE)
                if not line:
                    break
                if len(line) >= LONGEST_LINE:
                    raise FileError(
                        f"{source}, line {number + 1}: longer than {LONGEST_LINE} bytes; not a table of points"
                    )
                if number == 0 and line.strip() == "ply":
                    raise FileError(f"{source} is a PLY file; rename it to end in .ply")
                delimiter = next((mark for mark in (",", ";") if mark in line), None)
                body = re.sub(r"^(#|//)+", "", line.strip()).strip()
                words = [word.strip().strip("\"'") for word in (body.split(delimiter) if delimiter else body.split())]
                if delimiter and words and not words[-1]:
                    words.pop()  # a delimiter at the end of the line
                if not words or all(not word for word in words):
                    continue
                if line.lstrip().startswith(("#", "//")):
                    header = header or names_of(words)
                elif not is_number(words[0]):
                    if header or (number > 0 and promised is None and not names_of(words)):
                        raise FileError(f"{source}, line {number + 1}: {show(line.strip().encode())} are not numbers")
                    header = names_of(words)
                    if not header:
                        raise FileError(
                            f"{source}, line {number + 1}: {show(line.strip().encode())} is neither numbers nor a "
                            "header; a header names the columns, starting with x y z"
                        )
                elif len(words) == 1 and promised is None and words[0].isdigit() and not header:
                    promised = int(words[0])
                else:
                    return number, header, delimiter, len(words), promised
    except UnicodeDecodeError:
        raise FileError(
            f"{source} is not a text file in UTF-8; if it is binary, its name should say of which kind"
        ) from None
    except OSError as error:
        raise FileError(f"{source} cannot be read: {error.strerror or error}") from None
    raise FileError(f"{source} holds no table of numbers (x y z on every line)")


def names_of(words: list[str]) -> list[str]:
    """Names of columns, if the words are such: x and y must be among them."""
    names = [ALIASES.get(word.lower(), word) for word in words]
    if {name.lower() for name in names} >= set(LETTERS):
        names = [LETTERS.get(name.lower(), name) for name in names]
    return names if {"x", "y"} <= set(names) else []


def decode_named(header: list[str], rows: np.ndarray, source: Path) -> Decoded:
    """Columns by their names."""
    place = {name: i for i, name in enumerate(header)}
    if len(place) != len(header):
        raise FileError(f"{source}: a column is named twice in its header: {', '.join(header)[:200]}")
    axes = [name for name in ("x", "y", "z") if name in place]
    directions = ["n" + name for name in axes]
    normals = rows[:, [place[name] for name in directions]] if all(name in place for name in directions) else None
    rest = [name for name in header if name not in axes and (normals is None or name not in directions)]
    attributes: dict[str, np.ndarray] = {}
    notes: tuple[str, ...] = ()
    if all(name in rest for name in COLOURS):
        colours = rows[:, [place[name] for name in COLOURS]]
        if colours.max() > 1:
            colours, notes = colours / 255, ("colours of 0 to 255 were scaled to 0 to 1",)
        attributes["colours"] = colours
        rest = [name for name in rest if name not in COLOURS]
    for stem, group in itertools.groupby(rest, key=lambda name: re.sub(r"_\d+$", "", name)):
        columns = list(group)
        if columns == [f"{stem}_{i}" for i in range(len(columns))] and len(columns) > 1 and stem not in place:
            attributes[stem] = rows[:, [place[name] for name in columns]]
        else:
            attributes.update({name: rows[:, place[name]].copy() for name in columns})
    return Decoded(rows[:, [place[name] for name in axes]], normals, None, attributes, notes)


def decode_unnamed(rows: np.ndarray, source: Path) -> Decoded:
    """Columns by their number."""
    width = rows.shape[1]
    if width in (2, 3):
        return Decoded(rows)
    if width == 6:
        last = rows[:, 3:]
        if last.min() >= 0 and 1 < last.max() <= 255 and (last == np.rint(last)).all():
            note = "the last three columns are whole numbers up to 255, so they were read as colours, not as normals"
            return Decoded(rows[:, :3].copy(), None, None, {"colours": last / 255}, (note,))
        return Decoded(rows[:, :3].copy(), last.copy())
    raise FileError(
        f"{source} has {width} columns and no header; expected 2 or 3 (points), 6 (points and normals), or a line "
        "that names the columns, such as 'x y z intensity'"
    )
