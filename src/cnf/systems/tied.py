"""Tied cells: every cell meets its own conditions, and the conditions across cells tie them together."""

from __future__ import annotations

import math
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
from cnf.operators.expansion import Probe, Request
from cnf.operators.forward import MultiIndex
from cnf.operators.nonlinear import State
from cnf.solvers.clock import Clock, GuideTable
from cnf.solvers.marching import MarchedFactor, factored
from cnf.solvers.metric import Metric
from cnf.solvers.null_space import TiedFactor, Ties, squares_of, times_weights
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

Factor = TiedFactor | MarchedFactor

SMOOTH = 0.5  # weight of a function per degree: the smallest weights are those of the smoothest field
LARGE = 2**24  # numbers in a square of all functions of every cell: rows of more are worked out when asked for
NO_ROWS = np.zeros(0, dtype=np.int64)
CORRECTIONS = 4
HALF = 0.5  # of what is missing: corrections that leave more are the last
TWICE = 2  # is enough to be orthogonal to rounding
FAINT = 1e-8  # how much weights themselves count beside guides


@dataclass(frozen=True)
class Tied(Formulation):
    """`smooth`: how much less a function counts per degree."""

    smooth: float = SMOOTH

    @threadpool_limits.wrap(limits=1, user_api="blas")  # guides of cells are small matrices too, as in `TiedFactor`
    def plan(self, basis: Basis, constraints: Sequence[Constraint]) -> TiedPlan:
        assert isinstance(basis, Piecewise)
        evaluator = basis.snapshot()
        sizes = len(basis.space.channels), basis.local_size
        large = basis.cells.count * math.prod(sizes) ** 2 > LARGE and not basis.loose and basis.strengths is None
        lazily = (basis.time is not None or large) and not torch.is_grad_enabled()
        system = gather(evaluator, constraints, (*basis.ties, *basis.loose), *sizes, lazily, basis.time)
        column = np.tile(self.smooth ** basis.degrees().astype(float), len(basis.space.channels))
        weight = torch.from_numpy(column)
        if lazily:
            later = guide_table(evaluator, basis.guides, *sizes, weight, FAINT / basis.guide_strength, basis.time)
            return TiedPlan(self, basis, evaluator, system, weight, later=later)
        guides = gather_guides(evaluator, basis.guides, *sizes, weight, basis.strengths)
        unit = column if guides is None else column * basis.guide_strength / FAINT
        system, loose = loosened(system, basis.loose, weight, unit, basis.strengths)
        if loose is not None and guides is not None:
            guides = replace(guides, starts=np.append(guides.starts, [guides.starts[-1]] * len(loose.beside)))
        return TiedPlan(self, basis, evaluator, system, weight, guides, loose=loose)

    def restored(self, basis: Basis, constraints: Sequence[Constraint], state: Mapping[str, Tensor]) -> Expansion:
        assert isinstance(basis, Piecewise)
        weights = state_entry(state, "weights", (basis.size, len(basis.space.channels)))
        ties = tuple(tie.renewed() for tie in basis.ties)
        return CellExpansion(basis.snapshot(), weights, ties, KnownAccount("weights from a file"))


