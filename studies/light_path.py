"""Light path: the paper's toy problem of Fermat's principle, from several random starts.

One case is one start: two random quadratics whose sum passes through both end points at every step of the training
(`solve_light_path`). Beside its travel time: the least of all paths and of all quadratic paths, found without cnf.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from cnf.demo.light_path import Medium, solve_light_path
from cnf.reports.plots import BLUE, INK, ORANGE, draw
from studies.keeping import find_arrays
from studies.options import Steps
from studies.study import Case, Desk, Row, Study
from studies.tables import Table

FLOOR = 1e-17  # a logarithmic axis has no place for zero


@dataclass(frozen=True)
class LightPath(Study):
    """Paths of least travel time between exact ends.

    From several random starts, beside the least time of all paths. Takes a few seconds.
    """

    name = "light-path"
    key = ("seed",)
    columns = (
        *("start_time", "final_time", "quadratic_time", "exact_time", "excess", "quadratic_excess", "end_error"),
        *("steps", "seconds", "processor_seconds"),
    )
    curve = ("step", "time", "end_error")

    seeds: Annotated[int, typer.Option(min=1, help="How many random starts.")] = 10
    steps: Steps = 100

    def settings(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def cases(self) -> list[Case]:
        return [{"seed": seed} for seed in range(self.seeds)]

    def introduce(self) -> str:
        return f"least travel time where the refractive index grows along y, by two quadratics from {self.seeds} starts"

    def run(self, case: Case, desk: Desk) -> Row:
        """Train one start; the paths before and after are kept for pictures, with the fastest."""
        worked = time.process_time()
        found = solve_light_path(self.steps, case["seed"], progress=False)
        worked = time.process_time() - worked
        if found.history.stopped == "interrupted":  # half a training is no result
            raise KeyboardInterrupt
        desk.keep(before=found.before, after=found.after, exact=found.exact, ends=np.asarray(found.ends))
        times = [*found.history.loss, found.final_time]
        return {
            "start_time": found.start_time,
            "final_time": found.final_time,
            "quadratic_time": found.quadratic_time,  # least of all quadratic paths
            "exact_time": found.exact_time,  # least of all paths
            "excess": found.excess,  # over it, relative
            "quadratic_excess": found.quadratic_excess,
            "end_error": found.end_error,  # the largest, over all steps
            "steps": len(found.history),
            "seconds": found.seconds,
            "processor_seconds": worked,
            "curve": {"step": list(range(len(times))), "time": times, "end_error": list(found.end_errors)},
        }

    def describe(self, row: Row) -> str:
        return f"time {row['start_time']:.4f} to {row['final_time']:.6f}, ends off by {row['end_error']:.1e}"

    def tables(self, rows: Sequence[Row]) -> list[Table]:
        columns = {
            "start": ("seed", "d"),
            "time before": ("start_time", ".6f"),
            "after": ("final_time", ".6f"),
            "least of quadratics": ("quadratic_time", ".6f"),
            "least of all paths": ("exact_time", ".6f"),
            "above it": ("excess", ".1e"),
            "above quadratics": ("quadratic_excess", ".1e"),
            "end points off": ("end_error", ".1e"),
            "steps": ("steps", "d"),
        }
        return [Table.of(rows, columns)]

    def notes(self, rows: Sequence[Row]) -> str:
        slowest, missed = max(r["excess"] for r in rows), max(r["end_error"] for r in rows)
        return f"Worst of {len(rows)}: {slowest:.1e} above the least time, end points off by {missed:.1e} at any step."

    def plots(self, rows: Sequence[Row], folder: Path) -> list[Path]:
        kept = [find_arrays(self, folder, row) for row in rows]
        return [plot_paths(rows, kept, folder / "light-path.png")]


def plot_paths(rows: Sequence[Row], kept: Sequence[dict[str, np.ndarray]], path: object) -> Path:
    """All starts before and after the training, over the refractive index, and how the travel times fall."""

    def paint(figure: Any) -> None:
        panels = figure.subplots(1, 3, width_ratios=(1, 1, 1.1))
        everything = np.concatenate([found[name] for found in kept for name in ("before", "after")])
        (x0, y0), (x1, y1) = everything.min(axis=0) - 0.05, everything.max(axis=0) + 0.05
        index = np.repeat(Medium().index(np.linspace(y0, y1, 256))[:, None], 2, axis=1)
        for panel, name, title in zip(panels, ("before", "after"), ("random starts", "trained"), strict=False):
            frame = {"extent": (x0, x1, y0, y1), "origin": "lower", "aspect": "auto", "cmap": "Blues", "alpha": 0.85}
            image = panel.imshow(index, interpolation="bilinear", **frame)
            for found in kept:
                panel.plot(*found[name].T, color=ORANGE, linewidth=1.4)
            panel.plot(*kept[0]["ends"].T, "o", color="white", markeredgecolor=INK, markersize=7, zorder=5)
            panel.set_title(title)
            panel.set_xlabel("x")
        panels[0].set_ylabel("y")
        least = {"color": INK, "linewidth": 1.2, "linestyle": (0, (4, 3)), "label": "least time of all paths"}
        panels[1].plot(*kept[0]["exact"].T, **least)
        panels[1].legend(loc="lower right")
        figure.colorbar(image, ax=list(panels[:2]), label="refractive index", pad=0.02).outline.set_visible(False)
        for row in rows:
            above = np.maximum(np.asarray(row["curve"]["time"]) / row["exact_time"] - 1, FLOOR)
            panels[2].semilogy(row["curve"]["step"], above, color=ORANGE, linewidth=1.4)
            missed = np.maximum(row["curve"]["end_error"], FLOOR)
            panels[2].semilogy(row["curve"]["step"], missed, color=BLUE, linewidth=1.0)
        panels[2].plot([], [], color=ORANGE, label="travel time above the least, relative")
        panels[2].plot([], [], color=BLUE, label="end points off by")
        panels[2].set_xlabel("step")
        panels[2].set_title("during the training")
        panels[2].minorticks_off()
        panels[2].grid(True, axis="y")
        panels[2].legend(loc="center right")

    return draw(path, (11.6, 3.8), paint)
