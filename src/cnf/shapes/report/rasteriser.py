"""A z-buffer in NumPy: which face is seen in which pixel, and where in it.

In come vertices, faces and a direction to look from; out go a `Camera` (perspective) and `Hits`, the nearest face of
every pixel with barycentric coordinates. Faces are handled in groups of similar size on the screen, all pixels of a
group at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NARROW = np.deg2rad(24.0)  # angle of view: long lens, little distortion
FILLED = 0.90  # of the picture's side
CHUNK = 1 << 16  # pixels at a time: what the processor's cache holds


@dataclass(frozen=True)
class Camera:
    """An eye and the rotation into its frame: rows are right, up, and backwards (towards the eye)."""

    eye: np.ndarray  # (3,)
    turn: np.ndarray  # (3, 3)
    scale: float  # pixels per unit of slope
    centre: np.ndarray  # (2,) pixel of the axis

    def project(self, points: np.ndarray) -> np.ndarray:
        """Column, row (from the top) and depth (distance along the axis) of points (P, 3), in pixels: (P, 3)."""
        local = (points - self.eye) @ self.turn.T
        depth = -local[:, 2]
        column = self.centre[0] + self.scale * local[:, 0] / depth
        row = self.centre[1] - self.scale * local[:, 1] / depth
        return np.stack([column, row, depth], axis=1)


@dataclass(frozen=True)
class Hits:
    """What each pixel of a picture of S x S pixels shows."""

    face: np.ndarray  # (S, S), -1 for none
    depth: np.ndarray  # (S, S), infinite for none
    weights: np.ndarray  # (n, 3) barycentric coordinates of the pixels with a face, row by row


def aim(vertices: np.ndarray, azimuth: float, elevation: float, side: int) -> Camera:
    """A camera that sees all `vertices` (V, 3) from the given direction (degrees; y is up), as large as fits."""
    theta, phi = np.deg2rad(azimuth), np.deg2rad(elevation)
    backwards = np.array([np.sin(theta) * np.cos(phi), np.sin(phi), np.cos(theta) * np.cos(phi)])
    right = np.array([np.cos(theta), 0.0, -np.sin(theta)])
    turn = np.stack([right, np.cross(backwards, right), backwards])
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    middle = (low + high) / 2
    radius = max(float(np.linalg.norm(vertices - middle, axis=1).max()), 1e-300)
    eye = middle + backwards * radius / np.sin(NARROW / 2)
    camera = Camera(eye, turn, 1.0, np.zeros(2))
    slopes = camera.project(vertices)[:, :2]
    lowest, highest = slopes.min(axis=0), slopes.max(axis=0)
    scale = FILLED * side / max(float((highest - lowest).max()), 1e-300)
    return Camera(eye, turn, scale, side / 2 - scale * (lowest + highest) / 2)


def cover(spots: np.ndarray, faces: np.ndarray, side: int) -> Hits:
    """The nearest face of every pixel, from projected vertices (V, 3): column, row, depth."""
    corners = spots[faces]  # (F, 3, 3)
    a, b, c = (corners[:, k, :2] for k in range(3))
    low = np.floor(np.minimum(np.minimum(a, b), c) - 0.5).astype(np.int64) + 1  # first pixel whose centre may be inside
    high = np.floor(np.maximum(np.maximum(a, b), c) - 0.5).astype(np.int64)
    low, high = np.maximum(low, 0), np.minimum(high, side - 1)
    extent = high - low + 1
    shown = np.flatnonzero((extent[:, 0] > 0) & (extent[:, 1] > 0))
    best = np.full(side * side, np.iinfo(np.int64).max)
    nearest, farthest = float(spots[:, 2].min()), float(spots[:, 2].max())
    spread = (2**30 - 1) / (farthest - nearest or 1.0)
    # Groups by the size of the box, rounded up to powers of two, keep the number of empty tests down.
    width, height = (2 ** np.ceil(np.log2(extent[shown, k])).astype(np.int64) for k in (0, 1))
    kinds, kind = np.unique(width * (4 * side) + height, return_inverse=True)
    order = np.argsort(kind, kind="stable")
    groups = np.split(shown[order], np.cumsum(np.bincount(kind))[:-1])
    for code, group in zip(kinds.tolist(), groups, strict=True):
        across, down = divmod(code, 4 * side)
        portion = max(1, CHUNK // (across * down))
        for start in range(0, len(group), portion):
            pixel, depth, number = _scan(corners, low, group[start : start + portion], across, down, side)
            level = np.clip((depth - nearest) * spread, 0, 2**30 - 1).astype(np.int64)
            np.minimum.at(best, pixel, (level << 32) | number)  # the depth counts first, then the face
    hit = best < np.iinfo(np.int64).max
    face = np.full(side * side, -1, dtype=np.int32)
    face[hit] = best[hit] & (2**32 - 1)
    del best, groups, order, kind, low, high, extent  # pictures of 1600 x 1600 pixels: memory counts
    depths = np.full(side * side, np.inf)
    pixel = np.flatnonzero(hit)
    weights = np.empty((len(pixel), 3))
    for start in range(0, len(pixel), CHUNK):
        part = pixel[start : start + CHUNK]
        place = _resolve(corners[face[part]], part % side + 0.5, part // side + 0.5)
        weights[start : start + CHUNK], depths[part] = place
    return Hits(face.reshape(side, side), depths.reshape(side, side), weights)


def _scan(
    corners: np.ndarray, low: np.ndarray, group: np.ndarray, across: int, down: int, side: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Test the boxes of `group`, all of one size: pixels (n,), depths (n,) and faces (n,) of the hits."""
    a, b, c = corners[group, 0], corners[group, 1], corners[group, 2]  # (n, 3)
    first = low[group]
    columns = first[:, :1] + np.arange(across)  # (n, across)
    rows = first[:, 1:] + np.arange(down)  # (n, down)
    area = (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (b[:, 1] - a[:, 1]) * (c[:, 0] - a[:, 0])
    with np.errstate(divide="ignore"):
        over = np.where(area != 0, 1 / area, np.nan)  # NaN is inside nowhere
    x, y = (columns + 0.5)[:, None, :], (rows + 0.5)[:, :, None]

    def share(p: np.ndarray, q: np.ndarray) -> np.ndarray:
        along, rise = ((q[:, 0] - p[:, 0]) * over)[:, None, None], ((q[:, 1] - p[:, 1]) * over)[:, None, None]
        return along * (y - p[:, 1, None, None]) - rise * (x - p[:, 0, None, None])  # (n, down, across)

    u, v = share(b, c), share(c, a)
    w = 1 - u - v
    tolerance = -1e-9  # pixels on a shared edge belong to both faces rather than to none
    inside = (u >= tolerance) & (v >= tolerance) & (w >= tolerance)
    inside &= (columns < side)[:, None, :] & (rows < side)[:, :, None]
    n, row, column = np.nonzero(inside)
    # 1 / depth is what is linear on the screen.
    inverse = u[inside] / a[n, 2] + v[inside] / b[n, 2] + w[inside] / c[n, 2]
    return rows[n, row] * side + columns[n, column], 1 / inverse, group[n]


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Inner products (n,) of rows (n, 3)."""
    return np.einsum("nd,nd->n", a, b)


def _resolve(corners: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Barycentric coordinates in space (n, 3) and depth (n,) of pixels at x, y (n,) in their faces (n, 3, 3)."""
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    area = (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (b[:, 1] - a[:, 1]) * (c[:, 0] - a[:, 0])
    u = ((c[:, 0] - b[:, 0]) * (y - b[:, 1]) - (c[:, 1] - b[:, 1]) * (x - b[:, 0])) / area
    v = ((a[:, 0] - c[:, 0]) * (y - c[:, 1]) - (a[:, 1] - c[:, 1]) * (x - c[:, 0])) / area
    flat = np.stack([u, v, 1 - u - v], axis=1).clip(0, 1) / corners[:, :, 2]
    total = flat.sum(axis=1)
    return flat / total[:, None], 1 / total
