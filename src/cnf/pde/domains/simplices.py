"""Simplices: the zero set of a function on a grid, as segments in the plane or triangles in space.

Every cell of the grid is cut into simplices in the same way (Kuhn's: one for every order of the coordinates), in which
signs at the corners leave no choice; so neighbours agree, and what comes out is closed inside the grid.
"""

from __future__ import annotations

import itertools

import numpy as np


def march(inside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """From signs at the nodes of a grid, bool (n0, n1) or (n0, n1, n2), to the edges that are crossed and their links.

    Out go edges (E, 2), numbers of nodes, the first inside, and faces (F, D) of numbers of edges: segments with the
    inside to the left, or triangles that look outward.
    """
    shape, dimension = inside.shape, inside.ndim
    flat = inside.ravel()
    strides = np.array([int(np.prod(shape[k + 1 :])) for k in range(dimension)])
    base = np.arange(flat.size).reshape(shape)[(slice(0, -1),) * dimension].ravel()
    corners = [int(strides @ c) for c in itertools.product((0, 1), repeat=dimension)]
    count = sum(flat[base + c].astype(np.int8) for c in corners)
    base = base[(count > 0) & (count < len(corners))]
    ends: list[np.ndarray] = []  # (n, D, 2): D crossed edges of every face
    for order in itertools.permutations(range(dimension)):
        steps = np.concatenate([[0], np.cumsum(strides[list(order)])])
        turned = _parity(order)
        nodes = base[:, None] + steps  # (n, D + 1)
        code = flat[nodes] @ (1 << np.arange(dimension + 1))
        for case in range(1, 2 ** (dimension + 1) - 1):
            members = nodes[code == case]
            for face in _faces(case, dimension, turned):
                ends.append(members[:, face])
    pairs = np.concatenate(ends) if ends else np.zeros((0, dimension, 2), dtype=np.int64)
    keys = pairs[..., 0] * flat.size + pairs[..., 1]
    unique, faces = np.unique(keys, return_inverse=True)
    return np.stack([unique // flat.size, unique % flat.size], axis=1), faces.reshape(-1, dimension)


def _parity(order: tuple[int, ...]) -> bool:
    return sum(a > b for a, b in itertools.combinations(order, 2)) % 2 == 1


def _faces(case: int, dimension: int, turned: bool) -> list[np.ndarray]:
    """The faces in a simplex whose inner corners are the bits of `case`: crossed edges (D, 2), from inside out."""
    inner = [k for k in range(dimension + 1) if case >> k & 1]
    outer = [k for k in range(dimension + 1) if not case >> k & 1]
    edges = [(a, b) for a in inner for b in outer]
    if len(edges) == 4:  # two and two corners of a tetrahedron: a quadrilateral, around
        (a, b), (c, d) = inner, outer
        around = [(a, c), (a, d), (b, d), (b, c)]
        found = [[around[0], around[1], around[2]], [around[0], around[2], around[3]]]
    else:
        found = [edges]
    # A corner k of Kuhn's simplex is the sum of the first k unit vectors, up to a permutation of the coordinates.
    places = np.tril(np.ones((dimension + 1, dimension)), -1)
    result = []
    for face in found:
        middle = np.array([(places[a] + places[b]) / 2 for a, b in face])
        outward = places[outer].mean(axis=0) - places[inner].mean(axis=0)
        if dimension == 2:
            along = middle[1] - middle[0]
            wrong = along[1] * outward[0] - along[0] * outward[1] < 0
        else:
            wrong = np.cross(middle[1] - middle[0], middle[2] - middle[0]) @ outward < 0
        result.append(np.array(face[::-1] if wrong != turned else face))
    return result


def chain(segments: np.ndarray) -> list[np.ndarray]:
    """Closed chains of vertices, each an array of numbers, from segments (F, 2) of which one begins where one ends."""
    following = dict(segments.tolist())
    loops = []
    while following:
        start, node = following.popitem()
        loop = [start]
        while node != start:
            loop.append(node)
            node = following.pop(node)
        loops.append(np.array(loop))
    return loops
