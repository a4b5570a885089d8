"""Boundary: the pieces a boundary consists of, points spread over them, and what combinations leave of them.

In one dimension a piece is an end, in two a curve by arc length, in three and more a patch that is only sampled.
A point of a shape's boundary belongs to the boundary of a combination if a tiny step along the normal leads from
inside to outside or back; this holds for shapes that touch, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cnf.pde.domains.layouts import shift

if TYPE_CHECKING:
    from cnf.pde.domains.domain import Domain

Arrays = tuple[np.ndarray, np.ndarray]  # points (P, D) and outward unit normals (P, D)
Inside = Callable[[np.ndarray], np.ndarray]  # points (P, D) -> bool (P,)
Sides = Callable[[np.ndarray, np.ndarray], np.ndarray]  # points, normals -> +1 kept, -1 kept with normal turned, 0 not

CURVE_SAMPLES = 512, 8192  # how finely a curve is searched for the places where it enters or leaves other shapes
ALL_SAMPLES = 2**19  # for all curves together
PATCH_SAMPLES = 8192  # how many points measure what remains of a patch
STEP = 1e-7  # of the shape's size, to either side of its boundary
SMOOTH = np.cos(np.deg2rad(25))  # a chain of edges that bend by less is one piece: a drawn curve, not a corner
FEW, BENT = 64, np.cos(np.deg2rad(2))  # up to so many edges, a chain means its corners, however blunt
NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)


@dataclass(frozen=True, eq=False)
class Piece:
    """A part of a boundary with its measure and the names of the shapes it belongs to."""

    names: tuple[str, ...]

    @property
    def measure(self) -> float:
        """Length or area; 1 for an end."""
        raise NotImplementedError

    def sample(self, count: int, random: np.random.Generator, seed: int) -> Arrays:
        """About `count` points evenly spread and their normals."""
        raise NotImplementedError

    def trim(self, sides: Sides, names: tuple[str, ...], share: float) -> list[Piece]:
        """What remains of this piece according to `sides`; it has that share of all pieces to be searched."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class End(Piece):
    """An end of an interval; `normal` is -1 or 1."""

    place: float
    normal: float

    @property
    def measure(self) -> float:
        return 1.0

    def sample(self, count: int, random: np.random.Generator, seed: int) -> Arrays:
        return np.array([[self.place]]), np.array([[self.normal]])

    def trim(self, sides: Sides, names: tuple[str, ...], share: float) -> list[Piece]:
        side = sides(*self.sample(1, np.random.default_rng(0), 0))[0]
        return [End(names, self.place, self.normal * side)] if side else []


