"""Clouds on disk: the answer is that of the same cloud in memory, whatever interrupts it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial import cKDTree

from cnf.cli.main import run as command
from cnf.errors import CnfError, FileError
from cnf.execution import Dask, Here
from cnf.meshes.mesh import Mesh
from cnf.shapes.clouds.cloud import PointCloud
from cnf.shapes.commands.surfaces import choose_tiles
from cnf.shapes.files import pieces
from cnf.shapes.files.pieces import open_source
from cnf.shapes.files.reading import read_cloud, read_mesh
from cnf.shapes.files.writing import write_cloud
from cnf.shapes.reconstruction.reconstruct import Reconstruction, reconstruct
from cnf.shapes.reconstruction.surface import local_mean
from cnf.shapes.tiles import run
from cnf.shapes.tiles.columns import Column, find_rank, quantile_of
from cnf.shapes.tiles.entering import enter
from cnf.shapes.tiles.folder import Folder
from cnf.shapes.tiles.run import TiledReconstruction, reconstruct_tiles
from cnf.shapes.tiles.sizes import Sizes, choose_sizes, fits, read_memory
from tests.shapes.known_clouds import sphere, torus

PART, COARSE = 1000, 40  # points of a part; grid nodes, few, for meshes are not judged by their looks here


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
    """2500 points with colours, sorted 1100 at a time: the mesh of memory to rounding; nothing is left behind."""
    points, normals = torus(2500)
    cloud = PointCloud(points, normals, {"colours": 0.5 + 0.4 * np.sin(3 * points)})
    whole, tiled, mesh = both_ways(cloud, tmp_path)
    same(whole, tiled, mesh)
    assert tiled.settings["parts"] == 4 and tiled.settings["resolution"] == whole.settings["resolution"]
    assert mesh.is_watertight and mesh.euler == 0
    assert np.abs(mesh.attributes["colours"] - whole.mesh.attributes["colours"]).max() <= 0.5 / 255 + 1e-9
    assert np.abs(mesh.attributes["normals"] - whole.mesh.attributes["normals"]).max() <= 1e-9
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cloud.ply", "mesh.ply"]


def test_holes_and_strangers_on_disk(tmp_path: Path):
    """A sphere without a cap, beside it another: lids that cross seams where no point is, two components."""
    points, normals = sphere(2500)
    kept = points[:, 2] < 0.8
    other = points[::3] + np.array([3.0, 0, 0])
    cloud = PointCloud(np.concatenate([points[kept], other]), np.concatenate([normals[kept], normals[::3]]))
    whole, tiled, mesh = both_ways(cloud, tmp_path, resolution=64)
    same(whole, tiled, mesh, open_by=1e-3)
    assert mesh.is_watertight and tiled.numbers.components == 2 and tiled.coverage.unsupported > 0


def test_doubled_points_on_disk(tmp_path: Path):
    """Of 2200 points 40 come twice, with colours that are averaged: 2200 are left, as in memory, and met."""
    points, normals = torus(2200)
    colours = np.random.default_rng(0).random((2240, 3))
    rows = np.concatenate([np.arange(2200), np.arange(0, 2200, 55)])
    cloud = PointCloud(points[rows], normals[rows], {"colours": colours})
    whole, tiled, mesh = both_ways(cloud, tmp_path, resolution=COARSE)
    same(whole, tiled, mesh)
    assert tiled.points == 2200 and any("40 points at the same place" in note for note in tiled.notes)


@pytest.mark.filterwarnings("ignore:the normals point into")
def test_a_surface_that_is_cut_on_disk(tmp_path: Path):
    """A bent sheet, open on all sides: followed as far as the support reaches, cut there and capped, as in memory."""
    random = np.random.default_rng(0)
    x, y = random.random((2, 2200)) * 2 - 1
    normals = np.column_stack([-0.4 * x, 0 * x, 0 * x + 1])
    cloud = PointCloud(np.column_stack([x, y, 0.2 * x**2]), normals / np.linalg.norm(normals, axis=1)[:, None])
    whole, tiled, mesh = both_ways(cloud, tmp_path, resolution=COARSE)
    assert any("closed by caps" in note for note in tiled.notes)
    same(whole, tiled, mesh, open_by=1e-4)


def test_points_within_a_body_on_disk(tmp_path: Path):
    """A sphere of 300 points within one of 2200: told with the number of the first, and the mesh is that of memory."""
    outer, inner = sphere(2200)[0], sphere(300)[0]
    cloud = PointCloud(np.concatenate([outer, 0.4 * inner]), np.concatenate([outer, inner]))
    whole, tiled, mesh = both_ways(cloud, tmp_path, resolution=64)
    same(whole, tiled, mesh, open_by=1e-3)
    (note,) = [note for note in tiled.notes if "inside of what the others enclose" in note]
    assert note in whole.notes and note.startswith("300 of 2500 points") and "point 2200 at (" in note


class StoppedError(Exception):
    """Stands for Ctrl-C."""


class Stop:
    """Stops what tells it of its progress, at the time given."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, what: str) -> None:
        self.left -= 1
        if self.left == 0:
            raise StoppedError(what)


