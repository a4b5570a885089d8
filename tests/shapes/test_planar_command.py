"""`cnf shape 2d`: the curve it finds, the files it promises, and how it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import cnf
from cnf.shapes.commands import planar


def write_circle(path: Path, count: int = 16, normals: bool = True) -> Path:
    """A circle of radius 3 around (5, -2)."""
    t = np.linspace(0, 2 * np.pi, count, endpoint=False)
    unit = np.stack([np.cos(t), np.sin(t)], axis=1)
    table = np.concatenate([np.array([5, -2]) + 3 * unit, unit], axis=1)
    columns = 4 if normals else 2
    lines = [",".join(f"{v!r}" for v in row[:columns].tolist()) for row in table]
    path.write_text("\n".join([",".join(["x", "y", "nx", "ny"][:columns]), *lines]) + "\n")
    return path


@pytest.mark.parametrize("normals", [True, False], ids=["normals given", "normals estimated"])
def test_shape_2d(tmp_path: Path, normals: bool) -> None:
    """The curve is the circle to 1 %; the field is exact, comes back from its file, and is the distance near it."""
    file, out = write_circle(tmp_path / "points.csv", 16 if normals else 40, normals), tmp_path / "out"
    done = CliRunner().invoke(planar.shape, ["2d", str(file), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "certificate: exact" in done.output
    assert "1 curve, 1 closed" in done.output
    assert ("estimated" in done.output) == (not normals)
    table = np.loadtxt(out / "curve.csv", delimiter=",", skiprows=1)
    assert np.abs(np.linalg.norm(table[:, 1:] - [5, -2], axis=1) - 3).max() <= 0.03
    assert (out / "curve.png").read_bytes().startswith(b"\x89PNG")
    drawing = (out / "curve.svg").read_text()
    assert drawing.count("<path") == 1
    assert drawing.count("<circle") == (16 if normals else 40)
    facts = json.loads((out / "curve.json").read_text())
    assert facts["exact"] is True
    assert facts["normals_estimated"] is (not normals)
    field = cnf.load(out / "field.pt").eval()
    near = np.array([5, -2]) + np.array([[3.1, 0.0], [0.0, -2.9]])
    scaled = (near - np.array(facts["centre"])) / facts["scale"]
    values = facts["scale"] * field(torch.as_tensor(scaled))[:, 0].detach().numpy()
    assert values == pytest.approx([0.1, -0.1], abs=0.02)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--normals", "soft"], "'exact' or 'pseudo'"),
        (["--epochs", "3"], "belong to --train"),
        (["--offset", "0.1"], "--normals pseudo"),
        (["--normals", "pseudo", "--offset", "-1"], "positive length"),
        (["--out", "/proc/nowhere"], "cannot write"),
    ],
)
def test_shape_2d_refusals(tmp_path: Path, arguments: list[str], part: str) -> None:
    file = write_circle(tmp_path / "points.csv")
    done = CliRunner().invoke(planar.shape, ["2d", str(file), "--out", str(tmp_path / "out"), *arguments])
    assert isinstance(done.exception, cnf.errors.CnfError)
    assert part in str(done.exception)
    assert "\n" not in str(done.exception)


def test_shape_2d_wants_the_plane(tmp_path: Path) -> None:
    file = tmp_path / "space.csv"
    file.write_text("x,y,z\n0,0,0\n1,0,0\n0,1,0\n0,0,1\n")
    done = CliRunner().invoke(planar.shape, ["2d", str(file), "--out", str(tmp_path / "out")])
    assert isinstance(done.exception, cnf.errors.CnfError)
    assert "3 coordinates" in str(done.exception)
