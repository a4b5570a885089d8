"""The study of materials: means and deviations beside NumPy's, marks and broken orders worked out by hand."""

from __future__ import annotations

import csv
import dataclasses
import math
import re

import numpy as np
import pytest

from cnf.errors import ConstraintError
from cnf.materials.report.method_style import COLOURS, TITLES
from studies.materials.cases import Case
from studies.materials.dots import MARKS, draw_study
from studies.materials.results import where_order_breaks, write_study
from studies.materials.tables import study_latex, study_markdown, study_text


def result(material: str, method: str, psnr: float, group: str = "RGL", **changes) -> Case:
    """A result whose RMSE fits its PSNR; kernels have conditions, the others none."""
    rmse = 10 ** (-psnr / 20)
    residual = 3e-13 if method.startswith("kernel") else None
    made = Case(material, f"{group} {material}", group, method, rmse, psnr, 0.9, 0.02, 10.0, 0.5, 1000, residual)
    return dataclasses.replace(made, **changes)


def row_of(text: str, title: str, block: int = 0) -> str:
    return [line for line in text.splitlines() if line.startswith((title, f"| {title}"))][block]


def test_means_and_deviations():
    """The same numbers as NumPy's mean and sample deviation, to the digits shown, in all three notations."""
    psnr = [40.0, 46.0, 31.5]
    results = [result(f"m{k}", "siren", p) for k, p in enumerate(psnr)]
    rmse = 100 * 10 ** (-np.array(psnr) / 20)
    wanted = (np.mean(rmse), np.std(rmse, ddof=1), np.mean(psnr), np.std(psnr, ddof=1))
    for text, sign in ((study_text, "±"), (study_markdown, "±"), (study_latex, r"\$\\pm\$")):
        cells = re.findall(rf"([\d.]+) {sign} +([\d.]+)", row_of(text(results), "SIREN"))
        found = [float(v) for pair in cells[:2] for v in pair]
        assert found == pytest.approx(wanted, abs=0.005)


def test_the_best_of_each_column_is_marked():
    """Kernel SIREN has the better picture, SIREN the shorter training; SSIM reads the same, so both have the mark."""
    results = [result(m, "siren", 30.0, seconds=1.0) for m in "ab"] + [result(m, "kernel-siren", 40.0) for m in "ab"]
    soft, hard = (row_of(study_text(results), title) for title in ("SIREN", "Kernel SIREN"))
    assert re.findall(r"([\d.]+)(?: ± +[\d.]+)?\*", hard) == ["1.00", "40.00", "0.900", "2.00", "0.500"]
    assert re.findall(r"([\d.]+)(?: ± +[\d.]+)?\*", soft) == ["0.900", "2.00", "1.0", "0.500"]
    assert "**40.00 ± 0.00**" in row_of(study_markdown(results), "Kernel SIREN")
    assert r"\textbf{40.00} $\pm$ \textbf{0.00}" in row_of(study_latex(results), "Kernel SIREN")
    assert "3e-13" in hard and soft.rstrip().endswith("-")


def test_the_residual_is_the_worst_of_all_materials():
    """Of 1e-13 and 5e-9 the table shows the latter, not their mean; one that is NaN is worse than both."""
    results = [result(m, "kernel-ffn", 30.0, residual=r) for m, r in (("a", 5e-9), ("b", 1e-13))]
    assert row_of(study_text(results), "Kernel FFN").split()[-1] == "5e-09"
    lost = [*results, result("c", "kernel-ffn", 30.0, residual=math.nan)]
    assert row_of(study_text(lost), "Kernel FFN").endswith("not finite")


def test_a_failed_result_is_named_and_never_best():
    """FFN leads on one material and fails on the other: mean over 1 of 2, no mark, and a line that says so."""
    results = [result("a", "ffn", 60.0), result("b", "ffn", math.nan), result("a", "siren", 30.0)]
    results.append(result("b", "siren", 32.0))
    text = study_text(results)
    assert "1 of 2" in row_of(text, "FFN") and "60.00" in row_of(text, "FFN") and "*" not in row_of(text, "FFN")
    assert "31.00 ± 1.41*" in row_of(text, "SIREN")
    assert "Failed, and not in the means: FFN on RGL b." in text
    assert "nan" not in text


def test_one_block_for_all_and_one_per_group():
    """Two groups with a material of the same name are two materials; one group alone has one block."""
    both = [result("chrome", "siren", 30.0, "RGL"), result("chrome", "siren", 40.0, "NBRDF of MERL")]
    text = study_text(both)
    assert [line for line in text.splitlines() if line.endswith(("material)", "materials)"))] == [
        "All groups (2 materials)",
        "RGL (1 material)",
        "NBRDF of MERL (1 material)",
    ]
    assert "35.00 ± 7.07" in row_of(text, "SIREN", 0) and "30.00" in row_of(text, "SIREN", 1)
    assert study_text(both[:1]).count("method") - study_text(both[:1]).count("methods") == 1
    assert study_latex(both).count(r"\begin{tabular}") == study_latex(both).count(r"\end{tabular}") == 3


