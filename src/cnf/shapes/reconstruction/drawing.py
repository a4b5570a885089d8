"""From a cloud to a mesh on the zero set of its field: in one piece, or part by part.

In come a prepared cloud and what was asked for; out goes a `Drawing`: the mesh in scaled coordinates, its surface, how
far the field is off at the points, and notes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cnf.errors import CnfError
from cnf.execution import Executor
from cnf.meshes.mesh import Mesh
from cnf.shapes.clouds.preparation import Prepared
from cnf.shapes.reconstruction.band import lay_grid
from cnf.shapes.reconstruction.clock import Clock
from cnf.shapes.reconstruction.conditions import METHODS, solve_surface
from cnf.shapes.reconstruction.creasing import Sharpness, insert_creases, keep_kinds, measure_sharpness, on_creases
from cnf.shapes.reconstruction.doubts import note_missed
from cnf.shapes.reconstruction.extraction import extract, note_followed
from cnf.shapes.reconstruction.lengths import choose_resolution
from cnf.shapes.reconstruction.measuring import Errors, measure_at_points
from cnf.shapes.reconstruction.parts import PartedSurface, cut_into_parts, lay_balls
from cnf.shapes.reconstruction.refinement import project, refine
from cnf.shapes.reconstruction.searching import look_for_creases
from cnf.shapes.reconstruction.snapping import snap as draw_through
from cnf.shapes.reconstruction.stitching import mesh_parts
from cnf.shapes.reconstruction.surface import Guide, Surface, make_guide
from cnf.threads import one_thread_each

REACH, FARTHEST = 2.0, 1.0  # how far from the points the surface is followed: times the support, and at most


@dataclass(frozen=True, eq=False)
class Task:
    """What to draw: see `reconstruct`."""

    cloud: Prepared
    mode: str  # of the normals
    solver: str
    support: float
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
class Drawing:
    """The mesh (scaled coordinates) and what it was drawn from."""

    mesh: Mesh
    surface: Surface | PartedSurface
    errors: Errors
    step: float
    resolution: int
    notes: tuple[str, ...]
    sharpness: Sharpness | None = None


def draw(task: Task, executor: Executor) -> Drawing:
    """The mesh of a cloud; a large one part by part, if its field is one of patches with exact normals."""
    parted = task.solver == "blend" and task.mode == "exact" and len(task.cloud) > 2 * task.part
    if parted and task.sharp:
        raise CnfError(
            f"sharp edges are kept in clouds that are solved whole, up to {2 * task.part} points; got "
            f"{len(task.cloud)}: thin the cloud, or make the parts larger"
        )
    return _draw_in_parts(task, executor) if parted else _draw_whole(task)


def _draw_whole(task: Task) -> Drawing:
    cloud, tell, clock = task.cloud, task.tell, task.clock
    tell(f"solving for {len(cloud)} points with {task.mode} normals ({task.solver})")
    with one_thread_each():  # thousands of small operations
        solution = solve_surface(cloud, task.mode, METHODS[task.solver], task.support, task.offset)
    surface = Surface(solution, cloud.points, cloud.normals, task.support)
    clock.stop("solve")
    tell("measuring the field at the points")
    errors = measure_at_points(surface, surface.points, surface.normals, cloud.trusted)
    clock.stop("certificate")
    creases = look_for_creases(cloud, surface.spacing, task.sharp)
    if task.sharp:
        clock.stop("creases")
    slopes = creases.sharpen(surface.slopes, surface.spacing) if creases else surface.slopes
    values = creases.sharpen_values(surface.values, surface.spacing) if creases else surface.values_to_follow
    near = None if creases else surface.slopes_near
    tell("following the surface")
    resolution = task.choose_resolution(surface.guide)
    extraction = extract(values, cloud.points, *task.box, resolution, task.reach, task.close, tell)
    clock.stop("extraction")
    mesh, step, notes = extraction.mesh, extraction.step, list(extraction.notes)
    del extraction  # its mesh, of which there will be a better one, is large
    if task.solver != "local":  # a field that jumps has no zero set to move to
        tell("moving the mesh onto the surface")
        mesh = project(mesh, slopes, 0.5 * step, near=near).mesh
        clock.stop("projection")
    if creases:
        mesh = insert_creases(mesh, creases, surface.spacing, step)
    notes += note_missed(cloud.points, mesh, step)
    if task.snap:
        mesh = _snap(task, mesh, notes)
    if task.flatness and task.solver != "local":  # from here on the vertices there stay, points in the mesh among them
        tell("splitting curved faces")
        refined = refine(mesh, slopes, 0.5 * step, task.flatness * step, shared=on_creases(mesh), near=near).mesh
        mesh = keep_kinds(mesh, refined)
    clock.stop("refinement")
    sharpness = measure_sharpness(mesh, surface.values) if task.sharp else None
    return Drawing(mesh, surface, errors, step, resolution, tuple(notes), sharpness)


def _draw_in_parts(task: Task, executor: Executor) -> Drawing:
    cloud = task.cloud
    task.tell("measuring the spacing of the points")
    guide = make_guide(cloud.points, cloud.normals)
    resolution = task.choose_resolution(guide)
    grid = lay_grid(*task.box, resolution, task.reach)
    cells = np.floor((cloud.points - grid.origin) / grid.step).astype(np.int32)
    parts = cut_into_parts(cells, grid.shape, task.part)
    del cells
    surface = PartedSurface(cloud, grid, parts, guide, lay_balls(guide), task.support)
    task.clock.stop("parts")
    made = mesh_parts(surface, task.reach, task.flatness, task.close, executor, task.tell)
    task.clock.stop_all(made.seconds)
    mesh, notes = made.mesh, note_followed(made.dropped, made.holes, made.cut, task.close)
    notes += note_missed(cloud.points[made.missed], mesh, grid.step, len(cloud)) if len(made.missed) else []
    if task.snap:
        mesh = _snap(task, mesh, notes)
    return Drawing(mesh, surface, made.errors, grid.step, resolution, tuple(notes))


def _snap(task: Task, mesh: Mesh, notes: list[str]) -> Mesh:
    task.tell("drawing the mesh through the points")
    drawn = draw_through(mesh, task.cloud.points, task.cloud.normals)
    if drawn.forced:
        notes.append(f"{drawn.forced} points could not be put into the mesh without a folded face beside them")
    task.clock.stop("snapping")
    return Mesh(drawn.mesh.vertices, drawn.mesh.faces)  # normals of vertices that were moved are no longer known
