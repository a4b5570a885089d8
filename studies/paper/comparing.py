"""Comparing: what our rows say beside one number of the paper, and whether that is better.

Rows are chosen by the entry's table, put together (worst, mean or median), and held against the paper's value. Nothing
is measured here, and nothing is known here that the rows do not have.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from studies.paper.jobs import find_job
from studies.paper.records import Records
from studies.paper.tables import Line, PaperTable, Quantity, Where
from studies.study import Row

SAME = 0.02  # relative: closer values are called the same
BETTER, WORSE, EQUAL = "better", "worse", "same"


@dataclass(frozen=True)
class Found:
    """Ours beside one number of the paper; `value` is None if no row has it."""

    table: PaperTable
    line: Line
    quantity: Quantity
    paper: float | None
    paper_deviation: float | None
    value: float | None
    deviation: float | None
    processor: float | None
    rows: int
    full: bool  # of the paper's size, and of as many rows

    @property
    def verdict(self) -> str:
        """Whether ours is better than the paper's; nothing if one of them is not there, or they cannot be compared.

        Nor can the mean over a few materials be compared with one over very many.
        """
        few = self.quantity.all_of == "mean" and self.rows < self.table.count
        if self.value is None or self.paper is None or self.table.beside or few:
            return ""
        if math.isnan(self.judged):
            return WORSE
        apart = self.quantity.better * (self.judged - self.paper)
        near = SAME * abs(self.paper) if self.quantity.absolute is None else self.quantity.absolute
        return EQUAL if abs(apart) <= near else BETTER if apart > 0 else WORSE

    @property
    def factor(self) -> float | None:
        """By how much ours is better (below one: worse); None where differences count."""
        if not self.value or not self.paper or self.quantity.absolute is not None or math.isnan(self.judged):
            return None
        return (self.paper / self.judged) if self.quantity.better < 0 else self.judged / self.paper

    @property
    def judged(self) -> float:
        """What is compared: processor seconds where rows have them, for those of the clock are the machine's load."""
        assert self.value is not None
        return self.value if self.processor is None else self.processor

    @property
    def role(self) -> str:
        return self.table.role(self.line, self.quantity)


def compare_table(table: PaperTable, records: Records | None) -> list[list[Found]]:
    """A list per line, an entry per quantity; lines of ours alone if they were measured."""
    lines = [
        [_find(table, line, *pair, records) for pair in zip(table.quantities, line.values, strict=True)]
        for line in table.lines
    ]
    return [found for found in lines if not found[0].line.optional or any(f.value is not None for f in found)]


def choose_rows(rows: Sequence[Row], *wanted: Where) -> list[Row]:
    """Those that have what is wanted."""
    for name, value in [pair for given in wanted for pair in given.items()]:
        choices = value if isinstance(value, tuple) else (value,)
        fitting = ([row for row in rows if _fits(row.get(name), choice)] for choice in choices)
        rows = next((some for some in fitting if some), [])
    return list(rows)


def _fits(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, str) and wanted.endswith("*"):
        return str(value).startswith(wanted[:-1])
    if isinstance(wanted, float) and isinstance(value, int | float) and not isinstance(value, bool):
        return math.isclose(value, wanted, rel_tol=1e-12)
    return bool(value == wanted)


def _find(table: PaperTable, line: Line, quantity: Quantity, paper: Any, records: Records | None) -> Found:
    mean, deviation = paper if isinstance(paper, tuple) else (paper, None)
    rows = choose_rows([] if records is None else records.rows, line.where, quantity.where)
    values = [quantity.scale * v for v in _numbers(rows, quantity.column)]
    processor = next((found for name in quantity.processor if (found := _numbers(rows, name))), [])
    full = records is not None and find_job(table.job).is_full(records.settings) and len(values) >= table.count
    return Found(
        *(table, line, quantity, mean, deviation),
        value=_together(values, quantity),
        deviation=statistics.stdev(values) if quantity.all_of == "mean" and len(values) > 1 else None,
        processor=statistics.median(processor) if processor else None,
        rows=len(values),
        full=full,
    )


def _numbers(rows: Sequence[Row], column: str) -> list[float]:
    return [float(v) for row in rows if isinstance(v := row.get(column), int | float) and not isinstance(v, bool)]


def _together(values: Sequence[float], quantity: Quantity) -> float | None:
    if not values:
        return None
    if any(math.isnan(v) for v in values):
        return math.nan  # a measure that is not a number is not to be hidden by others
    if quantity.all_of == "worst":
        return max(values, key=lambda v: -quantity.better * v)
    return statistics.fmean(values) if quantity.all_of == "mean" else statistics.median(values)