def test_where_the_order_breaks():
    """By hand: the champion wins a, loses b to two methods; RMSE 0.01 and 0.1 over FFN's 0.1 and 0.01: ratio 1."""
    results = [
        *(result("a", "ffn", 20.0), result("a", "kernel-siren", 40.0), result("a", "kernel-ffn", 30.0)),
        *(result("b", "ffn", 40.0), result("b", "kernel-siren", 20.0), result("b", "kernel-ffn", 35.0)),
    ]
    assert where_order_breaks(results) == [
        "Kernel SIREN has the highest PSNR on 1 of 2 materials",
        "RGL b: FFN 40.00 dB, Kernel FFN 35.00 dB; Kernel SIREN 20.00 dB",
        "RGL: mean RMSE of Kernel SIREN / FFN (best soft method) = 5.50e-02 / 5.50e-02 = 1.00 over 2 materials",
    ]


def test_the_best_soft_method_is_the_one_with_the_least_error():
    """RMSE 0.01 against soft ones of 0.1 and 0.02: half of the better one's; kernels do not count as soft."""
    levels = {"nbrdf": 0.1, "siren": 0.02, "kernel-ffn": 0.001, "kernel-siren": 0.01}
    results = [result("a", method, -20 * math.log10(rmse)) for method, rmse in levels.items()]
    assert "Kernel SIREN / SIREN (best soft method) = 1.00e-02 / 2.00e-02 = 0.50" in where_order_breaks(results)[-1]


def test_orders_that_cannot_be_compared():
    """No champion, a failed one, no soft method: said in words."""
    alone = [result("a", "ffn", 30.0)]
    assert where_order_breaks(alone) == ["no finished result of Kernel SIREN: there is nothing to compare"]
    kernels = [result("a", "kernel-siren", 30.0), result("a", "kernel-ffn", 20.0), result("b", "kernel-ffn", 20.0)]
    assert where_order_breaks(kernels)[1:] == [
        "RGL: no soft method to compare with",
        "Kernel SIREN has no finished result on 1 material: b",
    ]


def test_files(tmp_path):
    """Four files; the CSV gives back every number bit by bit, None as an empty cell, and the order of the rows."""
    results = [result("a", "siren", 100 / 3), result("a", "kernel-siren", math.pi), result("b", "siren", math.nan)]
    write_study(results, tmp_path / "new")
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["study.csv", "study.md", "study.tex", "study.txt"]
    with (tmp_path / "new" / "study.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == ["siren", "kernel-siren", "siren"]
    assert [float(row["psnr"]) for row in rows[:2]] == [100 / 3, math.pi] and math.isnan(float(rows[2]["psnr"]))
    assert [row["residual"] for row in rows] == ["", "3e-13", ""]
    assert "highest PSNR on 0 of 1 materials" in (tmp_path / "new" / "study.txt").read_text(encoding="utf-8")


def test_latex_is_escaped():
    """Group and method names with characters that LaTeX reads as commands."""
    text = study_latex([result("a", "my_method 100%", 30.0)])
    assert r"my\_method 100\%" in text


@pytest.mark.parametrize("write", [study_text, study_markdown, study_latex, where_order_breaks])
def test_nothing_and_doubles_are_refused(write):
    with pytest.raises(ConstraintError, match="at least one result"):
        write([])
    with pytest.raises(ConstraintError, match="two results of ffn on a"):
        write([result("a", "ffn", 30.0), result("a", "ffn", 31.0)])


@pytest.mark.filterwarnings("error")
def test_dot_plots(tmp_path):
    """From one result to 24 materials in 3 groups by 8 methods, with failed ones, and with nothing but failed ones."""
    pytest.importorskip("matplotlib")
    many = [
        result(f"m{k}", method, 20.0 + k if k != 3 else math.nan, f"group {k % 3}")
        for k in range(24)
        for method in TITLES
    ]
    for name, results in {"one": many[:1], "many": many, "lost": [many[24]]}.items():
        assert draw_study(results, tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ConstraintError, match="at least one result"):
        draw_study([], tmp_path / "x.png")


def test_every_method_looks_different():
    assert set(TITLES) == set(COLOURS) == set(MARKS)
    assert len(set(COLOURS.values())) == len(set(TITLES.values())) == len(TITLES)
