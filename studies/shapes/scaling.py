"""Shapes, how the work grows: time, memory and error of a reconstruction from a thousand to millions of points.

The surface is a rippled torus (`torus`), and errors are distances from the torus itself, not from facets of it. Every
size runs in a process of its own, from small to large; exponents are fitted to what was measured.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from cnf.errors import CnfError
from cnf.meshes.distances import ClosestPoints
from cnf.reports.plots import BLUE, GREEN, GREY, ORANGE, SKY, draw
from studies.options import Names, Seed, Threads, Timeout, choose, read_numbers
from studies.shapes.measures import sample_faces
from studies.shapes.methods import run_timed
from studies.shapes.starting import list_peers, run_peer, say_missing
from studies.shapes.torus import find_on_torus, sample_torus
from studies.study import Case, Desk, Row, Study
from studies.tables import Style, Table

OURS = {"blend": "cnf-blend", "sparse": "cnf", "auto": "cnf-auto"}  # mode -> method
OTHERS = ("open3d-poisson-8", "open3d-poisson-9", "open3d-poisson-10", "pymeshlab-poisson-w100", "pymeshlab-apss")
MODES = (*OURS, *OTHERS)
SIZES = (1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000)
LEAST, MOST = 100, 20_000_000
LARGE = 10_000  # from here on fixed costs no longer matter, and a second exponent is fitted
SAMPLES = 20_000  # of the surface, for the error
PARTS = {
    "seconds": "all",
    "field_seconds": "field",
    "mesh_seconds": "mesh",
    "processor_seconds": "processor",
    "megabytes": "memory",
}
COLUMNS: dict[str, tuple[str, Style]] = {
    "mode": ("mode", ""),
    "points": ("size", "d"),
    "grid": ("grid", "d"),
    "seconds": ("seconds", ".1f"),
    "field": ("field_seconds", ".1f"),
    "mesh": ("mesh_seconds", ".1f"),
    "processor": ("processor_seconds", ".1f"),
    "MB": ("megabytes", ".0f"),
    "value error": ("value_error", ".1e"),
    "normal error": ("normal_error", ".1e"),
    "Chamfer": ("chamfer", ".1e"),
    "largest": ("largest", ".1e"),
    "Euler": ("euler", "d"),
    "closed": ("watertight", lambda v: "yes" if v else "no"),
}


@dataclass(frozen=True)
class Scaling(Study):
    """Time and memory of a surface against its points.

    With fitted exponents. The surface is a rippled torus made by cnf itself; every size runs in its own process.
    """

    name = "scaling"
    key = ("mode", "size")
    columns = (
        *("grid", "seconds", "field_seconds", "mesh_seconds", "processor_seconds", "megabytes"),
        *("value_error", "normal_error", "error", "chamfer", "largest", "euler", "watertight", "faces", "notes"),
    )
    alone = True

    sizes: Annotated[
        Names, typer.Option(metavar="NUMBERS", help="Numbers of points, such as 1000,10000; default: 1000 to 200000.")
    ] = None
    mode: Annotated[
        str,
        typer.Option(
            help="blend: patches, joined; sparse: one sparse system; auto: as cnf does it by itself; "
            f"{', '.join(OTHERS)}: other packages. Several with commas."
        ),
    ] = "blend"
    resolution: Annotated[
        int | None,
        typer.Option(
            min=8, help="Of the grid; default: 160 at 10000 points, growing with their root; for auto cnf's own."
        ),
    ] = None
    threads: Threads = 1
    seed: Seed = 0
    peers_python: Annotated[
        Path | None, typer.Option("--peers-python", help="A Python that has open3d and pymeshlab; default: this one.")
    ] = None
    timeout: Timeout = 3600

    def __post_init__(self) -> None:
        missing = [mode for mode in self.modes if mode in OTHERS and mode not in list_peers(self.peers_python)]
        if missing:
            raise CnfError("; ".join(say_missing(missing, self.peers_python)))
        bad = [case["size"] for case in self.cases() if not LEAST <= case["size"] <= MOST]
        if bad:
            raise CnfError(f"sizes are numbers of points from {LEAST} to {MOST}; got {bad[0]}")

    @property
    def modes(self) -> list[str]:
        """Those asked for."""
        return choose([self.mode], MODES, "mode")

    @property
    def stem(self) -> str:
        return f"scaling_{'+'.join(self.modes)}"

    def settings(self) -> dict[str, Any]:
        return {"resolution": self.resolution, "threads": self.threads, "seed": self.seed}

    def cases(self) -> list[Case]:
        sizes = read_numbers(self.sizes, int, "--sizes", "1000,10000") or SIZES
        return [{"mode": mode, "size": size} for mode in self.modes for size in sorted(set(sizes))]

    def introduce(self) -> str:
        threads = f"{self.threads} thread{'s' * (self.threads > 1)}"
        return f"a rippled torus with exact normals, mode {', '.join(self.modes)}, {threads}"

    def run(self, case: Case, desk: Desk) -> Row:
        """Reconstruct the torus from so many points, and see how far the surface is from the mesh."""
        mode, size = case["mode"], case["size"]
        grid = self.resolution or (None if mode == "auto" else choose_resolution(size))
        points, normals = sample_torus(size, self.seed)
        if mode in OURS:
            changes = {} if mode == "auto" else {"flatness": 0.0}  # the grid grows with the points
            made = run_timed(OURS[mode], points, normals, grid, **changes)
        else:
            made = run_peer(mode, points, normals, grid or choose_resolution(size), self.threads, self.peers_python)
        field_seconds = made.measured.get("field_seconds")
        back = ClosestPoints(made.mesh).find(sample_torus(SAMPLES, self.seed + 1)[0]).distances
        there = find_on_torus(sample_faces(made.mesh, SAMPLES, self.seed + 2)[0])[0]
        return {
            "grid": made.measured.get("grid", grid),
            **made.measured,
            "mesh_seconds": None if field_seconds is None else made.measured["seconds"] - field_seconds,
            "error": float(back.mean()),
            "chamfer": float(back.mean() + there.mean()) / 2,
            "largest": float(there.max()),
            "euler": made.mesh.euler,  # 0 for a torus
            "watertight": made.mesh.is_watertight,
            "faces": len(made.mesh.faces),
            "notes": "; ".join(made.notes),
        }

    def describe(self, row: Row) -> str:
        return f"{row['seconds']:.1f} s   {row['megabytes']:.0f} MB"

    def tables(self, rows: Sequence[Row]) -> list[Table]:
        return [Table.of(rows, COLUMNS)]

    def notes(self, rows: Sequence[Row]) -> str:
        """What the fits say, over all sizes and from 10,000 points on."""
        lines = []
        for mode in dict.fromkeys(row.get("mode", self.mode) for row in rows):
            own = [row for row in rows if row.get("mode", self.mode) == mode]
            before = f"{mode}: " if len(self.modes) > 1 else ""
            for name, title in PARTS.items():
                every, large = fit_exponent(own, name), fit_exponent(own, name, LARGE)
                if every is not None:
                    beyond = "" if large is None else f", points^{large:.2f} from {LARGE} on"
                    lines.append(f"{before}{title:<9} grows as points^{every:.2f} over all sizes{beyond}")
        return "\n".join(lines)

    def plots(self, rows: Sequence[Row], folder: Path) -> list[Path]:
        title = f"{self.threads} thread{'s' * (self.threads > 1)}"
        if len(self.modes) > 1:
            return [compare_modes(rows, folder / f"{self.stem}.png", title)]
        return [plot_scaling(rows, folder / f"{self.stem}.png", f"mode {self.mode}, {title}")]


def choose_resolution(size: int) -> int:
    """160 for 10,000 points, growing with the square root of their number: so many cells per point."""
    return max(48, round(160 * math.sqrt(size / 10_000)))


def fit_exponent(rows: Sequence[Row], name: str = "seconds", least: int = 0) -> float | None:
    """p of the power law size^p nearest to the rows of at least `least` points (least squares of logarithms)."""
    pairs = [(row["size"], row[name]) for row in rows if row["size"] >= least and row.get(name)]
    if len({size for size, _ in pairs}) < 2:
        return None
    sizes, values = np.log(np.array(pairs, dtype=float)).T
    return float(np.polyfit(sizes, values, 1)[0])


def plot_scaling(runs: Sequence[Row], path: object, title: str) -> Path:
    """Time and memory against the number of points, with a dashed line in proportion to the points for the eye."""
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
                pairs = [(run["size"], value) for run in runs if (value := run[name])]
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
            panel.grid(True)
            panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16))
        left.set_ylabel("seconds")
        right.set_ylabel("MB")
        right.set_ylim(bottom=min(100, *(run["megabytes"] for run in runs), 1e9))
        left.set_title(f"time, {title}")
        right.set_title("memory")

    return draw(path, (10.0, 5.2), paint)


def compare_modes(runs: Sequence[Row], path: object, title: str) -> Path:
    """Time, memory and Chamfer distance against the number of points, a line per mode."""
    panels = {"seconds": f"seconds, {title}", "megabytes": "peak memory in MB", "chamfer": "Chamfer distance"}
    modes = list(dict.fromkeys(run["mode"] for run in runs))

    def paint(figure: Any) -> None:
        axes = figure.subplots(1, 3)
        for panel, (name, heading) in zip(axes, panels.items(), strict=True):
            for mode, colour in zip(modes, itertools.cycle((BLUE, GREEN, ORANGE, SKY, GREY)), strict=False):
                pairs = [(run["size"], run[name]) for run in runs if run["mode"] == mode and run.get(name)]
                if pairs:
                    panel.loglog(*zip(*pairs, strict=True), "o-", color=colour, label=mode, markeredgecolor="white")
            panel.set(xlabel="points", title=heading)
            panel.grid(True)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(modes))

    return draw(path, (12.0, 4.2), paint)
