"""Surfaces through points: every figure that was asked for, beside what is measured here.

    python -m benchmarks.shapes [--resolution 160 320] [--shapes spot horse] [--parts exact snapped paper blend]

Meshes come from the folder in the environment variable CNF_DATA (its subfolder mesh); the blended scaling needs none.
Every run is a process of its own: seconds are from points to mesh without imports, MB is the peak of the process. The
machine should do nothing else meanwhile.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cnf.errors import CnfError
from cnf.reports.tables import text_table
from studies.shapes.measures import Measures
from studies.shapes.scaling import LARGE, choose_resolution, fit_exponent, run_sizes
from studies.shapes.study import Row, Setting, find_folder, find_methods, read_shape, run_case

ROOT = Path(__file__).resolve().parent.parent
POINTS = 10_000
SECONDS = {160: 15.0, 320: 60.0}
CHAMFER = {(160, "spot"): 4.9e-4, (160, "horse"): 4.0e-4, (320, "spot"): 4.6e-4, (320, "horse"): 2.7e-4}
RELATIVE = 1e-9  # values and normals at the inputs
SNAPPED = 1e-6  # of the inputs from the mesh
PAPER_SECONDS = 90.0  # of the paper's own scheme, 30,000 conditions, 160^3
SIZES = (10_000, 20_000, 50_000, 100_000, 200_000)
BLEND_SECONDS, BLEND_MEGABYTES, BLEND_EXPONENT = 300.0, 8192.0, 1.2
PARTS = ("exact", "snapped", "paper", "blend")


@dataclass(frozen=True)
class Figure:
    """One number asked for: at most `asked`."""

    what: str
    measured: float | None
    asked: float | None  # None: nothing was asked, shown for comparison

    @property
    def met(self) -> str:
        if self.measured is None:
            return "no result"
        return "" if self.asked is None else "yes" if self.measured <= self.asked else "NO"


def run_method(name: str, shape: str, resolution: int, asked: argparse.Namespace) -> Row:
    """One method on one shape."""
    (method,), _ = find_methods([name])
    setting = Setting(POINTS, resolution, threads=asked.threads)
    row, _ = run_case(shape, read_shape(shape, asked.folder), method, setting)
    print(f"  {name} on {shape} at {resolution}: {row.note or f'{row.seconds:.1f} s'}", flush=True)
    return row


def figures_of_topology(what: str, found: Measures | None) -> list[Figure]:
    """Closed in one piece, as counts that should be at most so much."""
    if found is None:
        return [Figure(f"{what}: closed, in one piece", None, 1)]
    return [
        Figure(f"{what}: open (0: watertight)", float(not found.watertight), 0),
        Figure(f"{what}: pieces", found.components, 1),
    ]


def check_exact(asked: argparse.Namespace) -> list[Figure]:
    """Exact values and normals at the resolutions asked for."""
    figures = []
    for resolution in asked.resolution:
        for shape in asked.shapes:
            row = run_method("cnf", shape, resolution, asked)
            what = f"{shape} {resolution}^3"
            figures += [
                Figure(f"{what}: seconds", row.seconds, SECONDS.get(resolution)),
                Figure(f"{what}: Chamfer", row.value("chamfer"), CHAMFER.get((resolution, shape))),
                Figure(f"{what}: worst value at the inputs", row.value_error, RELATIVE),
                Figure(f"{what}: worst normal at the inputs", row.normal_error, RELATIVE),
                Figure(f"{what}: MB", row.megabytes, None),
                *figures_of_topology(what, row.measures),
            ]
    return figures


def check_snapped(asked: argparse.Namespace) -> list[Figure]:
    """The mesh itself through every input."""
    figures = []
    for shape in asked.shapes:
        row = run_method("cnf-snapped", shape, 160, asked)
        what = f"{shape} snapped"
        figures.append(Figure(f"{what}: inputs from the mesh", row.value("input_max"), SNAPPED))
        figures.append(Figure(f"{what}: seconds", row.seconds, None))
        figures += figures_of_topology(what, row.measures)
    return figures


def check_paper(asked: argparse.Namespace) -> list[Figure]:
    """The paper's scheme, one small system per node, in batches."""
    row = run_method("paper", asked.shapes[0], 160, asked)
    what = f"the paper's scheme, {asked.shapes[0]} 160^3"
    chamfer = Figure(f"{what}: Chamfer", row.value("chamfer"), None)
    return [Figure(f"{what}: seconds", row.seconds, PAPER_SECONDS), chamfer]


def check_blend(asked: argparse.Namespace) -> list[Figure]:
    """Patches joined by a partition of unity, up to 200,000 points of a torus."""

    def tell(run) -> None:
        print(f"  blend, {run.size} points: {run.note or f'{run.seconds:.1f} s, {run.megabytes:.0f} MB'}", flush=True)

    runs = run_sizes(asked.sizes, "blend", threads=asked.threads, report=tell)
    last = runs[-1]
    what = f"blend, {last.size} points, {choose_resolution(last.size)}^3"
    full = last.size >= max(SIZES)
    return [
        Figure(f"{what}: seconds", last.seconds, BLEND_SECONDS if full else None),
        Figure(f"{what}: MB", last.megabytes, BLEND_MEGABYTES if full else None),
        Figure(f"{what}: worst value at the inputs", last.value_error, RELATIVE),
        Figure(f"{what}: worst normal at the inputs", last.normal_error, RELATIVE),
        Figure(f"blend: exponent of the time from {LARGE} points on", fit_exponent(runs, least=LARGE), BLEND_EXPONENT),
    ]


def make_table(figures: Sequence[Figure]) -> str:
    """Measured beside asked."""
    rows = []
    for figure in figures:
        numbers = ["-" if v is None else f"{v:.3g}" for v in (figure.measured, figure.asked)]
        rows.append([figure.what, *numbers, figure.met])
    return text_table(["", "measured", "asked: at most", "met"], rows)


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resolution", type=int, nargs="+", default=[160, 320])
    parser.add_argument("--shapes", nargs="+", default=["spot", "horse"])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="of the blended scaling")
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args(arguments)
    figures: list[Figure] = []
    try:
        if set(asked.parts) - {"blend"}:
            asked.folder = find_folder(None if os.environ.get("CNF_DATA") else ROOT.parent / "shared" / "data")
        checks = {"exact": check_exact, "snapped": check_snapped, "paper": check_paper, "blend": check_blend}
        for part in asked.parts:
            figures += checks[part](asked)
    except CnfError as error:
        parser.exit(1, f"error: {error}\n")
    print(f"\n{make_table(figures)}\n\n{POINTS} points with exact normals, {asked.threads} threads")
    return figures


if __name__ == "__main__":
    main()
