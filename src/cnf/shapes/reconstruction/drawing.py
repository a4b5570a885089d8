"""From a cloud to a mesh on the zero set of its field: in one piece, or part by part.

In come a prepared cloud and what was asked for; out goes a `Drawing`: the mesh in scaled coordinates, its surface, how
far the field is off at the points, and notes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cnf.errors import CnfError
from cnf.meshes.mesh import Mesh, unit_rows
from cnf.shapes.clouds.preparation import Prepared
from cnf.shapes.reconstruction.band import lay_grid
from cnf.shapes.reconstruction.clock import Clock
from cnf.shapes.reconstruction.conditions import solve_surface
from cnf.shapes.reconstruction.creases import Creases, look_for_creases
from cnf.shapes.reconstruction.creasing import insert_creases, on_creases
from cnf.shapes.reconstruction.doubts import note_missed
from cnf.shapes.reconstruction.extraction import extract, note_followed
from cnf.shapes.reconstruction.lengths import choose_resolution
from cnf.shapes.reconstruction.parts import Part, PartedSurface, cut_into_parts
from cnf.shapes.reconstruction.refinement import NORMALS, project, refine
from cnf.shapes.reconstruction.snapping import snap as draw_through
from cnf.shapes.reconstruction.stitching import mesh_parts
from cnf.shapes.reconstruction.surface import Guide, Surface, local_mean
from cnf.threads import one_thread_each

REACH, FARTHEST = 2.0, 1.0  # how far from the points the surface is followed: times the support, and at most


@dataclass(frozen=True, eq=False)
class Task:
    """What to draw: see `reconstruct`."""

    cloud: Prepared
    mode: str  # of the normals
    solver: str
    neighbours: int
    support: float
    same_support: bool  # in all parts: it was asked for
    offset: float
    resolution: int | None
    flatness: float
    snap: bool
    sharp: float  # degrees from which on an edge is kept, 0: none is
    close: bool
    part: int
    tell: Callable[[str], None]
    clock: Clock

    @property
    def reach(self) -> float:
        return min(REACH * self.support, FARTHEST)

    @property
    def box(self) -> tuple[np.ndarray, np.ndarray]:
        return self.cloud.points.min(axis=0), self.cloud.points.max(axis=0)

    def choose_resolution(self, guide: Guide) -> int:
        """That asked for, or by the spacing of the points."""
        low, high = self.box
        return self.resolution or choose_resolution(float((high - low).max()), guide.spacing)


@dataclass(frozen=True, eq=False)
class Errors:
    """Worst ones at the points: |d|, |grad d - n|, and the angle in degrees; normals where they are conditions."""

    value: float = 0.0
    normal: float = 0.0
    angle: float = 0.0

    def worse(self, other: Errors) -> Errors:
        """The worst of both; NaN if either is."""
        pairs = ((self.value, other.value), (self.normal, other.normal), (self.angle, other.angle))
        return Errors(*(float(np.max(pair)) for pair in pairs))


@dataclass(frozen=True, eq=False)
class Drawing:
    """The mesh (scaled coordinates) and what it was drawn from."""

    mesh: Mesh
    surface: Surface | PartedSurface
    errors: Errors
    step: float
    resolution: int
    notes: tuple[str, ...]
    creases: Creases | None = None


def draw(task: Task) -> Drawing:
    """The mesh of a cloud; a large one part by part, if its field is one of patches."""
    parted = task.solver == "blend" and len(task.cloud) > 2 * task.part
    if parted and task.sharp:
        raise CnfError(
            f"sharp edges are kept in clouds that are solved whole, up to {2 * task.part} points; got {len(task.cloud)}: "
            "thin the cloud, or make the parts larger"
        )
    return _draw_in_parts(task) if parted else _draw_whole(task)


def _draw_whole(task: Task) -> Drawing:
    cloud, tell, clock = task.cloud, task.tell, task.clock
    tell(f"solving for {len(cloud)} points with {task.mode} normals ({task.solver})")
    with one_thread_each():  # thousands of small operations
        solution = solve_surface(cloud, task.mode, task.solver, task.support, task.offset)
    surface = Surface(solution, cloud.points, cloud.normals, task.support)
    clock.stop("solve")
    tell("measuring the field at the points")
    errors = measure_at_points(surface, surface.points, surface.normals, cloud.trusted)
    clock.stop("certificate")
    creases = look_for_creases(cloud, surface.spacing, task.sharp)
    slopes = creases.sharpen(surface.slopes, surface.spacing) if creases else surface.slopes
    values = creases.sharpen_values(surface.values, surface.spacing) if creases else surface.values
    clock.stop("creases")
    tell("following the surface")
    resolution = task.choose_resolution(surface.guide)
    extraction = extract(values, cloud.points, *task.box, resolution, task.reach, task.close, tell)
    clock.stop("extraction")
    mesh, step, notes = extraction.mesh, extraction.step, list(extraction.notes)
    del extraction  # its mesh, of which there will be a better one, is large
    if task.solver != "local":  # a field that jumps has no zero set to move to
        tell("moving the mesh onto the surface")
        mesh = project(mesh, slopes, 0.5 * step).mesh
        clock.stop("projection")
    if creases:
        mesh = insert_creases(mesh, creases, step).mesh
    notes += note_missed(cloud.points, mesh, step)
    if task.snap:
        mesh = _snap(task, mesh, notes)
    if task.flatness and task.solver != "local":  # from here on the vertices there stay, points in the mesh among them
        tell("splitting curved faces")
        mesh = refine(mesh, slopes, 0.5 * step, task.flatness * step, shared=on_creases(mesh)).mesh
    clock.stop("refinement")
    return Drawing(mesh, surface, errors, step, resolution, tuple(notes), creases)


def _draw_in_parts(task: Task) -> Drawing:
    cloud, guide = task.cloud, Guide(task.cloud.points, task.cloud.normals)
    task.tell("measuring the spacing of the points")
    resolution = task.choose_resolution(guide)
    grid = lay_grid(*task.box, resolution, task.reach)
    cells = np.floor((cloud.points - grid.origin) / grid.step).astype(np.int32)
    parts = cut_into_parts(cells, grid.shape, task.part)
    del cells
    neighbours = None if task.same_support else task.neighbours
    surface = PartedSurface(cloud, grid, parts, guide, task.mode, task.offset, task.support, neighbours)
    task.clock.stop("parts")
    trusted, worst = cloud.trusted, [Errors()]

    def look(local: Surface, part: Part) -> None:
        at = part.rows
        worst[0] = worst[0].worse(measure_at_points(local, cloud.points[at], cloud.normals[at], trusted[at]))

    def finish(local: Surface, mesh: Mesh) -> dict[str, np.ndarray]:
        return attributes_at(local, cloud, mesh.vertices)

    made = mesh_parts(surface, task.reach, task.flatness, task.close, look, finish, task.clock.stop, task.tell)
    mesh, notes = made.mesh, note_followed(made.dropped, made.holes, made.cut, task.close)
    notes += note_missed(cloud.points[made.missed], mesh, grid.step, len(cloud)) if len(made.missed) else []
    if task.snap:
        mesh = _snap(task, mesh, notes)
    return Drawing(mesh, surface, worst[0], grid.step, resolution, tuple(notes))


def _snap(task: Task, mesh: Mesh, notes: list[str]) -> Mesh:
    task.tell("drawing the mesh through the points")
    drawn = draw_through(mesh, task.cloud.points, task.cloud.normals)
    if drawn.forced:
        notes.append(f"{drawn.forced} points could not be put into the mesh without a folded face beside them")
    task.clock.stop("snapping")
    return Mesh(drawn.mesh.vertices, drawn.mesh.faces)  # normals of vertices that were moved are no longer known


def measure_at_points(surface: Surface, points: np.ndarray, normals: np.ndarray, trusted: np.ndarray) -> Errors:
    """By evaluating the field anew at points (P, 3); normals are measured where they are conditions, `trusted` (P,)."""
    found = surface.slopes(points)
    gradients, wanted = found[trusted, 1:], normals[trusted]
    lengths = np.linalg.norm(gradients, axis=1)
    cosine = np.einsum("pd,pd->p", gradients, wanted) / np.maximum(lengths, 1e-300)
    sine = np.linalg.norm(gradients - cosine[:, None] * lengths[:, None] * wanted, axis=1)
    angle = np.degrees(np.arctan2(sine, cosine * lengths))
    off = np.linalg.norm(gradients - wanted, axis=1)
    return Errors(float(np.abs(found[:, 0]).max(initial=0)), float(off.max(initial=0)), float(angle.max(initial=0)))


def complete_attributes(surface: Surface | PartedSurface, cloud: Prepared, mesh: Mesh) -> dict[str, np.ndarray]:
    """Unit normals of the field at the vertices, and the attributes there; what the mesh has is taken."""
    normals = mesh.attributes.get(NORMALS)
    if normals is None:
        normals = unit_rows(surface.slopes(mesh.vertices)[:, 1:])
    if all(name in mesh.attributes for name in cloud.attributes):
        return {**{name: mesh.attributes[name] for name in cloud.attributes}, NORMALS: normals}
    return {**attributes_at(surface, cloud, mesh.vertices), NORMALS: normals}


def attributes_at(surface: Surface | PartedSurface, cloud: Prepared, vertices: np.ndarray) -> dict[str, np.ndarray]:
    """The attributes at vertices (V, 3), within the range of those given."""
    if not cloud.attributes:
        return {}
    tree, start, result = surface.spacing.tree, 0, {}
    beyond = surface.attributes(vertices)
    for name, values in cloud.attributes.items():
        stop = start + values.shape[1]
        found = local_mean(tree, values, vertices) + beyond[:, start:stop]
        result[name] = np.clip(found, values.min(axis=0), values.max(axis=0))
        start = stop
    return result
