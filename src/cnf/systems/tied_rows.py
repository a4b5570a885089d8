"""Rows of tied cells: every condition as rows over the functions of the cells it touches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from cnf.bases.piecewise import PiecewiseEvaluator
from cnf.bases.ties import Guide, Tie
from cnf.constraints import Constraint
from cnf.operators.expansion import Probe, Request

ENTRIES = 2**21  # numbers of rows evaluated at once
MANY = 2**25  # numbers of rows from which on those of a field in time are evaluated slab by slab


@dataclass(frozen=True, eq=False)
class TiedSystem:
    """Conditions sorted by cell, `table` (M, C n) with cell k from starts[k] on, then those over several cells.

    `order` (M + T,) says which condition, counted constraint by constraint, row by row, point by point, each row is;
    conditions of ties come last.
    """

    table: Tensor | Rows
    starts: np.ndarray
    tied_rows: np.ndarray
    tied_cells: np.ndarray
    vectors: Tensor | Rows
    order: np.ndarray
    ties: int  # conditions over several cells

    def right(self, targets: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Right-hand sides (P, R) of constraints and ties -> those of the cells (M,) and those across them."""
        flat = torch.cat([t.T.reshape(-1) for t in targets])
        ordered = flat[torch.from_numpy(self.order)]
        return ordered[: self.table.shape[0]], ordered[self.table.shape[0] :]


@dataclass(frozen=True)
class Entries:
    """One request of a probe: what it adds to conditions (P,) in the functions of cells (P,)."""

    points: Tensor
    request: Request
    conditions: Tensor
    cells: Tensor
    sign: float


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows (K, C n) that are evaluated when they are asked for: all at once they would take too much memory."""

    evaluator: PiecewiseEvaluator
    entries: Sequence[Entries]
    where: np.ndarray  # the row of every condition and cell of the entries, one after the other
    start: int
    shape: tuple[int, int]
    functions: tuple[int, int]  # C, n

    @cached_property
    def _by_row(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of what rows are added up from, sorted by the row, and the row of each."""
        order = np.argsort(self.where, kind="stable")
        return order, self.where[order]

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        """(k, C n) for numbers (k,)."""
        order, found = self._by_row
        first, last = (np.searchsorted(found, rows + self.start, side) for side in ("left", "right"))
        owner = np.repeat(np.arange(len(rows)), last - first)  # the row asked for, of every part of one
        part = order[np.arange(len(owner)) + np.repeat(first - np.cumsum(last - first) + last - first, last - first)]
        several = np.argsort(part, kind="stable")
        owner, part = owner[several], part[several]
        bounds = np.cumsum([0, *(len(e.cells) for e in self.entries)])
        chosen, kept = [], []
        for e, start, (a, b) in zip(self.entries, bounds, pairwise(np.searchsorted(part, bounds)), strict=False):
            if a < b:
                at = torch.from_numpy(part[a:b] - start)
                chosen.append(Entries(e.points[at], e.request.at(at), e.conditions[at], e.cells[at], e.sign))
                kept.append(owner[a:b])
        if not chosen:
            return np.zeros((len(rows), self.shape[1]))
        to = torch.from_numpy(np.concatenate(kept))
        return _added_up(self.evaluator, chosen, to, (len(rows), *self.functions)).double().numpy()


def gather(
    evaluator: PiecewiseEvaluator,
    constraints: Sequence[Constraint],
    ties: Sequence[Tie],
    channels: int,
    n: int,
    lazily: bool = False,
) -> TiedSystem:
    """All conditions as rows over cells; `lazily`: evaluated when they are asked for, if they are many."""
    found: list[Entries] = []
    start = 0

    def add(probe: Probe, places: Tensor, count: int, sign: float = 1.0) -> None:
        owners = torch.arange(count).repeat_interleave(probe.nodes)
        for r, request in zip(probe.rows, probe.requests, strict=True):
            found.append(Entries(probe.points, request, start + r * count + owners, places, sign))

    for constraint in constraints:
        for probe in constraint.expanded():
            add(probe, evaluator.locate(probe.points), constraint.points.shape[0])
        start += constraint.rows
    for tie in ties:
        for condition, places, sign in tie.sides():
            for probe in condition.expanded():
                add(probe, places, condition.points.shape[0], sign)
        start += tie.condition.rows
    return _sorted(evaluator, found, start, channels, n, lazily)


