"""Solid: a domain in space that is no box, as patches: cells inside it, cells cut by its boundary, slivers joined.

The boundary is known by the distances to the shapes that make up the domain: points of a lattice are moved onto it
along the gradients of these distances. Where it runs along faces of cells it is a part of such a face, as on a box.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cnf.bases.cells import Cells, Face
from cnf.bases.cover import OUTSIDE, Cover
from cnf.bases.edge_functions import Edge
from cnf.pde.domains import Domain, Timed
from cnf.pde.domains.domain import belongs_to
from cnf.pde.domains.regions import Regions
from cnf.pde.patches.aligned import by_region
from cnf.pde.patches.meeting import lattice
from cnf.pde.patches.slivers import join_slivers
from cnf.pde.patches.solid_surface import LATTICE, STEP, Surface, surfaces_in, surfaces_of

ON_FACE = 16  # and along both coordinates of a face
TURNING = 1.8  # radians that the boundary may turn in a cell
SLIVER = 0.25  # of a cell: patches thinner than this join a neighbour
COARSEST, DEEPEST = 2, 5  # halvings of the box around the domain
FLAT_CUTS = 12  # cuts along flat sides, per coordinate


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


@dataclass(frozen=True)
class Solid:
    """`parts` are faces, `whole` (patches,) says which patches are plain boxes, `curved` which have other boundaries.

    `area` (patches, 3) is that of the curved boundary seen along every coordinate.
    """

    domain: Domain
    cells: Cells
    cover: Cover
    parts: tuple[Part, ...]
    area: np.ndarray
    whole: np.ndarray
    curved: np.ndarray

    @staticmethod
    def of(domain: Domain, cells: Cells, regions: Regions | None = None) -> Solid:
        """Interfaces of regions run along faces of cells."""
        return _Shaper(domain, cells, regions).solid()

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
        found = (surface.of(cells) for surface in surfaces_in(self.domain, self.cells, low, high, count))
        return [surface for surface in found if len(surface.points)]

    def on_part(self, points: np.ndarray, part: Part) -> np.ndarray:
        """Which points of the face of a part belong to it, (P,)."""
        across = np.zeros(3)
        across[part.axis] = self.step
        below, above = (self.inside(points - across), self.inside(points + across))
        if part.second >= 0:
            return below & above
        return below & ~above if part.side else above & ~below


def shapes_of(domain: Domain, part: str | None) -> list[Domain]:
    """The shapes whose boundary belongs to a part of the boundary; None: all of it."""
    return [leaf for leaf, names in domain._leaves() if part is None or belongs_to(part, names)]


def is_curved_solid(domain: Domain) -> bool:
    """Whether it is one in space, without time, that is no box: fields on it are found degree by degree."""
    return domain.dimension == 3 and not isinstance(domain, Timed) and not domain._is_box


def first_solid_cells(domain: Domain, regions: Regions | None = None) -> Cells:
    """Cells cut along flat sides and interfaces, then until the boundary turns little in each."""
    cells = Cells(domain.lower, domain.upper)
    inner = regions.flat_at if regions is not None else None
    for axis in range(3):
        for position in (*(inner[axis] if inner is not None else ()), *flat_sides(domain, axis)):
            chosen = np.flatnonzero((cells.lower[:, axis] < position) & (position < cells.upper[:, axis]))
            cells = cells.cut(chosen, axis, [position] * len(chosen))
    side = max(np.subtract(domain.upper, domain.lower))
    for _ in range(COARSEST):
        for axis in range(3):
            cells = cells.cut(np.flatnonzero(cells.upper[:, axis] - cells.lower[:, axis] > 0.6 * side), axis)
    for _ in range(DEEPEST):
        crowded = _turning(domain, cells) > TURNING
        if not crowded.any():
            break
        chosen = np.flatnonzero(crowded)
        for axis in range(3):
            count = cells.count
            cells = cells.cut(chosen, axis)
            chosen = np.concatenate([chosen, np.arange(count, cells.count)])
    return cells


def flat_sides(domain: Domain, axis: int) -> list[float]:
    """Positions of the sides of boxes, inside the box around the domain."""
    low, high = domain.lower[axis], domain.upper[axis]
    margin = 0.02 * (high - low)
    found = {end[axis] for leaf, _ in domain._leaves() if leaf._is_box for end in (leaf.lower, leaf.upper)}
    kept: list[float] = []
    for position in sorted(found):
        if low + margin < position < high - margin and (not kept or position - kept[-1] > margin):
            kept.append(position)
    return kept if len(kept) <= FLAT_CUTS else []


def _turning(domain: Domain, cells: Cells) -> np.ndarray:
    """By how much the normals of the curved boundary differ in every cell, (n,)."""
    found = np.zeros(cells.count)
    surfaces = surfaces_of(domain, cells)
    for cell in np.unique(np.concatenate([s.cells for s in surfaces])) if surfaces else ():
        normals = np.concatenate([s.normals[s.cells == cell] for s in surfaces])
        middle = normals.mean(axis=0)
        length = np.linalg.norm(middle)
        lowest = (normals @ middle).min() / length if length > 0.1 else -1.0
        found[cell] = 2 * np.arccos(np.clip(lowest, -1, 1))
    return found


class _Shaper:
    """Finds what lies inside of every cell."""

    def __init__(self, domain: Domain, cells: Cells, regions: Regions | None):
        self.domain, self.cells, self.regions = domain, cells, regions
        self.step = STEP * float(max(np.subtract(domain.upper, domain.lower)))
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

    def solid(self) -> Solid:
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
        patch, low, high = self._joined(inside, cut, parts)
        plain = np.ones(len(low), dtype=bool)
        plain[patch[cut]] = False
        plain[np.bincount(patch[inside], minlength=len(low)) > 1] = False
        area = np.zeros((len(low), 3))
        np.add.at(area, patch[inside], self._areas()[inside])
        curved = np.zeros(len(low), dtype=bool)
        for surface in self.surfaces:
            curved[patch[surface.cells]] = True
        moved = [_between_patches(part, patch) for part in parts]
        partition = None if self.regions is None else self.regions.partition
        columns = patch if self.regions is None else by_region(patch, self.region, self.regions)
        return Solid(
            self.domain,
            cells,
            Cover(cells, columns, low, high, partition),
            tuple(part for part in moved if part.first != part.second),
            area,
            plain,
            curved,
        )

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

    def _joined(
        self, inside: np.ndarray, cut: np.ndarray, parts: list[Part]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The patch of every cell, and the frames of the patches."""
        extent = (self.high - self.low) / (self.cells.upper - self.cells.lower)
        sliver = inside & cut & (extent.min(axis=1) < SLIVER)
        own = self.region
        shared = [(p.first, p.second, p.area) for p in parts if p.second >= 0 and own[p.first] == own[p.second]]
        return join_slivers(inside, sliver, shared, self.low, self.high)


def _between_patches(part: Part, patch: np.ndarray) -> Part:
    second = OUTSIDE if part.second < 0 else int(patch[part.second])
    rest = part.axis, part.side, part.position, part.lower, part.upper, part.area
    return Part(int(patch[part.first]), second, *rest)
