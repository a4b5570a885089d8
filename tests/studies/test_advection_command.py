"""`python -m studies advection`: one line per error, the files it promises, and nothing lost on Ctrl-C."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from studies.__main__ import run
from studies.advection import study as advection_study

FILES = ("advection.txt", "advection.md", "advection.csv", "advection_curves.csv", "advection_errors.png")


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["--levels", "much"], 1, "--levels takes numbers"),
        (["--levels", "-1"], 1, "at least 0"),
        (["--levels", "0.1,inf"], 1, "finite"),
        (["--methods", "siren,rbff"], 1, "Did you mean 'rbf'?"),
        (["--seeds", "0"], 2, "--seeds"),
        (["--steps", "0"], 2, "--steps"),
        (["--out", "/proc/nowhere"], 1, "cannot write"),
    ],
)
def test_bad_input_is_one_line_before_any_work(
    arguments: list[str], code: int, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["advection", *arguments]) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1
    assert part in shown.err


def test_tables_csv_and_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two levels, two methods, 256 conditions: four rows, beside the paper's (0.2830 for rbf at level 1)."""
    arguments = ["--quick", "--levels", "0.1,1", "--methods", "rbf", "--methods", "skewed-rbf", "--steps", "1"]
    assert run(["advection", *arguments, "--out", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "256 conditions" in text
    assert "The paper has 1024 conditions, this run 256." in text
    assert (tmp_path / "advection.txt").read_text().strip() in text
    assert "0.2830" in text
    assert all((tmp_path / name).stat().st_size > 0 for name in (*FILES, "advection_curves.png", "advection_maps.png"))
    rows = list(csv.DictReader((tmp_path / "advection.csv").read_text().splitlines()))
    assert [(row["perturbation"], row["method"]) for row in rows] == [
        ("0.1", "rbf"),
        ("0.1", "skewed-rbf"),
        ("1.0", "rbf"),
        ("1.0", "skewed-rbf"),
    ]
    assert all(float(row["rmse"]) < float(row["paper_rmse"]) for row in rows)


def test_interruption_keeps_what_is_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the second case: exit code 130, and the first is in table, CSV and picture."""
    genuine = advection_study.study_case

    def interrupted(level: float, *rest, **options):
        if level == 0.5:
            assert len((tmp_path / "advection.csv").read_text().splitlines()) == 2  # written before the next begins
            raise KeyboardInterrupt
        return genuine(level, *rest, **options)

    monkeypatch.setattr(advection_study, "study_case", interrupted)
    arguments = ["--quick", "--levels", "0.1,0.5", "--methods", "rbf", "--out", str(tmp_path)]
    assert run(["advection", *arguments]) == 130
    shown = capsys.readouterr()
    assert "interrupted; what is finished" in shown.out
    assert all((tmp_path / name).stat().st_size > 0 for name in FILES)
    assert not (tmp_path / "advection_curves.png").exists()  # nothing was trained


def test_interruption_before_anything_is_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(advection_study, "study_case", interrupted)
    assert run(["advection", "--out", str(tmp_path)]) == 130
    assert capsys.readouterr().err == "interrupted\n"
    assert not list(tmp_path.glob("advection*"))
