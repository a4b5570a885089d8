"""Metric: by what the weights of cells are measured, where conditions leave them room: y_k = R_k w_k is smallest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import lapack


@dataclass(frozen=True)
class Metric:
    """R_k is `triangles[k]` (a, a), upper, over the a unknowns that are `active` (cells, n) in cell k.

    For cells without a triangle it is diagonal, one over `column` (n,).
    """

    column: np.ndarray
    active: np.ndarray
    triangles: Mapping[int, np.ndarray] = field(default_factory=dict)

    def over(self, cell: int, rows: np.ndarray) -> np.ndarray:
        """Rows (l, n) over the weights of a cell as rows over y: rows R^-1."""
        if cell not in self.triangles:
            return rows * self.column
        return self._solved(cell, rows, 1)

    def over_all(self, owner: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """`over` for rows (l, n) of the cells `owner` (l,), in any order."""
        found, order = rows * self.column, np.argsort(owner, kind="stable")
        for cell in self.triangles:
            first, last = (np.searchsorted(owner, cell, side, sorter=order) for side in ("left", "right"))
            found[order[first:last]] = self.over(cell, rows[order[first:last]])
        return found

    def weights(self, y: np.ndarray) -> np.ndarray:
        """R^-1 y, (cells, n)."""
        found = y * self.column
        for cell in self.triangles:
            found[cell] = self._solved(cell, y[cell][None], 0)[0]
        return found

    def transposed(self, z: np.ndarray) -> np.ndarray:
        """R^-T z, (cells, n), conjugated where it is complex."""
        found = z * self.column
        for cell in self.triangles:
            found[cell] = self._solved(cell, z[cell][None], 2)[0]
        return found

    def of(self, cells: np.ndarray) -> Metric:
        """Of these cells (c,) only, which are numbered anew."""
        kept = {k: self.triangles[int(cell)] for k, cell in enumerate(cells) if int(cell) in self.triangles}
        return Metric(self.column, self.active[cells], kept)

    def _solved(self, cell: int, rows: np.ndarray, transposed: int) -> np.ndarray:
        """R^-1 of every row (l, n), or by 1 R^-T, by 2 conjugated."""
        own, triangle = self.active[cell], self.triangles[cell]
        found = np.zeros(rows.shape, np.result_type(rows, triangle))
        if len(rows):
            trtrs = lapack.ztrtrs if np.iscomplexobj(triangle) else lapack.dtrtrs
            found[:, own] = trtrs(triangle, rows[:, own].T, trans=transposed)[0].T
        return found
