"""Tied cells: every cell meets its own conditions, and the conditions across cells tie them together."""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from cnf.bases.basis import Basis, values_request
from cnf.bases.piecewise import Piecewise, PiecewiseEvaluator
from cnf.bases.ties import Tie
from cnf.constraints import Constraint
from cnf.execution import Executor, Here, executor_in_use, open_executor
from cnf.operators.expansion import Probe, Request
from cnf.operators.forward import MultiIndex
from cnf.operators.nonlinear import State
from cnf.solvers.clock import Clock, GuideTable
from cnf.solvers.marching import MarchedFactor, factored
from cnf.solvers.metric import Metric
from cnf.solvers.null_space import Ties
from cnf.solvers.patches import Workers
from cnf.solvers.spread import EACH, SpreadFactor, most_branches
from cnf.systems.formulation import (
    Account,
    Expansion,
    Formulation,
    Jump,
    KnownAccount,
    Plan,
    last_bits_off,
    state_entry,
)
from cnf.systems.loose_ties import LooseTies, loosened
from cnf.systems.tied_account import TiedAccount
from cnf.systems.tied_rows import ENTRIES, GuideRows, Rows, TiedSystem, gather, gather_guides, guide_table, in_order
from cnf.systems.tied_solve import NO_ROWS, Factor, SolveTied, as_array, nearest_weights

SMOOTH = 0.5  # weight of a function per degree: the smallest weights are those of the smoothest field
LARGE = 2**24  # numbers in a square of all functions of every cell: rows of more are worked out when asked for
FAINT = 1e-8  # how much weights themselves count beside guides


@dataclass(frozen=True)
class Tied(Formulation):
    """`smooth`: how much less a function counts per degree; `workers`: as of `cnf.solvers.Patches`."""

    smooth: float = SMOOTH
    workers: Workers = None

    @threadpool_limits.wrap(limits=1, user_api="blas")  # guides of cells are small matrices too, as in `TiedFactor`
    def plan(self, basis: Basis, constraints: Sequence[Constraint]) -> TiedPlan:
        assert isinstance(basis, Piecewise)
        evaluator = basis.snapshot()
        sizes = len(basis.space.channels), basis.local_size
        plain = not basis.loose and basis.strengths is None
        large = basis.cells.count * math.prod(sizes) ** 2 > LARGE and plain
        spread, reason = self._spread(basis, math.prod(sizes))
        lazily = (basis.time is not None or large or spread is not None) and not torch.is_grad_enabled()
        system = gather(evaluator, constraints, (*basis.ties, *basis.loose), *sizes, lazily, basis.time)
        column = np.tile(self.smooth ** basis.degrees().astype(float), len(basis.space.channels))
        weight = torch.from_numpy(column)
        if lazily:
            later = guide_table(evaluator, basis.guides, *sizes, weight, FAINT / basis.guide_strength, basis.time)
            return TiedPlan(self, basis, evaluator, system, weight, later=later, spread=spread, reason=reason)
        guides = gather_guides(evaluator, basis.guides, *sizes, weight, basis.strengths)
        unit = column if guides is None else column * basis.guide_strength / FAINT
        system, loose = loosened(system, basis.loose, weight, unit, basis.strengths)
        if loose is not None and guides is not None:
            guides = replace(guides, starts=np.append(guides.starts, [guides.starts[-1]] * len(loose.beside)))
        return TiedPlan(self, basis, evaluator, system, weight, guides, loose=loose, reason=reason)

    def _spread(self, basis: Piecewise, unknowns: int) -> tuple[Spreading | None, str]:
        """Workers, if there are any and it is worth it; else why not, if that is worth a word."""
        given = executor_in_use() if self.workers is None else self.workers
        most = most_branches(basis.cells.count, unknowns)
        if most < 2 or isinstance(given, Here) or (isinstance(given, int) and given == 1):
            return None, ""
        reason = alone(basis)
        if reason:
            return None, reason
        executor = open_executor(given)
        return Spreading(executor, min(most, EACH * executor.workers), executor is not given), ""

    def restored(self, basis: Basis, constraints: Sequence[Constraint], state: Mapping[str, Tensor]) -> Expansion:
        assert isinstance(basis, Piecewise)
        weights = state_entry(state, "weights", (basis.size, len(basis.space.channels)))
        ties = tuple(tie.renewed() for tie in basis.ties)
        return CellExpansion(basis.snapshot(), weights, ties, KnownAccount("weights from a file"))