def _sorted(
    evaluator: PiecewiseEvaluator, entries: Sequence[Entries], count: int, channels: int, n: int, lazily: bool
) -> TiedSystem:
    """Entries of the same condition and cell are added up; conditions of one cell go to it, the others are ties."""
    cells = evaluator.cells.count
    pairs = torch.cat([e.conditions * cells + e.cells for e in entries]).numpy()
    keys, inverse = np.unique(pairs, return_inverse=True)
    owner, place = keys // cells, keys % cells
    local = np.bincount(owner, minlength=count)[owner] == 1
    own = np.flatnonzero(local)
    own = own[np.argsort(place[own], kind="stable")]
    shared = np.flatnonzero(~local)
    tied = np.unique(owner[shared])
    where = np.empty(len(keys), dtype=np.int64)  # the rows of the table come first, then those over several cells
    where[np.concatenate([own, shared])] = np.arange(len(keys))
    starts = np.searchsorted(place[own], np.arange(cells + 1))
    table: Tensor | Rows
    vectors: Tensor | Rows
    if lazily and len(keys) * channels * n > MANY:
        rest = (len(keys) - len(own), channels * n)
        table = Rows(evaluator, entries, where[inverse], 0, (len(own), channels * n), (channels, n))
        vectors = Rows(evaluator, entries, where[inverse], len(own), rest, (channels, n))
    else:
        whole = _added_up(evaluator, entries, torch.from_numpy(where[inverse]), (len(keys), channels, n))
        table, vectors = whole[: len(own)], whole[len(own) :]
    return TiedSystem(
        table,
        starts,
        np.searchsorted(tied, owner[shared]),
        place[shared],
        vectors,
        np.concatenate([owner[own], tied]),
        len(tied),
    )


def _added_up(
    evaluator: PiecewiseEvaluator, entries: Sequence[Entries], where: Tensor, shape: tuple[int, int, int]
) -> Tensor:
    """Rows (K, C n), evaluated in pieces and written once: they are most of the memory that a solve takes."""
    whole = torch.zeros(shape, dtype=entries[0].points.dtype)
    step = max(1, ENTRIES // evaluator.local_size)
    polynomials, done = int(evaluator.polynomial.sum()), 0
    for e in entries:
        for start in range(0, len(e.cells), step):
            part = slice(start, start + step)
            rows = e.sign * evaluator.local_rows(e.points[part], e.cells[part], [e.request.at(part)])[:, 0]
            to = (where[done + start : done + start + len(rows)],)
            whole[:, e.request.channel, :polynomials].index_put_(to, rows[:, :polynomials], accumulate=True)
            if evaluator.extra:  # one weight for all channels of a corner function
                whole[:, 0, polynomials:].index_put_(to, rows[:, polynomials:], accumulate=True)
        done += len(e.cells)
    return whole.flatten(1)


@dataclass(frozen=True, eq=False)
class GuideRows:
    """Rows (G, C n) of guides, sorted by cell, with cell k from starts[k] on, and what they should give, (G,).

    Rows of one kind in one cell are as large as one together, functions weighed by `column`: so neither units nor
    the size of a cell say what counts more.
    """

    table: Tensor
    wanted: Tensor
    starts: np.ndarray


def gather_guides(
    evaluator: PiecewiseEvaluator, guides: Sequence[Guide], channels: int, n: int, column: Tensor
) -> GuideRows | None:
    """All guides as rows over cells."""
    if not guides:
        return None
    found: list[Entries] = []
    kinds, start, kind = [], 0, 0
    for guide in guides:
        condition, count = guide.condition, guide.condition.points.shape[0]
        for probe in condition.expanded():
            owners = torch.arange(count).repeat_interleave(probe.nodes)
            places = guide.cells.repeat_interleave(probe.nodes)
            for r, request in zip(probe.rows, probe.requests, strict=True):
                found.append(Entries(probe.points, request, start + r * count + owners, places, 1.0))
        rows = condition.rows // count
        kinds.append(np.repeat(np.arange(kind, kind + rows), count))
        start, kind = start + condition.rows, kind + rows
    system = _sorted(evaluator, found, start, channels, n, lazily=False)
    wanted = torch.cat([guide.condition.values.T.reshape(-1) for guide in guides])[torch.from_numpy(system.order)]
    assert isinstance(system.table, Tensor)
    cell = np.repeat(np.arange(evaluator.cells.count), np.diff(system.starts))
    _, group = np.unique(cell * kind + np.concatenate(kinds)[system.order], return_inverse=True)
    groups = torch.from_numpy(group)
    squares = (system.table * column).square().sum(dim=1)
    sizes = squares.new_zeros(int(group.max()) + 1).index_add(0, groups, squares).sqrt()
    scale = torch.where(sizes > 0, sizes, 1.0)[groups]
    return GuideRows(system.table / scale[:, None], wanted / scale, system.starts)
