"""Clouds larger than memory: a rippled torus in a file, reconstructed by tiles, and what each process takes for it.

`python -m benchmarks.out_of_core --points 1000000 --memory 4GB --workers 1` writes the cloud (unless it is there), runs
the reconstruction in this process and its workers, and prints a line of JSON: peak memory of both, processor seconds,
how long this process worked itself, and whether the mesh is closed, exact and of genus one.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import threading
import time
from pathlib import Path

import numpy as np

from cnf.shapes.tiles.run import reconstruct_tiles
from studies.shapes.torus import sample_torus

AT_ONCE = 1_000_000  # points drawn together
EVERY = 0.2  # seconds between looks at the memory of workers


def write_torus(path: Path, count: int) -> None:
    """Points and normals of a rippled torus as NPY (P, 6), in pieces."""
    if path.exists():
        return
    table = np.lib.format.open_memmap(path.with_suffix(".part"), "w+", np.float64, (count, 6))
    for number, first in enumerate(range(0, count, AT_ONCE)):
        some = min(AT_ONCE, count - first)
        table[first : first + some] = np.concatenate(sample_torus(some, number), axis=1)
        table.flush()
    del table
    path.with_suffix(".part").rename(path)


class Watch:
    """Peak memory of all processes below this one, in GB: everything, and without pages of files."""

    def __init__(self) -> None:
        self.peaks: dict[int, tuple[float, float]] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._end.wait(EVERY):
            for pid in list_descendants(os.getpid()):
                own, before = read_memory_of(pid), self.peaks.get(pid, (0.0, 0.0))
                self.peaks[pid] = max(own[0], before[0]), max(own[1], before[1])


def list_descendants(root: int) -> list[int]:
    """Processes that a process started, and those that these started."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
    found, waiting = [], [root]
    while waiting:
        at = waiting.pop()
        own = [pid for pid, parent in parents.items() if parent == at]
        found += own
        waiting += own
    return found


def read_memory_of(pid: int) -> tuple[float, float]:
    """Peak memory, and memory now that is no page of a file, in GB."""
    try:
        lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
        return tuple(int(lines[name].split()[0]) / 1e6 for name in ("VmHWM", "RssAnon"))  # type: ignore[return-value]
    except (OSError, KeyError):
        return 0.0, 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=300_000)
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--part", type=int)
    parser.add_argument("--workers", type=int, default=1, help="processes beside this one; 0: all is done in this one")
    parser.add_argument("--dask", action="store_true", help="workers of Dask")
    parser.add_argument("--out", type=Path, default=Path("results/out-of-core"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    cloud, mesh = given.out / f"torus-{given.points}.npy", given.out / f"torus-{given.points}.ply"
    write_torus(cloud, given.points)
    from cnf.execution import Dask, Executor, Here, Processes

    executor: Executor = Here()
    if given.workers:
        executor = Dask(given.workers, memory=given.memory) if given.dask else Processes(given.workers)
    marks: list[tuple[float, float, str]] = []
    start, busy = time.perf_counter(), time.process_time()

    def tell(what: str) -> None:
        step = what.split(":")[0]
        if not marks or marks[-1][2] != step:
            marks.append((time.perf_counter() - start, time.process_time() - busy, step))

    with Watch() as watch, executor:
        made = reconstruct_tiles(cloud, mesh, given.memory, part=given.part, workers=executor, report=tell)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    numbers = made.numbers
    row = {
        **{"points": given.points, "memory": given.memory, "workers": given.workers, "dask": given.dask},
        "seconds": round(time.perf_counter() - start, 1),
        "parent_processor_seconds": round(time.process_time() - busy, 1),
        "worker_processor_seconds": round(children.ru_utime + children.ru_stime, 1),
        "parent_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 3),
        "worker_gb": [round(peak, 3) for peak, _ in watch.peaks.values()],
        "worker_gb_without_files": [round(peak, 3) for _, peak in watch.peaks.values()],
        **{"parts": made.settings["parts"], "vertices": numbers.vertices, "faces": numbers.faces},
        **{"closed": numbers.watertight, "euler": numbers.euler, "components": numbers.components},
        **{"exact": made.certificate.exact, "conditions": made.certificate.conditions},
        **{"value_error": made.value_error, "normal_error": made.normal_error, "used": made.points},
        "mesh_bytes": mesh.stat().st_size,
        "steps": {step: [round(wall, 1), round(own, 1)] for wall, own, step in marks},
        "stages": {name: round(spent, 1) for name, spent in made.seconds.items()},
    }
    print(json.dumps(row))


if __name__ == "__main__":
    main()
