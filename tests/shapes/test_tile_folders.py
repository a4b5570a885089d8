"""The folder of a run by tiles: gone on with from anywhere, kept while that is of use, and told where it is damaged."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cnf.cli.main import run as command
from cnf.errors import CnfError, ExecutionError, FileError
from cnf.shapes.files import pieces
from cnf.shapes.tiles import run
from cnf.shapes.tiles.folder import Folder
from cnf.shapes.tiles.run import reconstruct_tiles
from cnf.shapes.tiles.sizes import Sizes
from tests.shapes.known_clouds import torus
from tests.shapes.test_tiles import COARSE, PART, Stop, StoppedError


@pytest.fixture(autouse=True)
def small_sorting(monkeypatch: pytest.MonkeyPatch):
    """No more than 1100 rows are sorted at once, as if memory held no more: tables are halved on disk."""
    monkeypatch.setattr(run, "choose_sizes", lambda memory, part, columns: Sizes(part or PART, 1100))


def test_a_run_goes_on_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Stopped, and gone on with where a run of the same names was stopped, too: no tile of that one is read."""
    for name, radius in (("here", 0.3), ("there", 0.6)):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        np.save("cloud.npy", np.concatenate(torus(2200, tube=radius), axis=1))
        with pytest.raises(StoppedError):
            reconstruct_tiles("cloud.npy", "mesh.ply", "1GB", resolution=COARSE, report=Stop(5))
        assert len(list(Path("mesh.ply.parts/sort").glob("[0-9]*.npz"))) == 1  # of two portions
    monkeypatch.chdir(tmp_path / "there")
    reconstruct_tiles("../here/cloud.npy", "../here/mesh.ply", "1GB", resolution=COARSE)
    monkeypatch.chdir(tmp_path / "here")
    reconstruct_tiles("cloud.npy", "straight.ply", "1GB", resolution=COARSE)
    assert Path("mesh.ply").read_bytes() == Path("straight.ply").read_bytes()


def _change(name: str, content: bytes | dict | None) -> Callable[[Path], None]:
    """What somebody does to a file: other bytes, other arrays, none."""

    def change(folder: Path) -> None:
        if content is None:
            (folder / name).unlink()
        elif isinstance(content, bytes):
            (folder / name).write_bytes(content)
        else:
            np.savez(folder / name, **content)

    return change


