"""Shapes, measuring: the closest point of a triangle mesh, exact in float64, for triangles of any size and shape.

In come a mesh and points (P, 3); out go distances (P,), closest points (P, 3) and the faces (P,) they lie in.

Every triangle lies in a ball around its circumcentre or the middle of its longest side. If some triangle is at distance
d from a point, then the closest one has the centre of its ball within d + (radius of the ball), so a k-d tree of
centres finds every candidate. One large triangle would spoil that radius for all, therefore triangles are sorted into
classes: those up to the median radius, and one class for every doubling above it, each with a tree of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from cnf.errors import ConstraintError
from cnf.meshes.mesh import Mesh

PAIRS = 1_000_000  # point-triangle pairs looked at together: about 200 MB
SLACK = 1e-12  # relative; the bounds of the search are rounded, the distances are not affected


@dataclass(frozen=True, eq=False)
class Closest:
    """For every point the nearest point of the mesh."""

    distances: np.ndarray  # (P,)
    points: np.ndarray  # (P, 3)
    faces: np.ndarray  # (P,)


@dataclass(frozen=True, eq=False)
class _Frames:
    """Triangles in their own planes: from `origin` along the longest side `base`, the third corner at (x, y), y >= 0.

    With the longest side as the first axis, the errors of the second one are multiplied by the height of the triangle
    only. So a distance is right to a few roundings of the coordinates for needles as well.
    """

    origin: np.ndarray  # (F, 3)
    base: np.ndarray  # (F, 3) unit
    rise: np.ndarray  # (F, 3) unit, zero if the triangle has no height
    length: np.ndarray  # (F,) of the longest side
    x: np.ndarray  # (F,)
    y: np.ndarray  # (F,)
    centre: np.ndarray  # (F, 3) of a ball around the triangle
    radius: np.ndarray  # (F,)


@dataclass(frozen=True, eq=False)
class _Class:
    """Triangles of similar size."""

    tree: cKDTree  # of their centres
    faces: np.ndarray  # (k,) numbers in the mesh
    radius: float  # the largest


class ClosestPoints:
    """A mesh made ready for questions; `find(points)` answers them."""

    def __init__(self, mesh: Mesh):
        if not len(mesh.faces) or not np.isfinite(mesh.vertices).all():
            raise ConstraintError(f"{mesh!r} has no faces, or vertices that are not finite: nothing can be close to it")
        self._frames = _make_frames(mesh)
        self._classes = _make_classes(self._frames)

    def find(self, points: np.ndarray) -> Closest:
        """The closest point of the mesh for every one of `points` (P, 3)."""
        points = np.ascontiguousarray(points, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != 3 or not np.isfinite(points).all():
            raise ConstraintError(f"expected finite points (P, 3), got shape {points.shape}")
        squares = np.full(len(points), np.inf)
        faces = np.zeros(len(points), dtype=np.int64)
        everyone = np.arange(len(points))
        for group in self._classes:  # a first bound from the nearest centre of every class
            near = group.tree.query(points)[1]
            self._improve(points, squares, faces, everyone, group.faces[near])
        for group in self._classes:
            self._search(points, squares, faces, group)
        spots = np.empty_like(points)
        for start in range(0, len(points), PAIRS):
            part = slice(start, start + PAIRS)
            spots[part] = _nearest_in_triangle(self._frames, faces[part], points[part])[1]
        return Closest(np.sqrt(squares), spots, faces)

    def _search(self, points: np.ndarray, squares: np.ndarray, faces: np.ndarray, group: _Class) -> None:
        """Try all triangles of a class that may be closer, more and more centres for the points that need them."""
        open_, count, seen = np.arange(len(points)), 8, np.zeros(len(points))  # seen: all centres nearer than that
        while len(open_):
            count = min(count, group.tree.n)
            reach = (np.sqrt(squares[open_]) + group.radius) * (1 + SLACK)
            unfinished = []
            for start in range(0, len(open_), max(1, PAIRS // count)):
                part = slice(start, start + max(1, PAIRS // count))
                some = open_[part]
                gaps, near = group.tree.query(points[some], k=count)
                gaps, near = gaps.reshape(len(some), -1), near.reshape(len(some), -1)  # k = 1 comes without an axis
                chosen = group.faces[near]  # (some, count)
                limit = np.sqrt(squares[some])[:, None] + self._frames.radius[chosen]
                # By distance, not by rank: of centres at one distance, another may have been the last before.
                rows, columns = np.nonzero((gaps <= limit * (1 + SLACK)) & (gaps >= seen[some, None]))
                self._improve(points, squares, faces, some[rows], chosen[rows, columns])
                seen[some] = gaps[:, -1] * (1 - SLACK)
                unfinished.append(some[gaps[:, -1] <= reach[part]])
            if count == group.tree.n:
                return
            open_ = np.concatenate(unfinished)
            count = 4 * count

    def _improve(
        self, points: np.ndarray, squares: np.ndarray, faces: np.ndarray, rows: np.ndarray, candidates: np.ndarray
    ) -> None:
        """Lower the distances of the points `rows` where their `candidates` (as many, rows ascending) are closer."""
        if not len(rows):
            return
        found = _nearest_in_triangle(self._frames, candidates, points[rows])[0]
        first = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
        least = np.minimum.reduceat(found, first)
        own = np.repeat(np.arange(len(first)), np.diff(np.r_[first, len(rows)]))
        winners = np.flatnonzero(found == least[own])
        winners = winners[np.r_[True, own[winners][1:] != own[winners][:-1]]]  # one of equals
        better = winners[found[winners] < squares[rows[winners]]]
        squares[rows[better]] = found[better]
        faces[rows[better]] = candidates[better]


def _make_frames(mesh: Mesh) -> _Frames:
    corners = mesh.vertices[mesh.faces]  # (F, 3, 3)
    sides = np.roll(corners, -1, axis=1) - corners  # side i runs from corner i
    longest = np.linalg.norm(sides, axis=2).argmax(axis=1)
    rows = np.arange(len(corners))
    origin, end, third = (corners[rows, (longest + k) % 3] for k in range(3))
    span = end - origin
    length = np.linalg.norm(span, axis=1)
    base = np.divide(span, length[:, None], out=np.zeros_like(span), where=length[:, None] > 0)
    to_third = third - origin
    x = (to_third * base).sum(1)
    upward = to_third - x[:, None] * base
    y = np.linalg.norm(upward, axis=1)
    rise = np.divide(upward, y[:, None], out=np.zeros_like(upward), where=y[:, None] > 0)
    # The circumcentre where it lies above the base, which makes the angles acute; else the middle of the base.
    half = length / 2
    up = np.divide((x - half) ** 2 + y**2 - half**2, 2 * y, out=np.zeros_like(y), where=y > 0)
    centre = origin + half[:, None] * base + np.maximum(up, 0.0)[:, None] * rise
    radius = np.linalg.norm(corners - centre[:, None], axis=2).max(axis=1)
    return _Frames(origin, base, rise, length, x, y, centre, radius)


def _make_classes(frames: _Frames) -> list[_Class]:
    """All triangles up to the usual size together, above that a class for every doubling."""
    usual = max(float(np.median(frames.radius)), np.finfo(float).tiny)
    level = np.ceil(np.log2(np.maximum(frames.radius / usual, 1.0))).astype(int)
    classes = []
    for value in np.unique(level):
        faces = np.flatnonzero(level == value)
        classes.append(_Class(cKDTree(frames.centre[faces]), faces, float(frames.radius[faces].max())))
    return classes


def _nearest_in_triangle(frames: _Frames, faces: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared distance (K,) and closest point (K, 3) in triangle `faces[k]` to `points[k]`."""
    base, rise, origin = frames.base[faces], frames.rise[faces], frames.origin[faces]
    away = points - origin
    u = np.einsum("kd,kd->k", away, base)
    away = away - u[:, None] * base
    v = np.einsum("kd,kd->k", away, rise)
    away = away - v[:, None] * rise  # perpendicular to the triangle
    length, x, y = frames.length[faces], frames.x[faces], frames.y[faces]
    # In the plane: inside, or on the nearest of the three sides.
    best_u, best_v = np.clip(u, 0.0, length), np.zeros_like(v)
    best = (u - best_u) ** 2 + v**2
    for start, across in ((np.zeros_like(x), x), (length, x - length)):  # from the ends of the base to the third corner
        size = across**2 + y**2
        share = np.divide((u - start) * across + v * y, size, out=np.zeros_like(u), where=size > 0)
        share = np.clip(share, 0.0, 1.0)
        at_u, at_v = start + share * across, share * y
        gap = (u - at_u) ** 2 + (v - at_v) ** 2
        closer = gap < best
        best_u, best_v = np.where(closer, at_u, best_u), np.where(closer, at_v, best_v)
        best = np.where(closer, gap, best)
    inside = (v >= 0) & (u * y >= v * x) & ((length - u) * y >= v * (length - x))
    best = np.where(inside, 0.0, best)
    best_u, best_v = np.where(inside, u, best_u), np.where(inside, v, best_v)
    squares = best + np.einsum("kd,kd->k", away, away)
    return squares, origin + best_u[:, None] * base + best_v[:, None] * rise
