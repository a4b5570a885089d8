"""Cover: overlapping balls that hold all points of a problem, each with a bounded number of them.

The points are halved along the longest side of their box until few enough are left; a ball around each part, somewhat
larger than it, is a patch.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from cnf.solvers.balls import Balls

LEAST = 1.0 + 1e-9  # a point must lie inside its ball, not on it
CROWDED = 4.0  # times as many points in a ball as it was built around: too many
ROUNDS = 12  # of cutting such parts
SMALLEST = 0.5  # of the typical radius around: no ball is smaller, so that patches overlap well everywhere
AROUND = 9  # balls of which it is taken


def cover_points(
    points: np.ndarray, size: int, overlap: float, follow_density: bool = False, tree: cKDTree | None = None
) -> Balls:
    """Balls around parts of at most `size` points (P, D), `overlap` times as large as the parts.

    `follow_density`: kernels are narrower where points lie close, and wider where they lie apart. `tree`: of the
    points, if there is one.
    """
    leaves = halve_points(points, [np.arange(points.shape[0])], size)
    tree = cKDTree(points) if tree is None else tree
    for _ in range(ROUNDS):  # parts that reach across a gap have balls full of strangers: cut them at the gap
        cover = _balls(points, leaves, overlap, follow_density)
        held = tree.query_ball_point(cover.centres, cover.radii, return_length=True)
        crowded = held > CROWDED * size
        crowded &= np.array([leaf.shape[0] > 1 for leaf in leaves])
        if not crowded.any():
            break
        kept = [leaf for leaf, full in zip(leaves, crowded, strict=True) if not full]
        leaves = kept + [
            half for leaf, full in zip(leaves, crowded, strict=True) if full for half in cut_at_gap(points, leaf)
        ]
    cover = _balls(points, leaves, overlap, follow_density)
    if not follow_density:
        return cover
    return Balls(cover.centres, cover.radii, _measure_stretch(tree, cover.centres, size))


def _measure_stretch(tree: cKDTree, centres: np.ndarray, size: int) -> np.ndarray:
    """How much closer than on average the points around each centre lie (T,): 1 everywhere on an even cloud."""
    if tree.n <= 2 * size:  # that many neighbours are all there are: they say nothing about the density
        return np.ones(len(centres))
    return stretch_of(tree.query(centres, k=[2 * size])[0][:, 0])


def stretch_of(reach: np.ndarray) -> np.ndarray:
    """The same from the distances (T,) within which there are so many points."""
    return np.exp(np.mean(np.log(reach))) / reach


def halve_points(points: np.ndarray, parts: list[np.ndarray], size: int) -> list[np.ndarray]:
    leaves: list[np.ndarray] = []
    while parts:
        halves = []
        for part in parts:
            if part.shape[0] <= size:
                leaves.append(part)
                continue
            own = points[part]
            axis = int(np.argmax(np.ptp(own, axis=0)))
            middle = part.shape[0] // 2
            order = np.argpartition(own[:, axis], middle)
            halves += [part[order[:middle]], part[order[middle:]]]
        parts = halves
    return leaves


def cut_at_gap(points: np.ndarray, leaf: np.ndarray) -> list[np.ndarray]:
    """Two parts, on either side of the widest gap along any axis."""
    sorted_along = [leaf[np.argsort(points[leaf, axis], kind="stable")] for axis in range(points.shape[1])]
    gaps = [np.diff(points[order, axis]) for axis, order in enumerate(sorted_along)]
    axis = int(np.argmax([gap.max() for gap in gaps]))
    place = int(np.argmax(gaps[axis])) + 1
    return [sorted_along[axis][:place], sorted_along[axis][place:]]


def _balls(points: np.ndarray, leaves: list[np.ndarray], overlap: float, follow_density: bool) -> Balls:
    centres, reach = measure_leaves(points, leaves)
    return Balls(centres, choose_radii(centres, reach, overlap, follow_density), np.ones(len(reach)))


def measure_leaves(points: np.ndarray, leaves: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The middle of the box around each part of the points (T, D), and how far they are from it (T,)."""
    order, counts = np.concatenate(leaves), np.array([leaf.shape[0] for leaf in leaves])
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    own = points[order]
    centres = (np.minimum.reduceat(own, starts) + np.maximum.reduceat(own, starts)) / 2
    away = np.linalg.norm(own - np.repeat(centres, counts, axis=0), axis=1)
    return centres, np.maximum.reduceat(away, starts)


def choose_radii(centres: np.ndarray, reach: np.ndarray, overlap: float, follow_density: bool) -> np.ndarray:
    """Of balls around parts (T,): somewhat larger than these, and none much smaller than those around it."""
    least = SMALLEST * _typical(centres, reach, follow_density)
    return np.maximum(reach, least) * max(overlap, LEAST)


def _typical(centres: np.ndarray, reach: np.ndarray, follow_density: bool) -> np.ndarray | float:
    """The median of all reaches; with `follow_density` of those around each centre (T,), unless these are all zero.

    Files of fields hold weights, not balls: without `follow_density` these must be what they always were.
    """
    overall = float(np.median(reach[reach > 0])) if (reach > 0).any() else 1.0
    if not follow_density:
        return overall
    near = cKDTree(centres).query(centres, k=[*range(1, min(AROUND, len(centres)) + 1)])[1]
    around = np.median(reach[near], axis=1)
    return np.where(around > 0, around, overall)
