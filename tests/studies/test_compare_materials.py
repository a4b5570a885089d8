"""`python -m studies compare-materials`: what it writes, and what it takes from earlier runs."""

from __future__ import annotations

import csv
import functools
import json
import shutil
from pathlib import Path

import pytest

from cnf.cli.main import run as run_cnf
from cnf.materials.fitting.methods import METHODS
from studies.__main__ import run
from studies.materials import cases, compare
from tests.materials.small import (
    GOLD,
    SMALL,
    check_refusal,
    count_fits,
    is_picture,
    measure_little,
    pack_networks,
)

refused = functools.partial(check_refusal, run)


@pytest.fixture(scope="module", autouse=True)
def one_light():
    with pytest.MonkeyPatch.context() as patch:
        measure_little(patch, cases)
        yield


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    return pack_networks(tmp_path)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fit without pictures; tests read it, none changes it."""
    folder = tmp_path_factory.mktemp("fits") / "gold"
    assert run_cnf(["material", "fit", GOLD, "--out", str(folder), "--no-picture", *SMALL]) == 0
    return folder


def test_help_names_every_method(capsys: pytest.CaptureFixture):
    assert run(["compare-materials", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split()).replace("- ", "-")
    assert all(name in said for name in METHODS)


def test_compare_goes_on_where_it_was(fitted: Path, packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Two materials in two rows; a second run fits what is missing only; other settings fit again."""
    made = count_fits(monkeypatch)
    names = ["--name", "bright", "--name", "dull"]
    command = ["compare-materials", str(packed), "--out", str(tmp_path / "a"), *names, *SMALL, "--methods"]
    with monkeypatch.context() as drawing:
        drawing.setattr(compare, "report", lambda *_: None)
        assert run([*command, "siren"]) == 0
    assert made == ["bright siren", "dull siren"]
    lobes: dict[str, list[str]] = {}

    def note(curves, path, *_):  # the drawing itself is slow, and tested with `fit`
        lobes[path.name] = [title for title, _ in curves]
        return path

    monkeypatch.setattr("cnf.materials.report.lobes.draw_lobes", note)
    assert run([*command, "siren,kernel-siren"]) == 0
    titles = ["Reference", "SIREN", "Kernel SIREN"]
    assert lobes == {"lobes_bright.png": titles, "lobes_dull.png": titles}
    assert made[2:] == ["bright kernel-siren", "dull kernel-siren"]
    assert all(is_picture(tmp_path / "a" / f"{name}.png") for name in ("comparison", "curves_bright", "curves_dull"))
    with (tmp_path / "a" / "study.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["material"], row["method"]) for row in rows] == [
        (name, method) for name in ("bright", "dull") for method in ("siren", "kernel-siren")
    ]
    assert all(float(row["residual"]) < 1e-10 for row in rows if row["method"] == "kernel-siren")


def test_compare_with_kept_fits(fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch):
    """The kept fit was made with the same settings: its row has the same errors; it is named after its folder."""
    monkeypatch.setattr("cnf.materials.report.lobes.draw_lobes", lambda curves, path, *_: path)
    copy = tmp_path / "copy"
    shutil.copytree(fitted, copy)
    command = ["compare-materials", GOLD, "--out", str(tmp_path / "a"), *SMALL, "--fits", f"{fitted},{copy}"]
    assert run(command) == 0
    with (tmp_path / "a" / "study.csv").open() as file:
        first, second = csv.DictReader(file)
    assert (first["method"], second["method"]) == ("kernel-grid", "Kernel grid, copy")
    told = json.loads((fitted / "fit.json").read_text())["numbers"]
    assert float(first["psnr"]) == float(second["psnr"]) == pytest.approx(told["psnr"], abs=1e-9)
    refused(capsys, [*command, "--methods", "other"], "no method 'other'")
    refused(capsys, [*command, "--fits", str(tmp_path)], "holds no fit")


def test_compare_does_not_take_the_results_of_another_source(packed: Path, tmp_path: Path, monkeypatch):
    """Two files with a material of one name: the second is fitted, not taken for the first."""
    made = count_fits(monkeypatch)
    monkeypatch.setattr(compare, "report", lambda *_: None)
    other = tmp_path / "b" / packed.name  # the same name and label
    other.parent.mkdir()
    shutil.copy(packed, other)
    for file in (packed, other):
        command = ["compare-materials", str(file), "--name", "dull", "--out", str(tmp_path / "a"), *SMALL]
        assert run([*command, "--methods", "nbrdf"]) == 0
    assert made == ["dull nbrdf"] * 2
