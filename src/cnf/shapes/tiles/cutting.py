"""Cutting the grid of a cloud on disk into parts: boxes of cells, the same that `cut_into_parts` finds in memory.

In come a `TiledCloud` and the grid; out go the corners of the boxes and how many points each holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cnf.shapes.reconstruction.band import Grid
from cnf.shapes.reconstruction.parts import Part, cut_into_parts
from cnf.shapes.tiles.cloud import TiledCloud
from cnf.shapes.tiles.folder import Folder, keep, load

ROUND = 1e-6  # of a step: what rounding may put into the next cell


@dataclass(frozen=True, eq=False)
class Boxes:
    """Parts of the grid: from `lower` up to, not including, `upper`, both (n, 3), with so many points (n,)."""

    lower: np.ndarray
    upper: np.ndarray
    counts: np.ndarray

    def __len__(self) -> int:
        return len(self.counts)


def cut_cloud(cloud: TiledCloud, grid: Grid, part: int, most: int, folder: Folder) -> Boxes:
    """Boxes with at most `part` points, so far as cells allow; cells of at most so many points are held at once."""
    path = folder.path / "boxes.npz"
    if not path.exists():
        top = np.array(grid.shape, dtype=np.int64) - 1
        waiting, found = [(np.zeros(3, dtype=np.int64), top, cloud.count)], list[Part]()
        while waiting:
            lower, upper, count = waiting.pop()
            if count <= most:
                rows = Part(lower, upper, np.arange(count))
                found += cut_into_parts(_cells(cloud, grid, lower, upper), grid.shape, part, rows)
                continue
            layers = _count_layers(cloud, grid, lower, upper)
            cut = _halve(layers)
            if cut is None:
                found.append(Part(lower, upper, np.arange(count)))
                continue
            axis, plane = cut
            below = int(layers[axis][:plane].sum())
            middle = np.arange(3) == axis
            waiting.append((np.where(middle, plane, lower), upper, count - below))
            waiting.append((lower, np.where(middle, plane, upper), below))
        counts = np.array([len(one.rows) for one in found])
        corners = {"lower": np.stack([p.lower for p in found]), "upper": np.stack([p.upper for p in found])}
        keep(path, {**corners, "counts": counts})
    kept = load(path)
    return Boxes(kept["lower"], kept["upper"], kept["counts"])


def rows_in_cells(
    cloud: TiledCloud, grid: Grid, lower: np.ndarray, upper: np.ndarray, *names: str
) -> tuple[np.ndarray, ...]:
    """Rows, points and columns of the points in cells from `lower` up to, not including, `upper`; their cells last."""
    low, high = grid.place(lower - ROUND), grid.place(upper + ROUND)
    found = cloud.region(low, high, *names)
    cells = np.floor((found[1] - grid.origin) / grid.step).astype(np.int32)
    own = np.all((cells >= lower) & (cells < upper), axis=1)
    return (*(part[own] for part in found), cells[own])


def _cells(cloud: TiledCloud, grid: Grid, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    return rows_in_cells(cloud, grid, lower, upper)[-1]


def _count_layers(cloud: TiledCloud, grid: Grid, lower: np.ndarray, upper: np.ndarray) -> list[np.ndarray]:
    """How many points of a box are in each layer of cells, along each axis."""
    counts = [np.zeros(n, dtype=np.int64) for n in grid.shape]
    for tile in cloud.meeting(grid.place(lower - ROUND), grid.place(upper + ROUND)):
        cells = np.floor((cloud.read("points", tile) - grid.origin) / grid.step).astype(np.int32)
        cells = cells[np.all((cells >= lower) & (cells < upper), axis=1)]
        for axis in range(3):
            counts[axis] += np.bincount(cells[:, axis], minlength=grid.shape[axis])
    return counts


def _halve(layers: list[np.ndarray]) -> tuple[int, int] | None:
    """An axis, and a layer with about half of the points below it; None if all are in one cell."""
    filled = [np.flatnonzero(counts) for counts in layers]
    for axis in np.argsort([-(layer[-1] - layer[0]) for layer in filled]):
        reached = np.cumsum(layers[axis])
        total = int(reached[-1])
        ranks = [(total - 1) // 2, total // 2]  # as the median of whole numbers is taken
        middle = int(np.searchsorted(reached, ranks, "right").mean())
        for plane in (middle + 1, middle):
            below = int(layers[axis][:plane].sum())
            if 0 < below < total:
                return int(axis), plane
    return None
