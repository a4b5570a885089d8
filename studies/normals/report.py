"""Report of the study of exact normals: the paper's table beside ours as text, Markdown and CSV, and three pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from cnf.reports.plots import BLUE, GREEN, GREY, INK, ORANGE, RED, draw
from cnf.reports.tables import csv_text, markdown_table, text_table, write_text
from cnf.shapes.report.field_panel import YELLOW, paint_field

if TYPE_CHECKING:
    from studies.normals.study import Case, Look

COLOURS = {"exact": BLUE, "pseudo": RED, "siren": ORANGE, "hermite": GREEN}
NAMES = {
    "exact": "exact normals",
    "pseudo": "pseudo-normals",
    "siren": "SIREN",
    "hermite": "Hermite, not trained",
}
FLOOR = 1e-17  # a logarithmic axis has no place for zero

Table = tuple[list[str], list[list[str]], int]  # header, rows, how many columns are words


def error_rows(cases: Sequence[Case]) -> Table:
    """One row per shape and method: normal error before and after training beside the paper, and what else is asked."""
    header = ["shape", "method", "normal error: start", "trained", "paper: start", "trained", "worst |d|", "eikonal"]
    header += ["distance RMSE"]
    rows = []
    for c in cases:
        paper = c.paper or (None, None)
        start = "-" if c.before is None else f"{c.before.normal_error:.1e}"
        rows.append(
            [
                c.shape.name,
                c.method,
                start,
                f"{c.after.normal_error:.1e}",
                *("-" if value is None else f"{value:.1e}" for value in paper),
                f"{c.after.value_error:.1e}",
                f"{c.after.eikonal:.1e}",
                f"{c.after.distance_error:.2f}",
            ]
        )
    return header, rows, 2


def time_rows(cases: Sequence[Case]) -> Table:
    """One row per method: medians over the shapes, in seconds, beside the paper."""
    from studies.normals.study import PAPER_SECONDS

    header = ["method", "epochs", "training", "pre-training", "paper training", "inference", "paper inference"]
    rows = []
    for method in dict.fromkeys(c.method for c in cases):
        group = [c for c in cases if c.method == method]
        before = [c.pretraining_seconds for c in group if c.pretraining_seconds]
        paper = [f"{value:g}" for value in PAPER_SECONDS.get(method, ())] or ["-", "-"]
        rows.append(
            [
                method,
                str(group[0].epochs or "-"),
                f"{median(c.training_seconds for c in group):.1f}",
                f"{median(before):.1f}" if before else "-",
                paper[0],
                f"{median(c.inference_seconds for c in group):.4f}",
                paper[1],
            ]
        )
    return header, rows, 1


def study_text(cases: Sequence[Case]) -> str:
    """Both tables, as plain text."""
    return f"{text_table(*error_rows(cases))}\n\n{text_table(*time_rows(cases))}"


def write_tables(cases: Sequence[Case], folder: Path, notes: str = "") -> list[Path]:
    """Both tables and the notes as normals.txt and normals.md."""
    plain = f"{study_text(cases)}\n\n{notes}".rstrip() + "\n"
    marked = f"{markdown_table(*error_rows(cases))}\n\n{markdown_table(*time_rows(cases))}\n\n{notes}".rstrip()
    return [
        write_text(folder / "normals.txt", plain),
        write_text(folder / "normals.md", f"# Exact normals\n\n{marked}\n"),
    ]


def write_numbers(cases: Sequence[Case], folder: Path) -> list[Path]:
    """normals.csv, a row per case; normals_curves.csv, a row per epoch. Full precision."""
    looked = ("normal_error", "worst_normal_error", "value_error", "eikonal", "distance_error")
    header = ["shape", "method", "points", *(f"start_{name}" for name in looked), *looked, "worst_residual", "epochs"]
    header += ["training_seconds", "pretraining_seconds", "inference_seconds", "paper_start", "paper", "note"]
    lines = []
    for c in cases:
        start = ["" if c.before is None else getattr(c.before, name) for name in looked]
        paper = ["" if value is None else value for value in c.paper or (None, None)]
        seconds = [c.training_seconds, c.pretraining_seconds, c.inference_seconds]
        after = [getattr(c.after, name) for name in looked]
        facts = [c.worst_residual, c.epochs, *seconds, *paper, c.note]
        lines.append([c.shape.name, c.method, len(c.shape), *start, *after, *facts])
    points = [
        [c.shape.name, c.method, *row]
        for c in cases
        for row in zip(c.course.step, c.course.loss, c.course.residual, c.course.seconds, strict=True)
    ]
    return [
        write_text(folder / "normals.csv", csv_text(header, lines)),
        write_text(
            folder / "normals_curves.csv", csv_text(["shape", "method", "epoch", "eikonal", "residual", "s"], points)
        ),
    ]


def plot_fields(cases: Sequence[Case], path: object) -> Path:
    """A row per shape: the field of every method, before and after training, with level sets, points and normals."""
    shapes = list(dict.fromkeys(c.shape.name for c in cases))
    columns = _columns(cases)
    size = 2.15

    def paint(figure: Any) -> None:
        panels = figure.subplots(len(shapes), len(columns), squeeze=False, sharex=True, sharey=True)
        for panel in panels.flat:
            panel.set_visible(False)
        for c in cases:
            for moment, look in _looks(c):
                column = columns.index((c.method, moment))
                panel = panels[shapes.index(c.shape.name), column]
                panel.set_visible(True)
                image = paint_field(panel, look.grid, c.shape.points.numpy(), c.shape.normals.numpy(), look.normals)
                panel.set_xlabel(f"normal error {_short(look.normal_error)}", fontsize=8.5, labelpad=3)
        for panel, (method, moment) in zip(panels[0], columns, strict=True):
            panel.set_title(f"{NAMES[method]}\n{moment}" if moment else f"{NAMES[method]}\n", fontsize=10)
        for row, name in zip(panels, shapes, strict=True):
            shown = next(panel for panel in row if panel.get_visible())
            shown.set_ylabel(name, fontsize=11, labelpad=6)
        bar = figure.colorbar(
            image, ax=panels, pad=0.012, aspect=40, shrink=0.7, ticks=[-1.5, -1, -0.5, 0, 0.5, 1, 1.5]
        )
        bar.ax.set_title("d", fontsize=10)
        bar.outline.set_visible(False)
        figure.legend(handles=list(_legend()), loc="outside lower center", ncols=4 if len(columns) > 3 else 2)

    return draw(path, (size * len(columns) + 0.9, 1.14 * size * len(shapes) + 0.9), paint, layout="compressed")


def plot_curves(cases: Sequence[Case], path: object) -> Path:
    """The eikonal loss over the epochs, a panel per shape; below, how well the conditions hold meanwhile."""
    trained = [c for c in cases if c.course.step]
    shapes = list(dict.fromkeys(c.shape.name for c in trained))

    def paint(figure: Any) -> None:
        panels = figure.subplots(2, len(shapes), squeeze=False, sharex=True, sharey="row", height_ratios=(1.5, 1))
        for above, below, name in zip(*panels, shapes, strict=True):
            for c in (c for c in cases if c.shape.name == name):
                style = {"color": COLOURS[c.method], "linewidth": 1.7}
                if not c.course.step:
                    across = {**style, "linestyle": (0, (1, 1.2))}
                    above.axhline(c.after.eikonal, label=NAMES[c.method], **across)
                    continue
                above.plot(c.course.step, c.course.loss, label=NAMES[c.method], **style)
                below.plot(c.course.step, np.maximum(c.course.residual, FLOOR), **style)
            above.set_title(name)
            below.set_xlabel("epoch")
            for panel in (above, below):
                panel.set_yscale("log")
                panel.minorticks_off()
                panel.grid(True, axis="y", color="#E2E2E2", linewidth=0.7)
        panels[0, 0].set_ylabel("eikonal loss")
        worst = max(max(c.course.residual) for c in trained)
        panels[1, 0].set_ylim(1e-16, max(1e-11, 3 * worst))  # all of what is rounding looks like it
        panels[1, 0].set_ylabel("worst miss\nof a condition")
        found = {t: h for p in panels[0] for h, t in zip(*p.get_legend_handles_labels(), strict=True)}
        figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=len(found))

    return draw(path, (2.6 * max(2, len(shapes)) + 0.6, 5.0), paint)


def plot_errors(cases: Sequence[Case], path: object) -> Path:
    """Mean normal error of every method and shape: ours after training (filled) beside the paper's (hollow)."""
    shapes = list(dict.fromkeys(c.shape.name for c in cases))
    methods = list(dict.fromkeys(c.method for c in cases))

    def paint(figure: Any) -> None:
        panel = figure.subplots()
        for k, method in enumerate(methods):
            shift = 0.17 * (k - (len(methods) - 1) / 2)
            group = [c for c in cases if c.method == method]
            at = [shapes.index(c.shape.name) + shift for c in group]
            ours = [max(c.after.normal_error, FLOOR) for c in group]
            panel.semilogy(at, ours, "o", color=COLOURS[method], markersize=8, label=NAMES[method], zorder=3)
            for x, c in zip(at, group, strict=True):
                if c.paper is not None:
                    style = {"color": COLOURS[method], "markersize": 8, "markerfacecolor": "white", "zorder": 3}
                    panel.semilogy(x, c.paper[1], "o", markeredgewidth=1.5, **style)
                    panel.semilogy([x, x], [c.after.normal_error, c.paper[1]], color=COLOURS[method], linewidth=0.8)
        panel.semilogy([], [], "o", color=GREY, markersize=8, markerfacecolor="white", label="paper")
        panel.set_xticks(range(len(shapes)), shapes)
        panel.set_xlim(-0.5, len(shapes) - 0.5)
        panel.set_ylabel("mean normal error, after training")
        panel.minorticks_off()
        panel.grid(True, axis="y", color="#E2E2E2", linewidth=0.7)
        panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))

    return draw(path, (7.8, 4.0), paint)


def _columns(cases: Sequence[Case]) -> list[tuple[str, str]]:
    """Method and moment of every column: pseudo-normals first, then exact ones, as in the paper."""
    order = [m for m in ("siren", "pseudo", "exact", "hermite") if any(c.method == m for c in cases)]
    found = []
    for method in order:
        first = next(c for c in cases if c.method == method)
        found += [(method, moment) for moment, _ in _looks(first)]
    return found


def _looks(case: Case) -> list[tuple[str, Look]]:
    if case.before is not None:
        return [("at the start", case.before), ("trained", case.after)]
    return [("trained" if case.course.step else "", case.after)]


def _legend() -> Iterator[Any]:
    from matplotlib.lines import Line2D

    yield Line2D([], [], color=YELLOW, marker="o", markeredgecolor=INK, linestyle="none", label="points")
    yield Line2D([], [], color="black", linewidth=1.8, label="zero level set")
    for colour, label, size in (("black", "normals that are asked", 9), ("#E8112D", "gradient of the field", 7)):
        yield Line2D([], [], color=colour, marker=r"$\rightarrow$", markersize=size + 5, linestyle="none", label=label)


def _short(value: float) -> str:
    return f"{value:.1e}" if value < 1e-2 else f"{value:.2f}"
