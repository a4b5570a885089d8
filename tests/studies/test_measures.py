"""Measures of meshes: distances against brute force, spheres and boxes whose answers are known, and counts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cnf.errors import ConstraintError
from cnf.meshes.distances import ClosestPoints
from cnf.meshes.mesh import Mesh
from studies.shapes.measures import compare, f_score, sample_faces, sample_oriented


def make_sphere(radius: float = 1.0, halvings: int = 4) -> Mesh:
    """An octahedron, its triangles split in four again and again, every vertex moved onto the sphere."""
    vertices = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]], dtype=float)
    faces = np.array([[0, 2, 4], [2, 1, 4], [1, 3, 4], [3, 0, 4], [2, 0, 5], [1, 2, 5], [3, 1, 5], [0, 3, 5]])
    for _ in range(halvings):
        a, b, c = (vertices[faces[:, k]] for k in range(3))
        corners = np.stack([a, b, c, (a + b) / 2, (b + c) / 2, (c + a) / 2], axis=1)
        split = np.array([[0, 3, 5], [3, 1, 4], [5, 4, 2], [3, 4, 5]])
        soup = Mesh(corners.reshape(-1, 3), (6 * np.arange(len(faces))[:, None, None] + split).reshape(-1, 3)).weld()
        vertices, faces = soup.vertices / np.linalg.norm(soup.vertices, axis=1, keepdims=True), soup.faces
    return Mesh(radius * vertices, faces)


def measure_by_minimising(point: np.ndarray, corners: np.ndarray) -> float:
    """Distance to one triangle: to its sides, and to the foot of the perpendicular where that lies inside."""
    best = math.inf
    for k in range(3):
        start, along = corners[k], corners[(k + 1) % 3] - corners[k]
        size = along @ along
        share = min(1.0, max(0.0, (point - start) @ along / size)) if size > 0 else 0.0
        best = min(best, float(np.linalg.norm(point - start - share * along)))
    sides = np.stack([corners[1] - corners[0], corners[2] - corners[0]], axis=1)
    weights, _, rank, _ = np.linalg.lstsq(sides, point - corners[0], rcond=None)
    if rank == 2 and weights.min() >= 0 and weights.sum() <= 1:
        best = min(best, float(np.linalg.norm(point - corners[0] - sides @ weights)))
    return best


@pytest.mark.parametrize("spread", [0.0, 3.0], ids=["equal sizes", "sizes over three decades"])
def test_distances_are_those_of_brute_force(spread: float) -> None:
    """40 points near and far against 150 random triangles, all pairs by least squares: equal to 1e-14.

    With large triangles among small ones, the closest one is often not among those with the nearest centres.
    """
    random = np.random.default_rng(3)
    sizes = 10.0 ** -random.uniform(0, spread, size=(150, 1, 1)) if spread else 0.2
    corners = random.uniform(-1, 1, size=(150, 1, 3)) + sizes * random.normal(size=(150, 3, 3))
    corners[7, 2] = corners[7, 1]  # a needle without area
    corners[8] = corners[8, 0]  # a point
    mesh = Mesh(corners.reshape(-1, 3), np.arange(450).reshape(-1, 3))
    points = random.uniform(-1.5, 1.5, size=(40, 3))
    expected = np.array([[measure_by_minimising(p, c) for c in corners] for p in points])
    found = ClosestPoints(mesh).find(points)
    assert np.abs(found.distances - expected.min(axis=1)).max() <= 1e-14
    assert np.abs(expected[np.arange(40), found.faces] - found.distances).max() <= 1e-14
    assert np.abs(np.linalg.norm(points - found.points, axis=1) - found.distances).max() <= 1e-14


def test_points_on_the_mesh_are_at_distance_zero() -> None:
    """Samples of a unit sphere's triangles, and of a needle a million times longer than wide: at most 1e-15 away."""
    sphere = make_sphere()
    points, faces = sample_faces(sphere, 20_000, seed=0)
    found = ClosestPoints(sphere).find(points)
    assert found.distances.max() <= 1e-15
    assert (found.faces == faces).mean() > 0.99  # the others lie on sides
    needle = Mesh([[0.1, 0.2, 0.3], [1.0, -0.4, 0.7], [0.5, -0.1 + 1e-6, 0.5]], [[0, 1, 2]])
    assert ClosestPoints(needle).find(sample_faces(needle, 1000, seed=0)[0]).distances.max() <= 1e-15


def test_triangles_with_one_centre_in_common() -> None:
    """A sphere whose triangles are halved three times over: obtuse neighbours share the centre of the ball around them.

    Such ties must not hide a triangle, in whatever order the tree lists them: samples of the mesh are at distance zero.
    """
    mesh = make_sphere(halvings=2)
    for _ in range(3):
        (a, b, c), middle = mesh.faces.T, len(mesh.vertices) + np.arange(len(mesh.faces))
        vertices = np.concatenate([mesh.vertices, (mesh.vertices[a] + mesh.vertices[b]) / 2])
        mesh = Mesh(vertices, np.concatenate([np.stack([a, middle, c], axis=1), np.stack([middle, b, c], axis=1)]))
    assert ClosestPoints(mesh).find(sample_faces(mesh, 20_000, seed=0)[0]).distances.max() <= 1e-15


