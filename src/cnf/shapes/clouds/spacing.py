"""How densely points lie on a surface: the area each stands for, the spacing around it, and distances measured in it.

In come points (n, 3) with unit normals; out goes a `Spacing`. This is the one measure of "near the points" that fading,
repair and the check of the finished mesh share.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial import cKDTree

AROUND = 12  # points over which spacings are taken
SEARCHED = 24  # nearest points among which these are looked for: some may lie on the other side of a thin sheet
OPPOSITE = -0.5  # cosine between normals below which a point lies on another sheet
NEAREST = 8  # points around a place that may be the nearest one in spacings
CHUNK = 1 << 14  # places whose nearest points are held at once
CELLS = 1 << 11  # points whose cells are measured at once, in all directions: small enough for the cache
DIRECTIONS = 32  # in which a cell is measured
BEYOND = 1.0  # spacings: how far a cell reaches where no neighbour bounds it, at a rim or a tip


@dataclass(frozen=True, eq=False)
class Spacing:
    """Areas (n,) and spacings (n,) of points (n, 3): on a square lattice the area of a cell, and its side.

    An area is that of the point's own cell, so that points in a cluster share what one alone would have; a spacing is
    the root of their mean over the points around.
    """

    points: np.ndarray
    areas: np.ndarray
    widths: np.ndarray

    @cached_property
    def tree(self) -> cKDTree:
        return cKDTree(self.points)

    def take(self, rows: np.ndarray) -> Spacing:
        """That of some of the points, as they lie among all of them."""
        return Spacing(self.points[rows], self.areas[rows], self.widths[rows])

    def measure(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distance of places (P, 3) from the nearest point (P,), and the same in spacings of the points there (P,).

        The least ratio among the nearest points, so that nothing jumps where another point becomes the nearest.
        """
        nearest, apart = np.empty(len(x)), np.empty(len(x))
        for start in range(0, len(x), CHUNK):
            part = slice(start, start + CHUNK)
            distance, index = self.tree.query(x[part], k=[*range(1, min(NEAREST, self.tree.n) + 1)])
            nearest[part], apart[part] = distance[:, 0], (distance / self.widths[index]).min(axis=1)
        return nearest, apart


def measure_spacing(points: np.ndarray, normals: np.ndarray) -> Spacing:
    """Of each point the cell of its tangent plane that is nearer to it than to the `SEARCHED` next ones.

    Points with opposite normals lie on another sheet and do not count; those around an edge do. The disc that holds the
    `AROUND` next ones says how far a cell may reach: past the end of a sheet there is nothing to bound it.
    """
    tree, count = cKDTree(points), len(points)
    most, every = min(SEARCHED, count - 1), min(AROUND, count - 1)
    areas, around = np.empty(count), np.full((count, AROUND), -1, dtype=np.int32)
    for start in range(0, count, CELLS):
        part = slice(start, start + CELLS)
        distance, index = tree.query(points[part], k=[*range(2, most + 2)])
        ours = np.einsum("pkd,pd->pk", normals[index], normals[part]) > OPPOSITE
        rank = np.cumsum(ours, axis=1)
        wanted = np.clip(rank[:, -1], 1, AROUND)  # fewer where the sheet has no more among those searched
        place = np.where(rank[:, -1] > 0, np.argmax(rank >= wanted[:, None], axis=1), 0)
        own = distance[np.arange(len(index)), place] ** 2 / wanted
        # A sheet has half of all points or more; a limb turns away from most of them, and is no thinner for that.
        discs = np.pi * np.minimum(own, 2 * distance[:, every - 1] ** 2 / every)
        ways = points[index] - points[part, None]
        areas[part] = _measure_cells(np.where(ours[:, :, None], ways, 0.0), normals[part], BEYOND * np.sqrt(discs))
        point, place = np.nonzero(ours & (rank <= AROUND))
        around[start + point, rank[point, place] - 1] = index[point, place]
    widths = np.empty(count)
    for start in range(0, count, CELLS):
        part = slice(start, start + CELLS)
        held = around[part] >= 0
        total = areas[part] + np.where(held, areas[around[part]], 0.0).sum(axis=1)
        widths[part] = np.sqrt(total / (1 + held.sum(axis=1)))
    found = Spacing(points, areas, widths)
    found.__dict__["tree"] = tree  # it is there already
    return found


def _measure_cells(ways: np.ndarray, normals: np.ndarray, farthest: np.ndarray) -> np.ndarray:
    """Areas (n,) of the cells of points, from the ways to their neighbours (n, k, 3), zero for none, and unit normals.

    In the direction u of the tangent plane the cell ends where a neighbour at q is as near: at q.q / (2 u.q), at
    `farthest` (n,) if there is none; its area is half the integral of the square of that.
    """
    helper = np.eye(3)[np.argmin(np.abs(normals), axis=1)]
    first = np.cross(normals, helper)
    first /= np.maximum(np.linalg.norm(first, axis=1, keepdims=True), 1e-300)
    plane = np.stack([first, np.cross(normals, first)], axis=2)  # (n, 3, 2)
    square = np.einsum("nkd,nkd->nk", ways, ways)
    ends = 2 * (ways @ plane) / np.maximum(square, 1e-300)[:, :, None]  # (n, k, 2)
    angle = 2 * np.pi * np.arange(DIRECTIONS) / DIRECTIONS
    nearest = (ends @ np.stack([np.cos(angle), np.sin(angle)])).max(axis=1)  # (n, directions): 1 / where it ends
    reach = 1 / np.maximum(nearest, 1 / np.maximum(farthest, 1e-300)[:, None])
    return np.pi * np.mean(reach**2, axis=1)
