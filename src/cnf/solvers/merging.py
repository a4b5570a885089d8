"""Merging: in which order cells that are tied to their neighbours are merged, two parts at a time.

What a merge costs grows with the ties that reach beyond its parts. So cells are divided again and again where few ties
cross, and merged from the bottom up: beside cells of other sizes, halves by number would have jagged boundaries.
"""

from __future__ import annotations

import numpy as np

SMALLER = 0.2  # of the cells that are divided: the smaller part, at least
BALANCE = 0.5  # power of its share by which the ties that cross are divided


def merging_order(
    centres: np.ndarray, pairs: np.ndarray, ties: np.ndarray, time: int | None = None
) -> list[tuple[int, int]]:
    """Pairs to merge, numbers of cells and then of merges, for cells with `centres` (n, D).

    `pairs` (F, 2) of cells share so many `ties` (F,). Along `time`, one slab after the other from the first on: what
    starts from given values is determined by them, while a piece of time without its start is nearly singular.
    """
    return _Merging(centres, pairs, ties).found(time)


def branches(
    centres: np.ndarray, pairs: np.ndarray, ties: np.ndarray, work: np.ndarray, enough: float
) -> tuple[list[np.ndarray], list[tuple[int, int]]]:
    """The last merges of that order, down to branches with as much `work` (n,) as is `enough`, and these.

    Merges are pairs of numbers of branches and then of merges.
    """
    merging = _Merging(centres, pairs, ties, work, enough)
    merging.found(None)
    count, shift = len(merging.branches), len(merging.branches) - len(centres)
    numbers = [[-1 - part if part < 0 else part + shift for part in parts] for parts in merging.order]
    assert len(numbers) == count - 1
    return merging.branches, [(first, second) for first, second in numbers]


class _Merging:
    def __init__(
        self,
        centres: np.ndarray,
        pairs: np.ndarray,
        ties: np.ndarray,
        work: np.ndarray | None = None,
        enough: float = 0.0,
    ):
        self.centres, self.pairs, self.ties, self.work, self.enough = centres, pairs, ties, work, enough
        self.order: list[tuple[int, int]] = []
        self.branches: list[np.ndarray] = []

    def found(self, time: int | None) -> list[tuple[int, int]]:
        if time is None:
            self._merged(np.arange(len(self.centres)), np.arange(len(self.pairs)))
            return self.order
        when = self.centres[:, time]
        slabs = [np.flatnonzero(when == t) for t in np.unique(when)]
        inside = when[self.pairs[:, 0]] == when[self.pairs[:, 1]] if len(self.pairs) else np.zeros(0, dtype=bool)
        edges = [np.flatnonzero(inside & (when[self.pairs[:, 0]] == when[slab[0]])) for slab in slabs]
        whole = self._merged(slabs[0], edges[0])
        for slab, own in zip(slabs[1:], edges[1:], strict=True):
            whole = self._pair(whole, self._merged(slab, own))
        return self.order

    def _pair(self, first: int, second: int) -> int:
        self.order.append((first, second))
        return len(self.centres) + len(self.order) - 1

    def _merged(self, cells: np.ndarray, edges: np.ndarray) -> int:
        """The number of the merge of all these cells, between which there are these pairs."""
        if self.work is not None and (len(cells) == 1 or self.work[cells].sum() <= self.enough):
            self.branches.append(cells)
            return -len(self.branches)
        if len(cells) == 1:
            return int(cells[0])
        upper = np.zeros(len(self.centres), dtype=bool)
        upper[self._upper_part(cells, edges)] = True
        sides = upper[self.pairs[edges]]
        low, high = cells[~upper[cells]], cells[upper[cells]]
        first = self._merged(low, edges[~sides.any(axis=1)])
        return self._pair(first, self._merged(high, edges[sides.all(axis=1)]))

    def _upper_part(self, cells: np.ndarray, edges: np.ndarray) -> np.ndarray:
        """The cells beyond the plane across a coordinate that fewest ties cross for the share it divides off."""
        count, best, found = len(cells), np.inf, cells[1:]
        place = np.empty(len(self.centres), dtype=np.int64)
        behind = np.arange(1, count)
        share = np.minimum(behind, count - behind) / count
        lopsided = share < min(SMALLER, 0.5 * (count // 2) / count)
        for axis in np.argsort(-np.ptp(self.centres[cells], axis=0), kind="stable"):
            order = cells[np.argsort(self.centres[cells, axis], kind="stable")]
            place[order] = np.arange(count)
            low, high = np.sort(place[self.pairs[edges]], axis=1).T
            steps = np.bincount(low, self.ties[edges], count) - np.bincount(high, self.ties[edges], count)
            cost = np.where(lopsided, np.inf, np.cumsum(steps)[:-1] / share**BALANCE)
            k = int(np.argmin(cost))
            if cost[k] < best:
                best, found = float(cost[k]), order[k + 1 :]
        return found
