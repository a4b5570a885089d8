"""Layout: where the conditions of a cell sit: inside it, on its faces, and on the faces it shares.

The number of conditions follows the number of functions. With (p + 1)^D functions and an equation of order n along
every coordinate there are p + 1 - n points along each inside a cell and p + 1 - ceil(n / 2) along a face; clearly
fewer, and every condition holds while the field in between does not. In the plane that is one too many for every
cell: values at p points of each of its four sides leave one multiple of the node polynomial open on each, and the
four corners tie these in a circle, which has one solution too many and one condition too many. So every cell does
without the function of the highest degree in both coordinates and without one point on its lower side. In space there
is such a circle in every plane through a cell: functions of the highest degree in any two coordinates are left out, and
the lower face across a coordinate has one point less along every later one. The systems are then square and regular, on
hanging faces too, if values are tied at the points of the finer side and fluxes at those of the coarser one. For
equations of order 4 these are the two highest degrees and two points.

A channel that is a multiplier, like a pressure, has as many functions as there are points inside: its degree is lower
by the order n, and the equation it stands for, like a divergence, has the same points as the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.polynomial import legendre

from cnf.bases.cells import Cells, Face
from cnf.pde.patches.orders import Orders

HAIR = 1e-8  # of half a slab


def cut_together(cells: Cells, cut: np.ndarray, time: int | None) -> Cells:
    """Cells cut across the coordinates where `cut` (n, D) says so; across time, all cells of a slab together."""
    if time is not None:
        for start in np.unique(cells.lower[cut[:, time], time]):
            cut[cells.lower[:, time] == start, time] = True
    for axis in np.argsort([k != time for k in range(cells.dimension)], kind="stable"):  # slabs first
        chosen = np.flatnonzero(cut[:, axis])
        cells = cells.cut(chosen, int(axis))
        cut = np.concatenate([cut, cut[chosen]])
    return cells


def gauss(count: int) -> np.ndarray:
    """Chebyshev points of (-1, 1)."""
    return np.cos(np.pi * (2 * np.arange(count) + 1) / (2 * count))


@cache
def radau(count: int) -> np.ndarray:
    """Radau points of (-1, 1): collocation in time at these damps what it does not resolve.

    At points that lie symmetrically, what decays fast (modes of a fine mesh under diffusion) would stay for good. The
    last point, the end, lies inside by a hair: on it, it would belong to the next slab.
    """
    series = np.zeros(count + 1)
    series[count - 1 :] = 1.0, -1.0  # P_(n - 1) - P_n vanishes at the end
    found = np.sort(legendre.legroots(series))
    found[-1] = 1.0 - HAIR
    return found[::-1].copy()


def tensor_grid(lower: np.ndarray, upper: np.ndarray, counts: Sequence[int], time: int | None = None) -> np.ndarray:
    """Chebyshev points in boxes (n, D): (n, P, D); a coordinate with lower = upper has one point, time has Radau's."""
    axes = [radau(c) if k == time else gauss(c) for k, c in enumerate(counts)]
    unit = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)  # (P, D)
    centre, half = (lower + upper) / 2, (upper - lower) / 2
    return centre[:, None] + half[:, None] * unit


