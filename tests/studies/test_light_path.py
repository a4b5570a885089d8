"""The study of the light path: rows, curves and picture of several starts."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest

from cnf.demo.light_path import Medium
from studies.__main__ import run


def test_starts_end_at_the_least_time_with_exact_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three starts: none is faster than the least of all paths, all come within 1e-5 of it, faster than the chord.

    The chord takes its length times the index in its middle; the end points are met to rounding at every step.
    """
    assert run(["light-path", "--seeds", "3", "--out", str(tmp_path)]) == 0
    assert "end points off by" in capsys.readouterr().out
    rows = list(csv.DictReader((tmp_path / "light-path.csv").read_text().splitlines()))
    assert [row["seed"] for row in rows] == ["0", "1", "2"]
    chord = math.hypot(1.0, 0.6) * Medium().index(0.6)
    for row in rows:
        assert float(row["exact_time"]) < float(row["quadratic_time"]) < chord
        assert 0 < float(row["excess"]) < 1e-5
        assert float(row["final_time"]) < float(row["start_time"])
        assert float(row["end_error"]) < 1e-12
    curves = list(csv.DictReader((tmp_path / "light-path_curves.csv").read_text().splitlines()))
    for row in rows:
        own = [point for point in curves if point["seed"] == row["seed"]]
        assert [int(point["step"]) for point in own] == list(range(int(row["steps"]) + 1))
        assert float(own[0]["time"]) == pytest.approx(float(row["start_time"]), rel=1e-12)
        assert float(own[-1]["time"]) == float(row["final_time"])
        assert max(float(point["end_error"]) for point in own) == float(row["end_error"])
    assert (tmp_path / "light-path.png").read_bytes().startswith(b"\x89PNG")
