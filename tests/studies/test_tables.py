"""Tables: the same cells as text, Markdown, CSV and LaTeX, written out by hand here."""

from __future__ import annotations

import csv

from studies.tables import Cell, Table

MARKED = Table(
    ["method", "error e-2", "of"],
    [["a|b_c", Cell("1.00", "0.5", best=True), 1 / 3], ["d", Cell("20.00", "12.5"), None], ["e", Cell("-"), "x"]],
    title="Two",
    better=[0, -1],
)


def test_text():
    """Words flush left, numbers right, deviations and stars below each other, a dash for what is not there."""
    plain = Table(["name", "n", "why"], [["a", 1, "no"], ["long", None, ""]], left=["name", "why"])
    assert plain.text() == "name  n  why\n----  -  ---\na     1  no\nlong  -"
    assert MARKED.text().splitlines() == [
        "Two",
        "method      error e-2                  of",
        "------  -------------  ------------------",
        "a|b_c    1.00 ±  0.5*  0.3333333333333333",
        "d       20.00 ± 12.5                    -",
        "e                  -                    x",
    ]


def test_markdown():
    """Bars in cells are escaped, so that every line has as many columns; the best is bold."""
    lines = MARKED.markdown().splitlines()
    assert lines[:2] == ["### Two", ""]
    assert len({line.replace(r"\|", "").count("|") for line in lines[2:]}) == 1
    assert r"a\|b_c" in lines[4] and "**1.00 ± 0.5**" in lines[4]
    assert lines[3].replace("-", "") == "||:|:|"


def test_latex():
    """A tabular of booktabs; units, arrows, bold and what TeX reads as commands."""
    assert MARKED.latex().splitlines() == [
        "% Two",
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"method & error{\tiny$\times10^{-2}$}$\downarrow$ & of \\",
        r"\midrule",
        r"a|b\_c & \textbf{1.00} $\pm$ \textbf{0.5} & 0.3333333333333333 \\",
        r"d & 20.00 $\pm$ 12.5 & -- \\",
        r"e & -- & x \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_csv():
    """Numbers read back are the same; commas and quotes survive; None is an empty cell."""
    table = Table(["a", "b"], [[1 / 3, 'x, "y"'], [1e-300, None]])
    first, second = csv.DictReader(table.csv().splitlines())
    assert (float(first["a"]), first["b"]) == (1 / 3, 'x, "y"')
    assert (float(second["a"]), second["b"]) == (1e-300, "")


def test_rows_of_named_values():
    """Formats and functions; a value that is missing is a dash in the table and nothing in it fails."""
    columns = {"n": ("count", "d"), "error": ("error", ".1e"), "closed": ("closed", lambda v: "yes" if v else "no")}
    table = Table.of([{"count": 3, "error": 0.012, "closed": True}, {"count": 4}], columns)
    assert [list(row) for row in table.rows] == [["3", "1.2e-02", "yes"], ["4", "-", "-"]]
    assert Table(["a"], []).text() == "a\n-"
