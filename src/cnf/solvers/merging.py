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


class _Merging:
    def __init__(self, centres: np.ndarray, pairs: np.ndarray, ties: np.ndarray):
        self.centres, self.pairs, self.ties = centres, pairs, ties
        self.order: list[tuple[int, int]] = []

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
