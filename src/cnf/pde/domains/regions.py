"""Regions: named shapes inside a domain, each with coefficients or equations of its own, and the rest of it.

Where two regions meet there is an interface. Its normal points out of the region that is named first; the rest comes
last. What a field has more on the side the normal points to is its jump.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch

from cnf.bases import Partition
from cnf.errors import DomainError
from cnf.pde.domains.ball import Ball
from cnf.pde.domains.boundary import Arrays, Curve, Piece, spread, trim_all
from cnf.pde.domains.box import Box
from cnf.pde.domains.combinations import Difference, Intersection, Union, _meet, _unless_empty
from cnf.pde.domains.domain import Domain, Sample
from cnf.pde.domains.outline import Outline
from cnf.pde.domains.part_names import EXCEPT, INTERFACE, PARTS, REST
from cnf.pde.domains.polygon import Polygon, _signed_area
from cnf.pde.domains.timed import Timed

MOST = 100
TRACED = 513  # points of a curve at which the end of an interface is looked for, at first
ZOOMS = 6
CONTACT = 1e-3  # of the domain: what shapes share that touch; and of a right angle: curves that meet so flat touch
ADVICE = "only; move it a little apart, or let it end there at an angle"
FLAT = 1e-9  # of the coordinates: faces of regions this flat lie across one of them
LOOKED_AT = 64  # points of a piece of an interface
GOLDEN = (5**0.5 - 1) / 2  # multiples of it spread evenly over the unit interval
NEAR = 1e-6  # of the domain: ends of interfaces this near to the boundary lie on it


@dataclass(frozen=True, eq=False)
class Interface:
    """Where the regions with these numbers meet; normals point from `first` to `second`."""

    first: int
    second: int
    pieces: tuple[Piece, ...]
    during: tuple[float, float] | None = None  # start and end of time

    def sample(self, count: int, seed: int) -> Arrays:
        """About `count` points (P, D) spread evenly, and the normals, of space only."""
        points, normals = spread(self.pieces, count, seed)
        return (points, normals) if self.during is None else at_times(points, normals, count, self.during, seed)

    @cached_property
    def flat_at(self) -> tuple[tuple[int, float], ...] | None:
        """The coordinates it lies across and where, (axis, position) each; None if it is not made of such faces."""
        found: set[tuple[int, float]] = set()
        for piece in self.pieces:
            points, normals = spread([piece], LOOKED_AT, 0)
            axis = int(np.abs(normals[0]).argmax())
            here = points[:, axis]
            if np.abs(normals).min(axis=0)[axis] < 1 - FLAT or np.ptp(here) > FLAT * max(
                1.0, float(np.abs(here).max())
            ):
                return None
            found.add((axis, float(np.median(here))))
        return tuple(sorted(found))


def at_times(points: np.ndarray, normals: np.ndarray, count: int, during: tuple[float, float], seed: int) -> Arrays:
    """At least `count` points of space (P, d) and their normals, each at a moment of its own."""
    number = np.arange(max(count, len(points)))
    share = np.mod(np.random.default_rng(seed).random() + number * GOLDEN, 1.0)
    own = number % len(points)
    return np.column_stack([points[own], during[0] + share * (during[1] - during[0])]), normals[own]


class Regions:
    """Shapes inside a domain by name; what they leave of it is called "rest". In time, shapes of space: they stay."""

    def __init__(self, domain: Domain, shapes: Mapping[str, Domain]):
        if not shapes or len(shapes) > MOST:
            raise DomainError(f"expected from 1 to {MOST} regions, got {len(shapes)}")
        self.domain, self.shapes = domain, dict(shapes)
        self.space = space = domain.space if isinstance(domain, Timed) else domain
        self.during = (domain.start, domain.end) if isinstance(domain, Timed) else None
        for name, shape in self.shapes.items():
            _check(name, shape, domain)
        self.partition = Partition([_as_data(shape, name) for name, shape in self.shapes.items()], space.dimension)
        listed = list(self.shapes.items())
        for k, (name, shape) in enumerate(listed):
            for other, earlier in listed[:k]:
                shared = np.minimum(shape.upper, earlier.upper) - np.maximum(shape.lower, earlier.lower)
                if shared.min() > FLAT * space._size and _meet(shape, earlier):  # more than rounding
                    raise DomainError(
                        f"the regions {other!r} and {name!r} overlap; cut one by the other: type = 'difference'"
                    )
        self.rest = _unless_empty(
            Difference, outer=space, holes=tuple(shapes.values()), name=None, lower=space.lower, upper=space.upper
        )
        if self.rest is None and len(listed) == 1:
            raise DomainError(f"the region {listed[0][0]!r} fills the whole domain; leave it out, or make it smaller")
        if space.dimension == 2:
            self._refuse_contact()
        elif space.dimension == 3:
            self._refuse_tangents()

    def _refuse_contact(self) -> None:
        """Interfaces that touch the boundary or each other leave cusps that no patch fits."""
        size = max(np.subtract(self.space.upper, self.space.lower))
        for face in self.interfaces:
            first, second = self.names[face.first], self.names[face.second]
            for curve in (piece for piece in face.pieces if isinstance(piece, Curve) and not piece.closed):
                points, normals = curve.at(np.array([curve.start, curve.end]))
                if curve.measure < CONTACT * size and second != REST:
                    raise DomainError(
                        f"the region {first!r} touches the region {second!r} at {_shown(points[0])} {ADVICE}"
                    )
                across = np.abs(self.space._depth(points)) <= NEAR * size  # ends on the outer boundary
                step = 1e-6 * size * np.eye(2)
                slope = np.stack([self.space._bound(points + d) - self.space._bound(points - d) for d in step], 1)
                slope /= np.maximum(np.linalg.norm(slope, axis=1, keepdims=True), 1e-300)
                for k in np.flatnonzero(across & (np.abs((slope * normals).sum(axis=1)) > 1 - CONTACT)):
                    raise DomainError(f"the region {first!r} touches the boundary at {_shown(points[k])} {ADVICE}")

    def _refuse_tangents(self) -> None:
        """The same in space, where balls touch balls and the sides of boxes."""
        size = max(np.subtract(self.space.upper, self.space.lower))
        others = [("the boundary", leaf) for leaf, _ in self.space._leaves()]
        for name, shape in self.shapes.items():
            own = [leaf for leaf, _ in shape._leaves()]
            for ball in (leaf for leaf in own if isinstance(leaf, Ball)):
                for other, leaf in others:
                    for point in _tangent_points(ball, leaf, CONTACT * size):
                        if self.space._depth(point[None])[0] > -CONTACT * size:
                            raise DomainError(f"the region {name!r} touches {other} at {_shown(point)} {ADVICE}")
            others += [(f"the region {name!r}", leaf) for leaf in own]

    @property
    def names(self) -> tuple[str, ...]:
        """In the order of their numbers; the rest, if there is any, last."""
        return (*self.shapes, REST) if self.rest is not None else tuple(self.shapes)

    def in_space(self, number: int) -> Domain:
        """A region as a domain of space."""
        if number < len(self.shapes):
            return list(self.shapes.values())[number]
        assert self.rest is not None
        return self.rest

    def part(self, number: int) -> Domain:
        """A region as a domain, in time as long as the whole."""
        shape = self.in_space(number)
        return shape if self.during is None else Timed(shape, *self.during)

    def number(self, points: np.ndarray) -> np.ndarray:
        """The region of every point (P, D) of the domain, or of its space, (P,)."""
        return np.minimum(self.partition.number(points), len(self.names) - 1)

    def inside(self, number: int, points: np.ndarray) -> np.ndarray:
        """Which points (P, D) of space, at whatever time, lie in a region, (P,) bool."""
        return self.space._inside(points[:, : self.space.dimension]) & (self.number(points) == number)

    @cached_property
    def interfaces(self) -> tuple[Interface, ...]:
        found = []
        for first in range(len(self.shapes)):
            leaves = list(self.in_space(first)._leaves())
            for second in range(first + 1, len(self.names)):
                pieces = trim_all(partial(self.inside, first), leaves, partial(self.inside, second))
                if pieces:
                    found.append(Interface(first, second, tuple(pieces), self.during))
        return tuple(found)

    @cached_property
    def flat_at(self) -> list[list[float]] | None:
        """Per coordinate of space, where interfaces lie across it; None if some are curved or run at an angle."""
        found: list[set[float]] = [set() for _ in self.space.lower]
        for face in self.interfaces:
            if face.flat_at is None:
                return None
            for axis, position in face.flat_at:
                found[axis].add(position)
        return [sorted(positions) for positions in found]

    def between(self, names: Sequence[str]) -> list[Interface]:
        """The interfaces of one region, or that of two."""
        numbers = {self.names.index(name) for name in names}
        return [f for f in self.interfaces if len(numbers & {f.first, f.second}) == len(numbers)]

    @cached_property
    def _ends(self) -> np.ndarray:
        """Where interfaces end in the plane, (E, 2): there the boundary passes from one region to the other."""
        curves = [p for face in self.interfaces for p in face.pieces if isinstance(p, Curve) and not p.closed]
        found = [curve.at(np.array([curve.start, curve.end]))[0] for curve in curves]
        return np.concatenate(found) if found else np.zeros((0, 2))

    def breaks(self, curve: Curve) -> np.ndarray:
        """Arc lengths at which a curve of the boundary passes from region to region, as near as rounding allows."""
        if not len(self._ends):
            return np.zeros(0)
        step = curve.measure / (TRACED - 1)
        arcs = np.tile(curve.start + step * np.arange(TRACED), (len(self._ends), 1))  # (E, S)
        for _ in range(ZOOMS):
            places = curve.at(np.clip(arcs, curve.start, curve.end).ravel())[0].reshape(*arcs.shape, 2)
            distance = np.square(places - self._ends[:, None]).sum(axis=2)
            best = np.clip(arcs, curve.start, curve.end)[np.arange(len(arcs)), distance.argmin(axis=1)]
            arcs, step = best[:, None] + step * np.linspace(-1, 1, 65), step / 32
        near = np.sqrt(distance.min(axis=1)) <= NEAR * max(np.subtract(self.space.upper, self.space.lower))
        return np.unique(best[near])

    def on_boundary(self, curve: Curve) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Points of a curve of the boundary in every region that it passes, the normals, and the regions."""
        stops = np.unique(np.concatenate([[curve.start], self.breaks(curve), [curve.end]]))
        arcs = (stops[:-1, None] + np.diff(stops)[:, None] * np.linspace(0.02, 0.98, 49)).ravel()
        points, normals = curve.at(arcs)
        return points, normals, self.touching(Sample(torch.from_numpy(points), torch.from_numpy(normals)))

    def touching(self, sample: Sample) -> np.ndarray:
        """The regions of points, (P,); on the boundary, those on the inner side of it."""
        points = sample.points.numpy()[:, : self.space.dimension]
        size = max(b - a for a, b in zip(self.space.lower, self.space.upper, strict=True))
        return self.number(points if sample.normals is None else points - 1e-9 * size * sample.normals.numpy())


