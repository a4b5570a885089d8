"""Report of how a reconstruction grows with its points: table, CSV, and a log-log plot with the fitted exponents."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cnf.files import write_atomically
from cnf.reports.plots import BLUE, GREEN, GREY, ORANGE, SKY, draw
from cnf.reports.tables import text_table

if TYPE_CHECKING:
    from studies.shapes.scaling import Run

PARTS = {
    "seconds": "all",
    "field_seconds": "field",
    "mesh_seconds": "mesh",
    "processor_seconds": "processor",
    "megabytes": "memory",
}


def scaling_text(runs: Sequence[Run]) -> str:
    """A row per size, the exponents below."""
    header = [
        "points",
        "grid",
        "seconds",
        "field",
        "mesh",
        "processor",
        "MB",
        "value error",
        "normal error",
        "distance",
        "Euler",
    ]
    lines = []
    for run in runs:
        lines.append(
            [
                f"{run.size}",
                f"{run.resolution}",
                *(_write(getattr(run, name), ".1f") for name in ("seconds", "field_seconds", "mesh_seconds")),
                _write(run.processor_seconds, ".1f"),
                _write(run.megabytes, ".0f"),
                *(_write(getattr(run, name), ".1e") for name in ("value_error", "normal_error", "error")),
                _write(run.euler, "d"),
            ]
        )
    notes = [f"{run.size} points: {run.note}" for run in runs if run.note]
    return "\n".join([text_table(header, lines), *notes, "", *exponent_lines(runs)])


def exponent_lines(runs: Sequence[Run]) -> list[str]:
    """What the fits say, over all sizes and from 10,000 points on."""
    from studies.shapes.scaling import LARGE, fit_exponent

    lines = []
    for name, title in PARTS.items():
        every, large = fit_exponent(runs, name), fit_exponent(runs, name, LARGE)
        if every is not None:
            beyond = "" if large is None else f", points^{large:.2f} from {LARGE} on"
            lines.append(f"{title:<9} grows as points^{every:.2f} over all sizes{beyond}")
    return lines


def _write(value: float | None, style: str) -> str:
    return "-" if value is None else format(value, style)


def write_scaling(runs: Sequence[Run], path: object) -> Path:
    """All numbers as CSV."""
    from studies.shapes.scaling import Run as RunType

    text = io.StringIO()
    writer = csv.DictWriter(text, [f.name for f in fields(RunType)], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: "" if value is None else value for name, value in asdict(run).items()} for run in runs)
    return write_atomically(path, lambda file: file.write_text(text.getvalue(), encoding="utf-8"))


def plot_scaling(runs: Sequence[Run], path: object) -> Path:
    """Time and memory against the number of points, with a dashed line in proportion to the points for the eye."""
    from studies.shapes.scaling import LARGE, fit_exponent

    times = {
        "seconds": ("points to mesh", BLUE),
        "field_seconds": ("field", GREEN),
        "mesh_seconds": ("mesh", ORANGE),
        "processor_seconds": ("processor, all threads", SKY),
    }

    def paint(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        for panel, series in ((left, times), (right, {"megabytes": ("peak memory", BLUE)})):
            for name, (title, colour) in series.items():
                pairs = [(run.size, value) for run in runs if (value := getattr(run, name))]
                if not pairs:
                    continue
                large = fit_exponent(runs, name, LARGE)
                label = title if large is None else f"{title}: points$^{{{large:.2f}}}$ from {LARGE:,} on"
                panel.loglog(*zip(*pairs, strict=True), "o-", color=colour, label=label, markeredgecolor="white")
                if name == "seconds":
                    last, value = pairs[-1]
                    ends = [pairs[0][0], last]
                    straight = [value * end / last for end in ends]
                    panel.loglog(ends, straight, "--", color=GREY, linewidth=1, zorder=1, label="in proportion")
            panel.set_xlabel("points")
            panel.grid(True, which="major", color="#E2E2E2", linewidth=0.7)
            panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16))
        left.set_ylabel("seconds")
        right.set_ylabel("MB")
        right.set_ylim(bottom=min(100, *(run.megabytes for run in runs if run.megabytes), 1e9))
        left.set_title(f"time, mode {runs[0].mode}, {runs[0].threads} thread{'s' if runs[0].threads > 1 else ''}")
        right.set_title("memory")

    return draw(path, (10.0, 5.2), paint)