def test_a_point_far_from_every_centre() -> None:
    """The centre of the sphere is equally far from all triangles: the least distance is that of the planes."""
    sphere = make_sphere(halvings=3)
    planes = np.abs((sphere.vertices[sphere.faces[:, 0]] * sphere.face_normals).sum(axis=1))
    found = ClosestPoints(sphere).find(np.zeros((1, 3)))
    assert found.distances[0] == pytest.approx(planes.min(), abs=1e-15)


def test_concentric_spheres() -> None:
    """Radii 1 and 1.01: every distance is 0.01, so Chamfer and Hausdorff are; normals agree; F is 0 at 0.002.

    A triangle with longest side s lies below the unit sphere by at most s^2 / 6; distances may be less by that share.
    """
    inner, outer = make_sphere(1.0), make_sphere(1.01)
    ends = inner.vertices[inner.edges]
    side = float(np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1).max())
    points, normals = sample_oriented(outer, 500, seed=5)
    found = compare(inner, outer, points, normals, samples=20_000)
    assert found.chamfer == pytest.approx(0.01, rel=side**2 / 6)
    assert found.hausdorff == pytest.approx(0.01, rel=side**2 / 6)
    assert found.f_fine == 0
    assert found.f_coarse == 1  # all below 0.01, by the same share
    assert found.input_mean == pytest.approx(0.01, rel=side**2 / 6)
    assert found.normal_consistency == pytest.approx(
        1, abs=side**2 / 2
    )  # faces side by side differ by an angle below s
    assert 0 < found.input_angle_mean < found.input_angle_max < math.degrees(side)  # faces against smooth normals
    assert found.watertight and found.components == 1 and found.euler == 2
    assert (found.vertices, found.faces) == (4**5 + 2, 8 * 4**4)


def test_a_missing_half_is_seen_from_one_side_only() -> None:
    """Half of a square: nothing of it is wrong (0), while the other half is missed by up to 1, by 0.25 on average.

    Chamfer 0.125, Hausdorff 1, precision 1 and recall (1 + t) / 2, so F at 0.01 is 2 * 0.505 / 1.505.
    """
    whole = Mesh([[-1, 0, 0], [1, 0, 0], [1, 1, 0], [-1, 1, 0]], [[0, 1, 2], [0, 2, 3]])
    half = Mesh([[-1, 0, 0], [0, 0, 0], [0, 1, 0], [-1, 1, 0]], [[0, 1, 2], [0, 2, 3]])
    found = compare(half, whole, np.array([[-0.5, 0.5, 0.25]]), samples=200_000)
    assert found.chamfer == pytest.approx(0.125, rel=0.01)  # the mean of 200,000 draws: 5 standard deviations
    assert found.hausdorff == pytest.approx(1, abs=1e-3)
    assert found.f_coarse == pytest.approx(2 * 0.505 / 1.505, rel=0.005)
    assert found.input_mean == found.input_max == 0.25
    assert math.isnan(found.input_angle_mean)
    assert not found.watertight and found.euler == 1


def test_normals_at_right_angles() -> None:
    """A square held against one turned by 60 degrees about their common diagonal: |cos| is 1/2 everywhere."""
    flat = Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    turned = Mesh([[0, 0, 0], [1, 0, 0], [0, 0.5, math.sqrt(0.75)]], [[0, 1, 2]])
    found = compare(flat, turned, np.zeros((1, 3)), np.array([[0.0, -1.0, 0.0]]), samples=1000)
    assert found.normal_consistency == pytest.approx(0.5, abs=1e-12)
    assert found.input_angle_max == pytest.approx(90, abs=1e-12)


def test_f_score_is_the_harmonic_mean() -> None:
    """Precision 3/4 and recall 1/2: 2 * 3/8 / (5/4) = 0.6; nothing within the threshold: 0."""
    near, far = np.array([0.0, 0.1, 0.1, 0.9]), np.array([0.1, 0.9])
    assert f_score(near, far, 0.1) == pytest.approx(0.6)
    assert f_score(far + 1, near, 0.1) == 0


def test_samples_are_uniform_over_the_area() -> None:
    """A rectangle 1 x 3 of two unequal triangles: means 0.5 and 1.5, variances 1/12 and 9/12, to 5 standard errors."""
    mesh = Mesh([[0, 0, 0], [1, 0, 0], [1, 3, 0], [0, 3, 0], [0, 1, 0]], [[0, 1, 4], [1, 2, 4], [2, 3, 4]])
    points, normals = sample_oriented(mesh, 40_000, seed=2)
    assert points[:, :2].mean(axis=0) == pytest.approx([0.5, 1.5], rel=5 * math.sqrt(1 / 3) / 200)
    assert points[:, :2].var(axis=0) == pytest.approx([1 / 12, 9 / 12], rel=5 * math.sqrt(0.8) / 200)
    assert np.array_equal(normals, np.tile([0.0, 0.0, 1.0], (40_000, 1)))


def test_what_cannot_be_measured() -> None:
    """No faces, no samples, points that are not finite: one clear error each."""
    sphere = make_sphere(halvings=1)
    with pytest.raises(ConstraintError, match="no faces"):
        compare(Mesh(np.zeros((3, 3)), np.empty((0, 3), dtype=int)), sphere, np.zeros((1, 3)))
    with pytest.raises(ConstraintError, match="samples=0"):
        compare(sphere, sphere, np.zeros((1, 3)), samples=0)
    with pytest.raises(ConstraintError, match="finite"):
        ClosestPoints(sphere).find(np.array([[0.0, np.nan, 0.0]]))
