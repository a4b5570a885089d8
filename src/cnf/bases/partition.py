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
import torch
from torch import Tensor

from cnf.bases.looked_into import is_recorded
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
        return self.number_of(torch.from_numpy(np.ascontiguousarray(points))).numpy()

    def number_of(self, points: Tensor) -> Tensor:
        """The same for tensors."""
        points = points[:, : self.dimension]
        found = torch.full_like(points[:, 0], len(self.shapes), dtype=torch.int64)
        for k in reversed(range(len(self.shapes))):
            found = torch.where(_depth(self.shapes[k], points) >= -self._tiny, k, found)
        return found


def _depth(shape: list[Any], points: Tensor) -> Tensor:
    """Signed distance to the boundary (P,), positive inside, or something of the same sign."""
    kind = shape[0]
    if kind == "box":
        low, high = points.new_tensor(shape[1]), points.new_tensor(shape[2])
        return torch.minimum(points - low, high - points).amin(dim=1)
    if kind == "ball":
        return shape[2] - (points - points.new_tensor(shape[1])).square().sum(dim=1).sqrt()
    if kind == "polygon":
        return _polygon_depth(points.new_tensor(shape[1]), points)
    if kind == "difference":
        return reduce(torch.minimum, (-_depth(hole, points) for hole in shape[2]), _depth(shape[1], points))
    return reduce(torch.maximum if kind == "union" else torch.minimum, [_depth(part, points) for part in shape[1]])


def _polygon_depth(corners: Tensor, points: Tensor) -> Tensor:
    edges = corners.roll(-1, dims=0) - corners
    squares = edges.square().sum(dim=1)
    pieces = [points] if is_recorded() else points.split(max(1, CHUNK // len(corners)))
    found = []
    for piece in pieces:
        away = piece[:, None] - corners  # (P, V, 2)
        along = ((away * edges).sum(dim=2) / squares).clamp(0, 1)
        distance = (away - along[:, :, None] * edges).square().sum(dim=2).amin(dim=1).sqrt()
        above = away[:, :, 1] >= 0
        crosses = above != (away[:, :, 1] - edges[:, 1] >= 0)
        cross = edges[:, 0] * away[:, :, 1] - edges[:, 1] * away[:, :, 0]
        right = (cross > 0) == (edges[:, 1] > 0)  # the edge is met to the right of the point
        inside = (crosses & right).sum(dim=1) % 2 == 1
        found.append(torch.where(inside, distance, -distance))
    return found[0] if len(found) == 1 else torch.cat(found)


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
