"""Shaped: a planar domain that is no box, as patches: cells inside it, cells cut by its boundary, slivers joined."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from cnf.bases.cells import Cells
from cnf.bases.cover import OUTSIDE, Cover
from cnf.pde.domains import Domain, Timed
from cnf.pde.domains.boundary import Curve
from cnf.pde.patches.outline import ALONG, Run, continued, curves_of, runs_of, walls

TRACED = 513  # points of a curve
LATTICE = 12  # points along every coordinate by which a cell is judged
TURNING = 1.2  # radians that the boundary may turn in a cell
SLIVER = 0.25  # of a cell: patches thinner than this join a neighbour
CUSP = 0.35  # of its frame: patches that fill less, between a side of the cell and a curve that touches it, join as well
COARSEST, DEEPEST = 2, 12  # halvings of the box around the domain
AT_CORNER = 1e-11  # of the domain: the distance at which patches touch a corner
FLAT_CUTS = 12  # cuts along straight sides, per coordinate


@dataclass(frozen=True)
class Segment:
    """What two patches share: from `low` to `high` along the other coordinate, at `position` of coordinate `axis`."""

    first: int
    second: int
    axis: int
    position: float
    low: float
    high: float


@dataclass(frozen=True)
class Shaped:
    """`runs[k]` is the boundary of patch k, `whole` (patches,) says which are plain boxes."""

    domain: Domain
    cells: Cells
    cover: Cover
    segments: tuple[Segment, ...]
    runs: tuple[tuple[Run, ...], ...]
    whole: np.ndarray

    @staticmethod
    def of(domain: Domain, cells: Cells) -> Shaped:
        return _Shaper(domain, cells).shaped()

    def patches_at(self, centre: tuple[float, float], start: float, end: float) -> np.ndarray:
        """Patches that meet at a point, between two angles."""
        size = max(np.subtract(self.domain.upper, self.domain.lower))
        angles = start + (end - start) * (np.arange(64) + 0.5) / 64
        around = np.array(centre) + AT_CORNER * size * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        return np.unique(self.cover.locate(around))

    def inside(self, points: np.ndarray) -> np.ndarray:
        return self.domain._inside(points)


def first_cells(domain: Domain, corners: Sequence[tuple[float, float]] = ()) -> Cells:
    """Cells over a domain: cut along straight sides, then until the boundary is simple in each.

    No cell is left with two of the `corners` that have functions of their own.
    """
    if isinstance(domain, Timed) and not domain._is_box:
        return first_cells(domain.space).extended(domain.start, domain.end)
    cells = Cells(domain.lower, domain.upper)
    if not domain._is_box:
        cells = _cut_to_shape(domain, cells)
    for _ in range(DEEPEST):
        count = np.zeros(cells.count, dtype=np.int64)
        for x in corners:
            count += ((cells.lower <= x) & (x <= cells.upper)).all(axis=1)
        several = np.flatnonzero(count > 1)
        if not len(several):
            break
        widest = np.argmax((cells.upper - cells.lower)[several], axis=1)
        for axis in range(cells.dimension):
            cells = cells.cut(several[widest == axis], axis)
    return cells


def _cut_to_shape(domain: Domain, cells: Cells) -> Cells:
    for axis in (0, 1):
        for position in _flat_sides(domain, axis):
            chosen = np.flatnonzero((cells.lower[:, axis] < position) & (position < cells.upper[:, axis]))
            cells = cells.cut(chosen, axis, [position] * len(chosen))
    side = np.subtract(domain.upper, domain.lower)
    for _ in range(COARSEST):
        for axis in (0, 1):
            cells = cells.cut(np.flatnonzero(cells.upper[:, axis] - cells.lower[:, axis] > 0.6 * side.max()), axis)
    for _ in range(DEEPEST):
        crowded = _not_simple(domain, cells)
        if not len(crowded):
            break
        for axis in (0, 1):
            count = cells.count
            cells = cells.cut(crowded, axis)
            crowded = np.concatenate([crowded, np.arange(count, cells.count)])
    return cells


def meets_domain(domain: Domain, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Which boxes with corners (n, D) have a part of the domain in them."""
    if isinstance(domain, Timed):
        return meets_domain(domain.space, lower[:, :-1], upper[:, :-1])
    if domain._is_box:
        return np.ones(len(lower), dtype=bool)
    return _lattice_inside(domain, lower, upper).any(axis=1) | meets_boundary(domain, lower, upper)


