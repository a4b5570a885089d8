"""Sweeps: values, places, answers that are known for every value, tables and pictures, and runs that go on."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from PIL import Image

import cnf
from cnf.cli.main import run
from cnf.errors import CnfError, FileError, ProblemError
from cnf.pde.problems.templates import read_file, read_template
from cnf.pde.sweeps.axes import combine, read_axes
from cnf.pde.sweeps.places import find_place, make_changes
from cnf.pde.sweeps.solving import SolveCase
from cnf.pde.sweeps.sweep import Asked

LOAD = r"""title = "Load"
coordinates = "x"
[parameters]
k = 1.0
[domain]
type = "interval"
from = 0
to = 1
[[equations]]
on = "interior"
equation = "-u'' = k"
[[equations]]
on = "boundary"
equation = 'u = 0'
[points]
count = 12
[tuning]
objective = "none"
"""
HEAT = r"""title = "Cooling"
coordinates = "x y"
[parameters]
kappa = 1
[domain]
type = "box"
lower = [0, 0]
upper = [1, 1]
[[equations]]
on = "interior"
equation = '-\Delta u + \kappa u = 1'
[[equations]]
on = "boundary"
equation = 'u = 0'
[points]
count = 60
[basis]
bandwidth = 0.5
[tuning]
objective = "none"
[solve]
target = 1
"""


@pytest.fixture
def load(tmp_path: Path) -> Path:
    """-u'' = k on (0, L), zero at both ends: u = k x (L - x) / 2, at most k L^2 / 8."""
    path = tmp_path / "load.toml"
    path.write_text(LOAD)
    return path


# -- values ------------------------------------------------------------------------------------------------------------


def test_values_as_they_are_written():
    """Ranges as NumPy spaces them, with the digits a person would write; lists as they are."""
    (axis,) = read_axes(["nu=0.1:1:10"])
    assert axis.key == "nu" and axis.values == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    (axis,) = read_axes(["nu=1e-3:1:7:log"])
    assert np.allclose(axis.values, np.geomspace(1e-3, 1, 7), rtol=1e-11) and axis.values[::6] == (1e-3, 1)
    (axis,) = read_axes(["n=100:400:4"])
    assert axis.values == (100, 200, 300, 400) and all(isinstance(value, int) for value in axis.values)
    assert read_axes({"a": "2, -1,0.5"})[0].values == (2, -1, 0.5)
    assert combine(read_axes({"a": [1, 2], "b": [3.0, 4.0]})) == [
        {"a": 1, "b": 3.0},
        {"a": 1, "b": 4.0},
        {"a": 2, "b": 3.0},
        {"a": 2, "b": 4.0},
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("nu", "does not say what is swept"),
        ("nu=", "no number"),
        ("nu=a,b", "'a' is no number"),
        ("nu=1:2", "no range"),
        ("nu=1:2:3:even", "no range"),
        ("nu=1:2:1", "from 2 to 10000 values"),
        ("nu=1:2:2.5", "from 2 to 10000 values"),
        ("nu=0:1:5:log", "one sign, neither of them 0"),
        ("nu=1,2,1", "1 twice"),
        ("nu=nan,1", "finite"),
        ("nu=1:1e999:3", "finite"),
    ],
)
def test_values_that_make_no_sense(given: str, message: str):
    with pytest.raises(CnfError, match=message):
        read_axes([given])


def test_too_many_and_twice():
    with pytest.raises(CnfError, match="1000000 cases"):
        read_axes(["a=0:1:1000", "b=0:1:1000"])
    with pytest.raises(CnfError, match="a is swept twice"):
        read_axes(["a=1,2", "a=3"])


# -- places ------------------------------------------------------------------------------------------------------------


def test_numbers_are_found_and_changed():
    """By the name of a parameter or by their key; what is left out of the file and counts in lists, too."""
    entries = {
        "parameters": {"nu": 0.1, "k": {"left": 1, "right": 2}},
        "domain": {"upper": [1, 2.5]},
        "basis": "rbf",
        "points": {"count": 80},
    }
    for key, place in {
        "nu": ("parameters", "nu"),
        "k.left": ("parameters", "k", "left"),
        "domain.upper.1": ("domain", "upper", 1),
        "basis.bandwidth": ("basis", "bandwidth"),
        "solve.target": ("solve", "target"),
        "points.count": ("points", "count"),
        "seed": ("seed",),
    }.items():
        assert find_place(entries, key) == place
    changed = make_changes(entries, {("domain", "upper", 1): 3, ("domain", "upper", 0): 2.0, ("points", "count"): 90.0})
    assert changed == {"domain": {"upper": [2, 3]}, "points": {"count": 90}}
    assert isinstance(changed["points"]["count"], int) and isinstance(changed["domain"]["upper"][1], float)
    assert make_changes(entries, {("basis", "bandwidth"): 0.5}) == {"basis": {"type": "rbf", "bandwidth": 0.5}}
    assert make_changes(entries, {("seed",): 3}) == {"seed": 3}
    assert entries["domain"] == {"upper": [1, 2.5]}  # what was read is not touched


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("mu", r"no number called 'mu'.*\(nu\)"),
        ("points.interior", "no 'points.interior' in the problem: points has count"),
        ("domain.type", "domain.type is no number but 'box'"),
        ("domain.upper.2", "a list of 2, numbered from 0"),
        ("domain.upper", "no number but"),
    ],
)
def test_numbers_that_are_not_there(key: str, message: str):
    entries = {"parameters": {"nu": 1}, "domain": {"type": "box", "upper": [1, 2]}, "points": {"count": 80}}
    with pytest.raises(CnfError, match=message):
        find_place(entries, key)


# -- answers -----------------------------------------------------------------------------------------------------------


def test_every_answer_is_that_of_its_value(load: Path):
    """u = k x (L - x) / 2 for six pairs of k and L: fields, ranges and order; none is kept without a folder."""
    found = cnf.sweep(load, {"k": [1, -2], "domain.to": "1:3:3"})
    assert [tuple(row.values.values()) for row in found.rows] == [(k, L) for k in (1, -2) for L in (1, 2, 3)]
    for row in found.rows:
        k, length = row.values["k"], row.values["domain.to"]
        assert row.good and row.found is not None and row.found["exact"]
        x = torch.linspace(0, length, 7, dtype=torch.float64)[:, None]
        assert torch.allclose(row.load()(x), k * x * (length - x) / 2, atol=1e-9)
        ends = sorted((0.0, k * length**2 / 8))
        assert row.found["ranges"]["u"] == pytest.approx(ends, abs=1e-5)
    folder = found.folder
    assert folder.is_dir()
    del found, row
    assert not folder.exists()


def test_a_case_that_fails_is_a_row(load: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Lengths -1, 1, 2: the first has no inside; the others are solved, the exit code is 1, and one line says it."""
    out = tmp_path / "out"
    assert run(["solve", str(load), "--sweep", "domain.to=-1,1,2", "--out", str(out)]) == 1
    shown = capsys.readouterr()
    assert shown.err == "error: 1 of 3 problems have no good answer; see the lines above\n"
    assert "1 of 3" in shown.out and "domain.to=-1" in shown.out and "Traceback" not in shown.out
    rows = list(csv.DictReader((out / "table.csv").read_text().splitlines()))
    assert [row["answer"] for row in rows] == ["failed", "good", "good"]
    assert "load.toml, line" in rows[0]["reason"] and str(tmp_path) not in rows[0]["reason"]
    assert float(rows[2]["largest u"]) == pytest.approx(0.5, abs=1e-5)
    assert sorted(path.name for path in (out / "cases").iterdir()) == ["domain.to=1", "domain.to=2"]
    assert "exact" in (out / "cases" / "domain.to=1" / "certificate.txt").read_text().lower()
    assert all(len(line) <= 80 for line in shown.out.splitlines() if " of 3 " in line)


