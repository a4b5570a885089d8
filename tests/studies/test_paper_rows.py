"""Rows and runs of `python -m studies paper`: runs go on where they stopped, damaged rows say so."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cnf.errors import CnfError
from studies.__main__ import run
from studies.keeping import read_kept
from studies.paper import collecting, jobs, picturing, running
from studies.paper.collecting import collect_folder, gather_kept, keep_records
from studies.paper.command import run_jobs
from studies.paper.jobs import JOBS, Job
from studies.paper.page import REPOSITORY, Place, read_all
from studies.paper.records import Records, merge_records, read_cell, read_records, thin, write_records
from studies.paper.running import Clock, plan_tasks, run_tasks, say_time
from studies.transfer.study import Transfer
from tests.studies.counting import Counting
from tests.studies.test_contract import started
from tests.studies.test_paper import transfer_records

ADVICE = "python -m studies paper --only transfer"


# -- rows ------------------------------------------------------------------------------------------------------------


def counted(*numbers: int) -> Records:
    curve = {"step": list(range(1000)), "value": [k / 7 for k in range(1000)]}
    rows = [{"number": n, "square": n * n, "third": n / 3, "curve": curve} for n in numbers]
    machine = {"processor": "abacus", "cores": 2, "threads": 1, "python": "3", "torch": "2", "cnf": "0"}
    return Records("counting", {"power": 2, "shape": [1, 2]}, rows, [machine])


def test_rows_are_read_back(tmp_path: Path):
    """Six digits, curves thinned to a hundred points with both ends, and rows of the same settings side by side."""
    write_records(counted(1, 2), Counting, tmp_path)
    found = read_records(Counting, tmp_path)
    assert (
        found is not None and found.settings == {"power": 2, "shape": [1, 2]} and found.machines == counted().machines
    )
    assert [(row["number"], row["third"]) for row in found.rows] == [(1, 0.333333), (2, 0.666667)]
    steps = found.rows[0]["curve"]["step"]
    assert steps[0] == 0 and steps[-1] == 999 and steps == sorted(set(steps)) and 60 <= len(steps) <= 100
    merged = merge_records(found, counted(2, 3), ("number",))
    assert [row["number"] for row in merged.rows] == [1, 2, 3] and merged.rows[1]["third"] == 2 / 3
    assert read_records(Counting, tmp_path / "nowhere") is None


@pytest.mark.parametrize("count", [1, 2, 99, 100, 101, 102, 5000])
def test_thinned_curves_keep_their_ends(count: int):
    places = thin(count, 100)
    assert places[0] == 0 and places[-1] == count - 1 and len(places) <= 101 and places == sorted(set(places))
    assert len(places) == count or count > 101


def test_cells():
    """What CSV forgets is found again."""
    cells = ["", "True", "False", "12", "-3", "0.5", "1e-07", "inf", "nan", "kernel-siren", "1_000", "0x1", "٣"]
    found = [read_cell(cell) for cell in cells]
    assert found[:8] == [None, True, False, 12, -3, 0.5, 1e-7, float("inf")] and found[8] != found[8]
    assert found[9:12] == ["kernel-siren", "1_000", "0x1"] and isinstance(found[3], int)


@pytest.mark.parametrize(
    ("file", "change", "part"),
    [
        ("transfer.csv", lambda text: text.rstrip().rpartition(",")[0], "entries instead of"),
        ("transfer.csv", lambda text: "", "no column shift"),
        ("transfer.csv", lambda text: text.replace("shift", "drift"), "no column shift"),
        ("transfer.csv", lambda text: text.replace("random_rmse", "rmse", 1), "a column is there twice"),
        ("transfer.csv", lambda text: text + text.splitlines()[1] + "\n", "there twice"),
        ("transfer.csv", lambda text: text + "," * text.splitlines()[0].count(",") + "\n", "which case it is"),
        ("transfer.csv", lambda text: text + '"', "damaged"),
        ("transfer.csv", lambda text: text + "\0" * 5 * 2**20, "bytes"),
        ("transfer.json", lambda text: "[1]", "damaged or of another job"),
        ("transfer.json", lambda text: text.replace("transfer", "advection"), "of another job"),
        ("transfer.json", lambda text: text.replace('"cores": 2', '"cores": "many"'), "damaged"),
    ],
)
def test_damaged_rows_are_one_clear_line(
    file: str, change, part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """The command says which file, what is wrong, and how to get it back."""
    records = transfer_records()
    records.rows.append({**records.rows[0], "shift": 1.0})
    write_records(replace(records, machines=counted().machines), Transfer, tmp_path)
    (tmp_path / file).write_text(change((tmp_path / file).read_text()))
    place = Place(tmp_path, tmp_path / "page.md", tmp_path)
    monkeypatch.setattr("studies.paper.command.REPOSITORY", place)
    monkeypatch.chdir(tmp_path)
    assert run(["paper", "--page", "--no-pictures"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and file in error and part in error
    assert "bytes" in error or ADVICE in error
    assert not place.page.exists()


# -- running ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Job:
    """A job of the study that counts, the only one there is."""
    monkeypatch.setattr("studies.listing.list_studies", lambda: [Counting])
    job = Job("counting", kind="number", full={"numbers": ["1,2,3"]}, quick={"numbers": ["1"]}, size={"power": 2})
    monkeypatch.setattr(jobs, "JOBS", (job,))
    monkeypatch.setattr(collecting, "JOBS", (job,))
    return job


class Silent:
    """A report that writes rows but no page."""

    def __init__(self, rows: Path):
        self.place, self.drawn, self.written = Place(rows, rows / "page.md", rows), [], 0

    def draw(self, job: Job, folder: Path) -> None:
        self.drawn.append(job.name)

    def write(self) -> None:
        self.written += 1


def in_this_process(study, cases, folder, workers):
    """What processes do, without the seconds that it takes to start them."""
    from studies.processes import attempt
    from studies.study import Desk

    for case in list(cases):
        desk = Desk(folder, study.name_case(case))
        yield case, attempt(study, case, desk), desk.files


@pytest.fixture(autouse=True)
def no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "run_in_processes", in_this_process)


def test_a_run_goes_on_and_its_rows_are_kept(counting: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """1, 2, 3 are run once; one whose file is lost is run again; lines say which of how many, and what is left."""
    report = Silent(tmp_path / "rows")
    run_jobs([counting], tmp_path / "out", 1, False, False, report)
    shown = capsys.readouterr().out
    assert "3 cases to run, 0 finished" in shown and "case 1 of 3" in shown and "left)" in shown
    found = read_records(Counting, tmp_path / "rows")
    assert found is not None and [row["square"] for row in found.rows] == [1, 4, 9] and report.written == 1
    assert found.machines[0]["cores"] >= 1 and all(row["case_processor_seconds"] >= 0 for row in found.rows)
    (tmp_path / "out/counting/cases/counting_2.json").unlink()
    write_records(counted(1, 8), Counting, tmp_path / "rows")  # of an older list of cases
    run_jobs([counting], tmp_path / "out", 1, False, False, report)
    found = read_records(Counting, tmp_path / "rows")
    assert found is not None and [row["number"] for row in found.rows] == [1, 2, 3] and report.drawn == ["counting"] * 2
    assert "1 case to run, 2 finished" in capsys.readouterr().out
    assert started(tmp_path / "out/counting") == [1, 2, 3, 2]


def test_missing_takes_committed_rows_as_finished(counting: Job, tmp_path: Path):
    """Rows of 1 and 3 are there: 2 is run, and all three are kept. Rows of other settings do not count."""
    write_records(counted(1, 3), Counting, tmp_path / "rows")
    run_jobs([counting], tmp_path / "out", 1, False, True, Silent(tmp_path / "rows"))
    assert started(tmp_path / "out/counting") == [2]
    found = read_records(Counting, tmp_path / "rows")
    assert found is not None and [row["number"] for row in found.rows] == [1, 2, 3]
    other = replace(counted(1, 3), settings={"power": 3})
    write_records(other, Counting, tmp_path / "rows")
    tasks = plan_tasks([counting], tmp_path / "elsewhere", tmp_path / "rows", take_records=True)
    assert [case["number"] for case in tasks[0].missing] == [1, 2, 3]


def test_a_failed_case_stops_nothing(counting: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """13 fails, 1 and 2 are kept; the error counts it, and the next run tries it again."""
    job, report = replace(counting, full={"numbers": ["1,13,2"]}), Silent(tmp_path / "rows")
    for _ in range(2):
        with pytest.raises(CnfError, match=r"1 of \d cases failed, such as counting 13: thirteen is not counted"):
            run_jobs([job], tmp_path / "out", 1, False, False, report)
    found = read_records(Counting, tmp_path / "rows")
    assert found is not None and [row["number"] for row in found.rows] == [1, 2] and report.written == 2
    assert started(tmp_path / "out/counting") == [1, 13, 2, 13]


def test_ctrl_c_keeps_what_is_finished(counting: Job, tmp_path: Path):
    """14 interrupts: 1 is kept, the page is written, and the interruption is passed on."""
    job, report = replace(counting, full={"numbers": ["1,14,2"]}), Silent(tmp_path / "rows")
    with pytest.raises(KeyboardInterrupt):
        run_jobs([job], tmp_path / "out", 1, False, False, report)
    found = read_records(Counting, tmp_path / "rows")
    assert found is not None and [row["number"] for row in found.rows] == [1]
    assert report.written == 1 and not report.drawn


def test_jobs_that_cannot_be_run_are_left_out(counting: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A study that is not there is named with the reason, and the others are run."""
    run_jobs([Job("guessing", kind="study"), counting], tmp_path, 1, True, False, Silent(tmp_path / "rows"))
    assert "left out: guessing: there is no study called guessing" in capsys.readouterr().out
    assert started(tmp_path / "counting") == [1]
    with pytest.raises(CnfError, match="no option colour"):
        replace(counting, full={"colour": "red"}).make()


