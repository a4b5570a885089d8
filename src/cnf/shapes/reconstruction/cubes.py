"""Marching cubes on a sparse set of cells: from values at the corners to triangles, in float64.

In come the cells of a grid that hold the surface, with the values at their eight corners; out go vertices on grid edges
and triangles whose normals point to positive values. The table of cases is derived, not listed: on every face of a cell
the crossings are joined by a rule that sees that face alone (the sign of the bilinear saddle where there are four), so
neighbours agree and the result is closed and manifold wherever the cells go on; the segments link into loops, and a
loop is cut into triangles by diagonals that stay inside the cell.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np

CORNERS = np.array([[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)])  # (8, 3), corner number 4 i + 2 j + k
EDGES = np.array([(a, b) for a, b in combinations(range(8), 2) if a ^ b in (1, 2, 4)])  # (12, 2), low corner first
AXES = np.array([{4: 0, 2: 1, 1: 2}[a ^ b] for a, b in EDGES.tolist()])  # (12,) direction of each edge
# The corners of each face, counter-clockwise when seen from outside the cell.
FACES = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])  # (6, 4)
EDGE_NUMBER = {(a, b): n for n, pair in enumerate(EDGES.tolist()) for a, b in (pair, pair[::-1])}
CENTRE = 12  # stands for a vertex inside the cell where an edge number is expected; a cell has at most one
MARGIN = 1e-3  # of an edge: crossings stay this far from its ends, so that no triangle loses its area


def triangulate_cells(
    cells: np.ndarray, values: np.ndarray, shape: tuple[int, int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Vertices in units of the grid step (V, 3) and faces (F, 3) of the zero set in `cells` (n, 3), `values` (n, 8)."""
    return triangulate_named(cells, values, shape)[:2]


