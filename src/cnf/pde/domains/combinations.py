"""Combinations: shapes joined, cut out of each other, or intersected.

Areas and lengths in the plane are found from the boundary, good to about six digits; what needs samples in three
dimensions and more, to about three digits, always from the same points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from cnf.errors import DomainError
from cnf.pde.domains.boundary import Curve, End, Piece, spread, trim_all
from cnf.pde.domains.domain import Domain, check_name, settle
from cnf.pde.domains.layouts import halton

CHECK_POINTS = 2**14
VOLUME_POINTS = 2**17
CLOUD_POINTS = 2**13


class Combination(Domain):
    """What unions, differences and intersections share."""

    @property
    def _children(self) -> tuple[Domain, ...]:
        raise NotImplementedError

    @property
    def volume(self) -> float:
        return self._volume

    @property
    def _pieces(self) -> list[Piece]:
        return self._trimmed

    @cached_property
    def _trimmed(self) -> list[Piece]:
        return trim_all(self._inside, list(self._leaves()))

    @cached_property
    def _volume(self) -> float:
        """By the divergence theorem from the boundary in one and two dimensions, else from samples."""
        if self.dimension == 1:
            return float(sum(piece.place * piece.normal for piece in self._trimmed if isinstance(piece, End)))
        if self.dimension == 2:
            return sum(piece.flux() for piece in self._trimmed if isinstance(piece, Curve)) / 2
        sides = np.subtract(self.upper, self.lower)
        points = self._propose(halton(self.dimension, 0)(VOLUME_POINTS))
        return float(np.prod(sides) * self._inside(points).mean())

    def _leaves(self, names: tuple[str, ...] = ()) -> Iterator[tuple[Domain, tuple[str, ...]]]:
        own = names + ((self.name,) if self.name is not None else ())
        for child in self._children:
            yield from child._leaves(own)

    def _has_inside(self) -> bool:
        draw = halton(self.dimension, 0)
        if self._inside(self._propose(draw(CHECK_POINTS // 16))).any():
            return True
        if self._trimmed:  # found by stepping inside from a boundary: small remains show there first
            return True
        return bool(self._inside(self._propose(draw(CHECK_POINTS))).any())

    @cached_property
    def _child_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        lower, upper = (np.array([getattr(child, end) for child in self._children]) for end in ("lower", "upper"))
        return lower, upper

    def _near(self, points: np.ndarray) -> np.ndarray:
        """Which children may hold any of the points (children,): with many holes, only few are near a boundary."""
        lower, upper = self._child_bounds
        if not len(points):
            return np.zeros(len(lower), dtype=bool)
        return ((lower <= points.max(axis=0)) & (upper >= points.min(axis=0))).all(axis=1)

    def _check(self) -> None:
        """Raise if nothing is left inside, or a name belongs to no boundary."""
        if not self._has_inside():
            raise DomainError(f"this {type(self).__name__.lower()} has no inside: {self._empty_reason}")
        left = self.parts
        for name in _names_in(self):
            if name not in left:
                raise DomainError(
                    f"nothing is left of the boundary of {name!r}: other shapes cover or cut off all of it; move it, "
                    "or leave it out"
                )

    _empty_reason = "the shapes have no points in common"


@dataclass(frozen=True, init=False)
class Equals(Combination):
    """What unions and intersections share: shapes among which none is special."""

    shapes: tuple[Domain, ...]
    name: str | None = None

    def __init__(self, shapes: Sequence[Domain], name: str | None = None):
        check_name(name)
        kind = type(self).__name__.lower()
        settle(self, shapes=_checked_shapes(shapes, f"an {kind}" if kind[0] == "i" else f"a {kind}"), name=name)
        _check_names(self)
        if isinstance(self, Intersection) and not _overlap(self.shapes):
            raise DomainError(f"this intersection has no inside: {self._empty_reason}")
        _settle_bounds(self)
        self._check()

    @property
    def _children(self) -> tuple[Domain, ...]:
        return self.shapes


@dataclass(frozen=True, init=False)
class Union(Equals):
    """All points in any of `shapes`, which may overlap, touch or lie apart.

    >>> domain = cnf.domains.Union([cnf.Box([0, 0], [1, 1]), cnf.Box([2, 0], [3, 1])])
    >>> cnf.domains.to_text(domain), round(domain.volume, 6)
    ('union of box [0, 1] x [0, 1] and box [2, 3] x [0, 1]', 2.0)
    """

    def _inside(self, points: np.ndarray) -> np.ndarray:
        inside = np.zeros(len(points), dtype=bool)
        for index in np.nonzero(self._near(points))[0]:
            inside |= self.shapes[index]._inside(points)
        return inside

    def _bound(self, points: np.ndarray) -> np.ndarray:
        return reduce(np.maximum, (shape._bound(points) for shape in self.shapes))

    def _depth(self, points: np.ndarray) -> np.ndarray:
        """Where shapes overlap or touch, their own boundaries do not count: look at the distance to what is left."""
        depth = reduce(np.maximum, (shape._depth(points) for shape in self.shapes))
        tree, gap = self._cloud
        inside = depth >= 0
        distance, _ = tree.query(points[inside])
        depth[inside] = np.maximum(depth[inside], np.sqrt(np.maximum(distance**2 - gap**2, 0)))
        return depth

    @cached_property
    def _cloud(self) -> tuple:
        """The boundary as a tree of points, and how far a point of the boundary may be from the nearest of them."""
        from scipy.spatial import cKDTree

        points, _ = spread(self._trimmed, CLOUD_POINTS, 0)
        if self.dimension == 1:
            return cKDTree(points), 0.0
        spacing = (sum(piece.measure for piece in self._trimmed) / CLOUD_POINTS) ** (1 / (self.dimension - 1))
        return cKDTree(points), spacing

    def _section(self, axis: int, value: float) -> Domain | None:
        return unite([s for shape in self.shapes if (s := shape._section(axis, value)) is not None])


@dataclass(frozen=True, init=False)
class Intersection(Equals):
    """All points in every one of `shapes`.

    >>> domain = cnf.domains.Intersection([cnf.Box([0, 0], [1, 1]), cnf.Box([0.5, 0], [2, 1])])
    >>> cnf.domains.to_text(domain), round(domain.volume, 6)
    ('intersection of box [0, 1] x [0, 1] and box [0.5, 2] x [0, 1]', 0.5)
    """

    def _inside(self, points: np.ndarray) -> np.ndarray:
        return reduce(np.logical_and, (shape._inside(points) for shape in self.shapes))

    def _bound(self, points: np.ndarray) -> np.ndarray:
        return reduce(np.minimum, (shape._bound(points) for shape in self.shapes))

    def _depth(self, points: np.ndarray) -> np.ndarray:
        return reduce(np.minimum, (shape._depth(points) for shape in self.shapes))

    def _section(self, axis: int, value: float) -> Domain | None:
        sections = [s for shape in self.shapes if (s := shape._section(axis, value)) is not None]
        if len(sections) < len(self.shapes) or not _overlap(sections):
            return None
        return _unless_empty(Intersection, shapes=tuple(sections), name=None)


@dataclass(frozen=True)
class Difference(Combination):
    """`outer` without `holes`; the normals on a hole point into it.

    >>> domain = cnf.domains.Difference(cnf.Box([0, 0], [1, 1]), [cnf.domains.Disk([0.5, 0.5], 0.2)])
    >>> cnf.domains.to_text(domain), round(domain.volume, 6)
    ('box [0, 1] x [0, 1] minus disk at (0.5, 0.5) of radius 0.2', 0.874336)
    """

    outer: Domain
    holes: tuple[Domain, ...]
    name: str | None = None

    def __init__(self, outer: Domain, holes: Sequence[Domain] | Domain, name: str | None = None):
        cut = _checked_shapes([holes] if isinstance(holes, Domain) else holes, "a difference")
        whole, *_ = _checked_shapes([outer, *cut], "a difference")
        check_name(name)
        settle(self, outer=whole, holes=cut, name=name, lower=whole.lower, upper=whole.upper)
        _check_names(self)
        for index, hole in enumerate(cut):
            if not _meet(whole, hole):
                called = repr(hole.name) if hole.name is not None else f"number {index}"
                raise DomainError(
                    f"hole {called} does not meet the domain it is cut from: it lies between {hole.lower} and "
                    f"{hole.upper}, the domain between {whole.lower} and {whole.upper}; move it, or leave it out"
                )
        self._check()

    _empty_reason = "the holes cover everything"

    @property
    def _children(self) -> tuple[Domain, ...]:
        return (self.outer, *self.holes)

    def _inside(self, points: np.ndarray) -> np.ndarray:
        inside = self.outer._inside(points)
        for index in np.nonzero(self._near(points)[1:])[0]:
            inside &= ~self.holes[index]._inside(points)
        return inside

    def _bound(self, points: np.ndarray) -> np.ndarray:
        return reduce(lambda d, hole: np.minimum(d, -hole._bound(points)), self.holes, self.outer._bound(points))

    def _depth(self, points: np.ndarray) -> np.ndarray:
        return reduce(lambda d, hole: np.minimum(d, -hole._bound(points)), self.holes, self.outer._depth(points))

    def _section(self, axis: int, value: float) -> Domain | None:
        outer = self.outer._section(axis, value)
        if outer is None:
            return None
        holes = [s for hole in self.holes if (s := hole._section(axis, value)) is not None and _meet(outer, s)]
        if not holes:
            return outer
        return _unless_empty(
            Difference, outer=outer, holes=tuple(holes), name=None, lower=outer.lower, upper=outer.upper
        )


def unite(shapes: Sequence[Domain]) -> Domain | None:
    """The union of shapes that need no check; None of none, the shape itself of one."""
    if len(shapes) < 2:
        return shapes[0] if shapes else None
    return _unless_empty(Union, shapes=tuple(shapes), name=None)


def _unless_empty(kind: type[Combination], **fields: object) -> Combination | None:
    """A combination made of slices of checked shapes; None if nothing is left inside."""
    result = object.__new__(kind)
    settle(result, **fields)
    if "shapes" in fields:
        _settle_bounds(result)
    return result if result._has_inside() else None


def _settle_bounds(domain: Combination) -> None:
    lower, upper = (np.array([getattr(shape, end) for shape in domain._children]) for end in ("lower", "upper"))
    joined = isinstance(domain, Union)
    low, high = (lower.min(0), upper.max(0)) if joined else (lower.max(0), upper.min(0))
    settle(domain, lower=tuple(map(float, low)), upper=tuple(map(float, high)))


def _checked_shapes(shapes: object, what: str) -> tuple[Domain, ...]:
    """The shapes of a combination: domains of one dimension without time."""
    from cnf.pde.domains.timed import Timed

    if not isinstance(shapes, list | tuple) or not shapes:
        raise DomainError(f"{what} takes a list of shapes, got {shapes!r}")
    for shape in shapes:
        if not isinstance(shape, Domain):
            raise DomainError(f"{what} is made of shapes such as Box or Disk, got a {type(shape).__name__}")
        if isinstance(shape, Timed):
            raise DomainError(f"put the time around the whole: Timed({what.split()[1].capitalize()}(...), start, end)")
    if len({shape.dimension for shape in shapes}) > 1:
        widths = ", ".join(f"{type(shape).__name__} {shape.dimension}" for shape in shapes[:8])
        raise DomainError(f"the shapes of {what} must have the same number of coordinates; they have: {widths}")
    return tuple(shapes)


def _names_in(domain: Domain) -> list[str]:
    own = [domain.name] if domain.name is not None else []
    children = domain._children if isinstance(domain, Combination) else ()
    return own + [name for child in children for name in _names_in(child)]


def _check_names(domain: Domain) -> None:
    names = _names_in(domain)
    for name in names:
        if names.count(name) > 1:
            raise DomainError(f"{names.count(name)} shapes are called {name!r}; give each its own name")


def _overlap(shapes: Sequence[Domain]) -> bool:
    """Whether the bounding boxes have an inside in common."""
    low, high = (np.array([getattr(s, end) for s in shapes]) for end in ("lower", "upper"))
    return bool((low.max(0) < high.min(0)).all())


def _meet(a: Domain, b: Domain) -> bool:
    """Whether two shapes have an inside in common."""
    return _overlap([a, b]) and _unless_empty(Intersection, shapes=(a, b), name=None) is not None
