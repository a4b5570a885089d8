"""Tables: one type that prints itself as plain text and CSV (other notations: `studies.tables`).

What comes in: a heading per column and cells: words, numbers or None. What goes out: text. Numbers that are to be
rounded come in as words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cnf.files import as_csv


@dataclass(frozen=True)
class Table:
    """Rows under a header; `left` says which columns are words, flush left: the first so many, or those named."""

    header: Sequence[str]
    rows: Sequence[Sequence[object]]
    left: int | Sequence[str] = 1

    def text(self) -> str:
        """Columns padded to fit, a dash for None."""
        cells = [list(self.header), *([show_cell(cell) for cell in row] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        head, *body = ["  ".join(row).rstrip() for row in self.pad(cells, widths)]
        return "\n".join([head, "  ".join("-" * w for w in widths), *body])

    def csv(self) -> str:
        """One line per row; numbers with all digits, nothing for None."""
        return as_csv(self.header, self.rows)

    def pad(self, rows: Sequence[Sequence[str]], widths: Sequence[int]) -> list[list[str]]:
        """The cells of all rows as wide as their columns."""
        places = list(zip(widths, self.flush, strict=True))
        return [
            [cell.ljust(w) if flush else cell.rjust(w) for cell, (w, flush) in zip(row, places, strict=True)]
            for row in rows
        ]

    @property
    def flush(self) -> list[bool]:
        """Per column, whether it holds words."""
        if isinstance(self.left, int):
            return [k < self.left for k in range(len(self.header))]
        return [name in self.left for name in self.header]


def show_cell(cell: object) -> str:
    """A cell in words; a dash for what is not there."""
    return "-" if cell is None else str(cell)