@dataclass(frozen=True, eq=False)
class Curve(Piece):
    """A closed curve by arc length, or the part of it between `start` and `end` (which may pass the origin)."""

    trace: Callable[[np.ndarray], Arrays]  # arc length (S,) -> points and outward normals
    knots: np.ndarray  # arc lengths from 0 to the whole length; smooth in between
    corners: np.ndarray  # the knots that are corners, without the last one
    start: float
    end: float
    closed: bool = True
    side: float = 1.0
    edges: tuple[str, ...] = ()  # names of what lies between the knots; empty: none has one

    @property
    def measure(self) -> float:
        return self.end - self.start

    def at(self, arc: np.ndarray) -> Arrays:
        """Points and normals at arc lengths, also beyond the whole length."""
        points, normals = self.trace(np.mod(arc, self.knots[-1]))
        return points, self.side * normals

    def sample(self, count: int, random: np.random.Generator, seed: int) -> Arrays:
        arc = self.start + self.measure * (np.arange(count) + shift(random, seed, 1)[0]) / count
        whole = self.knots[-1]
        lap, rest = np.divmod(arc, whole)
        edge = np.clip(np.searchsorted(self.knots, rest, side="right") - 1, 0, len(self.knots) - 2)
        low, high = self.knots[edge], self.knots[edge + 1]
        if len(self.knots) > 2:  # the normal is not defined on a knot of a polygon
            rest = np.clip(rest, low + 1e-3 * (high - low), high - 1e-3 * (high - low))
        return self.at(np.clip(lap * whole + rest, self.start, self.end))

    def split(self) -> list[Curve]:
        """The pieces between corners, and between edges of different names."""
        whole = self.knots[-1]
        ends = self.corners
        if self.edges:
            changes = [a != b for a, b in zip(self.edges, (self.edges[-1], *self.edges[:-1]), strict=True)]
            ends = np.union1d(ends, self.knots[:-1][changes])
        corners = np.concatenate([ends, ends + whole])
        if self.closed:
            if not len(ends):
                return [self._named()]
            cuts = np.append(ends, ends[0] + whole)
        else:
            tiny = 1e-9 * whole
            between = corners[(corners > self.start + tiny) & (corners < self.end - tiny)]
            cuts = np.concatenate([[self.start], between, [self.end]])
        parts = [replace(self, start=float(a), end=float(b), closed=False) for a, b in itertools.pairwise(cuts)]
        return [part._named() for part in parts]

    def _named(self) -> Curve:
        """A piece with the name of its edge among its names."""
        if not self.edges:
            return self
        middle = np.mod((self.start + self.end) / 2, self.knots[-1])
        own = self.edges[min(int(np.searchsorted(self.knots, middle, side="right")) - 1, len(self.edges) - 1)]
        return replace(self, names=(*self.names, own)) if own and own not in self.names else self

    def flux(self) -> float:
        """The integral of position times normal: the area this piece contributes, twice."""
        whole = self.knots[-1]
        knots = np.concatenate([self.knots, self.knots[1:] + whole])
        cuts = np.concatenate([[self.start], knots[(knots > self.start) & (knots < self.end)], [self.end]])
        half = np.diff(cuts) / 2
        arc = (cuts[:-1] + half)[:, None] + half[:, None] * NODES
        points, normals = self.at(arc.ravel())
        return float(((points * normals).sum(1) * (half[:, None] * WEIGHTS).ravel()).sum())

    def trim(self, sides: Sides, names: tuple[str, ...], share: float) -> list[Piece]:
        whole = self.knots[-1]
        samples = np.clip(ALL_SAMPLES * share, *CURVE_SAMPLES)
        arc = np.concatenate(
            [
                a + (b - a) * (np.arange(n) + 0.5) / n
                for a, b in itertools.pairwise(self.knots)
                for n in [max(8, int(np.ceil(samples * (b - a) / whole)))]
            ]
        )
        found = sides(*self.at(arc))
        following = np.roll(found, -1)
        (changes,) = np.nonzero(found != following)
        if not len(changes):
            return list(replace(self, names=names, side=float(found[0])).split()) if found[0] else []
        low = arc[changes]
        high = np.where(changes + 1 < len(arc), np.roll(arc, -1)[changes], arc[0] + whole)
        for _ in range(30):
            middle = (low + high) / 2
            same = sides(*self.at(middle)) == found[changes]
            low, high = np.where(same, middle, low), np.where(same, high, middle)
        pieces: list[Piece] = []
        for first, (begin, side) in enumerate(zip(high, following[changes], strict=True)):
            finish = low[first + 1] if first + 1 < len(low) else low[0] + whole
            if side and finish - begin > 1e-6 * whole:
                part = replace(self, names=names, start=begin, end=finish, closed=False, side=float(side))
                pieces += part.split()
        return pieces


@dataclass(frozen=True, eq=False)
class Patch(Piece):
    """A surface in three or more dimensions, or what `sides` keeps of it."""

    area: float
    place: Callable[[int, np.random.Generator, int], Arrays]  # count, random numbers, seed -> about count points
    sides: Sides | None = None
    share: float = 1.0
    side: float = 1.0

    @property
    def measure(self) -> float:
        return self.area * self.share

    def sample(self, count: int, random: np.random.Generator, seed: int) -> Arrays:
        if self.sides is None:
            points, normals = self.place(count, random, seed)
            return points, self.side * normals
        asked = max(1, round(count / self.share))
        for _ in range(12):
            points, normals = self.place(asked, random, seed)
            side = self.sides(points, normals)
            if side.any():
                break
            asked = 2 * asked + 1
        kept = side != 0
        return points[kept], normals[kept] * side[kept, None]

    def trim(self, sides: Sides, names: tuple[str, ...], share: float) -> list[Piece]:
        found = sides(*self.place(PATCH_SAMPLES, np.random.default_rng(0), 0))
        if (found == found[0]).all():
            return [replace(self, names=names, side=float(found[0]))] if found[0] else []
        return [replace(self, names=names, sides=sides, share=float((found != 0).mean()))]


def straightest(edges: int) -> float:
    """The cosine of the least bend that is a corner in a chain of so many edges."""
    return float(BENT if edges <= FEW else SMOOTH)


def trace_chain(corners: np.ndarray, names: tuple[str, ...], edge_names: tuple[str, ...] = ()) -> Curve:
    """The closed chain of edges through corners (V, 2) given counterclockwise; edges may have names of their own."""
    edges = np.roll(corners, -1, axis=0) - corners
    lengths = np.linalg.norm(edges, axis=1)
    along = edges / lengths[:, None]
    outward = np.stack([along[:, 1], -along[:, 0]], axis=1)
    knots = np.concatenate([[0.0], np.cumsum(lengths)])

    def trace(arc: np.ndarray) -> Arrays:
        edge = np.clip(np.searchsorted(knots, arc, side="right") - 1, 0, len(lengths) - 1)
        return corners[edge] + (arc - knots[edge])[:, None] * along[edge], outward[edge]

    sharp = (along * np.roll(along, 1, axis=0)).sum(1) < straightest(len(corners))
    return Curve(names, trace, knots, knots[:-1][sharp], 0.0, float(knots[-1]), edges=edge_names)


