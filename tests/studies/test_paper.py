"""`python -m studies paper`: the page is what the rows say, runs go on where they stopped, damaged rows say so."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cnf.errors import CnfError, FileError
from studies.__main__ import run
from studies.keeping import read_kept
from studies.materials.tables import pair_table
from studies.paper import collecting, jobs, running
from studies.paper.claims import CLAIMS, Count, count_claim
from studies.paper.collecting import collect_folder, gather_kept, keep_records
from studies.paper.command import run_jobs
from studies.paper.comparing import compare_table
from studies.paper.drawing import as_measured
from studies.paper.figures import draw_from_rows
from studies.paper.images import shrink_picture
from studies.paper.jobs import JOBS, Job
from studies.paper.page import REPOSITORY, Place, build_page, read_all
from studies.paper.records import Records, merge_records, read_cell, read_records, thin, write_records
from studies.paper.remarks import read_remarks
from studies.paper.running import Clock, plan_tasks, run_tasks, say_time
from studies.paper.showing import show_number
from studies.paper.summary import count_table
from studies.paper.tables import TABLES, find_table
from studies.transfer.study import PAPER as TRANSFER_PAPER
from studies.transfer.study import Transfer
from tests.studies.counting import Counting
from tests.studies.test_contract import started

ADVICE = "python -m studies paper --only transfer"


# -- the page --------------------------------------------------------------------------------------------------------


def test_the_page_is_what_its_rows_say():
    """docs/reproduction.md word for word; if not: python -m studies paper --page."""
    page = build_page(REPOSITORY)
    assert "need what these rows do not have" not in page
    assert REPOSITORY.page.read_text() == page, "renew it: python -m studies paper --page"


def test_every_link_of_the_page_leads_somewhere():
    text = REPOSITORY.page.read_text()
    for target in re.findall(r"\]\(([^)#]+)", text):
        assert (REPOSITORY.page.parent / target).resolve().exists(), target


def test_pictures_are_small_and_all_of_them_are_shown():
    text = REPOSITORY.page.read_text()
    for path in REPOSITORY.images.glob("*.png"):
        assert path.stat().st_size <= 400_000, path.name
        assert f"images/reproduction/{path.name}" in text, f"{path.name} is not on the page"


def test_every_table_and_figure_of_the_paper_has_its_place():
    """Nine tables (one of bases), seventeen figures, two algorithms: the labels of the paper's source."""
    text = build_page(Place(Path("nowhere"), REPOSITORY.page, Path("nowhere")))
    tables = "basis brdf advection-results brdf_abla brdf_report surface_report pde_report advection-transfer-learning"
    figures = "fermat brdf geometry advection-vis ablation-cond brdf_angle brdf_abla brdf_learning_curve shape_compare "
    figures += "surface_learning_curve pde_learning_curve"
    for label in [*(f"table:{t}" for t in tables.split()), "tab:normal_error", *(f"fig:{f}" for f in figures.split())]:
        assert re.search(rf"^### .*\(`{re.escape(label)}`\)", text, re.M), label
    assert "fig:brdf0 … fig:brdf5" in text and "`alg:training`" in text and "`alg:inference`" in text
    numbers = [int(n) for n in re.findall(r"^### Table (\d+)", text, re.M)]
    assert sorted(set(numbers)) == list(range(1, 10))


def test_nothing_measured_is_a_list_of_gaps():
    """Without any rows every number is missing, every table is named as a gap, and none is called better."""
    nowhere = Path("nowhere")
    text = build_page(Place(nowhere, REPOSITORY.page, nowhere))
    gaps = text.partition("### Gaps")[2].partition("### What")[0]
    for table in TABLES:
        assert table.again or f"(`{table.label}`): not measured yet: all of it" in gaps, table.label
    assert gaps.count("not drawn yet") == 13
    assert "▲" not in text.partition("## Summary")[2] and "▼" not in text.partition("## Summary")[2]


def test_the_papers_numbers_are_those_of_the_studies():
    """Table 9 here and in the study of transfer, typed twice from the paper: the same."""
    for line in find_table("table:advection-transfer-learning").lines:
        random, trained = TRANSFER_PAPER[float(line.label)]
        assert line.values == (*random, *trained)
    from cnf.demo.advection import PAPER
    from studies.normals.study import PAPER as NORMALS

    for line in find_table("table:advection-results").lines:
        level = float(line.label)
        assert line.values == (*PAPER["rbf"][level], *PAPER["skewed-rbf"][level])
    for line in find_table("tab:normal_error").lines:
        known = NORMALS[line.label]
        assert line.values == (known["siren"][1], *known["pseudo"], *known["exact"])


def transfer_records(**changes) -> Records:
    row = {"shift": 0.0, "seed": 0, "random_rmse": 0.0254, "random_nrmse": 0.0228, "rmse": 0.0035, "nrmse": 0.0129}
    settings = {"side": 32, "perturbation": 0.1, "seed": 0, "steps": 10}
    return Records("transfer", {**settings, **changes}, [{**row, "seed": seed} for seed in range(5)])


