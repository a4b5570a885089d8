"""Marching cubes on random values: every case of the table occurs, and closedness has to come from the table alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from cnf.meshes.mesh import Mesh
from cnf.shapes.reconstruction.closing import cap_rims, part_fans
from cnf.shapes.reconstruction.cubes import CENTRE, CORNERS, EDGES, FACES, encode, list_triangles, triangulate_cells


def random_mesh(seed: int, side: int = 20) -> tuple[Mesh, np.ndarray, set[int]]:
    """The zero set of random node values (a tenth of them exactly 0) with a positive rim, in units of the step."""
    random = np.random.default_rng(seed)
    values = random.standard_normal((side, side, side))
    values[random.random(values.shape) < 0.1] = 0
    for axis in range(3):
        np.moveaxis(values, axis, 0)[[0, -1]] = 1
    cells = np.argwhere(np.ones((side - 1,) * 3, dtype=bool))
    corners = values[tuple(np.moveaxis(cells[:, None] + CORNERS, -1, 0))]
    return Mesh(*triangulate_cells(cells, corners, values.shape)), values, set(encode(corners).tolist())


def fans(faces: np.ndarray) -> int:
    """How many fans of faces there are, a fan being the faces around a vertex that hang together by edges."""
    corner = {(f, v): n for n, (f, v) in enumerate((f, v) for f, face in enumerate(faces.tolist()) for v in face)}
    shared: dict[tuple[int, int], list[int]] = {}
    for f, (a, b, c) in enumerate(faces.tolist()):
        for pair in ((a, b), (b, c), (c, a)):
            shared.setdefault((min(pair), max(pair)), []).append(f)
    links = [(corner[f, v], corner[g, v]) for edge, (f, g) in shared.items() for v in edge]
    rows, columns = np.array(links).T
    return connected_components(coo_matrix((np.ones(len(links)), (rows, columns)), shape=(len(corner),) * 2))[0]


@pytest.mark.parametrize("seed", range(3))
def test_random_values_give_a_closed_manifold(seed: int):
    """Each edge in two faces of opposite direction, each vertex in one fan, no face without area."""
    mesh, _, _ = random_mesh(seed)
    assert mesh.is_watertight
    assert fans(mesh.faces) == len(mesh.vertices)
    assert mesh.areas.min() > 0


def test_all_cases_occur_and_every_triangle_stays_in_its_cell():
    """The 2^8 signs with 2^k choices on faces with four crossings are 656 cases (counted by hand of a loop here)."""
    expected = set()
    for signs in range(256):
        inside = [signs >> c & 1 for c in range(8)]
        four = [n for n, (a, b, c, d) in enumerate(FACES.tolist()) if inside[a] == inside[c] != inside[b] == inside[d]]
        for choice in range(2 ** len(four)):
            expected.add(signs | sum((choice >> bit & 1) << (8 + face) for bit, face in enumerate(four)))
    seen: set[int] = set()
    for seed in range(8):
        seen |= random_mesh(seed, 24)[2]
    assert seen <= expected
    assert len(expected) == 656
    for code in expected:
        inside = [code >> c & 1 for c in range(8)]
        crossed = {n for n, (a, b) in enumerate(EDGES.tolist()) if inside[a] != inside[b]}
        assert set(list_triangles(code).ravel().tolist()) - {CENTRE} == crossed


def test_the_surface_separates_the_signs():
    """Going along a row of nodes, the mesh's vertices on it are exactly the changes of sign."""
    mesh, values, _ = random_mesh(5)
    on_axis = np.sum(mesh.vertices != np.round(mesh.vertices), axis=1) == 1  # on a grid edge, not inside a cell
    inside = values < 0
    changes = sum(int(np.sum(np.diff(inside, axis=axis))) for axis in range(3))
    assert int(on_axis.sum()) == changes


def test_faces_that_touch_in_a_vertex_are_parted_and_capped():
    """Two open tetrahedra that share their tips only: two vertices there afterwards, two rims, two closed parts."""
    base = np.array([[1.0, 0, 1], [-1, 1, 1], [-1, -1, 1]])
    vertices = np.concatenate([[[0.0, 0, 0]], base, -base])
    faces = np.array([[0, 2, 1], [0, 3, 2], [0, 1, 3], [0, 4, 5], [0, 5, 6], [0, 6, 4]])
    parted = Mesh(*part_fans(vertices, faces))
    assert len(parted.vertices) == 8
    assert parted.components == 2
    closed, rims = cap_rims(parted)
    assert rims == 2
    assert closed.is_watertight
    assert closed.euler == 4