def triangulate_named(
    cells: np.ndarray, values: np.ndarray, shape: tuple[int, int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same with names (V,): 3 n + axis of the edge from node n that a vertex is on, negative inside a cell."""
    codes = encode(values)
    kept = (codes & 255 != 0) & (codes & 255 != 255)
    cells, values, codes = cells[kept], values[kept], codes[kept]
    kinds, kind = np.unique(codes, return_inverse=True)
    tables = [list_triangles(int(code)).astype(np.int8) for code in kinds]  # small numbers: there are millions of them
    owners, corners = [], []  # of every triangle: its cell, and three edges of that cell
    for number, table in enumerate(tables):
        members = np.flatnonzero(kind == number).astype(np.int32)
        owners.append(np.repeat(members, len(table)))
        corners.append(np.tile(table, (len(members), 1)))
    owner = np.concatenate(owners) if owners else np.zeros(0, dtype=np.int32)
    local = np.concatenate(corners) if corners else np.zeros((0, 3), dtype=np.int8)  # (F, 3)
    del owners, corners, kind, codes
    order = np.argsort(owner, kind="stable")  # neighbouring faces stay neighbours in memory, as the cells are
    owner, local = owner[order], local[order]
    del order

    central = local == CENTRE  # (F, 3)
    local[central] = 0
    beside = np.ravel_multi_index(tuple(CORNERS[EDGES[:, 0]].T), shape)  # (12,) from a cell to the low end of its edge
    keys = (3 * beside + AXES)[local]  # (F, 3)
    keys += 3 * np.ravel_multi_index(tuple(cells.T), shape)[owner, None]
    keys[central] = -1 - np.repeat(owner, 3).reshape(-1, 3)[central]
    names, first, faces = np.unique(keys, return_index=True, return_inverse=True)
    del keys
    faces = faces.reshape(-1, 3).astype(np.int64, copy=False)
    edge, cell = local.ravel()[first], owner[first // 3]
    a, b = values[cell, EDGES[edge, 0]], values[cell, EDGES[edge, 1]]
    along = np.clip(np.divide(a, a - b, out=np.full_like(a, 0.5), where=names >= 0), MARGIN, 1 - MARGIN)
    vertices = (cells[cell] + CORNERS[EDGES[edge, 0]]).astype(np.float64)
    vertices[np.arange(len(vertices)), AXES[edge]] += along
    _centre(vertices, faces, central)
    return vertices, faces, names


def _centre(vertices: np.ndarray, faces: np.ndarray, central: np.ndarray) -> None:
    """Put every central vertex in the mean of its loop; the faces around it hold each vertex of the loop twice."""
    fans = np.flatnonzero(central.any(axis=1))
    if len(fans):
        middle = faces[fans][central[fans]]  # (n,)
        others = vertices[faces[fans][~central[fans]].reshape(-1, 2)].sum(axis=1)  # (n, 3)
        members, number = np.unique(middle, return_inverse=True)
        count = 2 * np.bincount(number)
        for axis in range(3):
            vertices[members, axis] = np.bincount(number, others[:, axis]) / count


def encode(values: np.ndarray) -> np.ndarray:
    """The case of each cell: 8 bits for negative corners, 6 for faces with four crossings that join their negatives."""
    inside = values < 0  # (n, 8); an exact zero counts as outside
    codes = inside @ (1 << np.arange(8))
    for number, face in enumerate(FACES):
        v, s = values[:, face], inside[:, face]
        four = (s[:, 0] == s[:, 2]) & (s[:, 1] == s[:, 3]) & (s[:, 0] != s[:, 1])
        even, odd = v[:, 0] * v[:, 2], v[:, 1] * v[:, 3]
        # The saddle (even - odd) / (v0 - v1 + v2 - v3) is negative where the product of the negatives is the larger.
        joined = np.where(s[:, 0], even > odd, odd > even)
        codes = codes | ((four & joined).astype(np.int64) << (8 + number))
    return codes


@cache
def list_triangles(code: int) -> np.ndarray:
    """Triangles (T, 3) of a case, as numbers of cell edges or `CENTRE`."""
    triangles: list[tuple[int, int, int]] = []
    for loop in link_loops(code):
        triangles += cut_loop(loop)
    return np.array(triangles, dtype=np.int64).reshape(-1, 3)


def link_loops(code: int) -> list[list[int]]:
    """The closed loops of crossed edges, each turning counter-clockwise around the positive side's direction."""
    inside = [bool(code >> c & 1) for c in range(8)]
    following: dict[int, int] = {}
    for number, face in enumerate(FACES.tolist()):
        sides = [(face[m], face[(m + 1) % 4]) for m in range(4)]
        leaving = [m for m, (a, b) in enumerate(sides) if inside[a] and not inside[b]]
        entering = [m for m, (a, b) in enumerate(sides) if not inside[a] and inside[b]]
        joined = bool(code >> (8 + number) & 1)
        for m in leaving:
            # Around a negative corner the way in stands just before the way out; around a positive one just after.
            partner = (m + 1) % 4 if len(leaving) == 2 and joined else (m - 1) % 4
            partner = partner if len(leaving) == 2 else entering[0]
            following[EDGE_NUMBER[sides[m]]] = EDGE_NUMBER[sides[partner]]
    loops = []
    while following:
        start, edge = following.popitem()
        loop = [start]
        while edge != start:
            loop.append(edge)
            edge = following.pop(edge)
        loops.append(loop[::-1])
    return loops


def cut_loop(loop: list[int]) -> list[tuple[int, int, int]]:
    """The triangulation of a loop with the shortest diagonals, none of them in a face of the cell.

    A diagonal in a face could coincide with one of the neighbour's, and four triangles would meet there. Some loops of
    eight and more edges have no other diagonals: those become a fan around a vertex inside the cell.
    """
    middles = CORNERS[EDGES].mean(axis=1)  # (12, 3)

    def weigh(i: int, j: int) -> float:
        a, b = middles[loop[i]], middles[loop[j]]
        if j - i in (1, len(loop) - 1):
            return 0.0
        on_face = np.any((a == b) & ((a == 0) | (a == 1)))
        return np.inf if on_face else float(np.sum((a - b) ** 2))

    @cache
    def best(i: int, j: int) -> tuple[float, tuple[tuple[int, int, int], ...]]:
        if j - i < 2:
            return 0.0, ()
        choices = []
        for k in range(i + 1, j):
            left, right = best(i, k), best(k, j)
            cost = left[0] + right[0] + weigh(i, k) + weigh(k, j)
            choices.append((cost, (*left[1], (loop[i], loop[k], loop[j]), *right[1])))
        return min(choices)

    cost, triangles = best(0, len(loop) - 1)
    if np.isfinite(cost):
        return list(triangles)
    return [(CENTRE, edge, following) for edge, following in zip(loop, loop[1:] + loop[:1], strict=True)]
