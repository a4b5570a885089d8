"""Shapes, a rippled torus: points uniform over its area with exact normals, so that no data are needed."""

from __future__ import annotations

import numpy as np

from cnf.meshes.mesh import unit_rows

RADIUS, TUBE, RIPPLE, AROUND, ACROSS = 0.68, 0.28, 0.12, 6, 3  # the torus, its ripples and how many there are


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
        angles = random.uniform(0, 2 * np.pi, size=(2, 4 * missing + 100))
        points, crosses = _surface(*angles)
        chosen = random.random(len(points)) * largest < np.linalg.norm(crosses, axis=1)
        kept.append((points[chosen][:missing], unit_rows(crosses[chosen][:missing])))
        missing -= len(kept[-1][0])
    return np.concatenate([p for p, _ in kept]), np.concatenate([n for _, n in kept])


def _surface(u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points (P, 3) at the angles around (u) and across (v), and the cross products x_u, x_v, which look outward."""
    tube = TUBE * (1 + RIPPLE * np.cos(AROUND * u) * np.cos(ACROSS * v))
    tube_u = -TUBE * RIPPLE * AROUND * np.sin(AROUND * u) * np.cos(ACROSS * v)
    tube_v = -TUBE * RIPPLE * ACROSS * np.cos(AROUND * u) * np.sin(ACROSS * v)
    out, side = np.stack([np.cos(u), np.sin(u)], 1), np.stack([-np.sin(u), np.cos(u)], 1)  # (P, 2)
    far = RADIUS + tube * np.cos(v)
    points = np.column_stack([far[:, None] * out, tube * np.sin(v)])
    along_u = np.column_stack([(tube_u * np.cos(v))[:, None] * out + far[:, None] * side, tube_u * np.sin(v)])
    outward = tube_v * np.cos(v) - tube * np.sin(v)
    along_v = np.column_stack([outward[:, None] * out, tube_v * np.sin(v) + tube * np.cos(v)])
    return points, np.cross(along_u, along_v)
