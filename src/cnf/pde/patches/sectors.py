"""Sectors: where curves of the boundary and of interfaces meet, as angles between rays, each in one region."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cnf.pde.domains import Domain
from cnf.pde.domains.boundary import Curve
from cnf.pde.domains.regions import Regions
from cnf.pde.patches.outline import MEETING, curves_of

NEAR = 1e-7  # of a curve, and of the domain: where rays are looked at, and what lies between them
THINNEST = 1e-3  # radians between two rays
STRAIGHT = 1e-3  # sine of the angle between curves that go straight on


@dataclass(frozen=True)
class Ray:
    """A curve that leaves a corner at `angle`: from its arc length `arc` on, by steps of `step`, which has a sign.

    `interface` is the number of the interface that it belongs to, -1 for the outer boundary.
    """

    curve: Curve
    arc: float
    step: float
    interface: int = -1
    angle: float = 0.0

    def arcs(self) -> np.ndarray:
        """Of two points very near the corner, (2,)."""
        return self.arc + self.step * np.array([1.0, 2.0])

    def line(self) -> tuple[np.ndarray, np.ndarray]:
        """The place (2,) where the ray begins and its direction along the arc length (2,), from these two points.

        At its own end a curve of straight edges goes on with the next one.
        """
        near, far = self.curve.at(self.arcs())[0]
        slope = (far - near) / self.step
        return near - self.step * slope, slope

    def moved(self, arc: float) -> Ray:
        return replace(self, arc=float(arc))

    def from_centre(self, centre: np.ndarray) -> Ray:
        """The same from where the curve is nearest to the corner: curves of combined shapes stop a little before."""
        found = self
        for _ in range(4):
            place, slope = found.line()
            found = found.moved(found.arc + (centre - place) @ slope)
        if abs(found.arc - self.arc) > 10 * MEETING * self.curve.measure:
            found = self
        points, normals = self.curve.at(found.arcs())
        along = np.array([1.0, -1.0]) * (2 * normals[0] - normals[1])[::-1]  # as the curve leaves the corner itself
        along = along * np.sign((points[0] - centre) @ along)
        return replace(found, angle=math.atan2(along[1], along[0]))


@dataclass(frozen=True)
class Sector:
    """What lies between two angles, counterclockwise: a part of the region with the number `area`."""

    start: float
    end: float
    area: int


@dataclass(frozen=True)
class Corner:
    """Sectors around `centre` from ray to ray, counterclockwise.

    The first and the last of the rays belong to the boundary; inside the domain, where sectors go all around, the last
    one is the first one again.
    """

    centre: np.ndarray
    sectors: tuple[Sector, ...]
    rays: tuple[Ray, ...]

    @property
    def start(self) -> float:
        return self.sectors[0].start

    @property
    def end(self) -> float:
        return self.sectors[-1].end

    @property
    def around(self) -> bool:
        return self.rays[0].interface >= 0


def corners_of(domain: Domain, regions: Regions | None = None) -> list[Corner]:
    """All places where pieces of the boundary, or of interfaces between regions, meet."""
    size = max(b - a for a, b in zip(domain.lower, domain.upper, strict=True))
    rays = _ends([c for c in curves_of(domain) if not c.closed], -1)
    for number, face in enumerate(regions.interfaces if regions is not None else ()):
        rays += _ends([c for c in face.pieces if isinstance(c, Curve) and not c.closed], number)
    for curve in curves_of(domain):
        for arc in regions.breaks(curve) if regions is not None else ():  # where interfaces end on it
            if curve.closed or min(arc - curve.start, curve.end - arc) > MEETING * size:
                rays += [Ray(curve, float(arc), sign * NEAR * curve.measure) for sign in (1, -1)]
    places = np.array([ray.line()[0] for ray in rays]).reshape(-1, 2)
    found: list[Corner] = []
    left = list(range(len(rays)))
    while left:
        near = [k for k in left if np.abs(places[k] - places[left[0]]).max() <= MEETING * size]
        left = [k for k in left if k not in near]
        found += _at(domain, regions, [rays[k] for k in near], size)
    return found


def _ends(curves: Sequence[Curve], interface: int) -> list[Ray]:
    """The rays that leave both ends of curves."""
    starts = [Ray(c, c.start, NEAR * c.measure, interface) for c in curves]
    return starts + [Ray(c, c.end, -NEAR * c.measure, interface) for c in curves]


def _at(domain: Domain, regions: Regions | None, rays: list[Ray], size: float) -> list[Corner]:
    """The corners at a place that these rays leave: one, or several where the domain touches itself."""
    centre = _crossing(rays, size)
    turned = sorted((ray.from_centre(centre) for ray in rays), key=lambda ray: ray.angle)
    turned = [b for a, b in itertools.pairwise([turned[-1], *turned]) if len(turned) == 1 or _opening(a, b) > THINNEST]
    sectors: list[Sector | None] = []  # from every ray to the next one; None outside
    for a, b in itertools.pairwise([*turned, turned[0]]):
        middle = a.angle + _opening(a, b) / 2
        probe = centre + NEAR * size * np.array([[math.cos(middle), math.sin(middle)]])
        area = 0 if regions is None else int(regions.number(probe)[0])
        sectors.append(Sector(a.angle, a.angle + _opening(a, b), area) if domain._inside(probe)[0] else None)
    count = len(turned)
    walls = [k for k, ray in enumerate(turned) if ray.interface < 0]
    if not walls:
        return [_corner(centre, sectors, turned, 0, count)] if None not in sectors else []
    spans = [(a, (b - a - 1) % count + 1) for a, b in itertools.pairwise([*walls, walls[0]])]
    return [
        _corner(centre, sectors, turned, first, length)
        for first, length in spans
        if all(sectors[(first + k) % count] is not None for k in range(length))
    ]


def _corner(
    centre: np.ndarray, sectors: Sequence[Sector | None], rays: Sequence[Ray], first: int, length: int
) -> Corner:
    """The sectors after ray `first`, with angles that go on from one to the next."""
    found: list[Sector] = []
    for k in range(length):
        sector = sectors[(first + k) % len(rays)]
        assert sector is not None
        start = found[-1].end if found else sector.start
        found.append(Sector(start, start + sector.end - sector.start, sector.area))
    return Corner(centre, tuple(found), tuple(rays[(first + k) % len(rays)] for k in range(length + 1)))


def _opening(first: Ray, second: Ray) -> float:
    """The angle between rays, counterclockwise; all around if they are the same."""
    angle = (second.angle - first.angle) % (2 * math.pi)
    return angle if angle > 0 else 2 * math.pi


def _crossing(rays: Sequence[Ray], size: float) -> np.ndarray:
    """Where the curves meet that differ most in direction; where one ends, if all go straight on."""
    pairs = list(itertools.combinations(range(len(rays)), 2))
    slopes = [ray.line()[1] for ray in rays]
    sines = [abs(float(np.linalg.det(np.stack([slopes[i], slopes[j]])))) for i, j in pairs]
    given = rays[0].line()[0]
    if not pairs or max(sines) < STRAIGHT:
        return given
    crossing = [rays[k] for k in pairs[int(np.argmax(sines))]]
    for _ in range(4):
        (a, slope), (b, other) = (ray.line() for ray in crossing)
        by = np.linalg.solve(np.stack([slope, -other], axis=1), b - a)
        crossing = [ray.moved(ray.arc + d) for ray, d in zip(crossing, by, strict=True)]
    centre = crossing[0].line()[0]
    return centre if np.abs(centre - given).max() <= 10 * MEETING * size else given
