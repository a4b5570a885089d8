"""`cnf.reconstruct` of whatever holds points, and meshes as objects of other packages.

trimesh is the real one. Open3D and PyVista are too large to install for tests: stand-ins have the attributes that
theirs have, and nothing else; both were tried with the real packages when this was written.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import cnf
from cnf.errors import CnfError, MissingExtraError
from cnf.meshes.mesh import Mesh
from cnf.shapes.clouds.cloud import PointCloud
from cnf.shapes.files.objects import as_cloud
from cnf.shapes.files.reading import read_mesh
from cnf.shapes.files.writing import write_cloud
from tests.shapes.known_clouds import cube, sphere

X, N = sphere(60)
SHADES = np.random.default_rng(0).integers(0, 256, (60, 3)).astype(np.uint8)


class Vectors(list):
    """Rows that NumPy reads, as Open3D's vectors are."""


class Tensors(dict):
    """Open3D's map of tensors by name."""


def tensor(values: np.ndarray) -> SimpleNamespace:
    """What has `cpu()`, which has `numpy()`."""
    return SimpleNamespace(cpu=lambda: SimpleNamespace(numpy=lambda: values))


def open3d_cloud(normals: bool = True) -> SimpleNamespace:
    return SimpleNamespace(
        points=Vectors(X),
        normals=Vectors(N if normals else []),
        colors=Vectors(SHADES / 255),
        has_normals=lambda: normals,
    )


def open3d_tensors() -> SimpleNamespace:
    columns = {"positions": X, "normals": N, "colors": SHADES, "heat": X[:, :1]}
    return SimpleNamespace(point=Tensors({k: tensor(v) for k, v in columns.items()}), to_legacy=None)


def pyvista_points() -> SimpleNamespace:
    data = {"Normals": N, "RGB": SHADES, "heat": X[:, 0], "names": np.array(["a"] * 60)}
    return SimpleNamespace(points=X, n_points=60, point_data=data, faces=np.empty(0, int))


@pytest.mark.parametrize("make", [open3d_cloud, open3d_tensors, pyvista_points])
def test_clouds_of_other_packages(make):
    """The points, normals and colours, and attributes that are numbers."""
    cloud = as_cloud(make())
    np.testing.assert_array_equal(cloud.points, X)
    np.testing.assert_array_equal(cloud.normals, N)
    np.testing.assert_allclose(cloud.attributes["colours"], SHADES / 255, atol=1e-15)
    assert set(cloud.attributes) - {"heat"} == {"colours"}
    if "heat" in cloud.attributes:
        np.testing.assert_array_equal(cloud.attributes["heat"][:, 0], X[:, 0])


def test_normals_that_are_not_there_may_stand_beside():
    """A cloud without normals takes them from the second argument; one that has its own refuses them."""
    assert as_cloud(open3d_cloud(normals=False)).normals is None
    np.testing.assert_array_equal(as_cloud(open3d_cloud(normals=False), N).normals, N)
    with pytest.raises(CnfError, match="its own normals"):
        as_cloud(open3d_cloud(), N)


def box_of_quads() -> SimpleNamespace:
    """A cube as PyVista lists polygons: 4, four corners, and so on."""
    quads = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
    faces = np.array([[4, *quad] for quad in quads]).ravel()
    return SimpleNamespace(points=cube().vertices, n_points=8, point_data={}, faces=faces)


def open3d_mesh() -> SimpleNamespace:
    return SimpleNamespace(vertices=Vectors(cube().vertices), triangles=Vectors(cube().faces), vertex_colors=Vectors())


@pytest.mark.parametrize("make", [cube, box_of_quads, open3d_mesh])
def test_meshes_are_sampled(make):
    """10,000 points on the faces of the unit cube, normals outward, and a note."""
    cloud = as_cloud(make())
    assert len(cloud) == 10_000 and "sampled" in cloud.notes[0]
    assert (np.abs(np.abs(cloud.points - 0.5).max(axis=1) - 0.5) < 1e-12).all()
    assert ((cloud.points - 0.5) * cloud.normals).sum(axis=1).min() > 0