def alone(basis: Piecewise) -> str:
    """Why all is done in this process whatever workers there are; empty if nothing speaks against them."""
    if torch.is_grad_enabled():
        return "gradients take all factors in one process: workers are for fields in eval mode"
    if basis.time is not None:
        return "slabs of time follow one another, in one process"
    if basis.loose or basis.strengths is not None:
        return "what only comes close to being met across patches takes all of them in one process"
    return ""


@dataclass(frozen=True)
class Spreading:
    """Workers, and into how many branches patches are divided for them."""

    executor: Executor
    branches: int
    started: bool  # for this: they end with the factors


@dataclass(frozen=True, eq=False)
class TiedPlan(Plan):
    """Assembled and factored; workers factor when it is first solved.

    `later` are guides that are worked out from slab to slab, or branch to branch.

    If there are `loose` ties, the last cells of the system are those of what they miss. `spread`: by workers; `reason`
    says why they have no part in it, if there are any.
    """

    formulation: Tied
    basis: Piecewise
    evaluator: PiecewiseEvaluator
    system: TiedSystem
    column: Tensor  # (C n,)
    guides: GuideRows | None = None
    later: GuideTable | None = None
    loose: LooseTies | None = None
    spread: Spreading | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        system, cells = self.system, self.basis.cells
        vectors: Any  # rows that are worked out on demand pass for arrays while slabs ask for them one by one
        table: Any
        vectors, table = (a if isinstance(a, Rows) else as_array(a) for a in (system.vectors, system.table))
        ties = Ties(system.ties, system.tied_rows, system.tied_cells, vectors)
        centres, active = (cells.lower + cells.upper) / 2, self.basis.active()
        if self.loose is not None:
            centres = np.concatenate([centres, centres[self.loose.beside]])
            active = np.concatenate([active, self.loose.active])
        if self.spread is not None:
            column = self.column.numpy()
            how = self.spread.executor, self.spread.branches
            spread = SpreadFactor(table, system.starts, ties, centres, active, column, self.later, *how)
            if self.spread.started:
                weakref.finalize(spread, self.spread.executor.close)
            object.__setattr__(self, "factor", spread)
            return
        keep = torch.is_grad_enabled()
        metric = guided_metric(self.column.numpy(), active, self.guides, FAINT / self.basis.guide_strength)
        given = table, system.starts, ties, centres, self.basis.time, active, metric, keep, self._clock(), self.later
        object.__setattr__(self, "factor", factored(*given))

    def _clock(self) -> Clock | None:
        """What solving in stages takes, if rows are worked out from slab to slab and of first order in time."""
        at, time, basis = self.system.at, self.basis.time, self.basis
        if at is None or time is None or not isinstance(self.system.table, Rows):
            return None
        assert isinstance(self.system.vectors, Rows)
        table, vectors = (rows.thin(time, at.moment) for rows in (self.system.table, self.system.vectors))
        if table is None or vectors is None:
            return None
        own, at = self.system.table.shape[0], at.of(self.system.order)
        ends = np.stack([basis.cells.lower[:, time], basis.cells.upper[:, time]], axis=1)
        rows, ties = at.of(np.arange(own)), at.of(np.arange(own, len(at.moment)))
        return Clock(rows, ties, table, vectors, ends, basis.degree[time])

    factor: Factor | SpreadFactor = None  # type: ignore[assignment]

    @threadpool_limits.wrap(limits=1, user_api="blas")
    def solve(self, targets: Sequence[Tensor]) -> CellExpansion:
        exact = len(targets) - len(self.basis.guides)
        own, guiding = targets[:exact], targets[exact:]
        ties = tuple(tie.renewed() for tie in self.basis.ties)
        loose = tuple(tie.renewed() for tie in self.basis.loose)
        given_ties = [tie.condition.values.to(targets[0]) for tie in (*ties, *loose)]
        right, tied = self.system.right([*own, *given_ties])
        tied = tied if self.loose is None else self.loose.scaled(tied)
        later = None if self.later is None else as_array(in_order(guiding, self.later.order))
        if isinstance(self.factor, SpreadFactor):
            found = torch.from_numpy(self.factor.weights(right.numpy(), tied.numpy(), later)).to(right)
        elif isinstance(self.factor, MarchedFactor) and not self.factor.keep:
            y = self.factor.solve(right.numpy(), tied.numpy(), later)
            found = torch.from_numpy(self.factor.metric.weights(y)).to(right)
        elif isinstance(self.system.table, Rows) or self.later is not None:
            table: Any = self.system.table
            if not isinstance(table, Rows):
                table = as_array(table)
            elif self.basis.time is not None:
                table = table[np.arange(table.shape[0])]
            pull = None if self.later is None or later is None else self.later.pull(later)
            found = torch.from_numpy(nearest_weights(self.factor, table, as_array(right), as_array(tied), pull)[0]).to(
                right
            )
        else:
            none = right.new_zeros(0)
            rows = self.guides or GuideRows(none[:, None].expand(0, len(self.column)), NO_ROWS, NO_ROWS, none)
            wanted = rows.wanted(guiding) if guiding else none
            given = (self.system.table, self.system.vectors, rows.table, right, tied, wanted)
            found = SolveTied.apply(*given, rows.starts, self.factor)
        channels = len(self.basis.space.channels)
        count = self.basis.cells.count
        weights = found[:count].reshape(count, channels, -1).transpose(1, 2)
        if self.evaluator.extra:
            shared = weights[:, :, :1].expand_as(weights)
            weights = torch.where(torch.from_numpy(self.evaluator.polynomial)[:, None], weights, shared)
        weights = weights.flatten(0, 1)
        free = 0 if self.loose is None else self.loose.count
        return CellExpansion(self.evaluator, weights, ties, TiedAccount(self.factor, count, free, self.reason))


