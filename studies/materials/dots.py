"""The study of materials as a dot plot: PSNR by material and method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cnf.materials.report.method_style import colour_of, title_of
from cnf.reports.plots import INK, draw
from studies.materials.cases import Case
from studies.materials.results import CHAMPION
from studies.materials.tables import check_results

MARKS = {  # beside the colours, for print in grey
    **{
        "kernel-grid": "*",
        "kernel-grid-free": "p",
        "nbrdf": "s",
        "ffn": "^",
        "siren": "D",
        "kernel-ffn": "o",
        "kernel-siren": "o",
        "dot-siren": "v",
    },
    **{"hypernet": "P", "layer": "X", "hypernet-kernel": "h", "nbrdf-paper": "s", "ffn-paper": "^", "siren-paper": "D"},
}


def draw_study(results: Sequence[Case], path: object, champion: str = CHAMPION) -> Path:
    """PSNR of every method on every material, in the order given, and above it each method's mean and deviation.

    A result that is not finite is a cross at the left edge.
    """
    check_results(results)
    methods = list(dict.fromkeys(r.method for r in results))
    groups = {group: [r for r in results if r.group == group] for group in dict.fromkeys(r.group for r in results)}
    materials = len({r.key for r in results})
    finite = [r.psnr for r in results if math.isfinite(r.psnr)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 50.0)
    margin = max(0.05 * (high - low), 1.0)
    places = {method: _place(method, k) for k, method in enumerate(methods)}

    def paint(figure: Any) -> None:
        heights = [0.24 * len(methods) + 0.15, *(0.24 * len({r.key for r in own}) + 0.15 for own in groups.values())]
        panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
        _paint_means(panels[0], results, methods, places, champion)
        for panel, (group, own) in zip(panels[1:], groups.items(), strict=True):
            _paint_materials(panel, own, places, champion, low - margin)
            panel.set_title(group, loc="left", fontsize=9.5, fontweight="bold")
        for panel in panels:
            panel.set_xlim(low - 1.6 * margin, high + margin)
            panel.grid(True, axis="x")
            panel.tick_params(axis="y", length=0)
            panel.spines[["left", "bottom"]].set_visible(False)
            panel.tick_params(axis="x", length=0, labelbottom=panel is panels[-1])
        panels[-1].set_xlabel("PSNR in dB")

    height = 1.3 + 0.24 * (materials + len(methods)) + 0.38 * (len(groups) + 1)
    return draw(path, (7.6, height), paint)


def _place(method: str, k: int) -> dict[str, Any]:
    """How a method is drawn: known ones in their own colour and marker."""
    return {
        "color": colour_of(method, k),
        "marker": MARKS.get(method, "h"),
        "linestyle": "none",
        "markeredgecolor": "white",
    }


def _paint_means(panel: Any, results: Sequence[Case], methods: list[str], places: dict, champion: str) -> None:
    """A line per method, which also is the legend."""
    materials = len({r.key for r in results})
    for height, method in enumerate(reversed(methods)):
        own = [r for r in results if r.method == method]
        values = [r.psnr for r in own if r.finished]
        if not values:
            continue
        mean = math.fsum(values) / len(values)
        spread = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / max(len(values) - 1, 1))
        colour = places[method]["color"]
        panel.plot([mean - spread, mean + spread], [height] * 2, color=colour, linewidth=2.5, alpha=0.35)
        panel.plot(mean, height, **{**places[method], "markersize": 8, "markeredgewidth": 0.6})
        text = f"{mean:.1f}" if len(values) == materials else f"{mean:.1f} ({len(values)} of {materials} materials)"
        panel.annotate(text, (mean, height), (0, 6.5), textcoords="offset points", ha="center", fontsize=6.5)
    panel.set_yticks(range(len(methods)), [title_of(m) for m in reversed(methods)], fontsize=8.5)
    for label, method in zip(panel.get_yticklabels(), reversed(methods), strict=True):
        label.set(color=places[method]["color"], fontweight="bold" if method == champion else "normal")
    panel.set_ylim(-0.6, len(methods) - 0.2)
    panel.set_title("mean and standard deviation of each method", loc="left", fontsize=9.5, fontweight="bold")


def _paint_materials(panel: Any, own: Sequence[Case], places: dict, champion: str, edge: float) -> None:
    """A line per material of one group, the first on top; the champion large and behind, so that it hides no other."""
    labels = list({r.key: r.label for r in own}.items())[::-1]
    for height, (key, _) in enumerate(labels):
        here = [r for r in own if r.key == key]
        numbers = [r.psnr for r in here if math.isfinite(r.psnr)]
        if numbers:
            panel.plot([min(numbers), max(numbers)], [height] * 2, color="#DCDCDC", linewidth=1.6, zorder=1)
        for result in here:
            look = dict(places[result.method], markersize=5.8, markeredgewidth=0.5, zorder=3)
            if result.method == champion:
                look.update(markersize=9, zorder=2, markeredgecolor=INK, markeredgewidth=0.8)
            if not math.isfinite(result.psnr):
                look.update(marker="x", markeredgecolor=look["color"], markeredgewidth=1.4)
            panel.plot(result.psnr if math.isfinite(result.psnr) else edge, height, **look)
    panel.set_yticks(range(len(labels)), [label for _, label in labels], fontsize=8.5, color=INK)
    panel.set_ylim(-0.6, len(labels) - 0.4)