def trace_circle(center: Sequence[float], radius: float, names: tuple[str, ...]) -> Curve:
    """The circle, counterclockwise."""

    def trace(arc: np.ndarray) -> Arrays:
        normals = np.stack([np.cos(arc / radius), np.sin(arc / radius)], axis=1)
        return np.asarray(center) + radius * normals, normals

    length = 2 * np.pi * radius
    return Curve(names, trace, np.array([0.0, length]), np.zeros(0), 0.0, length)


def trim_all(
    inside: Inside, leaves: Sequence[tuple[Domain, tuple[str, ...]]], beyond: Inside | None = None
) -> list[Piece]:
    """The boundary of the region `inside`, made of the boundaries of `leaves` (shape, names).

    Only where `beyond` lies on the other side, if that is given.
    """
    ordered = sorted(leaves, key=lambda leaf: not leaf[1])  # where boundaries coincide, the one with a name stays
    outlines = [leaf._outline() for leaf, _ in ordered]
    total = sum(piece.measure for outline in outlines for piece in outline)
    pieces: list[Piece] = []
    for index, (leaf, names) in enumerate(ordered):
        step = STEP * leaf._size + 1e-12 * float(np.abs([leaf.lower, leaf.upper]).max())
        earlier = [shape for shape, _ in ordered[:index] if _may_touch(shape, leaf, 2 * step)]
        sides = _side_finder(inside, step, [shape._inside for shape in earlier], beyond)
        for piece in outlines[index]:
            own = tuple(dict.fromkeys((*names, *piece.names)))
            pieces += piece.trim(sides, own, piece.measure / total)
    return pieces


def _side_finder(inside: Inside, step: float, earlier: Sequence[Inside], beyond: Inside | None = None) -> Sides:
    """What a step along the normal says; nothing where an earlier shape has its boundary, too."""

    def sides(points: np.ndarray, normals: np.ndarray) -> np.ndarray:
        before, after = points - step * normals, points + step * normals
        found = inside(before).astype(int) - inside(after).astype(int)
        if beyond is not None:
            found = np.where(beyond(np.where(found[:, None] > 0, after, before)), found, 0)
        for other in earlier:
            (kept,) = np.nonzero(found)
            found[kept[other(before[kept]) != other(after[kept])]] = 0
        return found

    return sides


def named_first(domain: Domain) -> list[tuple[Domain, tuple[str, ...]]]:
    """The shapes of a domain and their names; where boundaries coincide, the one with a name counts."""
    return sorted(domain._leaves(), key=lambda own: not own[1])


def by_shape(domain: Domain, points: np.ndarray, near: float) -> list[tuple[Piece, np.ndarray]]:
    """Points (P, D) of the boundary by the shape that has it that `near`: a piece with its names, and which points."""
    found, open_ = [], np.ones(len(points), dtype=bool)
    for leaf, names in named_first(domain):
        own = open_ & (np.abs(leaf._bound(points)) <= near)
        if own.any():
            found.append((Piece(names), own))
        open_ &= ~own
    return found


def _may_touch(a: Domain, b: Domain, slack: float) -> bool:
    ends = zip(a.lower, a.upper, b.lower, b.upper, strict=True)
    return all(low <= top + slack and bottom <= high + slack for low, high, bottom, top in ends)


def spread(pieces: Sequence[Piece], count: int, seed: int) -> Arrays:
    """About `count` points over all pieces in proportion to their measure, at least one on each."""
    random = np.random.default_rng(seed)
    shares = divide(count, [piece.measure for piece in pieces])
    found = [piece.sample(share, random, seed) for piece, share in zip(pieces, shares, strict=True)]
    return np.concatenate([p for p, _ in found]), np.concatenate([n for _, n in found])


def divide(count: int, measures: Sequence[float]) -> list[int]:
    """`count` in whole shares proportional to `measures`, each at least one."""
    sizes = np.asarray(measures, dtype=np.float64)
    quota = np.zeros(len(sizes))
    small = np.zeros(len(sizes), dtype=bool)
    for _ in range(len(sizes)):  # those with less than one point get one; the rest is for the others
        left = max(count - int(small.sum()), 0)
        quota = np.where(small, 1.0, left * sizes / max(sizes[~small].sum(), 1e-300))
        new = ~small & (quota < 1)
        if not new.any():
            break
        small |= new
    quota = np.maximum(quota, 1.0)
    shares = np.floor(quota + 1e-9).astype(int)
    missing = max(count - int(shares.sum()), 0)
    order = np.argsort(-(quota - shares), kind="stable")
    shares[order[: min(missing, len(order))]] += 1
    return [int(s) for s in shares]
