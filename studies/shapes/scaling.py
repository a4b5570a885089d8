"""Shapes, how the work grows: time and memory of a reconstruction from a thousand to hundreds of thousands of points.

In come numbers of points and a mode (`blend`: patches joined by a partition of unity; `sparse`: one sparse system); out
go `Run`s and the exponents fitted to them. The surface, a rippled torus, is made here, so no data are needed. Every
size runs in a process of its own:

    python -m studies.shapes.scaling SIZE --mode blend --threads 1
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cnf.errors import CnfError
from cnf.shapes.clouds.mesh import unit_rows
from cnf.shapes.reconstruction.distances import ClosestPoints
from studies.shapes.methods import run_ours
from studies.shapes.peers import read_peak_memory
from studies.shapes.study import child_environment, last_line

MODULE = "studies.shapes.scaling"
MODES = {"blend": "cnf-blend", "sparse": "cnf"}  # mode -> method
SIZES = (1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000)
LEAST, MOST = 100, 5_000_000
LARGE = 10_000  # from here on fixed costs no longer matter, and a second exponent is fitted
RADIUS, TUBE, RIPPLE, AROUND, ACROSS = 0.68, 0.28, 0.12, 6, 3  # the torus, its ripples and how many there are
SAMPLES = 20_000  # of the surface, for the error


@dataclass(frozen=True)
class Run:
    """One size; numbers are None if there is no result, and then `note` says why."""

    size: int
    mode: str
    resolution: int
    threads: int
    seconds: float | None = None  # all, from points to mesh
    field_seconds: float | None = None  # until the field is there
    mesh_seconds: float | None = None  # the rest
    processor_seconds: float | None = None
    megabytes: float | None = None  # peak resident memory
    value_error: float | None = None  # worst at the inputs, of the field
    normal_error: float | None = None
    error: float | None = None  # mean distance of the surface from the mesh
    euler: int | None = None  # 0 for a torus
    watertight: bool | None = None
    note: str = ""


def sample_torus(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Independent points (P, 3), uniform over the area of the rippled torus, and their exact normals (P, 3).

    Angles are drawn uniformly and kept with a probability that follows the area they stand for.
    """
    random = np.random.default_rng(seed)
    # |x_u| and |x_v| are at most these, so their product is never less than the area of an angle.
    largest = (RADIUS + TUBE * (1 + RIPPLE * (1 + AROUND))) * TUBE * (1 + RIPPLE * (1 + ACROSS))
    kept: list[tuple[np.ndarray, np.ndarray]] = []
    missing = count
    while missing > 0:
        angles = random.uniform(0, 2 * np.pi, size=(2, 4 * missing + 100))
        points, crosses = _surface(*angles)
        chosen = random.random(len(points)) * largest < np.linalg.norm(crosses, axis=1)
        kept.append((points[chosen][:missing], unit_rows(crosses[chosen][:missing])))
        missing -= len(kept[-1][0])
    return np.concatenate([p for p, _ in kept]), np.concatenate([n for _, n in kept])


