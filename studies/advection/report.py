"""Report of the advection study: the paper's two tables beside ours as text and Markdown, CSV, and three pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from cnf.demo.plots import _decades, _picture
from cnf.reports.plots import BLUE, GREEN, GREY, INK, ORANGE, RED, draw
from cnf.reports.tables import csv_text, markdown_table, text_table, write_text

if TYPE_CHECKING:
    from studies.advection.study import Case

COLOURS = {
    "random-fourier": BLUE,
    "rbf": GREY,
    "skewed-rbf": GREEN,
    "skewed-rbf-paper": RED,
    "siren": ORANGE,
}
LOSSES = {
    "skewed-rbf": "held-out residual\n(root mean square)",
    "skewed-rbf-paper": "log condition number\n+ total variation",
    "siren": "mean square residual\n+ 10 x initial misfit",
}
GRID = {"which": "major", "color": "#E2E2E2", "linewidth": 0.7}
FLOOR = 1e-17  # a logarithmic axis has no place for zero
COLUMNS = (
    "perturbation",
    "method",
    "seed",
    "rmse",
    "nrmse",
    "pooled_rmse",
    "residual",
    "steps",
    "training_seconds",
    "inference_seconds",
)

Table = tuple[list[str], list[list[str]], int]  # header, rows, how many columns are words


def error_rows(cases: Sequence[Case]) -> Table:
    """One row per perturbation and method: the worst of the seeds beside the paper."""
    header = ["perturbation", "method", "RMSE", "nRMSE", "paper RMSE", "paper nRMSE", "paper / ours", "worst residual"]
    rows = []
    for (level, method), group in _grouped(cases).items():
        worst = max(group, key=lambda c: c.rmse)
        paper = ["-", "-", "-"]
        if worst.paper is not None:
            paper = [*(f"{value:.4f}" for value in worst.paper), f"{worst.paper[0] / worst.rmse:.2g}"]
        residual = max(c.residual for c in group)
        rows.append([f"{level:g}", method, f"{worst.rmse:.1e}", f"{worst.nrmse:.1e}", *paper, f"{residual:.1e}"])
    return header, rows, 2


def time_rows(cases: Sequence[Case]) -> Table:
    """One row per method: the median over perturbations and seeds, in seconds, beside the paper."""
    header = ["method", "steps", "training", "paper training", "inference", "paper inference"]
    rows = []
    for method in dict.fromkeys(c.method for c in cases):
        group = [c for c in cases if c.method == method]
        paper = ["-", "-"]
        if group[0].paper_seconds is not None:
            training, inference = group[0].paper_seconds
            paper = [f"{training:.1f}", f"{inference:.4f}"]
        ours = [f"{median(c.training_seconds for c in group):.1f}", f"{median(c.inference_seconds for c in group):.4f}"]
        rows.append([method, str(group[0].steps or "-"), ours[0], paper[0], ours[1], paper[1]])
    return header, rows, 1


def study_text(cases: Sequence[Case]) -> str:
    """Both tables, as plain text."""
    return f"{text_table(*error_rows(cases))}\n\n{text_table(*time_rows(cases))}"


def write_tables(cases: Sequence[Case], folder: Path, notes: str = "") -> list[Path]:
    """Both tables and the notes as advection.txt and advection.md."""
    errors, times = error_rows(cases), time_rows(cases)
    plain = f"{study_text(cases)}\n\n{notes}".rstrip() + "\n"
    marked = f"# Advection\n\n{markdown_table(*errors)}\n\n{markdown_table(*times)}\n\n{notes}".rstrip() + "\n"
    return [write_text(folder / "advection.txt", plain), write_text(folder / "advection.md", marked)]


def write_numbers(cases: Sequence[Case], folder: Path) -> list[Path]:
    """advection.csv, a row per case; advection_curves.csv, a row per point of a learning curve. Full precision."""
    header = [*COLUMNS, "paper_rmse", "paper_nrmse", "paper_training_seconds", "paper_inference_seconds"]
    lines = [
        [*(getattr(c, name) for name in COLUMNS), *(c.paper or ("", "")), *(c.paper_seconds or ("", ""))] for c in cases
    ]
    points = [
        [c.perturbation, c.method, c.seed, *row]
        for c in cases
        for row in zip(c.curve.step, c.curve.loss, c.curve.rmse, c.curve.seconds, strict=True)
    ]
    curves = ["perturbation", "method", "seed", "step", "loss", "rmse", "seconds"]
    return [
        write_text(folder / "advection.csv", csv_text(header, lines)),
        write_text(folder / "advection_curves.csv", csv_text(curves, points)),
    ]


def plot_errors(cases: Sequence[Case], path: object) -> Path:
    """RMSE over the perturbation: ours (filled, worst of the seeds) and the paper's (hollow, dashed)."""
    levels = sorted({c.perturbation for c in cases})
    groups = _grouped(cases)

    def paint(figure: Any) -> None:
        panel = figure.subplots()
        for method, colour in COLOURS.items():
            found = [(k, max(c.rmse for c in groups[v, method])) for k, v in enumerate(levels) if (v, method) in groups]
            if not found:
                continue
            panel.semilogy(*zip(*found, strict=True), "o-", color=colour, markersize=6, label=method, zorder=3)
        for method, colour in (("rbf", GREY), ("skewed-rbf", GREEN)):
            known = {c.perturbation: c.paper[0] for c in cases if c.method == method and c.paper is not None}
            paper = [(k, known[level]) for k, level in enumerate(levels) if level in known]
            if paper:
                style = {"color": colour, "markerfacecolor": "white", "linewidth": 1.2, "markersize": 6, "zorder": 4}
                panel.semilogy(*zip(*paper, strict=True), "o--", label=f"paper, {method}", **style)
        panel.set_xticks(range(len(levels)), [f"{level:g}" for level in levels])
        panel.set_xlabel("perturbation of the grid")
        panel.set_ylabel("RMSE")
        panel.set_title("advection on scattered points")
        panel.minorticks_off()
        panel.grid(True, axis="y", **GRID)
        panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))

    return draw(path, (7.6, 4.2), paint)


