"""A sweep of a hundred problems in this process, on one worker and on two: python -m benchmarks.sweep [--count 100].

The three take turns, a block of problems at a time, so that a busy machine slows all of them alike. Beside the seconds
stand those of processors: of the problems, of the process that hands them out (its serial part), of all else that
workers do (to start, to load torch). From these follows what two processors take that nobody else uses. The start of
workers is part of the first block.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cnf.execution import Executor, Here, Processes
from cnf.pde.problems.templates import read_template
from cnf.pde.sweeps.sweep import sweep
from cnf.reports.tables import Table

FROM, TO = 0.03, 3.3  # of delta: beyond 3.51 there is no solution
BLOCK = 20  # problems


@dataclass
class Figures:
    """What the blocks of one executor took."""

    seconds: float = 0.0
    problems: float = 0.0  # seconds of processors, of the problems alone
    parent: float = 0.0  # of the process that hands them out, the problems that it solves itself not counted
    workers: float = 0.0  # of workers in all, known when they have ended
    worst: list[float] = field(default_factory=list)

    @property
    def around(self) -> float:
        """What workers do besides the problems."""
        return max(0.0, self.workers - self.problems) if self.workers else 0.0

    def alone(self, workers: int) -> float:
        """Seconds on processors that nobody else uses: problems shared evenly, the rest of a worker once in each."""
        return self.parent + (self.problems + self.around) / workers


def children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_block(file: Path, values: Sequence[float], executor: Executor, out: Path, found: Figures) -> None:
    began, own = time.perf_counter(), time.process_time()
    rows = sweep(file, {"delta": values}, out=out, workers=executor).rows
    found.seconds += time.perf_counter() - began
    own = time.process_time() - own
    solved = sum(row.found["processor_seconds"] for row in rows if row.found is not None)
    found.problems += solved
    found.parent += own - (solved if isinstance(executor, Here) else 0.0)
    found.worst += [row.found["estimate"] for row in rows if row.found is not None and row.good]


def measure(count: int) -> dict[str, Figures]:
    """Every executor with all problems, in blocks by turns."""
    values = [round(float(value), 9) for value in np.random.default_rng(0).permutation(np.linspace(FROM, TO, count))]
    blocks = [values[k : k + BLOCK] for k in range(0, count, BLOCK)]
    executors: dict[str, Executor] = {"this process": Here(), "one worker": Processes(1), "two workers": Processes(2)}
    found = {name: Figures() for name in executors}
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "ignition.toml"
        file.write_text(read_template("ignition"))
        run_block(file, [0.5], Here(), Path(name) / "warm", Figures())  # what is imported once
        for number, block in enumerate(blocks):
            for label, executor in executors.items():
                run_block(file, block, executor, Path(name) / f"{number}-{label}", found[label])
            print(f"  block {number + 1} of {len(blocks)}", flush=True)
    for label, executor in executors.items():
        before = children()
        executor.close()
        found[label].workers = children() - before
    return found


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--count", type=int, default=100, help="problems")
    count = reader.parse_args().count
    found = measure(count)
    here, one, two = found.values()
    rows = [
        [
            name,
            *(f"{v:.1f}" for v in (f.seconds, f.problems, f.around, f.parent, f.alone(2 if f is two else 1))),
            f"{len(f.worst)}",
        ]
        for name, f in found.items()
    ]
    header = ["", "seconds", "problems", "workers besides", "parent besides", "on free processors", "good"]
    print(Table(header, rows).text())
    print(f"\nseconds, one worker over this process: {one.seconds / here.seconds:.2f}")
    print(f"seconds, this process over two workers: {here.seconds / two.seconds:.2f}")
    print(f"on free processors: {one.alone(1) / here.alone(1):.2f} and {here.alone(1) / two.alone(2):.2f}")
    same = here.worst == one.worst == two.worst
    print("estimates are the same, bit by bit" if same else "ESTIMATES DIFFER")
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
