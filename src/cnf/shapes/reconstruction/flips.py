"""Better triangles over the same vertices: edges flipped towards Delaunay's criterion, in rounds of independent flips.

In come vertices, faces, and the direction in which the surface looks at each vertex; out go faces over the same
vertices, with the same Euler number and no face turned over that was not turned before.
"""

from __future__ import annotations

import numpy as np

from cnf.meshes.mesh import PORTION, Mesh, unit_rows
from cnf.shapes.reconstruction.closing import pair_sides

FLAT = 0.5  # cosine between two faces: across a sharper fold an edge is a feature and stays
FACING = 0.2  # cosine with the surface's direction: new faces look its way at least so much, or no less than the old


def align(vertices: np.ndarray, faces: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Cosine (...) between the normal of faces (..., 3) and the mean of the directions at their corners."""
    if faces.ndim == 2 and len(faces) > PORTION:
        parts = range(0, len(faces), PORTION)
        return np.concatenate([align(vertices, faces[k : k + PORTION], directions) for k in parts])
    a, b, c = (vertices[faces[..., i]] for i in range(3))
    normal = np.cross(b - a, c - a)
    mean = directions[faces[..., 0]] + directions[faces[..., 1]] + directions[faces[..., 2]]
    length = np.sqrt(square(normal) * square(mean))
    return np.divide(
        np.einsum("...d,...d->...", normal, mean), length, out=np.full(length.shape, -1.0), where=length > 0
    )


def measure_quality(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """1 for an equilateral face, 0 for one without area: (...) of faces (..., 3)."""
    a, b, c = (vertices[faces[..., i]] for i in range(3))
    squares = square(b - a) + square(c - b) + square(a - c)
    doubled = np.sqrt(square(np.cross(b - a, c - a)))
    return np.divide(2 * np.sqrt(3) * doubled, squares, out=np.zeros_like(squares), where=squares > 0)


def touch(marked: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Which faces (F, 3) hold a `marked` vertex (V,) bool."""
    return marked[faces[:, 0]] | marked[faces[:, 1]] | marked[faces[:, 2]]


def square(vectors: np.ndarray) -> np.ndarray:
    """Squared lengths (...) of vectors (..., 3)."""
    return np.einsum("...d,...d->...", vectors, vectors)


def choose_apart(claims: np.ndarray, priority: np.ndarray, count: int) -> np.ndarray:
    """Of operations that each claim a row of things (n, k), -1 for none, those whose claims none prior to them shares.

    Lower `priority` (n,) goes first. Returns bool (n,); at least the first operation is chosen.
    """
    rank = np.empty(len(priority), dtype=np.int64)
    rank[np.argsort(priority, kind="stable")] = np.arange(len(priority))
    first = np.full(count + 1, len(priority))  # the last place takes the -1
    for column in claims.T:
        np.minimum.at(first, column, rank)
    first[-1] = -1
    return np.all((first[claims] == rank[:, None]) | (claims < 0), axis=1)


def improve(mesh: Mesh) -> Mesh:
    """The mesh with all its edges flipped to better triangles; vertices and attributes stay."""
    everywhere = np.ones(len(mesh.vertices), dtype=bool)
    faces, _ = flip_edges(mesh.vertices, mesh.faces, mesh.vertex_normals, everywhere, rounds=30)
    return Mesh(mesh.vertices, faces, mesh.attributes)


def flip_edges(
    vertices: np.ndarray, faces: np.ndarray, directions: np.ndarray, touched: np.ndarray, rounds: int = 12
) -> tuple[np.ndarray, int]:
    """Flip edges of faces that hold a `touched` vertex (V,) bool; returns the faces and the number of flips."""
    faces, touched = faces.copy(), touched.copy()
    total = 0
    for _ in range(rounds):
        region = np.flatnonzero(touch(touched, faces))
        local = faces[region]
        twin = pair_sides(local, len(vertices))
        side = np.flatnonzero(twin > np.arange(len(twin)))  # each inner edge once
        if not len(side):
            break
        other = twin[side]
        f, g = side // 3, other // 3
        a, b, c = (local[f, (side + shift) % 3] for shift in range(3))
        d = local[g, (other + 2) % 3]
        gain = _bend(vertices, a, b, c, d)  # positive: the edge from c to d is the better one
        wanted = np.flatnonzero((gain > 1e-6) & (c != d))
        a, b, c, d, f, g, gain = (rows[wanted] for rows in (a, b, c, d, f, g, gain))
        old = np.stack([local[f], local[g]], axis=1)  # (n, 2, 3)
        new = np.stack([np.stack([a, d, c], axis=1), np.stack([d, b, c], axis=1)], axis=1)
        facing_old = align(vertices, old, directions).min(axis=1)
        facing_new = align(vertices, new, directions).min(axis=1)
        normals = unit_rows(_crosses(vertices, old.reshape(-1, 3))).reshape(-1, 2, 3)
        flat = np.sum(normals[:, 0] * normals[:, 1], axis=1) > FLAT
        fine = np.where(flat, facing_new > np.minimum(FACING, facing_old), facing_new > facing_old + 0.1)
        fine[fine] = ~_joined(faces, c[fine], d[fine], len(vertices))
        _, edge = np.unique(np.minimum(c, d) * len(vertices) + np.maximum(c, d), return_inverse=True)
        keep = np.flatnonzero(fine)
        if not len(keep):
            break
        claims = np.stack([f, g, len(local) + edge], axis=1)[keep]
        keep = keep[choose_apart(claims, -gain[keep], len(local) + len(edge))]
        faces[region[f[keep]]], faces[region[g[keep]]] = new[keep, 0], new[keep, 1]
        total += len(keep)
        touched[:] = False
        touched[new[keep].ravel()] = True
    return faces, total


def _bend(vertices: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Minus the sine of the sum of the angles at c and d opposite the edge a b; positive beyond half a turn."""

    def angle(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        u, v = unit_rows(vertices[a] - vertices[at]), unit_rows(vertices[b] - vertices[at])
        return np.sum(u * v, axis=1), np.linalg.norm(np.cross(u, v), axis=1)

    (cos_c, sin_c), (cos_d, sin_d) = angle(c), angle(d)
    return -(sin_c * cos_d + cos_c * sin_d)


def _joined(faces: np.ndarray, c: np.ndarray, d: np.ndarray, count: int) -> np.ndarray:
    """Whether an edge between vertices c (n,) and d (n,) exists already."""
    mark = np.zeros(count, dtype=bool)
    mark[c] = True
    near = faces[touch(mark, faces)]  # the few faces that can matter
    start, end = near.ravel(), np.roll(near, -1, axis=1).ravel()
    keys = np.minimum(start, end) * count + np.maximum(start, end)
    asked = np.minimum(c, d) * count + np.maximum(c, d)
    return np.isin(asked, keys)


def _crosses(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    a, b, c = (vertices[faces[:, i]] for i in range(3))
    return np.cross(b - a, c - a)