@dataclass(frozen=True, eq=False)
class TiedPlan(Plan):
    """Assembled; factored when first solved. `later` are guides during time, worked out from slab to slab.

    If there are `loose` ties, the last cells of the system are those of what they miss.
    """

    formulation: Tied
    basis: Piecewise
    evaluator: PiecewiseEvaluator
    system: TiedSystem
    column: Tensor  # (C n,)
    guides: GuideRows | None = None
    later: GuideTable | None = None
    loose: LooseTies | None = None

    def __post_init__(self) -> None:
        system, cells = self.system, self.basis.cells
        vectors: Any  # rows that are worked out on demand pass for arrays while slabs ask for them one by one
        table: Any
        vectors, table = (a if isinstance(a, Rows) else _array(a) for a in (system.vectors, system.table))
        ties = Ties(system.ties, system.tied_rows, system.tied_cells, vectors)
        centres, active = (cells.lower + cells.upper) / 2, self.basis.active()
        if self.loose is not None:
            centres = np.concatenate([centres, centres[self.loose.beside]])
            active = np.concatenate([active, self.loose.active])
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

    factor: Factor = None  # type: ignore[assignment]

    @threadpool_limits.wrap(limits=1, user_api="blas")
    def solve(self, targets: Sequence[Tensor]) -> CellExpansion:
        exact = len(targets) - len(self.basis.guides)
        own, guiding = targets[:exact], targets[exact:]
        ties = tuple(tie.renewed() for tie in self.basis.ties)
        loose = tuple(tie.renewed() for tie in self.basis.loose)
        given_ties = [tie.condition.values.to(targets[0]) for tie in (*ties, *loose)]
        right, tied = self.system.right([*own, *given_ties])
        tied = tied if self.loose is None else self.loose.scaled(tied)
        later = None if self.later is None else _array(in_order(guiding, self.later.order))
        if isinstance(self.factor, MarchedFactor) and not self.factor.keep:
            y = self.factor.solve(right.numpy(), tied.numpy(), later)
            found = torch.from_numpy(self.factor.metric.weights(y)).to(right)
        elif isinstance(self.system.table, Rows) or self.later is not None:
            table: Any = self.system.table
            if not isinstance(table, Rows):
                table = _array(table)
            elif self.basis.time is not None:
                table = table[np.arange(table.shape[0])]
            pull = None if self.later is None or later is None else self.later.pull(later)
            found = torch.from_numpy(refined(self.factor, table, _array(right), _array(tied), pull)[0]).to(right)
        else:
            none = right.new_zeros(0)
            rows = self.guides or GuideRows(none[:, None].expand(0, len(self.column)), NO_ROWS, NO_ROWS, none)
            wanted = rows.wanted(guiding) if guiding else none
            given = (self.system.table, self.system.vectors, rows.table, right, tied, wanted)
            found = _SolveTied.apply(*given, rows.starts, self.factor)
        channels = len(self.basis.space.channels)
        count = self.basis.cells.count
        weights = found[:count].reshape(count, channels, -1).transpose(1, 2)
        if self.evaluator.extra:
            shared = weights[:, :, :1].expand_as(weights)
            weights = torch.where(torch.from_numpy(self.evaluator.polynomial)[:, None], weights, shared)
        weights = weights.flatten(0, 1)
        free = 0 if self.loose is None else self.loose.count
        return CellExpansion(self.evaluator, weights, ties, TiedAccount(self.factor, count, free))


def guided_metric(column: np.ndarray, active: np.ndarray, guides: GuideRows | None, faint: float) -> Metric:
    """Weights are as large as what guides make of them, and a little, `faint`, for themselves: without, only that."""
    if guides is None:
        return Metric(column, active)
    table = _array(guides.table)
    triangles = {}
    for cell, (a, b) in enumerate(pairwise(guides.starts)):
        if a == b:
            continue
        own = active[cell]
        rows = np.concatenate([table[a:b][:, own], np.diag(faint / column[own])])
        triangles[cell] = np.asfortranarray(np.linalg.qr(rows, mode="r"))
    return Metric(column / faint, active, triangles)


