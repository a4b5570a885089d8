"""How densely points lie on a surface: the area each stands for, the spacing around it, and distances measured in it.

In come points (n, 3) with unit normals; out goes a `Spacing`. This is the one measure of "near the points" that fading,
repair and the check of the finished mesh share.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial import cKDTree

AROUND = 12  # points from which the area of one is taken
SEARCHED = 24  # nearest points among which these are looked for: some may lie on the other side of a thin sheet
OPPOSITE = -0.5  # cosine between normals below which a point lies on another sheet
NEAREST = 8  # points around a place that may be the nearest one in spacings
CHUNK = 1 << 16  # points whose neighbours are held at once


@dataclass(frozen=True, eq=False)
class Spacing:
    """Areas (n,) and spacings (n,) of points (n, 3): on a square lattice the area of a cell, and its side."""

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
    """Of each point by the disc that holds the `AROUND` next ones: in a plane, each of them stands for an equal part.

    Points with opposite normals lie on another sheet and do not count; those around an edge do.
    """
    tree, count = cKDTree(points), len(points)
    most, every = min(SEARCHED, count - 1), min(AROUND, count - 1)
    areas = np.empty(count)
    for start in range(0, count, CHUNK):
        part = slice(start, start + CHUNK)
        distance, index = tree.query(points[part], k=[*range(2, most + 2)])
        ours = np.einsum("pkd,pd->pk", normals[index], normals[part]) > OPPOSITE
        rank = np.cumsum(ours, axis=1)
        wanted = np.clip(rank[:, -1], 1, AROUND)  # fewer where the sheet has no more among those searched
        place = np.where(rank[:, -1] > 0, np.argmax(rank >= wanted[:, None], axis=1), 0)
        own = distance[np.arange(len(index)), place] ** 2 / wanted
        # A sheet has half of all points or more; a limb turns away from most of them, and is no thinner for that.
        areas[part] = np.pi * np.minimum(own, 2 * distance[:, every - 1] ** 2 / every)
    found = Spacing(points, areas, np.sqrt(areas))
    found.__dict__["tree"] = tree  # it is there already
    return found
