"""Null spaces: the smallest weights of many small systems that few rows tie together.

Every cell has its own rows L_i y_i = b_i. A QR of L_i^T that reveals their rank gives a solution and an orthonormal
basis Q2_i of what leaves them alone, so that y_i = Q1_i R_i^-T b_i + Q2_i c_i whatever c_i. Rows T y = d that touch
several cells are rows for the c of these cells: two neighbours are merged into one by the same step, and so on up a
tree, until one cell is left (a multifrontal QR that reveals the rank at every front). As Q1 and Q2 are orthogonal, y is
the smallest solution of all rows together, y = B^+ (b, d) with B = (L, T), and the gradient is that of the pseudo-
inverse. Nothing is ever squared. Rows may be complex: then what is transposed is conjugated too. Where rows leave more
room than the ties of a part can see, its null coordinates are reduced to those that they do see: the smallest solution
is zero in all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
import scipy.linalg
from scipy.linalg import lapack
from threadpoolctl import threadpool_limits

from cnf.solvers.merging import merging_order
from cnf.solvers.metric import Metric

ROOM = 1.25  # null coordinates per row from which on they are reduced to those that rows see
PIECE = 4096  # rows that are multiplied at once: a copy of the weights for each of them would be as large as they are
DEPENDENT = 1e-12  # diagonal of R, relative to its first entry, below which rows say nothing new


@dataclass(frozen=True)
class LocalFactor:
    """One cell: Q (n, n) and R (r, r) of the r independent ones of its rows divided by `scale` (m,).

    Q stays a product of reflections, times `turn` (k, k) in the first k directions if rows depend on each other. Its
    first r columns span the rows, the others leave them alone: `null` coordinates are weights of those.
    R is kept where the reflections leave room for it, and apart, as `turned`, if it was factored again.
    """

    reflections: np.ndarray  # (n, k), as LAPACK keeps them
    factors: np.ndarray  # (k,)
    turn: np.ndarray | None
    turned: np.ndarray | None  # (r, r)
    pivot: np.ndarray  # (r,) rows in the order of the triangle
    scale: np.ndarray
    active: np.ndarray | None = None  # (all unknowns,) bool: which of them are the n; None: all

    @staticmethod
    def of(rows: np.ndarray, active: np.ndarray | None = None) -> LocalFactor:
        """`rows` (m, n) in the unknowns that are `active` (n,); the others stay zero.

        Pivoting costs five times as much as reflections alone, so it is left to rows that turn out to be nearly
        dependent: then the triangle is factored again, which is smaller than the rows.
        """
        own = rows if active is None or active.all() else rows[:, active]
        size = np.linalg.norm(own, axis=1)
        scale = np.where(size > 0, size, 1.0)
        m, n = own.shape
        if not m or not n:
            none = np.zeros(0, dtype=int)
            empty = np.zeros((n, 0)), np.zeros(0), None, None, none, scale
            return LocalFactor(*empty, active if own is not rows else None)
        geqrf, geqrf_lwork, trcon = (_lapack(own, name) for name in ("geqrf", "geqrf_lwork", "trcon"))
        work = int(geqrf_lwork(n, m)[0].real)
        found, factors, _, _ = geqrf((own / scale[:, None]).conj().T, lwork=work, overwrite_a=True)
        k = min(m, n)
        pivot, turn, turned = np.arange(m), None, None
        if m > n or trcon(np.asfortranarray(found[:k]))[0] <= m * DEPENDENT:
            turn, triangle, pivot = scipy.linalg.qr(np.triu(found[:k]), pivoting=True, check_finite=False)
            diagonal = np.abs(np.diag(triangle))
            rank = int((diagonal > DEPENDENT * diagonal[0]).sum())
            turned, pivot = np.asfortranarray(triangle[:rank, :rank]), pivot[:rank]
        return LocalFactor(found[:, :k], factors, turn, turned, pivot, scale, active if own is not rows else None)

    @property
    def rank(self) -> int:
        return self.pivot.shape[0]

    def solve(self, right: np.ndarray) -> np.ndarray:
        """The smallest y (n,) with L y = right (m,); rows beyond the rank are left to the others."""
        return self.joined(self.along(right), np.zeros(self.reflections.shape[0] - self.rank))

    def solve_transposed(self, z: np.ndarray) -> np.ndarray:
        """The multipliers (m,) of the rows: L^+T z."""
        return self.multipliers(self.in_directions(z[None])[0, : self.rank])

    def along(self, right: np.ndarray) -> np.ndarray:
        """What the smallest y with L y = right (m,) is in the first r directions, (r,)."""
        return self._solve_triangle((right / self.scale)[self.pivot], 2)

    def multipliers(self, along: np.ndarray) -> np.ndarray:
        """`along` transposed: (r,) -> (m,)."""
        found = np.zeros(self.scale.shape[0], along.dtype)
        found[self.pivot] = self._solve_triangle(along, 0)
        return found / self.scale

    def joined(self, along: np.ndarray, c: np.ndarray) -> np.ndarray:
        """What the first r directions (r,) and null coordinates (n - r,) stand for, (n,)."""
        return self._from_directions(np.concatenate([along, c]))

    def on_free(self, rows: np.ndarray) -> np.ndarray:
        """Rows (l, n) as rows over the null coordinates, (l, n - r)."""
        return self.in_directions(rows)[:, self.rank :]

    def _solve_triangle(self, right: np.ndarray, transposed: int) -> np.ndarray:
        if not self.rank:
            return np.zeros(0)
        triangle = np.asfortranarray(self.reflections[: self.rank]) if self.turned is None else self.turned
        return _lapack(triangle, "trtrs")(triangle, right, trans=transposed)[0]

    def in_directions(self, rows: np.ndarray) -> np.ndarray:
        """Rows (l, n) times Q."""
        own = rows if self.active is None else rows[:, self.active]
        found = self._reflected(np.ascontiguousarray(own).conj().T, adjoint=True)
        if self.turn is not None:
            found[: len(self.turn)] = self.turn.conj().T @ found[: len(self.turn)]
        return found.conj().T

    def _from_directions(self, inner: np.ndarray) -> np.ndarray:
        """Q times `inner` (n,)."""
        if self.turn is not None:
            inner = np.concatenate([self.turn @ inner[: len(self.turn)], inner[len(self.turn) :]])
        own = self._reflected(inner[:, None], adjoint=False)[:, 0]
        if self.active is None:
            return own
        found = np.zeros(len(self.active), own.dtype)
        found[self.active] = own
        return found

    def _reflected(self, columns: np.ndarray, adjoint: bool) -> np.ndarray:
        """The reflections, or their adjoint, of columns (n, l)."""
        if not columns.size or not len(self.factors):
            return np.array(columns)
        work = 64 * (columns.shape[1] + 65)  # a block of reflections and its triangle
        if np.iscomplexobj(self.reflections):
            return lapack.zunmqr("L", "C" if adjoint else "N", self.reflections, self.factors, columns, work)[0]
        return lapack.dormqr("L", "T" if adjoint else "N", self.reflections, self.factors, columns, work)[0]


def _lapack(matrix: np.ndarray, name: str) -> Callable:
    """The routine of this name for real or for complex numbers."""
    return getattr(lapack, ("z" if np.iscomplexobj(matrix) else "d") + name)


def in_pieces(rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Numbers of rows (K, n), and these: an array piece by piece, as rows are that are worked out when asked for."""
    for start in range(0, rows.shape[0], PIECE):
        numbers = np.arange(start, min(start + PIECE, rows.shape[0]))
        yield numbers, rows[numbers]


