"""Tracing: the zero set of a level function in the plane, as closed curves by arc length that lie on it to rounding.

Signs on a grid say how many curves there are and how they run; interval arithmetic makes sure that no cell hides one.
Between neighbouring crossings of the grid, a curve is followed over its chord, and cut at corners.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sympy as sp

from cnf.errors import DomainError
from cnf.pde.domains.boundary import Arrays, Curve
from cnf.pde.domains.level import Level
from cnf.pde.domains.panels import by_arc_length
from cnf.pde.domains.simplices import chain, march

GRIDS = {2: (64, 128, 256, 512, 1024), 3: (40, 80, 120)}  # cells along the box, until the curves can be followed
SAMPLED = {2: 256, 3: 40}  # for functions, of which nothing but values is known
AMBIGUOUS = 2**15  # cells that may hide something, looked at in one go
CLOSEST = 0.5  # of a cell: crossings nearer than this to the last one are left out
BEND = np.deg2rad(1.0)  # what bends by more in no distance is a corner
HALVINGS = 48
WIDTHS = (0.1, 0.25, 0.5, 1.0)  # of a chord: how far from it the curve is looked for
FLAT = 1e-6  # of the usual gradient: where it is smaller, curves cross, touch or have cusps


@dataclass(frozen=True, eq=False)
class Grid:
    """Where a level function was looked at: nodes (n0, n1, ...) of the box, their signs, and the sides of a cell."""

    axes: tuple[np.ndarray, ...]
    inside: np.ndarray

    @property
    def cell(self) -> float:
        return max(float(axis[1] - axis[0]) for axis in self.axes)

    def nodes(self, numbers: np.ndarray) -> np.ndarray:
        """Points (n, D) of nodes by number."""
        places = np.unravel_index(numbers, self.inside.shape)
        return np.stack([axis[k] for axis, k in zip(self.axes, places, strict=True)], axis=1)


def look(level: Level, lower: Sequence[float], upper: Sequence[float], cells: int) -> Grid:
    """Signs on a grid of about `cells` cells along the longest side; refused where they make no closed domain."""
    sides = np.subtract(upper, lower)
    counts = np.maximum(8, np.ceil(cells * sides / sides.max())).astype(int)
    axes = tuple(a + (b - a) * np.linspace(0, 1, n + 1) for a, b, n in zip(lower, upper, counts, strict=True))
    points = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)
    values = level.values(points)
    if np.isnan(values).any():
        where = points[np.flatnonzero(np.isnan(values))[0]]
        raise DomainError(
            f"the level function is not a number at {as_text(where)}; choose a box in which it is defined, or another "
            "expression"
        )
    inside = (values < 0).reshape([n + 1 for n in counts])
    if not inside.any():
        raise DomainError(
            "the level function is nowhere negative in its box, so nothing is inside; the inside is where it is "
            "negative: turn its sign, or choose another box"
        )
    out = inside.copy()
    out[(slice(1, -1),) * len(counts)] = False
    if out.any():
        where = points[np.flatnonzero(out.ravel())[0]]
        raise DomainError(
            f"the level set reaches out of its box: its inside holds {as_text(where)} on the edge of it; choose a "
            "larger box, or cut it off by type = 'intersection' with a box"
        )
    return Grid(axes, inside)


def hidden(level: Level, grid: Grid) -> bool:
    """Whether a cell whose nodes have one sign has parts with the other, as far as halving it a few times shows.

    Cells are safe in which interval arithmetic excludes zeros, or in which the function grows along a coordinate: no
    closed curve fits in there.
    """
    if not isinstance(level.formula, sp.Expr):
        return False
    dimension = len(grid.axes)
    same = np.ones([n - 1 for n in grid.inside.shape], dtype=bool)
    first = grid.inside[(slice(0, -1),) * dimension]
    for corner in np.ndindex(*(2,) * dimension):
        same &= grid.inside[tuple(slice(c, n - 1 + c) for c, n in zip(corner, grid.inside.shape, strict=True))] == first
    places = np.stack(np.nonzero(same), axis=1)
    low = np.stack([axis[k] for axis, k in zip(grid.axes, places.T, strict=True)], axis=1)
    high = np.stack([axis[k + 1] for axis, k in zip(grid.axes, places.T, strict=True)], axis=1)
    sign = first[same]
    slopes = [sp.diff(level.formula, name) for name in sorted(level.formula.free_symbols, key=str)]
    for _ in range(4):
        kept = _straddles(level, level.formula, low, high)
        for slope in slopes:
            kept[kept] = _straddles(level, slope, low[kept], high[kept])
        low, high, sign = low[kept], high[kept], sign[kept]
        if not len(low) or len(low) * 2**dimension > AMBIGUOUS:
            return False
        centre = (low + high) / 2
        if ((level.values(centre) < 0) != sign).any():
            return True
        halves = [(np.where(c, centre, low), np.where(c, high, centre)) for c in np.ndindex(*(2,) * dimension)]
        low, high = (np.concatenate([half[k] for half in halves]) for k in (0, 1))
        sign = np.tile(sign, 2**dimension)
    return False


def _straddles(level: Level, expression: sp.Expr, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Where an expression may be zero, (n,) bool; everywhere if nothing is known of it."""
    if not len(low):
        return np.zeros(0, dtype=bool)
    try:
        lower, upper = level.bounds(expression, low, high)
    except (TypeError, ValueError, KeyError, NotImplementedError, AttributeError):  # derivatives of |x| and max
        return np.ones(len(low), dtype=bool)
    return (lower <= 0) & (upper >= 0)


