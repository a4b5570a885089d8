"""A mesh through given points: every point becomes a vertex, and nothing else about the mesh changes more than it must.

In come a mesh and points close to it; out goes a mesh of the same Euler number that has each point among its vertices,
so it is zero away from it. A point close to a vertex takes that vertex (one point each); any other splits the face or
the edge it lies over. Rounds of independent operations keep this vectorised; edge flips then mend the slivers. Faces
must go on looking the surface's way; a point for which no place without a turned face is found is put in all the same
and counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from cnf.errors import ConstraintError
from cnf.meshes.mesh import Mesh, unit_rows
from cnf.shapes.reconstruction.closest import find_closest
from cnf.shapes.reconstruction.closing import pair_sides
from cnf.shapes.reconstruction.flips import FACING, align, choose_apart, flip_edges, measure_quality, touch

NEAR = 0.45  # of the face's size: a point this close to a vertex takes it
LEVELS = (FACING, 0.0, -2.0)  # what new faces must look the surface's way: as they should, at all, or never mind
AROUND = 12  # vertices around a point whose faces are looked at


@dataclass(frozen=True)
class Snapping:
    """A mesh through the points, and what it took."""

    mesh: Mesh
    moved: int  # points that took a vertex
    inserted: int  # points that split a face or an edge
    flips: int  # edges flipped afterwards
    turned: int  # faces that look against the surface now and did not before
    forced: int  # points beside such a face: they could not be put in without
    distance: float  # the farthest a point was from the mesh before


def snap(mesh: Mesh, points: np.ndarray, normals: np.ndarray | None = None) -> Snapping:
    """Draw the mesh through `points` (P, 3); `normals` (P, 3) say which way the surface looks there, if known."""
    points = np.asarray(points, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 3 or not np.all(np.isfinite(points)):
        raise ConstraintError(f"expected finite points (P, 3), got an array of shape {points.shape}")
    if normals is not None and np.shape(normals) != points.shape:
        raise ConstraintError(f"expected one normal for each of {len(points)} points, got {np.shape(normals)}")
    if not len(mesh.faces):
        raise ConstraintError("the mesh has no faces to put points into")
    draft = _Draft(mesh)
    turned = int(np.sum(draft.facing() < 0))
    points, kept = np.unique(points, axis=0, return_index=True)  # the same point twice is one vertex
    normals = None if normals is None else unit_rows(np.asarray(normals, dtype=np.float64)[kept])
    waiting, farthest = draft.move_vertices(points, normals, np.arange(len(points)))
    moved = len(points) - len(waiting)
    level = 0
    while len(waiting):
        left = draft.insert(points, normals, waiting, LEVELS[level])
        level = min(level + 1, 2) if len(left) == len(waiting) else 0  # one that goes in may make room for others
        waiting = left
    facing = draft.facing()
    beside = np.zeros(len(draft.vertices), dtype=bool)
    beside[draft.faces[facing < 0].ravel()] = True
    return Snapping(
        Mesh(draft.vertices, draft.faces, draft.attributes),
        moved,
        len(points) - moved,
        draft.flips,
        max(int(np.sum(facing < 0)) - turned, 0),
        int(np.sum(beside & draft.pinned)),
        farthest,
    )


class _Draft:
    """The mesh while it is being changed; rows grow as points are put in."""

    def __init__(self, mesh: Mesh) -> None:
        self.vertices, self.faces = mesh.vertices.copy(), mesh.faces.copy()
        self.attributes = {name: rows.copy() for name, rows in mesh.attributes.items()}
        self.directions = mesh.vertex_normals.copy()  # (V, 3) the way the surface looks
        self.pinned = np.zeros(len(self.vertices), dtype=bool)  # vertices that are points
        self.flips = 0
        self.tree: cKDTree | None = None

    def facing(self) -> np.ndarray:
        """Cosine (F,) between each face and the surface's direction."""
        return align(self.vertices, self.faces, self.directions)

    def move_vertices(
        self, points: np.ndarray, normals: np.ndarray | None, waiting: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """Let points take the nearest corner of the face they lie over where that is close; returns those left."""
        face, weights, distance = find_closest(self.vertices, self.faces, points[waiting])
        corners = self.faces[face]  # (n, 3)
        apart = np.linalg.norm(self.vertices[corners] - points[waiting][:, None], axis=2)
        nearest = np.argmin(apart, axis=1)
        one = np.arange(len(waiting))
        vertex, way = corners[one, nearest], apart[one, nearest]
        size = np.linalg.norm(self.vertices[corners] - np.roll(self.vertices[corners], 1, axis=1), axis=2).mean(axis=1)
        close = np.flatnonzero(way <= NEAR * size)
        close = close[choose_apart(vertex[close, None], way[close], len(self.vertices))]
        vertex, rows = vertex[close], waiting[close]

        before, start = self.facing(), self.vertices.copy()
        quality = measure_quality(start, self.faces)
        holder = np.full(len(self.vertices), -1)  # which of the moves a vertex makes
        holder[vertex] = np.arange(len(vertex))
        kept = np.ones(len(vertex), dtype=bool)
        self.vertices[vertex] = points[rows]
        while True:  # take back what spoils a face, the longer way first, until no face is spoilt
            now, shape = self.facing(), measure_quality(self.vertices, self.faces)
            spoilt = (now < np.minimum(2 * FACING, before)) | (shape < np.minimum(0.15, 0.5 * quality))
            movers = holder[self.faces[spoilt]]  # (n, 3)
            ways = np.where(movers >= 0, way[close][movers], -1.0)
            worst = np.argmax(ways, axis=1)
            back = np.unique(movers[np.arange(len(movers)), worst])
            back = back[back >= 0]
            if not len(back):
                break
            kept[back] = False
            holder[vertex[back]] = -1
            self.vertices[vertex[back]] = start[vertex[back]]
        chosen = close[kept]
        self._set(vertex[kept], corners[chosen], weights[chosen], None if normals is None else normals[rows[kept]])
        self.pinned[vertex[kept]] = True
        left = np.ones(len(waiting), dtype=bool)
        left[chosen] = False
        self._mend(np.flatnonzero(self.pinned))
        return waiting[left], float(distance.max(initial=0.0))

    def insert(self, points: np.ndarray, normals: np.ndarray | None, waiting: np.ndarray, level: float) -> np.ndarray:
        """One round: points that split faces or edges apart from each other; returns those still waiting."""
        inner, region = self._region(points[waiting])
        faces = self.faces[region]  # from here on, faces are numbered within the region
        chosen, weights, distance = find_closest(self.vertices, self.faces[inner], points[waiting])
        face = np.searchsorted(region, inner[chosen])
        corners = faces[face]
        count, fresh = len(self.vertices), len(self.vertices) + np.arange(len(waiting))
        mixed = unit_rows(np.einsum("nk,nkd->nd", weights, self.directions[corners]))
        vertices = np.concatenate([self.vertices, points[waiting]])
        directions = np.concatenate([self.directions, mixed if normals is None else normals[waiting]])

        built, claimed = _list_splits(faces, pair_sides(faces, count), face, fresh)
        real = np.any(built != 0, axis=-1)  # (n, 4, 4)
        facing = np.where(real, align(vertices, built, directions), 1.0).min(axis=2)
        shape = np.where(real, measure_quality(vertices, built), 1.0).min(axis=2)  # (n, 4)
        before = align(vertices, faces, directions)
        allowed = np.minimum(level, np.where(claimed >= 0, before[claimed], 1.0).min(axis=2))
        score = np.where(facing >= allowed, 2 + shape, facing)
        best = np.argmax(score, axis=1)
        one = np.arange(len(waiting))
        ready = np.flatnonzero(score[one, best] >= 2)
        # Those that lie closest to the mesh first: they change it least, and make it better for the others.
        ready = ready[choose_apart(claimed[ready, best[ready]], distance[ready], len(faces))]
        if len(ready):
            self._append(ready, corners, weights, points[waiting], directions[count:])
            number = count + np.arange(len(ready))
            new = built[ready, best[ready]]  # (n, 4, 3)
            new = np.where(new >= count, number[:, None, None], new)
            old = claimed[ready, best[ready]]
            keep = np.ones(len(self.faces), dtype=bool)
            keep[region[old[old >= 0]]] = False
            self.faces = np.concatenate([self.faces[keep], new[real[ready, best[ready]]]])
            self._mend(number)
        left = np.ones(len(waiting), dtype=bool)
        left[ready] = False
        return waiting[left]

    def _region(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the faces around `points`, and of these with all their neighbours; both sorted."""
        if self.tree is None:  # vertices stay in their places from now on; those put in later come on top
            self.tree = cKDTree(self.vertices)
        near = np.zeros(len(self.vertices), dtype=bool)
        near[self.tree.query(points, k=min(AROUND, self.tree.n))[1].ravel()] = True
        if len(added := self.vertices[self.tree.n :]):
            near[self.tree.n + cKDTree(added).query(points, k=min(AROUND, len(added)))[1].ravel()] = True
        inner = np.flatnonzero(touch(near, self.faces))
        near[self.faces[inner].ravel()] = True
        return inner, np.flatnonzero(touch(near, self.faces))

    def _append(
        self, ready: np.ndarray, corners: np.ndarray, weights: np.ndarray, points: np.ndarray, directions: np.ndarray
    ) -> None:
        """Append the vertices of the points put in, with what belongs to them."""
        self.vertices = np.concatenate([self.vertices, points[ready]])
        self.directions = np.concatenate([self.directions, directions[ready]])
        self.pinned = np.concatenate([self.pinned, np.ones(len(ready), dtype=bool)])
        for name, rows in self.attributes.items():
            mixed = np.einsum("nk,nkd->nd", weights[ready], rows[corners[ready]])
            self.attributes[name] = np.concatenate([rows, mixed])

    def _set(self, vertex: np.ndarray, corners: np.ndarray, weights: np.ndarray, normals: np.ndarray | None) -> None:
        """Give moved vertices the direction and the attributes of the place they went to."""
        mixed = {name: np.einsum("nk,nkd->nd", weights, rows[corners]) for name, rows in self.attributes.items()}
        for name, rows in mixed.items():
            self.attributes[name][vertex] = rows
        if normals is None:
            normals = unit_rows(np.einsum("nk,nkd->nd", weights, self.directions[corners]))
        self.directions[vertex] = normals

    def _mend(self, vertex: np.ndarray) -> None:
        touched = np.zeros(len(self.vertices), dtype=bool)
        touched[vertex] = True
        self.faces, flips = flip_edges(self.vertices, self.faces, self.directions, touched)
        self.flips += flips


def _list_splits(
    faces: np.ndarray, twin: np.ndarray, face: np.ndarray, fresh: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The four ways for points over `face` (n,) to become vertices `fresh` (n,): split the face, or one of its sides.

    Returns the new faces (n, 4, 4, 3), rows of zeros for none, and the faces they replace (n, 4, 2), -1 for none.
    """
    corners, one = faces[face], np.arange(len(face))
    a, b, c = corners.T
    none = np.zeros_like(corners)
    options = [np.stack([_row(a, b, fresh), _row(b, c, fresh), _row(c, a, fresh), none], axis=1)]
    claims = [np.stack([face, np.full(len(face), -1)], axis=1)]
    for i in range(3):  # split side i of the face, and the face beyond it if there is one
        over = twin[3 * face + i]
        beyond = np.where(over >= 0, over // 3, -1)
        d = faces[beyond, (over + 2) % 3]
        p, q, r = (corners[one, (i + shift) % 3] for shift in range(3))
        rim = (over < 0)[:, None]
        pair = [np.where(rim, 0, _row(p, d, fresh)), np.where(rim, 0, _row(d, q, fresh))]
        options.append(np.stack([_row(q, r, fresh), _row(r, p, fresh), *pair], axis=1))
        claims.append(np.stack([face, beyond], axis=1))
    return np.stack(options, axis=1), np.stack(claims, axis=1)


def _row(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return np.stack([a, b, c], axis=-1)
