"""Partition: which region of a domain a point lies in, from plain data, so that files can hold it.

A shape is a list: ["box", lower, upper], ["ball", centre, radius], ["polygon", vertices], ["union", shapes],
["intersection", shapes], ["difference", shape, holes]. Points in none of the regions are in the rest, the last one.
Regions do not move: coordinates beyond those of the shapes, that of time, are not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from cnf.errors import BasisError

MOST_SHAPES = 1000
MOST_VERTICES = 100_000
DEEPEST = 10  # shapes within shapes
TOUCH = 1e-12  # of the coordinates: interfaces belong to the first region that has them, points beside them too
CHUNK = 2**20  # points times edges at a time


class Partition:
    """Regions by their shapes, `dimension` coordinates; where shapes touch, the first has the point.

    >>> disk = cnf.bases.Partition([["ball", [0, 0], 1]], 2)
    >>> disk.number(np.array([[1.0, 0.0], [1.1, 0.0]])).tolist()  # of the shapes; 1 is outside
    [0, 1]
    """

    def __init__(self, shapes: Sequence[Any], dimension: int):
        if not isinstance(shapes, list | tuple) or not 0 < len(shapes) <= MOST_SHAPES:
            raise BasisError(f"a partition has from 1 to {MOST_SHAPES} shapes")
        self.dimension = dimension
        left = [MOST_SHAPES]
        self.shapes = [_checked(shape, dimension, 1, left) for shape in shapes]
        self._tiny = TOUCH * max(1e-300, *(_extent(shape) for shape in self.shapes))

    @property
    def count(self) -> int:
        """Number of regions, the rest included."""
        return len(self.shapes) + 1

    def number(self, points: np.ndarray) -> np.ndarray:
        """The region of every point (P, D), (P,); the first coordinates are those of the shapes."""
        points = points[:, : self.dimension]
        found = np.full(len(points), len(self.shapes))
        for k in reversed(range(len(self.shapes))):
            found[_depth(self.shapes[k], points) >= -self._tiny] = k
        return found


def _depth(shape: list[Any], points: np.ndarray) -> np.ndarray:
    """Signed distance to the boundary (P,), positive inside, or something of the same sign."""
    kind = shape[0]
    if kind == "box":
        return np.minimum(points - np.array(shape[1]), np.array(shape[2]) - points).min(axis=1)
    if kind == "ball":
        return shape[2] - np.sqrt(np.square(points - np.array(shape[1])).sum(axis=1))
    if kind == "polygon":
        return _polygon_depth(np.array(shape[1]), points)
    if kind == "difference":
        return reduce(np.minimum, (-_depth(hole, points) for hole in shape[2]), _depth(shape[1], points))
    return reduce(np.maximum if kind == "union" else np.minimum, (_depth(part, points) for part in shape[1]))


def _polygon_depth(corners: np.ndarray, points: np.ndarray) -> np.ndarray:
    edges = np.roll(corners, -1, axis=0) - corners
    squares = (edges**2).sum(axis=1)
    found = np.empty(len(points))
    step = max(1, CHUNK // len(corners))
    for begin in range(0, len(points), step):
        rows = slice(begin, begin + step)
        away = points[rows, None] - corners  # (P, V, 2)
        along = np.clip((away * edges).sum(axis=2) / squares, 0, 1)
        distance = np.sqrt(np.square(away - along[:, :, None] * edges).sum(axis=2).min(axis=1))
        above = away[:, :, 1] >= 0
        crosses = above != (away[:, :, 1] - edges[:, 1] >= 0)
        cross = edges[:, 0] * away[:, :, 1] - edges[:, 1] * away[:, :, 0]
        right = (cross > 0) == (edges[:, 1] > 0)  # the edge is met to the right of the point
        inside = (crosses & right).sum(axis=1) % 2 == 1
        found[rows] = np.where(inside, distance, -distance)
    return found


def _checked(given: Any, dimension: int, depth: int, left: list[int]) -> list[Any]:
    """The shape as lists and numbers; files come from anywhere, so everything is checked."""
    left[0] -= 1
    if left[0] < 0 or depth > DEEPEST or not isinstance(given, list | tuple) or not given:
        raise BasisError(f"a shape is a list that starts with its kind, up to {MOST_SHAPES} of them, {DEEPEST} deep")
    kind, *rest = given
    match kind, rest:
        case "box", [lower, upper]:
            low, high = _point(lower, dimension), _point(upper, dimension)
            if all(a < b for a, b in zip(low, high, strict=True)):
                return [kind, low, high]
        case "ball", [centre, radius]:
            (size,) = _point([radius], 1)
            if size > 0:
                return [kind, _point(centre, dimension), size]
        case "polygon", [vertices]:
            if dimension == 2 and isinstance(vertices, list | tuple) and 3 <= len(vertices) <= MOST_VERTICES:
                corners = [_point(vertex, 2) for vertex in vertices]
                if all(a != b for a, b in zip(corners, corners[1:] + corners[:1], strict=True)):
                    return [kind, corners]
        case "difference", [outer, holes]:
            return [kind, _checked(outer, dimension, depth + 1, left), _listed(holes, dimension, depth, left)]
        case (("union" | "intersection"), [parts]):
            return [kind, _listed(parts, dimension, depth, left)]
    raise BasisError(f"this is no shape of {dimension} coordinates: {kind!r:.40}")


def _listed(given: Any, dimension: int, depth: int, left: list[int]) -> list[Any]:
    if not isinstance(given, list | tuple) or not 0 < len(given) <= MOST_SHAPES:
        raise BasisError("a combination has a list of shapes")
    return [_checked(part, dimension, depth + 1, left) for part in given]


def _point(given: Any, dimension: int) -> list[float]:
    number = isinstance(given, list | tuple) and len(given) == dimension
    if not number or not all(
        isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v) for v in given
    ):
        raise BasisError(f"a point of a shape has {dimension} finite numbers")
    return [float(v) for v in given]


def _extent(shape: list[Any]) -> float:
    """The largest coordinate that occurs in a shape."""
    kind = shape[0]
    if kind == "box":
        return max(map(abs, (*shape[1], *shape[2])))
    if kind == "ball":
        return max(map(abs, shape[1])) + shape[2]
    if kind == "polygon":
        return float(np.abs(shape[1]).max())
    parts = [shape[1], *shape[2]] if kind == "difference" else shape[1]
    return max(_extent(part) for part in parts)
