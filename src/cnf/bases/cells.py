"""Cells: boxes that cover a box without overlap, made by cutting it again and again; every point has one cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cnf.errors import BasisError

MOST = 200_000  # cells


@dataclass(frozen=True)
class Face:
    """What two cells share, or the part of the boundary that one cell has: `second` is -1 there.

    The face lies at `position` of coordinate `axis` and stretches from `lower` to `upper` (D,) in the others; `side`
    is 1 where the face is the upper end of the first cell.
    """

    first: int
    second: int
    axis: int
    side: int
    position: float
    lower: np.ndarray
    upper: np.ndarray


class Cells:
    """A tree of cuts: `lower`, `upper` (n, D) of the leaves, in the order in which they came into being.

    >>> cells = cnf.bases.Cells([0, 0], [1, 1])
    >>> cells.count, cells.dimension
    (1, 2)
    """

    def __init__(self, lower: Sequence[float], upper: Sequence[float]):
        low, high = np.array([lower], dtype=np.float64), np.array([upper], dtype=np.float64)
        if low.shape != high.shape or not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise BasisError(f"cells cover a box from its lower to its upper corner; got {lower!r} and {upper!r}")
        self.lower, self.upper = low, high
        self._axis = np.array([-1])  # of the cut of every node of the tree, -1 for a leaf
        self._position = np.array([np.nan])
        self._child = np.array([[0, 0]])  # nodes below and above the cut; for a leaf, the cell
        self._node = np.array([0])  # of every cell
        self._cuts: tuple[tuple[np.ndarray, int, np.ndarray], ...] = ()  # cells, axis, positions

    @property
    def count(self) -> int:
        """Number of cells."""
        return self.lower.shape[0]

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return self.lower.shape[1]

    @property
    def tree(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of every node the axis of its cut, -1 for a leaf, its position, and what is below and above; see `locate`."""
        return self._axis, self._position, self._child

    def cut(self, cells: Iterable[int], axis: int, positions: Sequence[float] | None = None) -> Cells:
        """Each of these cells cut across `axis`, in the middle or at the given positions.

        The lower half keeps the number of the cell, the upper half gets a new one.
        """
        chosen = np.asarray(list(cells), dtype=np.int64)
        if not len(chosen):
            return self
        if self.count + len(chosen) > MOST:
            raise BasisError(f"more than {MOST} cells; the problem wants a coarser target")
        low, high = self.lower[chosen, axis], self.upper[chosen, axis]
        at = (low + high) / 2 if positions is None else np.asarray(positions, dtype=np.float64)
        if not ((low < at) & (at < high)).all():
            raise BasisError("a cut lies inside the cell it cuts; is the cell too thin for its numbers?")
        new = Cells.__new__(Cells)
        n, nodes = len(chosen), len(self._axis)
        new.lower = np.concatenate([self.lower, self.lower[chosen]])
        new.upper = np.concatenate([self.upper, self.upper[chosen]])
        new.lower[self.count :, axis] = at
        new.upper[chosen, axis] = at
        own = self._node[chosen]
        below, above = nodes + np.arange(n), nodes + n + np.arange(n)
        new._axis = np.concatenate([self._axis, np.full(2 * n, -1)])
        new._position = np.concatenate([self._position, np.full(2 * n, np.nan)])
        fresh = self.count + np.arange(n)
        leaves = np.concatenate([chosen, fresh])
        new._child = np.concatenate([self._child, np.stack([leaves, leaves], axis=1)])
        new._axis[own], new._position[own] = axis, at
        new._child[own] = np.stack([below, above], axis=1)
        new._node = np.concatenate([self._node, above])
        new._node[chosen] = below
        new._cuts = (*self._cuts, (chosen, axis, at))
        return new

    def table(self) -> np.ndarray:
        """What `from_table` needs: two rows with the corners, then round, cell, axis, position of every cut."""
        width = max(4, self.dimension)
        corners = np.zeros((2, width))
        corners[:, : self.dimension] = self.lower.min(axis=0), self.upper.max(axis=0)
        rows = [corners]
        for turn, (chosen, axis, at) in enumerate(self._cuts):
            part = np.zeros((len(chosen), width))
            part[:, 0], part[:, 1], part[:, 2], part[:, 3] = turn, chosen, axis, at
            rows.append(part)
        return np.concatenate(rows)

    @staticmethod
    def from_table(table: np.ndarray, dimension: int) -> Cells:
        """The cells that `table` describes, checked as if they were cut anew."""
        if table.ndim != 2 or table.shape[0] < 2 or table.shape[1] != max(4, dimension) or table.shape[0] > MOST:
            raise BasisError(f"a table of cells has two corners and one row per cut; got the shape {table.shape}")
        cells = Cells(table[0, :dimension].tolist(), table[1, :dimension].tolist())
        cuts = table[2:]
        if not np.isfinite(table).all() or (np.diff(cuts[:, 0]) < 0).any():
            raise BasisError("the cuts of a table of cells are numbered in order, with finite numbers only")
        for rows in np.split(cuts, np.flatnonzero(np.diff(cuts[:, 0])) + 1) if len(cuts) else ():
            chosen, axis = rows[:, 1].astype(np.int64), int(rows[0, 2])
            if (rows[:, 2] != axis).any() or not 0 <= axis < dimension or len(np.unique(chosen)) < len(chosen):
                raise BasisError("the cuts of one round go across one coordinate, each through a cell of its own")
            if (chosen < 0).any() or (chosen >= cells.count).any():
                raise BasisError(f"a cut goes through a cell that is not there; there are {cells.count}")
            cells = cells.cut(chosen, axis, rows[:, 3].tolist())
        return cells

    def locate(self, points: np.ndarray) -> np.ndarray:
        """The cell of every point (P, D), (P,); a point on a cut belongs to the upper cell, one outside to the nearest
        by the tree."""
        node = np.zeros(points.shape[0], dtype=np.int64)
        active = np.flatnonzero(self._axis[node] >= 0)
        while len(active):
            here = node[active]
            up = points[active, self._axis[here]] >= self._position[here]
            node[active] = self._child[here, up.astype(np.int64)]
            active = active[self._axis[node[active]] >= 0]
        return self._child[node, 0]

    def section(self, axis: int, position: float) -> tuple[Cells, np.ndarray]:
        """The cells that the plane at `position` of a coordinate meets, as cells of the others, and their numbers."""
        kept = [k for k in range(self.dimension) if k != axis]
        found = Cells(self.lower.min(axis=0)[kept].tolist(), self.upper.max(axis=0)[kept].tolist())
        node = np.array([0])  # of every cell found so far
        while (self._axis[node] >= 0).any():
            across = self._axis[node] == axis
            node[across] = self._child[node[across], (position >= self._position[node[across]]).astype(np.int64)]
            for k, own in enumerate(kept):
                (cut,) = np.nonzero(self._axis[node] == own)
                if len(cut):
                    found = found.cut(cut, k, self._position[node[cut]].tolist())
                    below, above = self._child[node[cut]].T
                    node = np.append(node, above)
                    node[cut] = below
        return found, self._child[node, 0]

    def extended(self, low: float, high: float) -> Cells:
        """The same cells with one more coordinate, from `low` to `high` each."""
        found = Cells([*self.lower.min(axis=0), low], [*self.upper.max(axis=0), high])
        for chosen, axis, at in self._cuts:
            found = found.cut(chosen, axis, at.tolist())
        return found

    @staticmethod
    def stacked(parts: Sequence[Cells], axis: int) -> Cells:
        """Cells of several boxes, each of which begins along `axis` where the one before ends."""
        found = Cells(parts[0].lower.min(axis=0).tolist(), parts[-1].upper.max(axis=0).tolist())
        for k, part in enumerate(parts[:-1]):
            found = found.cut([k], axis, [float(part.upper[:, axis].max())])
        for k, part in enumerate(parts):
            number = np.array([k])  # of the cells of this part
            for chosen, across, at in part._cuts:
                fresh = found.count + np.arange(len(chosen))
                found = found.cut(number[chosen], across, at.tolist())
                number = np.append(number, fresh)
        return found

    def faces(self) -> list[Face]:
        """Every pair of cells that share more than an edge, and every face on the boundary."""
        found: list[Face] = []
        outer_low, outer_high = self.lower.min(axis=0), self.upper.max(axis=0)
        for axis in range(self.dimension):
            others = [k for k in range(self.dimension) if k != axis]
            starts = self._by_value(self.lower[:, axis])
            for position, left in self._by_value(self.upper[:, axis]).items():
                right = starts.get(position)
                if right is None:
                    continue
                low = np.maximum(self.lower[left][:, None, others], self.lower[right][None][:, :, others])
                high = np.minimum(self.upper[left][:, None, others], self.upper[right][None][:, :, others])
                for a, b in zip(*np.nonzero((low < high).all(axis=2)), strict=True):
                    ends = (np.insert(low[a, b], axis, position), np.insert(high[a, b], axis, position))
                    found.append(Face(int(left[a]), int(right[b]), axis, 1, position, *ends))
            for side, (end, values) in enumerate(((outer_low, self.lower), (outer_high, self.upper))):
                for cell in np.flatnonzero(values[:, axis] == end[axis]):
                    low, high = self.lower[cell].copy(), self.upper[cell].copy()
                    low[axis] = high[axis] = end[axis]
                    found.append(Face(int(cell), -1, axis, side, float(end[axis]), low, high))
        return found

    @staticmethod
    def _by_value(values: np.ndarray) -> dict[float, np.ndarray]:
        order = np.argsort(values, kind="stable")
        different = np.flatnonzero(np.diff(values[order])) + 1
        return {float(values[part[0]]): part for part in np.split(order, different)}
