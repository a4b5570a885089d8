"""`python -m studies normals`: one line per error, the files it promises, nothing lost on Ctrl-C."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from studies.__main__ import run
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
    assert run(["normals", *arguments]) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1
    assert part in shown.err


def test_tables_csv_and_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three methods on the circle beside the paper's table (1.083e-6 for exact ones); ours hold to 1e-12."""
    arguments = ["--quick", "--epochs", "2", "--shapes", "circle", "--methods", "exact,pseudo,hermite"]
    assert run(["normals", *arguments, "--out", str(tmp_path)]) == 0
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
    assert run(["normals", *arguments]) == 130
    assert "interrupted; what is finished" in capsys.readouterr().out
    assert all((tmp_path / name).stat().st_size > 0 for name in FILES)
    assert not (tmp_path / "normals_curves.png").exists()  # nothing was trained
