"""How light from a map of the surroundings reaches the points of a sphere, whatever the light and the material.

In: counts. Out: `Transport`: for every ring of the sphere the angles at which the reflectance is needed, and where on
the map its nodes fall.

Seen from far away, the points of a sphere at equal distance from the picture's centre have the same angle of view, so
reflectance is needed only for (angle of view, half vector) and not for each pixel. A point's place on its ring turns
all directions about the viewing axis; on a map with its pole at the camera that is a shift of columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from cnf.materials.rendering.environments import bilinear_cells, polar_coordinates
from cnf.materials.rendering.quadrature import Nodes, ring_angles, view_nodes

OVERLAP = 1.2  # a node's blur over that of the cell it stands for: less shows ripples, more washes out shadows


@dataclass(frozen=True, eq=False)
class Transport:
    """The nodes of all rings, P in total, and the cells of the stacked map levels they fall on."""

    rings: int
    level_rows: tuple[int, ...]
    columns: int
    first: np.ndarray  # (rings + 1,) first node of each ring
    angles: Tensor  # (P, 3)
    cells: np.ndarray  # (P, 8) int32, of all levels stacked
    shares: np.ndarray  # (P, 8) float32, cosine and solid angle included

    @property
    def rows(self) -> int:
        """Rows of all levels stacked."""
        return sum(self.level_rows)

    def spread(self, ring: int, values: np.ndarray) -> np.ndarray:
        """One ring's response (rows, columns) to light from each cell, for reflectance (P,) in one channel."""
        nodes = slice(self.first[ring], self.first[ring + 1])
        entries = self.shares[nodes] * values[nodes, None]
        total = np.bincount(self.cells[nodes].reshape(-1), entries.reshape(-1), self.rows * self.columns)
        return total.reshape(self.rows, self.columns)


@lru_cache(maxsize=2)
def sphere_transport(rings: int, steps: int, level_rows: tuple[int, ...], columns: int) -> Transport:
    """Nodes at the middle of `rings` equal steps of the angle of view, from 0 to 90 degrees."""
    angles, cells, shares = [], [], []
    for theta in ring_angles(rings).tolist():
        nodes = view_nodes(theta, steps)
        where, share = fall(nodes, level_rows, columns)
        angles.append(nodes.angles)
        cells.append(where.int().numpy())
        shares.append(share.float().numpy())
    return Transport(
        rings=rings,
        level_rows=level_rows,
        columns=columns,
        first=np.cumsum([0, *map(len, cells)]),
        angles=torch.cat(angles),
        cells=np.concatenate(cells),
        shares=np.concatenate(shares),
    )


def fall(nodes: Nodes, level_rows: tuple[int, ...], columns: int) -> tuple[Tensor, Tensor]:
    """Cells and shares, (S, 8) each, of nodes on stacked levels: bilinear in each of two levels.

    The two are those whose blurs enclose the width of the cone a node stands for; level l is blurred to half the height
    of its cells, which double from level to level.
    """
    down, around = polar_coordinates(nodes.directions)
    finest = 0.5 * math.pi / level_rows[0]
    level = torch.log2(OVERLAP * nodes.widths / finest).clamp(0, len(level_rows) - 1.001)
    lower = torch.floor(level).long()
    begins = np.cumsum([0, *level_rows]) * columns
    cells = torch.empty(len(down), 8, dtype=torch.int64)
    shares = torch.empty(len(down), 8, dtype=torch.float64)
    for number, rows in enumerate(level_rows):
        for half in (0, 1):
            chosen = torch.nonzero(lower + half == number)[:, 0]
            if len(chosen) == 0:
                continue
            index, weight = bilinear_cells(rows, columns, down[chosen], around[chosen])
            above = level[chosen] - lower[chosen]
            blend = above if half else 1 - above
            cells[chosen, 4 * half : 4 * half + 4] = index + int(begins[number])
            shares[chosen, 4 * half : 4 * half + 4] = weight * (blend * nodes.weights[chosen])[:, None]
    return cells, shares