def test_a_stopped_run_goes_on(tmp_path: Path):
    """Stopped again and again, later each time: the file of a run in one go, and no piece is made twice."""
    cloud, folder = tmp_path / "cloud.npy", tmp_path / "mesh.ply.parts"
    np.save(cloud, np.concatenate(torus(2200), axis=1))
    options = {"memory": "1GB", "part": PART, "resolution": COARSE}
    reconstruct_tiles(cloud, tmp_path / "straight.ply", **options)
    times: dict[Path, int] = {}
    for stops in range(1, 100):
        try:
            reconstruct_tiles(cloud, tmp_path / "mesh.ply", **options, report=Stop(2 * stops))
            break
        except StoppedError:
            made = {path: path.stat().st_mtime_ns for path in folder.rglob("[0-9]*.npz")}
            assert {path: made[path] for path in times} == times
            times = made
    assert stops >= 5 and not folder.exists()
    assert (tmp_path / "mesh.ply").read_bytes() == (tmp_path / "straight.ply").read_bytes()


def test_another_file_or_option_is_refused(tmp_path: Path):
    """After a stop: another flatness, another point; each is named in one line, and nothing is lost."""
    cloud = tmp_path / "cloud.npy"
    table = np.concatenate(torus(2200), axis=1)
    np.save(cloud, table)

    def stop(what: str) -> None:
        if what.startswith("spacing"):
            raise StoppedError

    with pytest.raises(StoppedError):
        reconstruct_tiles(cloud, tmp_path / "mesh.ply", "1GB", report=stop)
    with pytest.raises(CnfError, match="unfinished run with another flatness: repeat that command"):
        reconstruct_tiles(cloud, tmp_path / "mesh.ply", "1GB", flatness=0.1)
    table[7, 0] += 1e-9
    np.save(cloud, table)
    with pytest.raises(CnfError, match="unfinished run with another file: repeat"):
        reconstruct_tiles(cloud, tmp_path / "mesh.ply", "1GB")
    assert (tmp_path / "mesh.ply.parts" / "run.json").exists()


def test_files_that_cannot_be_read_in_pieces(tmp_path: Path):
    """No normals, a zero one, text, a mesh, another ending, a disk too small: one line each, and nothing is left."""
    points, normals = torus(50)
    np.save(tmp_path / "bare.npy", points)
    np.save(tmp_path / "weak.npy", np.concatenate([points, np.where(np.arange(50)[:, None] == 7, 0, normals)], axis=1))
    write_cloud(PointCloud(points, normals), tmp_path / "cloud.xyz")
    for name, said in (("bare.npy", "has no normals"), ("weak.npy", "at point 7"), ("cloud.xyz", "read whole only")):
        with pytest.raises(CnfError, match=said):
            reconstruct_tiles(tmp_path / name, tmp_path / f"{name}.ply", "1GB")
        assert not (tmp_path / f"{name}.ply.parts").exists()
    with pytest.raises(CnfError, match=r"are written as \.ply"):
        reconstruct_tiles(tmp_path / "bare.npy", tmp_path / "mesh.obj", "1GB")
    with pytest.raises(FileError, match="GB are needed on the disk"):
        Folder(tmp_path / "full.parts").open({}, 10**18)
    assert not (tmp_path / "full.parts").exists()


@pytest.mark.parametrize("name", ["cloud.ply", "cloud.npy", "cloud.las"])
def test_pieces_are_the_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """1000 points, 64 at a time: points, normals and colours of the reader of whole files, bit by bit."""
    points, normals = torus(1000)
    colours = np.random.default_rng(0).integers(0, 65536, (1000, 3))
    path = tmp_path / name
    if name.endswith("ply"):
        write_cloud(PointCloud(points, normals, {"colours": colours / 65535, "heat": points[:, 0]}), path)
    elif name.endswith("npy"):
        np.save(path, np.concatenate([points, normals], axis=1).astype(np.float32))
    else:
        laspy = pytest.importorskip("laspy")
        header = laspy.LasHeader(point_format=2, version="1.2")
        header.scales, header.offsets = np.full(3, 1e-6), np.zeros(3)
        file = laspy.LasData(header)
        file.x, file.y, file.z = points.T
        file.red, file.green, file.blue = colours.T.astype(np.uint16)
        file.write(str(path))
    monkeypatch.setattr(pieces, "AT_ONCE", 64)
    found, whole = list(open_source(path).pieces()), read_cloud(path)
    assert len(found) == 16
    assert np.array_equal(np.concatenate([piece.points for piece in found]), whole.points)
    if whole.normals is not None:
        assert np.array_equal(np.concatenate([piece.normals for piece in found]), whole.normals)
    assert list(found[0].attributes) == list(whole.attributes)
    for key, values in whole.attributes.items():
        parts = [piece.attributes[key].reshape(-1, values.shape[1]) for piece in found]
        assert np.array_equal(np.concatenate(parts), values)


