"""Sharp edges: kept where there are any, and nothing changed where there are none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cnf.cli.main import run
from cnf.errors import CnfError
from cnf.meshes.creased import SHARP, part_at_creases
from cnf.meshes.mesh import Mesh
from cnf.shapes.clouds.cloud import PointCloud
from cnf.shapes.clouds.generated import sample_knot
from cnf.shapes.files.writing import write_cloud
from cnf.shapes.reconstruction.reconstruct import Reconstruction, reconstruct

COUNT = 1500
SPACING = np.sqrt(24 / COUNT)  # of points on a cube with sides of 2
TURN = np.linalg.qr(np.random.default_rng(5).standard_normal((3, 3)))[0]


def cube(count: int = COUNT) -> tuple[np.ndarray, np.ndarray]:
    """Random points of the cube [-1, 1]^3 and the normals of its faces, both turned."""
    drawn = np.random.default_rng(0)
    points, axis = drawn.uniform(-1, 1, (count, 3)), drawn.integers(3, size=count)
    normals = np.zeros((count, 3))
    normals[np.arange(count), axis] = np.where(drawn.random(count) < 0.5, -1.0, 1.0)
    points[normals != 0] = normals[normals != 0]
    return points @ TURN.T, normals @ TURN.T


def off_cube(x: np.ndarray) -> np.ndarray:
    """Distances (n,) of places (n, 3) from the surface of the turned cube, by its definition."""
    local = np.abs(x @ TURN)
    outside = np.linalg.norm(np.maximum(local - 1, 0), axis=1)
    return np.where(outside > 0, outside, np.maximum(1 - local.max(axis=1), 0))


@pytest.fixture(scope="module")
def sharp() -> Reconstruction:
    return reconstruct(*cube(), sharp=True)


@pytest.fixture(scope="module")
def smooth() -> Reconstruction:
    return reconstruct(*cube())


def test_vertices_on_edges_and_corners_of_a_cube(sharp: Reconstruction):
    """On an edge two coordinates are 1, on a corner three: to 0.01 spacings at 90 in 100 vertices, corners at all."""
    kind = sharp.mesh.attributes[SHARP][:, 0]
    local = np.sort(np.abs(sharp.mesh.vertices @ TURN), axis=1)
    edge = np.linalg.norm(local[kind == 1, 1:] - 1, axis=1) / SPACING
    corner = np.linalg.norm(local[kind == 2] - 1, axis=1) / SPACING
    assert len(edge) > 200 and np.quantile(edge, 0.9) < 0.01
    assert 4 <= len(corner) <= 8 and corner.max() < 0.01
    assert sharp.sharpness.edges == len(edge) and sharp.sharpness.corners == len(corner)


def test_the_mesh_is_closer_and_as_whole(sharp: Reconstruction, smooth: Reconstruction):
    """Mean distance from the cube at most half of what it was; closed, Euler number 2; the field is the same."""
    places = [made.mesh.vertices[made.mesh.faces].mean(axis=1) for made in (sharp, smooth)]
    means = [np.average(off_cube(x), weights=made.mesh.areas) for x, made in zip(places, (sharp, smooth), strict=True)]
    assert means[0] < 0.5 * means[1]
    assert sharp.mesh.is_watertight and sharp.mesh.components == 1 and sharp.mesh.euler == 2
    assert sharp.certificate.exact and sharp.value_error == smooth.value_error
    x = np.random.default_rng(1).uniform(-0.9, 0.9, (50, 3))
    assert np.array_equal(sharp.surface.values(x), smooth.surface.values(x))


def test_smooth_shapes_stay_as_they_are():
    """A knotted tube has no edges: bit by bit the mesh that comes without, and no vertex is told to be on one."""
    cloud = sample_knot(1500)
    made, plain = reconstruct(cloud, sharp=True), reconstruct(cloud)
    assert np.array_equal(made.mesh.vertices, plain.mesh.vertices)
    assert np.array_equal(made.mesh.faces, plain.mesh.faces)
    assert made.sharpness.edges == made.sharpness.corners == 0 and plain.sharpness is None


@pytest.mark.parametrize("sharp", [5, 120, -25, float("nan"), "yes"])
def test_an_angle_is_10_to_90_degrees(sharp: object):
    with pytest.raises(CnfError, match="10 to 90"):
        reconstruct(*cube(100), sharp=sharp)


@pytest.mark.parametrize(
    "more", [{"snap": True}, {"refinements": 1}, {"part": 1000}, {"solver": "local", "normals_mode": "pseudo"}]
)
def test_what_does_not_go_together(more: dict):
    """Drawn through the points, split in four, in parts, solved per query: refused, with the reason."""
    with pytest.raises(CnfError, match="sharp edges"):
        reconstruct(*cube(2100), sharp=True, **more)


def test_normals_for_each_side():
    """Two squares at a right angle: at the common edge each looks in its own direction, to rounding."""
    vertices = np.array([[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1]], dtype=float)
    faces = np.array([[0, 2, 3], [0, 3, 1], [0, 1, 5], [0, 5, 4]])
    kind = np.array([1, 1, 0, 0, 0, 0])
    parted = part_at_creases(Mesh(vertices, faces, {SHARP: kind}))
    assert np.allclose(parted.vertices[parted.faces], vertices[faces])
    looks = parted.attributes["normals"][parted.faces]
    flat = np.repeat([[0, 0, 1.0], [1.0, 0, 0]], 2, axis=0)
    assert np.allclose(looks, flat[:, None], atol=1e-12)
    plain = Mesh(vertices, faces)
    assert part_at_creases(plain) is plain


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture):
    """The line, the numbers as JSON, and the angle that was asked for."""
    points, normals = cube()
    cloud, mesh = write_cloud(PointCloud(points, normals), tmp_path / "cube.ply"), tmp_path / "mesh.ply"
    quiet = ["--no-picture", "--no-viewer"]
    assert run(["reconstruct", str(cloud), "-o", str(mesh), "--sharp-angle", "40", "--resolution", "40", *quiet]) == 0
    told = json.loads(mesh.with_suffix(".json").read_text())
    assert told["settings"]["sharp"] == 40 and told["mesh"]["sharp"]["edges"] > 50
    assert f"sharp edges: {told['mesh']['sharp']['edges']} vertices on edges" in capsys.readouterr().out