def plot_curves(cases: Sequence[Case], path: object) -> Path:
    """Above, RMSE over the steps, a panel per perturbation; below, what each method minimises, a panel per method."""
    levels = sorted({c.perturbation for c in cases})
    trained = [m for m in LOSSES if any(c.method == m and c.curve.step for c in cases)]

    def paint(figure: Any) -> None:
        upper, lower = figure.subfigures(2, 1, height_ratios=(1.12, 1), hspace=0.05)
        panels = upper.subplots(1, len(levels), sharex=True, sharey=True, squeeze=False)[0]
        for panel, level in zip(panels, levels, strict=True):
            _paint_level(panel, [c for c in cases if c.perturbation == level], level)
        panels[0].set_ylabel("RMSE")
        handles = {t: h for p in panels for h, t in zip(*p.get_legend_handles_labels(), strict=True)}
        upper.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles))
        colours = _shades(len(levels))
        below = lower.subplots(1, max(1, len(trained)), squeeze=False)[0]
        for panel, method in zip(below, trained, strict=False):
            for level, colour in zip(levels, colours, strict=True):
                for k, case in enumerate(c for c in cases if c.method == method and c.perturbation == level):
                    label = f"{level:g}" if k == 0 else None
                    loss = np.asarray(case.curve.loss)
                    if method == "skewed-rbf":  # trained on the logarithm of the mean square
                        loss = np.exp(loss / 2)
                    marker = {"marker": "o", "markersize": 3.2} if len(loss) < 30 else {}
                    panel.plot(case.curve.step, loss, color=colour, linewidth=1.5, label=label, **marker)
            panel.set_title(method, color=COLOURS[method], fontweight="bold")
            panel.set_ylabel(LOSSES[method])
            panel.set_xlabel("step")
            panel.grid(True, axis="y", **GRID)
            panel.xaxis.get_major_locator().set_params(integer=True)
            if method == "skewed-rbf-paper":
                everything = [v for c in cases if c.method == method for v in c.curve.loss]
                top = float(np.percentile(everything, 98))  # single steps jump far beyond
                panel.set_ylim(min(everything) - 1, max(top, min(everything)) + 1)
            else:
                panel.set_yscale("log")
            panel.minorticks_off()
        if trained:
            shown = below[0].get_legend_handles_labels()
            lower.legend(*shown, loc="outside lower center", ncols=len(levels), title="perturbation")

    return draw(path, (2.5 * max(4, len(levels)), 7.2), paint)


