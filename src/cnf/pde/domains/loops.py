"""Loops: a region of the plane by the closed curves around it: how far points are from them, and on which side.

In come curves by arc length whose normals look outward; out goes what `Domain` asks of a shape. Distances are those to
the curves themselves near them, and to short chords further away.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial import cKDTree

from cnf.pde.domains.boundary import Curve
from cnf.pde.domains.box import Interval
from cnf.pde.domains.domain import Domain

ELEMENTS = 4096  # chords of all curves together, at least
AROUND = 6  # places where chords meet that are looked at for every point
NEAR = 4.0  # chords: nearer points are measured to the curve itself
CHUNK = 2**15


@dataclass(frozen=True, eq=False)
class Loops:
    """Closed curves that do not meet, with outward normals."""

    curves: tuple[Curve, ...]

    @cached_property
    def pieces(self) -> list[Curve]:
        """Cut at corners, and where names change."""
        return [piece for curve in self.curves for piece in curve.split()]

    @property
    def outline(self) -> list[Curve]:
        """The curves as a whole."""
        return list(self.curves)

    @cached_property
    def content(self) -> float:
        """The area inside."""
        return sum(curve.flux() for curve in self.curves) / 2

    @cached_property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Corners of the box around all curves, (2,) each."""
        points = np.concatenate([run.ends(axis) for axis in (0, 1) for run in self._runs[axis]])
        return points.min(axis=0), points.max(axis=0)

    @cached_property
    def _elements(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
        """Chords: their curve (n,), the chord before (n,), arc lengths (n, 2), ends (n, 2) each, the largest length."""
        longest = sum(curve.measure for curve in self.curves) / ELEMENTS
        owner, arcs = [], []
        for number, curve in enumerate(self.curves):
            counts = np.maximum(1, np.ceil(np.diff(curve.knots) / longest)).astype(int)
            within = np.concatenate([np.arange(n) / n for n in counts])
            start = np.repeat(curve.knots[:-1], counts) + within * np.repeat(np.diff(curve.knots), counts)
            arcs.append(np.stack([start, np.append(start[1:], curve.knots[-1])], axis=1))
            owner.append(np.full(len(start), number))
        numbers = np.split(np.arange(sum(map(len, owner))), np.cumsum([len(own) for own in owner])[:-1])
        before = np.concatenate([np.roll(own, 1) for own in numbers])
        first = np.concatenate([c.at(a[:, 0])[0] for c, a in zip(self.curves, arcs, strict=True)])
        last = np.empty_like(first)
        last[before] = first
        return np.concatenate(owner), before, np.concatenate(arcs), first, last, longest

    @cached_property
    def _tree(self) -> cKDTree:
        """Of the places where chords begin, corners among them."""
        return cKDTree(self._elements[3])

    def distance(self, points: np.ndarray) -> np.ndarray:
        """From points (P, 2) to the nearest of the curves, (P,)."""
        if len(points) > CHUNK:
            return np.concatenate([self.distance(points[k : k + CHUNK]) for k in range(0, len(points), CHUNK)])
        owner, before, arcs, first, last, length = self._elements
        _, near = self._tree.query(points, k=min(AROUND, len(owner)))
        near = np.concatenate([near, before[near]], axis=1)
        start, along = first[near], last[near] - first[near]  # (P, k, 2)
        offset = points[:, None] - start
        share = np.clip((offset * along).sum(axis=2) / np.maximum((along**2).sum(axis=2), 1e-300), 0, 1)
        apart = np.linalg.norm(offset - share[:, :, None] * along, axis=2)
        best = apart.argmin(axis=1)
        rows = np.arange(len(points))
        found = apart[rows, best]
        element, share = near[rows, best], share[rows, best]
        close = found < NEAR * length
        for number, curve in enumerate(self.curves):
            own = np.flatnonzero(close & (owner[element] == number))
            if not len(own):
                continue
            low, high = arcs[element[own]].T
            arc = low + share[own] * (high - low)
            least = np.full(len(own), np.inf)
            for _ in range(5):
                on, normals = curve.at(arc)
                away = points[own] - on
                least = np.minimum(least, np.linalg.norm(away, axis=1))
                tangent = curve.side * np.stack([-normals[:, 1], normals[:, 0]], axis=1)
                arc = np.clip(arc + (away * tangent).sum(axis=1), low - length, high + length)
            found[own] = least
        return found

    @cached_property
    def _runs(self) -> tuple[list[_Run], list[_Run]]:
        """Parts of the curves along which the first, or the second, coordinate goes one way."""
        return ([r for c in self.curves for r in _monotone(c, 0)], [r for c in self.curves for r in _monotone(c, 1)])

    def inside(self, points: np.ndarray) -> np.ndarray:
        """Whether a ray to the right crosses the curves an odd number of times, (P,) bool."""
        order = np.argsort(points[:, 1], kind="stable")
        x, y = points[order].T
        odd = np.zeros(len(points), dtype=bool)
        runs = self._runs[1]
        low = np.searchsorted(y, [run.low for run in runs])
        high = np.searchsorted(y, [run.high for run in runs])
        for run, a, b in zip(runs, low, high, strict=True):
            if a < b:  # only the points at the height of the run
                odd[a:b] ^= run.beyond(x[a:b], y[a:b])
        found = np.empty_like(odd)
        found[order] = odd
        return found

    def section(self, axis: int, value: float) -> Domain | None:
        """What lies inside on a line across a coordinate."""
        from cnf.pde.domains.combinations import unite

        low, high = self.bounds
        tiny = 1e-12 * float((high - low).max())
        cuts = [
            place
            for run in self._runs[axis]
            if run.low - tiny <= value <= run.high + tiny
            for place in ([run.where(np.array([value]))[0]] if run.high - run.low > tiny else list(run.across))
        ]
        between = np.unique(cuts)
        between = between[np.diff(between, prepend=-np.inf) > tiny]
        if len(between) < 2:
            return None
        middle = np.insert(((between[:-1] + between[1:]) / 2)[:, None], axis, value, axis=1)
        kept = self.inside(middle) | (self.distance(middle) <= tiny)
        spans: list[list[float]] = []
        for a, b in zip(between[:-1][kept], between[1:][kept], strict=True):
            if spans and spans[-1][1] == a:
                spans[-1][1] = b
            else:
                spans.append([a, b])
        return unite([Interval(float(a), float(b)) for a, b in spans])


@dataclass(frozen=True, eq=False)
class _Run:
    """A part of a curve between arc lengths along which coordinate `axis` goes from `low` to `high` or back."""

    curve: Curve
    axis: int
    start: float
    end: float
    low: float
    high: float
    rising: bool
    across: tuple[float, float]  # the range of the other coordinate, with a little room
    is_straight: bool

    def ends(self, axis: int) -> np.ndarray:
        return self.curve.at(np.array([self.start, self.end]))[0]

    def where(self, values: np.ndarray) -> np.ndarray:
        """The other coordinate where this one has these values."""
        if self.is_straight:
            first, last = self.ends(self.axis)
            share = (values - first[self.axis]) / (last[self.axis] - first[self.axis])
            return first[1 - self.axis] + share * (last[1 - self.axis] - first[1 - self.axis])
        low, high = np.full(len(values), self.start), np.full(len(values), self.end)
        arc = (low + high) / 2
        for k in range(60):
            points, normals = self.curve.at(arc)
            off = points[:, self.axis] - values
            above = (off > 0) == self.rising
            low, high = np.where(above, low, arc), np.where(above, arc, high)
            slope = self.curve.side * (normals[:, 0] if self.axis == 1 else -normals[:, 1])
            with np.errstate(divide="ignore", invalid="ignore"):
                guess = arc - off / slope
            fits = (guess > low) & (guess < high) & (k % 4 < 3)  # by halves now and then: that always ends
            following = np.where(fits, guess, (low + high) / 2)
            if np.abs(following - arc).max(initial=0.0) <= 1e-15 * self.curve.knots[-1]:
                break
            arc = following
        return points[:, 1 - self.axis]

    def beyond(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Whether the run lies to the right of points at its height."""
        found = x < self.across[0]
        (unclear,) = np.nonzero(~found & (x <= self.across[1]))
        if len(unclear):
            found[unclear] = x[unclear] < self.where(y[unclear])
        return found


def _monotone(curve: Curve, axis: int) -> list[_Run]:
    """A closed curve cut where a coordinate turns back, and at its knots."""
    per = 8
    knots = curve.knots
    sides = np.diff(knots)[:, None] * (np.arange(per) + 0.5) / per + knots[:-1, None]  # (K, per)
    _, normals = curve.at(sides.ravel())
    turning = (curve.side * (normals[:, 0] if axis == 1 else -normals[:, 1])).reshape(
        -1, per
    )  # slope of the coordinate
    panel, place = np.nonzero((turning[:, 1:] > 0) != (turning[:, :-1] > 0))
    low, high = sides[panel, place], sides[panel, place + 1]
    sign = turning[panel, place] > 0
    for _ in range(55):
        middle = (low + high) / 2
        _, n = curve.at(middle)
        same = (curve.side * (n[:, 0] if axis == 1 else -n[:, 1]) > 0) == sign
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    cuts = np.union1d(knots, high)
    points, _ = curve.at(cuts[:-1])  # so that neighbours agree on where they meet
    heights = np.append(points[:, axis], points[0, axis])
    others = np.append(points[:, 1 - axis], points[0, 1 - axis])
    inner = cuts[:-1, None] + np.diff(cuts)[:, None] * np.linspace(0, 1, per + 2)[1:-1]
    sampled, _ = curve.at(inner.ravel())
    sampled = sampled[:, 1 - axis].reshape(-1, per)
    chord = others[:-1, None] + np.diff(others)[:, None] * np.linspace(0, 1, per + 2)[1:-1]
    bulge = np.abs(sampled - chord).max(axis=1)
    size = max(1e-300, float(np.ptp(others)))
    found = []
    for k in range(len(cuts) - 1):
        a, b = float(heights[k]), float(heights[k + 1])
        flat = bulge[k] <= 1e-15 * size and len(knots) > 2
        room = bulge[k] + 1e-15 * size
        around = (min(others[k], others[k + 1]) - room, max(others[k], others[k + 1]) + room)
        found.append(_Run(curve, axis, cuts[k], cuts[k + 1], min(a, b), max(a, b), b > a, around, bool(flat)))
    return found
