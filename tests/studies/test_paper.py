"""The page of `python -m studies paper`: it is what the rows say, and says no more than these support."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from cnf.errors import FileError
from studies.materials.tables import pair_table
from studies.paper.claims import CLAIMS, Count, count_claim
from studies.paper.comparing import compare_table
from studies.paper.drawing import as_measured
from studies.paper.figures import draw_from_rows
from studies.paper.images import shrink_picture
from studies.paper.page import REPOSITORY, Place, build_page
from studies.paper.records import Records
from studies.paper.remarks import read_remarks
from studies.paper.showing import show_number
from studies.paper.summary import count_table
from studies.paper.tables import TABLES, find_table
from studies.transfer.study import PAPER as TRANSFER_PAPER


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