def plot_maps(cases: Sequence[Case], path: object) -> Path:
    """The points of one grid over the exact field, and the error of every method there, on one logarithmic scale."""
    from cnf.demo.advection import SQUARE, exact_field

    side = 161
    points = SQUARE.grid(side)
    exact = _picture(exact_field(points), side)
    with torch.no_grad():
        errors = [np.abs(_picture(c.predict(points)[:, 0], side) - exact) for c in cases]
    rows = 1 if len(cases) < 3 else 2
    columns = math.ceil((1 + len(cases)) / rows)

    def paint(figure: Any) -> None:
        from matplotlib.colors import LogNorm

        panels = list(figure.subplots(rows, columns, squeeze=False).flat)
        flat = {"extent": (0, 1, 0, 1), "origin": "lower"}
        image = panels[0].imshow(exact, cmap="viridis", vmin=-1, vmax=1, interpolation="bilinear", **flat)
        at = cases[0].points.numpy()
        inside = at[((at >= 0) & (at <= 1)).all(axis=1)]
        panels[0].plot(*inside.T, "o", color="white", markersize=2.1, markeredgewidth=0.3, markeredgecolor=INK)
        panels[0].set_title(f"exact field and points\nperturbation {cases[0].perturbation:g}")
        low, high = _decades(errors)
        for panel, case, error in zip(panels[1:], cases, errors, strict=False):
            norm = LogNorm(low, high)
            image = panel.imshow(np.maximum(error, low), cmap="cividis", norm=norm, interpolation="nearest", **flat)
            panel.set_title(f"{case.method}\nRMSE {case.rmse:.1e}")
        bar = figure.colorbar(image, ax=panels, pad=0.02, aspect=30, label="|error|")
        bar.ax.minorticks_off()
        bar.outline.set_visible(False)
        for k, panel in enumerate(panels):
            panel.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
            panel.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
            panel.spines[:].set_visible(False)
            panel.set_visible(k <= len(cases))
            panel.set_xlabel("x" if k + columns > len(cases) else "")
            panel.set_ylabel("t" if k % columns == 0 else "")

    return draw(path, (2.6 * columns + 1.4, 3.1 * rows), paint, layout="compressed")


def _paint_level(panel: Any, cases: Sequence[Case], level: float) -> None:
    """RMSE of one grid over the steps; methods without training, and the paper's result, as lines across."""
    for case in cases:
        colour = COLOURS[case.method]
        if case.curve.step:
            values = np.maximum(case.curve.rmse, FLOOR)
            marker = {"marker": "o", "markersize": 3.2} if len(values) < 30 else {}
            panel.plot(case.curve.step, values, color=colour, linewidth=1.5, label=case.method, zorder=3, **marker)
        else:
            style = {"linestyle": (0, (1, 1.2)), "linewidth": 1.6}
            panel.axhline(max(case.rmse, FLOOR), color=colour, label=f"{case.method} (not trained)", **style)
    paper = next((c.paper[0] for c in cases if c.method.startswith("skewed-rbf") and c.paper is not None), None)
    if paper is not None:
        panel.axhline(paper, color=INK, linestyle=(0, (5, 3)), linewidth=1.1, label="paper, skewed-rbf", zorder=2)
    panel.set_xscale("symlog", linthresh=1, linscale=0.4)
    panel.set_yscale("log")
    last = max((c.curve.step[-1] for c in cases if c.curve.step), default=1)
    panel.set_xlim(-0.12, 1.4 * max(10, last))
    ticks = [0, *(10**k for k in range(6) if 10**k <= 1.4 * max(10, last))]
    panel.set_xticks(ticks, [str(tick) for tick in ticks])
    panel.minorticks_off()
    panel.set_title(f"perturbation {level:g}")
    panel.set_xlabel("step")
    panel.grid(True, axis="y", **GRID)


def _grouped(cases: Sequence[Case]) -> dict[tuple[float, str], list[Case]]:
    groups: dict[tuple[float, str], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.perturbation, case.method), []).append(case)
    return groups


def _shades(count: int) -> list[Any]:
    from matplotlib import colormaps

    return [colormaps["viridis"](0.05 + 0.8 * k / max(1, count - 1)) for k in range(count)]
