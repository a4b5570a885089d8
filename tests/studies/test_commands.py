"""`python -m studies`: help, one line per error, and nothing begun before the options are known to be right."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnf.shapes.files.writing import write_mesh
from studies.__main__ import run
from studies.listing import list_studies
from tests.studies.ellipsoid import make_ellipsoid


def test_help_lists_every_study_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for study in list_studies():
        first = (study.__doc__ or "").partition("\n")[0]
        assert any(line.split() == [study.name, *first.split()] for line in lines), study.name


def test_help_of_a_study_has_its_options_and_those_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["conditioning", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Usage: python -m studies conditioning" in shown
    assert all(option in shown for option in ("--points", "--workers", "--restart", "--no-pictures", "--out"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder whose `spot` is an ellipsoid."""
    (tmp_path / "data" / "mesh").mkdir(parents=True)
    write_mesh(make_ellipsoid(), tmp_path / "data" / "mesh" / "spot.obj")
    return tmp_path / "data"


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        ("nonsense", 2, "nonsense"),
        ("conditioning --points 60", 1, "square"),
        ("conditioning --points 1", 1, "square"),
        ("conditioning --parameters 10", 1, "parameters"),
        ("conditioning --parameters nan", 1, "parameters"),
        ("conditioning --steps 0", 2, "--steps"),
        ("conditioning --seed -1", 2, "--seed"),
        ("conditioning --workers 0", 2, "--workers"),
        ("conditioning --out /proc/nowhere", 1, "cannot write"),
        ("transfer --perturbation -1", 1, "at least 0"),
        ("transfer --perturbation inf", 1, "finite"),
        ("advection --levels much", 1, "--levels takes numbers"),
        ("advection --levels -1", 1, "at least 0"),
        ("advection --levels 0.1,inf", 1, "finite"),
        ("advection --methods siren,rbff", 1, "Did you mean 'rbf'?"),
        ("advection --seeds 0", 2, "--seeds"),
        ("advection --steps 0", 2, "--steps"),
        ("normals --shapes circel", 1, "Did you mean 'circle'?"),
        ("normals --methods exact,hermit", 1, "Did you mean 'hermite'?"),
        ("normals --epochs 0", 2, "--epochs"),
        ("shapes --shapes camel", 1, "there is no shape 'camel'"),
        ("shapes --shapes horse", 1, "for the shape 'horse'"),
        ("shapes --shapes spot --methods cnff", 1, "Did you mean 'cnf'"),
        ("shapes --shapes spot --data nowhere", 1, "set --data to a folder"),
        ("shapes --shapes spot --methods open3d-poisson-8 --peers-python /no", 1, "cannot be started"),
        ("scaling --sizes 1000,many", 1, "--sizes takes whole numbers"),
        ("scaling --sizes 3", 1, "from 100 to"),
        ("scaling --mode magic", 1, "there is no mode 'magic'"),
    ],
)
def test_bad_input_is_one_line_before_any_work(
    words: str,
    code: int,
    part: str,
    data: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CNF_DATA", str(data))
    monkeypatch.chdir(data)
    assert run(words.split()) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ") and shown.err.count("\n") == 1
    assert part.lower() in shown.err.lower()


def test_without_data_the_error_says_what_to_set(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CNF_DATA", raising=False)
    for name in ("shapes", "materials"):
        assert run([name]) == 1
        assert "set the environment variable CNF_DATA" in capsys.readouterr().err
