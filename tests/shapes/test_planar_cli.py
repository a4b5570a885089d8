"""`cnf study normals` and `cnf shape 2d`: one line per error, the files they promise, nothing lost on Ctrl-C."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import cnf
from cnf.cli.main import run
from cnf.shapes.commands import planar
from studies.normals import study as planar_study

FILES = ("normals.txt", "normals.md", "normals.csv", "normals_curves.csv", "normals_fields.png", "normals_errors.png")


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["--shapes", "circel"], 1, "Did you mean 'circle'?"),
        (["--methods", "exact,hermit"], 1, "Did you mean 'hermite'?"),
        (["--epochs", "0"], 2, "--epochs"),
        (["--out", "/proc/nowhere"], 1, "cannot write"),
    ],
)
def test_bad_input_is_one_line_before_any_work(
    arguments: list[str], code: int, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["study", "normals", *arguments]) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1
    assert part in shown.err


def test_tables_csv_and_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three methods on the circle beside the paper's table (1.083e-6 for exact ones); ours hold to 1e-12."""
    arguments = ["--quick", "--epochs", "2", "--shapes", "circle", "--methods", "exact,pseudo,hermite"]
    assert run(["study", "normals", *arguments, "--out", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "1.1e-06" in text
    assert "smaller than the paper's" in text
    assert (tmp_path / "normals.txt").read_text().strip() in text
    for name in (*FILES, "normals_curves.png"):
        assert (tmp_path / name).stat().st_size > 0
    assert (tmp_path / "normals_fields.png").read_bytes().startswith(b"\x89PNG")
    rows = {row["method"]: row for row in csv.DictReader((tmp_path / "normals.csv").read_text().splitlines())}
    assert list(rows) == ["exact", "pseudo", "hermite"]
    for method in ("exact", "hermite"):
        assert float(rows[method]["worst_normal_error"]) <= 1e-12
    assert float(rows["exact"]["start_worst_normal_error"]) <= 1e-12
    assert float(rows["exact"]["paper"]) == 1.083e-6
    assert float(rows["pseudo"]["normal_error"]) > 1e-3
    curves = list(csv.DictReader((tmp_path / "normals_curves.csv").read_text().splitlines()))
    assert [(row["method"], row["epoch"]) for row in curves] == [(m, e) for m in ("exact", "pseudo") for e in "01"]


def test_interruption_keeps_what_is_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the second case: exit code 130, and the first is in table, CSV and pictures."""
    genuine = planar_study.study_case

    def interrupted(name: str, *rest, **options):
        if name == "diamond":
            assert len((tmp_path / "normals.csv").read_text().splitlines()) == 2  # written before the next begins
            raise KeyboardInterrupt
        return genuine(name, *rest, **options)

    monkeypatch.setattr(planar_study, "study_case", interrupted)
    arguments = ["--quick", "--shapes", "circle,diamond", "--methods", "hermite", "--out", str(tmp_path)]
    assert run(["study", "normals", *arguments]) == 130
    assert "interrupted; what is finished" in capsys.readouterr().out
    assert all((tmp_path / name).stat().st_size > 0 for name in FILES)
    assert not (tmp_path / "normals_curves.png").exists()  # nothing was trained


# -- cnf shape 2d ----------------------------------------------------------------------------------------------------


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
