"""Shaped: a planar domain that is no box, as patches: cells inside it, cells cut by its boundary, slivers joined.

Regions of a domain are cut each by itself on the same cells: a cell across an interface has a patch of either.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cnf.bases.cells import Cells
from cnf.bases.cover import OUTSIDE, Cover
from cnf.pde.domains import Domain, Timed
from cnf.pde.domains.boundary import Curve
from cnf.pde.domains.regions import Regions
from cnf.pde.patches.meeting import TRACED, lattice
from cnf.pde.patches.outline import ALONG, Area, Run, areas_of, continued, curves_of, walls
from cnf.pde.patches.slivers import join_slivers

TURNING = 1.2, 0.8  # radians that the boundary may turn in a cell, and an interface: it bounds patches on both sides
SLIVER = 0.25, 0.4  # of a cell: patches thinner than this join a neighbour, without and with interfaces
COARSEST, DEEPEST = 2, 12  # halvings of the box around the domain
AT_CORNER = 1e-11  # of the domain: the distance at which patches touch a corner
IN_SECTOR = 1e-7  # of the domain: the distance at which the region between two rays is looked up
TOUCHING = 0.06  # of a cell: cuts this near to where a curve turns back are moved
APART = 0.02, 1e-5  # of the domain: cuts along straight sides, and along thin layers
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

    def shifted(self, by: int) -> Segment:
        """Between patches with numbers that are higher."""
        return replace(self, first=self.first + by, second=self.second + by)


@dataclass(frozen=True)
class Shaped:
    """`runs[k]` is the boundary of patch k, interfaces included, `whole` (patches,) says which are plain boxes."""

    domain: Domain
    cells: Cells
    cover: Cover
    segments: tuple[Segment, ...]
    runs: tuple[tuple[Run, ...], ...]
    whole: np.ndarray
    regions: Regions | None = None

    @staticmethod
    def of(domain: Domain, cells: Cells, regions: Regions | None = None) -> Shaped:
        size = max(np.subtract(domain.upper, domain.lower))
        sliver = SLIVER[regions is not None]
        parts = [_Shaper(area, cells, size, sliver).shaped() for area in areas_of(domain, cells, regions)]
        starts = np.cumsum([0, *(len(part.lower) for part in parts)])
        columns = [np.where(p.patch == OUTSIDE, OUTSIDE, p.patch + n) for p, n in zip(parts, starts, strict=False)]
        if regions is not None and len(columns) < regions.partition.count:  # nothing is left for the rest
            columns.append(np.full(cells.count, OUTSIDE))
        whole = np.concatenate([p.whole for p in parts])
        lower, upper = (np.concatenate([getattr(part, name) for part in parts]) for name in ("lower", "upper"))
        cover = Cover(cells, np.stack(columns, axis=1), lower, upper, None if regions is None else regions.partition)
        segments = [s.shifted(n) for p, n in zip(parts, starts, strict=False) for s in p.segments]
        runs = [own for part in parts for own in part.runs]
        return Shaped(domain, cells, cover, tuple(segments), tuple(runs), whole, regions)

    def patches_at(self, centre: tuple[float, float], start: float, end: float) -> np.ndarray:
        """Patches that meet at a point, between two angles, of the region that lies there."""
        size = max(np.subtract(self.domain.upper, self.domain.lower))
        angles = start + (end - start) * (np.arange(64) + 0.5) / 64
        around = size * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        area = None  # looked up farther away: regions may differ by rounding beside their interface
        if self.regions is not None:
            area = int(self.regions.number(np.array(centre) + IN_SECTOR * around[31:32])[0])
        return np.unique(self.cover.locate(np.array(centre) + AT_CORNER * around, area))

    def inside(self, points: np.ndarray) -> np.ndarray:
        return self.domain._inside(points)


def first_cells(domain: Domain, corners: Sequence[tuple[float, float]] = (), regions: Regions | None = None) -> Cells:
    """Cells over a domain: cut along straight sides, then until boundary and interfaces are simple in each.

    No cell is left with two of the `corners` that have functions of their own.
    """
    if isinstance(domain, Timed) and not (domain._is_box and regions is None):
        return first_cells(domain.space, (), regions).extended(domain.start, domain.end)
    cells = Cells(domain.lower, domain.upper)
    if not domain._is_box or regions is not None:
        cells = _cut_to_shape(domain, cells, regions)
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


def cuts_patches(domain: Domain) -> bool:
    """Whether the boundary of a planar domain runs through patches; if not, it does not through smaller ones either."""
    return not Shaped.of(domain, first_cells(domain)).whole.all()


def swings_on_cut_patches(domain: Domain, swings: bool) -> bool:
    """Whether something `swings` where the boundary of a planar domain runs through patches, during time."""
    return swings and isinstance(domain, Timed) and not domain._is_box and cuts_patches(domain.space)


def _cut_to_shape(domain: Domain, cells: Cells, regions: Regions | None) -> Cells:
    curves = _all_curves(domain, regions)
    turns = [_turning_points(curves, axis) for axis in (0, 1)]
    for axis in (0, 1):
        for position in _flat_sides(domain, curves, axis, APART[regions is not None]):
            chosen = np.flatnonzero((cells.lower[:, axis] < position) & (position < cells.upper[:, axis]))
            cells = cells.cut(chosen, axis, [position] * len(chosen))
    side = np.subtract(domain.upper, domain.lower)
    for _ in range(COARSEST):
        for axis in (0, 1):
            wide = np.flatnonzero(cells.upper[:, axis] - cells.lower[:, axis] > 0.6 * side.max())
            cells = cells.cut(wide, axis, away_from(turns[axis], cells, wide, axis))
    for _ in range(DEEPEST):
        crowded = _not_simple(domain, cells, regions)
        if not len(crowded):
            break
        for axis in (0, 1):
            count = cells.count
            cells = cells.cut(crowded, axis, away_from(turns[axis], cells, crowded, axis))
            crowded = np.concatenate([crowded, np.arange(count, cells.count)])
    return cells


def _all_curves(domain: Domain, regions: Regions | None) -> list[Curve]:
    """Of the boundary and of the interfaces."""
    inner = [piece for face in regions.interfaces for piece in face.pieces] if regions is not None else []
    return [*curves_of(domain), *(piece for piece in inner if isinstance(piece, Curve))]


def _turning_points(curves: Sequence[Curve], axis: int) -> np.ndarray:
    """Where curves turn back along a coordinate: a cut there would touch them and leave wedges on either side."""
    found = []
    for curve in curves:
        places = curve.at(np.linspace(curve.start, curve.end, TRACED))[0][:, axis]
        around = np.concatenate([places[-2:-1], places, places[1:2]]) if curve.closed else places
        step = np.sign(np.diff(around))
        found.append(around[1:-1][step[1:] * step[:-1] < 0])
    return np.unique(np.concatenate([np.zeros(0), *found]))


def away_from(turns: np.ndarray, cells: Cells, chosen: np.ndarray, axis: int) -> list[float]:
    """Where to cut cells: in the middle, or beside it if curves turn near there; the same for the same interval."""
    low, high = cells.lower[chosen, axis], cells.upper[chosen, axis]
    shares = 0.5 + np.array([0.0, 0.12, -0.12, 0.06, -0.06])
    at = low[:, None] + (high - low)[:, None] * shares  # (n, 5)
    if not len(turns):
        return at[:, 0].tolist()
    apart = np.abs(at[:, :, None] - turns).min(axis=2) / (high - low)[:, None]
    best = np.where(apart[:, 0] >= TOUCHING, 0, apart.argmax(axis=1))
    return at[np.arange(len(at)), best].tolist()


def _flat_sides(domain: Domain, curves: Sequence[Curve], axis: int, apart: float) -> list[float]:
    """Positions of straight sides across a coordinate, inside the box around the domain and not too near each other."""
    found = set()
    for curve in curves:
        points, _ = curve.at(np.linspace(curve.start, curve.end, 9))
        if np.ptp(points[:, axis]) <= 1e-12 * (domain.upper[axis] - domain.lower[axis]):
            found.add(float(points[4, axis]))
    low, high = domain.lower[axis], domain.upper[axis]
    margin = apart * (high - low)
    kept: list[float] = []
    for position in sorted(found):
        if low + margin < position < high - margin and (not kept or position - kept[-1] > margin):
            kept.append(position)
    return kept if len(kept) <= FLAT_CUTS else []


def _not_simple(domain: Domain, cells: Cells, regions: Regions | None) -> np.ndarray:
    """Cells in which the boundary of what lies inside comes in several pieces or turns too much."""
    size = max(np.subtract(domain.upper, domain.lower))
    found = set()
    for area in areas_of(domain, cells, regions):
        by_cell: dict[int, list[Run]] = defaultdict(list)
        for run in area.runs:
            by_cell[run.cell].append(run)
        for cell, runs in by_cell.items():
            apart = [run for run in runs if not _along_a_side(run, cells)]
            turning = sum(run.turning() for run in runs)
            if apart and (turning > TURNING[regions is not None] or len(runs) > 2 or walls(runs, area.inside, size)):
                found.add(cell)
    return np.array(sorted(found), dtype=np.int64)


def _along_a_side(run: Run, cells: Cells) -> bool:
    """Whether a run lies on a side of its cell."""
    points, _ = run.at(ALONG)
    low, high = cells.lower[run.cell], cells.upper[run.cell]
    tiny = 1e-11 * (high - low).max() + 1e-13
    return bool((np.abs(points - low).max(axis=0) <= tiny).any() or (np.abs(points - high).max(axis=0) <= tiny).any())


@dataclass(frozen=True)
class _Part:
    """The patches of one area: `patch` (cells,), their frames, and the rest as `Shaped` has it."""

    patch: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    segments: list[Segment]
    runs: list[tuple[Run, ...]]
    whole: np.ndarray


class _Shaper:
    """Finds what lies inside of every cell."""

    def __init__(self, area: Area, cells: Cells, size: float, sliver: float):
        self.area, self.cells, self.size, self.sliver = area, cells, size, sliver
        self.runs: dict[int, list[Run]] = defaultdict(list)
        for run in area.runs:
            self.runs[run.cell].append(run)
        self.low, self.high = cells.lower.copy(), cells.upper.copy()  # frames of what lies inside

    def shaped(self) -> _Part:
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
        patch, low, high = self._joined(inside, cut, parts)
        runs: list[list[Run]] = [[] for _ in range(len(low))]
        for cell, own in self.runs.items():
            runs[patch[cell]] += own
        whole = np.ones(len(low), dtype=bool)
        whole[patch[cut]] = False
        whole[np.flatnonzero(np.bincount(patch[inside], minlength=len(low)) > 1)] = False
        return _Part(patch, low, high, _as_segments(parts, patch), [tuple(continued(own)) for own in runs], whole)

    def _lattice(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The share of every cell inside (n,), and the box around the points of the lattice inside, (n, 2) each."""
        points = lattice(self.cells.lower, self.cells.upper)
        inside = self.area.inside(points.reshape(-1, 2)).reshape(points.shape[:2])
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
            for k in np.flatnonzero(self.area.inside(middles - step) & self.area.inside(middles + step)):
                a, b = float(stops[k]), float(stops[k + 1])
                found.append(Segment(face.first, face.second, face.axis, face.position, a, b))
        return found

    def _joined(
        self, inside: np.ndarray, cut: np.ndarray, parts: list[Segment]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The patch of every cell, and the frames of the patches."""
        extent = (self.high - self.low) / (self.cells.upper - self.cells.lower)
        sliver = inside & cut & (extent.min(axis=1) < self.sliver)
        shared = [(p.first, p.second, p.high - p.low) for p in parts]
        return join_slivers(inside, sliver, shared, self.low, self.high)


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
