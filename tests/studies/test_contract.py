"""What every study has: it goes on, says when settings changed, records failures, and leaves no process behind."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from studies.keeping import find_arrays
from tests.studies.counting import Counting, run

ROOT = Path(__file__).parents[2]


def count(out: Path, *numbers: int, more: tuple[str, ...] = ()) -> int:
    return run(["--numbers", ",".join(map(str, numbers)), "--out", str(out), *more])


def started(out: Path) -> list[int]:
    """Which numbers were run, in the order in which they were."""
    path = out / "starts.txt"
    return [int(line.split()[0]) for line in path.read_text().splitlines()] if path.exists() else []


def read_csv(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def test_rows_are_written_in_every_notation(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The table in text, Markdown and LaTeX, all numbers in full, curves, and the picture."""
    assert count(tmp_path, 1, 2) == 0
    text = (tmp_path / "counting.txt").read_text()
    lines = ["number  square    third", "------  ------  -------", "1            1  3.3e-01", "2            4  6.7e-01"]
    assert text.splitlines() == [*lines, "", "A note."]
    assert text.strip() in capsys.readouterr().out
    assert "| 2      |      4 | 6.7e-01 |" in (tmp_path / "counting.md").read_text()
    assert r"2 & 4 & 6.7e-01 \\" in (tmp_path / "counting.tex").read_text()
    rows = read_csv(tmp_path / "counting.csv")
    assert [(row["number"], float(row["third"]), row["failed"]) for row in rows] == [("1", 1 / 3, ""), ("2", 2 / 3, "")]
    curves = read_csv(tmp_path / "counting_curves.csv")
    assert [(row["number"], float(row["value"])) for row in curves] == [("1", 0), ("1", 1 / 7), ("2", 0), ("2", 2 / 7)]
    assert (tmp_path / "counting.png").read_text() == "2"
    assert find_arrays(Counting(), tmp_path, {"number": 2})["values"].tolist() == [1 / 3, 1 / 3]


def test_a_second_run_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Only what is missing is run; the tables have all that was asked for, in its order."""
    assert count(tmp_path, 1, 2) == count(tmp_path, 3, 2, 1) == 0
    assert started(tmp_path) == [1, 2, 3]
    assert "(from an earlier run)" in capsys.readouterr().out
    assert [row["number"] for row in read_csv(tmp_path / "counting.csv")] == ["3", "2", "1"]


def test_other_settings_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The error names what differs, and nothing is lost; --restart begins anew."""
    assert count(tmp_path, 2) == 0
    assert count(tmp_path, 2, more=("--power", "3")) == 1
    error = capsys.readouterr().err
    assert "power 2, now 3" in error and "--restart" in error and error.count("\n") == 1
    assert started(tmp_path) == [2]
    assert count(tmp_path, 2, more=("--power", "3", "--restart")) == 0
    assert [row["square"] for row in read_csv(tmp_path / "counting.csv")] == ["8"]


@pytest.mark.parametrize(
    "damage", ["cut", "empty", "a list", "binary", "no arrays", "cut arrays", "no file", "another source"]
)
def test_what_is_damaged_is_run_again(damage: str, tmp_path: Path):
    """Only that case, and afterwards it is whole."""
    assert count(tmp_path, 1, 2) == 0
    path = tmp_path / "cases" / "counting_1.json"
    if damage in ("no arrays", "no file"):
        (path.with_suffix(".npz") if damage == "no arrays" else path).unlink()
    elif damage == "cut arrays":
        path.with_suffix(".npz").write_bytes(path.with_suffix(".npz").read_bytes()[:-9])
    elif damage == "another source":
        kept = json.loads(path.read_text())
        path.write_text(json.dumps({**kept, "case": {**kept["case"], "source": "x"}}))
    else:
        text = path.read_bytes()
        path.write_bytes({"cut": text[:40], "empty": b"", "a list": b"[1]", "binary": b"\xff\x00"}[damage])
    for _ in range(2):
        assert count(tmp_path, 1, 2) == 0
    assert started(tmp_path) == [1, 2, 1]


def test_a_failure_is_recorded_and_stops_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Its first line stands in the tables and in the CSV; exit code 1; the next run tries it again."""
    assert count(tmp_path, 13, 1) == 1
    shown = capsys.readouterr()
    assert "failed: 13: thirteen is not counted" in shown.out
    assert "1 of 2 cases failed, such as 13: thirteen is not counted;" in shown.err
    assert [row["failed"] for row in read_csv(tmp_path / "counting.csv")] == ["thirteen is not counted", ""]
    assert json.loads((tmp_path / "cases" / "counting_13.json").read_text())["row"]["failed"]
    assert count(tmp_path, 13, 1) == 1
    assert started(tmp_path) == [13, 1, 13]


def test_ctrl_c_keeps_what_is_finished(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Exit code 130; tables of what there is, no pictures; before anything is finished, no tables either."""
    assert count(tmp_path / "a", 14) == 130
    assert not list((tmp_path / "a").glob("counting*"))
    assert count(tmp_path / "b", 2, 14, 3) == 130
    assert "interrupted; the same command goes on" in capsys.readouterr().out
    assert [row["number"] for row in read_csv(tmp_path / "b" / "counting.csv")] == ["2"]
    assert (tmp_path / "b" / "counting.txt").exists() and not (tmp_path / "b" / "counting.png").exists()


@pytest.mark.slow
def test_processes(tmp_path: Path):
    """Two at a time: the same rows; one that fails, one that dies and one that is too slow are recorded."""
    assert count(tmp_path / "one", 1, 2, 3) == 0
    assert count(tmp_path / "two", 1, 13, 2, 9, 60, 3, more=("--workers", "2", "--timeout", "2")) == 1
    rows = {row["number"]: row for row in read_csv(tmp_path / "two" / "counting.csv")}
    assert list(rows) == ["1", "13", "2", "9", "60", "3"]
    assert {number: rows[number]["failed"] for number in ("13", "9", "60")} == {
        "13": "thirteen is not counted",
        "9": "its process ended by signal 9",
        "60": "stopped after 2 s",
    }
    assert [rows[number] for number in "123"] == read_csv(tmp_path / "one" / "counting.csv")
    pids = {line.split()[1] for line in (tmp_path / "two" / "starts.txt").read_text().splitlines()}
    assert str(os.getpid()) not in pids


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def wait_until(met, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not met() and time.monotonic() < end:
        time.sleep(0.1)
    return met()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)], ids=["killed", "Ctrl-C"])
def test_workers_end_with_their_parent(number: int, code: int, tmp_path: Path):
    """Two workers, one asleep in a case; the parent is killed, or interrupted: neither is there ten seconds later."""
    command = [sys.executable, "-m", "tests.studies.counting", "--numbers", "1,60", "--out", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    process = subprocess.Popen([*command, "--workers", "2"], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    try:
        assert wait_until(lambda: sorted(started(tmp_path)) == [1, 60] and (tmp_path / "counting.csv").exists(), 120)
        process.send_signal(number)
        assert process.wait(30) == code
        pids = [int(line.split()[1]) for line in (tmp_path / "starts.txt").read_text().splitlines()]
        assert len(set(pids)) == 2 and wait_until(lambda: not any(map(is_alive, pids)), 10)
    finally:
        process.kill()
    assert [row["square"] for row in read_csv(tmp_path / "counting.csv")] == ["1"]
