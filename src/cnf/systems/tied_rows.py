"""Rows of tied cells: every condition as rows over the functions of the cells it touches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from cnf.bases.local_functions import Products
from cnf.bases.piecewise import PiecewiseEvaluator
from cnf.bases.ties import Guide, Tie
from cnf.constraints import Constraint
from cnf.operators.expansion import Probe, Request
from cnf.solvers.clock import GuideTable
from cnf.solvers.separation import Instants, ThinTable

ENTRIES = 2**21  # numbers of rows evaluated at once


@dataclass(frozen=True, eq=False)
class TiedSystem:
    """Conditions sorted by cell, `table` (M, C n) with cell k from starts[k] on, then those over several cells.

    `order` (M + T,) says which condition, counted constraint by constraint, row by row, point by point, each row is;
    conditions of ties come last. `at` says when and where conditions hold, counted so, if there is time.
    """

    table: Tensor | Rows
    starts: np.ndarray
    tied_rows: np.ndarray
    tied_cells: np.ndarray
    vectors: Tensor | Rows
    order: np.ndarray
    ties: int  # conditions over several cells
    at: Instants | None = None

    def right(self, targets: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Right-hand sides (P, R) of constraints and ties -> those of the cells (M,) and those across them."""
        ordered = in_order(targets, self.order)
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
        chosen, owner = self._entries_of(rows)
        if not chosen:
            return np.zeros((len(rows), self.shape[1]))
        to = torch.from_numpy(owner)
        return _added_up(self.evaluator, chosen, to, (len(rows), *self.functions)).double().numpy()

    def times(self, weights: np.ndarray) -> np.ndarray:
        """Every row times the weights (cells, C n) of its cells, added up, (K,), as queries of a field are."""
        channels, n = self.functions
        by_cell = torch.from_numpy(weights).reshape(-1, channels, n).transpose(1, 2)  # (cells, n, C)
        if self.evaluator.extra:  # one weight for all channels of a corner function
            one = by_cell[:, :, :1].expand_as(by_cell)
            by_cell = torch.where(torch.from_numpy(self.evaluator.polynomial)[:, None], by_cell, one)
        found, done = np.zeros(self.shape[0]), 0
        step = max(1, 4 * ENTRIES // self.evaluator.work)
        for e in self.entries:
            where = self.where[done : done + len(e.cells)] - self.start
            done += len(e.cells)
            own = np.flatnonzero((where >= 0) & (where < len(found)))
            for start in range(0, len(own), step):
                part = own[start : start + step]
                at = torch.from_numpy(part)
                each = self.evaluator.sums(e.points[at], e.cells[at], [e.request.at(at)], by_cell)[:, 0]
                np.add.at(found, where[part], e.sign * each.double().numpy())
        return found

    def _entries_of(self, rows: np.ndarray) -> tuple[list[Entries], np.ndarray]:
        """What these rows (k,) are added up from, and the row of them that each point of it belongs to."""
        order, found = self._by_row
        first, last = (np.searchsorted(found, rows + self.start, side) for side in ("left", "right"))
        owner = np.repeat(np.arange(len(rows)), last - first)  # the row asked for, of every part of one
        part = order[np.arange(len(owner)) + np.repeat(first - np.cumsum(last - first) + last - first, last - first)]
        several = np.argsort(part, kind="stable")
        owner, part = owner[several], part[several]
        bounds = np.cumsum([0, *(len(e.cells) for e in self.entries)])
        chosen, kept = [], [np.zeros(0, dtype=np.int64)]
        for e, start, (a, b) in zip(self.entries, bounds, pairwise(np.searchsorted(part, bounds)), strict=False):
            if a < b:
                at = torch.from_numpy(part[a:b] - start)
                chosen.append(Entries(e.points[at], e.request.at(at), e.conditions[at], e.cells[at], e.sign))
                kept.append(owner[a:b])
        return chosen, np.concatenate(kept)

    def of(self, rows: np.ndarray, cells: np.ndarray) -> Rows:
        """These rows (k,), all of the cells (c,), which are numbered anew; what is known of others is left behind."""
        chosen, owner = self._entries_of(rows)
        numbers = torch.from_numpy(cells)
        entries = [replace(e, cells=torch.searchsorted(numbers, e.cells)) for e in chosen]
        return Rows(self.evaluator.of(cells), entries, owner, 0, (len(rows), self.shape[1]), self.functions)

    def thin(self, time: int, moments: np.ndarray) -> ThinTable | None:
        """The same over polynomials of degree 1 in time, the last coordinate; None if that is not all there is to them.

        So it is where conditions look at no other time than their own, one of the `moments` (conditions,). Rows are
        marked by what they ask for, coefficients and derivatives, and where in space.
        """
        functions = self.evaluator.functions
        if not isinstance(functions, Products) or self.evaluator.extra or time != len(functions.degree) - 1:
            return None
        for e in self.entries:
            elsewhere = e.points[:, time].detach().double().numpy() != moments[e.conditions.numpy()]
            if elsewhere.any() or any(index[time] > 1 for index in e.request.weights):
                return None
        thin = replace(functions, degree=(*functions.degree[:time], 1))
        channels, n = self.functions[0], len(thin.exponents)
        evaluator = replace(self.evaluator, functions=thin)
        rows = replace(self, evaluator=evaluator, shape=(self.shape[0], channels * n), functions=(channels, n))
        marks, sums = np.zeros((2, self.start + self.shape[0]))
        done = 0
        for e in self.entries:
            mark, size = _marked(e, time)
            where = self.where[done : done + len(mark)]
            own = where < len(marks)
            np.add.at(marks, where[own], mark[own])
            np.add.at(sums, where[own], size[own])
            done += len(mark)
        return ThinTable(rows, marks[self.start :], sums[self.start :])


def _marked(entries: Entries, time: int) -> tuple[np.ndarray, np.ndarray]:
    """A number for what points are asked for, and where in space, and the size of its terms, (P,) each."""
    rng = np.random.default_rng(entries.request.channel)
    points = entries.points.detach().double().numpy()
    space = np.delete(points, time, axis=1) * rng.uniform(1, 2, points.shape[1] - 1)
    mark, size = space.sum(axis=1), np.abs(space).sum(axis=1) + 1.0
    for index, weight in sorted(entries.request.weights.items()):
        factor = np.random.default_rng([entries.request.channel, *index]).uniform(1, 2)
        term = np.broadcast_to(entries.sign * factor * weight.detach().double().numpy(), mark.shape)
        mark, size = mark + term, size + np.abs(term)
    return mark, size


def gather(
    evaluator: PiecewiseEvaluator,
    constraints: Sequence[Constraint],
    ties: Sequence[Tie],
    channels: int,
    n: int,
    lazily: bool = False,
    time: int | None = None,
) -> TiedSystem:
    """All conditions as rows over cells; `lazily`: evaluated when they are asked for."""
    found: list[Entries] = []
    start = 0
    given = [*constraints, *(tie.condition for tie in ties)]

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
    system = _sorted(evaluator, found, start, channels, n, lazily)
    return system if time is None else replace(system, at=instants(given, time))


def instants(conditions: Sequence[Constraint], time: int) -> Instants:
    """When conditions hold, counted as in `TiedSystem.order`, and which of one kind hold at the same place in space."""
    moments, places = [np.zeros(0)], [np.zeros(0, dtype=np.int64)]
    count = 0
    for condition in conditions:
        points = condition.points.detach().double().numpy()
        rows = condition.rows // max(1, len(points))
        space = np.delete(points, time, axis=1)
        order = np.lexsort(space.T[::-1])
        new = np.concatenate([[False], (np.diff(space[order], axis=0) != 0).any(axis=1)])[: len(order)]
        place = np.empty(len(points), dtype=np.int64)
        place[order] = np.cumsum(new)
        each = int(place.max(initial=-1)) + 1
        moments.append(np.tile(points[:, time], rows))
        places.append(count + (np.arange(rows)[:, None] * each + place).ravel())
        count += rows * each
    return Instants(np.concatenate(moments), np.concatenate(places))


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
    if lazily:
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
            request = e.request.at(part)
            if e.sign != 1:
                request = Request(request.channel, {index: e.sign * w for index, w in request.weights.items()})
            rows = evaluator.local_rows(e.points[part], e.cells[part], [request])[:, 0]
            to = (where[done + start : done + start + len(rows)],)
            whole[:, e.request.channel, :polynomials].index_put_(to, rows[:, :polynomials], accumulate=True)
            if evaluator.extra:  # one weight for all channels of a corner function
                whole[:, 0, polynomials:].index_put_(to, rows[:, polynomials:], accumulate=True)
        done += len(e.cells)
    return whole.flatten(1)


@dataclass(frozen=True, eq=False)
class GuideRows:
    """Rows (G, C n) of guides, sorted by cell, with cell k from starts[k] on.

    Rows of one kind in one cell are as large as one together, functions weighed by `column`: so neither units nor
    the size of a cell say what counts more. `order` says which condition each row is, as in `TiedSystem`, and `scale`
    what it was divided by.
    """

    table: Tensor
    starts: np.ndarray
    order: np.ndarray
    scale: Tensor

    def wanted(self, targets: Sequence[Tensor]) -> Tensor:
        """Right-hand sides (P, R) of the guides -> what the rows should give, (G,)."""
        return in_order(targets, self.order) / self.scale


def in_order(targets: Sequence[Tensor], order: np.ndarray) -> Tensor:
    """Right-hand sides (P, R), counted constraint by constraint, row by row, point by point -> these of them."""
    return torch.cat([t.T.reshape(-1) for t in targets])[torch.from_numpy(order)]


def gather_guides(
    evaluator: PiecewiseEvaluator,
    guides: Sequence[Guide],
    channels: int,
    n: int,
    column: Tensor,
    strengths: np.ndarray | None = None,
) -> GuideRows | None:
    """All guides as rows over cells, which count as much as `strengths` (cells,) say."""
    if not guides:
        return None
    system, kinds = _sorted_guides(evaluator, guides, channels, n, lazily=False)
    assert isinstance(system.table, Tensor)
    cell = np.repeat(np.arange(evaluator.cells.count), np.diff(system.starts))
    _, group = np.unique(cell * (kinds.max() + 1) + kinds, return_inverse=True)
    groups = torch.from_numpy(group)
    squares = (system.table * column).square().sum(dim=1)
    sizes = squares.new_zeros(int(group.max()) + 1).index_add(0, groups, squares).sqrt()
    scale = torch.where(sizes > 0, sizes, 1.0)[groups]
    if strengths is not None:
        scale = scale / torch.from_numpy(strengths[cell]).to(scale)
    apart = system.table.requires_grad  # else no second table: they are large in space
    table = system.table / scale[:, None] if apart else system.table.div_(scale[:, None])
    return GuideRows(table, system.starts, system.order, scale)


def guide_table(
    evaluator: PiecewiseEvaluator,
    guides: Sequence[Guide],
    channels: int,
    n: int,
    column: Tensor,
    faint: float,
    time: int | None,
) -> GuideTable | None:
    """The same for solvers that go from slab to slab, or cell to cell: rows are evaluated when they are asked for."""
    if not guides:
        return None
    system, kinds = _sorted_guides(evaluator, guides, channels, n, lazily=True)
    assert isinstance(system.table, Rows)
    at = None if time is None else instants([guide.condition for guide in guides], time)
    thin = None if time is None or at is None else system.table.thin(time, at.moment)
    at = None if at is None else at.of(system.order)
    return GuideTable(system.table, thin, system.order, system.starts, kinds, at, column.numpy(), faint)


def _sorted_guides(
    evaluator: PiecewiseEvaluator, guides: Sequence[Guide], channels: int, n: int, lazily: bool
) -> tuple[TiedSystem, np.ndarray]:
    """Guides sorted by cell, and of which kind they are, (G,)."""
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
    system = _sorted(evaluator, found, start, channels, n, lazily)
    return system, np.concatenate(kinds)[system.order]
