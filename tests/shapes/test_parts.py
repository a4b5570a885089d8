"""Clouds that are solved and meshed part by part: the pieces fit, and the answer is that of the whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cnf.errors import CnfError
from cnf.execution import Dask
from cnf.shapes.clouds.cloud import PointCloud
from cnf.shapes.reconstruction.band import Grid, follow
from cnf.shapes.reconstruction.measuring import attributes_at
from cnf.shapes.reconstruction.parts import cut_into_parts
from cnf.shapes.reconstruction.reconstruct import reconstruct
from tests.shapes.known_clouds import sphere, torus


def distance_to_torus(x: np.ndarray, tube: float = 0.35) -> np.ndarray:
    """|sqrt((|xy| - 1)^2 + z^2) - tube|, in closed form."""
    return np.abs(np.hypot(np.hypot(x[:, 0], x[:, 1]) - 1, x[:, 2]) - tube)


@pytest.fixture(scope="module")
def both():
    points, normals = torus(3000)
    colours = 0.5 + 0.4 * np.sin(3 * points)
    cloud = PointCloud(points, normals, {"colours": colours})
    return reconstruct(cloud), reconstruct(cloud, part=1000)


def test_pieces_of_a_torus_fit(both):
    """Genus 1, one part, closed, every edge in two faces; vertices are on the zero set that there is in one piece.

    Edges along seams are not split, so that the meshes are not the same.
    """
    whole, parted = both
    assert len(parted.surface.parts) == 4
    assert parted.mesh.is_watertight and parted.mesh.euler == 0 and parted.mesh.components == 1
    off = [distance_to_torus(made.mesh.vertices) for made in both]
    assert off[1].mean() <= 1.02 * off[0].mean() and off[1].max() <= 1.02 * off[0].max()
    found = whole.surface.values(whole.cloud.from_input(parted.mesh.vertices))
    assert np.sum(np.abs(found) > 1e-9) <= 3  # those that Newton's steps leave
    assert parted.mesh.area == pytest.approx(whole.mesh.area, rel=1e-4)
    assert parted.mesh.area == pytest.approx(4 * np.pi**2 * 0.35, rel=5e-3)


def test_every_point_is_met_by_the_field_of_its_part(both):
    """d = 0 and grad d = n at every point, asked of the surface as a user would; certificate and measure say so."""
    parted = both[1]
    found = parted.surface.slopes(parted.cloud.points)
    assert np.abs(found[:, 0]).max() <= 1e-12
    assert np.abs(found[:, 1:] - parted.cloud.normals).max() <= 1e-9
    proof, before = parted.certificate, both[0].certificate
    assert proof.exact and proof.conditions == proof.rank == 7 * 3000  # each counts once, wherever the seams are
    assert (proof.functions, proof.rank, proof.measured) == (before.functions, before.rank, before.measured)
    assert parted.value_error <= 1e-12 and parted.normal_error <= 1e-9


def test_the_field_is_that_of_the_whole_cloud(both):
    """At 3000 places near the torus values and gradients are those of the field in one piece, seams or not."""
    random = np.random.default_rng(0)
    whole, parted = both
    x = whole.cloud.points[random.integers(0, 3000, 3000)] + random.uniform(-0.01, 0.01, (3000, 3))
    found, wanted = (made.surface.slopes(x) for made in (parted, whole))
    assert np.abs(found - wanted).max() <= 1e-9 * np.abs(wanted).max()
    beyond, expected = (made.surface.attributes(x) for made in (parted, whole))
    assert np.abs(beyond - expected).max() <= 1e-9
    # Far from the points the sums of the winding number are cut off elsewhere: see there how closely they are taken.
    far = random.uniform(-1, 1, (1000, 3))
    assert np.abs(parted.surface.values(far) - whole.surface.values(far)).max() <= 0.02


def test_vertices_are_on_the_zero_set_with_its_normals_and_attributes(both):
    """Newton's steps end within rounding on either side of a seam, but for vertices that are left in one piece too.

    Colours are those of the points' formula.
    """
    parted = both[1]
    off = []
    for made in both:
        found = made.surface.slopes(made.cloud.from_input(made.mesh.vertices))
        off.append(np.sum(np.abs(found[:, 0]) > 1e-9))
        cosine = np.einsum("pd,pd->p", found[:, 1:], made.mesh.attributes["normals"])
        assert (cosine / np.linalg.norm(found[:, 1:], axis=1)).min() >= 1 - 1e-6
    assert off[1] <= off[0] <= 3
    wanted = 0.5 + 0.4 * np.sin(3 * parted.mesh.vertices)
    assert np.abs(parted.mesh.attributes["colours"] - wanted).mean() <= 5e-3


def test_a_surface_that_comes_back_to_a_finished_part():
    """A sphere without points on a cap: its lid crosses seams where no part has points, and the mesh is closed."""
    points, normals = sphere(4000)
    kept = points[:, 2] < 0.8
    made = reconstruct(points[kept], normals[kept], part=1000)
    assert made.mesh.is_watertight and made.mesh.euler == 2 and made.mesh.components == 1
    assert made.unsupported_area > 0


def test_two_far_apart_spheres_and_an_open_rim():
    """Two closed components stay two; with close=False the rim of a half sphere is one boundary, in parts as well."""
    points, normals = sphere(1500)
    two = reconstruct(
        np.concatenate([points, points + np.array([5, 0, 0])]), np.concatenate([normals, normals]), part=1000
    )
    assert two.mesh.is_watertight and two.mesh.components == 2 and two.mesh.euler == 4
    points, normals = sphere(6000)
    half = points[:, 2] < 0
    opened = reconstruct(points[half], normals[half], part=1000, close=False)
    assert opened.mesh.boundary_edges > 0 and opened.mesh.components == 1 and opened.mesh.euler == 1


@pytest.mark.slow
def test_processes_make_the_same_mesh(both):
    """Two processes, or two workers of Dask: vertices, faces, colours, residuals and counts of one, bit by bit."""
    cloud, here = PointCloud(*torus(3000), {"colours": 0.5 + 0.4 * np.sin(3 * torus(3000)[0])}), both[1]
    with Dask(2) as cluster:
        elsewhere = [reconstruct(cloud, part=1000, workers=workers) for workers in (2, cluster)]
    for there in elsewhere:
        assert np.array_equal(here.mesh.vertices, there.mesh.vertices)
        assert np.array_equal(here.mesh.faces, there.mesh.faces)
        assert np.array_equal(here.mesh.attributes["colours"], there.mesh.attributes["colours"])
        assert here.certificate.residuals == there.certificate.residuals
        assert (here.value_error, here.evaluations) == (there.value_error, there.evaluations)


def test_faces_in_planes_of_the_grid():
    """A cube whose sides run along the grid, nodes within rounding of the surface: no seam is open, the volume is 8."""
    side = np.linspace(-1, 1, 23)
    flat = np.stack([grid.ravel() for grid in np.meshgrid(side[1:-1], side[1:-1], indexing="ij")], axis=1)
    points, normals = [], []
    for axis in range(3):
        for sign in (-1.0, 1.0):
            points.append(np.insert(flat, axis, sign, axis=1))
            normals.append(np.tile(sign * np.eye(3)[axis], (len(flat), 1)))
    made = reconstruct(np.concatenate(points), np.concatenate(normals), part=1000)
    assert len(made.surface.parts) >= 3 and made.mesh.is_watertight and made.mesh.euler == 2
    a, b, c = (made.mesh.vertices[made.mesh.faces[:, k]] for k in range(3))
    assert np.einsum("fd,fd->", a, np.cross(b, c)) / 6 == pytest.approx(8, rel=0.02)


def test_two_roundings_see_one_sign():
    """Nodes on the surface x = 0, where rounding gives 1e-17 one way and -1e-17 the other: the same cells hold it."""
    grid = Grid(np.full(3, -1.0), 0.25, (9, 9, 9))
    seeds = np.array([[0.01, 0.01, 0.01]])
    bands = [follow(lambda x, e=e: np.where(x[:, 0] == 0, e, x[:, 0]), seeds, grid, 0.6) for e in (1e-17, -1e-17, 0.0)]
    assert len(bands[0].cells)
    for band in bands:
        assert np.array_equal(band.cells, bands[0].cells) and np.array_equal(band.values, bands[0].values)


def test_parts_hold_every_cell_once():
    """Boxes partition the grid: each of 2000 random cells is in exactly one; parts have at most the points asked."""
    random = np.random.default_rng(0)
    cells = random.integers(0, [40, 30, 20], size=(5000, 3))
    parts = cut_into_parts(cells, (41, 31, 21), 400)
    assert sum(len(part.rows) for part in parts) == 5000 and max(len(part.rows) for part in parts) <= 400
    asked = random.integers(0, [40, 30, 20], size=(2000, 3))
    held = [np.all((asked >= part.lower) & (asked < part.upper), axis=1) for part in parts]
    assert np.array_equal(np.sum(held, axis=0), np.ones(2000))
    for part in parts:
        assert np.all((cells[part.rows] >= part.lower) & (cells[part.rows] < part.upper))


def test_crowded_cells_are_cut_as_far_as_they_can_be():
    """5000 points in a single cell: one part. With 51 % in the last layer of the longest axis, others are halved."""
    assert len(cut_into_parts(np.zeros((5000, 3), dtype=np.int64), (9, 9, 9), 100)) == 1
    cells = np.random.default_rng(0).integers(0, [30, 20, 20], size=(5000, 3))
    cells[: int(0.51 * 5000), 0] = 29
    assert max(len(part.rows) for part in cut_into_parts(cells, (31, 21, 21), 400)) <= 400


def test_what_was_not_solved_is_not_called_exact(both):
    """The certificate of a surface of which a part was left out: fewer conditions were measured than there are."""
    surface = both[1].surface
    some = {number: found for number, found in surface.certificates.items() if number}
    left = replace(surface, certificates=some).certificate
    assert not left.exact and left.measured == left.conditions - 7 * len(surface.parts[0].rows)
    with pytest.raises(CnfError, match="no part of this surface was solved yet"):
        _ = replace(surface, certificates={}).certificate


def test_density_that_changes_across_a_seam():
    """A torus, half of it with a tenth of the points of the other: closed, and each part has the colours of its points.

    A mean over other neighbours than the conditions were made with would miss them.
    """
    points, normals = torus(6000)
    kept = (points[:, 0] < 0) | (np.random.default_rng(1).random(6000) < 0.1)
    colours = 0.5 + 0.4 * np.sin(3 * points[kept])
    made = reconstruct(PointCloud(points[kept], normals[kept], {"colours": colours}), part=1000)
    assert len(made.surface.parts) >= 3
    assert made.mesh.is_watertight and made.mesh.euler == 0 and made.certificate.exact
    for number, part in enumerate(made.surface.parts):
        found = attributes_at(made.surface.solve(number), made.cloud, made.cloud.points[part.rows])["colours"]
        assert np.abs(found - made.cloud.attributes["colours"][part.rows]).max() <= 1e-9


def test_points_off_the_mesh_are_told_in_parts_too():
    """Two sheets closer than the grid's step: the same count of points off the mesh, in parts and in one piece."""
    points, normals = sphere(3000)
    inner = np.concatenate([points, 0.99 * points]), np.concatenate([normals, -normals])
    told = [reconstruct(*inner, resolution=48, part=part).notes for part in (None, 1500)]
    counts = [[note.split(" of ")[0] for note in notes if "not on the mesh" in note] for notes in told]
    assert counts[0] == counts[1] and counts[0]


def test_what_parts_cannot_give(both):
    """No single solution, and no part of a handful of points."""
    with pytest.raises(CnfError, match="no single solution"):
        _ = both[1].surface.solution
    points, normals = sphere(100)
    with pytest.raises(CnfError, match="a part has 1000 points or more"):
        reconstruct(points, normals, part=10)
    with pytest.raises(CnfError, match="parts are for solver 'blend' with exact normals"):
        reconstruct(points, normals, part=1000, solver="sparse")
