"""Solid: a domain in space that is no box, as patches: cells inside it, cells cut by its boundary, slivers joined.

The boundary is known by the distances to the shapes that make up the domain: points of a lattice are moved onto it
along the gradients of these distances. Where it runs along faces of cells it is a part of such a face, as on a box.

Regions that meet in flat faces have cells of their own. Others are cut each by itself on the same cells, as in the
plane: a cell across an interface has a patch of either, and the interface is a part of the boundary of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cnf.bases.cells import Cells, Face
from cnf.bases.cover import OUTSIDE, Cover
from cnf.bases.edge_functions import Edge
from cnf.pde.domains import Domain, Timed
from cnf.pde.domains.boundary import by_shape
from cnf.pde.domains.domain import belongs_to
from cnf.pde.domains.regions import Regions
from cnf.pde.patches.aligned import by_region
from cnf.pde.patches.meeting import lattice
from cnf.pde.patches.slivers import join_slivers
from cnf.pde.patches.solid_surface import LATTICE, STEP, Surface, surfaces_in, surfaces_of

ON_FACE = 16  # and along both coordinates of a face
SLIVER = 0.25, 0.4  # of a cell: patches thinner than this join a neighbour, without and with curved interfaces


@dataclass(frozen=True)
class Part:
    """What two patches share of a face of cells, or what one has of the boundary there: `second` is -1 then.

    `side` is 1 on the upper end of the first one. Only what lies inside the domain counts: `area` of it.
    """

    first: int
    second: int
    axis: int
    side: int
    position: float
    lower: np.ndarray
    upper: np.ndarray
    area: float

    def shifted(self, by: int) -> Part:
        """Of patches with numbers that are higher."""
        return replace(self, first=self.first + by, second=self.second + by if self.second >= 0 else OUTSIDE)


@dataclass(frozen=True)
class Solid:
    """`parts` are faces, `whole` (patches,) says which patches are plain boxes, `curved` which have other boundaries.

    `area` (patches, 3) is that of the curved boundary seen along every coordinate. `shapes` are what was cut, the
    domain or its regions, and `shape` (patches,) the number of that of every patch.
    """

    domain: Domain
    cells: Cells
    cover: Cover
    parts: tuple[Part, ...]
    area: np.ndarray
    whole: np.ndarray
    curved: np.ndarray
    shapes: tuple[Domain, ...]
    shape: np.ndarray
    regions: Regions | None = None

    @staticmethod
    def of(domain: Domain, cells: Cells, regions: Regions | None = None) -> Solid:
        """Flat interfaces of regions run along faces of cells; if there are curved ones, all of them cut cells."""
        step = STEP * float(max(np.subtract(domain.upper, domain.lower)))
        shapes = shapes_to_cut(domain, regions)
        aligned = regions if len(shapes) == 1 else None
        found = [_Shaper(shape, cells, step, SLIVER[len(shapes) > 1], aligned).cut() for shape in shapes]
        starts = np.cumsum([0, *(len(own.lower) for own in found)]).tolist()
        columns = [
            np.where(own.patch == OUTSIDE, OUTSIDE, own.patch + n) for own, n in zip(found, starts, strict=False)
        ]
        if aligned is not None:
            columns = [by_region(columns[0], found[0].region, aligned)]
        elif regions is not None and len(columns) < regions.partition.count:  # nothing is left for the rest
            columns.append(np.full(cells.count, OUTSIDE))
        lower, upper, area, whole, curved = (
            np.concatenate([getattr(own, name) for own in found])
            for name in ("lower", "upper", "area", "whole", "curved")
        )
        partition = None if regions is None else regions.partition
        return Solid(
            domain,
            cells,
            Cover(cells, np.column_stack(columns), lower, upper, partition),
            tuple(part.shifted(n) for own, n in zip(found, starts, strict=False) for part in own.parts),
            area,
            whole,
            curved,
            shapes,
            np.repeat(np.arange(len(shapes)), [len(own.lower) for own in found]),
            regions,
        )

    def inside(self, points: np.ndarray) -> np.ndarray:
        return self.domain._inside(points)

    def edges_of(self, edges: Sequence[Edge]) -> list[tuple[Edge, ...]]:
        """Those that every patch has."""
        near = 10 * self.step
        touched = [edge.touches(self.cover.lower, self.cover.upper, near) & self.whole for edge in edges]
        return [tuple(e for e, own in zip(edges, touched, strict=True) if own[k]) for k in range(self.cover.count)]

    @cached_property
    def step(self) -> float:
        return STEP * float(max(np.subtract(self.domain.upper, self.domain.lower)))

    @cached_property
    def boundary(self) -> list[list[Surface]]:
        """The curved boundary of every patch, shape by shape, by points of a lattice."""
        return [self.boundary_of(patch, LATTICE) if self.curved[patch] else [] for patch in range(self.cover.count)]

    def boundary_of(self, patch: int, count: int) -> list[Surface]:
        """The curved boundary of a patch, from a lattice of `count` points along every coordinate."""
        cells = np.flatnonzero((self.cover.patch == patch).any(axis=1))
        low, high = self.cover.lower[patch : patch + 1], self.cover.upper[patch : patch + 1]
        shape = self.shapes[self.shape[patch]]
        found = [surface.of(cells) for surface in surfaces_in(shape, self.cells, low, high, count)]
        if len(self.shapes) > 1:
            found = [own for surface in found for own in self._by_neighbour(surface)]
        return [surface for surface in found if len(surface.points)]

    def _by_neighbour(self, surface: Surface) -> list[Surface]:
        """What of the boundary of a region is that of the domain, by its shapes, and what meets which other region."""
        beyond = self.beyond(surface.points, surface.normals)
        outer = surface.where(beyond == OUTSIDE)
        found = [
            replace(outer.where(own), names=piece.names)
            for piece, own in by_shape(self.domain, outer.points, 2 * self.step)
        ]
        met = np.unique(beyond[beyond != OUTSIDE])
        return found + [replace(surface.where(beyond == number), beyond=int(number)) for number in met]

    def beyond(self, points: np.ndarray, normals: np.ndarray) -> np.ndarray:
        """The region that lies beyond points of the boundary of a patch, (P,): -1 if they lie on that of the domain."""
        if len(self.shapes) == 1 or self.regions is None:
            return np.full(len(points), OUTSIDE)
        over = points + self.step * normals
        return np.where(self.inside(over), self.regions.number(over), OUTSIDE)

    def curved_area(self, patch: int) -> float:
        """The curved boundary of a patch, in faces of its frame."""
        frame = self.cover.upper[patch] - self.cover.lower[patch]
        faces = np.array([np.delete(frame, k).prod() for k in range(3)])
        return float(np.linalg.norm(self.area[patch] / faces))

    def on_part(self, points: np.ndarray, part: Part) -> np.ndarray:
        """Which points of the face of a part belong to it, (P,)."""
        across = np.zeros(3)
        across[part.axis] = self.step
        inside = self.shapes[self.shape[part.first]]._inside
        below, above = inside(points - across), inside(points + across)
        if part.second >= 0:
            return below & above
        return below & ~above if part.side else above & ~below


def shapes_of(domain: Domain, part: str | None) -> list[Domain]:
    """The shapes whose boundary belongs to a part of the boundary; None: all of it."""
    return [leaf for leaf, names in domain._leaves() if part is None or belongs_to(part, names)]


def shapes_to_cut(domain: Domain, regions: Regions | None) -> tuple[Domain, ...]:
    """The domain, or its regions if some of them meet in curved faces."""
    if regions is None or regions.flat_at is not None:
        return (domain,)
    return tuple(regions.in_space(number) for number in range(len(regions.names)))


def is_curved_solid(domain: Domain, regions: Regions | None = None) -> bool:
    """Whether something in space is no box, it or a region, during time or not: fields are found degree by degree."""
    space = space_of(domain)
    return space.dimension == 3 and not (space._is_box and (regions is None or regions.flat_at is not None))


def space_of(domain: Domain) -> Domain:
    """A domain without its time, if it has any."""
    return domain.space if isinstance(domain, Timed) else domain


@dataclass(frozen=True)
class _Found:
    """The patches of one shape: `patch` and `region` (cells,), their frames, and the rest as `Solid` has it."""

    patch: np.ndarray
    region: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    parts: list[Part]
    area: np.ndarray
    whole: np.ndarray
    curved: np.ndarray


class _Shaper:
    """Finds what lies inside of every cell; `regions` have cells of their own."""

    def __init__(self, domain: Domain, cells: Cells, step: float, sliver: float, regions: Regions | None):
        self.domain, self.cells, self.step, self.sliver, self.regions = domain, cells, step, sliver, regions
        self.surfaces = surfaces_of(domain, cells)
        points = lattice(cells.lower, cells.upper, LATTICE)
        self.within = domain._inside(points.reshape(-1, 3)).reshape(points.shape[:2])  # (n, P)
        low = np.where(self.within[:, :, None], points, np.inf).min(axis=1)
        high = np.where(self.within[:, :, None], points, -np.inf).max(axis=1)
        self.low, self.high = low, high  # frames of what lies inside
        self.region = self._regions(points)

    def _regions(self, points: np.ndarray) -> np.ndarray:
        """The region of every cell, (n,), by the points (n, P, 3) of its lattice, or of its surface, inside."""
        found = np.zeros(self.cells.count, dtype=np.int64)
        if self.regions is not None:
            for surface in self.surfaces:
                found[surface.cells] = self.regions.number(surface.points - self.step * surface.normals)
            seen = self.within.any(axis=1)
            found[seen] = self.regions.number(points[seen, self.within[seen].argmax(axis=1)])
        return found

    def cut(self) -> _Found:
        """Cells that have a part inside, slivers joined, and what is shared between them."""
        cells = self.cells
        share = self.within.mean(axis=1)
        cut = (share > 0) & (share < 1)
        for surface in self.surfaces:
            cut[np.unique(surface.cells)] = True
            np.minimum.at(self.low, surface.cells, surface.points)
            np.maximum.at(self.high, surface.cells, surface.points)
        inside = (share > 0) | cut
        parts = [part for face in cells.faces() for part in self._parts(face, inside)]
        whole = inside & ~cut
        self.low[whole], self.high[whole] = cells.lower[whole], cells.upper[whole]
        self.low, self.high = np.maximum(self.low, cells.lower), np.minimum(self.high, cells.upper)
        beside = self._tips(inside, parts)
        lost = np.setdiff1d(np.flatnonzero(share == 0), [cell for part in parts for cell in (part.first, part.second)])
        inside[np.setdiff1d(lost, [cell for tip in beside for cell in tip[:2]])] = False
        cut &= inside
        patch, low, high = self._joined(inside, cut, parts, beside)
        plain = np.ones(len(low), dtype=bool)
        plain[patch[cut]] = False
        plain[np.bincount(patch[inside], minlength=len(low)) > 1] = False
        area = np.zeros((len(low), 3))
        np.add.at(area, patch[inside], self._areas()[inside])
        curved = np.zeros(len(low), dtype=bool)
        for surface in self.surfaces:
            curved[patch[surface.cells[inside[surface.cells]]]] = True
        moved = [_between_patches(part, patch) for part in parts]
        shared = [part for part in moved if part.first != part.second]
        return _Found(patch, self.region, low, high, shared, area, plain, curved)

    def _areas(self) -> np.ndarray:
        """The boundary inside cells as seen along every coordinate, (n, 3): how often lines of the lattice cross it."""
        table = self.within.reshape(-1, LATTICE, LATTICE, LATTICE)
        width = self.cells.upper - self.cells.lower
        found = np.empty((self.cells.count, 3))
        for axis in range(3):
            crossings = (np.diff(table, axis=axis + 1)).sum(axis=(1, 2, 3))
            found[:, axis] = crossings / LATTICE**2 * np.delete(width, axis, axis=1).prod(axis=1)
        return found

    def _parts(self, face: Face, inside: np.ndarray) -> list[Part]:
        """What of a face is shared, and what is boundary; numbers of cells, not of patches."""
        others = [k for k in range(3) if k != face.axis]
        unit = (np.arange(ON_FACE) + 0.5) / ON_FACE
        grid = np.stack([g.ravel() for g in np.meshgrid(unit, unit, indexing="ij")], axis=1)
        points = np.full((len(grid), 3), face.position)
        points[:, others] = face.lower[others] + (face.upper - face.lower)[others] * grid
        across = np.zeros(3)
        across[face.axis] = self.step
        below, above = self.domain._inside(points - across), self.domain._inside(points + across)
        full = (face.upper - face.lower)[others].prod()
        found = []
        lower_cell, upper_cell = (face.first, face.second) if face.side else (face.second, face.first)
        for kept, first, second, side in (
            (below & above, lower_cell, upper_cell, 1),
            (below & ~above, lower_cell, OUTSIDE, 1),
            (above & ~below, upper_cell, OUTSIDE, 0),
        ):
            if not kept.any() or first < 0 or not inside[first] or (second >= 0 and not inside[second]):
                continue
            for cell in (first, second)[: 1 + (second >= 0)]:
                self.low[cell] = np.minimum(self.low[cell], points[kept].min(axis=0))
                self.high[cell] = np.maximum(self.high[cell], points[kept].max(axis=0))
            area = float(kept.mean() * full)
            found.append(Part(first, second, face.axis, side, face.position, face.lower, face.upper, area))
        return found

    def _tips(self, inside: np.ndarray, parts: list[Part]) -> list[tuple[int, int, float]]:
        """Cells with so little inside that no face is seen to be shared, their neighbours, and how near these are."""
        known = {cell for part in parts for cell in (part.first, part.second)}
        found = []
        for face in self.cells.faces():
            pair = (face.first, face.second)
            tips = [cell for cell in pair if cell >= 0 and inside[cell] and cell not in known]
            if tips and face.second >= 0 and inside[face.first] and inside[face.second]:
                ends = np.array([(self.low[cell, face.axis], self.high[cell, face.axis]) for cell in tips])
                gap = np.abs(ends - face.position).min() / (self.cells.upper - self.cells.lower)[tips[0], face.axis]
                found.append((*pair, self.step**2 / (1 + float(gap))))  # less than any area
        return found

    def _joined(
        self, inside: np.ndarray, cut: np.ndarray, parts: list[Part], beside: list[tuple[int, int, float]]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The patch of every cell, and the frames of the patches."""
        extent = (self.high - self.low) / (self.cells.upper - self.cells.lower)
        sliver = inside & cut & (extent.min(axis=1) < self.sliver)
        own = self.region
        shared = [(p.first, p.second, p.area) for p in parts if p.second >= 0 and own[p.first] == own[p.second]]
        return join_slivers(inside, sliver, [*shared, *beside], self.low, self.high)


def _between_patches(part: Part, patch: np.ndarray) -> Part:
    second = OUTSIDE if part.second < 0 else int(patch[part.second])
    rest = part.axis, part.side, part.position, part.lower, part.upper, part.area
    return Part(int(patch[part.first]), second, *rest)