def times_weights(rows: np.ndarray, owner: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Every row (K, n) times y (cells, n) of the cell that owns it, (K,)."""
    parts = [np.einsum("kn,kn->k", own, y[owner[numbers]]) for numbers, own in in_pieces(rows)]
    return np.concatenate(parts) if parts else np.zeros(0)


def squares_of(rows: np.ndarray) -> np.ndarray:
    """Sums of squares of rows (K, n), (K,)."""
    parts = [np.einsum("kn,kn->k", own, own) for _, own in in_pieces(rows)]
    return np.concatenate(parts) if parts else np.zeros(0)


@dataclass(frozen=True)
class Ties:
    """Rows over several cells: entry e adds `vectors[e]` (n,) of cell `cells[e]` to row `rows[e]`."""

    count: int
    rows: np.ndarray  # (E,)
    cells: np.ndarray  # (E,)
    vectors: np.ndarray  # (E, n), or what passes for it: rows that are worked out when numbers of them are asked for

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Cells that rows tie to each other, (F, 2), and how many rows do, (F,); rows over many cells do not count."""
        order = np.argsort(self.rows, kind="stable")
        number = np.bincount(self.rows, minlength=self.count)
        start = np.cumsum(number) - number
        both = [
            np.stack([self.cells[order[start[number == many] + k]] for k in pair], axis=1)
            for many in (2, 3)
            for pair in combinations(range(many), 2)
        ]
        return np.unique(np.sort(np.concatenate(both), axis=1), axis=0, return_counts=True)

    def applied(self, y: np.ndarray) -> np.ndarray:
        """T y for y (cells, n)."""
        each = times_weights(self.vectors, self.cells, y)
        found = np.bincount(self.rows, weights=each.real, minlength=self.count).astype(np.float64)
        return found + 1j * np.bincount(self.rows, each.imag, self.count) if np.iscomplexobj(each) else found

    def transposed(self, multipliers: np.ndarray, cells: int) -> np.ndarray:
        """T^T times multipliers (count,): (cells, n)."""
        found = np.zeros((cells, self.vectors.shape[1]))
        np.add.at(found, self.cells, self.vectors * multipliers[self.rows][:, None])
        return found


@dataclass(frozen=True)
class Front:
    """Two parts merged: `factor` of the ties they finish, in their null coordinates, and what that does to the others.

    `held` (outstanding, r) are the ties that reach beyond, in the r directions that the finished ones determine. Their
    rest goes on to the next merge: kept in full, they would be most of the memory that cells in space take.
    """

    parts: tuple[int, int]  # numbers of the parts: cells first, then fronts in order
    width: int  # null coordinates of the first part
    finished: np.ndarray  # ties
    outstanding: np.ndarray
    factor: LocalFactor
    held: np.ndarray


_Outstanding = tuple[np.ndarray, np.ndarray, np.ndarray]  # ties (l,), entries met so far (l,), null coordinates (l, k)


class TiedFactor:
    """All cells factored and merged; `starts` (cells + 1,) says which rows of the table (M, n) belong to a cell.

    `centres` (cells, D) say which cells are neighbours, `time` which coordinate has a direction, `active` (cells, n)
    which unknowns a cell has; None: all. `metric` says how weights are measured, an array (n,) what they are multiplied
    by; None: as they are. Unknowns y are those of the metric.
    """

    def __init__(
        self,
        table: np.ndarray,
        starts: np.ndarray,
        ties: Ties,
        centres: np.ndarray,
        time: int | None = None,
        active: np.ndarray | None = None,
        metric: Metric | np.ndarray | None = None,
    ):
        self.starts, self.ties = starts, ties
        own = np.ones((len(starts) - 1, table.shape[1]), dtype=bool) if active is None else active
        column = np.ones(table.shape[1]) if metric is None else metric
        self.metric = column if isinstance(column, Metric) else Metric(column, own)
        with threadpool_limits(1, "blas"):  # threads only get in each other's way on matrices this small
            self._factor(table, centres, time, own)

    def _factor(self, table: np.ndarray, centres: np.ndarray, time: int | None, active: np.ndarray) -> None:
        starts, ties = self.starts, self.ties
        self.local = [
            LocalFactor.of(self.metric.over(cell, table[np.arange(a, b)]), own)
            for cell, ((a, b), own) in enumerate(zip(pairwise(starts), active, strict=True))
        ]
        self._seen: dict[int, np.ndarray] = {}  # by part: an orthonormal basis (k, l) of the null coordinates in use
        order = np.argsort(ties.cells, kind="stable")
        bounds = np.searchsorted(ties.cells[order], np.arange(len(self.local) + 1))
        self._entries = [order[a:b] for a, b in pairwise(bounds)]  # of every cell
        self.fronts: list[Front] = []
        self._merge_all(merging_order(centres, *ties.pairs(), time))

    @property
    def at_once(self) -> float:
        """The share of the cells that are tied by one system: all."""
        return 1.0

    @property
    def rank(self) -> int:
        return sum(f.rank for f in self.local) + sum(f.factor.rank for f in self.fronts)

    def _merge_all(self, order: list[tuple[int, int]]) -> None:
        remaining = np.bincount(self.ties.rows, minlength=self.ties.count)  # entries of a tie not merged yet
        parts: dict[int, _Outstanding] = {}  # of fronts
        for first, second in order:
            (rows_a, count_a, a), (rows_b, count_b, b) = (
                self._of_cell(part) if part < len(self.local) else parts.pop(part) for part in (first, second)
            )
            rows = np.union1d(rows_a, rows_b)
            both = np.zeros((len(rows), a.shape[1] + b.shape[1]), np.result_type(a, b))
            counts = np.zeros(len(rows), dtype=np.int64)
            for own, count, block, at in ((rows_a, count_a, a, 0), (rows_b, count_b, b, a.shape[1])):
                where = np.searchsorted(rows, own)
                both[where, at : at + block.shape[1]] = block
                counts[where] += count
            done, width = counts == remaining[rows], a.shape[1]
            finished, both = both[done], both[~done]
            del a, b, block  # they are large
            factor = LocalFactor.of(finished)
            left = factor.in_directions(both)
            del finished, both
            number, rank = len(self.local) + len(self.fronts), factor.rank
            held = left[:, :rank].copy()
            self.fronts.append(Front((first, second), width, rows[done], rows[~done], factor, held))
            parts[number] = (rows[~done], counts[~done], self._as_seen(number, left[:, rank:]))

    def _of_cell(self, cell: int) -> _Outstanding:
        """The ties of a cell, all outstanding."""
        own = self._entries[cell]
        rows = self.ties.rows[own]
        free = self.local[cell].on_free(self.metric.over(cell, self.ties.vectors[own]))
        return rows, np.ones(len(rows), dtype=np.int64), self._as_seen(cell, free)

    def _as_seen(self, part: int, rows: np.ndarray) -> np.ndarray:
        """Rows (l, k) over the null coordinates of a part, over those of them that they see if they are much fewer."""
        if rows.shape[1] <= ROOM * rows.shape[0]:
            return rows
        basis, triangle = np.linalg.qr(rows.conj().T)
        self._seen[part] = basis
        return triangle.conj().T

    def solve(self, right: np.ndarray, tied: np.ndarray) -> np.ndarray:
        """The smallest y (cells, n) with L y = right (M,) and T y = tied."""
        y = np.stack([f.solve(right[a:b]) for f, (a, b) in zip(self.local, pairwise(self.starts), strict=True)])
        reached = self.ties.applied(self.metric.weights(y))  # T y of what is fixed so far
        fixed = []
        for front in self.fronts:
            along = front.factor.along(tied[front.finished] - reached[front.finished])
            reached[front.outstanding] += front.held @ along
            fixed.append(along)
        free: dict[int, np.ndarray] = {}
        for k in reversed(range(len(self.fronts))):
            front, number = self.fronts[k], len(self.local) + k
            unused = np.zeros(front.factor.reflections.shape[0] - front.factor.rank)
            c = front.factor.joined(fixed[k], self._from_seen(number, free.pop(number)) if number in free else unused)
            free[front.parts[0]], free[front.parts[1]] = c[: front.width], c[front.width :]
        for cell, c in free.items():
            y[cell] += self.local[cell].joined(np.zeros(self.local[cell].rank), self._from_seen(cell, c))
        return y

    def _from_seen(self, part: int, c: np.ndarray) -> np.ndarray:
        """Null coordinates of a part from those of them in use."""
        return self._seen[part] @ c if part in self._seen else c

    def _to_seen(self, part: int, c: np.ndarray) -> np.ndarray:
        return self._seen[part].T @ c if part in self._seen else c

    def solve_transposed(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """B^+T z for z (cells, n): the multipliers of the rows (M,) and of the ties. `solve` transposed."""
        towards: dict[int, np.ndarray] = {
            cell: self._to_seen(cell, f.on_free(z[cell][None])[0]) for cell, f in enumerate(self.local)
        }
        along = []
        for k, front in enumerate(self.fronts):
            g = front.factor.in_directions(np.concatenate([towards.pop(part) for part in front.parts])[None])[0]
            number = len(self.local) + k
            towards[number] = self._to_seen(number, g[front.factor.rank :])
            along.append(g[: front.factor.rank])
        ties = np.zeros(self.ties.count)
        reached = np.zeros(self.ties.count)
        for front, g in zip(reversed(self.fronts), reversed(along), strict=True):
            found = front.factor.multipliers(g + front.held.T @ reached[front.outstanding])
            ties[front.finished] = found
            reached[front.finished] = -found
        rest = z + self.metric.transposed(self.ties.transposed(reached, len(self.local)))
        parts = [f.solve_transposed(rest[k]) for k, f in enumerate(self.local)]
        return np.concatenate(parts) if parts else np.zeros(0), ties

    def within(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What rows (M,) and entries of ties (E,) are multiplied by where y (cells, n) is the smallest solution."""
        rows, ties = self.solve_transposed(y)
        return rows, ties[self.ties.rows]
