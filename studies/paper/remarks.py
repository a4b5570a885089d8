"""Remarks: why an entry is worse than the paper's, kept by hand; never a number that was measured."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from cnf.errors import FileError
from cnf.files import read_text
from studies.paper.comparing import Found

PLACE = Path(__file__).with_name("remarks.toml")
LARGEST = 2**18  # bytes
Remarks = dict[str, dict[str, str]]  # label of a table -> line, column, "line / column" or * -> a sentence


def read_remarks(path: Path = PLACE) -> Remarks:
    """All remarks, if they are what they must be."""
    try:
        found = tomllib.loads(read_text(path, LARGEST))
    except tomllib.TOMLDecodeError as error:
        raise FileError(f"{path} is not TOML: {error}") from None
    for label, remarks in found.items():
        if not isinstance(remarks, dict) or not all(isinstance(text, str) for text in remarks.values()):
            raise FileError(f"{path}: [{label}] has to map lines of the table to sentences")
        for line, text in remarks.items():
            if re.search(r"\d", re.sub(r"`[^`]*`", "", text)):
                raise FileError(
                    f"{path}: the remark on {label}, {line} has a number; measured numbers come from the rows, "
                    "others go into `code`"
                )
    return found


def find_remark(remarks: Remarks, found: Found) -> str:
    """What is said of an entry: of the entry itself, of its line, of its column, or of the whole table."""
    known, line, column = remarks.get(found.table.label, {}), found.line.label, found.quantity.heading
    return next((known[key] for key in (f"{line} / {column}", line, column, "*") if key in known), "")
