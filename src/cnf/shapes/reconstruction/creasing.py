"""Creases into a mesh: vertices on the edges and corners of the surface, and mesh edges along them.

In come a mesh near the joined pieces of `Creases`; out goes a mesh of the same Euler number in which no edge leads
across a crease, wherever that could be had. A vertex close to a crease is moved onto it; every other edge across is
split where it meets the crease; so two neighbouring places on a crease share a face, and an edge. No face is turned
over for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from cnf.meshes.creased import SHARP
from cnf.meshes.mesh import Mesh, unit_rows
from cnf.shapes.clouds.spacing import Spacing
from cnf.shapes.reconstruction.creases import VOID, Creases
from cnf.shapes.reconstruction.flips import measure_quality
from cnf.shapes.reconstruction.refinement import NORMALS, split_faces
from cnf.shapes.reconstruction.sides import list_triples, meet

VALID = 0.75  # of an anchor's reach: so far it says where the crease is
TAKEN = 0.3  # of an edge's length: a vertex this close to a crease is moved onto it
FAR = 1.0  # of it: a place on the crease is no farther from where the edge seems to cross
FACING, THIN = 0.15, 0.02  # cosine of a face with the surface, and quality, that a move must leave
NEAREST = 4  # vertices that are tried for a corner


def insert_creases(mesh: Mesh, creases: Creases, spacing: Spacing, step: float) -> Mesh:
    """Draw the creases into a mesh whose faces are about `step` wide; which vertices are on them is in it as SHARP."""
    kind = np.zeros(len(mesh.vertices), dtype=np.int64)
    vertices = mesh.vertices.copy()
    _take_corners(vertices, mesh.faces, kind, creases, spacing, step)
    edges = mesh.edges
    for _ in range(2):  # a move may bring other edges across
        row, _, places = _cross(vertices, edges, kind, creases, spacing)
        _take_vertices(vertices, mesh.faces, kind, edges[row], places)
    row, seen, places = _cross(vertices, edges, kind, creases, spacing)
    number = np.full(len(edges), -1)
    number[row] = len(vertices) + np.arange(len(row))
    faces = split_faces(Mesh(vertices, mesh.faces), number)
    kind = np.concatenate([kind, np.zeros(len(row), dtype=np.int64)])
    vertices = np.concatenate([vertices, seen])  # on their edges, where they can turn nothing
    _move(vertices, faces, kind, len(mesh.vertices) + np.arange(len(row)), places, 1)
    made = Mesh(vertices, faces)
    normals = made.vertex_normals
    if NORMALS in mesh.attributes:
        old = kind[: len(mesh.vertices)] == 0
        normals[: len(old)][old] = mesh.attributes[NORMALS][old]
    return made.with_attributes(**{NORMALS: normals, SHARP: kind})


def on_creases(mesh: Mesh) -> np.ndarray | None:
    """Which vertices are on creases (V,) bool, if that is known of the mesh."""
    kind = mesh.attributes.get(SHARP)
    return None if kind is None else kind[:, 0] > 0


@dataclass(frozen=True)
class Sharpness:
    """What came of sharp edges."""

    edges: int  # vertices on them
    corners: int
    away: float  # largest value of the smooth field at these, in scaled coordinates


def keep_kinds(mesh: Mesh, refined: Mesh) -> Mesh:
    """A mesh after edges were split, none of them along a crease: no vertex that is new is on one."""
    if SHARP not in mesh.attributes:
        return refined
    kind = np.zeros((len(refined.vertices), 1))
    kind[: len(mesh.vertices)] = mesh.attributes[SHARP]
    return refined.with_attributes(**{SHARP: kind})


def measure_sharpness(mesh: Mesh, values: Callable[[np.ndarray], np.ndarray]) -> Sharpness:
    """Of a mesh with SHARP or without, against the smooth field."""
    kind = mesh.attributes.get(SHARP, np.zeros((len(mesh.vertices), 1)))[:, 0]
    away = np.abs(values(mesh.vertices[kind > 0])).max(initial=0)
    return Sharpness(int(np.sum(kind == 1)), int(np.sum(kind == 2)), float(away))


def _cross(
    vertices: np.ndarray, edges: np.ndarray, kind: np.ndarray, creases: Creases, spacing: Spacing
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers of the edges (E, 2) that lead across a crease, ends on creases aside, and where: on edge and crease."""
    free = np.flatnonzero((kind[edges] == 0).all(axis=1))
    a, b = vertices[edges[free, 0]], vertices[edges[free, 1]]
    anchor, apart = creases.near((a + b) / 2)
    near = np.flatnonzero(apart < VALID)
    free, a, b, anchor = free[near], a[near], b[near], anchor[near]
    _, first, values, _ = creases.look(anchor, a)
    _, second, others, _ = creases.look(anchor, b)
    rows = np.flatnonzero(first != second)
    free, a, b, anchor, first, second = free[rows], a[rows], b[rows], anchor[rows], first[rows], second[rows]
    one = np.arange(len(rows))
    start = values[rows][one, first] - values[rows][one, second]
    stop = others[rows][one, first] - others[rows][one, second]
    t = np.clip(np.divide(start, start - stop, out=np.full(len(rows), 0.5), where=start != stop), 0, 1)[:, None]
    seen = a + t * (b - a)
    places, turn, fine = meet(creases.quadrics, anchor, seen, np.stack([first, second], axis=1))
    value = creases.look(anchor, places)[0]
    fine &= np.abs(value) < 1e-6 * creases.quadrics.scale[anchor]
    fine &= turn >= 0.5 * np.radians(creases.angle)
    fine &= np.linalg.norm(places - seen, axis=1) < FAR * np.linalg.norm(b - a, axis=1)
    fine[fine] = spacing.measure(places[fine])[1] < VOID
    return free[fine], seen[fine], places[fine]


