"""Formulas: right-hand sides and coefficients are known everywhere, so cells follow them before anything is solved.

Samples alone would miss a peak between them. The largest value of a formula is therefore looked for by interval
arithmetic, in which peaks of any width show, and cells must follow the formula there as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import sympy as sp
import torch
from numpy.polynomial import chebyshev
from torch import Tensor

from cnf.bases.cells import Cells
from cnf.constraints import Constraint
from cnf.operators.coefficients import DataFunction, Datum
from cnf.operators.evaluation import evaluate
from cnf.operators.field_functions import Jet
from cnf.operators.frame import symbol
from cnf.operators.nonlinear import with_even_states
from cnf.operators.ranges import Bounds, Ranges
from cnf.pde.patches.layout import cut_together, gauss, tensor_grid

DENSE = 2**18  # points at which formulas are looked at in all, at first
SAME = 500  # points at which plain sums are compared with careful ones
UNSEEN = 1e-3  # of the accuracy
ROUNDED = 1e-14  # of the size of an expression
ALONG = 2**12  # of them along a coordinate, at most
PER_UNIT = 8  # points for everything that a formula may go through
PER_DEGREE = 2
LEAST = 64  # points in every cell later
ON_LINES = 33  # on lines that say across which coordinates to cut
MOST_CELLS = 3000
FINEST = 2.0**-14  # of the domain: jumps are not followed any further
BOXES = 2**14  # boxes in which the largest value is looked for at once
FIRST_BOXES = 2**8  # to begin with
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
    careful: bool = True  # whether sums are evaluated so that nothing is lost where they cancel
    hidden: bool = True  # whether something may hide between points; not in a field that was followed itself

    def at(self, points: Tensor) -> Tensor:
        """(P, D) -> (P,)."""
        values = {symbol(name): points[:, k] for k, name in enumerate(self.names)}
        return evaluate(self.expression, values, dict(self.data), points[:, 0], self.careful).expand(points.shape[0])

    def region(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Corners (n, D) of boxes, flattened onto the face if there is one."""
        low, high = lower.copy(), upper.copy()
        if self.axis is not None:
            low[:, self.axis] = high[:, self.axis] = self.position
        return low, high

    @property
    def is_known(self) -> bool:
        """Whether all of it is written down: callables say nothing about their slopes."""
        return not self.expression.has(DataFunction)

    @property
    def free(self) -> list[int]:
        """The coordinates along which it varies."""
        return [k for k in range(len(self.names)) if k != self.axis]

    def ranges(self, low: np.ndarray, high: np.ndarray) -> Bounds:
        """Bounds of the formula, of its slopes and of its pace in boxes (n, D)."""
        fixed = {symbol(self.names[k]): torch.full((1, 1), low[0, k]) for k in range(low.shape[1]) if k == self.axis}
        like = torch.zeros(1, 1, dtype=torch.float64)
        variables = [symbol(self.names[k]) for k in self.free]
        return Ranges(variables, low[:, self.free], high[:, self.free], fixed, dict(self.data), like).of(
            self.expression
        )

    def bound(self, low: np.ndarray, high: np.ndarray, middle: np.ndarray) -> np.ndarray:
        """What |formula| does not exceed in boxes (n, D), (n,), by interval arithmetic.

        In small boxes, its values (n,) in the `middle` and what its slopes may add to them bound it more closely.
        """
        found = self.ranges(low, high)
        size = np.broadcast_to(found.size, low.shape[:1])
        if self.is_known:
            near = np.abs(middle) + (found.slope * (high - low)[:, self.free]).sum(axis=1) / 2
            size = np.where(np.isfinite(found.pace).all(axis=1), np.fmin(size, near), size)  # none where it jumps
        return np.nan_to_num(size, nan=np.inf, posinf=np.inf)

    def touches(self, cells: Cells) -> np.ndarray:
        """Which cells it matters to, (n,) bool."""
        met = self.meets(cells.lower, cells.upper)
        if self.axis is None:
            return met
        ends = cells.lower[:, self.axis], cells.upper[:, self.axis]
        return met & ((ends[0] == self.position) | (ends[1] == self.position))


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
        once = dict.fromkeys(term.coefficient for term in terms)  # k of div(k grad u) is the coefficient of several
        data = dict(equation.operator.data)
        found += [(with_even_states(coefficient, data), data) for coefficient in once]
    return [
        Formula(expression, frame.coordinates, data, axis, position, meets, hidden=_may_hide(expression, coordinates))
        for expression, data in found
        if expression.free_symbols & coordinates and not any(isinstance(v, Tensor) and v.dim() for v in data.values())
    ]


