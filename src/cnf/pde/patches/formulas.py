"""Formulas: right-hand sides and coefficients are known everywhere, so cells follow them before anything is solved.

Samples alone would miss a peak between them. The largest value of a formula is therefore looked for by interval
arithmetic, in which peaks of any width show, and cells must follow the formula there as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import sympy as sp
import torch
from numpy.polynomial import chebyshev
from torch import Tensor

from cnf.bases.cells import Cells
from cnf.constraints import Constraint
from cnf.operators.coefficients import Datum, evaluate
from cnf.operators.frame import symbol
from cnf.operators.ranges import Ranges
from cnf.pde.patches.layout import cut_together, gauss, tensor_grid

DENSE = 2**18  # points at which formulas are looked at in all, at first
LEAST = 64  # and in every cell later
AT_ONCE = 2**18  # numbers in memory while interpolants are evaluated
ON_LINES = 33  # on lines that say across which coordinates to cut
MOST_CELLS = 3000
FINEST = 2.0**-14  # of the domain: jumps are not followed any further
BOXES = 2**14  # boxes in which the largest value is looked for at once
HALVINGS = 60  # of boxes
CLEARLY = 1.1  # a peak this much above all samples is looked for; samples miss narrow ones only, of little mass


Meets = Callable[[np.ndarray, np.ndarray], np.ndarray]  # corners of cells (n, D) -> bool (n,)


def everywhere(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    return np.ones(len(lower), dtype=bool)


@dataclass(frozen=True)
class Formula:
    """An expression in the coordinates that matters in the cells that `meets` picks from those with corners (n, D).

    On a face, only where coordinate `axis` is `position`.
    """

    expression: sp.Expr
    names: tuple[str, ...]
    data: Mapping[str, Datum]
    axis: int | None = None
    position: float = 0.0
    meets: Meets = everywhere

    def at(self, points: Tensor) -> Tensor:
        """(P, D) -> (P,)."""
        values = {symbol(name): points[:, k] for k, name in enumerate(self.names)}
        return evaluate(self.expression, values, dict(self.data), points[:, 0]).expand(points.shape[0])

    def region(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Corners (n, D) of boxes, flattened onto the face if there is one."""
        low, high = lower.copy(), upper.copy()
        if self.axis is not None:
            low[:, self.axis] = high[:, self.axis] = self.position
        return low, high

    def bound(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """What |formula| does not exceed in boxes (n, D), (n,), by interval arithmetic."""
        free = [k for k in range(low.shape[1]) if k != self.axis]
        fixed = {symbol(self.names[k]): torch.full((1, 1), low[0, k]) for k in range(low.shape[1]) if k == self.axis}
        like = torch.zeros(1, 1, dtype=torch.float64)
        variables = [symbol(self.names[k]) for k in free]
        ranges = Ranges(variables, low[:, free], high[:, free], fixed, dict(self.data), like)
        size = np.broadcast_to(ranges.of(self.expression).size, low.shape[:1])
        return np.nan_to_num(size, nan=np.inf, posinf=np.inf)

    def touches(self, cells: Cells) -> np.ndarray:
        """Which cells it matters to, (n,) bool."""
        if self.axis is None:
            return self.meets(cells.lower, cells.upper)
        return (cells.lower[:, self.axis] == self.position) | (cells.upper[:, self.axis] == self.position)


def known_formulas(
    equation: Constraint,
    axis: int | None = None,
    position: float = 0.0,
    meets: Meets = everywhere,
    sides_only: bool = False,
) -> list[Formula]:
    """Right-hand sides of an equation, and its coefficients if it holds inside."""
    frame, side = equation.operator._needs_frame(), equation.right_hand_side
    coordinates = {symbol(name) for name in frame.coordinates}
    found = [(e, side.data) for e in (side.source if isinstance(side.source, tuple) else ())]
    if axis is None and not sides_only:
        terms = [term for row in equation.operator.rows for term in row if term.place.is_here]
        found += [(term.coefficient, dict(equation.operator.data)) for term in terms]
    return [
        Formula(expression, frame.coordinates, data, axis, position, meets)
        for expression, data in found
        if expression.free_symbols & coordinates and not any(isinstance(v, Tensor) and v.dim() for v in data.values())
    ]


def follow(
    cells: Cells, degree: Sequence[int], formulas: Sequence[Formula], accuracy: float, seed: int, time: int | None
) -> Cells:
    """Cells cut until polynomials of the degree follow every formula to `accuracy` of its size, as far as that goes."""
    rng = np.random.default_rng(seed)
    thinnest = (cells.upper.max(axis=0) - cells.lower.min(axis=0)) * FINEST
    for formula in formulas:
        fresh, size = np.flatnonzero(formula.touches(cells)), 0.0
        while len(fresh) and cells.count < MOST_CELLS:
            box = formula.region(cells.lower[fresh], cells.upper[fresh])
            found = _looked_at(formula, *box, degree, max(LEAST, DENSE // cells.count), accuracy * size, rng)
            size = max(size, found.size)
            cut = np.zeros((cells.count, cells.dimension), dtype=bool)
            cut[fresh] = (found.off > accuracy * size)[:, None] & _directions(formula, *box, found.worst, degree)
            cut &= cells.upper - cells.lower > thinnest
            before, cells = cells, cut_together(cells, cut, time)
            changed = np.append(cut.any(axis=1), np.ones(cells.count - before.count, dtype=bool))
            fresh = np.flatnonzero(changed & formula.touches(cells))
    return cells


@dataclass(frozen=True)
class Looked:
    """How far the interpolants of cells are off, (n,), where that is, (n, D), and how large the formula is in all."""

    off: np.ndarray
    worst: np.ndarray
    size: float


def _looked_at(
    formula: Formula,
    low: np.ndarray,
    high: np.ndarray,
    degree: Sequence[int],
    per_cell: int,
    floor: float,
    rng: np.random.Generator,
) -> Looked:
    """At random points of boxes with corners (n, D), and where the formula is largest in each."""
    along = [0 if k == formula.axis else p for k, p in enumerate(degree)]
    at_nodes = _values(formula, tensor_grid(low, high, [p + 1 for p in along]))  # (n, P)
    unit = rng.uniform(-1, 1, (per_cell, low.shape[1]))
    centre, half = (low + high) / 2, (high - low) / 2
    checks = centre[:, None] + half[:, None] * unit
    at_checks = _values(formula, checks)  # (n, Q)
    with np.errstate(invalid="ignore"):
        known = np.fmax(np.nanmax(np.abs(at_nodes), axis=1), np.nanmax(np.abs(at_checks), axis=1))
    at_peaks, peaks = largest(formula, low, high, known, floor)
    there = _interpolation((peaks - centre) / np.where(half > 0, half, 1.0), along)  # (n, P)
    with np.errstate(invalid="ignore", over="ignore"):
        off = np.abs(_interpolated(at_nodes, unit, along) - at_checks)  # (n, Q)
        off = np.concatenate([off, np.abs((there * at_nodes).sum(axis=1) - at_peaks)[:, None]], axis=1)
        size = max(float(np.nanmax(np.abs(a), initial=0.0)) for a in (at_nodes, at_checks, at_peaks))
    off = np.where(np.isfinite(off), off, 0.0)
    at = off.argmax(axis=1)
    rows = np.arange(len(low))
    worst = np.concatenate([checks, peaks[:, None]], axis=1)[rows, at]
    return Looked(off[rows, at], worst, size if np.isfinite(size) else 0.0)


def _directions(
    formula: Formula, low: np.ndarray, high: np.ndarray, through: np.ndarray, degree: Sequence[int]
) -> np.ndarray:
    """Along which coordinates interpolants do not follow the formula on lines through points (n, D), (n, D) bool."""
    off = np.zeros(low.shape)
    unit = np.linspace(-1, 1, ON_LINES)[:, None]
    for k, p in enumerate(degree):
        if k == formula.axis:
            continue
        centre, half = (low[:, k] + high[:, k]) / 2, (high[:, k] - low[:, k]) / 2
        line = np.repeat(through[:, None], p + 1 + ON_LINES, axis=1)  # (n, nodes and checks, D)
        line[:, :, k] = centre[:, None] + half[:, None] * np.concatenate([gauss(p + 1), unit[:, 0]])
        values = _values(formula, line)
        own = _interpolation(((through[:, k] - centre) / half)[:, None], [p])  # (n, p + 1)
        with np.errstate(invalid="ignore", over="ignore"):
            here = np.abs((own * values[:, : p + 1]).sum(axis=1) - _values(formula, through))
            elsewhere = np.abs(values[:, : p + 1] @ _interpolation(unit, [p]).T - values[:, p + 1 :]).max(axis=1)
            off[:, k] = np.nan_to_num(np.fmax(here, elsewhere), posinf=0.0)
    found = off >= 0.1 * off.max(axis=1, keepdims=True)
    if formula.axis is not None:
        found[:, formula.axis] = False
    return found


def largest(
    formula: Formula, low: np.ndarray, high: np.ndarray, known: np.ndarray, floor: float
) -> tuple[np.ndarray, np.ndarray]:
    """Values (n,) and points (n, D) of boxes (n, D) at which |formula| is larger than `known` (n,), if there are any.

    Boxes are halved while their bounds say that they may hide clearly more than is known, the most promising first.
    """
    points = (low + high) / 2
    values, known = _values(formula, points), known.copy()
    owner, extent = np.arange(len(low)), np.where(high > low, high - low, np.inf)
    for _ in range(HALVINGS):
        centres = (low + high) / 2
        here = _values(formula, centres)
        better = np.abs(np.nan_to_num(here, posinf=0.0, neginf=0.0))
        order = np.argsort(better, kind="stable")  # the largest of an owner comes last
        order = order[better[order] > known[owner[order]]]
        values[owner[order]], points[owner[order]] = here[order], centres[order]
        known[owner[order]] = better[order]
        bound = formula.bound(low, high)
        open_ = np.flatnonzero(bound > CLEARLY * known[owner] + floor)
        if not len(open_):
            break
        open_ = open_[np.argsort(-bound[open_], kind="stable")[: BOXES // 2]]
        low, high, owner = low[open_], high[open_], owner[open_]
        axis = np.argmax((high - low) / extent[owner], axis=1)
        rows = np.arange(len(open_))
        middle = (low[rows, axis] + high[rows, axis]) / 2
        low, high, owner = (np.concatenate([a, a]) for a in (low, high, owner))
        high[rows, axis], low[len(open_) + rows, axis] = middle, middle
    return values, points


def _interpolation(unit: np.ndarray, degree: Sequence[int]) -> np.ndarray:
    """From values at the Chebyshev points to those at points (Q, D) of the unit box, (Q, P)."""
    through = np.ones((unit.shape[0], 1))
    for k, p in enumerate(degree):
        step = chebyshev.chebvander(unit[:, k], p) @ np.linalg.inv(chebyshev.chebvander(gauss(p + 1), p))
        through = (through[:, :, None] * step[:, None, :]).reshape(unit.shape[0], -1)
    return through


def _interpolated(at_nodes: np.ndarray, unit: np.ndarray, degree: Sequence[int]) -> np.ndarray:
    """Polynomials with values (n, P) at the Chebyshev points, at points (Q, D) of the unit box, (n, Q).

    One coordinate after the other and some points at a time: all at once would be gigabytes in space.
    """
    n, found = len(at_nodes), np.empty((len(at_nodes), len(unit)))
    step = max(1, AT_ONCE * (degree[-1] + 1) // max(1, at_nodes.size))
    for start in range(0, len(unit), step):
        some = unit[start : start + step]
        values = at_nodes.reshape(n, -1, degree[-1] + 1) @ _interpolation(some[:, -1:], degree[-1:]).T  # (n, rest, Q)
        for k in range(len(degree) - 2, -1, -1):
            across = _interpolation(some[:, k : k + 1], degree[k : k + 1])  # (Q, p + 1)
            values = np.einsum("nakq,qk->naq", values.reshape(n, -1, degree[k] + 1, len(some)), across)
        found[:, start : start + step] = values[:, 0]
    return found


def _values(formula: Formula, points: np.ndarray) -> np.ndarray:
    """(..., D) -> (...)."""
    flat = torch.from_numpy(np.ascontiguousarray(points.reshape(-1, points.shape[-1])))
    with torch.no_grad():
        return formula.at(flat).to(torch.float64).numpy().reshape(points.shape[:-1])