def test_trimesh_in_and_out():
    """A mesh with colours and an attribute goes to trimesh and comes back as points of it; clouds come in too."""
    trimesh = pytest.importorskip("trimesh")
    shades = np.random.default_rng(1).integers(0, 256, (8, 3)) / 255
    mesh = Mesh(cube().vertices, cube().faces, {"normals": cube().vertex_normals, "colours": shades, "place": range(8)})
    theirs = mesh.to_trimesh()
    assert isinstance(theirs, trimesh.Trimesh) and theirs.volume == pytest.approx(1)
    np.testing.assert_array_equal(theirs.vertices, mesh.vertices)
    np.testing.assert_array_equal(np.asarray(theirs.visual.vertex_colors)[:, :3], np.rint(shades * 255))
    np.testing.assert_array_equal(theirs.vertex_attributes["place"], mesh.attributes["place"])
    np.testing.assert_allclose(theirs.vertex_normals, mesh.attributes["normals"], atol=1e-12)
    assert sorted(as_cloud(theirs).attributes) == ["colours", "place"]
    cloud = as_cloud(trimesh.PointCloud(X, colors=SHADES), N)
    np.testing.assert_array_equal(cloud.points, X)
    np.testing.assert_allclose(cloud.attributes["colours"], SHADES / 255)


def test_pyvista_out(monkeypatch: pytest.MonkeyPatch):
    """What is handed to PyVista: vertices, faces with their number of corners in front, data by name."""

    class PolyData:
        def __init__(self, points, faces):
            self.points, self.faces, self.point_data, self.n_points = points, faces, {}, len(points)

    monkeypatch.setitem(sys.modules, "pyvista", SimpleNamespace(PolyData=PolyData))
    made = Mesh(cube().vertices, cube().faces, {"normals": cube().vertices, "heat": range(8)}).to_pyvista()
    np.testing.assert_array_equal(made.faces.reshape(-1, 4), np.c_[np.full(12, 3), cube().faces])
    assert sorted(made.point_data) == ["Normals", "heat"] and made.point_data["heat"].shape == (8,)


def test_open3d_out(monkeypatch: pytest.MonkeyPatch):
    """What is handed to Open3D: writable arrays, or it refuses them."""

    def vectors(values: np.ndarray) -> np.ndarray:
        assert values.flags.writeable and values.flags.c_contiguous
        return values

    made = SimpleNamespace(
        utility=SimpleNamespace(Vector3dVector=vectors, Vector3iVector=vectors),
        geometry=SimpleNamespace(TriangleMesh=SimpleNamespace),
    )
    monkeypatch.setitem(sys.modules, "open3d", made)
    frozen = cube().vertices.copy()
    frozen.flags.writeable = False
    theirs = Mesh(frozen, cube().faces, {"normals": frozen}).to_open3d()
    np.testing.assert_array_equal(theirs.vertices, frozen)
    np.testing.assert_array_equal(theirs.vertex_normals, frozen)
    assert theirs.triangles.dtype == np.int32


@pytest.mark.parametrize("package", ["trimesh", "open3d", "pyvista"])
def test_a_missing_package_is_named(package: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=f"pip install {package}"):
        getattr(cube(), f"to_{package}")()


@pytest.mark.parametrize("given", [3, object(), {"a": 1}, [[1, 2], [3]], "none.ply", Path("none.ply")])
def test_what_holds_no_points_is_refused(given: object):
    """One line."""
    with pytest.raises(CnfError) as caught:
        as_cloud(given)
    assert "\n" not in str(caught.value)


def test_reconstruct_in_one_line(tmp_path: Path):
    """A sphere of torch tensors with a graph, and the same from a file: one mesh, of volume 4 pi / 3; it is saved."""
    k = np.arange(150) + 0.5
    height, angle = 1 - 2 * k / 150, np.pi * (1 + 5**0.5) * k
    around = np.sqrt(1 - height**2)
    x = np.stack([around * np.cos(angle), around * np.sin(angle), height], axis=1)
    points = torch.tensor(x, requires_grad=True)
    made = cnf.reconstruct(points, points, resolution=16)
    read = cnf.reconstruct(write_cloud(PointCloud(x, x), tmp_path / "sphere.ply"), resolution=16)
    np.testing.assert_array_equal(made.mesh.vertices, read.mesh.vertices)
    assert read_mesh(made.save(tmp_path / "mesh.glb")).volume == pytest.approx(4 * np.pi / 3, rel=0.05)
