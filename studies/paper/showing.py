"""Showing: numbers of the paper and of ours as words, and one table of the paper with ours beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from studies.paper.comparing import BETTER, EQUAL, WORSE, Found
from studies.tables import Table

MARKS = {BETTER: "▲", WORSE: "▼", EQUAL: "=", "": ""}
NOTHING = "not measured yet"


def show_paper(found: Found) -> str:
    """As the paper has it."""
    if found.paper is None:
        return "-"
    style = found.quantity.paper_style
    text = show_number(found.paper, style)
    return text if found.paper_deviation is None else f"{text} ± {show_number(found.paper_deviation, style)}"


def show_ours(found: Found) -> str:
    """Ours, with its deviation, and with processor seconds where rows have them."""
    if found.value is None:
        return NOTHING
    style = found.quantity.style
    text = show_number(found.value, style)
    if found.deviation is not None:
        text += f" ± {show_number(found.deviation, style)}"
    return text if found.processor is None else f"{text} (processor {show_number(found.processor, style)})"


def show_number(value: float, style: str) -> str:
    """A number as one writes it: 2.4e-8, 0.076, 7.6, not 7.6e+00."""
    text = format(value, style)
    if "e" not in text:
        return text
    digits, _, power = text.partition("e")
    if -3 <= int(power) <= 4:
        return f"{float(text):g}"
    return f"{digits}e{int(power)}"


def show_factor(found: Found) -> str:
    """How far apart: a factor, or a difference."""
    if not found.verdict or found.value is None or found.paper is None:
        return ""
    if found.factor is None:
        return f"{found.value - found.paper:+.2g}"
    factor = max(found.factor, 1 / found.factor)
    return (
        f"{show_number(factor, '.3g' if factor < 2 else '.2g' if factor < 100 else '.0f' if factor < 1000 else '.0e')}×"
    )


def show_cell(found: Found) -> str:
    """Ours with its mark and how far apart."""
    parts = [show_ours(found), MARKS[found.verdict], "" if found.verdict == EQUAL else show_factor(found)]
    return " ".join(filter(None, parts)) + ("" if found.full or found.value is None else " °")


def show_table(entries: Sequence[Sequence[Found]]) -> Table:
    """The paper's table: for every column the paper's numbers and ours."""
    table = entries[0][0].table
    header = [table.first]
    for quantity in table.quantities:
        header += [f"{quantity.heading}: paper", "ours"]
    rows = [
        [line[0].line.label, *(text for found in line for text in (show_paper(found), show_cell(found)))]
        for line in entries
    ]
    return Table(header, rows)


def show_setting(value: object) -> str:
    """A setting in a few words."""
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:g}"
    return "none" if value is None else str(value)