def test_folders_that_were_changed(tmp_path: Path):
    """Files of a run stopped before its pieces are joined, each damaged in turn: one line names it, or the folder."""
    cloud, mesh, whole = tmp_path / "cloud.npy", tmp_path / "mesh.ply", tmp_path / "whole"
    np.save(cloud, np.concatenate(torus(1200), axis=1))

    def stop(what: str) -> None:
        if what.startswith("joining"):
            raise StoppedError

    folder = Folder.beside(mesh).path
    with pytest.raises(StoppedError, match="finished tiles are kept"):
        reconstruct_tiles(cloud, mesh, "1GB", resolution=COARSE, report=stop)
    folder.rename(whole)
    for name, content in (
        ("run.json", b"[" * 100_000),
        ("run.json", b"\xff\xfe"),
        ("seen.json", b""),
        ("seen.json", b"[]"),
        ("seen.json", b'{"centre": "no"}'),
        ("sort portions.json", b'{"level": 1, "portions": [[1, 0, 0, "../../cloud.npy", 600]]}'),
        ("sort/0.npz", b"PK junk"),
        ("cover/0.npz", {"centres": np.zeros(3)}),
        ("balls.npz", {"bounds": np.zeros(3)}),
        ("points.column", None),
        ("points.column", b"short"),
        ("flow.nodes", None),
        ("mesh 0/0.npz", b"junk"),
        ("mesh 0/0.npz", {"vertices": np.array([{}], dtype=object)}),
        ("mesh 0/0.npz", {"vertices": np.zeros(3)}),
    ):
        shutil.copytree(whole, folder)
        _change(name, content)(folder)
        if name in ("flow.nodes", "points.column"):  # are read where something is left to do
            shutil.rmtree(folder / "mesh 0")
        if name == "cover/0.npz":
            (folder / "balls.json").unlink()
        with pytest.raises(FileError, match=r"is damaged: remove the folder .*, and start again") as told:
            reconstruct_tiles(cloud, mesh, "1GB", resolution=COARSE)
        assert str(folder) in str(told.value) and len(str(told.value).splitlines()) == 1
        assert not hasattr(told.value, "__notes__") and (folder / "run.json").exists()
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("points", "said"),
    [
        (np.tile([[0.5, 0.25, 1.0]], (30_000, 1)), "all 30000 points are at the same place"),
        (np.linspace(0, 1, 30_000)[:, None] * [[1.0, 2.0, 3.0]], "all 30000 points lie on one line"),
        (np.where(np.arange(90).reshape(30, 3) == 63, np.nan, torus(30)[0]), "the first is number 21 "),
    ],
)
def test_input_that_cannot_be_used_leaves_nothing(
    points: np.ndarray, said: str, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    """One line with the number of all points; no folder, and no word of tiles that are kept."""
    monkeypatch.setattr(run, "choose_sizes", lambda memory, part, columns: Sizes(5000, 20_000))
    monkeypatch.setattr(pieces, "AT_ONCE", 16)
    cloud, mesh = tmp_path / "cloud.npy", tmp_path / "mesh.ply"
    np.save(cloud, np.concatenate([points, np.tile([0, 0, 1.0], (len(points), 1))], axis=1))
    monkeypatch.setattr("cnf.shapes.tiles.sizes.WHOLE", 10**9)  # a point
    assert command(["reconstruct", str(cloud), "--out", str(mesh), "--memory", "400MB"]) == 1
    told = capsys.readouterr()
    assert said in told.err and len(told.err.splitlines()) == 1 and "are kept" not in told.out
    assert [path.name for path in tmp_path.iterdir()] == ["cloud.npy"]


def test_what_is_kept_as_a_run_ends(tmp_path: Path):
    """A full disk, a lost worker: kept, and said; bad input: kept only if there is a piece of the mesh."""
    folder = Folder(tmp_path / "mesh.ply.parts")
    for error, step, kept in (
        (FileError("cannot write: no space"), "sort", True),
        (ExecutionError("its process was killed"), "sort", True),
        (KeyboardInterrupt(), "sort", True),
        (KeyboardInterrupt(), "", False),
        (CnfError("opposite normals"), "sort", False),
        (CnfError("opposite normals"), "mesh 0", True),
    ):
        with pytest.raises(type(error)) as told, folder.opened({}, 0):
            folder.note("memory", {"bytes": 1})
            if step:
                folder.note("seen", {})
                (folder.path / step).mkdir()
                (folder.path / step / "0.npz").touch()
            raise error
        assert folder.path.exists() == kept
        assert hasattr(told.value, "__notes__") == (kept and type(error) is not CnfError)
        folder.remove()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"neighbours": -3}, "4 to 1000 neighbours; got -3"),
        ({"flatness": float("nan")}, "part of the grid's step, 0 to 1; got nan"),
        ({"merge": float("nan")}, "merging distance .* got nan"),
        ({"merge": -1.0}, "merging distance .* got -1"),
        ({"resolution": 0}, "from 8 to 4096; got 0"),
        ({"resolution": 1_000_000}, "from 8 to 4096; got 1000000"),
        ({"support": -1.0}, "a positive radius .* got -1"),
        ({"support": float("nan")}, "a positive radius .* got nan"),
    ],
)
def test_options_are_checked_first(options: dict, said: str, tmp_path: Path):
    """What `reconstruct` refuses is refused before a folder is made."""
    np.save(tmp_path / "cloud.npy", np.concatenate(torus(50), axis=1))
    with pytest.raises(CnfError, match=said):
        reconstruct_tiles(tmp_path / "cloud.npy", tmp_path / "mesh.ply", "1GB", **options)
    assert [path.name for path in tmp_path.iterdir()] == ["cloud.npy"]
