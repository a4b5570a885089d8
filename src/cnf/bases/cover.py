"""Cover: the patches of a domain that is no box. Cells outside it have none, slivers share that of a neighbour."""

from __future__ import annotations

import numpy as np

from cnf.bases.cells import Cells
from cnf.errors import BasisError

OUTSIDE = -1
CHUNK = 2**20  # points times cells at a time


class Cover:
    """`patch` (cells,) is the patch of every cell, -1 outside; `lower`, `upper` (patches, D) frame what lies inside.

    Polynomials of a patch are those of its frame. Points in cells outside belong to the nearest cell that has a patch.
    """

    def __init__(self, cells: Cells, patch: np.ndarray, lower: np.ndarray, upper: np.ndarray):
        self.cells, self.patch = cells, np.asarray(patch, dtype=np.int64)
        self.lower, self.upper = (np.asarray(a, dtype=np.float64) for a in (lower, upper))
        count = self.lower.shape[0]
        if self.patch.shape != (cells.count,) or not np.array_equal(
            np.unique(self.patch[self.patch != OUTSIDE]), np.arange(count)
        ):
            raise BasisError(f"every cell has a patch from 0 to {count - 1}, or -1 for none; got {self.patch.shape}")
        if self.lower.shape != (count, cells.dimension) or self.upper.shape != self.lower.shape or not count:
            raise BasisError(f"frames are boxes (patches, {cells.dimension}); got {self.lower.shape}")
        if not (np.isfinite(self.lower).all() and np.isfinite(self.upper).all() and (self.lower < self.upper).all()):
            raise BasisError("frames are boxes from a lower to an upper corner, with finite numbers")

    @property
    def count(self) -> int:
        """Number of patches."""
        return self.lower.shape[0]

    @property
    def dimension(self) -> int:
        return self.cells.dimension

    def locate(self, points: np.ndarray) -> np.ndarray:
        """The patch of every point (P, D), (P,)."""
        found = self.patch[self.cells.locate(points)]
        (lost,) = np.nonzero(found == OUTSIDE)
        if len(lost):
            inside = np.flatnonzero(self.patch != OUTSIDE)
            low, high = self.cells.lower[inside], self.cells.upper[inside]
            step = max(1, CHUNK // len(inside))
            for start in range(0, len(lost), step):
                rows = lost[start : start + step]
                x = points[rows][:, None]
                distance = np.square(np.maximum(np.maximum(low - x, x - high), 0.0)).sum(axis=2)
                found[rows] = self.patch[inside[distance.argmin(axis=1)]]
        return found
