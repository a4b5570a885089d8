"""What a surface costs: processor seconds and memory of `cnf.reconstruct` in fresh processes, beside another checkout.

    python -m benchmarks.surface_cost [--shapes spot armadillo homer] [--points 10000] [--beside FOLDER] [--rounds 3]
    python -m benchmarks.surface_cost --command     the same of `cnf reconstruct`, with all the files that it writes

Checkouts take turns, shape by shape, so that a busy machine slows them alike; medians are shown. Seconds of the
processor with imports and without them, peak memory of the process, and what says whether it is still the same surface:
Chamfer distance, largest distance from the truth, worst value and normal at the points. `torus` needs no meshes; the
others are read from the folder in the environment variable CNF_DATA (its subfolder mesh).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from cnf.errors import CnfError
from cnf.meshes.mesh import Mesh
from cnf.reports.tables import Table
from cnf.shapes.files.reading import read_mesh
from studies.shapes.collection import find_folder, read_shape
from studies.shapes.measures import compare, sample_oriented
from studies.shapes.torus import sample_torus

ROOT = Path(__file__).resolve().parent.parent
SHAPES = ("spot", "armadillo", "homer")
SAMPLES = 30_000  # of each surface, for the distances
# In the process itself, for only that knows when its imports are done; what it prints last is read.
CHILD = """
import json, sys, time
import cnf.shapes.reconstruction.reconstruct
from cnf.shapes.files.reading import read_cloud
from studies.shapes.peers import read_peak_memory
imported = time.process_time()
made = cnf.reconstruct(read_cloud(sys.argv[1]))
spent = time.process_time() - imported
print(json.dumps({"spent": spent, "all": spent + imported, "megabytes": read_peak_memory(), "stages": made.seconds,
    "value": made.value_error, "normal": made.normal_error, "exact": made.certificate.exact}))
made.save(sys.argv[2])
"""
COMMAND = """
import json, sys, time
from studies.shapes.peers import read_peak_memory
sys.argv = ["cnf", "reconstruct", sys.argv[1], "--out", sys.argv[2]]
from cnf_command import main
try:
    main()
except SystemExit as end:
    if end.code:
        raise
print("\\n" + json.dumps({"spent": float("nan"), "all": time.process_time(), "megabytes": read_peak_memory()}))
"""


@dataclass(frozen=True)
class Run:
    """What one process said of itself, and the mesh that it wrote."""

    said: dict
    wall: float
    mesh: Mesh


def run_once(tree: Path, script: str, cloud: Path, out: Path, threads: int) -> Run:
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}", "OMP_NUM_THREADS": str(threads)}
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", script, str(cloud), str(out)],
        env=environment,
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CnfError(f"{tree}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else done.returncode}")
    return Run(json.loads(done.stdout.splitlines()[-1]), time.perf_counter() - started, read_mesh(out))


def sample(shape: str, count: int) -> tuple[np.ndarray, np.ndarray, Mesh | None]:
    """Points, normals, and the truth if it is a mesh."""
    if shape == "torus":
        return *sample_torus(count, 0), None
    truth = read_shape(shape, find_folder(None))
    return *sample_oriented(truth, count, 0), truth


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), help="of the collection, or torus")
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--beside", type=Path, help="folder of another checkout")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--command", action="store_true", help="run the command line instead, pictures included")
    asked = parser.parse_args(arguments)
    trees = {"this": ROOT} | ({"beside": asked.beside.resolve()} if asked.beside else {})
    rows, script = [], COMMAND if asked.command else CHILD
    with tempfile.TemporaryDirectory(prefix="cnf-benchmark-") as folder:
        for shape in asked.shapes:
            points, normals, truth = sample(shape, asked.points)
            cloud = Path(folder) / f"{shape}.npz"
            np.savez(cloud, points=points, normals=normals)
            runs: dict[str, list[Run]] = {name: [] for name in trees}
            for _ in range(asked.rounds):
                for name, tree in trees.items():
                    out = Path(folder) / f"{name}.ply"
                    runs[name].append(run_once(tree, script, cloud, out, asked.threads))
            for name, found in runs.items():
                rows.append([shape, name, *describe(found, truth, points, normals)])
                if not asked.command:
                    stages = {k: median(r.said["stages"][k] for r in found) for k in found[0].said["stages"]}
                    print(
                        shape, name, "by the clock:", ", ".join(f"{k} {v:.2f}" for k, v in stages.items() if v > 0.02)
                    )
    heads = ["", "checkout", "processor s", "with imports", "clock s", "MB", "faces", "Chamfer", "largest"]
    print(Table([*heads, "value", "normal"], rows).text())


def describe(runs: list[Run], truth: Mesh | None, points: np.ndarray, normals: np.ndarray) -> list[str]:
    """The columns of a table behind the names."""
    said, mesh = runs[-1].said, runs[-1].mesh
    numbers = [median(run.said[name] for run in runs) for name in ("spent", "all")]
    row = [*("-" if np.isnan(v) else f"{v:.2f}" for v in numbers), f"{median(run.wall for run in runs):.2f}"]
    row += [f"{median(run.said['megabytes'] for run in runs):.0f}", str(len(mesh.faces))]
    found = compare(mesh, truth, points, normals, samples=SAMPLES) if truth is not None else None
    row += [f"{found.chamfer:.4e}", f"{found.largest:.4e}"] if found else ["-", "-"]
    return [*row, *(f"{said[name]:.1e}" if name in said else "-" for name in ("value", "normal"))]


if __name__ == "__main__":
    main()
