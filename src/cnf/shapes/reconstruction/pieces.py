"""The work of one part of a large cloud: its field is solved, measured and meshed, wherever there is room for it.

In comes an `Asked`; out goes a `Piece`, plain arrays. Two parts see the same along their common side, by construction:
they have the same balls there, ask the field at nodes on the side one by one, and split no edge in it. So pieces
fit, whoever makes them and in whichever order.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from cnf.certificate.certificate import Certificate
from cnf.errors import ViolationWarning
from cnf.execution import Shared
from cnf.meshes.mesh import Mesh
from cnf.shapes.reconstruction.band import Band, Portion, follow
from cnf.shapes.reconstruction.clock import Clock, keep_memory
from cnf.shapes.reconstruction.cubes import triangulate_named
from cnf.shapes.reconstruction.doubts import MISSED
from cnf.shapes.reconstruction.measuring import Errors, measure_at_points
from cnf.shapes.reconstruction.parts import Divided
from cnf.shapes.reconstruction.refinement import NORMALS, project, refine
from cnf.shapes.reconstruction.surface import Surface


@dataclass(frozen=True, eq=False)
class Asked:
    """A part by its number: from its points, if it is the `first` time, and from cells that the surface leads into."""

    number: int
    entries: np.ndarray
    first: bool


@dataclass(frozen=True, eq=False)
class Piece:
    """What came of it; `shared` are vertices in its sides, with `names` by which other pieces know them."""

    number: int
    vertices: np.ndarray  # (V, 3)
    attributes: dict[str, np.ndarray]  # normals and others at the vertices
    faces: np.ndarray  # (F, 3) int32
    shared: np.ndarray  # (s,)
    names: np.ndarray  # (s,)
    seeded: np.ndarray  # vertices that are nearest to a point
    missed: np.ndarray  # numbers of points that no vertex is near
    cells: np.ndarray  # numbers of the cells that hold the surface
    beyond: np.ndarray  # numbers of cells of other parts into which it leads
    cut: int
    errors: Errors
    certificate: Certificate
    evaluations: int
    seconds: dict[str, float]


@dataclass(frozen=True)
class MeshPart:
    """The work: of a surface, followed up to `reach` from the points, with faces as flat as `flatness` steps."""

    surface: Shared[Divided]
    reach: float
    flatness: float

    def __call__(self, asked: Asked) -> Piece:
        keep_memory()
        clock, whole = Clock(), self.surface.open()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ViolationWarning)  # all parts are judged together
            (lower, upper), local = whole.corners(asked.number), whole.solve(asked.number)
        before = local.counted[0]
        clock.stop("solve")
        own, some = whole.own(asked.number), slice(None) if asked.first else slice(0)
        points, rows = own.points[some], own.rows[some]
        errors = measure_at_points(local, points, own.normals[some], own.trusted[some])
        clock.stop("certificate")
        portion = Portion(lower, upper, asked.entries, local.values_alone)
        band = follow(local.values_to_follow, points, whole.grid, self.reach, None, portion, local.spacing.tree)
        clock.stop("extraction")
        mesh, names = self._mesh(local, band, portion, clock)
        attributes = {NORMALS: mesh.attributes[NORMALS], **whole.attributes_near(local, mesh.vertices)}
        seeded, missed = _hold_against(mesh, points, rows, whole.grid.step)
        clock.stop("attributes")
        shared = np.flatnonzero(names >= 0)
        return Piece(
            number=asked.number,
            vertices=mesh.vertices,
            attributes=attributes,
            faces=mesh.faces.astype(np.int32),
            shared=shared,
            names=names[shared],
            seeded=seeded,
            missed=missed,
            cells=whole.grid.number(band.cells),
            beyond=band.beyond,
            cut=band.cut,
            errors=errors,
            certificate=whole.certificates[asked.number],
            evaluations=local.counted[0] - before,
            seconds=clock.seconds,
        )

    def _mesh(self, local: Surface, band: Band, portion: Portion, clock: Clock) -> tuple[Mesh, np.ndarray]:
        """Triangles on the zero set, and the names (V,) of vertices in the sides, -1 for others."""
        grid, step = band.grid, band.grid.step
        if not len(band.cells):
            return Mesh(np.empty((0, 3)), np.empty((0, 3), np.int64), {NORMALS: np.empty((0, 3))}), np.empty(0, int)
        nodes, faces, names = triangulate_named(band.cells, band.values, grid.shape)
        names = np.where(_on_sides(portion, names, grid.shape), names, -1)
        clock.stop("extraction")
        near = local.slopes_near
        mesh = project(Mesh(grid.place(nodes), faces), local.slopes, 0.5 * step, near=near).mesh
        clock.stop("projection")
        if self.flatness:
            shared = names >= 0
            mesh = refine(mesh, local.slopes, 0.5 * step, self.flatness * step, shared=shared, near=near).mesh
        clock.stop("refinement")
        return mesh, np.concatenate([names, np.full(len(mesh.vertices) - len(names), -1)])


def _on_sides(portion: Portion, names: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Which vertices (V,), by their names, are on grid edges within the sides of a portion."""
    node, axis = np.divmod(np.maximum(names, 0), 3)
    touching = portion.touches(np.stack(np.unravel_index(node, shape), axis=1))
    touching[np.arange(len(names)), axis] = False  # an edge that ends on a side is not in it
    return touching.any(axis=1) & (names >= 0)


def _hold_against(mesh: Mesh, points: np.ndarray, rows: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray]:
    """The vertices nearest to points (n, 3), and those of their rows that are farther than points on a mesh are."""
    if not len(mesh.vertices):
        return np.empty(0, np.int64), rows
    apart, nearest = cKDTree(mesh.vertices).query(points)
    return np.unique(nearest).astype(np.int64), rows[apart > MISSED * step]
