"""Surfaces: the curved boundary of a solid as points, found along the gradients of the distances to its shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cnf.bases.cells import Cells
from cnf.bases.cover import OUTSIDE
from cnf.pde.domains import Domain
from cnf.pde.domains.boundary import Arrays, named_first
from cnf.pde.patches.meeting import lattice

LATTICE = 16  # points along every coordinate by which a cell is judged
STEP = 1e-7  # of the domain, to either side of the boundary
HALVINGS, SECANTS = 70, 12  # on the way from a lattice point to the boundary
SETTLED = 8e-16  # of the coordinates: points this near lie on it
JUST = 1.25  # times the distance to the boundary: across it
SLOPE = 1e-6  # of the domain: differences that give gradients


@dataclass(frozen=True)
class Surface:
    """Points (P, 3) of the boundary, outward normals (P, 3), the cells they belong to (P,), and names of the shape.

    `beyond` is the region on the other side, -1 where the domain ends.
    """

    names: tuple[str, ...]
    points: np.ndarray
    normals: np.ndarray
    cells: np.ndarray
    beyond: int = OUTSIDE

    def of(self, cells: np.ndarray) -> Surface:
        """What lies in these cells."""
        return self.where(np.isin(self.cells, cells))

    def where(self, own: np.ndarray) -> Surface:
        """These of its points, (P,) bool."""
        return replace(self, points=self.points[own], normals=self.normals[own], cells=self.cells[own])


def surfaces_of(domain: Domain, cells: Cells) -> list[Surface]:
    """The boundary as far as it does not run along faces of cells, shape by shape."""
    return surfaces_in(domain, cells, cells.lower, cells.upper, LATTICE)


def surfaces_in(domain: Domain, cells: Cells, lower: np.ndarray, upper: np.ndarray, count: int) -> list[Surface]:
    """The same in boxes (n, 3), from lattices of `count` points along every coordinate."""
    size = float(max(np.subtract(domain.upper, domain.lower)))
    step, found = STEP * size, []
    half = np.linalg.norm(upper - lower, axis=1) / 2
    spacing = (upper - lower).max(axis=1) / count
    for leaf, names in named_first(domain):
        meeting = np.abs(leaf._bound((lower + upper) / 2)) <= half
        if leaf._is_box:  # sides that run along faces are no part of it
            sides = np.stack([leaf.lower, leaf.upper])[:, None]
            meeting &= ((lower + step < sides) & (sides < upper - step)).any(axis=(0, 2))
        near = np.flatnonzero(meeting)
        if not len(near):
            continue
        seeds = lattice(lower[near], upper[near], count)
        reach = np.repeat(1.5 * spacing[near], seeds.shape[1])
        seeds = seeds.reshape(-1, 3)
        close = np.abs(leaf._bound(seeds)) <= reach
        points, normals = onto(leaf, seeds[close], reach[close], size)
        inner, outer = domain._inside(points - step * normals), domain._inside(points + step * normals)
        kept = inner != outer
        points, normals = points[kept], np.where(inner[kept], 1.0, -1.0)[:, None] * normals[kept]
        owner = cells.locate(points - step * normals)
        ends = np.minimum(np.abs(points - cells.lower[owner]), np.abs(points - cells.upper[owner]))
        along = (ends <= 2 * step).any(axis=1)  # a part of a face
        found.append(Surface(names, points[~along], normals[~along], owner[~along]))
    return found


def meets_surface(shapes: Sequence[Domain], lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Which boxes with corners (n, D) may have a part of the boundaries of these shapes in them, at any time."""
    lower, upper = lower[:, :3], upper[:, :3]
    half = np.linalg.norm(upper - lower, axis=1) / 2
    found = np.zeros(len(lower), dtype=bool)
    for shape in shapes:
        found |= np.abs(shape._bound((lower + upper) / 2)) <= half
    return found


def onto(leaf: Domain, points: np.ndarray, reach: np.ndarray, size: float) -> Arrays:
    """Points (P, 3) moved onto the boundary of a shape along the gradient of its distance, and outward unit normals.

    Points that do not find it within twice their `reach` (P,) are left out.
    """
    direction = -_gradients(leaf, points, SLOPE * size)  # outward
    start = leaf._bound(points)
    way = np.sign(start)[:, None] * direction
    far = 2 * reach
    beyond = np.sign(leaf._bound(points + far[:, None] * way)) == np.sign(start)
    far[beyond] = np.minimum(far, JUST * np.abs(start))[beyond]  # a shape so small or thin that they end behind it
    there = np.sign(leaf._bound(points + far[:, None] * way)) != np.sign(start)
    placed = points[there] + _crossing(leaf, points[there], way[there], far[there])[:, None] * way[there]
    return placed, -_gradients(leaf, placed, SLOPE * size)


def _crossing(leaf: Domain, points: np.ndarray, way: np.ndarray, far: np.ndarray) -> np.ndarray:
    """How far along unit vectors `way` (P, 3) the distance to a shape changes its sign, before `far`, (P,).

    By secants between two ends of different sign, of which one that stays counts half (Illinois): a few of them for
    distances. Halvings where they do not get there.
    """
    low, high = np.zeros(len(points)), far.copy()
    below, above = leaf._bound(points), leaf._bound(points + far[:, None] * way)
    settled = SETTLED * np.abs(points).max(initial=0.0)
    moved_low = np.zeros(len(points), dtype=np.int64)  # 1 if the lower end was the last to move, -1 the upper one
    for turn in range(HALVINGS if len(points) else 0):
        with np.errstate(divide="ignore", invalid="ignore"):
            middle = (low * above - high * below) / (above - below)
        halved = ~((low <= middle) & (middle <= high)) | (turn >= SECANTS)
        middle[halved] = ((low + high) / 2)[halved]
        value = leaf._bound(points + middle[:, None] * way)
        if (np.abs(value) <= settled).all():
            return middle
        same = np.sign(value) == np.sign(below)
        below, above = (
            np.where(same, value, np.where(moved_low == -1, below / 2, below)),
            np.where(same, np.where(moved_low == 1, above / 2, above), value),
        )
        low, high = np.where(same, middle, low), np.where(same, high, middle)
        moved_low = np.where(same, 1, -1)
    return (low + high) / 2


def _gradients(leaf: Domain, points: np.ndarray, step: float) -> np.ndarray:
    """Unit vectors along the gradient of the distance, (P, 3), by differences of fourth order."""
    found = np.empty_like(points)
    for axis in range(3):
        move = np.zeros(3)
        move[axis] = step
        near = leaf._bound(points + move) - leaf._bound(points - move)
        far = leaf._bound(points + 2 * move) - leaf._bound(points - 2 * move)
        found[:, axis] = (8 * near - far) / (12 * step)
    length = np.linalg.norm(found, axis=1, keepdims=True)
    return found / np.where(length > 0, length, 1.0)
