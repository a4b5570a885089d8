"""Corners and holes of plane domains: where fields are singular or continue into a singularity, and what to do there.

The solution of an elliptic equation is not smooth in a corner, and beyond the edge of a hole it continues towards
singularities inside the hole. Sums of waves, smooth everywhere, follow that slowly. Functions with a pole outside the
domain follow it fast if the poles crowd towards the corner exponentially, and if a hole has a ring of them inside.
Conditions must then crowd towards the corner as well, and be closer on the edge of a hole: `crowd` gives such points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cnf.pde.domains.boundary import Curve
from cnf.pde.domains.domain import Domain

PER_RAY = 24
RAYS = (-0.35, 0.35)  # angles to the outward direction: as many poles as boundary points that crowd on the two arms
TAPER = 3.0  # distances are exp(-TAPER (sqrt(n) - sqrt(k))): root-exponential convergence
RING = 1.8  # poles in a hole per spacing of its edge, which gets two points per spacing
DEPTH = 3.0  # distance of a ring from the edge over the distance of its poles
DEEPEST = 0.7  # of the radius
MEETING = 1e-6  # ends of pieces closer than this, over the length of the boundary, meet


@dataclass(frozen=True)
class Arm:
    """A smooth piece of the boundary next to a corner: `at_start` tells which end of the piece the corner is."""

    piece: Curve
    at_start: bool

    def away(self, distances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points and normals at these distances from the corner."""
        arc = self.piece.start + distances if self.at_start else self.piece.end - distances
        return self.piece.at(arc)


@dataclass(frozen=True)
class Corner:
    """Where two smooth pieces meet; `outward` halves the angle outside the domain."""

    point: np.ndarray  # (2,)
    outward: np.ndarray  # (2,)
    arms: tuple[Arm, Arm]

    @property
    def reach(self) -> float:
        """The length of the shorter arm."""
        return min(arm.piece.measure for arm in self.arms)


def find_corners(domain: Domain) -> list[Corner]:
    """The corners of a plane domain, none for others."""
    if domain.dimension != 2 or not all(isinstance(piece, Curve) for piece in domain._pieces):
        return []
    arms = [Arm(p, start) for p in domain._pieces if isinstance(p, Curve) and not p.closed for start in (True, False)]
    ends = [arm.away(np.array([1e-9 * arm.piece.measure])) for arm in arms]
    near = MEETING * domain.boundary_measure()
    found = []
    for i, first in enumerate(arms):
        for j in range(i + 1, len(arms)):
            if np.abs(ends[i][0] - ends[j][0]).max() > near:
                continue
            outward = (ends[i][1] + ends[j][1])[0]
            size = np.linalg.norm(outward)
            if size > 1e-3:  # a slit has no outside to put poles in
                found.append(Corner(ends[i][0][0], outward / size, (first, arms[j])))
    return found


def taper(reach: float) -> np.ndarray:
    """Distances from a corner, crowding towards it."""
    k = np.arange(1, PER_RAY + 1)
    return reach * np.exp(-TAPER * (np.sqrt(PER_RAY) - np.sqrt(k)))


def turned(direction: np.ndarray, angle: float) -> np.ndarray:
    """The direction (2,) turned counterclockwise."""
    cos, sin = np.cos(angle), np.sin(angle)
    return np.array([cos * direction[0] - sin * direction[1], sin * direction[0] + cos * direction[1]])


def place_poles(domain: Domain, spacing: float) -> Tensor:
    """Points outside the domain (N, 2) for functions with a pole; `spacing` is that of the points on the boundary."""
    if domain.dimension != 2:
        return torch.zeros(0, domain.dimension, dtype=torch.float64)
    parts = [c.point + taper(c.reach)[:, None] * turned(c.outward, a) for c in find_corners(domain) for a in RAYS]
    parts += [_ring(piece, spacing) for piece in domain._pieces if isinstance(piece, Curve) and _is_hole(piece)]
    poles = np.concatenate([np.zeros((0, 2)), *parts])
    return torch.from_numpy(poles[~domain._inside(poles)]) if len(poles) else torch.from_numpy(poles)


def crowd(domain: Domain, spacing: float) -> list[tuple[tuple[str, ...], Tensor, Tensor]]:
    """More boundary points: crowding towards every corner, and between those that a hole has already.

    Each entry has the names of a piece, points (P, 2) and normals (P, 2).
    """
    found = []
    for piece in domain._pieces:
        if isinstance(piece, Curve) and _is_hole(piece):
            count = max(4, round(piece.measure / spacing))
            points, normals = piece.at(piece.start + piece.measure * np.arange(count) / count)
            found.append((piece.names, torch.from_numpy(points), torch.from_numpy(normals)))
    for corner in find_corners(domain):
        for arm in corner.arms:
            distances = taper(corner.reach)
            points, normals = arm.away(distances[distances < min(spacing, 0.5 * arm.piece.measure)])
            found.append((arm.piece.names, torch.from_numpy(points), torch.from_numpy(normals)))
    return found


def _is_hole(piece: Curve) -> bool:
    """True for a closed curve around a hole: its outward normals point to the inside of the curve."""
    return piece.closed and piece.flux() < 0


def _ring(piece: Curve, spacing: float) -> np.ndarray:
    count = max(8, round(RING * piece.measure / spacing))
    arc = piece.start + piece.measure * (np.arange(count) + 0.5) / count
    points, normals = piece.at(arc)
    depth = min(DEPTH * piece.measure / count, DEEPEST * piece.measure / (2 * np.pi))
    return points + depth * normals