def _surface(u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points (P, 3) at the angles around (u) and across (v), and the cross products x_u, x_v, which look outward."""
    tube = TUBE * (1 + RIPPLE * np.cos(AROUND * u) * np.cos(ACROSS * v))
    tube_u = -TUBE * RIPPLE * AROUND * np.sin(AROUND * u) * np.cos(ACROSS * v)
    tube_v = -TUBE * RIPPLE * ACROSS * np.cos(AROUND * u) * np.sin(ACROSS * v)
    out, side = np.stack([np.cos(u), np.sin(u)], 1), np.stack([-np.sin(u), np.cos(u)], 1)  # (P, 2)
    far = RADIUS + tube * np.cos(v)
    points = np.column_stack([far[:, None] * out, tube * np.sin(v)])
    along_u = np.column_stack([(tube_u * np.cos(v))[:, None] * out + far[:, None] * side, tube_u * np.sin(v)])
    outward = tube_v * np.cos(v) - tube * np.sin(v)
    along_v = np.column_stack([outward[:, None] * out, tube_v * np.sin(v) + tube * np.cos(v)])
    return points, np.cross(along_u, along_v)


def choose_resolution(size: int) -> int:
    """160 for 10,000 points, growing with the square root of their number: so many cells per point."""
    return max(48, round(160 * math.sqrt(size / 10_000)))


def run_sizes(
    sizes: Sequence[int],
    mode: str,
    *,
    resolution: int | None = None,
    threads: int = 1,
    seed: int = 0,
    timeout: float = 3600,
    report: Callable[[Run], None] | None = None,
) -> list[Run]:
    """Every size in its own process, from small to large; `resolution` is chosen by the size if not given."""
    check_sizes(sizes, mode)
    runs = []
    for size in sorted(set(sizes)):
        runs.append(run_size(size, mode, resolution or choose_resolution(size), threads, seed, timeout))
        if report is not None:
            report(runs[-1])
    return runs


def check_sizes(sizes: Sequence[int], mode: str) -> None:
    """Refuse what cannot be run, before anything is."""
    if mode not in MODES:
        raise CnfError(f"there is no mode {mode!r}; choose from {', '.join(MODES)}")
    bad = [size for size in sizes if not LEAST <= size <= MOST]
    if bad or not sizes:
        raise CnfError(f"sizes are numbers of points from {LEAST} to {MOST}; got {bad[0] if bad else 'none'}")


def run_size(size: int, mode: str, resolution: int, threads: int, seed: int, timeout: float) -> Run:
    """One size in its own process; whatever goes wrong there becomes the note."""
    command = [sys.executable, "-m", MODULE, str(size), "--mode", mode, "--resolution", str(resolution)]
    command += ["--threads", str(threads), "--seed", str(seed)]
    nothing = Run(size, mode, resolution, threads)
    try:
        done = subprocess.run(
            command, env=child_environment(threads), capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return Run(**{**vars(nothing), "note": f"stopped after {timeout:g} s"})
    if done.returncode != 0:
        reason = f"ended by signal {-done.returncode}" if done.returncode < 0 else last_line(done.stderr)
        return Run(**{**vars(nothing), "note": f"failed: {reason}"})
    return Run(**{**vars(nothing), **json.loads(last_line(done.stdout))})


def fit_exponent(runs: Sequence[Run], name: str = "seconds", least: int = 0) -> float | None:
    """p of the power law size^p nearest to the runs of at least `least` points (least squares of logarithms)."""
    pairs = [(run.size, getattr(run, name)) for run in runs if run.size >= least and getattr(run, name)]
    if len({size for size, _ in pairs}) < 2:
        return None
    sizes, values = np.log(np.array(pairs, dtype=float)).T
    return float(np.polyfit(sizes, values, 1)[0])


def measure(size: int, mode: str, resolution: int, seed: int) -> dict[str, float | int | bool | None]:
    """Reconstruct the torus from `size` points, here and now."""
    points, normals = sample_torus(size, seed)
    wall, processor = time.perf_counter(), time.process_time()
    made = run_ours(points, normals, resolution, MODES[mode], flatness=0.0)  # the grid grows with the points
    seconds, spent, megabytes = time.perf_counter() - wall, time.process_time() - processor, read_peak_memory()
    field_seconds = made.measured.get("field_seconds")
    return {
        "seconds": seconds,
        "field_seconds": field_seconds,
        "mesh_seconds": None if field_seconds is None else seconds - field_seconds,
        "processor_seconds": spent,
        "megabytes": megabytes,
        "value_error": made.measured.get("value_error"),
        "normal_error": made.measured.get("normal_error"),
        "error": float(ClosestPoints(made.mesh).find(sample_torus(SAMPLES, seed + 1)[0]).distances.mean()),
        "euler": made.mesh.euler,
        "watertight": made.mesh.is_watertight,
    }


def main() -> None:
    """One size, for `run_size`: prints one line of JSON as the last line of the output."""
    parser = argparse.ArgumentParser(description="one reconstruction of a rippled torus; prints one line of JSON")
    parser.add_argument("size", type=int)
    parser.add_argument("--mode", choices=list(MODES), default="blend")
    parser.add_argument("--resolution", type=int, default=160)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    import torch

    torch.set_num_threads(asked.threads)
    try:
        print(json.dumps(measure(asked.size, asked.mode, asked.resolution, asked.seed)))
    except CnfError as error:
        sys.exit(f"{error}")


if __name__ == "__main__":
    main()
