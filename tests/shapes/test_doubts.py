"""What is told of a surface beyond its points, and what is not: blobs, holes, thin slabs, tips, few points."""

from __future__ import annotations

import numpy as np
import pytest

from cnf.meshes.mesh import Mesh
from cnf.shapes.clouds.cloud import PointCloud
from cnf.shapes.clouds.preparation import prepare_cloud
from cnf.shapes.clouds.spacing import measure_spacing
from cnf.shapes.reconstruction import surface as fading
from cnf.shapes.reconstruction.doubts import largest_gap, measure_coverage, note_crookedness
from cnf.shapes.reconstruction.reconstruct import Reconstruction, reconstruct
from cnf.shapes.report.summary import describe, summarise
from tests.shapes.known_clouds import slab, sphere, torus_mesh
from tests.shapes.test_reconstruct import sphere as even_sphere


def box(sides: tuple[float, float, float], count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Independent points, uniform over the area of a box around the origin, with the normals of its faces."""
    random, half = np.random.default_rng(seed), np.array(sides) / 2
    areas = np.array([half[1] * half[2], half[0] * half[2], half[0] * half[1]])
    axis = random.choice(3, size=count, p=areas / areas.sum())
    side = random.choice([-1.0, 1.0], size=count)
    points = random.uniform(-1, 1, size=(count, 3)) * half
    points[np.arange(count), axis] = side * half[axis]
    normals = np.zeros((count, 3))
    normals[np.arange(count), axis] = side
    return points, normals


def outside_box(sides: tuple[float, float, float], x: np.ndarray) -> np.ndarray:
    """Distance (P,) from a box, 0 inside."""
    return np.linalg.norm(np.maximum(np.abs(x) - np.array(sides) / 2, 0), axis=1)


def test_coverage_of_a_known_mesh():
    """Points on the lower half of a sphere, a mesh of all of it: what is farther above is unsupported.

    The limit is 1.9 spacings of 0.08, up to 1.5 times as much at the rim of the points: from z = 0.15 or 0.23 on, 42 to
    38 %. Of 1000 points drawn at random, one disc of radius 1.48 is empty: 1000 exp(-pi 1.48^2) = 1.
    """
    points = even_sphere(2000)
    mesh = Mesh(*_sphere_mesh())
    below = points[points[:, 2] < 0]
    found = measure_coverage(mesh, measure_spacing(below, below))
    assert found.distance == pytest.approx(2**0.5, rel=0.05)  # of the pole from the equator
    assert 0.37 < found.unsupported < 0.43 and found.places == 1 and found.box is not None
    assert found.box[0, 2] > 0.1 and found.box[1, 2] == pytest.approx(1, abs=0.01)
    assert 1000 * np.exp(-np.pi * largest_gap(1000) ** 2) == pytest.approx(1)
    whole = measure_coverage(mesh, measure_spacing(points, points))
    assert whole.unsupported == 0 and whole.spacings < 1 and whole.box is None


def _sphere_mesh(count: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    """A fine mesh of the unit sphere, by its convex hull."""
    from scipy.spatial import ConvexHull

    vertices = even_sphere(count)
    return vertices, ConvexHull(vertices).simplices


def test_holes_are_told_in_the_coordinates_of_the_input():
    """A sphere of radius 10 around (100, 0, 0) whose cap above z = 8 is missing: closed, and the note says where."""
    unit = even_sphere(1500)
    kept = unit[unit[:, 2] < 0.8]
    made = reconstruct(10 * kept + [100, 0, 0], kept, resolution=32)
    (note,) = [note for note in made.notes if "farther from every point" in note]
    assert made.unsupported_area > 0.01 and made.largest_distance_spacings > 3
    assert "between (9" in note and ") and (10" in note and f"{100 * made.unsupported_area:.2g} %" in note
    assert describe(made)["mesh"]["unsupported_area"] == made.unsupported_area
    assert describe(made)["mesh"]["largest_distance_spacings"] == made.largest_distance_spacings
    assert "unsupported" in summarise(made)
    assert made.mesh.is_watertight and made.mesh.vertices[:, 2].max() < 10.5


@pytest.mark.parametrize("count", [300, 3000])
def test_random_points_without_holes_are_not_warned_of(count: int):
    """Independent points of a sphere leave gaps by chance; the surface is right there, and nothing is said."""
    made = reconstruct(*sphere(count), resolution=32)
    assert not made.notes and made.unsupported_area == 0
    assert made.mesh.volume == pytest.approx(4 * np.pi / 3, rel=0.03)


@pytest.fixture(scope="module")
def thin_slab() -> Reconstruction:
    return reconstruct(*box((2, 1, 0.1), 1500), resolution=80)


def test_a_thin_slab_has_no_blobs(thin_slab: Reconstruction):
    """Exact at the points, and no vertex farther from the slab than a spacing, (4.6 / 1500)^(1/2): blobs are."""
    assert thin_slab.certificate.exact and thin_slab.value_error <= 1e-9 and thin_slab.normal_error <= 1e-9
    assert thin_slab.mesh.euler == 2 and thin_slab.mesh.components == 1
    assert outside_box((2, 1, 0.1), thin_slab.mesh.vertices).max() <= 0.055
    assert not thin_slab.notes


def test_near_the_points_the_field_is_the_solved_one(thin_slab: Reconstruction):
    """Within FREE spacings of a point value and gradient are the solution's to the last bit; far off they are not."""
    surface, random = thin_slab.surface, np.random.default_rng(0)
    direction = random.normal(size=surface.points.shape)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    x = surface.points + 0.99 * fading.FREE * surface.spacing.widths[:, None] * direction
    assert np.array_equal(surface.values(x), surface.solution(_tensor(x))[:, 0].detach().numpy())
    assert np.array_equal(
        surface.slopes(x)[:, :1], surface.solution.apply(surface._operator, _tensor(x))[:, :1].numpy()
    )
    far = surface.points + 3 * surface.spacing.widths[:, None] * direction
    assert not np.allclose(surface.values(far), surface.solution(_tensor(far))[:, 0].detach().numpy())


def _tensor(x: np.ndarray):
    import torch

    return torch.from_numpy(x)


def test_what_is_zero_has_the_winding_number_of_a_surface(thin_slab: Reconstruction):
    """From FIRM spacings on, vertices have w within BOUND of what it is at the points around, and the mesh's tolerance.

    That is 1/2 on a plane and 1/4 on an edge: nowhere is it outside of 1/4 to 1/2, by more than random areas are off.
    """
    surface = thin_slab.surface
    x = thin_slab.cloud.from_input(thin_slab.mesh.vertices)
    apart = surface.spacing.measure(x)[1]
    off = apart > fading.FIRM
    assert off.any()
    level, found = surface.guide.level(x[off], apart[off]), surface.winding.values(x[off])
    assert np.abs(found - level).max() <= fading.BOUND + 0.05
    assert np.all((level > 0.2) & (level < 0.6)) and np.abs(found - 0.5).max() <= 0.25
    points, spacing = surface.points, surface.spacing  # the level by its definition: sums over all points, then means
    way = points[None] - points[:, None]
    soft = np.sum(way**2, axis=2) + (fading.SOFT * spacing.widths) ** 2
    wound = np.einsum("pd,ypd->yp", surface.normals, way) / (4 * np.pi * soft**1.5) @ spacing.areas
    means = fading.local_mean(spacing.tree, wound[:, None], points)[:, 0]
    assert np.abs(means - surface.guide.means).max() <= 0.01


@pytest.mark.parametrize("count", [60, 300, 1000, 3000])
def test_exact_normals_of_slabs_and_few_points_are_not_doubted(count: int):
    """Planes through points on both sides of a slab are wrong by up to 90 degrees; the normals are not."""
    for points, normals in (box((2, 1, 0.05), count), box((2, 1, 0.3), count), slab(count, gap=1.0)):
        notes = note_crookedness(prepare_cloud(PointCloud(points, normals), check_flips=False))
        assert not any("degrees off" in note for note in notes)


def test_wrong_normals_are_doubted_still():
    """Normals of a torus that belong to other points: told, with few points and with many."""
    for count in (300, 3000):
        mesh = torus_mesh(60, 30)
        drawn = np.random.default_rng(0).choice(len(mesh.vertices), size=min(count, len(mesh.vertices)), replace=False)
        points, normals = mesh.vertices[drawn], np.roll(mesh.vertex_normals[drawn], 1, axis=1)
        cloud = prepare_cloud(PointCloud(points, normals), check_flips=False)
        assert any("degrees off" in note for note in note_crookedness(cloud))


def test_an_open_sheet_has_one_surface():
    """A waved sheet of 800 points winds around nothing: w is 0 on it, -+1/2 beside it.

    Held against a level of 1/2 it was pierced all over (Euler number -52); as a level set of 0 it is one smooth
    surface, and what goes on beyond its rim is told.
    """
    random = np.random.default_rng(0)
    x, y = random.uniform(-1, 1, size=(2, 800))
    points = np.stack([x, y, 0.1 * np.sin(3 * x)], axis=1)
    normals = np.stack([-0.3 * np.cos(3 * x), 0 * x, 1 + 0 * x], axis=1)
    made = reconstruct(points, normals, resolution=48)
    assert made.surface.guide.closed is None and np.abs(made.surface.guide.means).max() < 0.3
    assert made.mesh.euler == 2 and made.mesh.components == 1
    assert made.unsupported_area > 0.05 and any("no point speaks for it" in note for note in made.notes)


def test_a_hollow_is_the_solid_turned_round():
    """A sphere of 60 points with normals inward: the same surface, its inside and outside exchanged."""
    points = even_sphere(60)
    solid, hollow = (reconstruct(points, sign * points, resolution=32) for sign in (1, -1))
    x = np.random.default_rng(1).uniform(-1.2, 1.2, size=(500, 3))
    assert solid.surface.guide.closed == 0.5 and hollow.surface.guide.closed == -0.5
    assert np.abs(solid.surface.values(x) + hollow.surface.values(x)).max() <= 1e-12
    assert hollow.mesh.euler == solid.mesh.euler == 2


def test_a_solid_beside_a_hollow():
    """Two spheres apart, one with its normals inward: two closed parts. One level for both tore the hollow apart."""
    points, normals = sphere(1000)
    more, inward = sphere(400, seed=1)
    both = np.concatenate([points, 0.6 * more + np.array([2.5, 0.0, 0.0])])
    made = reconstruct(both, np.concatenate([normals, -inward]), resolution=48)
    assert made.mesh.components == 2 and made.mesh.euler == 4 and made.mesh.is_watertight


def test_sheets_closer_than_the_grid_are_told():
    """A plate of thickness 0.02 beside steps of 0.021 may be pierced; one of 0.2, and a sphere, may not.

    A ball of radius 0.006 beside a large one is lost to the grid with all of its 300 points.
    """
    thin, thick = (reconstruct(*box((2, 2, height), 4000), resolution=96).notes for height in (0.02, 0.2))
    assert any("another side is closer than 1.5 steps" in note for note in thin)
    assert not any("another side" in note for note in thick)
    (large, _), (small, _) = sphere(4000), sphere(300)
    points = np.concatenate([large, 0.006 * small + [1.036, 0, 0]])
    notes = reconstruct(points, np.concatenate([large, small]), resolution=96).notes
    assert any(note.startswith("300 of 4300 points are not on the mesh") for note in notes)


@pytest.mark.parametrize("count", [300, 1000, 3000, 10000])
def test_gaps_that_chance_leaves_are_told_but_not_warned_of(count: int):
    """Independent points of a unit sphere: no notes for four draws; whatever is beyond 1.5 spacings is in the line.

    A hole of four spacings, twice what chance leaves, is warned of every time, and of 1.8 spacings told every time.
    """
    mesh, width = Mesh(*_sphere_mesh(20_000)), (4 * np.pi / count) ** 0.5
    told = []
    for seed in range(4):
        points = sphere(count, seed=seed)[0]
        cloud = prepare_cloud(PointCloud(points, points), check_flips=False)
        found = measure_coverage(mesh, measure_spacing(points, points))
        assert not found.describe(cloud)
        told.append(found.sparse.vertices > 0)
        assert told[-1] == (found.spacings > 1.5) and told[-1] == ("the farthest at" in found.say(cloud))
        middle = mesh.vertices[4700 + seed]
        for size, noted in ((1.8, None), (4.0, True)):
            kept = points[np.linalg.norm(points - middle, axis=1) > size * width]
            holed = measure_coverage(mesh, measure_spacing(kept, kept))
            assert holed.sparse.vertices > 0
            assert noted is None or holed.describe(cloud)


def test_many_small_gaps_are_more_than_chance_leaves():
    """A hundred holes of 1.8 spacings in a sphere of 3000 points: each could be chance, together they cannot."""
    mesh, points = Mesh(*_sphere_mesh(20_000)), sphere(3000)[0]
    middles = even_sphere(100)
    apart = np.linalg.norm(points[:, None] - middles, axis=2).min(axis=1)
    kept = points[apart > 1.9 * (4 * np.pi / 3000) ** 0.5]
    found = measure_coverage(mesh, measure_spacing(kept, kept))
    cloud = prepare_cloud(PointCloud(kept, kept), check_flips=False)
    assert found.sparse.cells > found.sparse.explained and found.describe(cloud)


def test_lids_of_holes_are_plane_and_their_sizes_told():
    """A sphere without its caps beyond |z| = 0.8: two plane lids, each empty of points across 1.2 less a spacing.

    A lid's mean height is at most 5 % of the rim's radius of 0.6; the sphere's own cap would rise by a third of it.
    """
    unit = even_sphere(3000)
    kept = unit[np.abs(unit[:, 2]) < 0.8]
    made = reconstruct(kept, kept, resolution=64)
    v = made.mesh.vertices
    for side in (-1, 1):
        lid = v[(side * v[:, 2] > 0) & (np.hypot(v[:, 0], v[:, 1]) < 0.4)]
        assert np.abs(side * lid[:, 2] - 0.8).mean() <= 0.05 * 0.6
    assert made.coverage.places == 2 and made.coverage.empty == pytest.approx([1.2, 1.2], abs=0.07)
    (note,) = [note for note in made.notes if "empty of points across" in note]
    assert "in 2 places" in note
    assert describe(made)["mesh"]["unsupported_sizes"] == pytest.approx(2 * [1.2], abs=0.07)
    assert describe(made)["mesh"]["beyond_1_5_spacings"]["more_than_chance"]


def test_a_deep_crease_is_not_filled():
    """Two unit balls with middles 1.8 apart, 3000 points on their union: off it by at most 0.9 spacings in the crease.

    With areas from discs of neighbours, and a bound twice as wide, the surface left it by 0.99.
    """
    random, middle = np.random.default_rng(1), 0.9
    normals = random.normal(size=(9000, 3))
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    side = np.where(random.random(9000) < 0.5, 1.0, -1.0)
    points = normals + np.outer(side * middle, [1, 0, 0])
    kept = np.flatnonzero(points[:, 0] * side > 0)[:3000]
    made = reconstruct(points[kept], normals[kept], resolution=128)
    ways = [np.linalg.norm(made.mesh.vertices - [at, 0, 0], axis=1) for at in (-middle, middle)]
    off = np.abs(np.minimum(*ways) - 1).max()
    assert off <= 0.9 * (4 * np.pi * (1 + middle) / 3000) ** 0.5
    assert made.certificate.exact and made.mesh.euler == 2