class _SolveTied(torch.autograd.Function):
    """w of smallest |K w - k|^2 + |faint w|^2 with B w = b, where B = (L, T), b = (right, tied) and K are the guides.

    With R^T R = K^T K + faint^2 (without guides R is diagonal, one over the columns' weights) and h = R^-T K^T k,
    y = R w is y = h + B'^+ (b - B' h), B' = B R^-1. Gradients at full row rank, from the conditions that w and
    multipliers make up, which are symmetric:

    z = R^-T dL/dw,  mu = B'^+T z,  lambda = B'^+T (y - h),  v = R^-1 (z - B'^T mu),
    dL/db = mu,  dL/dB = lambda v^T - mu w^T,  dL/dk = K v,  dL/dK = (k - K w) v^T - (K v) w^T,

    for the stored entries only. R^-1 makes weights that guides hardly see as large as 1 / FAINT, and rounding with
    them: z - B'^T mu is therefore taken in y, and made orthogonal to the rows once more.
    """

    @staticmethod
    def forward(ctx, table, vectors, guides, right, tied, wanted, starts: np.ndarray, factor: Factor) -> Tensor:
        guided = np.repeat(np.arange(len(factor.starts) - 1), np.diff(starts)) if len(guides) else NO_ROWS
        pull = np.zeros(factor.metric.active.shape) if len(guides) else None
        if pull is not None:
            table_of, sides = _array(guides), _array(wanted)
            for cell, (a, b) in enumerate(pairwise(starts)):
                pull[cell] = sides[a:b] @ table_of[a:b]
        found, beyond = refined(factor, _array(table), _array(right), _array(tied), pull)
        weights = torch.from_numpy(found).to(right)
        ctx.factor, ctx.guided = factor, torch.from_numpy(guided)
        ctx.save_for_backward(table, vectors, guides, wanted, torch.from_numpy(beyond).to(right), weights)
        return weights

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad: Tensor):
        table, vectors, guides, wanted, beyond, weights = ctx.saved_tensors
        factor: Factor = ctx.factor
        z = factor.metric.transposed(_array(grad))
        multipliers = factor.solve_transposed(z)
        if any(ctx.needs_input_grad[k] for k in (0, 1, 2, 5)):
            z, multipliers = orthogonal(factor, _array(table), _array(vectors), z, multipliers)
        rows, ties = (torch.from_numpy(a).to(grad) for a in multipliers)
        grads: list[Tensor | None] = [None, None, None, rows, ties, None]
        if any(ctx.needs_input_grad[k] for k in (0, 1, 2, 5)):
            more, more_ties = (torch.from_numpy(a).to(grad) for a in factor.within(_array(beyond)))
            owner = torch.from_numpy(np.repeat(np.arange(grad.shape[0]), np.diff(factor.starts)))
            cells, numbers = torch.from_numpy(factor.ties.cells), torch.from_numpy(factor.ties.rows)
            v = torch.from_numpy(factor.metric.weights(z)).to(grad)
            grads[0] = more[:, None] * v[owner] - rows[:, None] * weights[owner]
            grads[1] = more_ties[:, None] * v[cells] - ties[numbers][:, None] * weights[cells]
            off = wanted - (guides * weights[ctx.guided]).sum(dim=1)
            along = (guides * v[ctx.guided]).sum(dim=1)
            grads[2] = off[:, None] * v[ctx.guided] - along[:, None] * weights[ctx.guided]
            grads[5] = along
        return (*grads, None, None)


def orthogonal(
    factor: Factor, table: np.ndarray, vectors: np.ndarray, z: np.ndarray, multipliers: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """z - B'^T mu (cells, n) and mu, of the rows and of the ties; `multipliers` are a first mu = B'^+T z."""
    owner = np.repeat(np.arange(len(z)), np.diff(factor.starts))
    cells, numbers, metric = factor.ties.cells, factor.ties.rows, factor.metric
    over, across = metric.over_all(owner, table), metric.over_all(cells, vectors)
    rows, ties = np.zeros(len(table)), np.zeros(factor.ties.count)
    for k in range(TWICE):
        more, more_ties = multipliers if k == 0 else factor.solve_transposed(z)
        rows, ties, z = rows + more, ties + more_ties, z.copy()
        np.subtract.at(z, owner, over * more[:, None])
        np.subtract.at(z, cells, across * more_ties[numbers][:, None])
    return z, (rows, ties)


def refined(
    factor: Factor, table: np.ndarray, right: np.ndarray, tied: np.ndarray, pull: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Weights (cells, n), corrected by what rows still miss for as long as that helps, and y - h of `_SolveTied`.

    `pull` (cells, n) is K^T k. Corrections are added to the weights: in y, they would be lost in its rounding.
    """
    owner = np.repeat(np.arange(len(factor.starts) - 1), np.diff(factor.starts))

    def missing(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return right - times_weights(table, owner, weights), tied - factor.ties.applied(weights)

    across = np.bincount(factor.ties.rows, squares_of(factor.ties.vectors), minlength=factor.ties.count)
    scale = [np.maximum(np.sqrt(squares), 1e-300) for squares in (squares_of(table), across)]

    def size(off: tuple[np.ndarray, np.ndarray]) -> float:
        with np.errstate(over="ignore"):  # rows may vanish around zero: infinite is as far off as it gets
            return float(sum(np.linalg.norm(a / b) for a, b in zip(off, scale, strict=True)))

    weights = np.zeros(factor.metric.active.shape)
    beyond, off = weights, (right, tied)
    if pull is not None:
        weights = factor.metric.weights(factor.metric.transposed(pull))
        off = missing(weights)
    for k in range(1 + CORRECTIONS):
        step = factor.solve(*off)
        better = weights + factor.metric.weights(step)
        left = missing(better)
        gain = size(left) / max(size(off), 1e-300)
        if k and gain > 1:
            break
        weights, off, beyond = better, left, beyond + step
        if k and gain > HALF:
            break
    return weights, beyond


def _array(given: Tensor) -> np.ndarray:
    return given.detach().double().numpy()


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
