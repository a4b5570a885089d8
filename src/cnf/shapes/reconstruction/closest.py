"""The place on a mesh that is closest to a point, as a face and barycentric coordinates in it."""

from __future__ import annotations

import numpy as np

from cnf.meshes.distances import ClosestPoints
from cnf.meshes.mesh import Mesh


def find_closest(
    vertices: np.ndarray, faces: np.ndarray, points: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Face (P,), barycentric coordinates (P, 3) and distance (P,) of the closest place to each of `points` (P, 3)."""
    found = ClosestPoints(Mesh(vertices, faces)).find(points)
    return found.faces, locate(points, vertices[faces[found.faces]]), found.distances


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
