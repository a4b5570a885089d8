"""The mesh of a surface that is solved part by part: pieces that meet without seams.

In comes a `PartedSurface`; out goes a `Stitched`: one mesh on its zero set, and what was measured on the way. Two parts
see the same along their common side, by construction: the values at nodes there are asked of one of them and handed to
the other, a vertex there is moved onto the zero set once, and edges between two such vertices are never split. So the
pieces fit whatever rounding does, and a surface that leads from one part into another and back is followed there too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.spatial import cKDTree

from cnf.errors import ConstraintError
from cnf.meshes.mesh import Mesh
from cnf.shapes.reconstruction.band import NO_NODES, Band, Nodes, Portion, follow
from cnf.shapes.reconstruction.closing import cap_rims, part_fans
from cnf.shapes.reconstruction.cubes import triangulate_named
from cnf.shapes.reconstruction.parts import Part, PartedSurface
from cnf.shapes.reconstruction.refinement import NORMALS, project, refine
from cnf.shapes.reconstruction.surface import Surface

Look = Callable[[Surface, Part], None]  # at the field of a part, as soon as it is solved
Finish = Callable[[Surface, Mesh], dict[str, np.ndarray]]  # what else is known at the vertices of a piece
Ended = Callable[[str], None]  # told of every stage that has ended


@dataclass(frozen=True, eq=False)
class Stitched:
    """One mesh of all pieces, and how it came about."""

    mesh: Mesh
    cut: int  # cells in which the surface was not followed further
    holes: int
    dropped: int  # parts of the zero set that belong to no point
    missed: np.ndarray  # numbers of points that are farther than a cell's diagonal from the piece of their part


@dataclass(eq=False)
class _Seams:
    """What parts hand to each other."""

    nodes: Nodes = NO_NODES  # values at nodes on sides
    names: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # of vertices on sides, ascending
    numbers: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # which vertex of the whole it is

    def add_nodes(self, found: Nodes) -> None:
        numbers, first = np.unique(np.concatenate([self.nodes[0], found[0]]), return_index=True)
        self.nodes = numbers, np.concatenate([self.nodes[1], found[1]])[first]

    def add_vertices(self, names: np.ndarray, numbers: np.ndarray) -> None:
        order = np.argsort(merged := np.concatenate([self.names, names]), kind="stable")
        self.names, self.numbers = merged[order], np.concatenate([self.numbers, numbers])[order]

    def find_vertices(self, names: np.ndarray) -> np.ndarray:
        """The vertex of the whole that each name is, -1 for one that is not there yet."""
        if not len(self.names):
            return np.full(len(names), -1)
        place = np.minimum(np.searchsorted(self.names, names), len(self.names) - 1)
        return np.where(self.names[place] == names, self.numbers[place], -1)


class _Whole:
    """The mesh as it grows, piece by piece; columns are those of a vertex: place, normal, whatever else."""

    def __init__(self) -> None:
        self.rows: list[np.ndarray] = []  # (n, 6 + k) each
        self.faces: list[np.ndarray] = []
        self.seeded: list[np.ndarray] = []  # numbers of vertices that are nearest to a point
        self.missed: list[np.ndarray] = []  # numbers of points that are near none
        self.count = 0

    def look_up(self, numbers: np.ndarray) -> np.ndarray:
        """Columns of some vertices, (n, 6 + k)."""
        starts = np.cumsum([0, *(len(rows) for rows in self.rows)])
        piece = np.searchsorted(starts, numbers, side="right") - 1
        found = np.empty((len(numbers), self.rows[0].shape[1]))
        for k in np.unique(piece):
            own = piece == k
            found[own] = self.rows[k][numbers[own] - starts[k]]
        return found

    def add(self, rows: np.ndarray, faces: np.ndarray, known: np.ndarray, nearest: np.ndarray) -> np.ndarray:
        """Take a piece in whose vertices `known` (V,) are there already, -1 for new ones; returns all their numbers."""
        new = known < 0
        numbers = known.copy()
        numbers[new] = self.count + np.arange(new.sum())
        self.rows.append(rows[new])
        self.faces.append(numbers[faces])
        self.seeded.append(numbers[nearest])
        self.count += int(new.sum())
        return numbers


def mesh_parts(
    surface: PartedSurface,
    reach: float,
    flatness: float,
    close: bool,
    look: Look,
    finish: Finish,
    ended: Ended,
    report: Ended,
) -> Stitched:
    """Follow the surface through all parts, up to `reach` from the points; faces as flat as `flatness` steps.

    `look` is shown the field of every part once; `finish` gives further columns (V, k) for the vertices of every piece,
    by name.
    """
    whole, seams, grid = _Whole(), _Seams(), surface.grid
    entries = [np.zeros(0, dtype=np.int64) for _ in surface.parts]
    visited = [np.zeros(0, dtype=np.int64) for _ in surface.parts]
    waiting, cut, columns, first = list(range(len(surface.parts))), 0, {}, True
    while waiting:
        for turn, number in enumerate(waiting):
            part = surface.parts[number]
            report(f"part {turn + 1} of {len(waiting)}: {len(part.rows)} points")
            if not (len(part.rows) and first) and not len(entries[number]):
                continue
            local = surface.solve(number)
            ended("solve")
            if first:
                look(local, part)
                ended("certificate")
            portion = Portion(part.lower, part.upper, entries[number], seams.nodes)
            seeds = surface.points[part.rows] if first else np.empty((0, 3))
            band = follow(local.values, seeds, grid, reach, None, portion, surface.spacing.tree)
            seams.add_nodes(band.sides)
            cut += band.cut
            visited[number] = np.union1d(visited[number], np.concatenate([grid.number(band.cells), entries[number]]))
            entries[number] = entries[number][:0]
            _hand_over(surface, band, entries)
            ended("extraction")
            if len(band.cells):
                rows = part.rows if first else part.rows[:0]
                more = _add_piece(whole, seams, local, band, portion, flatness, finish, ended, surface.points, rows)
                columns = {name: rows.shape[1] for name, rows in more.items()}
        first = False
        entries = [np.setdiff1d(asked, seen) for asked, seen in zip(entries, visited, strict=True)]
        waiting = [number for number, asked in enumerate(entries) if len(asked)]
    return _join(whole, columns, cut, close, grid.step, len(surface.points))


def _hand_over(surface: PartedSurface, band: Band, entries: list[np.ndarray]) -> None:
    """Cells that lie in other parts become entries of these."""
    cells = surface.grid.split(band.beyond)
    for number, part in enumerate(surface.parts):
        own = np.all((cells >= part.lower) & (cells < part.upper), axis=1)
        if own.any():
            entries[number] = np.union1d(entries[number], band.beyond[own])


def _add_piece(
    whole: _Whole,
    seams: _Seams,
    local: Surface,
    band: Band,
    portion: Portion,
    flatness: float,
    finish: Finish,
    ended: Ended,
    points: np.ndarray,
    rows: np.ndarray,
) -> dict[str, np.ndarray]:
    """Triangles of a part, on the zero set, joined to what there is; returns the further columns."""
    grid, step = band.grid, band.grid.step
    nodes, faces, names = triangulate_named(band.cells, band.values, grid.shape)
    shared = _on_sides(portion, names, grid.shape)
    known = np.full(len(names), -1)
    known[shared] = seams.find_vertices(names[shared])
    there = known >= 0
    vertices, normals = grid.place(nodes), np.zeros((len(nodes), 3))
    if there.any():
        before = whole.look_up(known[there])
        vertices[there], normals[there] = before[:, :3], before[:, 3:6]
    ended("extraction")
    mesh = project(Mesh(vertices, faces, {NORMALS: normals}), local.slopes, 0.5 * step, fixed=there).mesh
    ended("projection")
    if flatness:
        mesh = refine(mesh, local.slopes, 0.5 * step, flatness * step, shared=shared).mesh
        more = len(mesh.vertices) - len(names)
        known = np.concatenate([known, np.full(more, -1)])
    ended("refinement")
    extra = finish(local, mesh)
    apart, nearest = cKDTree(mesh.vertices).query(points[rows])
    whole.missed.append(rows[apart > np.sqrt(3) * step])
    table = np.concatenate([mesh.vertices, mesh.attributes[NORMALS], *extra.values()], axis=1)
    numbers = whole.add(table, mesh.faces, known, np.unique(nearest).astype(np.int64))
    new = np.flatnonzero(shared & ~there)
    seams.add_vertices(names[new], numbers[new])
    ended("attributes")
    return extra


def _on_sides(portion: Portion, names: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Which vertices (V,), by their names, are on grid edges within the sides of a portion."""
    node, axis = np.divmod(np.maximum(names, 0), 3)
    touching = portion.touches(np.stack(np.unravel_index(node, shape), axis=1))
    touching[np.arange(len(names)), axis] = False  # an edge that ends on a side is not in it
    return touching.any(axis=1) & (names >= 0)


