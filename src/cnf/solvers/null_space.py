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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from threadpoolctl import threadpool_limits

from cnf.solvers.fronts import Front, Outstanding, as_seen, merged
from cnf.solvers.local_factor import LocalFactor
from cnf.solvers.merging import merging_order
from cnf.solvers.metric import Metric
from cnf.solvers.tables import Evaluated

PIECE = 4096  # rows that are multiplied at once: a copy of the weights for each of them would be as large as they are


def in_pieces(rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Numbers of rows (K, n), and these: an array piece by piece, as rows are that are worked out when asked for."""
    for start in range(0, rows.shape[0], PIECE):
        numbers = np.arange(start, min(start + PIECE, rows.shape[0]))
        yield numbers, rows[numbers]


def times_weights(rows: np.ndarray | Evaluated, owner: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Every row (K, n) times y (cells, n) of the cell that owns it, (K,)."""
    if not isinstance(rows, np.ndarray):
        return rows.times(y)
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
class Halfway:
    """What is fixed on the way up the tree: smallest solutions `y` (cells, n) of the cells' own rows, and `fixed` of
    every front; what ties make of it, (ties,)."""

    y: np.ndarray
    fixed: list[np.ndarray]
    reached: np.ndarray


class TiedFactor:
    """All cells factored and merged; `starts` (cells + 1,) says which rows of the table (M, n) belong to a cell.

    `centres` (cells, D) say which cells are neighbours, `time` which coordinate has a direction, `active` (cells, n)
    which unknowns a cell has; None: all. `metric` says how weights are measured, an array (n,) what they are multiplied
    by; None: as they are. Unknowns y are those of the metric. `order` says which parts are merged, `total` (ties,) how
    many entries ties have, here and elsewhere; None: those here. What has some elsewhere is left `outstanding`.
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
        order: Sequence[tuple[int, int]] | None = None,
        total: np.ndarray | None = None,
    ):
        self.starts, self.ties = starts, ties
        own = np.ones((len(starts) - 1, table.shape[1]), dtype=bool) if active is None else active
        column = np.ones(table.shape[1]) if metric is None else metric
        self.metric = column if isinstance(column, Metric) else Metric(column, own)
        with threadpool_limits(1, "blas"):  # threads only get in each other's way on matrices this small
            self.local = [
                LocalFactor.of(self.metric.over(cell, table[np.arange(a, b)]), each)
                for cell, ((a, b), each) in enumerate(zip(pairwise(starts), own, strict=True))
            ]
            self.seen: dict[int, np.ndarray] = {}  # by part: a basis (k, l) of the null coordinates in use
            self.fronts: list[Front] = []
            order = merging_order(centres, *ties.pairs(), time) if order is None else order
            self.outstanding = self._merge_all(order, np.bincount(ties.rows, minlength=ties.count), total)

    @classmethod
    def kept(
        cls,
        starts: np.ndarray,
        ties: Ties,
        metric: Metric,
        local: list[LocalFactor],
        fronts: list[Front],
        seen: dict[int, np.ndarray],
    ) -> TiedFactor:
        """One that was factored elsewhere."""
        made = cls.__new__(cls)
        made.starts, made.ties, made.metric = starts, ties, metric
        made.local, made.fronts, made.seen, made.outstanding = local, fronts, seen, None
        return made

    @property
    def at_once(self) -> float:
        """The share of the cells that are tied by one system: all."""
        return 1.0

    @property
    def rank(self) -> int:
        return sum(f.rank for f in self.local) + sum(f.factor.rank for f in self.fronts)

    def _merge_all(
        self, order: Sequence[tuple[int, int]], here: np.ndarray, total: np.ndarray | None
    ) -> Outstanding | None:
        """What is outstanding of all cells together."""
        total = here if total is None else total
        by_cell = np.argsort(self.ties.cells, kind="stable")
        bounds = np.searchsorted(self.ties.cells[by_cell], np.arange(len(self.local) + 1))
        entries = [by_cell[a:b] for a, b in pairwise(bounds)]  # of every cell
        parts: dict[int, Outstanding] = {}  # of fronts

        def part(number: int) -> Outstanding:
            if number >= len(self.local):
                return parts.pop(number)
            return self._as_seen(number, self._of_cell(number, entries[number], total))

        for numbers in order:
            front, left = merged(numbers, [part(number) for number in numbers])
            number = len(self.local) + len(self.fronts)
            self.fronts.append(front)
            parts[number] = self._as_seen(number, left)
        return part(len(self.local) + len(order) - 1) if self.local else None

    def _of_cell(self, cell: int, entries: np.ndarray, total: np.ndarray) -> Outstanding:
        """The ties of a cell, all outstanding."""
        ties = self.ties.rows[entries]
        free = self.local[cell].on_free(self.metric.over(cell, self.ties.vectors[entries]))
        return Outstanding(ties, np.ones(len(ties), dtype=np.int64), total[ties], free)

    def _as_seen(self, number: int, part: Outstanding) -> Outstanding:
        found, basis = as_seen(part)
        if basis is not None:
            self.seen[number] = basis
        return found

    def solve(self, right: np.ndarray, tied: np.ndarray) -> np.ndarray:
        """The smallest y (cells, n) with L y = right (M,) and T y = tied."""
        return self.descend(self.ascend(right, tied))

    def ascend(self, right: np.ndarray, tied: np.ndarray) -> Halfway:
        """From the cells to the last front: what rows, and ties that are finished, fix."""
        y = np.stack([f.solve(right[a:b]) for f, (a, b) in zip(self.local, pairwise(self.starts), strict=True)])
        reached = self.ties.applied(self.metric.weights(y))  # T y of what is fixed so far
        fixed = []
        for front in self.fronts:
            along = front.factor.along(tied[front.finished] - reached[front.finished])
            reached[front.outstanding] += front.held @ along
            fixed.append(along)
        return Halfway(y, fixed, reached)

    def descend(self, halfway: Halfway, beyond: np.ndarray | None = None) -> np.ndarray:
        """y (cells, n), from the last front to the cells; `beyond` are null coordinates that others fixed."""
        y = halfway.y.copy()
        free = {} if beyond is None else {len(self.local) + len(self.fronts) - 1: beyond}
        for k in reversed(range(len(self.fronts))):
            front, number = self.fronts[k], len(self.local) + k
            c = front.factor.joined(
                halfway.fixed[k],
                self._from_seen(number, free.pop(number)) if number in free else np.zeros(front.factor.free),
            )
            free[front.parts[0]], free[front.parts[1]] = c[: front.width], c[front.width :]
        for cell, c in free.items():
            y[cell] += self.local[cell].joined(np.zeros(self.local[cell].rank), self._from_seen(cell, c))
        return y

    def _from_seen(self, part: int, c: np.ndarray) -> np.ndarray:
        """Null coordinates of a part from those of them in use."""
        return self.seen[part] @ c if part in self.seen else c

    def _to_seen(self, part: int, c: np.ndarray) -> np.ndarray:
        return self.seen[part].T @ c if part in self.seen else c

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
