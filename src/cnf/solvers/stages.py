"""Stages: a slab of time whose conditions repeat at every moment, solved as as many systems in space as it has moments.

With u_0 at the start and Z_i what is added to it until moment i, rows are L (u_0 + Z_i) + M sum_j D_ij Z_j = f_i, where
D takes polynomials that vanish at the start from values to slopes. D = V diag(r) V^-1 takes them apart: Y = V^-1 Z
meets (L + r_k M) Y_k = (V^-1 (f - L u_0))_k for every k by itself. Rates r come in conjugate pairs, of which one is
solved for. Where a slab has q moments and n functions of space, that is some q n^3 instead of (q n)^3 operations.

Guides (see `cnf.bases.Guide`) are taken apart in the same way: what rows leave open in Y_k is what fits them best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.polynomial import chebyshev

from cnf.solvers.local_factor import LocalFactor
from cnf.solvers.metric import Metric
from cnf.solvers.null_space import TiedFactor
from cnf.solvers.separation import Frame, Separated, SeparatedSlab, applied

CORRECTIONS = 4
ROUNDED = 1e-16  # of the weights: rows as large as one that miss less are not corrected
HALF = 0.5  # of what is missing: corrections that leave more are the last
MOST_STAGES = 8  # with more, V mixes them up: its condition is 4e3 with 8 of Radau's moments, 1e7 with 14
REAL = 1e-12  # imaginary part of a rate that has none, relative to it


@dataclass(frozen=True)
class StageGuides:
    """Guides of a slab: `kind` (G,) says which count together, `starts` (cells + 1,) which are those of a cell.

    `column` (S,) is what functions of space count, `faint` how much weights count beside guides.
    """

    rows: Separated
    kind: np.ndarray
    starts: np.ndarray
    column: np.ndarray
    faint: float

    @property
    def owner(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def at(self, rate: complex) -> tuple[np.ndarray, np.ndarray]:
        """Rows (G, S) at a rate, those of one kind in one cell as large as one together, and their scale (G,)."""
        scale = self._scale(rate)
        return self.rows.at(rate) / scale[:, None], scale

    @cached_property
    def _squares(self) -> tuple[np.ndarray, ...]:
        """L L, 2 L M and M M of every row, functions weighed by `column`, (G,) each."""
        still, moving, column = self.rows.still, self.rows.moving, self.column**2
        pairs = ((still, still, 1.0), (still, moving, 2.0), (moving, moving, 1.0))
        return tuple(factor * np.einsum("gs,gs,s->g", a, b, column) for a, b, factor in pairs)

    def _scale(self, rate: complex) -> np.ndarray:
        still, mixed, moving = self._squares
        squares = np.maximum(still + np.real(rate) * mixed + np.abs(rate) ** 2 * moving, 0.0)
        group = self.owner * (self.kind.max(initial=0) + 1) + self.kind
        sizes = np.sqrt(np.bincount(group, squares))
        return np.where(sizes > 0, sizes, 1.0)[group]

    def metric(self, rate: complex, exists: np.ndarray) -> Metric:
        table, _ = self.at(rate)
        triangles = {}
        for cell, (a, b) in enumerate(pairwise(self.starts)):
            own = exists[cell]
            faint = np.diag(self.faint / self.column[own])
            triangles[cell] = np.asfortranarray(np.linalg.qr(np.concatenate([table[a:b][:, own], faint]), mode="r"))
        return Metric(self.column, exists, triangles)

    def pull(self, rate: complex, wanted: np.ndarray) -> np.ndarray:
        """K^H k of every cell, (cells, S), for what guides should give, (G,)."""
        right = wanted / self._scale(rate) ** 2
        found = np.zeros((len(self.starts) - 1, self.rows.still.shape[1]), np.result_type(rate, right))
        for cell, (a, b) in enumerate(pairwise(self.starts)):
            found[cell] = right[a:b] @ self.rows.still[a:b] + np.conj(rate) * (right[a:b] @ self.rows.moving[a:b])
        return found

    def pull_of_weights(self, weights: np.ndarray) -> np.ndarray:
        """K^H k of what weights (cells, S) themselves count, little as it is.

        What a slab starts with counts like what is added: else functions that nothing sees keep their weights, however
        large, from slab to slab, and what is rounded with them.
        """
        return weights * (self.faint / self.column) ** 2


class StagedFactor:
    """All stages of a slab factored; `centres` (cells, D) as of `TiedFactor`."""

    def __init__(self, slab: SeparatedSlab, centres: np.ndarray, guides: StageGuides | None = None):
        self.slab, self.guides = slab, guides
        frame, exists = slab.frame, slab.exists
        self._begin = starting_factors(slab, self._column)
        self._rates, self._vectors = stage_rates(frame)
        self._inverse = np.linalg.inv(self._vectors)
        self.stages: list[TiedFactor] = []
        for k in self._solved:
            rate = self._rate(k)
            metric = Metric(np.ones(exists.shape[1]), exists) if guides is None else guides.metric(rate, exists)
            table, ties = slab.own.at(rate), slab.ties(rate)
            self.stages.append(TiedFactor(table, slab.starts, ties, centres, None, exists, metric))

    def on(self, slab: SeparatedSlab, guides: StageGuides | None, tolerance: float) -> StagedFactor:
        """The same factor for a slab that has the same rows, under other numbers; it may start in another way."""
        found = copy(self)
        found.slab, found.guides = slab, guides
        if not slab.starts_as(self.slab, tolerance):
            found._begin = starting_factors(slab, self._column)
        return found

    @property
    def _column(self) -> np.ndarray:
        """What functions of space count, (S,): a cell that starts with fewer rows than functions takes smooth ones."""
        return np.ones(self.slab.exists.shape[1]) if self.guides is None else self.guides.column

    @property
    def _solved(self) -> list[int]:
        """The stages that are solved for: one of a conjugate pair."""
        return [k for k, rate in enumerate(self._rates) if rate.imag >= 0]

    def _rate(self, k: int) -> complex | float:
        rate = self._rates[k]
        return rate if rate.imag else rate.real

    @property
    def rank(self) -> int:
        stages = zip(self._solved, self.stages, strict=True)
        return sum(f.rank for f in self._begin) + sum(s.rank * (2 if self._rates[k].imag else 1) for k, s in stages)

    def solve(self, right: np.ndarray, tied: np.ndarray, wanted: np.ndarray | None = None) -> np.ndarray:
        """Weights (cells, N) for right-hand sides of the rows of the slab, of its ties and of its guides.

        They are corrected by what rows still miss for as long as that helps.
        """
        found = self._solve(right, tied, wanted)
        off = self._missing(found, right, tied)
        for _ in range(CORRECTIONS):
            if self._size(*off) <= ROUNDED * np.linalg.norm(found):
                break
            better = found + self._solve(*off, None)
            left = self._missing(better, right, tied)
            gain = self._size(*left) / max(self._size(*off), 1e-300)
            if gain < 1:
                found, off = better, left
            if gain > HALF:
                break
        return found.reshape(len(found), -1)

    def _missing(self, weights: np.ndarray, right: np.ndarray, tied: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        off, tied_off = right.copy(), tied.copy()
        self._subtract(weights, off, tied_off)
        return off, tied_off

    def _size(self, right: np.ndarray, tied: np.ndarray) -> float:
        """Of what is missed, rows as large as one."""
        slab = self.slab
        sizes = np.linalg.norm(slab.own.still, axis=1) + np.linalg.norm(slab.own.moving, axis=1)
        total = np.linalg.norm(right[slab.own.rows] / np.maximum(sizes, 1e-300)[:, None])
        sizes = np.linalg.norm(slab.joint.still, axis=1) + np.linalg.norm(slab.joint.moving, axis=1)
        across = np.bincount(slab.joint_ties, sizes, minlength=len(slab.tie_groups))
        total += np.linalg.norm(tied[slab.tie_groups] / np.maximum(across, 1e-300)[:, None])
        sizes = np.maximum(np.linalg.norm(slab.beginning, axis=1), 1e-300)
        return float(total + np.linalg.norm(right[slab.beginning_rows] / sizes))

    def _solve(self, right: np.ndarray, tied: np.ndarray, wanted: np.ndarray | None) -> np.ndarray:
        """(cells, S, q + 1)."""
        slab, frame = self.slab, self.slab.frame
        given = right[slab.beginning_rows]
        parts = zip(self._begin, pairwise(slab.beginning_starts), strict=True)
        start = np.stack([f.solve(given[a:b]) for f, (a, b) in parts]) * self._column
        rows = right[slab.own.rows] - slab.own.applied(slab.owner, start)[:, None]
        ties = tied[slab.tie_groups] - slab.ties(0.0).applied(start)[:, None]
        guided = None
        if self.guides is not None and wanted is not None:
            reached = self.guides.rows.applied(self.guides.owner, start)
            guided = wanted[self.guides.rows.rows] - reached[:, None]
        found = np.zeros((*start.shape, frame.count))
        for k, factor in zip(self._solved, self.stages, strict=True):
            back = self._inverse[k] if self._rates[k].imag else self._inverse[k].real
            pull = None
            if self.guides is not None and guided is not None:
                pull = self.guides.pull(self._rate(k), guided @ back) - self.guides.pull_of_weights(start) * back.sum()
            weights = smallest(factor, self._reached(k), rows @ back, ties @ back, pull)
            each = weights[:, :, None] * self._vectors[:, k]  # (cells, S, q)
            found += (2 if self._rates[k].imag else 1) * each.real
        return self._in_time(start, found)

    def _reached(self, k: int) -> Callable[[np.ndarray], np.ndarray]:
        """What rows make of weights (cells, S) in stage k, (M,)."""
        slab, rate = self.slab, self._rate(k)
        return lambda weights: slab.own.applied(slab.owner, weights, rate * weights)

    def _in_time(self, start: np.ndarray, added: np.ndarray) -> np.ndarray:
        """Coefficients (cells, S, q + 1) of `start` (cells, S) and what is `added` by the moments (cells, S, q)."""
        frame, begins = self.slab.frame, self.slab.begins
        from_start, free = from_moments(frame)
        found = np.where(begins[:, :, None], added @ from_start.T, added @ free.T)
        found[:, :, 0] += start
        return found

    def _subtract(self, weights: np.ndarray, right: np.ndarray, tied: np.ndarray) -> None:
        """What weights (cells, S, q + 1) give is taken away from right-hand sides."""
        slab, frame = self.slab, self.slab.frame
        values, slopes = weights @ frame.values.T, weights @ frame.slopes.T  # (cells, S, q)
        own, joint = slab.own, slab.joint
        for place, cells, rows, to in (
            (slab.own.rows, slab.owner, own, right),
            (slab.tie_groups[slab.joint_ties], slab.joint_cells, joint, tied),
        ):
            np.subtract.at(to, place, rows.applied(cells, values, slopes))
        start = weights @ (-1.0) ** np.arange(frame.count + 1)
        owner = np.repeat(np.arange(len(start)), np.diff(slab.beginning_starts))
        right[slab.beginning_rows] -= applied(slab.beginning, owner, start)


def starting_factors(slab: SeparatedSlab, column: np.ndarray) -> list[LocalFactor]:
    """Of the rows of what the slab starts with, cell by cell, over functions that count as `column` (S,) says."""
    parts = zip(pairwise(slab.beginning_starts), slab.begins, strict=True)
    return [LocalFactor.of(slab.beginning[a:b] * column, own) for (a, b), own in parts]


def stage_rates(frame: Frame) -> tuple[np.ndarray, np.ndarray]:
    """r (q,) and V (q, q) with D = V diag(r) V^-1, conjugate pairs next to each other and conjugate to the last bit."""
    rates, vectors = np.linalg.eig(frame.slopes @ from_moments(frame)[0])
    real = np.abs(rates.imag) <= REAL * np.abs(rates)
    upper = np.flatnonzero(~real & (rates.imag > 0))
    found: list[complex] = [complex(r.real) for r in rates[real]]
    columns: Sequence[np.ndarray] = [v.real.astype(complex) for v in vectors[:, real].T]
    for k in upper:
        found += [rates[k], rates[k].conj()]
        columns = [*columns, vectors[:, k], vectors[:, k].conj()]
    return np.array(found), np.stack(columns, axis=1).astype(complex)


def from_moments(frame: Frame) -> tuple[np.ndarray, np.ndarray]:
    """From values at the moments to coefficients, (q + 1, q): with 0 at the start, and one degree lower without it."""
    nodes = np.concatenate([[-1.0], frame.moments])
    whole = np.linalg.inv(chebyshev.chebvander(nodes, frame.count))[:, 1:]
    lower = np.linalg.inv(chebyshev.chebvander(frame.moments, frame.count - 1))
    return whole, np.concatenate([lower, np.zeros((1, frame.count))])


def smallest(
    factor: TiedFactor,
    reached: Callable[[np.ndarray], np.ndarray],
    right: np.ndarray,
    tied: np.ndarray,
    pull: np.ndarray | None,
) -> np.ndarray:
    """The weights (cells, n) that fit guides best, of those that meet the rows; `reached` (M,) is what these give.

    `pull` (cells, n) is K^H k of the guides.
    """
    metric = factor.metric
    if pull is None:
        return metric.weights(factor.solve(right, tied))
    nearest = metric.weights(metric.transposed(pull))
    return nearest + metric.weights(factor.solve(right - reached(nearest), tied - factor.ties.applied(nearest)))
