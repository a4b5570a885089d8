"""Null spaces: the smallest weights of many small systems that few rows tie together.

Every cell has its own rows L_i y_i = b_i. A pivoted QR of L_i^T gives a solution and an orthonormal basis Q2_i of
what leaves them alone, so that y_i = Q1_i R_i^-T b_i + Q2_i c_i whatever c_i. Rows T y = d that touch several cells
are rows for the c of these cells: two neighbours are merged into one by the same step, and so on up a tree, until one
cell is left (a multifrontal QR that reveals the rank at every front). As Q1 and Q2 are orthogonal, y is the smallest
solution of all rows together, y = B^+ (b, d) with B = (L, T), and the gradient is that of the pseudo-inverse. Nothing
is ever squared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_limits

DEPENDENT = 1e-12  # diagonal of R, relative to its first entry, below which rows say nothing new


@dataclass(frozen=True)
class LocalFactor:
    """One cell: Q1 (n, r), Q2 (n, n - r), R (r, m) of the rows divided by `scale` (m,), in the order `pivot` (m,)."""

    first: np.ndarray
    null: np.ndarray
    triangle: np.ndarray
    pivot: np.ndarray
    scale: np.ndarray

    @staticmethod
    def over(rows: np.ndarray, active: np.ndarray) -> LocalFactor:
        """`rows` (m, n) in the unknowns that are `active` (n,); the others stay zero."""
        if active.all():
            return LocalFactor.of(rows)
        found = LocalFactor.of(rows[:, active])
        wide = [np.zeros((len(active), part.shape[1])) for part in (found.first, found.null)]
        for whole, part in zip(wide, (found.first, found.null), strict=True):
            whole[active] = part
        return replace(found, first=wide[0], null=wide[1])

    @staticmethod
    def of(rows: np.ndarray) -> LocalFactor:
        """`rows` (m, n)."""
        if not rows.shape[0]:
            n = rows.shape[1]
            empty = np.zeros(0)
            return LocalFactor(np.zeros((n, 0)), np.eye(n), np.zeros((0, 0)), empty.astype(int), empty)
        size = np.linalg.norm(rows, axis=1)
        scale = np.where(size > 0, size, 1.0)
        q, r, pivot = scipy.linalg.qr((rows / scale[:, None]).T, pivoting=True, check_finite=False)
        diagonal = np.abs(np.diag(r))
        rank = int((diagonal > DEPENDENT * diagonal[0]).sum()) if len(diagonal) else 0
        return LocalFactor(q[:, :rank], q[:, rank:], r[:rank, :rank], pivot[:rank], scale)

    @property
    def rank(self) -> int:
        return self.triangle.shape[0]

    def solve(self, right: np.ndarray) -> np.ndarray:
        """The smallest y (n,) with L y = right (m,); rows beyond the rank are left to the others."""
        if not self.rank:
            return np.zeros(self.first.shape[0])
        own = (right / self.scale)[self.pivot]
        return self.first @ scipy.linalg.solve_triangular(self.triangle, own, trans="T", check_finite=False)

    def solve_transposed(self, z: np.ndarray) -> np.ndarray:
        """The multipliers (m,) of the rows: L^+T z."""
        found = np.zeros(self.scale.shape[0])
        if self.rank:
            inner = scipy.linalg.solve_triangular(self.triangle, self.first.T @ z, check_finite=False)
            found[self.pivot] = inner
        return found / self.scale


@dataclass(frozen=True)
class Ties:
    """Rows over several cells: entry e adds `vectors[e]` (n,) of cell `cells[e]` to row `rows[e]`."""

    count: int
    rows: np.ndarray  # (E,)
    cells: np.ndarray  # (E,)
    vectors: np.ndarray  # (E, n)

    def applied(self, y: np.ndarray) -> np.ndarray:
        """T y for y (cells, n)."""
        each = np.einsum("en,en->e", self.vectors, y[self.cells])
        return np.bincount(self.rows, weights=each, minlength=self.count).astype(np.float64)

    def transposed(self, multipliers: np.ndarray, cells: int) -> np.ndarray:
        """T^T times multipliers (count,): (cells, n)."""
        found = np.zeros((cells, self.vectors.shape[1]))
        np.add.at(found, self.cells, self.vectors * multipliers[self.rows][:, None])
        return found


@dataclass(frozen=True)
class Front:
    """Two parts merged: `factor` of the ties they finish, in their null coordinates, and what is left of the others.

    `left` (outstanding, k) are the ties that reach beyond, in the coordinates before the merge.
    """

    parts: tuple[int, int]  # numbers of the parts: cells first, then fronts in order
    width: int  # null coordinates of the first part
    finished: np.ndarray  # ties
    outstanding: np.ndarray
    factor: LocalFactor
    left: np.ndarray


class TiedFactor:
    """All cells factored and merged; `starts` (cells + 1,) says which rows of the table (M, n) belong to a cell.

    `centres` (cells, D) say which cells are neighbours, `time` which coordinate has a direction, `active` (cells, n)
    which unknowns a cell has; None: all.
    """

    def __init__(
        self,
        table: np.ndarray,
        starts: np.ndarray,
        ties: Ties,
        centres: np.ndarray,
        time: int | None = None,
        active: np.ndarray | None = None,
    ):
        self.starts, self.ties = starts, ties
        own = np.ones((len(starts) - 1, table.shape[1]), dtype=bool) if active is None else active
        with threadpool_limits(1, "blas"):  # threads only get in each other's way on matrices this small
            self._factor(table, centres, time, own)

    def _factor(self, table: np.ndarray, centres: np.ndarray, time: int | None, active: np.ndarray) -> None:
        starts, ties = self.starts, self.ties
        self.local = [LocalFactor.over(table[a:b], own) for (a, b), own in zip(pairwise(starts), active, strict=True)]
        order = np.argsort(ties.cells, kind="stable")
        bounds = np.searchsorted(ties.cells[order], np.arange(len(self.local) + 1))
        self._entries = [order[a:b] for a, b in pairwise(bounds)]  # of every cell
        self.fronts: list[Front] = []
        self._merge_all(merging_order(centres, time))

    @property
    def rank(self) -> int:
        return sum(f.rank for f in self.local) + sum(f.factor.rank for f in self.fronts)

    def _merge_all(self, order: list[tuple[int, int]]) -> None:
        remaining = np.bincount(self.ties.rows, minlength=self.ties.count)  # entries of a tie not merged yet
        parts: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}  # ties, entries of each, in null coordinates
        for cell, (own, factor) in enumerate(zip(self._entries, self.local, strict=True)):
            rows = self.ties.rows[own]
            parts[cell] = (rows, np.ones(len(rows), dtype=np.int64), self.ties.vectors[own] @ factor.null)
        for first, second in order:
            (rows_a, count_a, a), (rows_b, count_b, b) = parts.pop(first), parts.pop(second)
            rows = np.union1d(rows_a, rows_b)
            both = np.zeros((len(rows), a.shape[1] + b.shape[1]))
            counts = np.zeros(len(rows), dtype=np.int64)
            for own, count, block, at in ((rows_a, count_a, a, 0), (rows_b, count_b, b, a.shape[1])):
                where = np.searchsorted(rows, own)
                both[where, at : at + block.shape[1]] = block
                counts[where] += count
            done = counts == remaining[rows]
            factor = LocalFactor.of(both[done])
            left = both[~done]
            number = len(self.local) + len(self.fronts)
            self.fronts.append(Front((first, second), a.shape[1], rows[done], rows[~done], factor, left))
            parts[number] = (rows[~done], counts[~done], left @ factor.null)

    def solve(self, right: np.ndarray, tied: np.ndarray) -> np.ndarray:
        """The smallest y (cells, n) with L y = right (M,) and T y = tied."""
        y = np.stack([f.solve(right[a:b]) for f, (a, b) in zip(self.local, pairwise(self.starts), strict=True)])
        reached = self.ties.applied(y)  # T y of what is fixed so far
        fixed = []
        for front in self.fronts:
            c = front.factor.solve(tied[front.finished] - reached[front.finished])
            reached[front.outstanding] += front.left @ c
            fixed.append(c)
        free: dict[int, np.ndarray] = {}
        for k in reversed(range(len(self.fronts))):
            front, c = self.fronts[k], fixed[k]
            above = free.pop(len(self.local) + k, None)
            c = c if above is None else c + front.factor.null @ above
            free[front.parts[0]], free[front.parts[1]] = c[: front.width], c[front.width :]
        for cell, c in free.items():
            y[cell] += self.local[cell].null @ c
        return y

    def solve_transposed(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """B^+T z for z (cells, n): the multipliers of the rows (M,) and of the ties. `solve` transposed."""
        towards: dict[int, np.ndarray] = {cell: f.null.T @ z[cell] for cell, f in enumerate(self.local)}
        inner = []
        for k, front in enumerate(self.fronts):
            g = np.concatenate([towards.pop(part) for part in front.parts])
            towards[len(self.local) + k] = front.factor.null.T @ g
            inner.append(g)
        ties = np.zeros(self.ties.count)
        reached = np.zeros(self.ties.count)
        for front, g in zip(reversed(self.fronts), reversed(inner), strict=True):
            found = front.factor.solve_transposed(g + front.left.T @ reached[front.outstanding])
            ties[front.finished] = found
            reached[front.finished] = -found
        rest = z + self.ties.transposed(reached, len(self.local))
        parts = [f.solve_transposed(rest[k]) for k, f in enumerate(self.local)]
        return np.concatenate(parts) if parts else np.zeros(0), ties


def merging_order(centres: np.ndarray, time: int | None = None) -> list[tuple[int, int]]:
    """Pairs to merge, neighbours first: cells halved again and again across their longest extent, from the bottom up.

    Along `time`, one slab after the other from the first on: what starts from given values is determined by them, while
    a piece of time without its start is nearly singular.
    """
    found: list[tuple[int, int]] = []

    def pair(first: int, second: int) -> int:
        found.append((first, second))
        return len(centres) + len(found) - 1

    def merged(cells: np.ndarray) -> int:
        if len(cells) == 1:
            return int(cells[0])
        own = centres[cells]
        axis = int(np.argmax(own.max(axis=0) - own.min(axis=0)))
        order = cells[np.argsort(own[:, axis], kind="stable")]
        half = _cut(np.sort(own[:, axis]))
        return pair(merged(order[:half]), merged(order[half:]))

    if time is None:
        merged(np.arange(len(centres)))
        return found
    slabs = [np.flatnonzero(centres[:, time] == t) for t in np.unique(centres[:, time])]
    whole = merged(slabs[0])
    for slab in slabs[1:]:
        whole = pair(whole, merged(slab))
    return found


def _cut(values: np.ndarray) -> int:
    """Where to halve sorted values, so that equal ones stay together if they can."""
    half = len(values) // 2
    steps = np.flatnonzero(np.diff(values) > 0) + 1
    return half if not len(steps) else int(steps[np.argmin(np.abs(steps - half))])
