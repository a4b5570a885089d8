"""Separation: rows of a slab of time that repeat at every moment, as rows over functions of space.

Where neither coefficients nor boundaries depend on time, a row at x and a moment is L of the field there and M of its
rate of change, with the same L and M at all moments: u = sum_j w_j T_j gives (L T_j + M T_j') w_j. Numbers of rows say
which of them differ by the moment only, marks whether these ask for the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.polynomial import chebyshev

from cnf.solvers.null_space import Ties
from cnf.solvers.tables import Table

SAME_MOMENT = 1e-10  # of a slab
ROUNDED = 1e-9  # of rows: what is left of moments where slabs are short
ALIKE = 1e-12  # of the sums of marks: how far those of different moments may be apart


@dataclass(frozen=True)
class ThinTable:
    """Rows over functions of space times 1 and t from -1 to 1, these fastest, (M, 2 S): all there is to first order.

    `marks` (M,) are the same for rows that ask for the same at the same place of space, up to rounding of `sums` (M,).
    """

    rows: Table
    marks: np.ndarray
    sums: np.ndarray

    def alike(self, groups: np.ndarray) -> bool:
        """Whether rows of a group (G, q) ask for the same."""
        marks = self.marks[groups]
        return bool((np.abs(marks - marks[:, :1]) <= ALIKE * self.sums[groups[:, :1]]).all())

    def of(self, chosen: np.ndarray) -> ThinTable:
        return ThinTable(Chosen(self.rows, chosen), self.marks[chosen], self.sums[chosen])


@dataclass(frozen=True)
class Chosen:
    """Some rows of a table."""

    table: Table
    numbers: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.numbers), *self.table.shape[1:])

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        return self.table[self.numbers[rows]]


@dataclass(frozen=True)
class Joined:
    """The rows of two tables, one after the other."""

    first: Table
    second: Table

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.first.shape[0] + self.second.shape[0], *self.first.shape[1:])

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        found, count = np.empty((len(rows), self.first.shape[1])), self.first.shape[0]
        early = rows < count
        found[early], found[~early] = self.first[rows[early]], self.second[rows[~early] - count]
        return found


def joined(first: ThinTable, second: ThinTable) -> ThinTable:
    marks, sums = (np.concatenate([getattr(t, name) for t in (first, second)]) for name in ("marks", "sums"))
    return ThinTable(Joined(first.rows, second.rows), marks, sums)


@dataclass(frozen=True)
class Instants:
    """`moment` (K,) of conditions, and `place` (K,): numbers that conditions share which differ by the moment only."""

    moment: np.ndarray
    place: np.ndarray

    def of(self, chosen: np.ndarray) -> Instants:
        return Instants(self.moment[chosen], self.place[chosen])


@dataclass(frozen=True)
class Frame:
    """A slab from -1 to 1 in time: `moments` (q,), at which every place has a condition; polynomials of degree q."""

    start: float
    half: float
    moments: np.ndarray

    @property
    def count(self) -> int:
        return len(self.moments)

    @property
    def values(self) -> np.ndarray:
        """T_j at the moments, (q, q + 1)."""
        return chebyshev.chebvander(self.moments, self.count)

    @property
    def slopes(self) -> np.ndarray:
        """T_j' at the moments, (q, q + 1)."""
        each = np.eye(self.count + 1)
        return np.stack([chebyshev.chebval(self.moments, chebyshev.chebder(row)) for row in each], axis=1)

    def numbers(self, at: Instants) -> np.ndarray:
        """Which moment every condition has, (K,): -1 for the start, from 0 on for the others, -2 for none of them."""
        place = (at.moment - self.start) / self.half - 1
        known = np.concatenate([[-1.0], self.moments])
        apart = np.abs(place[:, None] - known)
        return np.where(apart.min(axis=1, initial=np.inf) <= SAME_MOMENT, apart.argmin(axis=1) - 1, -2)


