"""The engineering problems by name, in the order of the table; see `problem.py` for what each has."""

from __future__ import annotations

from benchmarks.engineering_problems import corners, elastic, evolution, flow, holes, layers, sources
from benchmarks.engineering_problems.problem import Problem
from benchmarks.engineering_problems.smooth import SMOOTH

GROUPS = (layers, corners, elastic, flow, sources, holes, evolution)
PROBLEMS: dict[str, Problem] = {p.name: p for group in GROUPS for p in group.PROBLEMS}
EVERY = {**PROBLEMS, **SMOOTH}

__all__ = ["EVERY", "PROBLEMS", "SMOOTH"]