def test_time_left(counting: Job, tmp_path: Path):
    """Kinds have their own length: 10 s were recorded of 1 and 40 s of 3, so 2 is expected to take their mean, 25 s.

    What this run measured counts instead, and two workers need half as long. Without rows there is the guess.
    """
    records = counted(1, 3)
    for row, seconds in zip(records.rows, (10.0, 40.0), strict=True):
        row["case_seconds"] = seconds
    write_records(records, Counting, tmp_path / "rows")
    tasks = plan_tasks([counting], tmp_path / "out", tmp_path / "rows")
    clock = Clock(tasks, workers=1)
    assert clock.left(tasks) == 10 + 25 + 40 and Clock(tasks, workers=2).left(tasks) == 37.5
    clock.note(counting, {"number": 1}, {"number": 1, "case_seconds": 20.0})
    clock.note(counting, {"number": 3}, {"number": 3, "case_seconds": 1.0, "failed": "no"})
    assert clock.expect(counting, {"number": 1}) == 20 and clock.expect(counting, {"number": 3}) == 40
    assert [case["number"] for case in clock.order(tasks[0])] == [1, 2, 3]
    clock.note(counting, {"number": 1}, {"number": 1, "case_seconds": 100.0})  # a mean of 60 s from now on
    assert [case["number"] for case in clock.order(tasks[0])] == [3, 2, 1]  # 40, 42.5 (all that is known) and 60 s
    unknown = plan_tasks([replace(counting, guess=(7.0, 1.0))], tmp_path / "out", tmp_path / "none")
    assert Clock(unknown, workers=1).left(unknown) == 21
    assert [say_time(s) for s in (0.2, 99, 101, 3599, 7265)] == [
        *("about 1 s", "about 99 s", "about 2 min", "about 60 min", "about 2 h 01 min"),
    ]