def _may_hide(expression: sp.Expr, coordinates: set[sp.Symbol]) -> bool:
    """Whether more than a field depends on the coordinates: a nonlinear equation has the field it starts from in its
    coefficients, which polynomials follow already, and bounds of it say nothing that would end a search in it.
    """
    others = expression.xreplace({jet: sp.Dummy() for jet in expression.atoms(Jet)})
    return bool(others.free_symbols & coordinates)


def follow(
    cells: Cells, degree: Sequence[int], formulas: Sequence[Formula], accuracy: float, seed: int, time: int | None
) -> Cells:
    """Cells cut until polynomials of the degree follow every formula to `accuracy` of its size, as far as that goes."""
    rng = np.random.default_rng(seed)
    thinnest = (cells.upper.max(axis=0) - cells.lower.min(axis=0)) * FINEST
    noise = _noise(formulas, cells, rng)
    for formula in (_quickest(given, cells, accuracy, rng) for given in formulas):
        fresh, size = np.flatnonzero(formula.touches(cells)), noise[formula.expression] / accuracy
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


def _noise(formulas: Sequence[Formula], cells: Cells, rng: np.random.Generator) -> dict[sp.Expr, float]:
    """What of every expression is rounding, on whichever face it is looked at: sin(pi y) is 1e-16 at y = 1."""
    found: dict[sp.Expr, float] = {}
    for formula in formulas:
        low, high = formula.region(cells.lower.min(axis=0)[None], cells.upper.max(axis=0)[None])
        size = np.abs(_values(formula, low + (high - low) * rng.uniform(size=(SAME, low.shape[1]))))
        largest = float(np.max(size, initial=0.0, where=np.isfinite(size)))
        found[formula.expression] = max(found.get(formula.expression, 0.0), ROUNDED * largest)
    return found


def _quickest(formula: Formula, cells: Cells, accuracy: float, rng: np.random.Generator) -> Formula:
    """The formula evaluated with plain sums, if that makes no difference at some points."""
    quick = replace(formula, careful=False)
    low, high = formula.region(cells.lower.min(axis=0)[None], cells.upper.max(axis=0)[None])
    points = low + (high - low) * rng.uniform(size=(SAME, low.shape[1]))
    slow, fast = _values(formula, points), _values(quick, points)
    with np.errstate(invalid="ignore"):
        same = np.abs(slow - fast) <= UNSEEN * accuracy * np.nanmax(np.abs(slow), initial=0.0)
    return quick if (same | ~np.isfinite(slow)).all() else formula


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
    """At random points of boxes with corners (n, D), and where the formula is largest in each.

    The points are a grid of random coordinates: interpolating to one is cheap, whatever the number of its points.
    """
    along = [0 if k == formula.axis else p for k, p in enumerate(degree)]
    at_nodes = _values(formula, tensor_grid(low, high, [p + 1 for p in along]))  # (n, P)
    centre, half = (low + high) / 2, (high - low) / 2
    counts, seen = _looks(formula, low, high, degree, per_cell)
    axes = [rng.uniform(-1, 1, count) for count in counts]
    unit = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)
    checks = centre[:, None] + half[:, None] * unit
    at_checks = _values(formula, checks)  # (n, Q)
    with np.errstate(invalid="ignore"):
        known = np.fmax(np.nanmax(np.abs(at_nodes), axis=1), np.nanmax(np.abs(at_checks), axis=1))
    at_peaks, peaks = at_checks[:, 0].copy(), checks[:, 0].copy()
    if not seen.all():  # something may hide between the points
        at_peaks[~seen], peaks[~seen] = largest(formula, low[~seen], high[~seen], known[~seen], floor)
    there = _interpolation((peaks - centre) / np.where(half > 0, half, 1.0), along)  # (n, P)
    with np.errstate(invalid="ignore", over="ignore"):
        off = np.abs(_interpolated(at_nodes, axes, along) - at_checks)  # (n, Q)
        off = np.concatenate([off, np.abs((there * at_nodes).sum(axis=1) - at_peaks)[:, None]], axis=1)
        size = max(float(np.nanmax(np.abs(a), initial=0.0)) for a in (at_nodes, at_checks, at_peaks))
    off = np.where(np.isfinite(off), off, 0.0)
    at = off.argmax(axis=1)
    rows = np.arange(len(low))
    worst = np.concatenate([checks, peaks[:, None]], axis=1)[rows, at]
    return Looked(off[rows, at], worst, size if np.isfinite(size) else 0.0)


