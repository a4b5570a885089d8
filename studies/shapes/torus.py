"""Shapes, a rippled torus: points uniform over its area with exact normals, so that no data are needed."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from cnf.meshes.mesh import Mesh, unit_rows

RADIUS, TUBE, RIPPLE, AROUND, ACROSS = 0.68, 0.28, 0.12, 6, 3  # the torus, its ripples and how many there are
AT_ONCE = 1_000_000  # points drawn together: of more, what is not kept would take more memory than anything later
STEPS = 6  # of Gauss and Newton, for distances


def sample_torus(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Independent points (P, 3), uniform over the area of the rippled torus, and their exact normals (P, 3).

    Angles are drawn uniformly and kept with a probability that follows the area they stand for.
    """
    random = np.random.default_rng(seed)
    # |x_u| and |x_v| are at most these, so their product is never less than the area of an angle.
    largest = (RADIUS + TUBE * (1 + RIPPLE * (1 + AROUND))) * TUBE * (1 + RIPPLE * (1 + ACROSS))
    kept: list[tuple[np.ndarray, np.ndarray]] = []
    missing = count
    while missing > 0:
        angles = random.uniform(0, 2 * np.pi, size=(2, 4 * min(missing, AT_ONCE) + 100))
        points, crosses = _surface(*angles)
        chosen = random.random(len(points)) * largest < np.linalg.norm(crosses, axis=1)
        kept.append((points[chosen][:missing], unit_rows(crosses[chosen][:missing])))
        missing -= len(kept[-1][0])
    return np.concatenate([p for p, _ in kept]), np.concatenate([n for _, n in kept])


def mesh_torus(around: int = 900, across: int = 400) -> Mesh:
    """The torus as facets, at most 4e-5 from it."""
    u, v = np.meshgrid(*(2 * np.pi * np.arange(n) / n for n in (around, across)), indexing="ij")
    vertices = _surface(u.ravel(), v.ravel())[0]
    number = np.arange(around * across).reshape(around, across)
    a, b = number, np.roll(number, -1, axis=0)
    c, d = np.roll(b, -1, axis=1), np.roll(a, -1, axis=1)
    faces = np.concatenate([np.stack(t, axis=-1).reshape(-1, 3) for t in ((a, b, c), (a, c, d))])
    return Mesh(vertices, faces)


def find_on_torus(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distances (P,) of places (P, 3) from the torus itself, not from facets, and its normals (P, 3) there.

    From the nearest of many points of the surface a few steps of Gauss and Newton in the angles, which are precise for
    places that are near; one that went astray keeps the distance from that point.
    """
    angles = np.stack(np.meshgrid(*(2 * np.pi * np.arange(n) / n for n in (900, 400)), indexing="ij"), -1).reshape(
        -1, 2
    )
    best, nearest = cKDTree(_surface(*angles.T)[0]).query(places)
    at = angles[nearest]  # (P, 2)
    normals = _surface(*at.T)[1]
    for _ in range(STEPS):
        points, *along = _slopes(*at.T)
        slopes = np.stack(along, axis=2)  # (P, 3, 2)
        square = np.einsum("pdi,pdj->pij", slopes, slopes)
        side = np.einsum("pdi,pd->pi", slopes, places - points)
        at = at + np.linalg.solve(square, side[:, :, None])[:, :, 0]
        points, crosses = _surface(*at.T)
        now = np.linalg.norm(places - points, axis=1)
        normals = np.where((now < best)[:, None], crosses, normals)
        best = np.minimum(best, now)
    return best, unit_rows(normals)


def _surface(u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points (P, 3) at the angles around (u) and across (v), and the cross products x_u, x_v, which look outward."""
    points, along_u, along_v = _slopes(u, v)
    return points, np.cross(along_u, along_v)


def _slopes(u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points (P, 3) at the angles, and their derivatives x_u and x_v (P, 3)."""
    tube = TUBE * (1 + RIPPLE * np.cos(AROUND * u) * np.cos(ACROSS * v))
    tube_u = -TUBE * RIPPLE * AROUND * np.sin(AROUND * u) * np.cos(ACROSS * v)
    tube_v = -TUBE * RIPPLE * ACROSS * np.cos(AROUND * u) * np.sin(ACROSS * v)
    out, side = np.stack([np.cos(u), np.sin(u)], 1), np.stack([-np.sin(u), np.cos(u)], 1)  # (P, 2)
    far = RADIUS + tube * np.cos(v)
    points = np.column_stack([far[:, None] * out, tube * np.sin(v)])
    along_u = np.column_stack([(tube_u * np.cos(v))[:, None] * out + far[:, None] * side, tube_u * np.sin(v)])
    outward = tube_v * np.cos(v) - tube * np.sin(v)
    along_v = np.column_stack([outward[:, None] * out, tube_v * np.sin(v) + tube * np.cos(v)])
    return points, along_u, along_v
