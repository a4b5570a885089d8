"""Meeting: which cells have a part of a domain in them, of its boundary, or of some curves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.spatial import cKDTree

from cnf.pde.domains import Domain, Timed
from cnf.pde.domains.boundary import Curve

TRACED = 513  # points of a curve
LATTICE = 12  # points along every coordinate by which a cell is judged


def meets_domain(domain: Domain, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Which boxes with corners (n, D) have a part of the domain in them."""
    if isinstance(domain, Timed):
        return meets_domain(domain.space, lower[:, :-1], upper[:, :-1])
    if domain._is_box:
        return np.all((lower < np.array(domain.upper)) & (upper > np.array(domain.lower)), axis=1)
    return _lattice_inside(domain, lower, upper).any(axis=1) | meets_boundary(domain, lower, upper)


def meets_boundary(domain: Domain, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Which boxes with corners (n, D) have a part of the boundary in them, by the distance to it."""
    distance = np.abs(domain._depth((lower + upper) / 2))
    return distance <= np.linalg.norm(upper - lower, axis=1) / 2


def meets_curves(curves: Sequence[Curve], lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Which boxes with corners (n, D) may have a part of these curves in them, some near ones included."""
    near = np.zeros(len(lower), dtype=bool)
    lower, upper = lower[:, :2], upper[:, :2]  # at all times
    for curve in curves:
        points, _ = curve.at(np.linspace(curve.start, curve.end, TRACED))
        spacing = curve.measure / (TRACED - 1)
        distance, _ = cKDTree(points).query((lower + upper) / 2)
        near |= distance <= np.linalg.norm(upper - lower, axis=1) / 2 + spacing
    return near


def _lattice_inside(domain: Domain, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    points = lattice(lower, upper)
    return domain._inside(points.reshape(-1, points.shape[2])).reshape(points.shape[:2])


def lattice(lower: np.ndarray, upper: np.ndarray, count: int = LATTICE) -> np.ndarray:
    """Points evenly spread in boxes (n, D), `count` along every coordinate, (n, P, D)."""
    unit = (np.arange(count) + 0.5) / count
    grid = np.stack([g.ravel() for g in np.meshgrid(*[unit] * lower.shape[1], indexing="ij")], axis=1)
    return lower[:, None] + (upper - lower)[:, None] * grid
