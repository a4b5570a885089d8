"""Layout in a solid: as many conditions as functions for every box, fewer and guides where a box is cut.

As in the plane: neighbours share their conditions as boxes do, on as much of a face as lies inside. A patch that is cut
has exact points on its curved boundary and inside, a little less dense than those of boxes, and many more at which what
these leave open is fitted. Whole patches have as many conditions as functions and need no guides: what they leave open
is what their neighbours do. Points are picked from many by pivoted QR: those at which polynomials differ most.
Interfaces have as many points as a face of a box of the same area, from either side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import scipy.linalg
from numpy.polynomial import chebyshev

from cnf.bases.cover import OUTSIDE
from cnf.bases.local_functions import Products
from cnf.pde.domains.boundary import Piece, by_shape
from cnf.pde.patches.layout import Seam, joined, tensor_grid
from cnf.pde.patches.point_choice import grid_inside
from cnf.pde.patches.shaped_layout import EXACT, GUIDES, Arc, ShapedLayout
from cnf.pde.patches.solid import Part, Solid
from cnf.pde.patches.solid_interfaces import Contact, borders_at, contacts_among
from cnf.pde.patches.solid_surface import LATTICE, Surface

PICKED_FROM = 3  # times as many points as are wanted
MOST_CANDIDATES = 64  # along a coordinate
COVERED = 1 - 1e-9  # share of a face that counts as all of it
MOST_ALONG = 2  # guides along a coordinate of a patch, as many more than it has functions, in degrees
ON_INTERFACE = 0.7  # exact points on interfaces, relative to a face of a box of the same area
GUIDES_ON = 2.0  # and on its curved boundary, relative to a face of a box of the same area


def lay_out_solid(solid: Solid, degree: tuple[int, ...], stiffness: Sequence[float] = ()) -> ShapedLayout:
    """Points for equations of second order; `stiffness` is the size of their coefficients, region by region."""
    return _Layout(solid, degree).found(stiffness)


def solid_start_points(solid: Solid, degree: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """As many points of every patch as it has functions of space, (P, 3), and the patch of each, (P,).

    Boxes have a grid; of what lies inside the others, the points at which their functions differ most.
    """
    exponents = Products(degree, (0, 1, 2)).exponents
    along = [p + 1 for p in degree]
    kept = (np.indices(along).reshape(3, -1) == np.array(degree)[:, None]).sum(axis=0) < 2
    grids = tensor_grid(solid.cover.lower, solid.cover.upper, along)[:, kept]
    found, cut = list(grids), np.flatnonzero(~solid.whole)
    least = PICKED_FROM * len(exponents)
    for patch, own in zip(cut.tolist(), _grids_inside(solid, cut, least), strict=True):
        low, high = solid.cover.lower[patch], solid.cover.upper[patch]
        unit = (own - (low + high) / 2) / ((high - low) / 2)
        tables = [chebyshev.chebvander(unit[:, k], degree[k])[:, exponents[:, k]] for k in range(3)]
        _, pivot = scipy.linalg.qr((tables[0] * tables[1] * tables[2]).T, mode="r", pivoting=True, check_finite=False)
        found[patch] = own[np.sort(pivot[: len(exponents)])]
    return np.concatenate(found), np.repeat(np.arange(len(found)), [len(points) for points in found])


def _grids_inside(solid: Solid, patches: np.ndarray, least: int) -> list[np.ndarray]:
    """For every patch at least so many points of a grid inside, as far as they can be had, (P, 3) each."""
    along = [int(np.ceil(least ** (1 / 3))) + 1]
    while (more := int(np.ceil(1.2 * along[-1]))) < MOST_CANDIDATES:
        along.append(more)
    return grid_inside(solid, patches, [[n] * 3 for n in along], [least] * len(patches))


class _Layout:
    def __init__(self, solid: Solid, degree: tuple[int, ...]):
        self.solid, self.degree = solid, degree
        self.taken = np.zeros(solid.cover.count, dtype=np.int64)  # conditions that patches have so far
        self.inner = [p - 1 for p in degree]
        tops = (np.indices([p + 1 for p in degree]).reshape(3, -1) == np.array(degree)[:, None]).sum(axis=0)
        self.functions = int((tops < 2).sum())
        self.contacts: list[Contact] = []  # points on interfaces

    def found(self, stiffness: Sequence[float]) -> ShapedLayout:
        """Seams and flat boundaries first; curved boundaries and the inside get what functions are left."""
        seams = self._seams()
        arcs, guiding = self._flat_boundary(), []
        guiding_contacts: list[Contact] = []
        inside, restrained = [], []
        usual = int(np.prod(self.inner))
        for patch in range(self.solid.cover.count):
            left, around = self.functions - int(self.taken[patch]), 0
            if self.solid.curved[patch]:
                like_a_face = self.solid.curved_area(patch) * max(self.degree) ** 2
                share = self._interface_share(patch)
                if share > 0:
                    around = min(max(1, round(ON_INTERFACE * share * like_a_face)), left)
                    met, near = self._on_surfaces(patch, (around, round(GUIDES_ON * share * like_a_face) + 1), True)
                    for known, found in ((self.contacts, met), (guiding_contacts, near)):
                        known += [Contact(patch, beyond, a.points, a.normals) for beyond, a in found]
                if share < 1:
                    like_a_face *= 1 - share
                    outer = min(max(1, round(EXACT * like_a_face)), left - around)
                    exact, fitted = self._on_surfaces(patch, (outer, round(GUIDES_ON * like_a_face) + 1), False)
                    arcs += [arc for _, arc in exact]
                    guiding += [arc for _, arc in fitted]
                    around += outer
            held, left = (usual, left) if self.solid.whole[patch] else (round(EXACT * usual), left - around)
            inside.append(self._inside(patch, min(left, held)))
            restrained.append(inside[-1] if left >= held else self._inside(patch, held))
        owners, restrained_owners = (
            np.repeat(np.arange(len(own)), [len(points) for points in own]) for own in (inside, restrained)
        )
        fitted_in = np.concatenate([np.zeros((0, 3)), *self._filling(np.flatnonzero(~self.solid.whole))])
        return ShapedLayout(
            np.concatenate(inside),
            np.concatenate(restrained),
            (owners, restrained_owners),
            tuple(arcs),
            seams,
            borders_at(self.solid, self.contacts, stiffness),
            None,
            fitted_in,
            tuple(guiding),
            guiding_borders=borders_at(self.solid, guiding_contacts, stiffness, both=True),
        )

    def _filling(self, patches: np.ndarray) -> list[np.ndarray]:
        """Points of a grid over the inside of every patch, clearly more than it has functions, (P, 3) each."""
        tried = [[p + 1 + more for p in self.degree] for more in range(MOST_ALONG * max(self.degree))]
        return grid_inside(self.solid, patches, tried, [GUIDES * self.functions] * len(patches))

    def _seams(self) -> dict[tuple[int, str], Seam]:
        """Ties: values at points of the finer patch, fluxes at those of the coarser one."""
        groups: dict[tuple[str, int, int, float], list[Part]] = defaultdict(list)
        frame = self.solid.cover.upper - self.solid.cover.lower
        for part in self.solid.parts:
            if part.second < 0:
                continue
            width = [np.delete(frame[k], part.axis).prod() for k in (part.first, part.second)]
            finer_second = width[1] < width[0] * (1 - 1e-9)
            fine, coarse = (part.second, part.first) if finer_second else (part.first, part.second)
            groups["fine", fine, part.axis, part.position].append(part)
            groups["coarse", coarse, part.axis, part.position].append(part)
        found: dict[tuple[int, str], list[Seam]] = defaultdict(list)
        for (kind, owner, axis, _), parts in groups.items():
            for points, part in self._on_parts(owner, parts, part_is_lower(owner, parts)):
                ends = (np.full(len(points), k) for k in (part.first, part.second))
                found[axis, kind].append(Seam(axis, points, *ends))
        return {key: joined(own) for key, own in found.items()}

    def _flat_boundary(self) -> list[Arc]:
        """The boundary where it runs along faces of cells."""
        groups: dict[tuple[int, int, int, float], list[Part]] = defaultdict(list)
        for part in self.solid.parts:
            if part.second < 0:
                groups[part.first, part.axis, part.side, part.position].append(part)
        found = []
        for (owner, axis, side, _), parts in groups.items():
            for points, _ in self._on_parts(owner, parts, side == 0):
                normals = np.zeros_like(points)
                normals[:, axis] = 2 * side - 1
                self.contacts += contacts_among(self.solid, owner, points, normals)
                outer = self.solid.beyond(points, normals) == OUTSIDE
                if not outer.any():
                    continue
                points, normals = points[outer], normals[outer]
                if side and points[0, axis] < self.solid.domain.upper[axis]:  # a point on a cut is the upper cell's
                    points[:, axis] = np.nextafter(points[0, axis], -np.inf)
                shapes = by_shape(self.solid.domain, points, 2 * self.solid.step)
                found += [Arc(piece, points[own], normals[own]) for piece, own in shapes]
        return found

    def _on_parts(self, owner: int, parts: Sequence[Part], lower: bool) -> list[tuple[np.ndarray, Part]]:
        """The points of a patch on one of its faces, part by part."""
        axis, position = parts[0].axis, parts[0].position
        others = [k for k in range(3) if k != axis]
        along = [1 if k == axis else p - (lower and k > axis) for k, p in enumerate(self.degree)]  # as boxes have
        low, high = self.solid.cover.lower[owner].copy(), self.solid.cover.upper[owner].copy()
        low[axis] = high[axis] = position
        full, area = (high - low)[others].prod(), sum(part.area for part in parts)
        if area >= COVERED * full:
            points = tensor_grid(low[None], high[None], along)[0]
        else:
            wanted = max(1, round(area / full * along[others[0]] * along[others[1]]))
            start, end = (f([getattr(p, n) for p in parts], axis=0) for f, n in ((np.min, "lower"), (np.max, "upper")))
            start, end = np.maximum(start, low), np.minimum(end, high)
            share = min(1.0, area / max((end - start)[others].prod(), 1e-300))
            points = self._picked_on_face(parts, start, end, wanted, share)
        self.taken[owner] += len(points)
        found = []
        for part in parts:
            own = self._on_rectangle(points, part, others)
            if own.any():
                found.append((points[own], part))
                points = points[~own]
        self.taken[owner] -= len(points)  # beyond all parts, by rounding
        return found

    @staticmethod
    def _on_rectangle(points: np.ndarray, part: Part, others: list[int]) -> np.ndarray:
        x = points[:, others]
        return np.all((x >= part.lower[others]) & (x <= part.upper[others]), axis=1)

    def _picked_on_face(
        self, parts: Sequence[Part], low: np.ndarray, high: np.ndarray, wanted: int, share: float
    ) -> np.ndarray:
        others = [k for k in range(3) if k != parts[0].axis]
        count = max(8, int(np.ceil(np.sqrt(PICKED_FROM * wanted / max(share, 0.05)))) + 2)
        grid = tensor_grid(low[None], high[None], [count if k in others else 1 for k in range(3)])[0]
        kept = np.zeros(len(grid), dtype=bool)
        for part in parts:
            own = np.flatnonzero(self._on_rectangle(grid, part, others) & ~kept)
            kept[own] = self.solid.on_part(grid[own], part)
        return picked(grid[kept], grid[kept][:, others], wanted)

    def _interface_share(self, patch: int) -> float:
        """Of the curved boundary of a patch."""
        count = [(len(surface.points), surface.beyond != OUTSIDE) for surface in self.solid.boundary[patch]]
        return sum(n for n, met in count if met) / sum(n for n, _ in count)

    def _surfaces(self, patch: int, count: int, met: bool) -> list[Surface]:
        """Points of the curved boundary of a patch, or where it meets other regions, clearly more than `count`.

        As many as can be had.
        """
        for along in (1, 2, 3):
            found = self.solid.boundary[patch] if along == 1 else self.solid.boundary_of(patch, along * LATTICE)
            own = [surface for surface in found if (surface.beyond != OUTSIDE) == met]
            if sum(len(surface.points) for surface in own) >= PICKED_FROM * count:
                break
        return own

    def _on_surfaces(self, patch: int, counts: Sequence[int], met: bool) -> list[list[tuple[int, Arc]]]:
        """For every count so many points of the curved boundary, or interfaces, by the shape and what lies beyond."""
        surfaces = self._surfaces(patch, max(counts), met)
        points, normals = (np.concatenate([getattr(s, n) for s in surfaces]) for n in ("points", "normals"))
        owner = np.repeat(np.arange(len(surfaces)), [len(s.points) for s in surfaces])
        frame = self.solid.cover.upper[patch] - self.solid.cover.lower[patch]
        flat = (points - points.mean(axis=0)) / frame
        flat = flat @ np.linalg.svd(flat, full_matrices=False)[2][:2].T  # along the boundary
        return [
            [
                (surface.beyond, Arc(Piece(surface.names), points[own], normals[own], patch))
                for k, surface in enumerate(surfaces)
                if len(own := chosen[owner[chosen] == k])
            ]
            for chosen in (pick(flat, count) for count in counts)
        ]

    def _inside(self, patch: int, count: int) -> np.ndarray:
        """`count` points of the inside of a patch, (P, 3)."""
        solid = self.solid
        low, high = solid.cover.lower[patch : patch + 1], solid.cover.upper[patch : patch + 1]
        if solid.whole[patch] and count == np.prod(self.inner):
            return tensor_grid(low, high, self.inner)[0]
        (own,) = _grids_inside(solid, np.array([patch]), PICKED_FROM * count)
        return picked(own, own, count)


def part_is_lower(owner: int, parts: Sequence[Part]) -> bool:
    """Whether parts of a face lie on the lower side of their owner."""
    return all(part.second == owner for part in parts)


def picked(points: np.ndarray, coordinates: np.ndarray, count: int) -> np.ndarray:
    """`count` of the points (P, 3), by their coordinates (P, d) on what they lie on, in the order given."""
    return points[np.sort(pick(coordinates, count))]


def pick(points: np.ndarray, count: int) -> np.ndarray:
    """Numbers of `count` points (P, d) at which polynomials of just as many weights differ most."""
    if count <= 0 or not len(points):
        return np.zeros(0, dtype=np.int64)
    low, high = points.min(axis=0), points.max(axis=0)
    unit = (points - (low + high) / 2) / np.where(high > low, (high - low) / 2, 1.0)
    dimension, along = points.shape[1], 1
    while along**dimension < count:
        along += 1
    products = np.ones((len(points), 1))
    for k in range(dimension):
        table = chebyshev.chebvander(unit[:, k], along - 1)
        products = (products[:, :, None] * table[:, None, :]).reshape(len(points), -1)
    _, pivot = scipy.linalg.qr(products.T, mode="r", pivoting=True, check_finite=False)
    return pivot[:count]
