"""Marching: cells in slabs of time, each solved after the one before, whose weights it takes as given.

A tie belongs to the last slab it touches. Where every slab has as many rows as unknowns, the past does not depend on
the future, and one slab at a time is all there is to factor: what time costs grows with the number of slabs. Otherwise
(values at the end, integrals over time) all cells are merged at once.

Slabs of the same cells under the same equations have the same rows up to rounding: they share the factor of the first
of them, and what their own rows still miss is made up for. Where rows of a slab repeat at every moment, it is solved
in stages (see `solvers/stages.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cnf.solvers.clock import Clock, GuideTable
from cnf.solvers.metric import Metric
from cnf.solvers.null_space import TiedFactor, Ties
from cnf.solvers.separation import Instants, SeparatedSlab, applied, joined, separate_slab
from cnf.solvers.stages import MOST_STAGES, StagedFactor, StageGuides, smallest
from cnf.solvers.tables import Table

SAME = 1e-10  # of a row: how far rows of slabs may differ that share a factor
KEPT = 2  # factors that later slabs may share


@dataclass(frozen=True)
class _System:
    """The conditions of a slab on its own, as `TiedFactor` takes them."""

    table: np.ndarray
    starts: np.ndarray
    ties: Ties
    metric: Metric

    def same_as(self, other: _System) -> bool:
        """Whether they differ by rounding only."""
        counts = (self.starts, self.ties.rows, self.ties.cells, self.metric.active)
        others = (other.starts, other.ties.rows, other.ties.cells, other.metric.active)
        if not all(map(np.array_equal, counts, others)):
            return False
        triangles, known = self.metric.triangles, other.metric.triangles
        pairs = [(self.table, other.table), (self.ties.vectors, other.ties.vectors)]
        pairs += [(triangles[cell], known[cell]) for cell in triangles]
        return all((np.abs(a - b).max(axis=1) <= SAME * np.abs(b).max(axis=1)).all() for a, b in pairs)

    def reached(self, weights: np.ndarray) -> np.ndarray:
        """What rows make of weights (c, n), (m,)."""
        return applied(self.table, np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts)), weights)

    def missing(self, weights: np.ndarray, right: np.ndarray, tied: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What weights (c, n) leave of the right-hand sides."""
        return right - self.reached(weights), tied - self.ties.applied(weights)


@dataclass(frozen=True)
class _Slab:
    """`rows` (m,) and `cells` (c,) of the whole system; ties of one cell here (`own`) are rows of it, the others ties.

    `placed` (m + own,) says where these rows, then those ties, stand among the rows of the factor, which may be that of
    an earlier slab. In stages there is no `system` of the slab as a whole.
    """

    system: _System | None
    factor: TiedFactor | StagedFactor
    cells: np.ndarray
    rows: np.ndarray
    own: np.ndarray
    shared: np.ndarray
    placed: np.ndarray
    past: np.ndarray  # entries of its ties in earlier slabs
    guides: StageGuides | None = None  # of the slab as a whole


