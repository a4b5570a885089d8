"""Pictures of the study of exact normals: the fields, their learning curves, errors beside the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cnf.reports.plots import BLUE, GREEN, GREY, INK, ORANGE, RED, draw
from cnf.shapes.report.field_panel import YELLOW, paint_field
from studies.normals.shapes import find_shape
from studies.study import Row

COLOURS = {"exact": BLUE, "pseudo": RED, "siren": ORANGE, "hermite": GREEN}
NAMES = {
    "exact": "exact normals",
    "pseudo": "pseudo-normals",
    "siren": "SIREN",
    "hermite": "Hermite, not trained",
}
FLOOR = 1e-17  # a logarithmic axis has no place for zero


def plot_fields(cases: Sequence[Row], fields: Sequence[dict[str, np.ndarray]], path: object) -> Path:
    """A row per shape: the field of every method, before and after training, with level sets, points and normals."""
    shapes = list(dict.fromkeys(c["shape"] for c in cases))
    columns = _columns(cases)
    size = 2.15

    def paint(figure: Any) -> None:
        panels = figure.subplots(len(shapes), len(columns), squeeze=False, sharex=True, sharey=True)
        for panel in panels.flat:
            panel.set_visible(False)
        for c, found in zip(cases, fields, strict=True):
            shape = find_shape(c["shape"])
            for moment, when, error in _looks(c):
                panel = panels[shapes.index(c["shape"]), columns.index((c["method"], moment))]
                panel.set_visible(True)
                grid, slopes = found[f"{when}_grid"], found[f"{when}_normals"]
                image = paint_field(panel, grid, shape.points.numpy(), shape.normals.numpy(), slopes)
                panel.set_xlabel(f"normal error {_short(c[error])}", fontsize=8.5, labelpad=3)
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


def plot_curves(cases: Sequence[Row], path: object) -> Path:
    """The eikonal loss over the epochs, a panel per shape; below, how well the conditions hold meanwhile."""
    trained = [c for c in cases if c["curve"]["epoch"]]
    shapes = list(dict.fromkeys(c["shape"] for c in trained))

    def paint(figure: Any) -> None:
        panels = figure.subplots(2, len(shapes), squeeze=False, sharex=True, sharey="row", height_ratios=(1.5, 1))
        for above, below, name in zip(*panels, shapes, strict=True):
            for c in (c for c in cases if c["shape"] == name):
                style = {"color": COLOURS[c["method"]], "linewidth": 1.7}
                if not c["curve"]["epoch"]:
                    across = {**style, "linestyle": (0, (1, 1.2))}
                    above.axhline(c["eikonal"], label=NAMES[c["method"]], **across)
                    continue
                above.plot(c["curve"]["epoch"], c["curve"]["eikonal"], label=NAMES[c["method"]], **style)
                below.plot(c["curve"]["epoch"], np.maximum(c["curve"]["residual"], FLOOR), **style)
            above.set_title(name)
            below.set_xlabel("epoch")
            for panel in (above, below):
                panel.set_yscale("log")
                panel.minorticks_off()
                panel.grid(True, axis="y")
        panels[0, 0].set_ylabel("eikonal loss")
        worst = max(max(c["curve"]["residual"]) for c in trained)
        panels[1, 0].set_ylim(1e-16, max(1e-11, 3 * worst))  # all of what is rounding looks like it
        panels[1, 0].set_ylabel("worst miss\nof a condition")
        found = {t: h for p in panels[0] for h, t in zip(*p.get_legend_handles_labels(), strict=True)}
        figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=len(found))

    return draw(path, (2.6 * max(2, len(shapes)) + 0.6, 5.0), paint)


def plot_errors(cases: Sequence[Row], path: object) -> Path:
    """Mean normal error of every method and shape: ours after training (filled) beside the paper's (hollow)."""
    shapes = list(dict.fromkeys(c["shape"] for c in cases))
    methods = list(dict.fromkeys(c["method"] for c in cases))

    def paint(figure: Any) -> None:
        panel = figure.subplots()
        for k, method in enumerate(methods):
            shift = 0.17 * (k - (len(methods) - 1) / 2)
            group = [c for c in cases if c["method"] == method]
            at = [shapes.index(c["shape"]) + shift for c in group]
            ours = [max(c["normal_error"], FLOOR) for c in group]
            panel.semilogy(at, ours, "o", color=COLOURS[method], markersize=8, label=NAMES[method], zorder=3)
            for x, c in zip(at, group, strict=True):
                if c["paper"] is not None:
                    style = {"color": COLOURS[method], "markersize": 8, "markerfacecolor": "white", "zorder": 3}
                    panel.semilogy(x, c["paper"], "o", markeredgewidth=1.5, **style)
                    panel.semilogy([x, x], [c["normal_error"], c["paper"]], color=COLOURS[method], linewidth=0.8)
        panel.semilogy([], [], "o", color=GREY, markersize=8, markerfacecolor="white", label="paper")
        panel.set_xticks(range(len(shapes)), shapes)
        panel.set_xlim(-0.5, len(shapes) - 0.5)
        panel.set_ylabel("mean normal error, after training")
        panel.minorticks_off()
        panel.grid(True, axis="y")
        panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))

    return draw(path, (7.8, 4.0), paint)


def _columns(cases: Sequence[Row]) -> list[tuple[str, str]]:
    """Method and moment of every column: pseudo-normals first, then exact ones, as in the paper."""
    order = [m for m in ("siren", "pseudo", "exact", "hermite") if any(c["method"] == m for c in cases)]
    found = []
    for method in order:
        first = next(c for c in cases if c["method"] == method)
        found += [(method, moment) for moment, _, _ in _looks(first)]
    return found


def _looks(case: Row) -> list[tuple[str, str, str]]:
    """What there is to see of a case: its heading, which arrays, which error."""
    after = ("after", "normal_error")
    if case["start_normal_error"] is not None:
        return [("at the start", "before", "start_normal_error"), ("trained", *after)]
    return [("trained" if case["curve"]["epoch"] else "", *after)]


def _legend() -> Iterator[Any]:
    from matplotlib.lines import Line2D

    yield Line2D([], [], color=YELLOW, marker="o", markeredgecolor=INK, linestyle="none", label="points")
    yield Line2D([], [], color="black", linewidth=1.8, label="zero level set")
    for colour, label, size in (("black", "normals that are asked", 9), ("#E8112D", "gradient of the field", 7)):
        yield Line2D([], [], color=colour, marker=r"$\rightarrow$", markersize=size + 5, linestyle="none", label=label)


def _short(value: float) -> str:
    return f"{value:.1e}" if value < 1e-2 else f"{value:.2f}"
