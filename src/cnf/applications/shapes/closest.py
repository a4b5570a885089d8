"""The place on a mesh that is closest to a point: which face, and where in it.

In come vertices, faces and points; out go for each point the face, barycentric coordinates in it, and the distance.
Faces are found by their middles, in growing numbers until none left out can be closer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from cnf.data.mesh import Mesh

CHUNK = 1 << 18  # pairs of point and face at a time
MOST = 128  # faces tried per point; only faces far larger than their neighbours could then be missed


def find_closest(
    vertices: np.ndarray, faces: np.ndarray, points: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Face (P,), barycentric coordinates (P, 3) and distance (P,) of the closest place to each of `points` (P, 3)."""
    corners = vertices[faces]  # (F, 3, 3)
    middles = corners.mean(axis=1)
    radius = float(np.sqrt(_dot(spread := corners - middles[:, None], spread).max()))
    tree = cKDTree(middles)
    face = np.zeros(len(points), dtype=np.int64)
    weights = np.zeros((len(points), 3))
    distance = np.full(len(points), np.inf)
    open_points, tried = np.arange(len(points)), min(16, len(faces))
    while len(open_points):
        done = []
        for start in range(0, len(open_points), max(1, CHUNK // tried)):
            rows = open_points[start : start + max(1, CHUNK // tried)]
            apart, candidates = tree.query(points[rows], k=tried)
            apart, candidates = apart.reshape(len(rows), tried), candidates.reshape(len(rows), tried)
            place = locate(points[rows][:, None], corners[candidates])  # (n, tried, 3)
            there = np.einsum("nkc,nkcd->nkd", place, corners[candidates])
            reach = np.sqrt(_dot(away := there - points[rows][:, None], away))
            best = np.argmin(reach, axis=1)
            one = np.arange(len(rows))
            face[rows], weights[rows], distance[rows] = candidates[one, best], place[one, best], reach[one, best]
            done.append(apart[:, -1] >= distance[rows] + radius)
        open_points = open_points[~np.concatenate(done)]
        if tried == min(MOST, len(faces)):
            break
        tried = min(2 * tried, MOST, len(faces))
    return face, weights, distance


def locate(points: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Barycentric coordinates (..., 3) of the place in triangles (..., 3, 3) closest to points (..., 3).

    Where the foot of the perpendicular lies outside, the closest place is on one of the sides.
    """
    a, b, c = corners[..., 0, :], corners[..., 1, :], corners[..., 2, :]
    u, v, w = b - a, c - a, points - a
    with np.errstate(divide="ignore", invalid="ignore"):
        slant = _dot(u, v) / _dot(u, u)
        height = v - slant[..., None] * u  # at right angles to u: a determinant would lose the digits of thin faces
        t = _dot(w, height) / _dot(height, height)
        s = _dot(w, u) / _dot(u, u) - t * slant
    foot = np.stack([1 - s - t, s, t], axis=-1)
    outside = ~((1 - s - t >= 0) & (s >= 0) & (t >= 0))  # also where a face without area gives NaN
    if np.any(outside):
        foot[outside] = _locate_on_sides(points - 0 * a, corners, outside)
    return foot


def _locate_on_sides(points: np.ndarray, corners: np.ndarray, rows: np.ndarray) -> np.ndarray:
    points, corners = points[rows], corners[rows]
    best = np.full(len(points), np.inf)
    answer = np.zeros((len(points), 3))
    for i in range(3):
        a, along = corners[:, i], corners[:, (i + 1) % 3] - corners[:, i]
        square = _dot(along, along)
        t = np.divide(_dot(points - a, along), square, out=np.zeros_like(square), where=square > 0).clip(0, 1)
        apart = np.sum((a + t[:, None] * along - points) ** 2, axis=1)
        closer = apart < best
        best[closer] = apart[closer]
        row = np.zeros((int(closer.sum()), 3))
        row[:, i], row[:, (i + 1) % 3] = 1 - t[closer], t[closer]
        answer[closer] = row
    return answer


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("...d,...d->...", a, b)


# The class below is a view of find_closest for measures and scaling.
@dataclass(frozen=True)
class Closest:
    """For every point: the distance, the face and the place on it."""

    distances: np.ndarray
    faces: np.ndarray
    points: np.ndarray


class ClosestPoints:
    """The closest places of one mesh, for any number of queries."""

    def __init__(self, mesh: Mesh):
        self._mesh = mesh

    def find(self, points: np.ndarray) -> Closest:
        face, weights, distance = find_closest(self._mesh.vertices, self._mesh.faces, points)
        corners = self._mesh.vertices[self._mesh.faces[face]]
        return Closest(distance, face, (corners * weights[:, :, None]).sum(axis=1))
