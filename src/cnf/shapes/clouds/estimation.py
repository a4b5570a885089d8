"""Clouds, directions of normals: fitted to the points around each, on one sheet where several lie close.

In come points (P, D), D = 2 or 3; out go unit normals (P, D) of either sign. In space there are two steps, for every
point by itself:

    planes      through the point and two of its nearest; the one that has most of its neighbours along it is taken.
                A plane across two sheets of a thin part has few: what is far off a plane does not pull at it.
    quadrics    over that plane by least squares, with weights that fall with the distance from the last fit. The error
                of a plane falls with the spacing h of the points, that of a quadric with h^2.

Heights are measured as elevations, height over distance: near points must fit better than far ones. Where points are
noisy they cannot: how far they are off the quadrics is measured on a sample first, and where it is much, planes are
fitted by least squares.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.spatial import cKDTree

from cnf.errors import ConstraintError
from cnf.meshes.mesh import unit_rows

NEIGHBOURS = 20  # to which a quadric is fitted
CHUNK = 1 << 13  # points whose neighbours are held at once
ASIDE = 6  # nearest points, any two of which make a plane
NARROW = 0.2  # sine between these two, seen from the point, below which they make none
ALONG, WITHIN = 0.12, 0.2  # elevations at which a point counts e^-1: from a plane, from a quadric
FIRST = 0.35  # the same for the first quadric, which has not seen that the surface bends
ROUNDS = 2
NOISY = 0.035  # of the reach of its neighbours: where points are off by more, planes of least squares are better
SAMPLE = 2000  # points from which the noise of the cloud is taken
MOST, SPREAD = 0.4, 5.0  # share of the points within the noise, and how far beyond it they still count
ANCHOR = 1.0  # how much the point itself counts, of one that is near
STIFF, LEVEL = 1e-3, 1e-3  # how little a quadric bends, and tilts, where its points do not ask for it


def estimate_normals(points: np.ndarray, neighbours: int = NEIGHBOURS, at: np.ndarray | None = None) -> np.ndarray:
    """Unit normals (P, D) of either sign, from that many points around each.

    `at` are numbers of points, if normals are wanted at some only.

    >>> points = np.random.default_rng(0).normal(size=(300, 3))
    >>> points /= np.linalg.norm(points, axis=1, keepdims=True)  # on the unit sphere
    >>> normals = cnf.shapes.estimate_normals(points)
    >>> bool((np.abs((normals * points).sum(axis=1)) > 0.9).all())  # of a unit sphere they are its points, up to signs
    True
    """
    if points.ndim == 2 and points.shape[1] == 2:
        return fit_planes(points, neighbours, at)[0]
    neighbours = check_neighbours(points, neighbours)
    tree = cKDTree(points)
    rows = np.arange(len(points)) if at is None else np.asarray(at)
    usual = float(np.median(_fit(points, tree, np.arange(0, len(points), len(points) // SAMPLE + 1), neighbours)[1]))
    if usual > NOISY:
        return fit_planes(points, neighbours, at)[0]
    chunks = range(0, len(rows), CHUNK)
    return np.concatenate([_fit(points, tree, rows[k : k + CHUNK], neighbours, usual)[0] for k in chunks])


def _fit(
    points: np.ndarray, tree: cKDTree, rows: np.ndarray, neighbours: int, usual: float = np.inf
) -> tuple[np.ndarray, np.ndarray]:
    """Normals (p, 3) at some points, and how far most of the points around are off the fit (p,), of their reach."""
    distance, near = tree.query(points[rows], k=[*range(2, neighbours + 2)])
    reach = np.maximum(distance[:, -1:], np.finfo(float).tiny)
    step = (points[near] - points[rows][:, None]) / reach[:, :, None]  # (p, k, 3), in the unit ball
    apart = np.maximum(distance / reach, 1e-12)
    weights = (1 - 0.9999 * apart**2) ** 2  # (p, k)
    return _fit_quadrics(step, apart, weights, _choose_planes(step, apart, weights), usual)


def fit_planes(points: np.ndarray, neighbours: int = 12, at: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Normals (P, D) of planes of least squares, and how thick the points are across (P,): 0 in a plane, 1 no plane.

    Variance across the plane over the least along it. Where it is not small the points go around an edge or a limb, or
    lie on both sides of a sheet, and the plane says nothing about a normal.
    """
    count, dimension = points.shape
    neighbours = check_neighbours(points, neighbours)
    tree = cKDTree(points)
    rows = np.arange(count) if at is None else np.asarray(at)
    normals, thickness = np.empty((len(rows), dimension)), np.empty(len(rows))
    for start in range(0, len(rows), CHUNK):
        part = slice(start, start + CHUNK)
        _, near = tree.query(points[rows[part]], k=neighbours + 1)
        spread = points[near] - points[near].mean(axis=1, keepdims=True)  # (p, k, D)
        spread /= np.maximum(np.abs(spread).max(axis=(1, 2), keepdims=True), np.finfo(float).tiny)
        variance, axes = np.linalg.eigh(np.einsum("pki,pkj->pij", spread, spread))
        normals[part] = axes[:, :, 0]
        thickness[part] = variance[:, 0].clip(0) / np.maximum(variance[:, 1], np.finfo(float).tiny)
    return normals, thickness


