"""Measuring a solution, the same for every method, and the command line that all peer scripts share. NumPy only."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.peer_scripts.nonlinear_problems import NonlinearProblem
from benchmarks.peer_scripts.problems import PROBLEMS, Array, Index, Problem

Derivative = Callable[[Array, Index], Array]  # points (P, D), alpha -> (P,), or (P, C) if there are channels
BUDGETS = ("quick", "fair", "long")


class Stopwatch:
    """Wall and processor time since it was made; on a busy machine only the second says how much work was done."""

    def __init__(self) -> None:
        self.started = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self.started[0], time.process_time() - self.started[1]


@dataclass(frozen=True)
class Solved:
    """What a method found: any derivative of its field, where it imposed the equation, and how long it took."""

    derivative: Derivative
    interior: Array  # (N, D); empty if the equation is met in the mean only, as elements do
    seconds: tuple[float, float]  # wall, and of the processor, all threads together
    setting: str
    given: Mapping[str, Array] = field(default_factory=dict)  # where it imposed a condition, if not at its points


def measure(problem: Problem | NonlinearProblem, solved: Solved) -> dict[str, float | None]:
    """Relative L2 error, largest error and worst residuals; None where there is nothing to measure.

    Equation residuals are divided by the largest term of the equation (`Problem.size`); those of the conditions are as
    they are, since all fields have a size of about 1.
    """
    grid = problem.grid()
    exact = problem.exact(grid)
    wrong = solved.derivative(grid, (0,) * problem.dimension) - exact
    equation = problem.has_equation and len(solved.interior) > 0
    return {
        "error": float(np.linalg.norm(wrong) / np.linalg.norm(exact)),
        "max_error": float(np.abs(wrong).max()),
        "conditions": _worst_condition(problem, solved, between=False),
        "conditions_between": _worst_condition(problem, solved, between=True) if problem.has_equation else None,
        "equation": _worst_equation(problem, solved.derivative, solved.interior) if equation else None,
        "equation_between": _worst_equation(problem, solved.derivative, grid) if equation else None,
    }


def _worst_condition(problem: Problem | NonlinearProblem, solved: Solved, between: bool) -> float:
    worst = 0.0
    for condition in problem.conditions:
        points = condition.between if between else solved.given.get(condition.name, condition.points)
        found = solved.derivative(points, condition.derivative)
        found = found if condition.channel is None else found[:, [condition.channel]]
        worst = max(worst, float(np.abs(found - condition.values(points)).max()))
    return worst


def _worst_equation(problem: Problem | NonlinearProblem, derivative: Derivative, points: Array) -> float:
    return float(np.abs(problem.residual(points, derivative)).max())


def run_peer(
    method: str, solve: Callable[[Any, argparse.Namespace], Solved], problems: Mapping[str, Any] = PROBLEMS
) -> None:
    """Read the command line, solve, measure, print one line of JSON as the last line of the output."""
    parser = argparse.ArgumentParser(description=f"one problem with {method}; prints one line of JSON")
    parser.add_argument("problem", choices=list(problems))
    parser.add_argument("--method", default=method, help="the name in the result, and the variant if there are several")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", choices=BUDGETS, default="fair")
    asked = parser.parse_args()
    keep_to_cores(asked.threads)
    problem = problems[asked.problem]
    solved = solve(problem, asked)
    result = {
        "method": asked.method,
        "problem": problem.name,
        "seed": asked.seed,
        "threads": asked.threads,
        "budget": asked.budget,
        **measure(problem, solved),
        "seconds": solved.seconds[0],
        "processor_seconds": solved.seconds[1],
        "setting": solved.setting,
    }
    print(json.dumps(result), flush=True)


def keep_to_cores(count: int) -> None:
    """As many cores as threads: some libraries keep thread pools that no variable reaches. Not on every system."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:count]))
