"""What all scripts share: the command line, the clock, the peak of memory, the error. NumPy and SciPy only.

Time counts from the statement of the problem to a field that can be evaluated: meshes, assembly, tuning and refinement
included, imports not. Memory is the peak of the whole process at that moment, imports included. Then the field is
evaluated at the points of the problem, which costs nothing here.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.engineering_problems import EVERY
from benchmarks.engineering_problems.problem import Array, Problem, relative_errors

PACKAGES = ("cnf", "scikit-fem", "gmsh", "deepxde", "fastlsq", "torch", "numpy", "scipy")
Field = Callable[[Array], Array]  # points (P, D) -> (P, C)


class Clock:
    """Wall and processor seconds since `start`, without what was spent `aside`."""

    def __init__(self) -> None:
        self.started, self.aside_for = (0.0, 0.0), (0.0, 0.0)

    def now(self) -> tuple[float, float]:
        return time.perf_counter() - self.aside_for[0], time.process_time() - self.aside_for[1]

    def start(self) -> None:
        self.started, self.aside_for = (0.0, 0.0), (0.0, 0.0)
        self.started = self.now()

    def read(self) -> tuple[float, float]:
        wall, processor = self.now()
        return wall - self.started[0], processor - self.started[1]

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Evaluating the field at the points where it is compared is nobody's work, even if it is done on the way."""
        before = time.perf_counter(), time.process_time()
        yield
        spent = time.perf_counter() - before[0], time.process_time() - before[1]
        self.aside_for = self.aside_for[0] + spent[0], self.aside_for[1] + spent[1]


CLOCK = Clock()


def peak_memory() -> float:
    """GB at most so far: by VmHWM where there is one, since ru_maxrss begins with what the starting process had."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    found = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
    return (found[0] if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 2**20


def versions() -> str:
    """Of what is installed here."""
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


@dataclass(frozen=True)
class Solved:
    """A field, how large its system was, and what else is worth knowing."""

    field: Field
    unknowns: int
    more: dict[str, object] = field(default_factory=dict)


def run_script(solve: Callable[[Problem, argparse.Namespace], Solved], arguments: Sequence[str] | None = None) -> None:
    """Read the command line, solve, measure, print one line of JSON as the last line of the output."""
    parser = argparse.ArgumentParser(description="one engineering problem; prints one line of JSON")
    parser.add_argument("problem", choices=list(EVERY))
    parser.add_argument(
        "--setting", required=True, help="the rung of the ladder: a target, a number of cells, a budget"
    )
    parser.add_argument("--variant", default="", help="of the method, if it has several")
    asked = parser.parse_args(arguments)
    problem = EVERY[asked.problem]
    CLOCK.start()
    solved = solve(problem, asked)
    seconds = CLOCK.read()
    memory = peak_memory()
    found, wanted = solved.field(problem.points), problem.reference(problem.points)
    result = {
        "problem": problem.name,
        "variant": asked.variant,
        "setting": asked.setting,
        "error": max(relative_errors(found, wanted)) if np.isfinite(found).all() else float("inf"),
        "processor_seconds": seconds[1],
        "seconds": seconds[0],
        "memory": memory,
        "unknowns": int(solved.unknowns),
        "versions": versions(),
        "load": os.getloadavg()[0],  # processes at work on the machine: they cost processor time through its caches
        **solved.more,
    }
    print(json.dumps(result), flush=True)