def guided_metric(column: np.ndarray, active: np.ndarray, guides: GuideRows | None, faint: float) -> Metric:
    """Weights are as large as what guides make of them, and a little, `faint`, for themselves: without, only that."""
    if guides is None:
        return Metric(column, active)
    table = as_array(guides.table)
    triangles = {}
    for cell, (a, b) in enumerate(pairwise(guides.starts)):
        if a == b:
            continue
        own = active[cell]
        rows = np.concatenate([table[a:b][:, own], np.diag(faint / column[own])])
        triangles[cell] = np.asfortranarray(np.linalg.qr(rows, mode="r"))
    return Metric(column / faint, active, triangles)


@dataclass(frozen=True, eq=False)
class CellExpansion(Expansion):
    """The polynomials of the cell that a point lies in; weights (cells n, C)."""

    evaluator: PiecewiseEvaluator
    weights: Tensor
    ties: tuple[Tie, ...]
    account: Account

    @property
    def by_cell(self) -> Tensor:
        """(cells, n, C)."""
        return self.weights.unflatten(0, (self.evaluator.cells.count, -1))

    def values(self, points: Tensor) -> Tensor:
        channels = range(self.weights.shape[1])
        requests = tuple(values_request(points.shape[1], points, c) for c in channels)
        return self.applied([Probe(points, 1, tuple(channels), requests)], (points.shape[0], len(channels)))

    def applied(self, probes: Sequence[Probe], shape: tuple[int, int]) -> Tensor:
        total = self.weights.new_zeros(shape)
        for probe in probes:
            found = self.in_cells(probe, self.evaluator.locate(probe.points))
            total = total.index_add(1, torch.tensor(probe.rows, device=total.device), found)
        return total

    def in_cells(self, probe: Probe, cells: Tensor) -> Tensor:
        """The field of the given cells (P,), (P, K)."""
        step = max(1, 4 * ENTRIES // (self.evaluator.work * len(probe.requests)))  # most are never there at once
        parts = []
        for start in range(0, probe.points.shape[0], step):
            rows = slice(start, start + step)
            requests = [r.at(rows) for r in probe.requests]
            parts.append(self.evaluator.sums(probe.points[rows], cells[rows], requests, self.by_cell))
        found = torch.cat(parts) if parts else self.weights.new_zeros(0, len(probe.requests))
        return found if probe.nodes == 1 else found.unflatten(0, (-1, probe.nodes)).sum(dim=1)

    def tied_as(self, basis: Basis) -> Expansion:
        assert isinstance(basis, Piecewise)
        return replace(self, ties=tuple(tie.renewed() for tie in basis.ties))

    def with_last_bits_off(self) -> Expansion:
        return replace(self, weights=last_bits_off(self.weights))

    def state(self) -> dict[str, Tensor]:
        return {"weights": self.weights.detach()}

    def jumps(self) -> dict[str, Jump]:
        return {tie.condition.name: self.jump(tie) for tie in self.ties}

    def jump(self, tie: Tie) -> Jump:
        """What a tie misses, L f of one cell - L f of the other - g, by the way queries take."""
        if not tie.is_linear:
            return self._nonlinear_jump(tie)
        found = []
        for condition, cells, _ in tie.sides():
            total = self.weights.new_zeros(tuple(tie.condition.values.shape))
            for probe in condition.expanded():
                apart = probe.term_by_term()
                rows = torch.tensor(apart.rows, device=total.device)
                total = total.index_add(1, rows, self.in_cells(apart, cells))
            found.append(total)
        conditions = tuple(condition for condition in (tie.condition, tie.beyond) if condition is not None)
        first, second = found
        return Jump(conditions, first - second - tie.condition.values, first.abs().maximum(second.abs()))

    def _nonlinear_jump(self, tie: Tie) -> Jump:
        """The same of one that is not linear: by its own terms, not by those of a linearisation."""
        off, terms = tie.missed(self.beside)
        states = [(condition, self.beside(cells)) for condition, cells, _ in tie.sides()]
        value = (0,) * tie.condition.points.shape[1]
        shown = [float(state.derivatives(c.points, [value])[value].detach().abs().max()) for c, state in states]
        return Jump(tuple(c.around(state) for c, state in states), off, terms, max(shown))

    def has_cells_of(self, basis: Basis) -> bool:
        """Whether it is an expansion over the very cells of a basis."""
        if not isinstance(basis, Piecewise):
            return False
        own, other = self.evaluator.cells, basis.cells
        return np.array_equal(own.lower, other.lower) and np.array_equal(own.upper, other.upper)

    def beside(self, cells: Tensor) -> State:
        """The field of the given cells (P,), at as many points."""
        return InCells(self, cells)


@dataclass(frozen=True, eq=False)
class InCells:
    """An expansion in the given cells (P,), wherever its points are found otherwise."""

    expansion: CellExpansion
    cells: Tensor

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        one, width = torch.ones((), dtype=x.dtype), self.expansion.weights.shape[1]
        requests = tuple(Request(c, {index: one}) for index in indices for c in range(width))
        found = self.expansion.in_cells(Probe(x, 1, tuple(range(len(requests))), requests), self.cells)
        return {index: found[:, k * width : (k + 1) * width] for k, index in enumerate(indices)}
