"""Tables: rows that are there as an array, or are worked out when they are asked for by their numbers."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class Table(Protocol):
    """Rows (M, n)."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, rows: np.ndarray) -> np.ndarray: ...


class Evaluated(Table, Protocol):
    """Rows that are worked out: they can be sent in parts, and multiplied without being there."""

    def of(self, rows: np.ndarray, cells: np.ndarray) -> Table:
        """These, all of the cells (c,), which are numbered anew; what is known of others is left behind."""
        ...

    def times(self, weights: np.ndarray) -> np.ndarray:
        """Every row times the weights (cells, n) of its cell, (M,)."""
        ...


def part_of(table: np.ndarray | Evaluated, rows: np.ndarray, cells: np.ndarray) -> Table:
    return table[rows] if isinstance(table, np.ndarray) else table.of(rows, cells)
