"""Zero surface: the zero set of a level function in space, by triangles that say where to look and points on it.

Signs on a grid give closed triangles as they give curves in the plane. Area and volume are those of curved triangles
through points of the surface; points of the boundary are spread over the triangles and then moved onto the surface.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import sympy as sp
from scipy.spatial import cKDTree

from cnf.errors import DomainError
from cnf.meshes.mesh import Mesh
from cnf.pde.domains.boundary import Arrays, Patch
from cnf.pde.domains.layouts import spread_out
from cnf.pde.domains.level import Level
from cnf.pde.domains.simplices import march
from cnf.pde.domains.tracing import GRIDS, SAMPLED, as_text, hidden, look

REACH = (0.25, 0.6, 1.5)  # of a cell: how far from a triangle the surface is looked for
CLIMBS = 60
CANDIDATES = 5  # for each point of a sample
FAR = 0.05  # of the surface's points: fewer than these may be too far from their triangles to be found
# Nodes and weights on a triangle (barycentric), exact for polynomials of degree 4.
A, B = 0.445948490915965, 0.091576213509771
NODES = np.array([[1 - 2 * s, s, s] for s in (A, B)])[[0, 0, 0, 1, 1, 1]]
NODES = np.stack([np.roll(row, k % 3) for k, row in enumerate(NODES)])
WEIGHTS = np.array([0.223381589678011] * 3 + [0.109951743655322] * 3)


@dataclass(frozen=True, eq=False)
class ZeroSurface:
    """The surface, by a mesh whose vertices lie on it."""

    level: Level
    mesh: Mesh
    cell: float
    names: tuple[str, ...]

    @staticmethod
    def of(level: Level, lower: Sequence[float], upper: Sequence[float], names: tuple[str, ...]) -> ZeroSurface:
        exact = isinstance(level.formula, sp.Expr)
        for cells in GRIDS[3]:
            grid = look(level, lower, upper, cells if exact else max(cells, SAMPLED[3]))
            if cells == GRIDS[3][-1] or not hidden(level, grid):
                break
        edges, faces = march(grid.inside)
        inner, outer = grid.nodes(edges[:, 0]), grid.nodes(edges[:, 1])
        share = level.zeros(inner, outer, np.ones(len(edges), dtype=bool))
        found = ZeroSurface(level, Mesh(inner + share[:, None] * (outer - inner), faces), grid.cell, names)
        usual = np.median(np.linalg.norm(found.mesh.vertices - np.median(found.mesh.vertices, axis=0), axis=1))
        values = np.abs(level.values(found.mesh.vertices))
        steep = np.linalg.norm(level.gradients(found.mesh.vertices), axis=1)
        if not np.median(steep) > 0 or np.median(values / np.maximum(steep, 1e-300)) > 1e-9 * usual:
            raise DomainError(
                "the level function is flat or jumps where it changes its sign, so its surface cannot be followed; "
                "write one that goes through zero with a slope"
            )
        return found

    @cached_property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Corners of the box around the surface."""
        points = np.concatenate([self.mesh.vertices, self._moved(self._middles)[0]])
        low, high = points.min(axis=0), points.max(axis=0)
        for k in range(3):  # the surface bulges between them: climb to where it is lowest and highest
            low[k] = min(low[k], self._extreme(points[points[:, k].argmin()], k, -1.0))
            high[k] = max(high[k], self._extreme(points[points[:, k].argmax()], k, 1.0))
        return low, high

    def _extreme(self, point: np.ndarray, axis: int, side: float) -> float:
        """How far the surface goes along a coordinate: uphill from a point of it, in steps that find their size."""
        at, step = point[None], self.cell / 4
        for _ in range(CLIMBS):
            normal = self._normals(at)[0]
            along = side * (np.eye(3)[axis] - normal[axis] * normal)
            there = self._onto(at + step / self.cell * along, 2)
            higher = side * (there[0, axis] - at[0, axis]) > 0 and np.linalg.norm(there - point) < 2 * self.cell
            at, step = (there, 1.5 * step) if higher else (at, step / 2)
        return float(at[0, axis])

    @property
    def _middles(self) -> np.ndarray:
        """Of the triangles, (F, 3)."""
        return self.mesh.vertices[self.mesh.faces].mean(axis=1)

    def _moved(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points (P, 3) moved onto the surface along the gradient there, and which of them were found near it, (P,)."""
        directions = self._normals(points)
        width = np.full(len(points), np.nan)
        for reach in REACH:
            (open_,) = np.nonzero(np.isnan(width))
            ends = [points[open_] + side * reach * self.cell * directions[open_] for side in (-1, 1)]
            fits = (self.level.values(ends[0]) <= 0) & (self.level.values(ends[1]) > 0)
            width[open_[fits]] = reach * self.cell
        found = ~np.isnan(width)
        low, high = (points[found] + side * width[found, None] * directions[found] for side in (-1, 1))
        share = self.level.zeros(low, high, np.ones(len(low), dtype=bool))
        moved = points.copy()
        moved[found] = low + share[:, None] * (high - low)
        return moved, found

    def _onto(self, points: np.ndarray, steps: int) -> np.ndarray:
        """By Newton's method along the gradient."""
        for _ in range(steps):
            slope = self.level.gradients(points)
            square = np.maximum((slope**2).sum(axis=1), 1e-300)
            move = -(self.level.values(points) / square)[:, None] * slope
            size = np.linalg.norm(move, axis=1, keepdims=True)
            points = points + move * np.minimum(1.0, self.cell / np.maximum(size, 1e-300))
        return points

    def _normals(self, points: np.ndarray) -> np.ndarray:
        slope = self.level.gradients(points)
        return slope / np.maximum(np.linalg.norm(slope, axis=1, keepdims=True), 1e-300)

    @cached_property
    def _curved(self) -> tuple[np.ndarray, np.ndarray]:
        """Areas (F,) of triangles curved through the surface, and the volume between them and the origin, (F,)."""
        v, f = self.mesh.vertices, self.mesh.faces
        sides = []
        for a, b in ((1, 2), (2, 0), (0, 1)):  # the middle opposite every corner
            middle, _ = self._moved((v[f[:, a]] + v[f[:, b]]) / 2)
            sides.append(middle)
        centre = v.mean(axis=0)
        nodes = np.stack([*(v[f[:, k]] for k in range(3)), *sides], axis=1) - centre  # (F, 6, 3)
        areas, volumes = np.zeros(len(f)), np.zeros(len(f))
        for (r, s, t), weight in zip(NODES, WEIGHTS, strict=True):
            shape = [r * (2 * r - 1), s * (2 * s - 1), t * (2 * t - 1), 4 * s * t, 4 * t * r, 4 * r * s]
            by_s = [1 - 4 * r, 4 * s - 1, 0, 4 * t, -4 * t, 4 * (r - s)]
            by_t = [1 - 4 * r, 0, 4 * t - 1, 4 * s, 4 * (r - t), -4 * s]
            point, u, w = (np.einsum("k,fkd->fd", np.array(x), nodes) for x in (shape, by_s, by_t))
            across = np.cross(u, w)
            areas += weight / 2 * np.linalg.norm(across, axis=1)
            volumes += weight / 6 * (point * across).sum(axis=1)
        return areas, volumes

    @property
    def content(self) -> float:
        return float(self._curved[1].sum())

    @cached_property
    def pieces(self) -> list[Patch]:
        return [Patch(self.names, float(self._curved[0].sum()), self._place)]

    @property
    def outline(self) -> list[Patch]:
        return self.pieces

    def _place(self, count: int, random: np.random.Generator, seed: int) -> Arrays:
        """Points spread evenly over the surface, and its normals there."""
        number = CANDIDATES * count + 64
        reached = np.cumsum(self._curved[0])
        steps = (np.arange(number) + random.random(number)) / number * reached[-1]
        face = np.minimum(np.searchsorted(reached, steps, side="right"), len(reached) - 1)
        root, v = np.sqrt(random.random(number)), random.random(number)
        weights = np.stack([1 - root, root * (1 - v), root * v], axis=1)
        points = np.einsum("pc,pcd->pd", weights, self.mesh.vertices[self.mesh.faces[face]])
        points, found = self._moved(points)
        if found.mean() < 1 - FAR:
            where = points[~found][0]
            raise DomainError(f"the level set cannot be followed near {as_text(where)}; choose a smaller box around it")
        points = points[found][random.permutation(int(found.sum()))]
        chosen = points[spread_out(points, count, float(np.sqrt(reached[-1] / count)))]
        return chosen, self._normals(chosen)

    @cached_property
    def _cloud(self) -> tuple[cKDTree, float]:
        points, _ = self._moved(self._middles)
        points = np.concatenate([self.mesh.vertices, points])
        spacing = np.sqrt(self._curved[0].sum() / len(points))
        return cKDTree(points), float(spacing)

    def distance(self, points: np.ndarray) -> np.ndarray:
        """From points (P, 3) to the surface: to the nearest of many points of it, which then slides nearer."""
        tree, spacing = self._cloud
        found, near = tree.query(points)
        at = tree.data[near]
        for _ in range(3):
            normals = self._normals(at)
            away = points - at
            slide = away - (away * normals).sum(axis=1, keepdims=True) * normals
            size = np.linalg.norm(slide, axis=1, keepdims=True)
            at = self._onto(at + slide * np.minimum(1.0, 2 * spacing / np.maximum(size, 1e-300)), 2)
            apart = np.linalg.norm(points - at, axis=1)
            near_surface = np.linalg.norm(at - tree.data[near], axis=1) < 6 * spacing
            found = np.where(near_surface, np.minimum(found, apart), found)
        return found
