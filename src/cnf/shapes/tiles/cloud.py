"""A cloud on disk, sorted into tiles: portions of a tree over its points, each with the box around it.

Every column is in the order of the tree, so that a tile is a range of rows. Whoever works on a place reads the tiles
around it, and gets what a search among all points would find.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from cnf.shapes.clouds.winding import LEAF, Sources, WindingNumber, bounds_at, tree_depth
from cnf.shapes.reconstruction.surface import find_nearest, weigh_nearest
from cnf.shapes.tiles.columns import Column
from cnf.shapes.tiles.folder import reading

WIDE = 2.0  # times the radius in which so many points are expected: where they are looked for at first
GROWTH = 2.0  # by which that grows where they are not found
MOST = 12  # tiles that are looked at together; beyond, one place after the other


@dataclass(frozen=True, eq=False)
class TiledCloud:
    """Of `count` points, in 2^level tiles; `names`: attributes and how many columns each has."""

    folder: str
    count: int
    level: int
    names: tuple[tuple[str, int], ...] = ()

    def __getstate__(self) -> dict[str, Any]:  # who gets it looks at the files
        return {name: self.__dict__[name] for name in ("folder", "count", "level", "names")}

    def column(self, name: str) -> Column:
        """points, normals, values, ranks; areas, widths; inside (winding number there), means, levels."""
        widths = {"points": 3, "normals": 3, "values": self.attribute_columns}
        return Column(str(Path(self.folder) / f"{name}.column"), self.count, widths.get(name, 0))

    @property
    def attribute_columns(self) -> int:
        return sum(width for _, width in self.names)

    @property
    def tiles(self) -> int:
        return 2**self.level

    @cached_property
    def bounds(self) -> np.ndarray:
        """Of the rows of the tiles (tiles + 1,)."""
        return bounds_at(self.count, self.level)

    @cached_property
    def boxes(self) -> np.ndarray:
        """(tiles, 2, 3)."""
        path = Path(self.folder) / "boxes.npy"
        with reading(path):
            return np.load(path, allow_pickle=False)

    def read(self, name: str, tile: int) -> np.ndarray:
        return self.column(name).read(int(self.bounds[tile]), int(self.bounds[tile + 1]))

    def meeting(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Numbers of the tiles that a box meets."""
        return np.flatnonzero(np.all((self.boxes[:, 0] <= high) & (self.boxes[:, 1] >= low), axis=1))

    def region(self, low: np.ndarray, high: np.ndarray, *names: str) -> tuple[np.ndarray, ...]:
        """Rows (n,), ascending, of the points in a box, the points (n, 3), and columns of these."""
        kept: list[list[np.ndarray]] = [[] for _ in range(2 + len(names))]
        for tile in self.meeting(low, high):
            points = self.read("points", tile)
            own = np.flatnonzero(np.all((points >= low) & (points <= high), axis=1))
            if not len(own):
                continue
            for place, found in enumerate((self.bounds[tile] + own, points[own])):
                kept[place].append(found)
            for place, name in enumerate(names, 2):
                kept[place].append(self.read(name, tile)[own])
        if not kept[0]:
            empty = (np.zeros(0, dtype=np.int64), np.zeros((0, 3)))
            return (*empty, *(self.column(name).read(0, 0) for name in names))
        return tuple(np.concatenate(part) for part in kept)

    def nearest(self, x: np.ndarray, k: int, *names: str) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
        """Of the k nearest points to places (P, 3) that lie together: distances (P, k), points (P, k, 3), columns."""
        k = min(k, self.count)
        distance, places = np.full((len(x), k), np.inf), np.empty((len(x), k, 3))
        columns = [np.empty((len(x), k, max(1, self.column(name).width))) for name in names]
        left = np.arange(len(x))
        margin = WIDE * self.expected_radius(x, k)
        while len(left):
            low, high = x[left].min(axis=0) - margin, x[left].max(axis=0) + margin
            every = self.meeting(low, high)
            if len(every) > MOST + len(self.meeting(x[left].min(axis=0), x[left].max(axis=0))):
                for row in left:
                    self._search(x[row], k, distance[row], places[row], [column[row] for column in columns], names)
                break
            _, points, *values = self.region(low, high, *names)
            if len(points) >= k:
                far, index = cKDTree(points).query(x[left], k=[*range(1, k + 1)])
                sure = far[:, -1] <= margin
                at = left[sure]
                distance[at], places[at] = far[sure], points[index[sure]]
                for column, value in zip(columns, values, strict=True):
                    column[at] = value[index[sure]].reshape(len(at), k, column.shape[2])
                left = left[~sure]
            margin *= GROWTH
        return distance, places, tuple(columns)

    def _search(
        self,
        x: np.ndarray,
        k: int,
        distance: np.ndarray,
        places: np.ndarray,
        columns: list[np.ndarray],
        names: tuple[str, ...],
    ) -> None:
        """The same for one place (3,), from tile to tile, into the arrays that are given."""
        away = np.linalg.norm(np.maximum(np.maximum(self.boxes[:, 0] - x, x - self.boxes[:, 1]), 0), axis=1)
        best = np.zeros(0, dtype=np.int64)
        held = [np.zeros(0), np.zeros((0, 3)), *(np.zeros((0, column.shape[1])) for column in columns)]
        for tile in np.argsort(away, kind="stable"):
            if len(held[0]) >= k and held[0][k - 1] <= away[tile]:
                break
            points = self.read("points", tile)
            values = [self.read(name, tile).reshape(len(points), -1) for name in names]
            more = [np.linalg.norm(points - x, axis=1), points, *values]
            held = [np.concatenate(pair) for pair in zip(held, more, strict=True)]
            best = np.argsort(held[0], kind="stable")[:k]
            held = [part[best] for part in held]
        distance[:], places[:] = held[0], held[1]
        for column, value in zip(columns, held[2:], strict=True):
            column[:] = value

    def expected_radius(self, x: np.ndarray, k: int) -> float:
        """The radius of a disc with k points, by the tiles that the places lie in."""
        own = self.meeting(x.min(axis=0), x.max(axis=0))
        own = own if len(own) else np.argsort(np.linalg.norm(self.boxes.mean(axis=1) - x.mean(axis=0), axis=1))[:1]
        sides = np.sort(self.boxes[own, 1] - self.boxes[own, 0], axis=1)
        area = np.median(sides[:, 2] * sides[:, 1])
        return float(np.sqrt(max(area, 1e-300) * k / (np.pi * max(1.0, self.count / self.tiles))))

    def local_mean(self, name: str, x: np.ndarray, reach: float) -> np.ndarray:
        """A column's values averaged around places (P, 3), as `surface.local_mean` of all points, (P, k).

        `reach`: how far the points that are averaged are likely to be.
        """
        found = np.empty((len(x), max(1, self.column(name).width)))
        _, points, values = self.region(x.min(axis=0) - reach, x.max(axis=0) + reach, name)
        tree, values = cKDTree(points), values.reshape(len(points), -1)
        distance, index = find_nearest(tree, x)
        found[:] = np.einsum("pj,pjk->pk", weigh_nearest(distance), values[index])
        unsure = np.flatnonzero(distance[:, -1] > reach)
        if len(points) < self.count and len(unsure):
            count = index.shape[1]
            _, places, (near,) = self.nearest(x[unsure], count, name)
            for row, around, beside in zip(unsure, places, near, strict=True):
                distance, order = find_nearest(cKDTree(around), x[row : row + 1])
                found[row] = np.einsum("j,jk->k", weigh_nearest(distance)[0], beside[order[0]])
        return found

    # ---- the tree of the winding number

    @property
    def depth(self) -> int:
        """Of the tree: its leaves are 2^depth."""
        return tree_depth(self.count, LEAF)

    def node_column(self, name: str) -> Column:
        """centres, flow and softness of nodes and, behind them, of points; radii and spread of nodes."""
        nodes = 2 ** (self.depth + 1) - 1
        widths = {"centres": 3, "flow": 3, "spread": 6}
        count = nodes if name in ("radii", "spread") else nodes + self.count
        return Column(str(Path(self.folder) / f"{name}.nodes"), count, widths.get(name, 0))

    def open_winding(self) -> WindingNumber:
        """Of all points: near ones one by one, far ones by their moments; the rest of the tree stays on disk.

        Opened for a piece of work, so that what it looked at is given back with it.
        """
        mapped = {name: self.node_column(name).map_rows() for name in NODES}
        leaves = Column(str(Path(self.folder) / "leaves.nodes"), 2**self.depth + 1, kind="<i8").map_rows()
        none = np.zeros((0, 3))
        sources = Sources(leaves=leaves, order=none[:, 0], count=2 ** (self.depth + 1) - 1, **mapped)
        return WindingNumber(none, none, none[:, 0], none[:, 0], sources)


NODES = ("centres", "radii", "flow", "spread", "softness")
