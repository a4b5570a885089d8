"""Tied cells: every cell meets its own conditions, and the conditions across cells tie them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cnf.bases.basis import Basis, values_request
from cnf.bases.piecewise import Piecewise, PiecewiseEvaluator, Tie
from cnf.constraints import Constraint
from cnf.operators.expansion import Probe, Request
from cnf.solvers.marching import MarchedFactor, factored
from cnf.solvers.null_space import TiedFactor, Ties
from cnf.systems.formulation import Account, Expansion, Formulation, KnownAccount, Plan, last_bits_off, state_entry
from cnf.systems.tied_account import TiedAccount

Factor = TiedFactor | MarchedFactor

ENTRIES = 2**21  # numbers of rows evaluated at once
MANY = 2**25  # numbers of rows from which on those of a field in time are evaluated slab by slab
SMOOTH = 0.5  # weight of a function per degree: the smallest weights are those of the smoothest field


@dataclass(frozen=True)
class Tied(Formulation):
    """`smooth`: how much less a function counts per degree."""

    smooth: float = SMOOTH

    def plan(self, basis: Basis, constraints: Sequence[Constraint]) -> TiedPlan:
        assert isinstance(basis, Piecewise)
        evaluator = basis.snapshot()
        lazily = basis.time is not None and not torch.is_grad_enabled()
        system = gather(evaluator, constraints, basis.ties, len(basis.space.channels), basis.local_size, lazily)
        column = np.tile(self.smooth ** basis.degrees().astype(float), len(basis.space.channels))
        return TiedPlan(self, basis, evaluator, system, torch.from_numpy(column))

    def restored(self, basis: Basis, constraints: Sequence[Constraint], state: Mapping[str, Tensor]) -> Expansion:
        assert isinstance(basis, Piecewise)
        weights = state_entry(state, "weights", (basis.size, len(basis.space.channels)))
        return CellExpansion(basis.snapshot(), weights, basis.ties, KnownAccount("weights from a file"))


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


@dataclass(frozen=True, eq=False)
class TiedPlan(Plan):
    """Assembled; factored when first solved."""

    formulation: Tied
    basis: Piecewise
    evaluator: PiecewiseEvaluator
    system: TiedSystem
    column: Tensor  # (C n,)

    def __post_init__(self) -> None:
        system, cells = self.system, self.basis.cells
        vectors: Any  # rows that are worked out on demand pass for arrays while slabs ask for them one by one
        table: Any
        vectors, table = (
            a if isinstance(a, Rows) else a.detach().double().numpy() for a in (system.vectors, system.table)
        )
        ties = Ties(system.ties, system.tied_rows, system.tied_cells, vectors)
        centres, active = (cells.lower + cells.upper) / 2, self.basis.active()
        keep = torch.is_grad_enabled()
        factor = factored(table, system.starts, ties, centres, self.basis.time, active, self.column.numpy(), keep)
        object.__setattr__(self, "factor", factor)

    factor: Factor = None  # type: ignore[assignment]

    def solve(self, targets: Sequence[Tensor]) -> CellExpansion:
        brought = [tie.condition.values.to(targets[0]) for tie in self.basis.ties]
        right, tied = self.system.right([*targets, *brought])
        if isinstance(self.system.table, Rows):
            found = torch.from_numpy(self.factor.solve(right.numpy(), tied.numpy()) * self.factor.column).to(right)
        else:
            found = _SolveTied.apply(self.system.table, self.system.vectors, right, tied, self.factor)
        channels = len(self.basis.space.channels)
        weights = found.reshape(self.basis.cells.count, channels, -1).transpose(1, 2)
        if self.evaluator.extra:
            shared = weights[:, :, :1].expand_as(weights)
            weights = torch.where(torch.from_numpy(self.evaluator.polynomial)[:, None], weights, shared)
        weights = weights.flatten(0, 1)
        return CellExpansion(self.evaluator, weights, self.basis.ties, TiedAccount(self.factor, self.basis.cells.count))


class _SolveTied(torch.autograd.Function):
    """w = S y with y = B^+ (b, d), B = (L, T) S and S the columns' weights. Gradients at full row rank:

    g = S dL/dw,  lambda = B^+T g,  mu = B^+T y,  dL/db = lambda,  dL/dB = -lambda y^T + mu (g - B^T lambda)^T,

    for the stored entries only; dL/d(L, T) = dL/dB S.
    """

    @staticmethod
    def forward(ctx, table: Tensor, vectors: Tensor, right: Tensor, tied: Tensor, factor: Factor) -> Tensor:
        sides = (right.detach().double().numpy(), tied.detach().double().numpy())
        found = refined(factor, table.detach().double().numpy(), *sides)
        y = torch.from_numpy(found).to(right)
        ctx.factor = factor
        ctx.save_for_backward(table, vectors, y)
        return y * torch.from_numpy(factor.column).to(right)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad: Tensor):
        table, vectors, y = ctx.saved_tensors
        factor: Factor = ctx.factor
        column = torch.from_numpy(factor.column).to(y)
        g = grad * column
        rows, ties = (torch.from_numpy(a).to(y) for a in factor.solve_transposed(g.double().numpy()))
        grad_table = grad_vectors = None
        if ctx.needs_input_grad[0] or ctx.needs_input_grad[1]:
            more, more_ties = (torch.from_numpy(a).to(y) for a in factor.within(y.double().numpy()))
            owner = torch.from_numpy(np.repeat(np.arange(y.shape[0]), np.diff(factor.starts)))
            cells, numbers = torch.from_numpy(factor.ties.cells), torch.from_numpy(factor.ties.rows)
            back = torch.zeros_like(y).index_add(0, owner, table * rows[:, None])
            back = back.index_add(0, cells, vectors * ties[numbers][:, None])
            rest, scaled = (g - back * column) * column, y * column
            grad_table = more[:, None] * rest[owner] - rows[:, None] * scaled[owner]
            grad_vectors = more_ties[:, None] * rest[cells] - ties[numbers][:, None] * scaled[cells]
        return grad_table, grad_vectors, rows, ties, None


def refined(factor: Factor, table: np.ndarray, right: np.ndarray, tied: np.ndarray) -> np.ndarray:
    """y (cells, n), once more corrected by what the rows still miss, if that brings them closer."""
    owner = np.repeat(np.arange(len(factor.starts) - 1), np.diff(factor.starts))

    def missing(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        weights = y * factor.column
        return right - np.einsum("mn,mn->m", table, weights[owner]), tied - factor.ties.applied(weights)

    first = factor.solve(right, tied)
    off = missing(first)
    second = first + factor.solve(*off)
    better = all(np.linalg.norm(b) <= np.linalg.norm(a) for a, b in zip(off, missing(second), strict=True))
    return second if better else first


@dataclass(frozen=True, eq=False)
class CellExpansion(Expansion):
    """The polynomials of the cell that a point lies in; weights (cells n, C)."""

    evaluator: PiecewiseEvaluator
    weights: Tensor
    ties: tuple[Tie, ...]
    account: Account

    @property
    def _by_cell(self) -> Tensor:
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
        table = self._by_cell
        step = max(1, ENTRIES // (table.shape[1] * len(probe.requests)))
        parts = []
        for start in range(0, probe.points.shape[0], step):
            rows = slice(start, start + step)
            requests = [r.at(rows) for r in probe.requests]
            local = self.evaluator.local_rows(probe.points[rows], cells[rows], requests)  # (P, K, n)
            own = table[cells[rows]]  # (P, n, C)
            each = [(local[:, k] * own[:, :, r.channel]).sum(dim=1) for k, r in enumerate(requests)]
            parts.append(torch.stack(each, dim=1))
        found = torch.cat(parts) if parts else self.weights.new_zeros(0, len(probe.requests))
        return found if probe.nodes == 1 else found.unflatten(0, (-1, probe.nodes)).sum(dim=1)

    def with_last_bits_off(self) -> Expansion:
        return replace(self, weights=last_bits_off(self.weights))

    def state(self) -> dict[str, Tensor]:
        return {"weights": self.weights.detach()}

    def jumps(self) -> dict[str, tuple[tuple[Constraint, ...], Tensor]]:
        """What the ties miss, |L f of one cell - L f of the other - g| (P, R), by the way queries take."""
        found: dict[str, tuple[tuple[Constraint, ...], Tensor]] = {}
        for tie in self.ties:
            conditions = [condition for condition in (tie.condition, tie.beyond) if condition is not None]
            found[tie.condition.name] = (tuple(conditions), self.jump(tie) - tie.condition.values)
        return found

    def jump(self, tie: Tie) -> Tensor:
        """L f of one cell minus L f of the other, (P, R)."""
        total = self.weights.new_zeros(tuple(tie.condition.values.shape))
        for condition, cells, sign in tie.sides():
            for probe in condition.expanded():
                apart = probe.term_by_term()
                rows = torch.tensor(apart.rows, device=total.device)
                total = total.index_add(1, rows, sign * self.in_cells(apart, cells))
        return total


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