def trace_level(level: Level, lower: Sequence[float], upper: Sequence[float], names: tuple[str, ...]) -> list[Curve]:
    """The closed curves on which a level function vanishes, counterclockwise around the inside."""
    size = float(np.subtract(upper, lower).max())
    problem: DomainError | None = None
    exact = isinstance(level.formula, sp.Expr)
    for cells in GRIDS[2]:
        if not exact and cells < SAMPLED[2]:
            continue
        grid = look(level, lower, upper, cells)
        if cells < GRIDS[2][-1] and hidden(level, grid):
            continue
        try:
            return [_follow(level, loop, size, names) for loop in _loops(level, grid)]
        except DomainError as error:
            problem = error
    assert problem is not None
    raise problem


def _loops(level: Level, grid: Grid) -> list[np.ndarray]:
    """Points (n, 2) along every closed curve, counterclockwise around the inside, about a cell apart."""
    edges, segments = march(grid.inside)
    inner, outer = grid.nodes(edges[:, 0]), grid.nodes(edges[:, 1])
    share = level.zeros(inner, outer, np.ones(len(edges), dtype=bool))
    crossings = inner + share[:, None] * (outer - inner)
    loops = []
    for numbers in chain(segments):
        points = crossings[numbers]
        kept = [points[0]]
        for point in points[1:]:
            if np.linalg.norm(point - kept[-1]) > CLOSEST * grid.cell:
                kept.append(point)
        if len(kept) > 3 and np.linalg.norm(kept[-1] - kept[0]) <= CLOSEST * grid.cell:
            kept.pop()
        loops.append(np.array(kept) if len(kept) >= 3 else points)
    if any(len(loop) < 3 for loop in loops):
        raise DomainError(f"the level set has a part near {as_text(loops[0][0])} that is too small to be followed")
    return loops


class _Chords:
    """The curve over its chords, from `start` to `end` (n, 2): shares of a chord in, points of the curve out."""

    def __init__(self, level: Level, start: np.ndarray, end: np.ndarray):
        self.level, self.start, self.end = level, start, end

    @property
    def count(self) -> int:
        return len(self.start)

    def at(self, number: np.ndarray, share: np.ndarray) -> Arrays:
        """Points and velocities at shares (n,) of chords by number (n,)."""
        start, along = self.start[number], (self.end - self.start)[number]
        across = np.stack([along[:, 1], -along[:, 0]], axis=1)  # to the right: outward
        foot = start + share[:, None] * along
        width = np.full(len(number), np.nan)
        for wide in WIDTHS:
            (open_,) = np.nonzero(np.isnan(width))
            if not len(open_):
                break
            ends = [foot[open_] + side * wide * across[open_] for side in (-1, 1)]
            fits = (self.level.values(ends[0]) <= 0) & (self.level.values(ends[1]) > 0)
            width[open_[fits]] = wide
        if np.isnan(width).any():
            where = foot[np.flatnonzero(np.isnan(width))[0]]
            raise DomainError(
                f"the level set cannot be followed near {as_text(where)}: curves touch or cross there, or it has "
                "details too small for its box; choose a smaller box, or build it from several shapes"
            )
        low, high = (foot + side * width[:, None] * across for side in (-1, 1))
        found = self.level.zeros(low, high, np.ones(len(low), dtype=bool))
        points = low + found[:, None] * (high - low)
        slope = self.level.gradients(points)
        rise, run = (slope * across).sum(axis=1), (slope * along).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            velocity = along - np.nan_to_num(run / rise)[:, None] * across
        return points, velocity

    def directions(self, number: np.ndarray, share: np.ndarray) -> np.ndarray:
        """Of the curve, (n, 2) unit."""
        _, velocity = self.at(number, share)
        return velocity / np.linalg.norm(velocity, axis=1, keepdims=True)


