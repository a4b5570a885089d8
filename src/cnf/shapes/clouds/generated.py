"""Point clouds the project makes itself, with exact normals: for the demo, the examples and the tests."""

from __future__ import annotations

import numpy as np

from cnf.shapes.clouds.cloud import PointCloud
from cnf.shapes.clouds.thinning import thin

CANDIDATES = 8  # random points drawn for every one that is kept
TUBE = 0.45  # radius of the knot's tube; its axis lies about 1 to 3 from the middle


def sample_knot(count: int = 4000, seed: int = 0) -> PointCloud:
    """A tube around a trefoil knot: at most so many points, evenly spread, outward normals, colours along it.

    For a tube around the curve c(t) with unit vectors u, v across it, the normal at c + TUBE (cos a u + sin a v) is
    cos a u + sin a v; the area element is |c'| TUBE (1 - TUBE cos(a - a') / r), r the radius of curvature.

    >>> cloud = cnf.shapes.sample_knot(200)
    >>> cloud.points.shape == cloud.normals.shape, len(cloud.points) <= 200
    (True, True)
    """
    random = np.random.default_rng(seed)
    kept: list[np.ndarray] = []
    missing = CANDIDATES * count
    while missing > 0:
        t, angle, chance = random.random((3, 2 * missing + 64)) * np.array([[2 * np.pi], [2 * np.pi], [1.0]])
        share = area_element(t, angle) / LARGEST_AREA
        chosen = np.stack([t, angle], axis=1)[chance < share][:missing]
        kept.append(chosen)
        missing -= len(chosen)
    t, angle = np.concatenate(kept).T
    centre, across, beyond = knot_frame(t)
    normals = np.cos(angle)[:, None] * across + np.sin(angle)[:, None] * beyond
    phase = t[:, None] + np.array([0.0, 2.0, 4.0]) * np.pi / 3
    colours = 0.55 + 0.4 * np.cos(phase)
    chosen = thin(centre + TUBE * normals, count, seed)  # random points leave gaps, in which the surface is a guess
    return PointCloud(centre + TUBE * normals, normals, {"colours": colours}).take(chosen)


def knot_curve(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The trefoil knot and its first two derivatives, each (P, 3)."""
    two, three = 2 * t, 3 * t
    place = [np.sin(t) + 2 * np.sin(two), np.cos(t) - 2 * np.cos(two), -np.sin(three)]
    slope = [np.cos(t) + 4 * np.cos(two), -np.sin(t) + 4 * np.sin(two), -3 * np.cos(three)]
    bend = [-np.sin(t) - 8 * np.sin(two), -np.cos(t) + 8 * np.cos(two), 9 * np.sin(three)]
    return np.stack(place, axis=1), np.stack(slope, axis=1), np.stack(bend, axis=1)


def knot_frame(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points of the knot and two unit vectors across it: towards the centre of curvature, and beyond."""
    place, slope, bend = knot_curve(t)
    tangent = slope / np.linalg.norm(slope, axis=1, keepdims=True)
    across = bend - np.einsum("pd,pd->p", bend, tangent)[:, None] * tangent
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    return place, across, np.cross(tangent, across)


def area_element(t: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Area of the tube per unit of both parameters, over its radius."""
    _, slope, bend = knot_curve(t)
    speed = np.linalg.norm(slope, axis=1)
    curvature = np.linalg.norm(np.cross(slope, bend), axis=1) / speed**3
    return speed * (1 - TUBE * curvature * np.cos(angle))


LARGEST_AREA = float(area_element(np.linspace(0, 2 * np.pi, 2001), np.full(2001, np.pi)).max()) * 1.001