@dataclass(frozen=True)
class Counts:
    """Points along every coordinate for cells of the given degrees."""

    orders: Orders
    degree: tuple[int, ...]

    @property
    def circular(self) -> tuple[int, ...]:
        """The coordinates of space whose corners tie a cell in circles; empty if there are none."""
        spatial = self.orders.spatial
        alike = {self.orders.along(k) for k in spatial}
        return tuple(spatial) if len(spatial) > 1 and len(alike) == 1 and self.depth > 0 else ()

    @property
    def depth(self) -> int:
        """Half the order where it is even, 0 where it is odd: how many of the highest degrees corners tie."""
        order = self.orders.along(self.orders.spatial[0])
        return order // 2 if order % 2 == 0 else 0

    @property
    def by_channel(self) -> list[list[int]] | None:
        """The degrees of every channel along every coordinate, (C, D); None if all are the same."""
        if not any(self.orders.multipliers):
            return None
        lower = [n - 1 for n in self.inside()]
        return [lower if multiplier else list(self.degree) for multiplier in self.orders.multipliers]

    def inside(self, orders: Sequence[int] | None = None) -> list[int]:
        """Points inside for an equation of these orders along the coordinates; None: the highest of all."""
        of = [self.orders.along(k) for k in range(len(self.degree))] if orders is None else orders
        return [max(1, p + 1 - n) for p, n in zip(self.degree, of, strict=True)]

    def face(self, axis: int) -> list[int]:
        inside, time = self.inside(), self.orders.time
        found = []
        for k, p in enumerate(self.degree):
            if k == axis:
                found.append(1)
            elif axis == time:
                found.append(p + 1)
            elif k == time or (len(self.orders.spatial) > 2 and not self.circular):
                found.append(inside[k])
            else:
                found.append(p + 1 - -(-self.orders.along(k) // 2))
        return found

    def fewer(self, axis: int) -> list[int]:
        """The same with fewer points along every later coordinate of space: the lower face of a cell."""
        return [max(1, n - self.depth * (k > axis and k in self.circular)) for k, n in enumerate(self.face(axis))]


def interior_points(cells: Cells, counts: Counts, orders: Sequence[int]) -> np.ndarray:
    """Points for an equation of these orders, (n, P, D)."""
    found = tensor_grid(cells.lower, cells.upper, counts.inside(orders), counts.orders.time)
    return _without_corners(found, counts.inside(orders), counts)


def face_points(lower: np.ndarray, upper: np.ndarray, axis: int, counts: Counts, fewer: bool = False) -> np.ndarray:
    """Points on faces (n, D), (n, P, D)."""
    along = counts.fewer(axis) if fewer else counts.face(axis)
    return _without_corners(tensor_grid(lower, upper, along, counts.orders.time), along, counts)


def _without_corners(points: np.ndarray, along: Sequence[int], counts: Counts) -> np.ndarray:
    """Points (n, P, D) of a grid, as many as functions of space where they are as many along its coordinates."""
    circular = counts.circular
    if not circular or any(along[k] <= counts.degree[k] for k in circular):
        return points
    number = np.indices(along).reshape(len(along), -1)[list(circular)]
    ends = (number > np.array([[counts.degree[k]] for k in circular]) - counts.depth).sum(axis=0)
    return points[:, ends < 2]


@dataclass(frozen=True)
class Seam:
    """Points (P, D) across which the cells `first` and `second` (P,) are tied."""

    axis: int
    points: np.ndarray
    first: np.ndarray
    second: np.ndarray

    def where(self, kept: np.ndarray) -> Seam:
        """Some of the points, (P,) bool."""
        return Seam(self.axis, self.points[kept], self.first[kept], self.second[kept])


def joined(parts: Sequence[Seam]) -> Seam:
    arrays = ([getattr(p, name) for p in parts] for name in ("points", "first", "second"))
    return Seam(parts[0].axis, *(np.concatenate(a) for a in arrays))


def seams(cells: Cells, faces: Sequence[Face], counts: Counts) -> dict[tuple[int, str], Seam]:
    """Per coordinate and kind: "fine" at the points of the finer side, "coarse" at those of the coarser one.

    Across time, all conditions are at the points of the later cell: they say how it starts. So they do where a field is
    carried along, b u_x + .. = f: at the points of the cell that it flows into.
    """
    found: dict[tuple[int, str], Seam] = {}
    for axis in range(cells.dimension):
        shared = np.array([k for k, f in enumerate(faces) if f.axis == axis and f.second >= 0], dtype=np.int64)
        if not len(shared):
            continue
        cut = Cut(cells, [faces[k] for k in shared], axis, counts)
        if axis == counts.orders.time:
            found[axis, "fine"] = cut.of_whole(cut.second, np.ones(len(shared), dtype=bool), False)
            continue
        sides = [cut.of_whole(side, np.ones(len(shared), dtype=bool), False) for side in (cut.second, cut.first)]
        streams = [counts.orders.stream(axis, side.points) for side in sides]
        if streams[0] is not None and streams[1] is not None:
            found[axis, "fine"] = joined([sides[0].where(streams[0] >= 0), sides[1].where(streams[1] < 0)])
            continue
        lower = axis in counts.circular  # where cells have fewer points on their lower side
        width = (cells.upper - cells.lower).prod(axis=1) / (cells.upper - cells.lower)[:, axis]
        finer_second = width[cut.second] < width[cut.first]
        finer = np.where(finer_second, cut.second, cut.first)
        coarser = np.where(finer_second, cut.first, cut.second)
        less = finer_second if lower else np.zeros(len(shared), dtype=bool)
        found[axis, "fine"] = joined([cut.of_whole(finer, ~less, False), cut.of_whole(finer, less, True)])
        less = ~finer_second if lower else np.zeros(len(shared), dtype=bool)
        found[axis, "coarse"] = joined([cut.of_whole(coarser, ~less, False), cut.of_whole(coarser, less, True)])
    return found


class Cut:
    """The faces shared across one coordinate: `first`, `second` (n,), `lower`, `upper` (n, D)."""

    def __init__(self, cells: Cells, faces: Sequence[Face], axis: int, counts: Counts):
        self.cells, self.axis, self.counts = cells, axis, counts
        self.first, self.second = (np.array([getattr(f, name) for f in faces]) for name in ("first", "second"))
        self.lower, self.upper = (np.stack([getattr(f, name) for f in faces]) for name in ("lower", "upper"))

    def of_whole(self, owner: np.ndarray, chosen: np.ndarray, fewer: bool) -> Seam:
        """Points of the whole face of `owner` (n,), as far as they lie on the shared part."""
        number = np.flatnonzero(chosen)
        low, high = self.lower[number], self.upper[number]
        whole_low, whole_high = self.cells.lower[owner[number]].copy(), self.cells.upper[owner[number]].copy()
        whole_low[:, self.axis], whole_high[:, self.axis] = low[:, self.axis], high[:, self.axis]
        points = face_points(whole_low, whole_high, self.axis, self.counts, fewer)
        others = [k for k in range(self.cells.dimension) if k != self.axis]
        inside = (points[:, :, others] >= low[:, None, others]) & (
            (points[:, :, others] < high[:, None, others]) | (high[:, None, others] == whole_high[:, None, others])
        )
        kept = inside.all(axis=2)
        return self._seam(points[kept], number[np.nonzero(kept)[0]])

    def _seam(self, points: np.ndarray, number: np.ndarray) -> Seam:
        flat = points.reshape(-1, self.cells.dimension)
        return Seam(self.axis, flat, self.first[number], self.second[number])
