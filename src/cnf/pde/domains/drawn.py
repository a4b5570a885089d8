"""Drawn curves: strokes (lines, Bezier curves, arcs) as closed curves by arc length, smoothed if asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from cnf.errors import DomainError
from cnf.pde.domains.boundary import Arrays, Curve, straightest
from cnf.pde.domains.loops import Loops
from cnf.pde.domains.panels import by_arc_length, straight
from cnf.reading.outlines.strokes import Stroke

BEND = np.cos(np.deg2rad(1.0))  # where a curved stroke takes part, what bends by more is a corner
DEGREE = 7  # of splines through points: jumps of the eighth derivative do not show
NUMBERED = 64  # curves with more pieces are drawn curves, whose pieces nobody calls by number


@dataclass(frozen=True, eq=False)
class Tracks:
    """Strokes as formulas: powers (K, 8) of the parameter, or cosine and sine of angles for those in `arcs`."""

    powers: np.ndarray  # complex; of an arc: centre and axes
    arcs: np.ndarray  # bool (K,)
    angles: np.ndarray  # (K, 2)

    @staticmethod
    def of(strokes: Sequence[Stroke]) -> Tracks:
        powers = np.zeros((len(strokes), DEGREE + 1), dtype=complex)
        angles = np.zeros((len(strokes), 2))
        for k, stroke in enumerate(strokes):
            p = np.array(stroke.points)
            if stroke.angles is not None:
                powers[k, :3], angles[k] = p, stroke.angles
            else:
                powers[k, : len(p)] = BEZIER[len(p)] @ p
        return Tracks(powers, np.array([s.angles is not None for s in strokes]), angles)

    @property
    def count(self) -> int:
        return len(self.powers)

    def at(self, number: np.ndarray, share: np.ndarray) -> Arrays:
        """Points (n, 2) and velocities (n, 2) at parameters from 0 to 1 of strokes by number."""
        c = self.powers[number]
        point = np.zeros(len(number), dtype=complex)
        velocity = np.zeros(len(number), dtype=complex)
        for k in range(DEGREE, 0, -1):
            velocity = velocity * share + k * c[:, k]
            point = (point + c[:, k]) * share
        point = point + c[:, 0]
        (round_ones,) = np.nonzero(self.arcs[number])
        if len(round_ones):
            c = c[round_ones]
            start, by = self.angles[number[round_ones]].T
            angle = start + by * share[round_ones]
            point[round_ones] = c[:, 0] + c[:, 1] * np.cos(angle) + c[:, 2] * np.sin(angle)
            velocity[round_ones] = by * (c[:, 2] * np.cos(angle) - c[:, 1] * np.sin(angle))
        return _pairs(point), _pairs(velocity)


BEZIER = {
    2: np.array([[1, 0], [-1, 1]]),
    3: np.array([[1, 0, 0], [-2, 2, 0], [1, -2, 1]]),
    4: np.array([[1, 0, 0, 0], [-3, 3, 0, 0], [3, -6, 3, 0], [-1, 3, -3, 1]]),
}


@dataclass(frozen=True)
class Label:
    """The names of a curve, those of its strokes (none: pieces between corners get numbers), what precedes numbers."""

    names: tuple[str, ...]
    edges: tuple[str, ...] = ()
    prefix: str = ""


@dataclass(frozen=True, eq=False)
class Drawn:
    """Formulas along a closed curve, which of them begin in a corner (K,), and whether all are straight."""

    tracks: Tracks
    corner: np.ndarray
    is_polygon: bool

    @staticmethod
    def of(strokes: Sequence[Stroke], smooth: float) -> Drawn:
        """`smooth`: lines that bend by less, in degrees, stand for a smooth curve through their ends."""
        tracks = Tracks.of(strokes)
        lines = np.array([s.is_line for s in strokes])
        bend = _bends(tracks)
        both = lines & np.roll(lines, 1)
        straight = np.cos(np.deg2rad(smooth)) if smooth else straightest(len(strokes))
        corner = np.where(both, bend < straight, bend < BEND)
        if (bend < -1 + 1e-12).any():
            where = tracks.at(np.flatnonzero(bend < -1 + 1e-12)[:1], np.zeros(1))[0][0]
            raise DomainError(f"a curve doubles back on itself at ({where[0]:g}, {where[1]:g})")
        if smooth:
            tracks = _smoothed(tracks, lines, both & ~corner)
        return Drawn(tracks, corner, bool(lines.all()) and not smooth)

    def curve(self, label: Label, size: float, backward: bool) -> Curve:
        """By arc length; `backward`: against the direction it was drawn in."""
        count = self.tracks.count
        corner = self.corner
        if backward:
            corner = np.roll(corner, -1)[::-1]

        def path(number: np.ndarray, share: np.ndarray) -> Arrays:
            if not backward:
                return self.tracks.at(number, share)
            points, velocity = self.tracks.at(count - 1 - number, 1 - share)
            return points, -velocity

        if self.is_polygon:
            places, _ = path(np.arange(count), np.zeros(count))
            panels = straight(np.concatenate([places, places[:1]]))
            begins = panels.knots
        else:
            panels, begins = by_arc_length(path, count, size)
        edges = label.edges or self._numbered(label.prefix)
        if edges:
            owner = np.searchsorted(begins, panels.knots[:-1], side="right") - 1
            edges = tuple(edges[count - 1 - k if backward else k] for k in owner)
        whole = float(panels.knots[-1])
        return Curve(label.names, panels.trace, panels.knots, begins[:-1][corner], 0.0, whole, edges=edges)

    def _numbered(self, prefix: str) -> tuple[str, ...]:
        """Names of strokes by the piece between corners that they belong to, in the order of drawing."""
        if not 1 < self.corner.sum() <= NUMBERED:
            return ()
        piece = np.cumsum(self.corner) - self.corner[0]
        if not self.corner[0]:  # the last piece goes on in the first
            piece = np.where(piece == piece[-1], 0, piece)
        return tuple(f"{prefix}edge {k + 1}" for k in piece)


def _bends(tracks: Tracks) -> np.ndarray:
    """The cosine of the angle by which every stroke turns away from the one before, (K,)."""
    every, near = np.arange(tracks.count), 1e-7
    ahead = tracks.at(every, np.full(tracks.count, near))[1]
    behind = tracks.at(every, np.full(tracks.count, 1 - near))[1]
    ahead /= np.linalg.norm(ahead, axis=1, keepdims=True)
    behind /= np.linalg.norm(behind, axis=1, keepdims=True)
    return (ahead * np.roll(behind, 1, axis=0)).sum(axis=1)


def _smoothed(tracks: Tracks, lines: np.ndarray, goes_on: np.ndarray) -> Tracks:
    """Runs of lines that go on smoothly, as splines through their ends; `goes_on` (K,) from the line before."""
    from scipy.interpolate import PPoly, make_interp_spline

    count = tracks.count
    points = tracks.powers[:, 0].copy()
    powers = tracks.powers.copy()
    runs = [np.arange(count)]
    if not goes_on.all():
        order = (int(np.flatnonzero(~goes_on)[0]) + np.arange(count)) % count
        runs = np.split(order, np.flatnonzero(~goes_on[order])[1:])
    for run in runs:
        if len(run) < 2 or not lines[run].all():
            continue
        places = np.append(points[run], points[(run[-1] + 1) % count])
        along = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(places)))])
        closed = len(run) == count and bool(goes_on.all())
        degree = DEGREE if len(places) > DEGREE else 3 if len(places) > 3 else len(places) - 1
        bc = "periodic" if closed else None
        for part in (1, 1j):
            values = (places / part).real
            pieces = PPoly.from_spline(make_interp_spline(along, values, k=degree, bc_type=bc))
            for k, stroke in enumerate(run):
                own = int(np.searchsorted(pieces.x[1:-1], (along[k] + along[k + 1]) / 2))
                shifted = _recentred(pieces.c[::-1, own], along[k] - pieces.x[own], along[k + 1] - along[k])
                powers[stroke] = np.where(part == 1, 0, powers[stroke]) + part * np.pad(shifted, (0, DEGREE - degree))
    return Tracks(powers, tracks.arcs, tracks.angles)


def _recentred(coefficients: np.ndarray, start: float, width: float) -> np.ndarray:
    """Powers of x as powers of t, where x = start + width t."""
    from numpy.polynomial import polynomial

    found = np.zeros(1)
    for c in coefficients[::-1]:
        found = polynomial.polyadd(polynomial.polymul(found, [start, width]), [c])
    return np.pad(found, (0, max(0, len(coefficients) - len(found))))[: len(coefficients)]


def _pairs(points: np.ndarray) -> np.ndarray:
    return np.stack([points.real, points.imag], axis=1)


def refuse_crossings(loops: Loops) -> None:
    """Raise where curves cross or touch themselves or each other."""
    owner, before, _, first, last, length = loops._elements
    a, b = cKDTree((first + last) / 2).query_pairs(1.001 * length, output_type="ndarray").T
    apart = (before[a] != b) & (before[b] != a)
    a, b = a[apart], b[apart]

    def side(k: np.ndarray, points: np.ndarray) -> np.ndarray:
        along, offset = last[k] - first[k], points - first[k]
        value = along[:, 0] * offset[:, 1] - along[:, 1] * offset[:, 0]
        return np.where(np.abs(value) <= 1e-13 * length * np.linalg.norm(along, axis=1), 0.0, np.sign(value))

    crosses = (side(a, first[b]) * side(a, last[b]) <= 0) & (side(b, first[a]) * side(b, last[a]) <= 0)
    low = np.maximum(np.minimum(first[a], last[a]), np.minimum(first[b], last[b]))
    high = np.minimum(np.maximum(first[a], last[a]), np.maximum(first[b], last[b]))
    crosses &= (low <= high + 1e-13 * length).all(axis=1)
    if crosses.any():
        k = int(np.flatnonzero(crosses)[0])
        where = (first[a[k]] + last[a[k]]) / 2
        same = "itself" if owner[a[k]] == owner[b[k]] else "another curve"
        raise DomainError(
            f"a curve of the outline crosses or touches {same} near ({where[0]:.4g}, {where[1]:.4g}); mend it, or "
            "build the shape from several outlines by type = 'union' or 'difference'"
        )
