"""Cover: the patches of a domain that is no box, or of one with regions. Cells outside have none, slivers share one."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from cnf.bases.cells import Cells
from cnf.bases.partition import Partition
from cnf.errors import BasisError

OUTSIDE = -1
CHUNK = 2**20  # points times cells at a time


class Cover:
    """`patch` (cells,) is the patch of every cell, -1 outside; `lower`, `upper` (patches, D) frame what lies inside.

    With a `partition`, `patch` (cells, regions) has a column per region: a cell across an interface has a patch on
    either side. Polynomials of a patch are those of its frame. Points in cells without a patch for their region belong
    to the nearest cell that has one.

    >>> cells = cnf.bases.Cells([0, 0], [1, 1])
    >>> cover = cnf.bases.Cover(cells, np.array([0]), np.zeros((1, 2)), np.ones((1, 2)))
    >>> cover.count, cover.dimension
    (1, 2)
    """

    def __init__(
        self,
        cells: Cells,
        patch: np.ndarray,
        lower: np.ndarray,
        upper: np.ndarray,
        partition: Partition | None = None,
    ):
        self.cells, self.partition = cells, partition
        regions = 1 if partition is None else partition.count
        self.lower, self.upper = (np.asarray(a, dtype=np.float64) for a in (lower, upper))
        count = self.lower.shape[0]
        given = np.asarray(patch, dtype=np.int64)
        known = np.unique(given[given != OUTSIDE])
        if given.size != cells.count * regions or not np.array_equal(known, np.arange(count)):
            raise BasisError(f"every cell has a patch from 0 to {count - 1}, or -1 for none; got {given.shape}")
        self.patch = given.reshape(cells.count, regions)
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
        """Number of coordinates."""
        return self.cells.dimension

    @property
    def region(self) -> np.ndarray:
        """The region of every patch, (patches,)."""
        found = np.zeros(self.count, dtype=np.int64)
        cell, region = np.nonzero(self.patch != OUTSIDE)
        found[self.patch[cell, region]] = region
        return found

    @cached_property
    def fills(self) -> np.ndarray:
        """Which patches have the frame of a cell, (patches,) bool."""
        found = np.zeros(self.count, dtype=bool)
        cell, region = np.nonzero(self.patch != OUTSIDE)
        own = self.patch[cell, region]
        same = (self.lower[own] == self.cells.lower[cell]) & (self.upper[own] == self.cells.upper[cell])
        found[own[same.all(axis=1)]] = True
        return found

    def locate(self, points: np.ndarray, region: int | None = None) -> np.ndarray:
        """The patch of every point (P, D), (P,); of its own region, or of the given one, as seen from there."""
        own = np.zeros(len(points), dtype=np.int64)
        if region is not None:
            own[:] = region
        elif self.partition is not None:
            own = self.partition.number(points)
            used = (self.patch != OUTSIDE).any(axis=0)
            own[~used[own]] = int(np.flatnonzero(used)[-1])  # there may be no rest
        cell = self.cells.locate(points)
        found = self.patch[cell, own]
        self._settle_on_cuts(points, cell, own, found)
        for number in np.unique(own[found == OUTSIDE]):
            (lost,) = np.nonzero((found == OUTSIDE) & (own == number))
            found[lost] = self._nearest(points[lost], self.patch[:, number])
        return found

    def _settle_on_cuts(self, points: np.ndarray, cell: np.ndarray, own: np.ndarray, found: np.ndarray) -> None:
        """Points on a cut belong to the upper cell, unless its patch does not reach there and that below does.

        So it is where the boundary runs along a cut and the domain goes on above it somewhere else. The frame of a cut
        patch may reach farther than the patch itself; that of one that fills its cell does not.
        """
        on_cut = points == self.cells.lower[cell]  # (P, D)
        for axis in range(self.dimension):
            (at,) = np.nonzero(on_cut[:, axis] & (found != OUTSIDE))
            if not len(at):
                continue
            below = points[at].copy()
            below[:, axis] = np.nextafter(below[:, axis], -np.inf)
            other = self.patch[self.cells.locate(below), own[at]]
            beside, upper = self._beside(points[at], other), self._beside(points[at], found[at])
            surer = (beside == upper) & self.fills[other] & ~self.fills[found[at]]
            better = (other != OUTSIDE) & ((beside < upper) | surer)
            found[at[better]] = other[better]

    def _beside(self, points: np.ndarray, patch: np.ndarray) -> np.ndarray:
        """How far points (P, D) lie beside the frames of patches (P,), squared."""
        low, high = self.lower[patch], self.upper[patch]
        return np.square(np.maximum(np.maximum(low - points, points - high), 0.0)).sum(axis=1)

    def _nearest(self, points: np.ndarray, patch: np.ndarray) -> np.ndarray:
        inside = np.flatnonzero(patch != OUTSIDE)
        low, high = self.cells.lower[inside], self.cells.upper[inside]
        step = max(1, CHUNK // len(inside))
        found = np.empty(len(points), dtype=np.int64)
        for start in range(0, len(points), step):
            x = points[start : start + step, None]
            distance = np.square(np.maximum(np.maximum(low - x, x - high), 0.0)).sum(axis=2)
            found[start : start + step] = patch[inside[distance.argmin(axis=1)]]
        return found
