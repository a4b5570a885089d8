"""`python -m studies`: help, one line per error, the files it promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from studies.__main__ import run


@pytest.mark.parametrize("arguments", [["--help"], ["conditioning", "--help"]])
def test_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 0
    assert "Usage: python -m studies" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["conditioning", "--points", "60"], 1, "square"),
        (["conditioning", "--parameters", "10"], 1, "parameters"),
        (["conditioning", "--parameters", "nan"], 1, "parameters"),
        (["conditioning", "--steps", "0"], 2, "--steps"),
        (["conditioning", "--seed", "-1"], 2, "--seed"),
        (["conditioning", "--out", "/proc/nowhere"], 1, "cannot write"),
        (["transfer", "--perturbation", "-1"], 1, "at least 0"),
        (["transfer", "--perturbation", "inf"], 1, "finite"),
        (["transfer", "--out", "/proc/nowhere"], 1, "cannot write"),
        (["nonsense"], 2, "nonsense"),
    ],
)
def test_bad_input_is_one_line_before_any_work(
    arguments: list[str], code: int, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1
    assert part.lower() in shown.err.lower()


def test_conditioning_writes_table_csv_and_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--points", "16", "--parameters", "5e3", "--steps", "3", "--out", str(tmp_path)]
    assert run(["conditioning", *arguments]) == 0
    text = capsys.readouterr().out
    assert "Gaussian kernel" in text
    assert (tmp_path / "conditioning.png").read_bytes().startswith(b"\x89PNG")
    assert len((tmp_path / "conditioning.csv").read_text().splitlines()) == 1 + 4
    assert (tmp_path / "conditioning.txt").read_text().strip() in text
