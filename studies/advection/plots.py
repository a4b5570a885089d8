"""Pictures of the advection study: errors, learning curves, and maps of the errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cnf.demo.plots import as_picture, find_decades
from cnf.reports.plots import BLUE, GREEN, GREY, INK, ORANGE, RED, SKY, draw
from studies.study import Row

COLOURS = {
    "random-fourier": BLUE,
    "rbf": GREY,
    "skewed-rbf": GREEN,
    "rbf-paper": SKY,
    "skewed-rbf-paper": RED,
    "siren": ORANGE,
}
LOSSES = {
    "skewed-rbf": "held-out residual\n(root mean square)",
    "rbf-paper": "log condition number\n+ total variation",
    "skewed-rbf-paper": "log condition number\n+ total variation",
    "siren": "mean square residual\n+ 10 x initial misfit",
}
FLOOR = 1e-17  # a logarithmic axis has no place for zero


def plot_errors(cases: Sequence[Row], path: object) -> Path:
    """RMSE over the perturbation: ours (filled, worst of the seeds) and the paper's (hollow, dashed)."""
    levels = sorted({c["perturbation"] for c in cases})
    groups = group_rows(cases)

    def paint(figure: Any) -> None:
        panel = figure.subplots()
        for method, colour in COLOURS.items():
            found = [
                (k, max(c["rmse"] for c in groups[v, method])) for k, v in enumerate(levels) if (v, method) in groups
            ]
            if not found:
                continue
            panel.semilogy(*zip(*found, strict=True), "o-", color=colour, markersize=6, label=method, zorder=3)
        for method, colour in (("rbf", GREY), ("skewed-rbf", GREEN)):
            known = {c["perturbation"]: c["paper_rmse"] for c in cases if c["method"] == method and c["paper_rmse"]}
            paper = [(k, known[level]) for k, level in enumerate(levels) if level in known]
            if paper:
                style = {"color": colour, "markerfacecolor": "white", "linewidth": 1.2, "markersize": 6, "zorder": 4}
                panel.semilogy(*zip(*paper, strict=True), "o--", label=f"paper, {method}", **style)
        panel.set_xticks(range(len(levels)), [f"{level:g}" for level in levels])
        panel.set_xlabel("perturbation of the grid")
        panel.set_ylabel("RMSE")
        panel.set_title("advection on scattered points")
        panel.minorticks_off()
        panel.grid(True, axis="y")
        panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))

    return draw(path, (7.6, 4.2), paint)


def plot_curves(cases: Sequence[Row], path: object) -> Path:
    """Above, RMSE over the steps, a panel per perturbation; below, what each method minimises, a panel per method."""
    levels = sorted({c["perturbation"] for c in cases})
    trained = [m for m in LOSSES if any(c["method"] == m and c["curve"]["step"] for c in cases)]

    def paint(figure: Any) -> None:
        upper, lower = figure.subfigures(2, 1, height_ratios=(1.12, 1), hspace=0.05)
        panels = upper.subplots(1, len(levels), sharex=True, sharey=True, squeeze=False)[0]
        for panel, level in zip(panels, levels, strict=True):
            _paint_level(panel, [c for c in cases if c["perturbation"] == level], level)
        panels[0].set_ylabel("RMSE")
        handles = {t: h for p in panels for h, t in zip(*p.get_legend_handles_labels(), strict=True)}
        upper.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles))
        colours = _shades(len(levels))
        below = lower.subplots(1, max(1, len(trained)), squeeze=False)[0]
        for panel, method in zip(below, trained, strict=False):
            for level, colour in zip(levels, colours, strict=True):
                for k, case in enumerate(c for c in cases if c["method"] == method and c["perturbation"] == level):
                    label = f"{level:g}" if k == 0 else None
                    loss = np.asarray(case["curve"]["loss"])
                    if method == "skewed-rbf":  # trained on the logarithm of the mean square
                        loss = np.exp(loss / 2)
                    marker = {"marker": "o", "markersize": 3.2} if len(loss) < 30 else {}
                    panel.plot(case["curve"]["step"], loss, color=colour, linewidth=1.5, label=label, **marker)
            panel.set_title(method, color=COLOURS[method], fontweight="bold")
            panel.set_ylabel(LOSSES[method])
            panel.set_xlabel("step")
            panel.grid(True, axis="y")
            panel.xaxis.get_major_locator().set_params(integer=True)
            if method.endswith("-paper"):
                everything = [v for c in cases if c["method"] == method for v in c["curve"]["loss"]]
                top = float(np.percentile(everything, 98))  # single steps jump far beyond
                panel.set_ylim(min(everything) - 1, max(top, min(everything)) + 1)
            else:
                panel.set_yscale("log")
            panel.minorticks_off()
        if trained:
            shown = below[0].get_legend_handles_labels()
            lower.legend(*shown, loc="outside lower center", ncols=len(levels), title="perturbation")

    return draw(path, (2.5 * max(4, len(levels)), 7.2), paint)


