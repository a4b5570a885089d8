"""`cnf reconstruct` as it is typed: what it writes, what it says, and how it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cnf.cli.main import run
from cnf.shapes.clouds.cloud import PointCloud
from cnf.shapes.files.reading import read_cloud, read_mesh
from cnf.shapes.files.writing import write_cloud


@pytest.fixture
def cloud(tmp_path: Path) -> Path:
    """150 points of the unit sphere, their normals, and a temperature called alpha."""
    k = np.arange(150) + 0.5
    height, angle = 1 - 2 * k / 150, np.pi * (1 + 5**0.5) * k
    x = np.stack([np.sqrt(1 - height**2) * np.cos(angle), np.sqrt(1 - height**2) * np.sin(angle), height], axis=1)
    return write_cloud(PointCloud(x, x, {"alpha": 100 + 5 * x[:, :1]}), tmp_path / "sphere.csv")


def options(cloud: Path, *more: str) -> list[str]:
    return ["reconstruct", str(cloud), "-o", str(cloud.with_name("mesh.ply")), "--resolution", "24", *more]


def test_mesh_numbers_and_picture(cloud: Path, capsys: pytest.CaptureFixture):
    """A closed sphere through its points, the numbers beside it, a PNG; values outside 0..1 keep their size."""
    assert run(options(cloud, "--snap")) == 0
    mesh = read_mesh(cloud.with_name("mesh.ply"))
    assert mesh.is_watertight and mesh.euler == 2
    assert mesh.attributes["alpha"].min() >= 95 and mesh.attributes["alpha"].max() <= 105
    assert np.ptp(mesh.attributes["alpha"]) > 8
    told = json.loads(cloud.with_name("mesh.json").read_text())
    assert told["certificate"]["exact"] and told["certificate"]["worst_normal"] <= 1e-9
    assert told["mesh"]["watertight"] and told["mesh"]["euler"] == 2
    assert "attribute alpha" in told["certificate"]["residuals"]
    assert cloud.with_name("mesh.png").read_bytes().startswith(b"\x89PNG")
    page = cloud.with_name("mesh.html").read_text(encoding="utf-8")
    assert "<title>sphere</title>" in page and f"<dd>{len(mesh.faces):,}</dd>" in page
    assert set(told["run"]["files"]) == {"mesh.ply", "mesh.png", "mesh.html"}
    assert "watertight, 1 part, Euler number 2" in capsys.readouterr().out


def test_pictures_and_pages_of_an_earlier_run_go(cloud: Path):
    """They show another mesh; one that was changed or put there by somebody else stays."""
    shown = {"--no-picture": cloud.with_name("mesh.png"), "--no-viewer": cloud.with_name("mesh.html")}
    assert run(options(cloud)) == 0 and all(file.exists() for file in shown.values())
    assert run(options(cloud, *shown)) == 0 and not any(file.exists() for file in shown.values())
    for file in shown.values():
        file.write_bytes(b"mine")
    assert run(options(cloud, *shown)) == 0 and all(file.read_bytes() == b"mine" for file in shown.values())


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--turn", "nan"], "--turn"),
        (["--up", "w"], "--up"),
        (["--normals", "soft"], "exact"),
        (["--resolution", "3"], "resolution"),
        (["--merge", "7"], "merging"),
        (["-o", "mesh.doc"], ".ply"),
    ],
)
def test_refusals(cloud: Path, more: list[str], words: str, capsys: pytest.CaptureFixture):
    """One line on stderr, exit code 1, nothing written."""
    assert run(options(cloud, "--no-picture", *more)) == 1
    error = capsys.readouterr().err.strip()
    assert error.startswith("error:") and words in error and "\n" not in error
    assert not cloud.with_name("mesh.ply").exists()


def test_the_input_is_never_overwritten(cloud: Path):
    source = write_cloud(read_cloud(cloud), cloud.with_name("points.ply"))
    before = source.read_bytes()
    assert run(["reconstruct", str(source), "-o", str(source)]) == 1
    assert source.read_bytes() == before


def test_close_points_are_told_before_the_failure_and_merged_on_request(cloud: Path, capsys: pytest.CaptureFixture):
    """Five points twice, 1e-7 apart: refused as dependent, with a note before; --merge 1e-5 makes them one each."""
    given = read_cloud(cloud)
    doubled = PointCloud(np.r_[given.points, given.points[:5] + 1e-7], np.r_[given.normals, given.normals[:5]])
    near = write_cloud(doubled, cloud.with_name("near.csv"))
    code = run(options(near, "--no-picture"))
    told = capsys.readouterr()
    assert code == 1 and "--merge" in told.err + told.out and "very close" in told.out
    assert run(options(near, "--no-picture", "--merge", "1e-5")) == 0
    assert json.loads(near.with_name("mesh.json").read_text())["settings"]["points"] == 150


def test_flip_turns_the_surface(cloud: Path, capsys: pytest.CaptureFixture):
    """Inward normals are told; --flip makes the volume that of a sphere with outward faces."""
    given = read_cloud(cloud)
    inward = write_cloud(PointCloud(given.points, -given.normals), cloud.with_name("inward.csv"))
    assert run(options(inward, "--no-picture", "--flip")) == 0
    assert "point into the shape" not in capsys.readouterr().out
    assert read_mesh(cloud.with_name("mesh.ply")).volume == pytest.approx(4 * np.pi / 3, rel=0.02)