def test_marks():
    """0.0254 beside 0.0127 is worse by 2, 0.0228 beside 0.0227 the same, 0.0035 beside 0.0070 better by 2."""
    table = find_table("table:advection-transfer-learning")
    first, second = compare_table(table, transfer_records())[:2]
    assert [found.verdict for found in first] == ["worse", "same", "better", "same"]
    assert first[0].factor == pytest.approx(0.5) and first[2].factor == pytest.approx(2)
    assert all(found.full for found in first) and [found.value for found in second] == [None] * 4
    assert not any(found.full for found in compare_table(table, transfer_records(side=16))[0])
    fewer = replace(transfer_records(), rows=transfer_records().rows[:4])
    assert not any(found.full for found in compare_table(table, fewer)[0])
    counts = count_table({table.label: compare_table(table, transfer_records())}).rows
    assert counts[-1] == ["all", 24, 4, 4, 1, 2, 1]


def test_what_is_ours_alone():
    """A method that the paper does not have is a line if it was measured, with a mean and a deviation, and no mark."""
    table, row = find_table("table:brdf"), {"group": "NBRDF of MERL, others", "method": "kernel-grid"}
    rows = [{**row, "material": name, "rmse": v, "psnr": 60.0, "ssim": 1.0} for name, v in (("a", 0.01), ("b", 0.03))]
    assert len(compare_table(table, None)) == 5
    lines = compare_table(table, Records("materials", {}, rows))
    own = lines[-1][0]
    assert len(lines) == 6 and own.value == pytest.approx(2) and own.deviation == pytest.approx(2**0.5)
    assert own.verdict == "" and count_table({table.label: lines}).rows[-1][1:3] == [15, 0]


def test_a_measure_that_is_not_a_number_is_not_better():
    """Nor is it hidden by another seed that has one."""
    records = transfer_records()
    records.rows[1]["rmse"] = float("nan")
    found = compare_table(find_table("table:advection-transfer-learning"), records)[0][2]
    assert found.verdict == "worse"


def test_numbers_are_written_as_one_writes_them():
    given = [(2.4e-8, ".1e"), (0.0076, ".1e"), (7.6, ".1e"), (1320.4, ".3g"), (0.6, ".2f"), (0.5788, "g"), (3e5, ".0e")]
    assert [show_number(*one) for one in given] == ["2.4e-8", "0.0076", "7.6", "1320", "0.60", "0.5788", "3e5"]


def test_remarks_have_no_numbers(tmp_path: Path):
    """Those that are there; and one that has is refused."""
    assert read_remarks()
    (tmp_path / "remarks.toml").write_text('["table:brdf"]\nNBRDF = "3 times worse"\n')
    with pytest.raises(FileError, match="has a number"):
        read_remarks(tmp_path / "remarks.toml")


def test_pictures_from_rows(tmp_path: Path):
    """Those that need no run are drawn and small enough; rows that lack something are said, and stop nothing."""
    from PIL import Image

    row = {"basis": "hypernet", "start": 1e3, "end": 1.0, "lowest": 1.0, "highest": 1e3}
    row["curve"] = {"step": [0, 1], "condition": [1e3, 1.0]}
    conditioning = Records("conditioning", {"points": 4, "parameters": 900.0}, [row])
    said = draw_from_rows({"conditioning": conditioning, "transfer": transfer_records()}, tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*.png")) == ["angles.png", "conditioning.png"]
    assert len(said) == 1 and "paper_random_nrmse" in said[0]
    shrink_picture(tmp_path / "angles.png", largest=20_000)
    with Image.open(tmp_path / "angles.png") as picture:
        assert picture.width <= 800 and (tmp_path / "angles.png").stat().st_size < 30_000


def test_claims():
    """Of three lines one is not measured; of the others one keeps the order: in part. All at full size: yes."""
    table = find_table("table:advection-transfer-learning")
    claim = next(claim for claim in CLAIMS if claim.label == table.label)
    assert count_claim(claim, compare_table(table, transfer_records())) == Count(held=1, known=1, there=6)
    small = compare_table(table, replace(transfer_records(), rows=transfer_records().rows[:2]))
    assert count_claim(claim, small) == Count(held=1, known=1, there=6, small=1)
    start = next(claim for claim in CLAIMS if "before training" in claim.text)
    rows = [{"shape": s, "method": "exact", "start_normal_error": e} for s, e in (("circle", 1e-6), ("line", 1e-3))]
    entries = compare_table(find_table(start.label), Records("normals", {"quick": False, "epochs": 50}, rows))
    assert count_claim(start, entries) == Count(held=1, known=2, there=4)


def test_pairs_are_of_the_same_materials():
    """FFN was run on the easy of two materials only: beside it stands the grid on that one, not on both."""
    rows = [
        ("steel", "kernel-grid", 60.0),
        ("plum", "kernel-grid", 80.0),
        ("plum", "ffn", 70.0),
        ("chrome", "ffn", 9.0),
    ]
    shared = {"label": "", "group": "g", "ssim": 1.0, "log_error": 0.0, "seconds": 1.0, "inference_seconds": 1.0}
    cases = as_measured(
        [
            {**shared, "material": m, "method": n, "psnr": v, "rmse": 0.1, "parameters": 1, "residual": None}
            for m, n, v in rows
        ]
    )
    table = pair_table(cases, "kernel-grid")  # chrome is one of the dozen that settings were chosen on
    assert [line[:5] for line in table.rows] == [["Held out: FFN", 1, "80.00", "70.00", "+10.00"]]


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
