"""Reading sheets: text files of numbers below a line that names the columns; what is wrong is told by its place."""

from __future__ import annotations

import contextlib
import csv
import io
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cnf.errors import FileError
from cnf.files import read_text


@dataclass(frozen=True)
class Sheet:
    """A file whose header was read: names of the columns (none if it is empty), and what is below."""

    source: Path
    names: list[str]
    separator: str
    body: str
    line: int  # of the file, that the body begins on

    def numbers(self) -> np.ndarray:
        """The rows, (P, columns) float64; empty lines and what follows # are no part of them."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # no rows are no error here
                table = np.loadtxt(io.StringIO(self.body), delimiter=self.separator, ndmin=2, comments="#")
            if table.size == 0 or table.shape[1] == len(self.names):
                return table.reshape(-1, len(self.names))
        except (ValueError, MemoryError, OverflowError):
            pass
        with contextlib.suppress(csv.Error):
            self._complain()
        raise FileError(f"{self.source} cannot be read as a table of numbers")

    def _complain(self) -> None:
        """Find the first row that is not a row of numbers, and say which."""
        lines = (line.partition("#")[0] for line in self.body.split("\n"))
        for number, row in enumerate(csv.reader(lines, delimiter=self.separator), start=self.line):
            if not row:
                continue
            place = f"{self.source}, line {number}"
            if len(row) != len(self.names):
                raise FileError(f"{place}: {len(row)} entries, but the header names {len(self.names)} columns")
            for name, part in zip(self.names, row, strict=True):
                if not is_number(part):
                    raise FileError(f"{place}: {part.strip()[:40]!r} in column {name!r} is not a number")


def open_sheet(source: Path, largest: int) -> Sheet:
    """The header of a file of at most `largest` bytes; columns have semicolons, tabs or commas between them."""
    text = read_text(source, largest).replace("\r\n", "\n")
    skipped = len(text) - len(text.lstrip("\n"))
    first, _, body = text[skipped:].partition("\n")
    separator = ";" if ";" in first else "\t" if "\t" in first else ","
    words = first.lstrip("# ").split(separator) if first.strip() else []
    return Sheet(source, [word.strip().strip("\"'") for word in words], separator, body, skipped + 2)


def is_number(word: str) -> bool:
    """Whether files mean a number by it; Python also reads 1_000."""
    try:
        float(word)
    except ValueError:
        return False
    return "_" not in word
