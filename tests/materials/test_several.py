"""Several materials: found in files, archives and folders, fitted one by one, kept, and gone on with."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch

from cnf.cli.main import run
from cnf.errors import CnfError
from cnf.materials.fitting.folders import load_fit
from cnf.materials.several.sources import list_sources

LIST = "theta_h,theta_d,phi_d,r,g,b\n0.1,0.2,0.3,1,2,3\n0.2,0.3,0.4,1,2,3\n"
TINY = (
    "--samples",
    "2000",
    "--epochs",
    "1",
    "--batch",
    "500",
    "--parameters",
    "400",
    "--conditions",
    "5",
    "--size",
    "16",
)


def test_sources_have_names_of_their_own(tmp_path: Path):
    """Two files of one name in two folders are told apart by these; words are names; a folder lists its materials."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "gold.csv").write_text(LIST)
    (tmp_path / "two" / "notes.txt").write_text("no material")
    (tmp_path / "two" / "red.csv").write_text(LIST)
    found = list_sources([str(tmp_path / "one" / "gold.csv"), str(tmp_path / "two"), "lambert:0.5"])
    assert [one.name for one in found] == ["one-gold", "two-gold", "red", "lambert-0.5"]
    assert found[0].contents == found[1].contents != "" and found[3].identity["contents"] == "lambert:0.5"
    (tmp_path / "none").mkdir()
    with pytest.raises(CnfError, match="holds no materials"):
        list_sources([str(tmp_path / "none")])


@pytest.mark.slow
def test_several_materials_are_fitted_and_gone_on_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Two and a broken one: a line and an exit code of 1; with it mended by another, only that is fitted."""
    broken, out = tmp_path / "broken.csv", tmp_path / "out"
    broken.write_text(LIST.replace("0.2,0.3,0.4", "0.2,x,0.4"))
    command = ["material", "fit", "lambert:0.5", "--out", str(out), "--basis", "nbrdf", "--no-picture", *TINY]
    assert run([*command, "ggx:gold:0.3", str(broken)]) == 1
    shown = capsys.readouterr()
    assert shown.err == "error: 1 of 3 materials have no good fit; see the lines above\n"
    assert "broken: " in shown.out and "Traceback" not in shown.out
    rows = list(csv.DictReader((out / "table.csv").read_text().splitlines()))
    assert [(row["material"], row["fit"]) for row in rows] == [
        ("lambert-0.5", "no conditions"),
        ("ggx-gold-0.3", "no conditions"),
        ("broken", "failed"),
    ]
    first = (out / "lambert-0.5" / "model.pt").read_bytes()
    assert run([*command, "ggx:gold:0.3", "ggx:silver:0.3"]) == 0
    assert "2 of 3 kept" in capsys.readouterr().out
    assert (out / "lambert-0.5" / "model.pt").read_bytes() == first
    kept = load_fit(out / "ggx-silver-0.3")
    assert kept.fit.settings.samples == 2000 and kept.source.path == "ggx:silver:0.3"
    assert all(bool(torch.isfinite(p).all()) for p in kept.fit.model.parameters())
    assert run([*command, "ggx:gold:0.3", "--seed", "3"]) == 1
    assert "the setting seed changed since" in capsys.readouterr().err


def test_options_of_one_material_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    out = ["--out", str(tmp_path / "out")]
    assert run(["material", "fit", "lambert:0.5", "lambert:0.4", "--name", "a", *out]) == 1
    assert "their own names" in capsys.readouterr().err
    assert run(["material", "fit", "lambert:0.5", "--workers", "2", *out]) == 1
    assert "are of several" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