def _join(whole: _Whole, columns: dict[str, int], cut: int, close: bool, step: float, points: int) -> Stitched:
    """All pieces as one mesh: parts without points dropped, rims closed."""
    if not whole.rows:
        raise ConstraintError(
            f"no surface is seen around the {points} points at a grid step of {step:.3g}: the shape is thinner than "
            "the step, or small beside a far outlier. Raise the resolution, or remove points that lie far from the rest"
        )
    rows, faces, seeded = np.concatenate(whole.rows), np.concatenate(whole.faces), np.concatenate(whole.seeded)
    whole.rows.clear()
    whole.faces.clear()
    marked = np.zeros(len(rows), dtype=bool)
    marked[seeded] = True
    if cut:
        rows, faces = part_fans(np.concatenate([rows, marked[:, None]], axis=1), faces)
        rows, marked = rows[:, :-1], rows[:, -1] > 0
    attributes = {NORMALS: np.ascontiguousarray(rows[:, 3:6])}
    start = 6
    for name, width in columns.items():
        attributes[name] = np.ascontiguousarray(rows[:, start : start + width])
        start += width
    mesh = Mesh(rows[:, :3], faces, attributes)
    del rows, faces
    component = mesh.vertex_components
    held = np.unique(component[marked])
    dropped = mesh.components - len(held[held >= 0])
    if dropped:
        mesh = mesh.keep_vertices(np.isin(component, held))
    closed, holes = cap_rims(mesh) if cut else (mesh, 0)
    return Stitched(closed if close else mesh, cut, holes, dropped, np.sort(np.concatenate(whole.missed)))