def _take_vertices(
    vertices: np.ndarray, faces: np.ndarray, kind: np.ndarray, edges: np.ndarray, places: np.ndarray
) -> None:
    """Move the ends of crossing edges (n, 2) that are close to the crease onto it."""
    ends, target = edges.T.ravel(), np.concatenate([places, places])
    away = np.linalg.norm(vertices[ends] - target, axis=1)
    length = np.linalg.norm(vertices[edges[:, 0]] - vertices[edges[:, 1]], axis=1)
    close = np.flatnonzero(away < TAKEN * np.concatenate([length, length]))
    close = close[np.argsort(away[close], kind="stable")]
    vertex, at = np.unique(ends[close], return_index=True)
    _move(vertices, faces, kind, vertex, target[close[at]], 1)


def _take_corners(
    vertices: np.ndarray, faces: np.ndarray, kind: np.ndarray, creases: Creases, spacing: Spacing, step: float
) -> None:
    """Move the vertex nearest to each corner onto it."""
    corners = find_corners(creases)
    corners = corners[spacing.measure(corners)[1] < VOID]
    if not len(corners):
        return
    apart, index = cKDTree(vertices).query(corners, k=NEAREST)
    for choice in range(NEAREST):
        free = np.flatnonzero((kind[index[:, choice]] == 0) & (apart[:, choice] < 1.5 * step))
        vertex, first = np.unique(index[free, choice], return_index=True)
        _move(vertices, faces, kind, vertex, corners[free[first]], 2)
        done = np.linalg.norm(vertices[index[:, choice]] - corners, axis=1) == 0
        corners, index, apart = corners[~done], index[~done], apart[~done]


def find_corners(creases: Creases) -> np.ndarray:
    """Where three pieces or more meet on the surface, each once: (n, 3)."""
    scale, found = creases.quadrics.scale, []
    for triple in list_triples():
        rows = np.flatnonzero((creases.block[:, triple] >= 0).all(axis=1))
        if not len(rows):
            continue
        places, turn, fine = meet(creases.quadrics, rows, creases.places[rows], triple)
        fine &= np.abs(creases.look(rows, places)[0]) < 1e-6 * scale[rows]
        fine &= np.linalg.norm(places - creases.places[rows], axis=1) < VALID * creases.reach[rows]
        fine &= turn >= 0.5 * np.radians(creases.angle)
        found.append((places[fine], scale[rows[fine]]))
    if not found:
        return np.empty((0, 3))
    places, width = (np.concatenate([f[k] for f in found]) for k in (0, 1))
    kept: list[int] = []
    if len(places):
        groups = cKDTree(places).query_ball_point(places, 0.5 * width)
        gone = np.zeros(len(places), dtype=bool)
        for k, group in enumerate(groups):
            if not gone[k]:
                kept.append(k)
                gone[group] = True
    return places[kept]


def _move(
    vertices: np.ndarray,
    faces: np.ndarray,
    kind: np.ndarray,
    vertex: np.ndarray,
    target: np.ndarray,
    what: int,
) -> None:
    """Move vertices to their targets, except where a face would be turned over or lose its area."""
    if not len(vertex):
        return
    start = vertices[vertex].copy()
    moving = np.zeros(len(vertices), dtype=bool)
    moving[vertex] = True
    around = faces[moving[faces].any(axis=1)]
    directions = unit_rows(_face_normals(vertices, around))
    before = measure_quality(vertices, around)
    vertices[vertex] = target
    holder = np.full(len(vertices), -1)
    holder[vertex] = np.arange(len(vertex))
    kept = np.ones(len(vertex), dtype=bool)
    while True:
        facing = np.einsum("fd,fd->f", unit_rows(_face_normals(vertices, around)), directions)
        bad = (facing < FACING) | (measure_quality(vertices, around) < np.minimum(THIN, 0.3 * before))
        back = np.unique(holder[around[bad]])
        back = back[back >= 0]
        back = back[kept[back]]
        if not len(back):
            break
        kept[back] = False
        vertices[vertex[back]] = start[back]
    kind[vertex[kept]] = what


def _face_normals(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    return np.cross(b - a, c - a)
