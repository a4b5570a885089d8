"""A reconstruction of a cloud that memory does not hold: file in, file out, resumable.

In come the name of a file and a limit of memory; out go a mesh in a file and a `TiledReconstruction`. Every step is
done by tiles, here, in processes or on Dask, and leaves its results in a folder beside the mesh; the next run with the
same command goes on there, and the mesh is the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from cnf.certificate.certificate import Certificate
from cnf.certificate.findings import Findings
from cnf.certificate.judgement import judge
from cnf.errors import CnfError, ConstraintError
from cnf.execution import Executor, opened
from cnf.files import as_path, check_writable, hash_file, write_atomically
from cnf.shapes.clouds.preparation import SAME, Prepared, check_merge
from cnf.shapes.files.pieces import open_source
from cnf.shapes.files.writing import PlyTable, name_columns
from cnf.shapes.reconstruction.band import Grid, lay_grid
from cnf.shapes.reconstruction.clock import Clock, peak_memory
from cnf.shapes.reconstruction.creasing import Sharpness
from cnf.shapes.reconstruction.doubts import MISSED, Coverage, Placed
from cnf.shapes.reconstruction.drawing import FARTHEST, REACH
from cnf.shapes.reconstruction.extraction import note_followed
from cnf.shapes.reconstruction.lengths import DENSE, NEIGHBOURS, check_lengths, count_nodes, note_coarseness
from cnf.shapes.reconstruction.outcome import MeshNumbers
from cnf.shapes.reconstruction.parts import LEAST_PART, join_certificates
from cnf.shapes.reconstruction.refinement import NORMALS
from cnf.shapes.tiles.columns import quantile_of
from cnf.shapes.tiles.coverage import cover
from cnf.shapes.tiles.covering import lay_balls
from cnf.shapes.tiles.cutting import cut_cloud
from cnf.shapes.tiles.entering import Entered, enter
from cnf.shapes.tiles.folder import MEMORY, MESH, Folder, keep, load
from cnf.shapes.tiles.guiding import guide
from cnf.shapes.tiles.halving import AT_ONCE
from cnf.shapes.tiles.joining import Joint, PieceFile, join_pieces
from cnf.shapes.tiles.meshing import MeshTile, from_bytes, unpack_certificate
from cnf.shapes.tiles.sizes import ON_DISK, choose_sizes, read_memory
from cnf.shapes.tiles.surface import TiledSurface
from cnf.version import __version__

Report = Callable[[str], None]
ENDING = ".ply"


@dataclass(frozen=True, eq=False)
class TiledReconstruction:
    """The mesh is in `path`; lengths are in scaled coordinates, those of `placed`.

    >>> made = cnf.shapes.reconstruct_tiles("cloud.ply", "mesh.ply", "4GB")  # doctest: +SKIP
    >>> made.numbers.watertight, made.certificate.exact  # doctest: +SKIP
    (True, True)
    """

    path: Path
    certificate: Certificate
    numbers: MeshNumbers
    points: int
    placed: Placed
    value_error: float
    normal_error: float
    angle: float
    support: float
    coverage: Coverage
    seconds: dict[str, float]
    memory: float
    evaluations: int
    notes: tuple[str, ...]
    settings: dict[str, Any]
    sharpness: Sharpness | None = None
    free: int = 0


def reconstruct_tiles(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    memory: str | int | float,
    *,
    resolution: int | None = None,
    neighbours: int | None = None,
    support: float | None = None,
    flatness: float = 0.02,
    part: int | None = None,
    merge: float = SAME,
    flip: bool = False,
    workers: int | str | Executor = 1,
    report: Report | None = None,
) -> TiledReconstruction:
    """A mesh through the points of a file, as a PLY file, in no more `memory` than "4GB" in each process.

    The file: binary PLY, NPY, LAS or LAZ, with a normal for each point. Options are those of `reconstruct`, which makes
    the same mesh of clouds that memory holds. A folder beside the mesh, of its name and `.parts`, holds what is
    finished; it goes when the mesh is there, or if the input cannot be used. Stopped in whatever other way, the same
    call goes on with it.

    >>> cnf.shapes.reconstruct_tiles("missing.ply", "mesh.ply", "4GB")
    Traceback (most recent call last):
        ...
    cnf.errors.FileError: ...
    """
    target, tell = as_path(out), report or (lambda _: None)
    if target.suffix.lower() != ENDING:
        raise CnfError(f"meshes larger than memory are written as {ENDING}; got {str(target)!r}")
    if part is not None and not (isinstance(part, int) and part >= LEAST_PART):
        raise CnfError(f"a part has {LEAST_PART} points or more; got {part}")
    check_lengths(resolution, neighbours, support, flatness)
    check_merge(merge)
    limit = read_memory(memory)
    given = open_source(source)
    check_writable(target)
    piece = next(given.pieces())
    sizes = choose_sizes(limit, part, 7 + sum(np.size(v) // len(piece.points) for v in piece.attributes.values()))
    folder, clock = Folder.beside(target), Clock()
    tell("looking at the file")
    options = {"resolution": resolution, "neighbours": neighbours, "support": support, "flatness": flatness}
    options |= {"merge": merge, "flip": flip, "points of a part": sizes.part, "rows sorted at once": sizes.rows}
    key = {"file": hash_file(given.path), "version of cnf": __version__, **options}
    with folder.opened(key, ON_DISK * given.count) as there:
        if there:
            tell(f"going on with what is in {folder.path}")
        folder.note(MEMORY, {"bytes": limit})
        with opened(workers) as executor:
            executor.warm_up(MeshTile.__module__)
            entered = enter(given, folder, sizes, merge, flip, executor, tell)
            clock.stop("preparation")
            guided = guide(entered, neighbours or NEIGHBOURS["blend"], folder, executor, tell)
            clock.stop("guide")
            radius = guided.reach if support is None else support
            size = sizes.part, sizes.rows
            surface = _lay_out(entered, guided.closed, radius, resolution, *size, folder, executor, tell)
            clock.stop("parts")
            steps = _mesh(surface, min(REACH * radius, FARTHEST), flatness, folder, executor, tell)
            count = executor.workers
        clock.stop("field and mesh")
        tell("joining the pieces")
        pieces = [PieceFile(folder.file_of(step, number)) for step, numbers in steps for number in numbers]
        total = sum(int(piece.take("cut")[0][0]) for piece in pieces)
        if not any(len(piece.take("seeds")[0]) for piece in pieces):
            folder.remove()  # with another resolution nothing in it is of use
            raise ConstraintError(
                f"no surface is seen around the {entered.cloud.count} points at a grid step of "
                f"{surface.grid.step:.3g}: the shape is thinner than the step, or small beside a far outlier; raise "
                "the resolution"
            )
        joint = join_pieces(pieces, total > 0)
        clock.stop("joining")
        coverage, area = cover(joint, entered.cloud)
        clock.stop("coverage")
        tell(f"writing {joint.faces} faces")
        _write(joint, surface, target)
        clock.stop("writing")
        found = _gather(pieces, entered.cloud.count, 4 + entered.cloud.attribute_columns)
        judge(found.certificate, "warn")
        notes = [*entered.notes, *guided.notes, *note_coarseness(surface.grid.step, radius)]
        notes += note_followed(joint.dropped, len(joint.middles), total, True)
        notes += _note_missed(pieces, surface.grid, entered.cloud.count) + coverage.describe(surface.frame)
        made = TiledReconstruction(
            path=target,
            certificate=found.certificate,
            numbers=MeshNumbers(
                *(joint.vertices, joint.faces, joint.watertight, joint.boundary_edges, joint.components, joint.euler),
                *(area * entered.scale**2, tuple(sorted([*(name for name, _ in entered.cloud.names), NORMALS]))),
            ),
            points=entered.cloud.count,
            placed=surface.frame,
            value_error=found.errors[0],
            normal_error=found.errors[1],
            angle=found.errors[2],
            support=radius,
            coverage=coverage,
            seconds=clock.seconds,
            memory=peak_memory(),
            evaluations=found.evaluations,
            notes=tuple(notes),
            settings={
                **{"points": entered.cloud.count, "normals": "exact", "solver": "blend", "support": radius},
                **{"resolution": surface.grid_nodes, "flatness": flatness, "close": True, "memory": limit},
                **{"parts": len(surface.boxes), "workers": count},
            },
        )
        folder.remove()
    return made


def _lay_out(
    entered: Entered,
    closed: float | None,
    radius: float,
    resolution: int | None,
    part: int,
    most: int,
    folder: Folder,
    executor: Executor,
    report: Report,
) -> TiledSurface:
    """The grid, its parts, and the balls of all patches."""
    cloud = entered.cloud
    low, high = cloud.boxes[:, 0].min(axis=0), cloud.boxes[:, 1].max(axis=0)
    size = float((high - low).max())
    nodes = resolution or count_nodes(size, cloud.count, quantile_of(cloud.column("widths"), DENSE, AT_ONCE))
    grid = lay_grid(low, high, nodes, min(REACH * radius, FARTHEST))
    report("cutting the cloud into parts")
    boxes = cut_cloud(cloud, grid, part, most, folder)
    balls = lay_balls(cloud, most, folder, executor, report)
    none = np.zeros((0, 3))
    frame = Prepared(none, none, {}, entered.centre, entered.scale, none[:, 0], 0.0, 0.0)
    return TiledSurface(cloud, grid, boxes, balls, closed, radius, entered.ranges, frame, nodes)


def _mesh(
    surface: TiledSurface, reach: float, flatness: float, folder: Folder, executor: Executor, report: Report
) -> list[tuple[str, list[int]]]:
    """Follow the surface through all parts, and again where it leads on; the steps, and the parts in each of them."""
    shared, steps = executor.share(surface), list[tuple[str, list[int]]]()
    asked: dict[int, np.ndarray] = {}
    numbers = np.flatnonzero(surface.boxes.counts).tolist()
    while numbers:
        step = f"{MESH} {len(steps)}"
        work = MeshTile(shared, asked, not steps, reach, flatness, str(folder.path / step))
        largest_first = sorted(numbers, key=lambda number: -int(surface.boxes.counts[number]))
        folder.run(step, work, largest_first, executor, report)
        steps.append((step, numbers))
        asked = _lead_on(surface, steps, folder)
        numbers = sorted(asked)
    return steps


def _lead_on(surface: TiledSurface, steps: list[tuple[str, list[int]]], folder: Folder) -> dict[int, np.ndarray]:
    """Cells into which the surface leads and where nobody was yet, part by part."""
    path = folder.path / f"{steps[-1][0]}.npz"
    if not path.exists():
        step, numbers = steps[-1]
        ahead = [PieceFile(folder.file_of(step, number)).take("beyond")[0] for number in numbers]
        beyond = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *ahead]))
        cells = surface.grid.split(beyond)
        found: dict[str, np.ndarray] = {}
        for number in range(len(surface.boxes)):
            lower, upper = surface.corners(number)
            own = beyond[np.all((cells >= lower) & (cells < upper), axis=1)]
            for before, members in steps if len(own) else ():
                if number in members:
                    own = np.setdiff1d(
                        own, np.concatenate(PieceFile(folder.file_of(before, number)).take("cells", "entries"))
                    )
            if len(own):
                found[str(number)] = own
        keep(path, found)
    return {int(name): cells for name, cells in load(path).items()}


# ---- results


def _write(joint: Joint, surface: TiledSurface, target: Path) -> None:
    """The mesh as PLY, in stream."""
    widths = [*surface.cloud.names, (NORMALS, 3)]
    ends = np.cumsum([width for _, width in widths])
    empty = {name: np.zeros((0, width)) for name, width in widths}
    names = tuple(name for name, _ in name_columns(np.zeros((0, 3)), empty))
    colours, start = set[str](), 3
    for (name, width), end in zip(widths, ends, strict=True):
        ranges = surface.ranges[:, end - width : end]
        if ranges.shape[1] and (ranges >= 0).all() and (ranges <= 1).all() and name != NORMALS:
            colours |= {one for one in names[start : start + width] if one in ("red", "green", "blue", "alpha")}
        start += width
    table = PlyTable(names, frozenset(colours))

    def rows() -> Iterator[np.ndarray]:
        for vertices, columns in joint.blocks():
            yield table.fill([*surface.frame.to_input(vertices).T, *columns.T])

    write_atomically(target, lambda file: table.write(file, joint.vertices, rows(), joint.faces, joint.corners()))


@dataclass(frozen=True, eq=False)
class _Gathered:
    certificate: Certificate
    errors: tuple[float, float, float]
    evaluations: int


def _gather(pieces: list[PieceFile], points: int, each: int) -> _Gathered:
    """Worst errors and one certificate of all parts; a condition near a seam is in several parts, and counts once."""
    said, errors, first = [], list[np.ndarray](), dict[str, Certificate]()
    for piece in pieces:
        error, text = piece.take("errors", "said")
        values = from_bytes(text)
        errors.append(error)
        said.append(values)
        first.setdefault(piece.path.stem, unpack_certificate(values["certificate"]))
    parts = list(first.values())
    once, joined = points * each, join_certificates(parts)
    lost = sum(part.conditions - part.rank for part in parts)
    unseen = sum(part.conditions - part.measured for part in parts)
    certificate = replace(
        joined,
        conditions=once,
        functions=once,
        measured=max(0, once - unseen),
        findings=Findings(max(0, once - lost), joined.condition),
    )
    worst = np.max(errors, axis=0)
    return _Gathered(certificate, tuple(worst.tolist()), sum(int(one["evaluations"]) for one in said))


def _note_missed(pieces: list[PieceFile], grid: Grid, total: int) -> list[str]:
    """A note on points that the mesh does not come near, whatever the field does there."""
    missed = np.concatenate([piece.take("missed")[0] for piece in pieces])
    if not len(missed):
        return []
    apart = np.full(len(missed), np.inf)
    for piece in pieces:
        (vertices,) = piece.take("vertices")
        if len(vertices):
            apart = np.minimum(apart, cKDTree(vertices).query(missed)[0])
    off = apart > MISSED * grid.step
    return [
        f"{off.sum()} of {total} points are not on the mesh, but up to {apart.max():.2g} from it: they lie in parts "
        f"thinner than the grid step {grid.step:.3g}; raise the resolution to see them"
    ] * bool(off.any())
