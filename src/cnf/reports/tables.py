"""Tables: one type that prints itself as plain text, Markdown, CSV and LaTeX, and how a text becomes a file.

What comes in: a heading per column and cells: words, numbers, None, or a `Cell` that may have a deviation and be the
best of its column. What goes out: text. Numbers that are to be rounded come in as words (`Table.of` does it).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cnf.files import write_atomically

Style = str | Callable[[Any], str]  # a format such as ".1e", or a function


@dataclass(frozen=True)
class Cell:
    """An entry with a deviation, or marked as the best of its column: a star, bold in Markdown and LaTeX."""

    text: str
    deviation: str = ""
    best: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under a header; `left` says which columns are words, flush left: the first so many, or those named."""

    header: Sequence[str]
    rows: Sequence[Sequence[object]]
    left: int | Sequence[str] = 1
    title: str = ""
    better: Sequence[int] = ()  # per column: 1 if high values are good, -1 if low ones are; LaTeX shows arrows

    @classmethod
    def of(
        cls, rows: Iterable[Mapping[str, Any]], columns: Mapping[str, tuple[str, Style]], left: int = 1, title: str = ""
    ) -> Table:
        """Rows of named values; `columns`: heading -> (name, format). What is not there is a dash."""
        cells = [[show(row.get(name), style) for name, style in columns.values()] for row in rows]
        return cls(list(columns), cells, left, title)

    def text(self) -> str:
        """Columns padded to fit, below their title."""
        return "\n".join([*filter(None, [self.title]), *self._lay_out()])

    def markdown(self) -> str:
        """A table of Markdown, padded to be read as it is."""
        rows = [[_bold(cell, "**").replace("|", r"\|") for cell in row] for row in self.rows]
        header = [word.replace("|", r"\|") for word in self.header]
        widths = [max(3, *(len(row[k]) for row in [header, *rows])) for k in range(len(header))]
        rule = [f"{'-' * (w + 1)}{'-' if flush else ':'}" for w, flush in zip(widths, self._flush, strict=True)]
        lines = [f"| {' | '.join(row)} |" for row in self._pad([header, *rows], widths)]
        return "\n".join(
            [*([f"### {self.title}", ""] if self.title else []), lines[0], f"|{'|'.join(rule)}|", *lines[1:]]
        )

    def latex(self) -> str:
        """A tabular of the package booktabs, its title as a comment."""
        arrows = {-1: r"$\downarrow$", 0: "", 1: r"$\uparrow$"}
        better = [*self.better, *[0] * (len(self.header) - len(self.better))]
        heads = [f"{_heading(word)}{arrows[good]}" for word, good in zip(self.header, better, strict=True)]
        head, *body = [rf"{' & '.join(cells)} \\" for cells in [heads, *(map(_latex, row) for row in self.rows)]]
        shape = "".join("l" if flush else "r" for flush in self._flush)
        above = [*([f"% {self.title}"] if self.title else []), rf"\begin{{tabular}}{{{shape}}}", r"\toprule", head]
        return "\n".join([*above, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"])

    def csv(self) -> str:
        """One line per row; numbers with all digits, so that they read back the same, nothing for None."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.header)
        writer.writerows([_value(cell) for cell in row] for row in self.rows)
        return text.getvalue()

    def _plain(self) -> list[list[str]]:
        """Cells as words; where a column has marks or deviations, these stand below each other."""
        columns = []
        for column in zip(*self.rows, strict=True):
            cells = [cell if isinstance(cell, Cell) else Cell(_word(cell)) for cell in column]
            wide, marked = max(len(c.deviation) for c in cells), any(isinstance(c, Cell) for c in column)
            spread = [f"{c.text} ± {c.deviation.rjust(wide)}" if c.deviation else c.text for c in cells]
            columns.append(
                [f"{s}{'*' if c.best else ' '}" if marked else s for s, c in zip(spread, cells, strict=True)]
            )
        return [list(row) for row in zip(*columns, strict=True)]

    def _lay_out(self) -> list[str]:
        header, rows = list(self.header), self._plain()
        widths = [max(len(row[k]) for row in [header, *rows]) for k in range(len(header))]
        head, *body = ["  ".join(row).rstrip() for row in self._pad([header, *rows], widths)]
        return [head, "  ".join("-" * w for w in widths), *body]

    def _pad(self, rows: Sequence[Sequence[str]], widths: Sequence[int]) -> list[list[str]]:
        places = list(zip(widths, self._flush, strict=True))
        return [
            [cell.ljust(w) if flush else cell.rjust(w) for cell, (w, flush) in zip(row, places, strict=True)]
            for row in rows
        ]

    @property
    def _flush(self) -> list[bool]:
        """Per column, whether it holds words."""
        if isinstance(self.left, int):
            return [k < self.left for k in range(len(self.header))]
        return [name in self.left for name in self.header]


def show(value: Any, style: Style = "") -> str:
    """A value in a format; a dash for what is not there."""
    if value is None:
        return "-"
    return style(value) if callable(style) else format(value, style)


def write_text(path: object, text: str) -> Path:
    """Write a text in UTF-8, whole or not at all."""
    return write_atomically(path, lambda file: file.write_text(text, encoding="utf-8"))


def _word(cell: object) -> str:
    return "-" if cell is None else str(cell)


def _bold(cell: object, mark: str) -> str:
    if not isinstance(cell, Cell):
        return _word(cell)
    spread = f"{cell.text} ± {cell.deviation}" if cell.deviation else cell.text
    return f"{mark}{spread}{mark}" if cell.best else spread


def _latex(cell: object) -> str:
    if not isinstance(cell, Cell):
        return "--" if _word(cell) == "-" else _escape(_word(cell))
    parts = [rf"\textbf{{{_escape(p)}}}" if cell.best else _escape(p) for p in (cell.text, cell.deviation) if p]
    return "--" if parts == ["-"] else r" $\pm$ ".join(parts)


def _heading(text: str) -> str:
    """A heading for LaTeX; "RMSE e-2" is in units of a hundredth."""
    return re.sub(r" e(-?\d+)\Z", r"{\\tiny$\\times10^{\1}$}", _escape(text))


def _escape(text: str) -> str:
    return "".join(f"\\{c}" if c in "&%$#_{}" else c for c in text)


def _value(cell: object) -> object:
    if isinstance(cell, Cell):
        return cell.text
    return "" if cell is None else repr(float(cell)) if isinstance(cell, float) else cell
