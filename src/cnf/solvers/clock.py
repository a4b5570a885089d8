"""Clock: what solving slabs of time in stages takes, conditions and guides."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cnf.solvers.metric import Metric
from cnf.solvers.separation import Instants, Separated, ThinTable, frame_of, grouped, separate
from cnf.solvers.stages import StageGuides
from cnf.solvers.tables import Table, part_of


@dataclass(frozen=True)
class Clock:
    """What solving in stages takes: when rows (M,) and ties (T,) hold, from when to when cells last, (cells, 2).

    Functions of a cell are those of space times polynomials in time up to the `degree`, these fastest. `table` and
    `vectors` are the rows and the entries of ties.
    """

    rows: Instants
    ties: Instants
    table: ThinTable
    vectors: ThinTable
    ends: np.ndarray
    degree: int


@dataclass(frozen=True)
class GuideTable:
    """Guides of all cells: rows (G, n), sorted by cell, with cell k from starts[k] on.

    `order` says which condition each row is, counted guide by guide, row by row, point by point. Those of
    one `kind` (G,) in a cell count together; `column` (n,) is what functions count, `faint` how much weights count
    beside guides.
    """

    table: Table
    thin: ThinTable | None
    order: np.ndarray
    starts: np.ndarray
    kind: np.ndarray
    at: Instants | None  # None without time
    column: np.ndarray
    faint: float

    def numbers(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of the rows of these cells (c,), and the place of the cell of each among them."""
        count = np.diff(self.starts)[cells]
        owner = np.repeat(np.arange(len(cells)), count)
        first = np.cumsum(count) - count
        return np.arange(len(owner)) - first[owner] + self.starts[cells][owner], owner

    def of(self, cells: np.ndarray) -> GuideTable:
        """Of these cells (c,) only, which are numbered anew, and without time."""
        rows, owner = self.numbers(cells)
        starts = np.searchsorted(owner, np.arange(len(cells) + 1))
        table, kind = part_of(self.table, rows, cells), self.kind[rows]  # type: ignore[arg-type]
        return GuideTable(table, None, self.order[rows], starts, kind, None, self.column, self.faint)

    def as_they_are(self, cells: np.ndarray) -> StageGuides:
        """Over all functions of these cells."""
        rows, owner = self.numbers(cells)
        table = self.table[rows]
        whole = Separated(table, np.zeros_like(table), np.arange(len(rows))[:, None])
        starts = np.searchsorted(owner, np.arange(len(cells) + 1))
        return StageGuides(whole, self.kind[rows], starts, self.column, self.faint)

    def metric(self, active: np.ndarray) -> Metric:
        """By what weights of all cells are measured, `active` (cells, n) of them; worked out cell by cell."""
        own = np.flatnonzero(np.diff(self.starts))
        found = {int(k): self.as_they_are(np.array([k])).metric(0.0, active[[k]]).triangles[0] for k in own}
        return Metric(self.column / self.faint, active, found)

    def pull(self, wanted: np.ndarray) -> np.ndarray:
        """K^T k of all cells, (cells, n), for what guides should give, (G,)."""
        found = np.zeros((len(self.starts) - 1, len(self.column)))
        for k in np.flatnonzero(np.diff(self.starts)):
            here = slice(self.starts[k], self.starts[k + 1])
            found[k] = self.as_they_are(np.array([k])).pull(0.0, wanted[here])[0]
        return found

    def in_stages(
        self, cells: np.ndarray, ends: tuple[float, float], degree: int, known: StageGuides | None = None
    ) -> StageGuides | None:
        """Over the functions of space of these cells, if guides repeat at every moment; or as those `known`."""
        rows, owner = self.numbers(cells)
        assert self.at is not None
        at = self.at.of(rows)
        frame = frame_of(*ends, degree, at)
        groups = None if frame is None else grouped([owner, at.place], frame.numbers(at), degree)
        if frame is None or groups is None or self.thin is None:
            return None
        starts, kind = np.searchsorted(owner[groups[:, 0]], np.arange(len(cells) + 1)), self.kind[rows[groups[:, 0]]]
        if known is not None:
            same = np.array_equal(starts, known.starts) and np.array_equal(kind, known.kind)
            return replace(known, rows=replace(known.rows, rows=groups)) if same else None
        found = separate(self.thin.of(rows), groups, frame)
        column = self.column.reshape(-1, degree + 1)[:, 0]
        return None if found is None else StageGuides(found, kind, starts, column, self.faint)