def test_rows_from_the_folder_of_a_study(counting: Job, tmp_path: Path):
    """Whatever a study finished by itself is found, by what its files say; rows of other settings are not replaced."""
    tasks = plan_tasks([counting], tmp_path / "out", tmp_path / "rows")
    run_tasks(tasks, 1)
    shutil.move(tmp_path / "out/counting", tmp_path / "mine")
    assert collect_folder(tmp_path / "mine", tmp_path / "rows", [counting]) == [counting]
    found = read_records(Counting, tmp_path / "rows")
    assert found is not None and [row["number"] for row in found.rows] == [1, 2, 3]
    small = gather_kept(counting, tmp_path / "mine")
    assert small is not None
    with pytest.raises(CnfError, match="rows of other settings"):
        keep_records(counting, replace(small, settings={"power": 3}), tmp_path / "rows")
    with pytest.raises(CnfError, match="no finished case of counting"):
        collect_folder(tmp_path / "empty", tmp_path / "rows", [counting])
    path, kept = next(iter(read_kept("counting", tmp_path / "mine")))
    path.write_text(json.dumps({**kept, "settings": {"power": 9}}))
    with pytest.raises(CnfError, match="different settings"):
        collect_folder(tmp_path / "mine", tmp_path / "rows", [counting])


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        ("--only advektion", 1, "Did you mean 'advection'?"),
        ("--page --quick", 1, "exclude each other"),
        ("--rows-from nowhere", 1, "has no finished case"),
        ("--workers 0", 2, "--workers"),
        ("--out /proc/nowhere", 1, "cannot write"),
    ],
)
def test_bad_input(
    words: str,
    code: int,
    part: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    """One line, before anything is run."""
    monkeypatch.chdir(tmp_path)
    assert run(["paper", *words.split()]) == code
    error = capsys.readouterr().err
    assert part in error and error.count("\n") == 1


def test_every_job_can_be_made_at_both_sizes(monkeypatch: pytest.MonkeyPatch):
    """Its options are those of its study, and its full size is the paper's; what needs data says so."""
    monkeypatch.delenv("CNF_DATA", raising=False)
    for job in JOBS:
        for quick in (False, True) if job.quick is not None else (False,):
            try:
                study = job.make(quick)
            except CnfError as error:
                assert "CNF_DATA" in str(error), job.name
                continue
            assert job.is_full(study.settings()) is (not quick or not job.size), (job.name, quick)
            assert job.kind == "study" or job.kind in study.key


def test_committed_rows_belong_to_jobs():
    """Every file of rows is one of a job's, and can be read."""
    names = {f"{job.name}{ending}" for job in JOBS for ending in (".csv", "_curves.csv", ".json")}
    assert {path.name for path in REPOSITORY.rows.iterdir()} <= names
    read_all(REPOSITORY.rows)


def test_a_run_of_some_methods_leaves_the_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The picture of four bases stays as it is after a run of one of them, and the reason is said."""
    path = tmp_path / "materials_ablation.png"
    path.write_bytes(b"four bases")
    monkeypatch.setattr(picturing, "find_kept", lambda name, folder: [({"method": "kernel-siren"}, {})])
    with pytest.raises(picturing.NothingToShowError, match="only kernel-siren of layer"):
        picturing.draw_ablation(tmp_path, path)
    assert path.read_bytes() == b"four bases"
