"""What a mesh says of itself, against solids whose measures are known."""

from __future__ import annotations

import numpy as np
import pytest

from cnf.errors import ConstraintError
from cnf.meshes import mesh as meshes
from cnf.meshes.mesh import Mesh
from tests.shapes.known_clouds import cube, torus_mesh


def test_the_unit_cube():
    """Area 6, volume 1, 18 edges, Euler number 2; by symmetry the angle-weighted normal of a corner is its diagonal."""
    mesh = cube()
    assert mesh.area == pytest.approx(6, abs=1e-14)
    assert mesh.volume == pytest.approx(1, abs=1e-14)
    assert len(mesh.edges) == 18 and (mesh.edge_counts == 2).all()
    assert (mesh.euler, mesh.genus, mesh.components, mesh.boundary_edges) == (2, 0, 1, 0)
    assert mesh.is_watertight
    np.testing.assert_allclose(mesh.vertex_normals, (2 * mesh.vertices - 1) / 3**0.5, atol=1e-14)


def test_volume_far_from_the_origin():
    """A unit cube at 5e6 still has volume 1, to the rounding of its corners."""
    mesh = cube()
    assert Mesh(mesh.vertices + 5e6, mesh.faces).volume == pytest.approx(1, abs=1e-8)


def test_a_torus_has_one_handle():
    """Euler number 0, genus 1; two of them side by side have genus 2 in two components."""
    one = torus_mesh()
    assert (one.euler, one.genus, one.components, one.is_watertight) == (0, 1, 1, True)
    assert one.volume > 0
    two = Mesh(
        np.concatenate([one.vertices, one.vertices + 5]), np.concatenate([one.faces, one.faces + len(one.vertices)])
    )
    assert (two.euler, two.genus, two.components) == (0, 2, 2)


def test_holes_turned_faces_and_unused_vertices_are_seen():
    """Without a face there are 3 rim edges; with one face turned over, edges run twice the same way: not watertight."""
    mesh = cube()
    open_mesh = Mesh(mesh.vertices, mesh.faces[1:])
    assert (open_mesh.boundary_edges, open_mesh.is_watertight, open_mesh.genus) == (3, False, None)
    faces = mesh.faces.copy()
    faces[0] = faces[0, ::-1]
    assert not Mesh(mesh.vertices, faces).is_watertight
    assert Mesh(np.concatenate([mesh.vertices, [[9.0, 9, 9]]]), mesh.faces).euler == 2
    inward = Mesh(mesh.vertices, mesh.faces[:, ::-1])
    assert inward.volume < 0 < inward.face_outward().volume


@pytest.mark.parametrize("sides", [1, 7, 1 << 24])
def test_edges_of_random_faces_are_counted(sides: int, monkeypatch: pytest.MonkeyPatch):
    """Of 100 handfuls of faces, degenerate ones too, by a dictionary of sides; however many are sorted together."""
    monkeypatch.setattr(meshes, "SIDES", sides)
    random = np.random.default_rng(0)
    for _ in range(100):
        faces = random.integers(0, 6, (random.integers(1, 12), 3))
        ways: dict[frozenset[int], list[tuple[int, int]]] = {}
        for a, b, c in faces.tolist():
            for way in ((a, b), (b, c), (c, a)):
                ways.setdefault(frozenset(way), []).append(way)
        mesh = Mesh(random.normal(size=(6, 3)), faces)
        assert mesh.boundary_edges == sum(len(found) == 1 for found in ways.values())
        assert mesh.crowded_edges == sum(len(found) > 2 for found in ways.values())
        closed = all(len(found) == 2 and found[0] == found[1][::-1] != found[1] for found in ways.values())
        assert mesh.is_watertight == closed
        assert mesh.euler == len(np.unique(faces)) - len(ways) + len(faces)


def test_weld_joins_a_soup_of_triangles():
    """A cube of 12 loose triangles (36 vertices) becomes 8 vertices, closed."""
    mesh = cube()
    soup = Mesh(mesh.vertices[mesh.faces].reshape(-1, 3), np.arange(36).reshape(12, 3))
    assert soup.boundary_edges == 36
    welded = soup.weld()
    assert (len(welded.vertices), welded.is_watertight, welded.volume) == (8, True, pytest.approx(1))


def test_samples_are_uniform_by_area():
    """A triangle of area 1/2 and one of area 4.5 share the points 1 to 9; the mean of a triangle is its centroid."""
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [10, 0, 0], [13, 0, 0], [10, 3, 0]], dtype=float)
    mesh = Mesh(vertices, np.array([[0, 1, 2], [3, 4, 5]]))
    points, normals = mesh.sample(20_000, seed=1)
    far = points[:, 0] > 5
    assert far.sum() == pytest.approx(18_000, abs=1)  # stratified: better than the 40 of independent draws
    np.testing.assert_allclose(points[far].mean(axis=0), [11, 1, 0], atol=0.03)  # 3 sigma: 3 * 0.7 / sqrt(18000)
    np.testing.assert_allclose(normals, np.tile([0, 0, 1.0], (20_000, 1)), atol=1e-14)
    np.testing.assert_array_equal(mesh.sample(50, seed=7)[0], mesh.sample(50, seed=7)[0])
    assert not np.array_equal(mesh.sample(50, seed=7)[0], mesh.sample(50, seed=8)[0])


@pytest.mark.parametrize(
    ("vertices", "faces", "says"),
    [
        (np.zeros((3, 3)), np.array([[0, 1, 3]]), "face 0"),
        (np.zeros((3, 3)), np.array([[0, -1, 2]]), "face 0"),
        (np.zeros((3, 2)), np.array([[0, 1, 2]]), r"\(V, 3\)"),
        (np.zeros((4, 3)), np.array([[0, 1, 2, 3]]), "triangles"),
        (np.zeros((3, 3)), np.array([[0.0, 1, 2]]), "integers"),
    ],
)
def test_meshes_that_make_no_sense_are_refused(vertices, faces, says):
    with pytest.raises(ConstraintError, match=says):
        Mesh(vertices, faces)


def test_a_mesh_without_area_cannot_be_sampled():
    """Three points on a line have no area; an empty mesh neither, and both say so."""
    with pytest.raises(ConstraintError, match="no area"):
        Mesh(np.array([[0, 0, 0], [1, 1, 1], [2, 2, 2.0]]), np.array([[0, 1, 2]])).sample(10)
    empty = Mesh(np.empty((0, 3)), np.empty((0, 3), dtype=int))
    assert (empty.components, empty.euler, empty.is_watertight, empty.area) == (0, 0, False, 0)
    with pytest.raises(ConstraintError, match="no area"):
        empty.sample(10)
