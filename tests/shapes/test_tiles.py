"""Clouds on disk: the answer is that of the same cloud in memory, whatever interrupts it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cnf.meshes.mesh import Mesh
from cnf.shapes.clouds.cloud import PointCloud
from cnf.shapes.files.reading import read_mesh
from cnf.shapes.files.writing import write_cloud
from cnf.shapes.reconstruction.reconstruct import Reconstruction, reconstruct
from cnf.shapes.tiles import run
from cnf.shapes.tiles.run import TiledReconstruction, reconstruct_tiles
from cnf.shapes.tiles.sizes import Sizes
from tests.shapes.known_clouds import sphere, torus

PART = 1000


@pytest.fixture(autouse=True)
def small_sorting(monkeypatch: pytest.MonkeyPatch):
    """No more than 1100 rows are sorted at once, as if memory held no more: tables are halved on disk."""
    monkeypatch.setattr(run, "choose_sizes", lambda memory, part, columns: Sizes(part or PART, 1100))


def both_ways(cloud: PointCloud, folder: Path, **options) -> tuple[Reconstruction, TiledReconstruction, Mesh]:
    """In memory, and on disk: the outcome and the mesh that was written."""
    write_cloud(cloud, folder / "cloud.ply")
    whole = reconstruct(folder / "cloud.ply", part=PART, **options)
    tiled = reconstruct_tiles(folder / "cloud.ply", folder / "mesh.ply", "1GB", part=PART, **options)
    return whole, tiled, read_mesh(folder / "mesh.ply")


def same(whole: Reconstruction, tiled: TiledReconstruction, mesh: Mesh, open_by: float = 1e-9) -> None:
    """Vertices to rounding, the same faces, and all that is told of the mesh and the conditions.

    `open_by`: what pieces differ by along seams of lids, where sums of the winding number leave something open: areas
    are those of the pieces, vertices those of the first of them.
    """
    assert np.array_equal(mesh.faces, whole.mesh.faces)
    assert np.abs(mesh.vertices - whole.mesh.vertices).max() <= 1e-11
    assert tiled.numbers == replace(type(tiled.numbers).of(mesh), area=tiled.numbers.area)
    assert tiled.numbers.area == pytest.approx(whole.mesh.area, rel=open_by)
    before, after = whole.certificate, tiled.certificate
    counts = ("conditions", "functions", "measured", "rank", "exact", "tolerance", "channels")
    assert [getattr(before, name) for name in counts] == [getattr(after, name) for name in counts]
    assert list(before.residuals) == list(after.residuals) and after.worst <= 1e-9
    assert tiled.coverage.distance == pytest.approx(whole.coverage.distance, rel=open_by)
    assert tiled.coverage.spacings == pytest.approx(whole.coverage.spacings, rel=open_by)
    assert tiled.coverage.unsupported == pytest.approx(whole.coverage.unsupported, rel=open_by)
    assert tiled.coverage.places == whole.coverage.places
    assert tiled.coverage.sparse.vertices == whole.coverage.sparse.vertices
    assert tiled.coverage.sparse.cells == pytest.approx(whole.coverage.sparse.cells, rel=open_by)
    assert tiled.support == pytest.approx(whole.support, rel=1e-14)


def test_a_torus_on_disk_is_that_in_memory(tmp_path: Path):
    """3000 points with colours, sorted 1100 at a time: the mesh of memory to rounding; nothing is left behind."""
    points, normals = torus(3000)
    whole, tiled, mesh = both_ways(PointCloud(points, normals, {"colours": 0.5 + 0.4 * np.sin(3 * points)}), tmp_path)
    same(whole, tiled, mesh)
    assert tiled.settings["parts"] == 4 and mesh.is_watertight and mesh.euler == 0
    assert np.abs(mesh.attributes["colours"] - whole.mesh.attributes["colours"]).max() <= 0.5 / 255 + 1e-9
    assert np.abs(mesh.attributes["normals"] - whole.mesh.attributes["normals"]).max() <= 1e-9
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cloud.ply", "mesh.ply"]


def test_holes_and_strangers_on_disk(tmp_path: Path):
    """A sphere without a cap, beside it another: lids that cross seams where no point is, two components."""
    points, normals = sphere(3000)
    kept = points[:, 2] < 0.8
    other = points[::3] + np.array([3.0, 0, 0])
    cloud = PointCloud(np.concatenate([points[kept], other]), np.concatenate([normals[kept], normals[::3]]))
    whole, tiled, mesh = both_ways(cloud, tmp_path)
    same(whole, tiled, mesh, open_by=1e-4)
    assert mesh.is_watertight and tiled.numbers.components == 2 and tiled.coverage.unsupported > 0


def test_doubled_points_on_disk(tmp_path: Path):
    """Of 3000 points 40 come twice, with colours that are averaged: 3000 are left, as in memory, and met."""
    points, normals = torus(3000)
    colours = np.random.default_rng(0).random((3040, 3))
    again = np.arange(0, 3000, 75)
    rows = np.concatenate([np.arange(3000), again])
    whole, tiled, mesh = both_ways(PointCloud(points[rows], normals[rows], {"colours": colours}), tmp_path)
    same(whole, tiled, mesh)
    assert tiled.points == 3000 and any("40 points at the same place" in note for note in tiled.notes)


def test_a_surface_that_is_cut_on_disk(tmp_path: Path):
    """A sheet, open on all sides: followed as far as the support reaches, cut there and capped, as in memory."""
    random = np.random.default_rng(0)
    points = np.column_stack([random.random((2500, 2)) * 2 - 1, np.zeros(2500)])
    points[:, 2] = 0.2 * points[:, 0] ** 2
    normals = np.column_stack([-0.4 * points[:, 0], np.zeros(2500), np.ones(2500)])
    whole, tiled, mesh = both_ways(PointCloud(points, normals / np.linalg.norm(normals, axis=1)[:, None]), tmp_path)
    print(whole.notes, tiled.notes)
    same(whole, tiled, mesh, open_by=1e-4)