def test_mistakes_are_told_before_anything_is_solved(load: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "out"
    for given in ("mu=1,2", "k=1:2", "points.inside=3,4"):
        assert run(["solve", str(load), "--sweep", given, "--out", str(out)]) == 1
        assert capsys.readouterr().err.startswith("error: ")
    load.write_text(LOAD.replace("-u'' = k", "-u'' = k +"))
    with pytest.raises(ProblemError, match=r"load\.toml, line 11"):
        cnf.sweep(load, {"k": [1, 2]})
    assert not out.exists()


# -- going on ----------------------------------------------------------------------------------------------------------


def test_a_sweep_goes_on(load: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Interrupted at the third of five values, then asked for seven: two are not solved again, five are."""
    out, solved = tmp_path / "out", []
    solve = SolveCase.__call__

    def counting(work: SolveCase, changes: dict) -> object:
        solved.append(changes["parameters"]["k"])
        if len(solved) == 3:
            raise KeyboardInterrupt
        return solve(work, changes)

    monkeypatch.setattr(SolveCase, "__call__", counting)
    with pytest.raises(KeyboardInterrupt):
        cnf.sweep(load, {"k": "1:5:5"}, out=out)
    assert sorted(path.name for path in (out / "cases").iterdir()) == ["k=1", "k=2"]
    before = (out / "cases" / "k=1" / "case.json").read_bytes()
    found = cnf.sweep(load, {"k": "1:7:7"}, out=out)
    assert solved == [1, 2, 3, 3, 4, 5, 6, 7]
    assert [row.repeated for row in found.rows] == [True, True, False, False, False, False, False]
    assert (out / "cases" / "k=1" / "case.json").read_bytes() == before
    (out / "cases" / "k=4" / "case.json").write_text("{")  # damaged
    assert [row.repeated for row in cnf.sweep(load, {"k": [4, 5]}, out=out).rows] == [False, True]


def test_a_sweep_of_another_problem_is_refused(load: Path, tmp_path: Path):
    """The file, its options and its data decide; nothing is touched."""
    out = tmp_path / "out"
    cnf.sweep(load, {"k": [1]}, out=out)
    with pytest.raises(FileError, match="the option for seed changed since"):
        cnf.sweep(load, {"k": [1]}, out=out, seed=4)
    load.write_text(LOAD.replace("count = 12", "count = 14"))
    with pytest.raises(FileError, match=r"the text of load\.toml changed since; choose another folder, or remove"):
        cnf.sweep(load, {"k": [1]}, out=out)
    load.write_text(LOAD)
    assert cnf.sweep(load, {"k": [1]}, out=out).rows[0].repeated


def test_data_that_a_file_names_belong_to_it(tmp_path: Path):
    """Measurements that change make another problem, as the text does."""
    path, data = tmp_path / "sensors.toml", tmp_path / "sensors.csv"
    path.write_text(read_template("sensors"))
    data.write_text(read_file("sensors.csv"))
    asked = Asked.read(path, {"seed": [1, 2]}, {})
    before = asked.checksums()
    assert before["the file sensors.csv"] == hashlib.sha256(data.read_bytes()).hexdigest()
    data.write_text(data.read_text() + "\n")
    changed = {name for name, value in asked.checksums().items() if before[name] != value}
    assert changed == {"the file sensors.csv"}


# -- what there is to see ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_pictures_and_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A plane for six values: one frame each, all of them on one scale; a page that is XML, with a line for each."""
    path, out = tmp_path / "heat.toml", tmp_path / "out"
    path.write_text(HEAT)
    assert (
        run(["solve", str(path), "--sweep", "kappa=1:100:3:log", "--sweep", "points.count=50,60", "--out", str(out)])
        == 0
    )
    assert "6 of 6 problems solved" in capsys.readouterr().out
    with Image.open(out / "animation.gif") as moving:
        assert moving.n_frames == 6  # type: ignore[attr-defined]
        colours = []
        for k in range(6):
            moving.seek(k)
            colours.append(np.asarray(moving.convert("RGB"), dtype=float))
    # On one scale, only what is as high as anything of all frames is yellow; the bar is on the right.
    maps = [picture[:, : int(0.75 * picture.shape[1])] for picture in colours]
    yellow = [bool(((m[..., 0] > 200) & (m[..., 1] > 200) & (m[..., 2] < 90)).any()) for m in maps]
    assert yellow == [True, True, False, False, False, False]
    text = (out / "report.html").read_text()
    ElementTree.fromstring(text.replace("<!DOCTYPE html>", ""))
    assert text.count("<tr>") == 7 and len(re.findall("data:image/", text)) == 3
    rows = json.loads((out / "table.json").read_text())["rows"]
    assert [row["kappa"] for row in rows] == [1, 1, 10, 10, 100, 100]
    assert all(row["exact"] and 0 < row["largest u"] < 1 / row["kappa"] for row in rows)  # the maximum principle
    assert (out / rows[3]["folder"] / "solution.pt").is_file()