def meets_boundary(domain: Domain, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Which boxes with corners (n, D) have a part of the boundary in them, by the distance to it."""
    distance = np.abs(domain._depth((lower + upper) / 2))
    return distance <= np.linalg.norm(upper - lower, axis=1) / 2


def meets_curves(curves: Sequence[Curve], lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Which boxes with corners (n, D) may have a part of these curves in them, some near ones included."""
    near = np.zeros(len(lower), dtype=bool)
    lower, upper = lower[:, :2], upper[:, :2]  # at all times
    for curve in curves:
        points, _ = curve.at(np.linspace(curve.start, curve.end, TRACED))
        spacing = curve.measure / (TRACED - 1)
        distance, _ = cKDTree(points).query((lower + upper) / 2)
        near |= distance <= np.linalg.norm(upper - lower, axis=1) / 2 + spacing
    return near


def _lattice_inside(domain: Domain, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    points = _lattice(lower, upper)
    return domain._inside(points.reshape(-1, points.shape[2])).reshape(points.shape[:2])


def _lattice(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Points evenly spread in boxes (n, 2), (n, P, 2)."""
    unit = (np.arange(LATTICE) + 0.5) / LATTICE
    grid = np.stack([g.ravel() for g in np.meshgrid(unit, unit, indexing="ij")], axis=1)
    return lower[:, None] + (upper - lower)[:, None] * grid


def _flat_sides(domain: Domain, axis: int) -> list[float]:
    """Positions of straight sides across a coordinate, inside the box around the domain."""
    found = set()
    for curve in curves_of(domain):
        points, _ = curve.at(np.linspace(curve.start, curve.end, 9))
        if np.ptp(points[:, axis]) <= 1e-12 * (domain.upper[axis] - domain.lower[axis]):
            found.add(float(points[4, axis]))
    low, high = domain.lower[axis], domain.upper[axis]
    margin = 0.02 * (high - low)
    kept: list[float] = []
    for position in sorted(found):
        if low + margin < position < high - margin and (not kept or position - kept[-1] > margin):
            kept.append(position)
    return kept if len(kept) <= FLAT_CUTS else []


def _not_simple(domain: Domain, cells: Cells) -> np.ndarray:
    """Cells in which the boundary comes in several pieces or turns too much."""
    by_cell: dict[int, list[Run]] = defaultdict(list)
    for run in runs_of(domain, cells):
        by_cell[run.cell].append(run)
    size = max(np.subtract(domain.upper, domain.lower))
    found = []
    for cell, runs in by_cell.items():
        apart = [run for run in runs if not _along_a_side(run, cells)]
        if apart and (sum(run.turning() for run in runs) > TURNING or len(runs) > 2 or walls(runs, domain, size)):
            found.append(cell)
    return np.array(sorted(found), dtype=np.int64)


def _along_a_side(run: Run, cells: Cells) -> bool:
    """Whether a run lies on a side of its cell."""
    points, _ = run.at(ALONG)
    low, high = cells.lower[run.cell], cells.upper[run.cell]
    tiny = 1e-11 * (high - low).max() + 1e-13
    return bool((np.abs(points - low).max(axis=0) <= tiny).any() or (np.abs(points - high).max(axis=0) <= tiny).any())


class _Shaper:
    """Finds what lies inside of every cell."""

    def __init__(self, domain: Domain, cells: Cells):
        self.domain, self.cells = domain, cells
        self.size = max(np.subtract(domain.upper, domain.lower))
        self.runs: dict[int, list[Run]] = defaultdict(list)
        for run in runs_of(domain, cells):
            self.runs[run.cell].append(run)
        self.low, self.high = cells.lower.copy(), cells.upper.copy()  # frames of what lies inside

    def shaped(self) -> Shaped:
        cells = self.cells
        share, inner_low, inner_high = self._lattice()
        cut = np.zeros(cells.count, dtype=bool)
        for number, own in self.runs.items():
            cut[number] = any(not _along_a_side(run, cells) for run in own)
        inside = (share > 0.5) | cut
        parts = self._parts(inside, cut)
        for cell in np.flatnonzero(cut).tolist():
            known = [run.at(ALONG)[0] for run in self.runs[cell]]
            known += [np.stack([inner_low[cell], inner_high[cell]])] if share[cell] else []
            known += [_ends(p) for p in parts if cell in (p.first, p.second)]
            points = np.concatenate(known)
            self.low[cell] = np.maximum(points.min(axis=0), cells.lower[cell])
            self.high[cell] = np.minimum(points.max(axis=0), cells.upper[cell])
        patch, low, high = self._joined(inside, cut, parts, share)
        runs: list[list[Run]] = [[] for _ in range(len(low))]
        for cell, own in self.runs.items():
            runs[patch[cell]] += own
        whole = np.ones(len(low), dtype=bool)
        whole[patch[cut]] = False
        whole[np.flatnonzero(np.bincount(patch[inside], minlength=len(low)) > 1)] = False
        return Shaped(
            self.domain,
            cells,
            Cover(cells, patch, low, high),
            tuple(_as_segments(parts, patch)),
            tuple(tuple(continued(part)) for part in runs),
            whole,
        )

    def _lattice(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The share of every cell inside (n,), and the box around the points of the lattice inside, (n, 2) each."""
        points = _lattice(self.cells.lower, self.cells.upper)
        inside = _lattice_inside(self.domain, self.cells.lower, self.cells.upper)
        low = np.where(inside[:, :, None], points, np.inf).min(axis=1)
        high = np.where(inside[:, :, None], points, -np.inf).max(axis=1)
        return inside.mean(axis=1), low, high

    def _parts(self, inside: np.ndarray, cut: np.ndarray) -> list[Segment]:
        """What neighbouring cells share inside the domain; patches are cells here."""
        ends = [run.at(np.array([0.0, 1.0]))[0] for runs in self.runs.values() for run in runs]
        corners = np.concatenate(ends) if ends else np.zeros((0, 2))
        found = []
        for face in self.cells.faces():
            if face.second < 0 or not (inside[face.first] and inside[face.second]):
                continue
            along = 1 - face.axis
            low, high = float(face.lower[along]), float(face.upper[along])
            if not (cut[face.first] or cut[face.second]):
                found.append(Segment(face.first, face.second, face.axis, face.position, low, high))
                continue
            tiny = 1e-10 * self.size
            on = np.abs(corners[:, face.axis] - face.position) <= tiny
            between = corners[on, along]
            between = np.unique(between[(between > low + tiny) & (between < high - tiny)])
            between = between[np.diff(between, prepend=-np.inf) > tiny]
            stops = np.concatenate([[low], between, [high]])
            middles = np.empty((len(stops) - 1, 2))
            middles[:, face.axis], middles[:, along] = face.position, (stops[1:] + stops[:-1]) / 2
            step = np.zeros(2)
            step[face.axis] = 1e-9 * self.size  # on both sides: the boundary itself may run along the face
            for k in np.flatnonzero(self.domain._inside(middles - step) & self.domain._inside(middles + step)):
                a, b = float(stops[k]), float(stops[k + 1])
                found.append(Segment(face.first, face.second, face.axis, face.position, a, b))
        return found

    def _joined(
        self, inside: np.ndarray, cut: np.ndarray, parts: list[Segment], share: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The patch of every cell, and the frames of the patches; slivers go where they share most."""
        cells = self.cells
        extent = (self.high - self.low) / (cells.upper - cells.lower)
        cusp = share < CUSP * extent.prod(axis=1)
        sliver = inside & cut & ((extent.min(axis=1) < SLIVER) | cusp)
        goes_to = np.arange(cells.count)
        waiting = sliver
        while waiting.any():  # slivers beside slivers follow those that have joined
            most = np.zeros(cells.count)
            for part in parts:
                for cell, other in ((part.first, part.second), (part.second, part.first)):
                    if waiting[cell] and not waiting[other] and part.high - part.low > most[cell]:
                        goes_to[cell], most[cell] = goes_to[other], part.high - part.low
            if not most.any():
                break
            waiting = waiting & (most == 0)
        kept = np.flatnonzero(inside & (goes_to == np.arange(cells.count)))
        number = np.full(cells.count, OUTSIDE)
        number[kept] = np.arange(len(kept))
        patch = np.where(inside, number[goes_to], OUTSIDE)
        low, high = np.full((len(kept), 2), np.inf), np.full((len(kept), 2), -np.inf)
        own = np.flatnonzero(inside)
        np.minimum.at(low, patch[own], self.low[own])
        np.maximum.at(high, patch[own], self.high[own])
        return patch, low, high


def _ends(part: Segment) -> np.ndarray:
    points = np.empty((2, 2))
    points[:, part.axis], points[:, 1 - part.axis] = part.position, (part.low, part.high)
    return points


def _as_segments(parts: list[Segment], patch: np.ndarray) -> list[Segment]:
    """Parts between patches; those that continue each other between the same two are one."""
    between: dict[tuple[int, int, int, float], list[tuple[float, float]]] = defaultdict(list)
    for part in parts:
        first, second = int(patch[part.first]), int(patch[part.second])
        if first != second:
            between[first, second, part.axis, part.position].append((part.low, part.high))
    found = []
    for (first, second, axis, position), spans in between.items():
        runs: list[list[float]] = []
        for low, high in sorted(spans):
            if runs and runs[-1][1] == low:
                runs[-1][1] = high
            else:
                runs.append([low, high])
        found += [Segment(first, second, axis, position, low, high) for low, high in runs]
    return found
