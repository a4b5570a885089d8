"""Repairing where a surface was cut: fans of faces that only touch, parts that belong to no point, rims left open.

In come vertices and faces as marching cubes leaves them, with rims where the surface was not followed further; out go a
manifold, the parts that hold seeds, and caps that close the rims.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from cnf.meshes.mesh import Mesh


def pair_sides(faces: np.ndarray, count: int) -> np.ndarray:
    """For each directed side 3 f + i of a face, from corner i to the next, the opposite side, or -1 on a rim: (3F,)."""
    start, end = faces.ravel(), np.roll(faces, -1, axis=1).ravel()
    keys, opposite = start * count + end, end * count + start
    order = np.argsort(keys, kind="stable")
    place = np.minimum(np.searchsorted(keys, opposite, sorter=order), len(keys) - 1)
    twin = order[place]
    return np.where(keys[twin] == opposite, twin, -1)


def part_fans(vertices: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Give each fan of faces its own vertex where several meet in one vertex only; closed meshes stay as they are."""
    twin = pair_sides(faces, len(vertices))
    if np.all(twin >= 0):
        return vertices, faces
    # The corner at the start of a side and the corner at the end of its opposite are the same corner of the fan.
    side = np.flatnonzero(twin >= 0)
    across = twin[side]
    across = across - across % 3 + (across % 3 + 1) % 3
    graph = coo_matrix((np.ones(len(side), dtype=bool), (side, across)), shape=(faces.size, faces.size))
    fan = connected_components(graph, directed=False)[1]
    _, first, number = np.unique(fan, return_index=True, return_inverse=True)
    order = np.argsort(faces.ravel()[first], kind="stable")  # keeps the order of the vertices
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return vertices[faces.ravel()[first[order]]], rank[number].reshape(-1, 3).astype(np.int64)


def keep_seeded(mesh: Mesh, seeds: np.ndarray) -> tuple[Mesh, int]:
    """The parts to which some seed is nearest, and how many others were dropped."""
    part = mesh.vertex_components
    if mesh.components < 2:
        return mesh, 0
    nearest = cKDTree(mesh.vertices).query(seeds)[1]
    held = np.unique(part[nearest])
    return mesh.keep_vertices(np.isin(part, held)), mesh.components - len(held)


def cap_rims(mesh: Mesh) -> tuple[Mesh, int]:
    """Close every rim with a cone to the middle of its vertices, and count the rims.

    A cap spans the hole where the field says nothing. Filling the unknown nodes of the grid with one sign instead would
    line the whole surface with a second sheet as soon as inside and outside meet through a hole.
    """
    twin = pair_sides(mesh.faces, len(mesh.vertices))
    rim = np.flatnonzero(twin < 0)
    if not len(rim):
        return mesh, 0
    start, end = mesh.faces.ravel()[rim], np.roll(mesh.faces, -1, axis=1).ravel()[rim]
    members, number = np.unique(np.concatenate([start, end]), return_inverse=True)
    a, b = number[: len(rim)], number[len(rim) :]
    graph = coo_matrix((np.ones(len(rim), dtype=bool), (a, b)), shape=(len(members), len(members)))
    count, loop = connected_components(graph, directed=False)
    weight = np.bincount(loop)[:, None]

    def average(rows: np.ndarray) -> np.ndarray:
        return np.stack([np.bincount(loop, rows[members, k]) for k in range(rows.shape[1])], axis=1) / weight

    caps = np.stack([end, start, len(mesh.vertices) + loop[a]], axis=1)
    attributes = {name: np.concatenate([rows, average(rows)]) for name, rows in mesh.attributes.items()}
    vertices = np.concatenate([mesh.vertices, average(mesh.vertices)])
    return Mesh(vertices, np.concatenate([mesh.faces, caps]), attributes), count
