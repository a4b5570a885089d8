"""From a field to a mesh: the zero set, followed from known points on it and cut into triangles.

In come the field as a function (negative inside, positive outside) and seeds on its zero set, such as the points of a
cloud; out goes an `Extraction` with a closed, outward oriented mesh in float64 and notes on what had to be done. The
mesh's vertices lie on grid edges, where linear interpolation puts them; `refinement` moves them onto the zero set, and
`snapping` draws the mesh through given points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cnf.errors import ConstraintError
from cnf.meshes.mesh import Mesh
from cnf.shapes.reconstruction.band import Values, follow, lay_grid
from cnf.shapes.reconstruction.closing import cap_rims, keep_seeded, part_fans
from cnf.shapes.reconstruction.cubes import triangulate_cells


@dataclass(frozen=True)
class Extraction:
    """A mesh of the zero set, and how it came about."""

    mesh: Mesh
    step: float  # of the grid
    evaluations: int  # points at which the field was asked
    cut: int  # cells in which the surface was not followed further: too far from every seed
    holes: int  # rims there, closed by caps or left open
    dropped: int  # parts of the zero set that belong to no seed
    notes: tuple[str, ...]  # the same for the user, a line each


def extract(
    values: Values,
    seeds: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    resolution: int,
    reach: float = np.inf,
    close: bool = True,
    report: Callable[[str], None] | None = None,
) -> Extraction:
    """Mesh the zero set of `values` ((P, 3) -> (P,)) near `seeds` (n, 3).

    The grid has `resolution` nodes along the longest side of the box from `lower` to `upper`, and as many more around
    it as `reach` asks for. The surface is followed from cell to cell up to the distance `reach` from the nearest seed.
    Where it goes on, it is closed by caps, or left open with `close=False`. `report` is told of the progress in words.
    """
    seeds = np.asarray(seeds, dtype=np.float64)
    if seeds.ndim != 2 or seeds.shape[1] != 3 or not len(seeds) or not np.all(np.isfinite(seeds)):
        raise ConstraintError(f"expected seeds (n, 3) of finite numbers, n >= 1, got an array of shape {seeds.shape}")
    lower, upper = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
    grid = lay_grid(lower, upper, resolution, reach)
    band = follow(values, seeds, grid, reach, report)
    if not len(band.cells):
        raise ConstraintError(
            f"no surface is seen around the {len(seeds)} points at a grid step of {grid.step:.3g}: the shape is "
            "thinner than the step, or small beside a far outlier. Raise the resolution, or remove points that lie far "
            "from the rest"
        )
    nodes, faces = triangulate_cells(band.cells, band.values, grid.shape)
    vertices = grid.place(nodes)
    if band.cut:  # otherwise the mesh is closed by construction, and there is nothing to repair
        vertices, faces = part_fans(vertices, faces)
    mesh, dropped = keep_seeded(Mesh(vertices, faces), seeds)
    closed, holes = cap_rims(mesh) if band.cut else (mesh, 0)
    notes = tuple(note_followed(dropped, holes, band.cut, close))
    return Extraction(closed if close else mesh, grid.step, band.evaluations, band.cut, holes, dropped, notes)


def note_followed(dropped: int, holes: int, cut: int, close: bool) -> list[str]:
    """What is to be said of parts that were dropped, and of rims in so many cut cells."""
    notes = []
    if dropped:
        notes.append(f"parts of the surface that belong to no point were dropped: {dropped}")
    if holes:
        how = "closed by caps" if close else "left open"
        notes.append(f"the surface leads away from the points in {holes} places ({cut} cells); {how} there")
    return notes
