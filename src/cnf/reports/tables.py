"""Tables: rows of words and numbers as plain text, Markdown and CSV, and how a text becomes a file."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from cnf.files import write_atomically


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Columns padded to fit; the first `left` columns flush left, numbers flush right."""
    widths = [max(len(row[k]) for row in [header, *rows]) for k in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells = [
            cell.ljust(w) if k < left else cell.rjust(w) for k, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    rule = "  ".join("-" * w for w in widths)
    return "\n".join([line(header), rule, *(line(row) for row in rows)])


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """The same as `text_table`, for Markdown."""
    widths = [max(3, *(len(row[k]) for row in [header, *rows])) for k in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells = [c.ljust(w) if k < left else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True))]
        return f"| {' | '.join(cells)} |"

    rule = "|".join("-" * (w + 2) if k < left else "-" * (w + 1) + ":" for k, w in enumerate(widths))
    return "\n".join([line(header), f"|{rule}|", *(line(row) for row in rows)])


def csv_text(header: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    """One line per row, as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(lines)
    return text.getvalue()


def write_text(path: object, text: str) -> Path:
    """Write a text in UTF-8, whole or not at all."""
    return write_atomically(path, lambda file: file.write_text(text, encoding="utf-8"))