def test_ranks_on_disk(tmp_path: Path):
    """Quantiles of 5000 numbers, half of them the same, 100 at a time: those of NumPy."""
    random = np.random.default_rng(0)
    values = np.concatenate([random.lognormal(0, 5, 2500), np.full(2500, 1.25)])
    random.shuffle(values)
    column = Column(str(tmp_path / "values"), 5000).make()
    column.write(0, values)
    for share in (0.0, 0.2, 0.4, 0.5, 0.77, 1.0):
        assert quantile_of(column, share, 100) == pytest.approx(np.quantile(values, share), rel=1e-12)
    for rank in (0, 1249, 2500, 3000, 4999):
        assert find_rank(column, rank, 100) == np.sort(values)[rank]


def test_what_is_near_far_away(tmp_path: Path):
    """Neighbours of places in, between and far from the tiles of two clusters: those of a tree of all points."""
    random = np.random.default_rng(0)
    points = np.concatenate([random.random((1500, 3)), random.random((1500, 3)) + 20.0, [[100.0, 0, 0]]])
    np.save(tmp_path / "cloud.npy", np.concatenate([points, np.tile([0, 0, 1.0], (3001, 1))], axis=1))
    folder = Folder(tmp_path / "run")
    folder.open({}, 0)
    source, sizes = open_source(tmp_path / "cloud.npy"), Sizes(300, 700)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the normals are none of a surface
        entered = enter(source, folder, sizes, 1e-9, False, Here(), lambda _: None)
    cloud, known = entered.cloud, (points - entered.centre) / entered.scale
    assert cloud.tiles == 16 and np.array_equal(np.sort(cloud.column("ranks").read(0, 3001)), np.arange(3001))
    for x in (known[:40], np.array([[0.9, 0.9, 0.9]]), known[[0, 2000, 3000]]):
        distance, places, _ = cloud.nearest(x, 30)
        wanted, index = cKDTree(known).query(x, k=30)
        assert np.abs(distance - wanted).max() <= 1e-15 and np.array_equal(places, known[index])
    x = known[::300]
    cloud.column("inside").write(0, np.sin(cloud.column("points").read(0, 3001)[:, 0]))
    wanted = local_mean(cKDTree(known), np.sin(known[:, :1]), x)
    assert np.abs(cloud.local_mean("inside", x, 0.001) - wanted).max() <= 1e-12


def test_sizes_of_memory():
    """Units as people write them; what is too little, or no size, is said in a line."""
    assert [read_memory(text) for text in ("4GB", "1.5 gb", "500M", "2GiB", 10**9)] == [4e9, 1.5e9, 5e8, 2**31, 1e9]
    for text in ("", "much", "4 elephants", "-1GB", "nan"):
        with pytest.raises(CnfError, match="memory is a number with a unit"):
            read_memory(text)
    with pytest.raises(CnfError, match=r"^100 MB of memory are too little.* give \d+MB or more$") as told:
        choose_sizes(1e8, None, 7)
    choose_sizes(read_memory(str(told.value).split()[-3]), None, 7)  # what it says is enough
    with pytest.raises(CnfError, match=r"^4 bytes of memory are too little.* a unit, such as 4GB$"):
        choose_sizes(read_memory("4"), None, 7)
    with pytest.raises(CnfError, match="give more memory, or parts of"):
        choose_sizes(1e9, 10**6, 7)
    assert choose_sizes(4e9, None, 7).part == 50_000 and choose_sizes(6e8, None, 7).part < 50_000
    assert fits(100_000, 4e9) and not fits(20_000_000, 4e9)


def test_two_runs_do_not_share_a_folder(tmp_path: Path):
    """While one run holds the folder, another of the same mesh is told so, and nothing of the first is lost."""
    cloud, mesh = tmp_path / "cloud.npy", tmp_path / "mesh.ply"
    np.save(cloud, np.concatenate(torus(2200), axis=1))
    with pytest.raises(StoppedError):
        reconstruct_tiles(cloud, mesh, "1GB", part=1000, resolution=COARSE, report=Stop(4))
    key = json.loads((tmp_path / "mesh.ply.parts" / "run.json").read_text())
    with Folder.beside(mesh).opened(key, 0) as there, pytest.raises(FileError, match="another run is at work"):
        assert there
        reconstruct_tiles(cloud, mesh, "1GB", part=1000, resolution=COARSE)
    assert choose_tiles(cloud, mesh, None, [], 2) == "1000000000.0"  # what it took before, whatever there is now


