"""Meshes through points: each point exactly a vertex, the mesh closed and of the same genus, no face turned over."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import Delaunay

from cnf.errors import ConstraintError
from cnf.meshes.mesh import Mesh
from cnf.shapes.reconstruction.closest import find_closest
from cnf.shapes.reconstruction.extraction import extract
from cnf.shapes.reconstruction.flips import flip_edges, improve
from cnf.shapes.reconstruction.refinement import project, refine
from cnf.shapes.reconstruction.snapping import Snapping, snap
from tests.shapes.analytic import ONE, RADIUS, sphere, sphere_slopes, spread, torus, torus_points, torus_slopes


@pytest.fixture(scope="module")
def ball() -> Mesh:
    mesh = extract(sphere, spread(300), -ONE, ONE, 41, reach=0.3).mesh
    return project(mesh, sphere_slopes, 0.02).mesh


def corners_of(mesh: Mesh) -> np.ndarray:
    """(F, 3, 3)."""
    return mesh.vertices[mesh.faces]


def assert_through(result: Snapping, points: np.ndarray) -> None:
    """Every point is bit for bit a vertex that lies in a face."""
    held = {row.tobytes() for row in result.mesh.vertices[result.mesh.used]}
    assert all(row.tobytes() in held for row in points)


@pytest.mark.parametrize("given", [False, True], ids=["without normals", "with normals"])
def test_sphere(ball: Mesh, given: bool):
    """3000 random points on a sphere of 8000 faces; faces look away from the centre before and after."""
    points = np.random.default_rng(0).standard_normal((3000, 3))
    points *= RADIUS / np.linalg.norm(points, axis=1, keepdims=True)
    result = snap(ball, points, points if given else None)
    assert_through(result, points)
    assert result.mesh.is_watertight
    assert result.mesh.euler == 2
    assert (result.turned, result.forced) == (0, 0)
    assert result.moved + result.inserted == 3000
    assert min(result.moved, result.inserted) > 500
    assert np.all(np.sum(result.mesh.face_normals * result.mesh.vertices[result.mesh.faces].mean(axis=1), axis=1) > 0)
    assert result.mesh.volume == pytest.approx(ball.volume, rel=1e-2)


def test_torus_keeps_its_handle():
    """Points on a torus into the mesh as marching cubes leaves it."""
    points = torus_points(2000, seed=3)
    mesh = extract(torus, points, -ONE, ONE, 41, reach=0.3).mesh
    result = snap(mesh, points)
    assert_through(result, points)
    assert result.mesh.is_watertight
    assert result.mesh.euler == 0
    assert result.turned == 0
    outward = torus_slopes(result.mesh.vertices[result.mesh.faces].mean(axis=1))[:, 1:]
    assert np.all(np.sum(outward * result.mesh.face_normals, axis=1) > 0)


def test_a_mesh_through_points_is_more_accurate():
    """Points of the true surface pull a mesh towards it: the mean distance to the torus falls."""
    points = torus_points(2000, seed=3)
    mesh = project(extract(torus, points, -ONE, ONE, 25, reach=0.3).mesh, torus_slopes, 0.04).mesh
    snapped = snap(mesh, points).mesh
    before, after = (np.abs(torus(m.sample(20_000)[0])).mean() for m in (mesh, snapped))
    assert after < 0.7 * before


def test_refining_afterwards_keeps_the_points():
    """Snap first, refine then: points stay vertices, the midpoints go onto the torus, nothing turns over."""
    points = torus_points(1000, seed=4)
    mesh = project(extract(torus, points, -ONE, ONE, 31, reach=0.3).mesh, torus_slopes, 0.03).mesh
    result = refine(snap(mesh, points).mesh, torus_slopes, 0.03)
    held = {row.tobytes() for row in result.mesh.vertices}
    assert all(row.tobytes() in held for row in points)
    assert np.abs(torus(result.mesh.vertices)).max() < 1e-12
    assert result.mesh.is_watertight
    outward = torus_slopes(result.mesh.vertices[result.mesh.faces].mean(axis=1))[:, 1:]
    assert np.all(np.sum(outward * result.mesh.face_normals, axis=1) > 0)


def test_improved_meshes_have_better_triangles(ball: Mesh):
    """Edges whose opposite angles exceed half a turn become few; vertices and Euler number are as before."""
    better = improve(ball)
    assert better.is_watertight
    assert better.euler == 2
    assert np.array_equal(better.vertices, ball.vertices)

    def count_bad(mesh: Mesh) -> int:
        angles: dict[tuple[int, int], float] = {}
        for face in mesh.faces.tolist():
            for i in range(3):
                a, b, c = (mesh.vertices[face[(i + k) % 3]] for k in range(3))
                edge = (min(face[i], face[i - 2]), max(face[i], face[i - 2]))
                cosine = (a - c) @ (b - c) / np.linalg.norm(a - c) / np.linalg.norm(b - c)
                angles[edge] = angles.get(edge, 0.0) + float(np.arccos(np.clip(cosine, -1, 1)))
        return sum(angle > np.pi + 1e-3 for angle in angles.values())

    assert count_bad(ball) > 300
    assert count_bad(better) < 0.05 * count_bad(ball)


def test_close_and_equal_points(ball: Mesh):
    """Pairs 1e-6 apart and points given twice: all of them vertices, the mesh still closed and not folded."""
    points = spread(200)
    shifted = points + 1e-6 * np.roll(points, 1, axis=1)
    shifted *= RADIUS / np.linalg.norm(shifted, axis=1, keepdims=True)
    every = np.concatenate([points, shifted, points[:50]])
    result = snap(ball, every)
    assert_through(result, every)
    assert result.mesh.is_watertight
    assert result.mesh.euler == 2
    assert result.moved + result.inserted == 400


def test_points_on_vertices_edges_and_faces(ball: Mesh):
    """Points that lie in the mesh already need no more than a split; the surface does not move."""
    corners = ball.vertices[ball.faces[::97]]
    points = np.concatenate([corners[:, 0], (corners[:, 0] + corners[:, 1]) / 2, corners.mean(axis=1)])
    result = snap(ball, points)
    assert_through(result, points)
    assert result.mesh.is_watertight
    elongation = np.max(np.ptp(corners_of(ball), axis=1).max(axis=1) ** 2 / ball.areas)
    assert result.distance < 1e-15 * elongation  # the foot of a perpendicular is as uncertain as the face is thin
    assert result.turned == 0


def test_sharp_edges():
    """Points on the edges and corners of a cube, which marching cubes has cut off."""

    def values(x):
        return np.abs(x).max(axis=1) - 0.51

    along = np.linspace(-0.51, 0.51, 40)
    edge = np.full(40, 0.51)
    points = np.concatenate(
        [np.stack(rows, axis=1) for rows in ([along, edge, edge], [edge, along, -edge], [-edge, edge, along])]
    )
    mesh = extract(values, points, -ONE, ONE, 33, reach=np.inf).mesh
    result = snap(mesh, points)
    assert_through(result, points)
    assert result.mesh.is_watertight
    assert result.mesh.euler == 2
    assert result.turned == 0


def test_open_mesh_stays_open():
    """A disc remains a disc, also with a point on its rim."""
    seeds = spread(1000)
    seeds = seeds[seeds[:, 2] > 0]
    mesh = extract(sphere, seeds, -ONE, ONE, 31, reach=0.1, close=False).mesh
    single = mesh.edges[mesh.edge_counts == 1][0]
    points = np.concatenate([seeds, mesh.vertices[single].mean(axis=0, keepdims=True)])
    result = snap(mesh, points)
    assert_through(result, points)
    assert result.mesh.euler == mesh.euler
    assert result.mesh.crowded_edges == 0
    assert result.mesh.boundary_edges in (mesh.boundary_edges, mesh.boundary_edges + 1)


def test_attributes_are_interpolated(ball: Mesh):
    """The attribute is the position: at a point it becomes that of the closest place, off by the distance at most."""
    result = snap(ball.with_attributes(place=ball.vertices), spread(1000))
    miss = np.linalg.norm(result.mesh.attributes["place"] - result.mesh.vertices, axis=1)
    assert miss.max() <= 1.5 * result.distance  # points put in later are interpolated in faces changed before


def test_flips_reach_delaunay():
    """A grid with arbitrary diagonals in the plane, inner points shaken: flips end in the triangulation SciPy finds."""
    side = 12
    grid = np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"), axis=-1).reshape(-1, 2).astype(float)
    random = np.random.default_rng(1)
    inner = np.all((grid > 0) & (grid < side - 1), axis=1)
    grid[inner] += random.uniform(-0.3, 0.3, (int(inner.sum()), 2))
    rim = ~inner
    grid[rim] += (
        0.02 * (grid[rim] - (side - 1) / 2) * (1 - ((grid[rim] / (side - 1) - 0.5) ** 2).max(axis=1, keepdims=True))
    )
    corner = np.arange(side * side).reshape(side, side)
    a, b, c, d = (part.ravel() for part in (corner[:-1, :-1], corner[1:, :-1], corner[1:, 1:], corner[:-1, 1:]))
    faces = np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])
    vertices = np.concatenate([grid, np.zeros((len(grid), 1))], axis=1)
    up = np.tile([0.0, 0.0, 1.0], (len(grid), 1))
    flipped, count = flip_edges(vertices, faces, up, np.ones(len(grid), dtype=bool), rounds=100)
    assert count > 10
    mine = {tuple(sorted(face)) for face in flipped.tolist()}
    inside = {tuple(sorted(face)) for face in Delaunay(grid).simplices.tolist() if inner[face].any()}
    assert {face for face in mine if inner[list(face)].any()} == inside
    assert np.all(Mesh(vertices, flipped).face_normals[:, 2] > 0)


def test_no_edge_is_made_twice():
    """The long ridge a d of a flat tetrahedron asks for a flip, but b c is an edge below already: nothing changes."""
    vertices = np.array([[0, 0, 0.1], [2, 0.5, 0], [2, -0.5, 0], [4, 0, 0.1]])
    mesh = Mesh(vertices, np.array([[0, 3, 1], [3, 0, 2], [0, 1, 2], [3, 2, 1]]))
    assert mesh.is_watertight
    up = np.tile([0.0, 0.0, 1.0], (4, 1))
    faces, flips = flip_edges(mesh.vertices, mesh.faces, up, np.ones(4, dtype=bool))
    assert flips == 0
    assert np.array_equal(faces, mesh.faces)


def test_closest_places_agree_with_a_search_over_all_faces():
    """Random triangles of very different sizes; the least distance over all of them, by sampling each finely."""
    random = np.random.default_rng(0)
    scale = 10 ** random.uniform(-2, 0, (60, 1, 1))
    corners = random.random((60, 1, 3)) + scale * random.standard_normal((60, 3, 3))
    points = random.random((20, 3))
    face, weights, distance = find_closest(corners.reshape(-1, 3), np.arange(180).reshape(60, 3), points)
    steps = np.array([(i, j, 40 - i - j) for i in range(41) for j in range(41 - i)]) / 40
    places = np.einsum("sk,fkd->fsd", steps, corners)
    sampled = np.sqrt(((places[None] - points[:, None, None]) ** 2).sum(axis=-1)).min(axis=(1, 2))
    assert np.all(distance <= sampled + 1e-12)
    assert np.all(distance >= sampled - 0.15)
    assert np.all(weights >= 0)
    there = np.einsum("pk,pkd->pd", weights, corners[face])
    assert np.allclose(np.linalg.norm(there - points, axis=1), distance, atol=1e-14)


def test_refusals(ball: Mesh):
    with pytest.raises(ConstraintError, match="finite points"):
        snap(ball, np.full((2, 3), np.nan))
    with pytest.raises(ConstraintError, match="one normal"):
        snap(ball, spread(5), spread(4))
    with pytest.raises(ConstraintError, match="no faces"):
        snap(Mesh(np.zeros((0, 3)), np.zeros((0, 3), dtype=np.int64)), spread(5))