def _looks(
    formula: Formula, low: np.ndarray, high: np.ndarray, degree: Sequence[int], per_cell: int
) -> tuple[list[int], np.ndarray]:
    """Points along every coordinate: as many as its pace asks for, or up to `per_cell` in all where that is not known.

    The pace counts what a formula goes through, radians of a sine or widths of a peak, so nothing in it is narrower.
    Beside them, the boxes (n,) in which there are as many points as the pace asks for: nothing hides between them.
    """
    most = min(max(2, round(per_cell ** (1 / max(1, len(formula.free))))), ALONG)
    counts = [1 if k == formula.axis else most for k in range(low.shape[1])]
    seen = np.full(len(low), not formula.hidden)
    if not formula.hidden:
        counts = [1 if k == formula.axis else PER_DEGREE * (p + 1) for k, p in enumerate(degree)]
    elif formula.is_known:
        units = formula.ranges(low, high).pace * (high - low)[:, formula.free]
        for k, many in zip(formula.free, np.where(np.isfinite(units), units, most).max(axis=0), strict=True):
            counts[k] = min(most, max(PER_DEGREE * (degree[k] + 1), math.ceil(PER_UNIT * many)))
        seen = (PER_UNIT * units <= [counts[k] for k in formula.free]).all(axis=1)
    return counts, seen


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
    while len(low) < FIRST_BOXES:  # bounds of many boxes take hardly longer than those of one
        low, high, owner = _halved(low, high, owner, extent)
    for _ in range(HALVINGS):
        centres = (low + high) / 2
        here = _values(formula, centres)
        better = np.abs(np.nan_to_num(here, posinf=0.0, neginf=0.0))
        order = np.argsort(better, kind="stable")  # the largest of an owner comes last
        order = order[better[order] > known[owner[order]]]
        values[owner[order]], points[owner[order]] = here[order], centres[order]
        known[owner[order]] = better[order]
        bound = formula.bound(low, high, here)
        open_ = np.flatnonzero(bound > CLEARLY * known[owner] + floor)
        if not len(open_):
            break
        open_ = open_[np.argsort(-bound[open_], kind="stable")[: BOXES // 2]]
        low, high, owner = _halved(low[open_], high[open_], owner[open_], extent)
    return values, points


def _halved(
    low: np.ndarray, high: np.ndarray, owner: np.ndarray, extent: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Boxes (n, D) of owners (n,) cut in two along the coordinate that is longest beside `extent` of the owner."""
    axis, rows = np.argmax((high - low) / extent[owner], axis=1), np.arange(len(low))
    middle = (low[rows, axis] + high[rows, axis]) / 2
    low, high, owner = (np.concatenate([a, a]) for a in (low, high, owner))
    high[rows, axis], low[len(rows) + rows, axis] = middle, middle
    return low, high, owner


def _interpolated(at_nodes: np.ndarray, axes: Sequence[np.ndarray], degree: Sequence[int]) -> np.ndarray:
    """From values at the Chebyshev points (n, P) to those on a grid with these coordinates, (n, Q)."""
    found = at_nodes.reshape(len(at_nodes), *(p + 1 for p in degree))
    for k, p in enumerate(degree):
        found = np.moveaxis(np.tensordot(found, _interpolation(axes[k][:, None], [p]), axes=(k + 1, 1)), -1, k + 1)
    return found.reshape(len(at_nodes), -1)


def _interpolation(unit: np.ndarray, degree: Sequence[int]) -> np.ndarray:
    """From values at the Chebyshev points to those at points (Q, D) of the unit box, (Q, P)."""
    through = np.ones((unit.shape[0], 1))
    for k, p in enumerate(degree):
        step = chebyshev.chebvander(unit[:, k], p) @ np.linalg.inv(chebyshev.chebvander(gauss(p + 1), p))
        through = (through[:, :, None] * step[:, None, :]).reshape(unit.shape[0], -1)
    return through


def _values(formula: Formula, points: np.ndarray) -> np.ndarray:
    """(..., D) -> (...)."""
    flat = torch.from_numpy(np.ascontiguousarray(points.reshape(-1, points.shape[-1])))
    with torch.no_grad():
        return formula.at(flat).to(torch.float64).numpy().reshape(points.shape[:-1])