def _shown(point: np.ndarray) -> str:
    return f"({', '.join(f'{x:.4g}' for x in point)})"


def _tangent_points(ball: Ball, other: Domain, near: float) -> list[np.ndarray]:
    """Where a ball touches another one or a side of a box, or nearly so; shapes that coincide do not touch."""
    centre = np.array(ball.center)
    if isinstance(other, Ball):
        way = np.array(other.center) - centre
        apart = float(np.linalg.norm(way))
        outside, inside = abs(apart - ball.radius - other.radius), abs(apart - abs(ball.radius - other.radius))
        if apart <= near or min(outside, inside) > near:
            return []
        sign = 1.0 if outside <= inside or ball.radius > other.radius else -1.0
        return [centre + sign * ball.radius * way / apart]
    found = []
    for axis, position in ((k, end[k]) for end in (other.lower, other.upper) for k in range(3) if other._is_box):
        if abs(abs(position - centre[axis]) - ball.radius) <= near:
            point = centre.copy()
            point[axis] = position
            if (point >= np.array(other.lower) - near).all() and (point <= np.array(other.upper) + near).all():
                found.append(point)
    return found


def _check(name: object, shape: Domain, whole: Domain) -> None:
    domain = whole.space if isinstance(whole, Timed) else whole
    if not isinstance(name, str) or not name.strip() or name != name.strip() or "," in name or "=" in name:
        raise DomainError(f"a region is called by a text without commas and equal signs, got {name!r}")
    if name == REST or name in PARTS or name.startswith((EXCEPT, f"{INTERFACE} ")) or name in domain.parts:
        raise DomainError(
            f"a region cannot be called {name!r}: 'rest', 'interior', 'boundary', 'interface ...' and the names of "
            "parts of the boundary have a meaning already; rename it"
        )
    if shape.dimension != domain.dimension:
        hint = "" if whole is domain else " without time; regions are shapes of space and stay where they are"
        raise DomainError(f"the region {name!r} has {shape.dimension} coordinates, the domain {domain.dimension}{hint}")
    if not _meet(shape, domain):
        raise DomainError(f"the region {name!r} lies outside the domain; move it, or leave it out")
    beyond = _unless_empty(Difference, outer=shape, holes=(domain,), name=None, lower=shape.lower, upper=shape.upper)
    if beyond is not None:
        raise DomainError(
            f"the region {name!r} reaches beyond the domain; make it smaller, or cut it: type = 'intersection'"
        )