def plot_maps(cases: Sequence[Row], maps: Sequence[dict[str, np.ndarray]], path: object) -> Path:
    """The points of one grid over the exact field, and the error of every method there, on one logarithmic scale."""
    from cnf.demo.advection import SQUARE, exact_field

    side = len(maps[0]["error"])
    points = SQUARE.grid(side)
    exact = as_picture(exact_field(points), side)
    errors = [found["error"] for found in maps]
    rows = 1 if len(cases) < 3 else 2
    columns = math.ceil((1 + len(cases)) / rows)

    def paint(figure: Any) -> None:
        from matplotlib.colors import LogNorm

        panels = list(figure.subplots(rows, columns, squeeze=False).flat)
        flat = {"extent": (0, 1, 0, 1), "origin": "lower"}
        image = panels[0].imshow(exact, cmap="viridis", vmin=-1, vmax=1, interpolation="bilinear", **flat)
        at = maps[0]["points"]
        inside = at[((at >= 0) & (at <= 1)).all(axis=1)]
        panels[0].plot(*inside.T, "o", color="white", markersize=2.1, markeredgewidth=0.3, markeredgecolor=INK)
        panels[0].set_title(f"exact field and points\nperturbation {cases[0]['perturbation']:g}")
        low, high = find_decades(errors)
        for panel, case, error in zip(panels[1:], cases, errors, strict=False):
            norm = LogNorm(low, high)
            image = panel.imshow(np.maximum(error, low), cmap="cividis", norm=norm, interpolation="nearest", **flat)
            panel.set_title(f"{case['method']}\nRMSE {case['rmse']:.1e}")
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


def _paint_level(panel: Any, cases: Sequence[Row], level: float) -> None:
    """RMSE of one grid over the steps; methods without training, and the paper's result, as lines across."""
    for case in cases:
        colour = COLOURS[case["method"]]
        if case["curve"]["step"]:
            values = np.maximum(case["curve"]["rmse"], FLOOR)
            marker = {"marker": "o", "markersize": 3.2} if len(values) < 30 else {}
            style = {"color": colour, "linewidth": 1.5, "zorder": 3, **marker}
            panel.plot(case["curve"]["step"], values, label=case["method"], **style)
        else:
            style = {"linestyle": (0, (1, 1.2)), "linewidth": 1.6}
            panel.axhline(max(case["rmse"], FLOOR), color=colour, label=f"{case['method']} (not trained)", **style)
    paper = next((c["paper_rmse"] for c in cases if c["method"].startswith("skewed-rbf") and c["paper_rmse"]), None)
    if paper is not None:
        panel.axhline(paper, color=INK, linestyle=(0, (5, 3)), linewidth=1.1, label="paper, skewed-rbf", zorder=2)
    panel.set_xscale("symlog", linthresh=1, linscale=0.4)
    panel.set_yscale("log")
    last = max((c["curve"]["step"][-1] for c in cases if c["curve"]["step"]), default=1)
    panel.set_xlim(-0.12, 1.4 * max(10, last))
    ticks = [0, *(10**k for k in range(6) if 10**k <= 1.4 * max(10, last))]
    panel.set_xticks(ticks, [str(tick) for tick in ticks])
    panel.minorticks_off()
    panel.set_title(f"perturbation {level:g}")
    panel.set_xlabel("step")
    panel.grid(True, axis="y")


def group_rows(cases: Sequence[Row]) -> dict[tuple[float, str], list[Row]]:
    groups: dict[tuple[float, str], list[Row]] = {}
    for case in cases:
        groups.setdefault((case["perturbation"], case["method"]), []).append(case)
    return groups


def _shades(count: int) -> list[Any]:
    from matplotlib import colormaps

    return [colormaps["viridis"](0.05 + 0.8 * k / max(1, count - 1)) for k in range(count)]
