"""Hard surfaces, what is shown: a table per measure, forms down and methods across, the best marked; and a plot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from cnf.reports.plots import BLUE, GREEN, GREY, INK, ORANGE, RED, SKY, draw
from studies.hard_surfaces.cases import CASES
from studies.study import Row
from studies.tables import Cell, Table

MEASURES: dict[str, tuple[str, Callable[[float], str]]] = {  # title -> (name, how it is written)
    "Chamfer distance e-4": ("chamfer", lambda v: f"{1e4 * v:.2f}"),
    "largest distance of the mesh from the truth": ("largest", lambda v: f"{v:.4f}"),
    "Hausdorff distance": ("hausdorff", lambda v: f"{v:.4f}"),
    "seconds by the clock": ("seconds", lambda v: f"{v:.1f}"),
    "processor seconds": ("processor_seconds", lambda v: f"{v:.1f}"),
    "peak memory in MB": ("megabytes", lambda v: f"{v:.0f}"),
    "parts": ("components", lambda v: f"{v:g}"),
}
COUNTED = ("chamfer", "largest", "hausdorff")  # of these the forms on which a method is the best are counted
UNMARKED = ("components",)
NOTES = (
    "The longest side of a form is 2. Chamfer: mean of both directions, to triangles; largest: of a vertex or sample "
    "of the mesh from the true surface; a star: the best of its line; best: on how many forms. The "
    "number of few points is in the name. Spacing: the root of the area per point. Without normals every package "
    "estimates its own. "
    "cnf-open and open3d-poisson-8-trimmed were told that the surface is open, the others were not."
)
COLOURS = (BLUE, SKY, ORANGE, GREEN, RED, GREY, INK)
MARKS = "oDs^vphd<>"


def make_tables(rows: Sequence[Row]) -> list[Table]:
    """A table per measure, and what cnf says."""
    methods, forms = _order(rows)
    tables = [_table(rows, title, name, style, methods, forms) for title, (name, style) in MEASURES.items()]
    said = [[row["form"], row["method"], row["notes"]] for row in rows if row.get("notes")]
    return [*tables, Table(["form", "method", "what it says"], said, 3, "notes")] if said else tables


def _order(rows: Sequence[Row]) -> tuple[list[str], list[str]]:
    """Methods with ours first, each beside what it was before; forms as in the list of cases."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    there = {row["form"] for row in rows}
    return sorted(methods, key=lambda m: (not m.startswith("cnf"), m if m.startswith("cnf") else "")), [
        name for name in CASES if name in there
    ]


def _table(
    rows: Sequence[Row],
    title: str,
    name: str,
    style: Callable[[float], str],
    methods: Sequence[str],
    forms: Sequence[str],
) -> Table:
    found = {(row["form"], row["method"]): row[name] for row in rows if row.get(name) is not None}
    lines: list[list[object]] = []
    wins = dict.fromkeys(methods, 0)
    for form in forms:
        values = {m: found[form, m] for m in methods if (form, m) in found}
        written = {m: style(v) for m, v in values.items()}
        best = written[min(values, key=lambda m: values[m])] if values and name not in UNMARKED else None
        for method in written:
            wins[method] += written[method] == best
        cells = [Cell(written.get(m, "-"), best=best is not None and written.get(m) == best) for m in methods]
        lines.append([form, *cells])
    if name in COUNTED and len(forms) > 1:
        lines.append(["best", *(Cell(f"{wins[m]}") for m in methods)])
    return Table(["form", *methods], lines, 1, title)


def plot(rows: Sequence[Row], path: object) -> Path:
    """Chamfer and largest distance, a line per form, a mark per method; groups are told apart by lines between them."""
    methods, forms = _order(rows)
    places = {form: -k for k, form in enumerate(forms)}
    panels = {"Chamfer distance": "chamfer", "largest distance from the truth": "largest", "seconds": "seconds"}

    def paint(figure: Any) -> None:
        axes = figure.subplots(1, len(panels), sharey=True)
        for panel, (title, name) in zip(axes, panels.items(), strict=True):
            for k, method in enumerate(methods):
                own = [(row[name], places[row["form"]]) for row in rows if row["method"] == method and row.get(name)]
                if own:
                    colour, mark = COLOURS[k % len(COLOURS)], MARKS[k % len(MARKS)]
                    looks = {"color": colour, "markersize": 8 if method.startswith("cnf") else 6}
                    x, y = zip(*own, strict=True)
                    panel.plot(x, y, mark, label=method, markeredgecolor="white", zorder=3, **looks)
            for before, form in pairwise(forms):
                if CASES[before].group != CASES[form].group:
                    panel.axhline(places[form] + 0.5, color="#B0B0B0", linewidth=0.8)
            panel.set(xscale="log", title=title)
            panel.grid(True, axis="x")
            panel.set_yticks(list(places.values()), list(places))
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)

    return draw(path, (13.0, 2.2 + 0.32 * len(forms)), paint)