def _follow(level: Level, loop: np.ndarray, size: float, names: tuple[str, ...]) -> Curve:
    """A closed curve through points (n, 2) that lie on it, cut at its corners."""
    chords = _Chords(level, loop, np.roll(loop, -1, axis=0))
    corner = np.zeros(chords.count, dtype=bool)  # whether a chord begins in one
    for _ in range(8):
        chords, corner, more = _cut_at_corners(chords, corner)
        if not more:
            break
    _refuse_flat(chords, corner)
    panels, begins = by_arc_length(chords.at, chords.count, size)
    whole = float(panels.knots[-1])
    return Curve(names, panels.trace, panels.knots, begins[:-1][corner], 0.0, whole)


def _cut_at_corners(chords: _Chords, corner: np.ndarray) -> tuple[_Chords, np.ndarray, bool]:
    """Chords cut where the curve bends at once, `corner` (n,) telling which begin there; whether any was cut."""
    every = np.arange(chords.count)
    a, b = np.full(chords.count, 1e-9), np.full(chords.count, 1 - 1e-9)
    before, after = chords.directions(every, a), chords.directions(every, b)
    # A corner on the point where two chords meet shows in neither.
    meets = _angle(np.roll(after, 1, axis=0), before) > BEND
    corner = corner | meets
    (open_,) = np.nonzero(_angle(before, after) > BEND)
    for _ in range(HALVINGS):
        if not len(open_):
            break
        middle = (a[open_] + b[open_]) / 2
        here = chords.directions(open_, middle)
        first = _angle(before[open_], here) >= _angle(here, after[open_])  # where it bends more
        b[open_] = np.where(first, middle, b[open_])
        after[open_] = np.where(first[:, None], here, after[open_])
        a[open_] = np.where(first, a[open_], middle)
        before[open_] = np.where(first[:, None], before[open_], here)
        open_ = open_[_angle(before[open_], after[open_]) > BEND]
    if not len(open_):
        return chords, corner, False
    places, _ = chords.at(open_, (a[open_] + b[open_]) / 2)
    start = np.insert(chords.start, open_ + 1, places, axis=0)
    end = np.insert(chords.end, open_, places, axis=0)
    return _Chords(chords.level, start, end), np.insert(corner, open_ + 1, True), True


def _angle(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    cross = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
    return np.abs(np.arctan2(cross, (a * b).sum(axis=1)))


def _refuse_flat(chords: _Chords, corner: np.ndarray) -> None:
    """Raise where the gradient vanishes: there, curves cross or touch, or end in a cusp."""
    every = np.arange(chords.count)
    usual = np.linalg.norm(chords.level.gradients(chords.at(every, np.full(chords.count, 0.5))[0]), axis=1)
    values = chords.level.values(chords.start + 0.5 * (chords.end - chords.start))
    if not np.median(usual) > 0 or not np.isfinite(values).all():
        raise DomainError(
            "the level function is flat or jumps where it changes its sign, so its curves cannot be followed; write "
            "one that goes through zero with a slope, such as x^2 + y^2 - 1 for sign(x^2 + y^2 - 1)"
        )
    near = [chords.at(np.flatnonzero(corner), np.full(int(corner.sum()), 1e-9))[0]]
    near.append(chords.at(np.flatnonzero(np.roll(corner, -1)), np.full(int(corner.sum()), 1 - 1e-9))[0])
    points = np.concatenate([*near, chords.at(every, np.full(chords.count, 0.5))[0]])
    slopes = np.linalg.norm(chords.level.gradients(points), axis=1)
    if (slopes <= FLAT * np.median(usual)).any():
        where = points[slopes.argmin()]
        raise DomainError(
            f"the level set crosses or touches itself, or has a cusp, near {as_text(where)}; move the level a little, "
            "or build the shape by Union or Difference"
        )


def as_text(point: np.ndarray) -> str:
    return f"({', '.join(f'{x:.4g}' for x in point)})"
