"""Tables of studies: those of `cnf.reports` with deviations, marks and a title, in Markdown and LaTeX too.

What comes in: a heading per column and cells: words, numbers, None, or a `Cell` that may have a deviation and be the
best of its column. What goes out: text. Numbers that are to be rounded come in as words (`Table.of` does it).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cnf.reports import tables as plain

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
        """Columns padded to fit, below their title; marks and deviations of a column stand below each other."""
        columns = []
        for column in zip(*self.rows, strict=True):
            cells = [cell if isinstance(cell, Cell) else Cell(plain.show_cell(cell)) for cell in column]
            wide, marked = max(len(c.deviation) for c in cells), any(isinstance(c, Cell) for c in column)
            spread = [f"{c.text} ± {c.deviation.rjust(wide)}" if c.deviation else c.text for c in cells]
            columns.append(
                [f"{s}{'*' if c.best else ' '}" if marked else s for s, c in zip(spread, cells, strict=True)]
            )
        shown = plain.Table(self.header, list(zip(*columns, strict=True)), self.left).text()
        return "\n".join([*filter(None, [self.title]), shown])

    def markdown(self) -> str:
        """A table of Markdown, padded to be read as it is."""
        rows = [[_bold(cell, "**").replace("|", r"\|") for cell in row] for row in self.rows]
        header = [word.replace("|", r"\|") for word in self.header]
        widths = [max(3, *(len(row[k]) for row in [header, *rows])) for k in range(len(header))]
        rule = [f"{'-' * (w + 1)}{'-' if flush else ':'}" for w, flush in zip(widths, self._plain.flush, strict=True)]
        lines = [f"| {' | '.join(row)} |" for row in self._plain.pad([header, *rows], widths)]
        return "\n".join(
            [*([f"### {self.title}", ""] if self.title else []), lines[0], f"|{'|'.join(rule)}|", *lines[1:]]
        )

    def latex(self) -> str:
        """A tabular of the package booktabs, its title as a comment."""
        arrows = {-1: r"$\downarrow$", 0: "", 1: r"$\uparrow$"}
        better = [*self.better, *[0] * (len(self.header) - len(self.better))]
        heads = [f"{_heading(word)}{arrows[good]}" for word, good in zip(self.header, better, strict=True)]
        head, *body = [rf"{' & '.join(cells)} \\" for cells in [heads, *(map(_latex, row) for row in self.rows)]]
        shape = "".join("l" if flush else "r" for flush in self._plain.flush)
        above = [*([f"% {self.title}"] if self.title else []), rf"\begin{{tabular}}{{{shape}}}", r"\toprule", head]
        return "\n".join([*above, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"])

    def csv(self) -> str:
        """One line per row; numbers with all digits, so that they read back the same, nothing for None."""
        rows = [[cell.text if isinstance(cell, Cell) else cell for cell in row] for row in self.rows]
        return plain.Table(self.header, rows).csv()

    @property
    def _plain(self) -> plain.Table:
        return plain.Table(self.header, self.rows, self.left)


def show(value: Any, style: Style = "") -> str:
    """A value in a format; a dash for what is not there."""
    if value is None:
        return "-"
    return style(value) if callable(style) else format(value, style)


def _bold(cell: object, mark: str) -> str:
    if not isinstance(cell, Cell):
        return plain.show_cell(cell)
    spread = f"{cell.text} ± {cell.deviation}" if cell.deviation else cell.text
    return f"{mark}{spread}{mark}" if cell.best else spread


def _latex(cell: object) -> str:
    if not isinstance(cell, Cell):
        return "--" if plain.show_cell(cell) == "-" else _escape(plain.show_cell(cell))
    parts = [rf"\textbf{{{_escape(p)}}}" if cell.best else _escape(p) for p in (cell.text, cell.deviation) if p]
    return "--" if parts == ["-"] else r" $\pm$ ".join(parts)


def _heading(text: str) -> str:
    """A heading for LaTeX; "RMSE e-2" is in units of a hundredth."""
    return re.sub(r" e(-?\d+)\Z", r"{\\tiny$\\times10^{\1}$}", _escape(text))


def _escape(text: str) -> str:
    return "".join(f"\\{c}" if c in "&%$#_{}" else c for c in text)