def _outline_as_data(polygons: list[np.ndarray]) -> list:
    """Polygons, the inside to the left, in layers: those that hold others without those they hold, and so on."""
    areas = [_signed_area(corners) for corners in polygons]
    first, *others = sorted(range(len(areas)), key=lambda k: -abs(areas[k]))  # what is held is smaller
    data: list = ["polygon", polygons[first].tolist()]
    for islands, group in itertools.groupby(others, key=lambda k: areas[k] > 0):  # together: nesting is bounded
        own = [["polygon", polygons[k].tolist()] for k in group]
        data = ["union", [data, *own]] if islands else ["difference", data, own]
    return data


def _as_data(shape: Domain, name: str) -> list:
    """The shape as the plain data that `Partition` takes."""
    match shape:
        case Box():
            return ["box", list(shape.lower), list(shape.upper)]
        case Ball():
            return ["ball", list(shape.center), shape.radius]
        case Polygon():
            return ["polygon", [list(vertex) for vertex in shape.vertices]]
        case Outline() if (polygons := shape.polygons()) is not None:
            return _outline_as_data(polygons)
        case Union() | Intersection():
            return [type(shape).__name__.lower(), [_as_data(part, name) for part in shape.shapes]]
        case Difference():
            return ["difference", _as_data(shape.outer, name), [_as_data(hole, name) for hole in shape.holes]]
    raise DomainError(
        f"the region {name!r} is a {type(shape).__name__.lower()}; regions are boxes, balls, polygons, straight "
        "outlines and what they make together"
    )
