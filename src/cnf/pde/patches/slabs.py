"""Slabs: a domain that is no box, during time. Every slab of time has patches of its own, laid out in space.

Conditions are those of an equation in the plane or in a solid, at Radau's points of the slab; and as many at its start
as a patch has functions of space, where it takes over from the slab before, which may have other patches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cnf.bases.cells import Cells
from cnf.bases.cover import OUTSIDE, Cover
from cnf.pde.domains import Timed
from cnf.pde.domains.regions import Regions
from cnf.pde.patches.layout import Seam, joined, radau
from cnf.pde.patches.shaped import Shaped
from cnf.pde.patches.shaped_layout import Arc, Border, ShapedLayout, joined_borders, lay_out, start_points
from cnf.pde.patches.solid import Solid
from cnf.pde.patches.solid_layout import lay_out_solid, solid_start_points


@dataclass(frozen=True)
class Slab:
    """From `start` to `end`: the patches in space, and the number of the first of them."""

    start: float
    end: float
    shaped: Shaped | Solid
    first: int


@dataclass(frozen=True)
class Slabs:
    """What `Shaped` and `Solid` are for a domain without time."""

    domain: Timed
    cover: Cover
    slabs: tuple[Slab, ...]

    @staticmethod
    def of(domain: Timed, cells: Cells, regions: Regions | None = None) -> Slabs:
        """Patches of every slab that the cells make along time, numbered one slab after the other."""
        time = domain.dimension - 1
        patch = np.full((cells.count, 1 if regions is None else regions.partition.count), OUTSIDE)
        known: dict[bytes, Shaped | Solid] = {}  # slabs with the same cells in space share what is found
        kind = Solid if domain.space.dimension == 3 else Shaped
        slabs: list[Slab] = []
        low, high = [], []
        count = 0
        for start in np.unique(cells.lower[:, time]):
            end = float(cells.upper[cells.lower[:, time] == start, time].min())
            across, numbers = cells.section(time, float((start + end) / 2))
            key = across.table().tobytes()
            shaped = known[key] if key in known else known.setdefault(key, kind.of(domain.space, across, regions))
            own = shaped.cover
            patch[numbers] = np.where(own.patch == OUTSIDE, OUTSIDE, own.patch + count)
            low.append(np.column_stack([own.lower, np.full(own.count, start)]))
            high.append(np.column_stack([own.upper, np.full(own.count, end)]))
            slabs.append(Slab(float(start), end, shaped, count))
            count += own.count
        partition = None if regions is None else regions.partition
        return Slabs(domain, Cover(cells, patch, np.concatenate(low), np.concatenate(high), partition), tuple(slabs))

    def inside(self, points: np.ndarray) -> np.ndarray:
        return self.domain._inside(points)


def lay_out_slabs(
    slabs: Slabs, degree: tuple[int, ...], stiffness: Sequence[float] = (), waves: bool = False
) -> ShapedLayout:
    """Points for equations of second order in space and first order in time, (P, D); the rest as for `lay_out`.

    Where `waves` travel, cut patches start from what is seen of their functions, and rates hold at as many points.
    """
    duration, dimension = degree[-1], len(degree)
    known: dict[int, tuple[ShapedLayout, np.ndarray, np.ndarray]] = {}
    interior, restrained, arcs, seams = [], [], [], []
    guides, guiding_arcs, room = [np.zeros((0, dimension))], [], 0
    borders: dict[tuple[int, str], list[Border]] = {}
    owners: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    start = np.zeros((0, dimension))
    local, local_owners = [], []
    before: Slab | None = None
    for slab in slabs.slabs:
        if id(slab.shaped) not in known:
            known[id(slab.shaped)] = _in_space(slab.shaped, degree[:-1], stiffness, waves)
        layout, points, owner = known[id(slab.shaped)]
        times = (slab.start + slab.end) / 2 + (slab.end - slab.start) / 2 * radau(duration)
        interior.append(_at(layout.interior, times))
        restrained.append(_at(layout.restrained, times))
        for found, own in zip(owners, layout.owners, strict=True):
            found.append(np.tile(own + slab.first, len(times)))
        local.append(_at(points, times))  # points that tell functions apart at the start do so at all times
        local_owners.append(np.tile(owner + slab.first, len(times)))
        arcs += [_arc_at(arc, times, slab.first) for arc in layout.arcs]
        guides.append(_at(layout.guides, times))
        guiding_arcs += [_arc_at(arc, times, slab.first) for arc in layout.guiding_arcs]
        unseen = (math.prod(p + 1 for p in degree[:-1]) - 1) * slab.shaped.cover.count - len(points) if waves else 0
        room += layout.room * duration + unseen * (duration + 2)  # of what starts, value and rate, and of rates
        for (axis, kind), seam in layout.seams.items():
            sides = (np.tile(side + slab.first, len(times)) for side in (seam.first, seam.second))
            seams.append((kind, Seam(axis, _at(seam.points, times), *sides)))
        for key, border in layout.borders.items():
            ends = (np.tile(side + slab.first, len(times)) for side in (border.first, border.second))
            normals = np.tile(border.normals, (len(times), 1))
            borders.setdefault(key, []).append(Border(_at(border.points, times), normals, *ends))
        at_start = _at(points, np.array([slab.start]))
        if before is None:
            start = at_start
        else:
            earlier = before.shaped.cover.locate(points) + before.first
            seams.append(("fine", Seam(dimension - 1, at_start, earlier, owner + slab.first)))
        before = slab
    return ShapedLayout(
        np.concatenate(interior),
        np.concatenate(restrained),
        (np.concatenate(owners[0]), np.concatenate(owners[1])),
        tuple(arcs),
        _by_kind(seams),
        {key: joined_borders(own) for key, own in borders.items()},
        start,
        np.concatenate(guides),
        tuple(guiding_arcs),
        room,
        local=(np.concatenate(local), np.concatenate(local_owners)),
    )


def _in_space(
    shaped: Shaped | Solid, degree: tuple[int, ...], stiffness: Sequence[float], waves: bool
) -> tuple[ShapedLayout, np.ndarray, np.ndarray]:
    """The points of a slab in space, and those at which it starts, with their patches."""
    if isinstance(shaped, Solid):
        return lay_out_solid(shaped, degree, stiffness), *solid_start_points(shaped, degree)
    return lay_out(shaped, degree, stiffness, waves), *start_points(shaped, degree, waves)


def _arc_at(arc: Arc, times: np.ndarray, first: int) -> Arc:
    """An arc of a slab that has the patches from number `first` on, at all times (T,)."""
    return Arc(arc.curve, _at(arc.points, times), np.tile(arc.normals, (len(times), 1)), arc.patch + first)


def _at(points: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Points (P, D - 1) at all times (T,), (T P, D)."""
    return np.column_stack([np.tile(points, (len(times), 1)), np.repeat(times, len(points))])


def _by_kind(seams: Sequence[tuple[str, Seam]]) -> dict[tuple[int, str], Seam]:
    keys = sorted({(seam.axis, kind) for kind, seam in seams})
    return {key: joined([seam for kind, seam in seams if (seam.axis, kind) == key]) for key in keys}