def check_neighbours(points: np.ndarray, neighbours: int) -> int:
    """How many neighbours there can be."""
    if points.ndim != 2 or points.shape[1] not in (2, 3):
        raise ConstraintError(f"points are one row each, (P, 3) or (P, 2), got shape {points.shape}")
    if neighbours < points.shape[1]:
        raise ConstraintError(f"normals need at least {points.shape[1]} neighbours, got {neighbours}")
    if len(points) <= points.shape[1]:
        raise ConstraintError(f"normals need more than {points.shape[1]} points, got {len(points)}")
    return min(neighbours, len(points) - 1)


def _choose_planes(step: np.ndarray, apart: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Unit normals (p, 3) of the planes that have most of the steps (p, k, 3) along them."""
    ways = step / apart[:, :, None]
    one, two = np.array([*combinations(range(min(ASIDE, step.shape[1])), 2)]).T
    planes = np.cross(ways[:, one], ways[:, two])  # (p, c, 3)
    sine = np.sqrt(np.sum(planes * planes, axis=2))
    planes /= np.maximum(sine, 1e-12)[:, :, None]
    elevation = np.matmul(ways, planes.transpose(0, 2, 1))  # (p, k, c)
    along = np.matmul(weights[:, None], np.exp(-((elevation / ALONG) ** 2)))[:, 0]  # (p, c)
    best = np.argmax(np.where(sine > NARROW, along, -1.0), axis=1)
    found = planes[np.arange(len(step)), best]
    found[~found.any(axis=1)] = np.eye(3)[2]  # all neighbours on one line, or in one place
    return unit_rows(found)


def _fit_quadrics(
    step: np.ndarray, apart: np.ndarray, weights: np.ndarray, normals: np.ndarray, usual: float
) -> tuple[np.ndarray, np.ndarray]:
    """The normals (p, 3) of z = a x + b y + c x^2 / 2 + d x y + e y^2 / 2 + f over the planes, tilted towards it.

    What most of the points are off after the first fit is noise, and the fit then takes them in, near ones too; but no
    more than is usual in this cloud, for in one without noise it is the other side of a thin part.
    """
    size = weights.sum(axis=1)[:, None] / weights.shape[1]
    stiffness = size * np.array([LEVEL, LEVEL, STIFF, STIFF, STIFF, 0.0])  # (p, 6)
    off, width, noise = None, FIRST, np.zeros((len(step), 1))
    for _ in range(ROUNDS):
        first = unit_rows(np.cross(normals, np.eye(3)[np.argmin(np.abs(normals), axis=1)]))
        axes = np.stack([first, np.cross(normals, first), normals], axis=2)  # (p, 3, 3)
        x, y, z = np.moveaxis(np.matmul(step, axes), 2, 0)
        terms = np.stack([x, y, x * x / 2, x * y, y * y / 2, np.ones_like(x)], axis=1)  # (p, 6, k)
        off = z if off is None else off
        for _ in range(2):
            allowed = width * apart + SPREAD * noise
            held = terms * (weights / (allowed * allowed) * np.exp(-((off / allowed) ** 2)))[:, None]
            matrix = np.matmul(held, terms.transpose(0, 2, 1))
            scale = 1 / (width + SPREAD * noise) ** 2
            matrix[:, range(6), range(6)] += stiffness * scale
            matrix[:, 5, 5] += (ANCHOR * size / (1e-6 + (SPREAD * noise) ** 2))[:, 0]  # the point itself
            found = np.linalg.solve(matrix, np.matmul(held, z[:, :, None]))  # (p, 6, 1)
            off, width = z - np.matmul(terms.transpose(0, 2, 1), found)[:, :, 0], WITHIN
            left = np.quantile(np.abs(off), MOST, axis=1)[:, None]
            noise = np.minimum(left, usual)
        normals = unit_rows(normals - np.matmul(axes[:, :, :2], found[:, :2])[:, :, 0])
    return normals, left[:, 0]