@dataclass(frozen=True)
class Separated:
    """Rows over functions of space, `still` L and `moving` M, (G, S) each, and what rows they stand for, (G, q)."""

    still: np.ndarray
    moving: np.ndarray
    rows: np.ndarray

    def at(self, rate: complex) -> np.ndarray:
        """L + rate M."""
        return self.still + rate * self.moving

    def applied(self, cells: np.ndarray, weights: np.ndarray, rates: np.ndarray | None = None) -> np.ndarray:
        """L of the weights (n, S, ..) of the cells (G,) and M of their `rates`, (G, ..)."""
        found = applied(self.still, cells, weights)
        return found if rates is None else found + applied(self.moving, cells, rates)


def applied(rows: np.ndarray, cells: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Rows (G, S) times the weights (n, S, ..) of their cells (G,), (G, ..), cell by cell: weights are not copied."""
    found = np.empty((len(rows), *weights.shape[2:]), np.result_type(rows, weights))
    order = np.argsort(cells, kind="stable")
    for cell, (a, b) in enumerate(pairwise(np.searchsorted(cells[order], np.arange(len(weights) + 1)))):
        found[order[a:b]] = rows[order[a:b]] @ weights[cell]
    return found


def frame_of(start: float, end: float, count: int, at: Instants) -> Frame | None:
    """The frame of a slab in which polynomials of degree `count` have as many moments after the start."""
    half = (end - start) / 2
    place = np.sort((at.moment - start) / half - 1)
    place = place[place > -1 + SAME_MOMENT]
    if not len(place):
        return None
    moments = place[np.concatenate([[True], np.diff(place) > SAME_MOMENT])]
    return Frame(start, half, moments) if len(moments) == count and moments[-1] <= 1 + SAME_MOMENT else None


def grouped(keys: list[np.ndarray], moment: np.ndarray, count: int) -> np.ndarray | None:
    """Numbers (G, count) of what has the same keys, in order of the moments; None if any moment is missing."""
    order = np.lexsort((moment, *reversed(keys)))
    if len(order) % count:
        return None
    found = order.reshape(-1, count)
    whole = (moment[found] == np.arange(count)).all()
    return found if whole and all((key[found] == key[found[:, :1]]).all() for key in keys) else None


def separate(table: ThinTable, rows: np.ndarray, frame: Frame) -> Separated | None:
    """`rows` (G, q) are numbers of rows of the table, those of one place in order of the moments."""
    if not table.alike(rows):
        return None
    found = table.rows[rows[:, 0]].reshape(len(rows), table.rows.shape[1] // 2, 2)  # (G, S, 2)
    still = found[:, :, 0].copy()
    return Separated(still, found[:, :, 1] - frame.moments[0] * still, rows)


@dataclass(frozen=True)
class SeparatedSlab:
    """All conditions of a slab: `beginning` (B, S) are rows of what it starts with, for `beginning_rows` (B,).

    `starts` and `beginning_starts` (cells + 1,) say which of them belong to a cell; `joint` are entries of ties, those
    of `joint_cells` (E,) that add to the tie `joint_ties` (E,) of `tie_groups` (T, q). `exists` and `begins` (cells, S)
    are the functions of space that a cell has, and those of them that have a start.
    """

    frame: Frame
    beginning: np.ndarray
    beginning_rows: np.ndarray
    beginning_starts: np.ndarray
    own: Separated
    starts: np.ndarray
    joint: Separated
    joint_cells: np.ndarray
    joint_ties: np.ndarray
    tie_groups: np.ndarray
    exists: np.ndarray
    begins: np.ndarray

    @property
    def owner(self) -> np.ndarray:
        """The cell of every place inside one, (G,)."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def ties(self, rate: complex) -> Ties:
        return Ties(len(self.tie_groups), self.joint_ties, self.joint_cells, self.joint.at(rate))

    def same_as(self, other: SeparatedSlab, tolerance: float) -> bool:
        """Whether they differ by rounding only, or by how they start."""
        numbers = ("starts", "joint_cells", "joint_ties", "exists", "begins")
        if not all(np.array_equal(getattr(self, name), getattr(other, name)) for name in numbers):
            return False
        if abs(self.frame.half - other.frame.half) > tolerance * other.frame.half:
            return False
        pairs = ((self.own, other.own), (self.joint, other.joint))
        return all(_alike(tolerance, (a.still, b.still), (a.moving, b.moving)) for a, b in pairs)

    def starts_as(self, other: SeparatedSlab, tolerance: float) -> bool:
        """Whether what they start with differs by rounding only: a given field, or that of the slab before."""
        same = np.array_equal(self.beginning_starts, other.beginning_starts)
        return same and _alike(tolerance, (self.beginning, other.beginning))


def _alike(tolerance: float, *pairs: tuple[np.ndarray, np.ndarray]) -> bool:
    """Whether rows that consist of several parts, the first of a pair and the second, differ by so little."""
    off, size = (np.max([f(*pair) for pair in pairs], axis=0) for f in (_largest_difference, _largest))
    return bool((off <= tolerance * size).all())


def _largest_difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.abs(a - b).max(axis=1)


def _largest(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.abs(b).max(axis=1)


def separate_slab(
    table: ThinTable,
    owner: np.ndarray,
    at: Instants,
    vectors: ThinTable,
    ties: np.ndarray,
    cells: np.ndarray,
    tied_at: Instants,
    active: np.ndarray,
    ends: tuple[float, float],
    degree: int,
) -> SeparatedSlab | None:
    """`table` has rows of cells `owner` (M,), `vectors` the entries of `ties` (E,) in `cells` (E,).

    Functions are those of space times polynomials in time up to the `degree`, these fastest; `active` (c, N).
    """
    frame = frame_of(*ends, degree, at)
    if frame is None or active.shape[1] % (degree + 1):
        return None
    present = active.reshape(len(active), -1, degree + 1)
    exists, begins = present[:, :, 0], present[:, :, degree]
    if (present[:, :, :degree] != exists[:, :, None]).any():
        return None
    moment, tied_moment = frame.numbers(at), frame.numbers(tied_at)
    if (moment < -1).any() or (tied_moment < 0).any():
        return None
    first = np.flatnonzero(moment < 0)
    first = first[np.argsort(owner[first], kind="stable")]
    later = np.flatnonzero(moment >= 0)
    count = np.arange(len(active) + 1)
    beginning_starts = np.searchsorted(owner[first], count)
    if (np.diff(beginning_starts) > begins.sum(axis=1)).any():
        return None
    groups = grouped([owner[later], at.place[later]], moment[later], frame.count)
    tie_groups = grouped([tied_at.place], tied_moment, frame.count)
    if groups is None or tie_groups is None:
        return None
    groups = later[groups]
    number = np.empty(tie_groups.size, dtype=np.int64)
    number[tie_groups] = np.arange(len(tie_groups))[:, None]
    entries = grouped([number[ties], cells], tied_moment[ties], frame.count)
    own = separate(table, groups, frame)
    if entries is None or own is None:
        return None
    joint = separate(vectors, entries, frame)
    beginning = table.rows[first].reshape(len(first), table.rows.shape[1] // 2, 2)
    if joint is None or np.abs(beginning.sum(axis=2)).max() > ROUNDED * np.abs(beginning).max():  # rates at the start
        return None
    unmoved = ~begins & exists  # functions without a start have no rate
    for rows, places in ((own, owner[groups[:, 0]]), (joint, cells[entries[:, 0]])):
        own_rates = np.abs(rows.moving[unmoved[places]]).max(initial=0.0)
        if own_rates > ROUNDED * np.abs(rows.still).max(initial=0.0):
            return None
    return SeparatedSlab(
        frame,
        beginning[:, :, 0].copy(),
        first,
        beginning_starts,
        own,
        np.searchsorted(owner[groups[:, 0]], count),
        joint,
        cells[entries[:, 0]],
        number[ties[entries[:, 0]]],
        tie_groups,
        exists,
        begins,
    )
