"""Connected parts: a domain may lie in pieces that do not touch; what is known on one says nothing about another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cnf.pde.domains.boundary import Curve, End
from cnf.pde.domains.domain import Domain
from cnf.pde.domains.timed import Timed

MEETING = 1e-6  # of the domain: ends of curves that meet
ALONG = 256  # points of a loop by which it is told which one holds a point


@dataclass(frozen=True, eq=False)
class Parts:
    """Parts by their outer loops, polygons (V, 2), the smallest first, or by intervals (2, 1); none if there is one."""

    outlines: tuple[np.ndarray, ...]

    @property
    def count(self) -> int:
        return max(1, len(self.outlines))

    def of(self, points: np.ndarray) -> np.ndarray:
        """The number of the part that every point (P, D) lies in, on, or nearest to, (P,)."""
        if self.count == 1:
            return np.zeros(len(points), dtype=np.int64)
        depth = np.stack([_depth(outline, points) for outline in self.outlines])
        room = np.array([2 * np.abs(np.diff(outline, axis=0)).max() for outline in self.outlines])
        within = depth > -np.where(room < 0.1 * np.ptp(self.outlines[-1]), room, 0.0)[:, None]  # on it counts, too
        return np.where(within.any(axis=0), within.argmax(axis=0), depth.argmax(axis=0))

    def middle(self, number: int) -> str:
        """Where a part lies, in words."""
        low, high = self.outlines[number].min(axis=0), self.outlines[number].max(axis=0)
        return f"({', '.join(f'{x:.3g}' for x in (low + high) / 2)})"


def connected_parts(domain: Domain) -> Parts:
    """In one and two dimensions of space, from the boundary; elsewhere nothing is known."""
    space = domain.space if isinstance(domain, Timed) else domain
    pieces = space._pieces
    if space.dimension == 1:
        ends = sorted((piece.place, piece.normal) for piece in pieces if isinstance(piece, End))
        low, high = ([place for place, normal in ends if normal == side] for side in (-1, 1))
        return Parts(tuple(np.array([[a], [b]]) for a, b in zip(low, high, strict=False)) if len(low) > 1 else ())
    if space.dimension != 2:
        return Parts(())
    size = max(b - a for a, b in zip(space.lower, space.upper, strict=True))
    loops = _loops([piece for piece in pieces if isinstance(piece, Curve)], MEETING * size)
    outer = sorted((loop for loop in loops if _area(loop) > 0), key=_area)
    return Parts(tuple(outer) if len(outer) > 1 else ())


def _loops(curves: list[Curve], near: float) -> list[np.ndarray]:
    """Closed polygons along the boundary, with the inside to the left; none if ends do not meet as they should."""
    found: list[np.ndarray] = []
    waiting: list[np.ndarray] = []
    for curve in curves:
        points = curve.at(np.linspace(curve.start, curve.end, ALONG, endpoint=not curve.closed))[0]
        (found if curve.closed else waiting).append(points if _runs_left(curve) else points[::-1])
    while waiting:
        chain = [waiting.pop()]
        while np.abs(chain[-1][-1] - chain[0][0]).max() > near:
            gaps = [np.abs(points[0] - chain[-1][-1]).max() for points in waiting]
            if not gaps or min(gaps) > near:
                return []
            chain.append(waiting.pop(int(np.argmin(gaps))))
        found.append(np.concatenate(chain))
    return found


def _runs_left(curve: Curve) -> bool:
    """Whether the inside lies to the left of the direction in which arc length grows."""
    middle, step = (curve.start + curve.end) / 2 + 1e-4 * curve.measure, 1e-6 * curve.measure
    points, normals = curve.at(np.array([middle - step, middle, middle + step]))
    along = points[2] - points[0]
    return bool(along[1] * normals[1, 0] - along[0] * normals[1, 1] > 0)


def _area(loop: np.ndarray) -> float:
    x, y = (loop - loop[0]).T
    return float((x * np.roll(y, -1) - y * np.roll(x, -1)).sum() / 2)


def _depth(outline: np.ndarray, points: np.ndarray) -> np.ndarray:
    """How deep points (P, D) lie in an interval or a polygon, negative outside."""
    if outline.shape[1] == 1:
        return np.minimum(points[:, 0] - outline[0, 0], outline[1, 0] - points[:, 0])
    from scipy.spatial import cKDTree

    x, y = points[:, :1], points[:, 1:2]
    start, end = outline, np.roll(outline, -1, axis=0)
    odd = np.zeros(len(points), dtype=bool)
    for k in range(0, len(points), 4096):
        part = slice(k, k + 4096)
        with np.errstate(divide="ignore", invalid="ignore"):
            crossing = start[:, 0] + (y[part] - start[:, 1]) * ((end - start)[:, 0] / (end - start)[:, 1])
        between = (start[:, 1] <= y[part]) != (end[:, 1] <= y[part])
        odd[part] = (between & (x[part] < crossing)).sum(axis=1) % 2 == 1
    distance, _ = cKDTree(outline).query(points[:, :2])
    return np.where(odd, distance, -distance)
