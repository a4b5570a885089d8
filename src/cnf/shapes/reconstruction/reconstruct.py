"""Reconstruction: oriented points -> a field that meets them -> a mesh.

Two kinds of conditions: `exact` normals (d = 0 and grad d = n at every point, a Hermite basis) and `pseudo` normals
(d = 0 at the points, d = +-eps at eps along the normal, as in the paper). Three ways to solve: one sparse system,
blended patches, or the paper's small system per query.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from cnf.certificate.certificate import Certificate
from cnf.errors import CnfError
from cnf.execution import Executor, opened
from cnf.meshes.creased import SHARP
from cnf.meshes.mesh import Mesh
from cnf.shapes.clouds.cloud import PointCloud
from cnf.shapes.clouds.preparation import Prepared, prepare_cloud
from cnf.shapes.files.objects import as_cloud
from cnf.shapes.files.writing import write_mesh
from cnf.shapes.reconstruction.buried import note_buried
from cnf.shapes.reconstruction.clock import Clock, keep_memory, peak_memory
from cnf.shapes.reconstruction.creasing import Sharpness
from cnf.shapes.reconstruction.doubts import (
    Coverage,
    Placed,
    cut_unsupported,
    measure_coverage,
    note_crookedness,
    note_thinness,
    note_unevenness,
)
from cnf.shapes.reconstruction.drawing import Task, draw
from cnf.shapes.reconstruction.lengths import NEIGHBOURS, check_lengths, note_coarseness, typical_reach
from cnf.shapes.reconstruction.measuring import complete_attributes
from cnf.shapes.reconstruction.outcome import MeshNumbers
from cnf.shapes.reconstruction.parts import LEAST_PART, PART, PartedSurface
from cnf.shapes.reconstruction.pieces import MeshPart
from cnf.shapes.reconstruction.refinement import refine
from cnf.shapes.reconstruction.surface import Surface

KINDS = ("exact", "pseudo")
TURN, LEAST_TURN = 25.0, 10.0  # degrees by which the surface turns at a sharp edge: unless given, and at least
SOLVERS = ("auto", "sparse", "blend", "local")

Report = Callable[[str], None]
Points = PointCloud | Prepared | Mesh | np.ndarray | Tensor | str | os.PathLike | Any  # or another package's object


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """A mesh in the coordinates of the input, the field it comes from, and what was measured on both.

    >>> cloud = cnf.shapes.sample_knot(300)
    >>> made = cnf.reconstruct(cloud, resolution=20)
    >>> made.value_error < 1e-9, made.normal_error < 1e-9, made.mesh.faces.shape[1]
    (True, True, 3)
    """

    mesh: Mesh
    surface: Surface | PartedSurface  # in scaled coordinates; `cloud.to_input` leads back
    cloud: Prepared
    value_error: float  # worst |d| at the points, in scaled coordinates
    normal_error: float  # worst |grad d - n| there
    angle: float  # worst angle between grad d and n, degrees
    support: float
    coverage: Coverage  # how far the mesh goes from the points, in scaled coordinates
    seconds: dict[str, float]  # of every stage
    memory: float  # peak of the process, GB
    evaluations: int
    sharpness: Sharpness | None  # of sharp edges, if they were asked for
    notes: tuple[str, ...] = ()
    settings: dict[str, object] = field(default_factory=dict)

    @property
    def certificate(self) -> Certificate:
        """That of the field behind the mesh."""
        return self.surface.certificate

    @cached_property
    def numbers(self) -> MeshNumbers:
        """What is to be said of the mesh."""
        return MeshNumbers.of(self.mesh)

    @property
    def points(self) -> int:
        """How many the surface goes through."""
        return len(self.cloud)

    @property
    def free(self) -> int:
        """Points whose normal is not met."""
        return len(self.cloud.doubtful)

    @property
    def placed(self) -> Placed:
        """What leads from coordinates of the input to scaled ones and back."""
        return self.cloud

    @property
    def largest_distance(self) -> float:
        """Of a vertex from the nearest point, in scaled coordinates."""
        return self.coverage.distance

    @property
    def largest_distance_spacings(self) -> float:
        """The same in spacings of the points there, at its largest."""
        return self.coverage.spacings

    @property
    def unsupported_area(self) -> float:
        """Share of the mesh that is too far from the points to be more than a guess."""
        return self.coverage.unsupported

    @property
    def total_seconds(self) -> float:
        """Seconds of all steps together."""
        return sum(self.seconds.values())

    def save(self, path: object) -> Path:
        """Write the mesh: .ply, .obj, .stl, .off, .glb or .npz; `cnf.shapes.write_results` adds the rest."""
        return write_mesh(self.mesh, path)


def reconstruct(
    points: Points,
    normals: np.ndarray | Tensor | None = None,
    *,
    resolution: int | None = None,
    normals_mode: str = "exact",
    solver: str = "auto",
    neighbours: int | None = None,
    support: float | None = None,
    offset: float = 0.01,
    snap: bool = False,
    sharp: bool | float = False,
    flatness: float = 0.02,
    refinements: int = 0,
    close: bool = True,
    most: int | None = None,
    part: int | None = None,
    workers: int | str | Executor = 1,
    seed: int = 0,
    report: Report | None = None,
) -> Reconstruction:
    """A mesh through oriented points; normals (P, 3) are estimated if missing.

    `points`: an array or tensor (P, 3), a cloud, prepared or not, the name of a file, or a cloud or mesh of trimesh,
    Open3D or PyVista; 10,000 points are drawn from a mesh.
    `resolution`: grid nodes along the longest side; unless given, the step is `STEP` of the spacing of the points.
    `neighbours`: how many points the support of the kernel holds,
    unless `support` gives its radius (in scaled coordinates, the longest side being 2). `offset`: eps of
    pseudo-normals. `flatness`: faces whose sides are farther than this from the surface, in steps of the grid, are
    split (0: none). `sharp`: keep edges and corners at which the surface turns by 25 degrees or more, or by so many;
    the field stays smooth, the mesh near them is drawn from the pieces that meet there. `refinements`: times every face
    is split in four. `snap`: draw the mesh through every point.
    `most`: larger clouds are thinned to this; unless given, all points are taken. `part`: a cloud of more than twice as
    many points is solved and meshed in parts of about so many, in memory for those that are worked on (solver 'blend').
    `workers`: processes that do these parts, the address of a Dask scheduler, or an executor of `cnf.execution`; the
    mesh does not depend on it.
    `report` is told what is done.

    >>> cloud = cnf.shapes.sample_knot(400)
    >>> made = cnf.reconstruct(cloud.points, cloud.normals, resolution=24)
    >>> made.certificate.exact, made.mesh.vertices.shape[1]
    (True, 3)
    """
    tell = report or (lambda _: None)
    _check(resolution, normals_mode, solver, neighbours, support, offset, refinements, flatness)
    if part is not None and not (isinstance(part, int) and part >= LEAST_PART):
        raise CnfError(f"a part has {LEAST_PART} points or more; got {part}")
    if part is not None and (solver not in ("auto", "blend") or normals_mode == "pseudo"):
        raise CnfError("parts are for solver 'blend' with exact normals; leave `part` out")
    angle = check_angle(sharp, solver)
    if angle and (refinements or snap):
        raise CnfError(
            "a mesh with sharp edges is neither split in four nor drawn through the points: leave out refinements and "
            "snap, or sharp"
        )
    clock = Clock()
    keep_memory()
    with opened(workers) as executor:
        tell("checking the points")
        given = points if isinstance(points, Prepared) else as_cloud(points, normals, seed)
        if len(given) > 2 * (part or PART):
            executor.warm_up(MeshPart.__module__)
        cloud = given if isinstance(given, Prepared) else prepare_cloud(given, most, seed=seed)
        if cloud.dimension != 3:
            raise CnfError("surfaces go through points in 3D; for curves in the plane there is `cnf shape 2d`")
        if not cloud.trusted.any():
            raise CnfError(
                f"the estimated normals of all {len(cloud)} points are doubtful, so nothing says where inside is; "
                "give normals, or more points"
            )
        clock.stop("preparation")
        chosen = solver if solver != "auto" else "blend"
        neighbours = NEIGHBOURS[chosen] if neighbours is None else neighbours
        radius = support if support is not None else typical_reach(cloud.points, neighbours)
        notes = [*cloud.notes, *note_crookedness(cloud)]
        notes += note_unevenness(cloud, neighbours) if chosen != "blend" else []
        task = Task(
            cloud=cloud,
            mode=normals_mode,
            solver=chosen,
            support=radius,
            offset=offset,
            resolution=resolution,
            flatness=flatness,
            snap=snap,
            sharp=angle,
            close=close,
            part=part or PART,
            tell=tell,
            clock=clock,
        )
        drawing = draw(task, executor)
    mesh, surface, step = drawing.mesh, drawing.surface, drawing.step
    notes += [*note_coarseness(step, radius), *note_thinness(cloud, step), *drawing.notes]
    for k in range(refinements):
        tell(f"splitting faces ({k + 1} of {refinements})")
        mesh = refine(mesh, surface.slopes, 0.5 * step / 2**k).mesh
    clock.stop("refinement")
    tell("looking for parts far from the points")
    if not close:
        whole = mesh.area
        mesh = cut_unsupported(mesh, surface.spacing)
        if mesh.area < whole:
            notes.append(f"left open: {100 * (1 - mesh.area / whole):.2g} % of the surface, for which no point speaks")
    coverage = measure_coverage(mesh, surface.spacing)
    buried = surface.guide.buried
    if len(buried):
        notes += note_buried(len(buried), len(cloud), int(buried[0]), cloud.to_input(cloud.points[buried[:1]])[0])
    notes += coverage.describe(cloud)
    clock.stop("coverage")
    attributes = complete_attributes(surface, cloud, mesh)
    attributes |= {SHARP: mesh.attributes[SHARP]} if SHARP in mesh.attributes else {}
    clock.stop("attributes")
    return Reconstruction(
        mesh=Mesh(cloud.to_input(mesh.vertices), mesh.faces, attributes),
        surface=surface,
        cloud=cloud,
        value_error=drawing.errors.value,
        normal_error=drawing.errors.normal,
        angle=drawing.errors.angle,
        support=radius,
        coverage=coverage,
        seconds=clock.seconds,
        memory=peak_memory(),
        evaluations=surface.counted[0],
        sharpness=drawing.sharpness,
        notes=tuple(notes),
        settings={
            **{"points": len(cloud), "normals": normals_mode, "solver": chosen, "resolution": drawing.resolution},
            **{"support": radius, "flatness": flatness, "refinements": refinements, "snap": snap, "close": close},
            **({"sharp": angle} if angle else {}),
            **({"offset": offset} if normals_mode == "pseudo" else {}),
            **describe_parts(surface, executor),
        },
    )


def check_angle(sharp: bool | float, solver: str) -> float:
    """Degrees by which the surface turns at an edge that is kept; 0 for none."""
    if isinstance(sharp, bool | np.bool_):
        angle = TURN if sharp else 0.0
    else:
        angle = float(sharp) if isinstance(sharp, int | float | np.number) else float("nan")
        if not LEAST_TURN <= angle <= 90:
            raise CnfError(
                f"sharp edges are those at which the surface turns by so many degrees, {LEAST_TURN:g} to 90, "
                f"or True for {TURN:g}; got {sharp!r}"
            )
    if angle and solver == "local":
        raise CnfError("sharp edges go with a field that has one zero set; use solver 'blend' or 'sparse'")
    return angle


def describe_parts(surface: Surface | PartedSurface, executor: Executor) -> dict[str, int]:
    """How many parts there were, and workers to do them, if the cloud was cut."""
    return {"parts": len(surface.parts), "workers": executor.workers} if isinstance(surface, PartedSurface) else {}


def _check(
    resolution: int | None,
    mode: str,
    solver: str,
    neighbours: int | None,
    support: float | None,
    offset: float,
    refinements: int,
    flatness: float,
) -> None:
    if mode not in KINDS:
        raise CnfError(f"normals are taken as 'exact' or 'pseudo' conditions; got {mode!r}")
    if solver not in SOLVERS:
        raise CnfError(f"the solver is one of {', '.join(SOLVERS)}; got {solver!r}")
    if solver == "local" and mode == "exact":
        raise CnfError("the solve per query takes values only: use it with pseudo-normals, or solver 'blend'")
    if solver == "local" and refinements:
        raise CnfError(
            "a field solved per query jumps, so faces cannot be refined on it; use solver 'sparse' or 'blend'"
        )
    check_lengths(resolution, neighbours, support, flatness)
    if not (np.isfinite(offset) and 0 < offset < 1):
        raise CnfError(
            f"the offset of pseudo-normals lies between 0 and 1 (the cloud's longest side is 2); got {offset}"
        )
    if not 0 <= refinements <= 4:
        raise CnfError(f"faces are split 0 to 4 times; got {refinements}")