def test_a_cloud_that_may_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch):
    """Without --memory, what there is decides: 2200 points of which each is said to take 300 KB are done by tiles."""
    monkeypatch.setattr("cnf.memory.memory_there_is", lambda: 7.6e8)
    monkeypatch.setattr("cnf.shapes.tiles.sizes.WHOLE", 300_000)
    cloud, mesh = tmp_path / "cloud.npy", tmp_path / "mesh.ply"
    np.save(cloud, np.concatenate(torus(2200), axis=1))
    asked = ["reconstruct", str(cloud), "--out", str(mesh), "--resolution", str(COARSE)]
    assert command(asked) == 0
    said = capsys.readouterr().out
    assert "note: 2200 points may need more memory than the 0.8 GB that there are: they are done by tiles" in said
    assert json.loads(mesh.with_suffix(".json").read_text())["settings"]["memory"] == 3.8e8
    assert choose_tiles(cloud, mesh, None, ["--snap"], 2) == ""
    assert "with --snap they are all held at once" in capsys.readouterr().out


def test_the_command_chooses(tmp_path: Path, capsys: pytest.CaptureFixture):
    """A limit below what 2200 points take: tiles, the mesh and its numbers; a bad one, or what needs all: one line."""
    cloud, mesh = tmp_path / "cloud.npy", tmp_path / "mesh.ply"
    np.save(cloud, np.concatenate(torus(2200), axis=1))
    asked = ["reconstruct", str(cloud), "--out", str(mesh), "--resolution", str(COARSE), "--memory"]
    assert command([*asked, "370MB"]) == 0
    numbers = json.loads(mesh.with_suffix(".json").read_text())
    assert numbers["mesh"]["watertight"] and numbers["certificate"]["exact"] and numbers["settings"]["memory"] == 3.7e8
    assert "watertight, 1 part, Euler number 0" in capsys.readouterr().out
    assert not mesh.with_suffix(".html").exists()
    for options, said in (
        (["much"], "memory is a number with a unit"),
        (["370MB", "--sharp"], "--sharp: not for clouds that need more"),
    ):
        assert command([*asked, *options]) == 1
        told = capsys.readouterr().err
        assert said in told and len(told.splitlines()) == 1


SCRIPT = """
import sys
from cnf.shapes.tiles.run import reconstruct_tiles

if __name__ == "__main__":
    reconstruct_tiles(*sys.argv[1:3], "1GB", part=1000, resolution=40, workers=int(sys.argv[3]))
"""


@pytest.mark.slow
def test_killed_parents_and_workers(tmp_path: Path):
    """SIGKILL to the run twice and to a worker of the third: the file is that of a run in one process."""
    cloud, script = tmp_path / "cloud.npy", tmp_path / "script.py"
    np.save(cloud, np.concatenate(torus(2200), axis=1))
    script.write_text(SCRIPT)
    reconstruct_tiles(cloud, tmp_path / "straight.ply", "1GB", part=1000, resolution=COARSE)
    made = tmp_path / "mesh.ply.parts"
    for step in ("spacing", "mesh 0", None):
        with subprocess.Popen([sys.executable, str(script), str(cloud), str(tmp_path / "mesh.ply"), "2"]) as process:
            while step and process.poll() is None and not list((made / step).glob("[0-9]*.npz")):
                time.sleep(0.01)
            if step:
                process.kill()
                continue
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            victims: list[str] = []
            while children.exists() and len(victims) < 3:  # who tracks resources, and two workers
                victims = children.read_text().split()
                time.sleep(0.01)
            if victims:
                os.kill(int(victims[-1]), signal.SIGKILL)
            assert process.wait(300) == 0
            assert victims or not Path("/proc/self/task").exists()
    assert (tmp_path / "mesh.ply").read_bytes() == (tmp_path / "straight.ply").read_bytes()
    assert not made.exists()


@pytest.mark.slow
def test_tiles_on_dask_are_those_of_one_process(tmp_path: Path):
    """Two workers of Dask make the file of one process, bit by bit."""
    cloud = tmp_path / "cloud.npy"
    np.save(cloud, np.concatenate(torus(2200), axis=1))
    reconstruct_tiles(cloud, tmp_path / "straight.ply", "1GB", part=1000, resolution=COARSE)
    with Dask(2) as cluster:
        reconstruct_tiles(cloud, tmp_path / "mesh.ply", "1GB", part=1000, resolution=COARSE, workers=cluster)
    assert (tmp_path / "mesh.ply").read_bytes() == (tmp_path / "straight.ply").read_bytes()
