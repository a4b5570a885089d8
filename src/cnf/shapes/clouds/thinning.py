"""Clouds, fewer points: even thinning of large clouds, and merging of points at the same place.

In come points (P, D); out go numbers of the points to keep (`thin`), or the number of the group each belongs to
(`group_duplicates`). Both take time about linear in P and no more memory than a few columns of it.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from cnf.errors import ConstraintError

ROUNDS = 14  # of the search for a cell size
CELLS = 1 << 20  # cells along an axis at most: three such numbers fit into 63 bits


def thin(points: np.ndarray, most: int, seed: int = 0) -> np.ndarray:
    """Numbers, ascending, of at most `most` evenly spread points: one per occupied cell of a grid, nearest its centre.

    The cell size is searched until nearly `most` cells are occupied; the seed shifts the grid.

    >>> points = np.random.default_rng(0).normal(size=(300, 3))
    >>> points /= np.linalg.norm(points, axis=1, keepdims=True)  # on the unit sphere
    >>> len(cnf.shapes.thin(points, 50)) <= 50
    True
    """
    if most < 1:
        raise ConstraintError(f"a cloud can be thinned to one point or more, got most={most}")
    if len(points) <= most:
        return np.arange(len(points))
    low = points.min(axis=0)
    size = float((points.max(axis=0) - low).max())
    shift = np.random.default_rng(seed).random((1, points.shape[1]))[0]
    cell, power = size / most**0.5, 2.0
    best: tuple[int, float] | None = None
    tried: list[tuple[float, int]] = []
    for _ in range(ROUNDS):
        cell = float(np.clip(cell, size / (CELLS - 2), 2 * size)) if size > 0 else 1.0
        numbers = np.sort(cell_numbers(points, low, cell, shift))  # np.unique hashes, which is ten times slower
        count = 1 + int(np.count_nonzero(np.diff(numbers)))
        if count <= most and (best is None or count > best[0]):
            best = count, cell
        if 0.93 * most <= count <= most:
            break
        if tried and tried[-1][1] != count and tried[-1][0] != cell:
            slope = -np.log(count / tried[-1][1]) / np.log(cell / tried[-1][0])
            power = float(np.clip(slope, 0.5, 3.0))
        tried.append((cell, count))
        cell *= (count / (0.965 * most)) ** (1 / power)
    if best is None:  # a few cells hold everything, whatever their size
        return np.sort(np.random.default_rng(seed).choice(len(points), most, replace=False))
    numbers = cell_numbers(points, low, best[1], shift)
    distance = np.zeros(len(points))
    for axis in range(points.shape[1]):
        place = (points[:, axis] - low[axis]) / best[1] + shift[axis]
        distance += (place - np.floor(place) - 0.5) ** 2
    order = np.argsort(numbers, kind="stable")
    numbers, distance = numbers[order], distance[order]
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    nearest = np.minimum.reduceat(distance, starts)
    is_nearest = np.flatnonzero(distance == np.repeat(nearest, np.diff(starts, append=len(numbers))))
    _, first = np.unique(numbers[is_nearest], return_index=True)  # one of those at equal distance
    return np.sort(order[is_nearest[first]])


def cell_numbers(points: np.ndarray, low: np.ndarray, cell: float, shift: np.ndarray) -> np.ndarray:
    """The number of the cell each point lies in, (P,) int64."""
    numbers = np.zeros(len(points), dtype=np.int64)
    for axis in range(points.shape[1]):
        numbers <<= 21
        numbers += np.floor((points[:, axis] - low[axis]) / cell + shift[axis]).astype(np.int64)
    return numbers


def group_duplicates(points: np.ndarray, distance: float) -> np.ndarray:
    """The number (P,) of the group each point belongs to, counted in the order of first appearance.

    Points not farther apart than `distance` share a group, also if a million of them lie at one place. Sorting along
    one direction leaves few candidates. Those are put into D + 1 grids, each shifted against the others, so that any
    close pair shares a cell of at least one of them, and are compared with the first of their cell.
    """
    count, dimension = points.shape
    direction = np.array([0.62, 0.55, 0.56])[:dimension]  # along no axis: grids of points have few equal projections
    along = points @ (direction / np.linalg.norm(direction))
    order = np.argsort(along, kind="stable")
    close = np.diff(along[order]) <= distance * 1.01 + 4 * np.finfo(float).eps * np.abs(along).max(initial=0)
    mask = np.zeros(count, dtype=bool)
    mask[order[:-1][close]] = True
    mask[order[1:][close]] = True
    candidates = np.flatnonzero(mask)
    if not len(candidates):
        return np.arange(count)
    some = points[candidates]
    cell = 2 * (dimension + 1) * max(distance, np.finfo(float).tiny)
    first_ends, second_ends = [], []
    for shift in range(dimension + 1):
        cells = np.floor((some - some.min(axis=0)) / cell + shift / (dimension + 1))
        _, first, group = np.unique(cells, axis=0, return_index=True, return_inverse=True)
        ends = first[group.reshape(-1)]
        gap = np.sqrt(((some - some[ends]) ** 2).sum(axis=1))
        same = np.flatnonzero((gap <= distance) & (ends != np.arange(len(some))))
        first_ends.append(candidates[same])
        second_ends.append(candidates[ends[same]])
    rows, columns = np.concatenate(first_ends), np.concatenate(second_ends)
    graph = coo_matrix((np.ones(len(rows), dtype=bool), (rows, columns)), shape=(count, count))
    labels = connected_components(graph, directed=False)[1]
    _, first, group = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[group.reshape(-1)]
