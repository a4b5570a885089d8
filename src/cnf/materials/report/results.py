"""Report of the study of materials: its results, where the order of the methods breaks, files and a dot plot.

In: one `Result` per material and method. Out: tables (see `material_tables`) as text, Markdown, LaTeX and CSV, lines
that say on which materials another method wins, and a picture of PSNR by material and method.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from cnf.files import as_path, write_atomically
from cnf.reports.material_methods import colour_of, mark_of, title_of
from cnf.reports.material_tables import check_results, study_latex, study_markdown, study_text
from cnf.reports.plots import INK, draw

__all__ = [
    "Result",
    "draw_study",
    "study_latex",
    "study_markdown",
    "study_text",
    "where_order_breaks",
    "write_study",
]
CHAMPION = "kernel-siren"
MEASURES = ("rmse", "psnr", "ssim", "log_error")  # what a result must have to count as finished


@dataclass(frozen=True)
class Result:
    """One method on one material: errors of the picture, mean log error of the reflectance, times, size, residual."""

    material: str  # a name such as "chrome"
    label: str  # as pictures show it, such as "NBRDF of MERL chrome"
    group: str  # such as "RGL"
    method: str
    rmse: float
    psnr: float  # dB
    ssim: float
    log_error: float
    seconds: float  # of training
    inference_seconds: float
    parameters: int
    residual: float | None  # worst relative residual of the conditions; None for methods without hard conditions

    @property
    def finished(self) -> bool:
        """Whether all its measures are finite."""
        return all(math.isfinite(getattr(self, name)) for name in MEASURES)

    @property
    def key(self) -> tuple[str, str]:
        """Which material of which group: the same name may stand in two groups."""
        return self.group, self.material


def where_order_breaks(results: Sequence[Result], champion: str = CHAMPION) -> list[str]:
    """Where another method has a higher PSNR than `champion`, and per group its RMSE over that of the best soft method.

    A soft method is one without conditions (`residual` is None). Means are over materials that both finished.
    """
    check_results(results)
    name = title_of(champion)
    own = {r.key: r for r in results if r.method == champion and r.finished}
    if not own:
        return [f"no finished result of {name}: there is nothing to compare"]
    breaks = []
    contested = [key for key in own if any(r.key == key and r.method != champion and r.finished for r in results)]
    for key in contested:
        above = [r for r in results if r.key == key and r.finished and r.psnr > own[key].psnr]
        if above:
            above.sort(key=lambda r: -r.psnr)
            others = ", ".join(f"{title_of(r.method)} {r.psnr:.2f} dB" for r in above)
            breaks.append(f"{own[key].label}: {others}; {name} {own[key].psnr:.2f} dB")
    lines = [f"{name} has the highest PSNR on {len(contested) - len(breaks)} of {len(contested)} materials", *breaks]
    for group in dict.fromkeys(r.group for r in results):
        lines.append(_ratio_line(group, [r for r in results if r.group == group and r.finished], champion))
    missing = list(dict.fromkeys(r.material for r in results if r.key not in own))
    if missing:
        count = "1 material" if len(missing) == 1 else f"{len(missing)} materials"
        lines.append(f"{name} has no finished result on {count}: {', '.join(missing)}")
    return lines


def _ratio_line(group: str, results: Sequence[Result], champion: str) -> str:
    own = {r.key: r.rmse for r in results if r.method == champion}
    ratios = {}
    for method in dict.fromkeys(r.method for r in results if r.residual is None and r.method != champion):
        pairs = [(own[r.key], r.rmse) for r in results if r.method == method and r.key in own]
        if pairs:
            ours, theirs = (math.fsum(column) / len(pairs) for column in zip(*pairs, strict=True))
            ratios[method] = (ours / theirs if theirs > 0 else math.inf, ours, theirs, len(pairs))
    if not ratios:
        return f"{group}: no soft method to compare with"
    best = max(ratios, key=lambda m: ratios[m][0])  # the soft method with the least error for its share of materials
    ratio, ours, theirs, count = ratios[best]
    return (
        f"{group}: mean RMSE of {title_of(champion)} / {title_of(best)} (best soft method) = "
        f"{ours:.2e} / {theirs:.2e} = {ratio:.2f} over {count} material{'s' if count > 1 else ''}"
    )


def write_study(results: Sequence[Result], folder: object, champion: str = CHAMPION) -> list[Path]:
    """study.txt, study.md, study.tex and study.csv in `folder`; the first two end with where the order breaks."""
    check_results(results)
    place = as_path(folder)
    breaks = where_order_breaks(results, champion)
    contents = {
        "study.txt": "\n".join([study_text(results), "", *breaks]),
        "study.md": "\n".join([study_markdown(results), "", *(f"- {line}" for line in breaks)]),
        "study.tex": study_latex(results),
        "study.csv": _rows_as_csv(results),
    }

    def write(name: str, text: str) -> Path:
        return write_atomically(place / name, lambda file: file.write_text(text.rstrip("\n") + "\n", encoding="utf-8"))

    return [write(name, text) for name, text in contents.items()]


def _rows_as_csv(results: Sequence[Result]) -> str:
    """All rows with all digits (numbers read back are the same); an empty cell stands for None."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in fields(Result)])
    for result in results:
        writer.writerow(["" if v is None else repr(v) if isinstance(v, float) else v for v in astuple(result)])
    return text.getvalue()


def draw_study(results: Sequence[Result], path: object, champion: str = CHAMPION) -> Path:
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
            panel.grid(True, axis="x", color="#E2E2E2", linewidth=0.7)
            panel.set_axisbelow(True)
            panel.tick_params(axis="y", length=0)
            panel.spines[["left", "bottom"]].set_visible(False)
            panel.tick_params(axis="x", length=0, labelbottom=panel is panels[-1])
        panels[-1].set_xlabel("PSNR in dB")

    height = 1.3 + 0.24 * (materials + len(methods)) + 0.38 * (len(groups) + 1)
    return draw(path, (7.6, height), paint)


def _place(method: str, k: int) -> dict[str, Any]:
    """How a method is drawn: known ones in their own colour and marker."""
    return {"color": colour_of(method, k), "marker": mark_of(method), "linestyle": "none", "markeredgecolor": "white"}


def _paint_means(panel: Any, results: Sequence[Result], methods: list[str], places: dict, champion: str) -> None:
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


def _paint_materials(panel: Any, own: Sequence[Result], places: dict, champion: str, edge: float) -> None:
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
