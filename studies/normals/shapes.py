"""Planar shapes with exact normals: the four point sets of the paper's normal experiment.

What goes out: a few points of a curve with their outward normals, and the exact signed distance (negative inside).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cnf.errors import CnfError, nearest


@dataclass(frozen=True, eq=False)
class PlanarShape:
    """Points (n, 2) of a curve, unit normals (n, 2), and its signed distance (P, 2) -> (P,)."""

    name: str
    points: Tensor
    normals: Tensor
    distance: Callable[[Tensor], Tensor]

    def __len__(self) -> int:
        return self.points.shape[0]


def circle(count: int = 9) -> PlanarShape:
    """The unit circle, points evenly spread, the first at angle zero."""
    angle = torch.arange(count, dtype=torch.float64) * (2 * math.pi / count)
    points = torch.stack([angle.cos(), angle.sin()], dim=1)
    return PlanarShape("circle", points, points.clone(), lambda x: torch.linalg.vector_norm(x, dim=1) - 1)


def line(count: int = 9) -> PlanarShape:
    """A piece of the line y = 0, normals upwards."""
    at = torch.linspace(1.0, -1.0, count, dtype=torch.float64)
    points = torch.stack([at, torch.zeros_like(at)], dim=1)
    normals = torch.tensor([0.0, 1.0], dtype=torch.float64).expand(count, 2).clone()
    return PlanarShape("line", points, normals, lambda x: x[:, 1])


def triangle(count: int = 9) -> PlanarShape:
    """An equilateral triangle around the origin, as many points on every side, none on a corner."""
    return _polygon("triangle", [90.0, 210.0, 330.0], 1.3, count)


def diamond(count: int = 12) -> PlanarShape:
    """A square standing on a corner, as many points on every side, none on a corner."""
    return _polygon("diamond", [0.0, 90.0, 180.0, 270.0], 1.2, count)


SHAPES: dict[str, Callable[..., PlanarShape]] = {
    "circle": circle,
    "line": line,
    "triangle": triangle,
    "diamond": diamond,
}


def _polygon(name: str, degrees: Sequence[float], radius: float, count: int) -> PlanarShape:
    """A regular polygon by the angles of its corners, counterclockwise."""
    if count < 1 or count % len(degrees):
        raise CnfError(f"a {name} has {len(degrees)} sides with as many points each; got {count} points")
    angle = torch.tensor(degrees, dtype=torch.float64) * (math.pi / 180)
    corners = radius * torch.stack([angle.cos(), angle.sin()], dim=1)  # (k, 2)
    ends = corners.roll(-1, dims=0)
    each = count // len(degrees)
    share = (torch.arange(each, dtype=torch.float64) + 0.5) / each  # the middles of equal pieces
    points = (corners[:, None] + share[:, None] * (ends - corners)[:, None]).reshape(-1, 2)
    along = (ends - corners) / torch.linalg.vector_norm(ends - corners, dim=1, keepdim=True)
    outward = torch.stack([along[:, 1], -along[:, 0]], dim=1)
    normals = outward.repeat_interleave(each, dim=0)

    def distance(x: Tensor) -> Tensor:
        offset = x[:, None] - corners  # (P, k, 2)
        length = torch.linalg.vector_norm(ends - corners, dim=1)
        at = (offset * along).sum(dim=-1).clamp_min(0).minimum(length)  # (P, k), where along the side
        nearest_point = corners + at[..., None] * along
        gap = torch.linalg.vector_norm(x[:, None] - nearest_point, dim=-1).amin(dim=1)
        inside = ((offset * outward).sum(dim=-1) < 0).all(dim=1)  # the polygon is convex
        return torch.where(inside, -gap, gap)

    return PlanarShape(name, points, normals, distance)


def find_shape(name: str) -> PlanarShape:
    if name not in SHAPES:
        raise CnfError(f"there is no shape {name!r}; choose from {', '.join(SHAPES)}." + nearest(name, SHAPES))
    return SHAPES[name]()