class MarchedFactor:
    """As `TiedFactor`, with the same arguments; `slab` (cells,) numbers the slabs of the cells in order of time.

    A slab is factored when it is needed, unless it shares a factor, and forgotten unless `keep` says that it will be
    needed again, for gradients; these take a factor of its own. Where every slab has one solution, a `metric` cannot
    change it: functions count alike then, which keeps their rows apart. With a `clock`, and if nothing is to be kept,
    slabs are solved in stages where they can be. `guides` decide what is left open; then y are the weights themselves.
    """

    def __init__(
        self,
        table: Table,
        starts: np.ndarray,
        ties: Ties,
        centres: np.ndarray,
        slab: np.ndarray,
        active: np.ndarray,
        metric: Metric | None = None,
        keep: bool = True,
        clock: Clock | None = None,
        guides: GuideTable | None = None,
    ):
        self.clock, self.guides = clock if not keep else None, guides
        self._staged: list[tuple[SeparatedSlab, StagedFactor]] = []
        self.table, self.starts, self.ties = table, starts, ties
        self.metric = metric or Metric(np.ones(table.shape[1]), active)
        self.centres, self.slab, self.active, self.keep = centres, slab, active, keep
        self._shared: list[tuple[_System, TiedFactor]] = []  # the last ones that were factored
        self._last = _last_slabs(ties, slab)
        self._owner = np.repeat(np.arange(len(slab)), np.diff(starts))
        self._known: dict[int, _Slab] = {}
        self._ranks: dict[int, int] = {}

    def _factored(self, number: int) -> _Slab:
        if number in self._known:
            return self._known[number]
        found = self._slab(number)
        self._ranks[number] = found.factor.rank
        if self.keep:
            self._known[number] = found
        return found

    def _slab(self, number: int) -> _Slab:
        ties, slab, owner = self.ties, self.slab, self._owner
        cells = np.flatnonzero(slab == number)
        cells = cells[np.lexsort(self.centres[cells].T)]  # in the same order in slabs with the same cells
        local = np.empty(len(slab), dtype=np.int64)
        local[cells] = np.arange(len(cells))
        rows = np.flatnonzero(slab[owner] == number)
        touched = np.flatnonzero(self._last[ties.rows] == number)
        here = slab[ties.cells[touched]] == number
        entries, past = touched[here], touched[~here]
        count = np.bincount(ties.rows[entries], minlength=ties.count)
        alone = entries[count[ties.rows[entries]] == 1]
        joint = entries[count[ties.rows[entries]] > 1]
        shared, numbers = np.unique(ties.rows[joint], return_inverse=True)
        staged = self._in_stages(cells, local, rows, alone, joint, numbers, shared)
        if staged is not None:
            placed = np.arange(len(rows) + len(alone))
            return _Slab(None, staged, cells, rows, ties.rows[alone], shared, placed, past)
        places = local[np.concatenate([owner[rows], ties.cells[alone]])]
        order = np.argsort(places, kind="stable")
        placed = np.empty_like(order)
        placed[order] = np.arange(len(order))
        whole = np.concatenate([self.table[rows], ties.vectors[alone]])[order]
        bounds = np.searchsorted(places[order], np.arange(len(cells) + 1))
        inner = Ties(len(shared), numbers, local[ties.cells[joint]], ties.vectors[joint])
        guides = None if self.guides is None else self.guides.as_they_are(cells)
        metric = self.metric.of(cells) if guides is None else guides.metric(0.0, self.active[cells])
        system = _System(whole, bounds, inner, metric)
        factor = self._factor(system, cells)
        return _Slab(system, factor, cells, rows, ties.rows[alone], shared, placed, past, guides)

    def _in_stages(
        self,
        cells: np.ndarray,
        local: np.ndarray,
        rows: np.ndarray,
        alone: np.ndarray,
        joint: np.ndarray,
        numbers: np.ndarray,
        shared: np.ndarray,
    ) -> StagedFactor | None:
        """The factor of a slab whose conditions repeat at every moment, that of an earlier one if it is the same."""
        clock, ties = self.clock, self.ties
        if clock is None or clock.degree > MOST_STAGES:
            return None

        owner = local[np.concatenate([self._owner[rows], ties.cells[alone]])]
        at, tied_at = clock.rows.of(rows), clock.ties.of(ties.rows[alone])
        at = Instants(np.concatenate([at.moment, tied_at.moment]), np.concatenate([at.place, tied_at.place]))
        ends = float(clock.ends[cells[0], 0]), float(clock.ends[cells[0], 1])
        places = local[ties.cells[joint]]
        found = separate_slab(
            joined(clock.table.of(rows), clock.vectors.of(alone)),
            owner,
            at,
            clock.vectors.of(joint),
            numbers,
            places,
            clock.ties.of(shared),
            self.active[cells],
            ends,
            clock.degree,
        )
        if found is None:
            return None
        for k, (known, factor) in enumerate(self._staged):
            if found.same_as(known, SAME):
                alike = None
                if self.guides is not None:
                    alike = self.guides.in_stages(cells, ends, clock.degree, factor.guides)
                if self.guides is None or alike is not None:
                    self._staged[k] = found, factor.on(found, alike, SAME)
                    return self._staged[k][1]
        guides = None if self.guides is None else self.guides.in_stages(cells, ends, clock.degree)
        if guides is None and self.guides is not None:
            return None
        self._staged = self._staged[: KEPT - 1]  # before there is another: they are large
        factor = StagedFactor(found, self.centres[cells], guides)
        self._staged = [(found, factor), *self._staged]
        return factor

    def _factor(self, system: _System, cells: np.ndarray) -> TiedFactor:
        for known, factor in self._shared:
            if system.same_as(known):
                return factor
        centres, metric = self.centres[cells], system.metric
        found = TiedFactor(system.table, system.starts, system.ties, centres, None, metric.active, metric)
        if not self.keep:
            self._shared = [(system, found), *self._shared][:KEPT]
        return found

    @property
    def rank(self) -> int:
        for number in range(self.count):
            if number not in self._ranks:
                self._factored(number)
        return sum(self._ranks.values())

    @property
    def at_once(self) -> float:
        """The share of the cells that the largest slab has."""
        return float(np.bincount(self.slab).max() / len(self.slab))

    @property
    def count(self) -> int:
        """Number of slabs."""
        return int(self.slab.max()) + 1

    def solve(self, right: np.ndarray, tied: np.ndarray, guiding: np.ndarray | None = None) -> np.ndarray:
        """y (cells, n) with L y = right (M,) and T y = tied; every slab is corrected once by what its rows miss.

        `guiding` (G,) is what the guides should give.
        """
        y, weights = np.zeros(self.active.shape), np.zeros(self.active.shape)
        left = tied.copy()
        for slab in map(self._factored, range(self.count)):
            reached = np.einsum("en,en->e", self.ties.vectors[slab.past], weights[self.ties.cells[slab.past]])
            np.subtract.at(left, self.ties.rows[slab.past], reached)
            own = np.empty(len(slab.placed))
            own[slab.placed] = np.concatenate([right[slab.rows], left[slab.own]])
            wanted = None
            if self.guides is not None and guiding is not None:
                wanted = guiding[self.guides.numbers(slab.cells)[0]]
            if isinstance(slab.factor, StagedFactor):
                y[slab.cells] = weights[slab.cells] = slab.factor.solve(own, left[slab.shared], wanted)
                continue
            assert slab.system is not None
            if slab.guides is not None and wanted is not None:
                found = np.zeros(self.active[slab.cells].shape)
                off, pull = (own, left[slab.shared]), slab.guides.pull(0.0, wanted)
                for extra in (pull, None):
                    found += smallest(slab.factor, slab.system.reached, *off, extra)
                    off = slab.system.missing(found, own, left[slab.shared])
                y[slab.cells] = weights[slab.cells] = found
                continue
            first = slab.factor.solve(own, left[slab.shared])
            off = slab.system.missing(slab.factor.metric.weights(first), own, left[slab.shared])
            y[slab.cells] = first + slab.factor.solve(*off)
            weights[slab.cells] = slab.factor.metric.weights(y[slab.cells])
        return y

    def solve_transposed(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`solve` transposed: the multipliers of the rows (M,) and of the ties for z (cells, n)."""
        return self._transposed(z, coupled=True)

    def within(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As of `TiedFactor`, every slab on its own: entries of its ties in the past are given to it."""
        rows, ties = self._transposed(y, coupled=False)
        here = self.slab[self.ties.cells] == self._last[self.ties.rows]
        return rows, np.where(here, ties[self.ties.rows], 0.0)

    def _transposed(self, z: np.ndarray, coupled: bool) -> tuple[np.ndarray, np.ndarray]:
        brought = np.zeros(z.shape)  # to the weights, by ties of later slabs
        rows, ties = np.zeros(self.starts[-1]), np.zeros(self.ties.count)
        for slab in map(self._factored, reversed(range(self.count))):
            assert isinstance(slab.factor, TiedFactor)  # stages are for what is not kept
            rest = z[slab.cells] - slab.factor.metric.transposed(brought[slab.cells])
            own, shared = slab.factor.solve_transposed(rest)
            own = own[slab.placed]
            rows[slab.rows], ties[slab.own] = own[: len(slab.rows)], own[len(slab.rows) :]
            ties[slab.shared] = shared
            if coupled:
                each = self.ties.vectors[slab.past] * ties[self.ties.rows[slab.past]][:, None]
                np.add.at(brought, self.ties.cells[slab.past], each)
        return rows, ties


def factored(
    table: Table,
    starts: np.ndarray,
    ties: Ties,
    centres: np.ndarray,
    time: int | None,
    active: np.ndarray,
    metric: Metric | np.ndarray,
    keep: bool = True,
    clock: Clock | None = None,
    guides: GuideTable | None = None,
) -> TiedFactor | MarchedFactor:
    """Slab by slab if the past does not depend on the future, else all at once; arguments as of `MarchedFactor`."""
    if time is not None:
        _, slab = np.unique(centres[:, time], return_inverse=True)
        owner = np.repeat(slab, np.diff(starts))
        count = slab.max() + 1
        rows = np.bincount(owner, minlength=count) + np.bincount(_last_slabs(ties, slab), minlength=count)
        unknowns = np.bincount(slab, weights=active.sum(axis=1), minlength=count)
        if np.array_equal(rows, unknowns):
            return MarchedFactor(table, starts, ties, centres, slab, active, keep=keep, clock=clock)
        guided = guides is not None or (isinstance(metric, Metric) and bool(metric.triangles))
        over = _last_slabs(ties, slab) + _last_slabs(ties, -slab)  # guides leave room in every slab
        if guided and (rows <= unknowns).all() and (over <= 1).all():
            given = None if guides is not None else metric
            assert given is None or isinstance(given, Metric)
            return MarchedFactor(table, starts, ties, centres, slab, active, given, keep, clock, guides)
    if guides is not None:
        metric = guides.metric(active)
    if time is not None and not isinstance(table, np.ndarray):
        table, vectors = (a[np.arange(a.shape[0])] for a in (table, ties.vectors))
        ties = replace(ties, vectors=vectors)
    whole: Any = table  # rows that are worked out when asked for pass for an array: cells ask for theirs one by one
    return TiedFactor(whole, starts, ties, centres, time, active, metric)


def _last_slabs(ties: Ties, slab: np.ndarray) -> np.ndarray:
    """The last slab that every tie touches, (count,)."""
    found = np.full(ties.count, slab.min(), dtype=np.int64)
    np.maximum.at(found, ties.rows, slab[ties.cells])
    return found
