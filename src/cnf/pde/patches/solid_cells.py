"""Cells of a solid to begin with: cut along flat sides, and until its boundary and interfaces turn little in each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.spatial import cKDTree

from cnf.bases.cells import Cells
from cnf.pde.domains import Domain, Timed
from cnf.pde.domains.regions import Regions
from cnf.pde.patches.shaped import away_from
from cnf.pde.patches.solid import shapes_to_cut
from cnf.pde.patches.solid_surface import surfaces_of

TURNING = 1.8, 1.2  # radians that the boundary may turn in a cell, and an interface: it bounds patches on both sides
ROUND = 2.0  # the same where the boundary bends around the domain: an eighth of a ball
WIDEST = 2.0  # radii of the boundary: the width of cells that it cuts
FEW = 5  # points of a surface in a cell, from which on its radius is known
COARSEST, DEEPEST = 2, 5  # halvings of the box around the domain
FLAT_CUTS = 12  # cuts along flat sides, per coordinate


def first_solid_cells(domain: Domain, regions: Regions | None = None) -> Cells:
    """Cells cut along flat sides and interfaces, then until boundary and interfaces turn little; one slab of time."""
    if isinstance(domain, Timed):
        return first_solid_cells(domain.space, regions).extended(domain.start, domain.end)
    cells = Cells(domain.lower, domain.upper)
    inner = regions.flat_at if regions is not None else None
    shapes = shapes_to_cut(domain, regions)
    touching = [curved_ends(shapes, axis) if len(shapes) > 1 else np.zeros(0) for axis in range(3)]
    for axis in range(3):
        for position in (*(inner[axis] if inner is not None else ()), *flat_sides(domain, axis, shapes)):
            chosen = np.flatnonzero((cells.lower[:, axis] < position) & (position < cells.upper[:, axis]))
            cells = cells.cut(chosen, axis, [position] * len(chosen))
    side = max(np.subtract(domain.upper, domain.lower))
    for _ in range(COARSEST):
        for axis in range(3):
            wide = np.flatnonzero(cells.upper[:, axis] - cells.lower[:, axis] > 0.6 * side)
            cells = cells.cut(wide, axis, away_from(touching[axis], cells, wide, axis))
    for _ in range(DEEPEST):
        crowded = np.any([_turns(shape, cells, len(shapes) > 1) for shape in shapes], axis=0)
        cut = np.repeat(crowded[:, None], 3, axis=1)
        if len(shapes) == 1:  # fields around a ball fade over its radius, in cells that have a small cap of it too
            cut |= (cells.upper - cells.lower) * _bending(domain, cells)[:, None] > WIDEST
        if not cut.any():
            break
        for axis in range(3):
            chosen = np.flatnonzero(cut[:, axis])
            cells = cells.cut(chosen, axis, away_from(touching[axis], cells, chosen, axis))
            cut = np.concatenate([cut, cut[chosen]])
    return cells


def curved_ends(shapes: Sequence[Domain], axis: int) -> np.ndarray:
    """Where curved shapes end along a coordinate: a cut there would touch them and leave wedges on either side."""
    leaves = [leaf for shape in shapes for leaf, _ in shape._leaves() if not leaf._is_box]
    return np.unique([end[axis] for leaf in leaves for end in (leaf.lower, leaf.upper)])


def flat_sides(domain: Domain, axis: int, shapes: Sequence[Domain] = ()) -> list[float]:
    """Positions of the sides of boxes that a domain, or shapes in it, are made of, inside the box around it."""
    low, high = domain.lower[axis], domain.upper[axis]
    margin = 0.02 * (high - low)
    leaves = [leaf for shape in shapes or (domain,) for leaf, _ in shape._leaves()]
    found = {end[axis] for leaf in leaves if leaf._is_box for end in (leaf.lower, leaf.upper)}
    kept: list[float] = []
    for position in sorted(found):
        if low + margin < position < high - margin and (not kept or position - kept[-1] > margin):
            kept.append(position)
    return kept if len(kept) <= FLAT_CUTS else []


def _turns(domain: Domain, cells: Cells, interfaces: bool) -> np.ndarray:
    """Whether the normals of the curved boundary differ by too much, in every cell, (n,) bool.

    What lies inside of a ball is smooth up to its middle; what lies around it may vary over its radius.
    """
    found = np.zeros(cells.count, dtype=bool)
    surfaces = surfaces_of(domain, cells)
    for cell in np.unique(np.concatenate([s.cells for s in surfaces])) if surfaces else ():
        points, normals = (
            np.concatenate([getattr(s, n)[s.cells == cell] for s in surfaces]) for n in ("points", "normals")
        )
        middle = normals.mean(axis=0)
        length = np.linalg.norm(middle)
        lowest = (normals @ middle).min() / length if length > 0.1 else -1.0
        around = not interfaces and ((points - points.mean(axis=0)) * normals).sum() > 0  # normals lead apart
        found[cell] = 2 * np.arccos(np.clip(lowest, -1, 1)) > (ROUND if around else TURNING[interfaces])
    return found


def _bending(domain: Domain, cells: Cells) -> np.ndarray:
    """One over the radius of the curved boundary in every cell, (n,): how normals change from point to point nearby.

    The median over the points of a cell: edges of shapes bend in few places, and no cut makes them straighter.
    """
    found = np.zeros(cells.count)
    for surface in surfaces_of(domain, cells):
        for cell in np.unique(surface.cells):
            points, normals = (a[surface.cells == cell] for a in (surface.points, surface.normals))
            if len(points) < FEW:
                continue
            distance, other = cKDTree(points).query(points, k=FEW)  # not the nearest: it may nearly coincide
            change = np.linalg.norm(normals[other[:, -1]] - normals, axis=1)
            found[cell] = max(found[cell], float(np.median(change / np.maximum(distance[:, -1], 1e-300))))
    return found
