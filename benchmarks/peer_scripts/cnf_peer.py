"""One problem with cnf, bandwidths and sizes chosen by the search.

Equations: waves with random frequencies, number and bandwidths by the smallest residual of the equation elsewhere.
Values alone: waves, Gaussian or Matern kernels, each with the bandwidth of the smallest leave-one-out error, and of
these the smallest whose certificate is good. Every solve of the search counts in the time. The kernels joined after the
error of the waves alone (1.9e-3) was seen.
"""

from __future__ import annotations

import argparse
import math
import warnings

import numpy as np
import torch

import cnf
from benchmarks.peer_scripts.measuring import Solved, Stopwatch, run_peer
from benchmarks.peer_scripts.problems import Array, Function, Index, Problem
from cnf.pde.tuning import HeldOutEquations, Plan, Settings, tune
from cnf.training.bandwidth import tune_bandwidth


def state_constraints(problem: Problem) -> list[cnf.Constraint]:
    """The problem in the language of cnf: the equation at the interior points, then its conditions."""
    space = state_space(problem)
    given = []
    if problem.source is not None:
        sides = {} if "=" in problem.latex else {"equals": on_tensors(problem.source)}
        given.append(space.constraint(problem.latex, at=torch.from_numpy(problem.interior), name="equation", **sides))
    for condition in problem.conditions:
        sides = {} if "=" in condition.latex else {"equals": torch.from_numpy(condition.values(condition.points))}
        at = torch.from_numpy(condition.points)
        given.append(space.constraint(condition.latex, at=at, name=condition.name, **sides))
    return given


def state_space(problem: Problem) -> cnf.Space:
    return cnf.Space(" ".join(problem.coordinates), "u")


def on_tensors(function: Function):
    """A function of arrays as one of tensors."""
    return lambda points: torch.from_numpy(function(points.detach().numpy()))


def solve_with_cnf(problem: Problem, seed: int = 0) -> tuple[cnf.Solution, str]:
    """The solution, and the setting in words."""
    given = state_constraints(problem)
    if problem.source is None:
        return interpolate(problem, given, seed)
    rows, space = sum(c.rows for c in given), state_space(problem)
    checks = HeldOutEquations([given[0].at(cnf.Box(problem.lower, problem.upper).halton(512, seed=seed))])
    extents = [b - a for a, b in zip(problem.lower, problem.upper, strict=True)]
    spacing = len(problem.interior) ** (-1 / len(extents))

    def build(settings: Settings) -> cnf.ConstrainedField:
        size = math.ceil(settings.size * rows)
        return cnf.ConstrainedField(cnf.bases.RandomFourier(space, size, settings.bandwidth, seed=seed), given)

    start = Settings(tuple(2 * spacing * extent for extent in extents))
    found = tune(Plan(build, "held-out", checks, start, checks=checks, factors=(0.125, 4 / spacing), seed=seed))
    assert found.solved is not None
    return found.solved.solution, f"{rows} conditions, {found.best} ({len(found.trials)} tried)"


def interpolate(problem: Problem, given: list[cnf.Constraint], seed: int) -> tuple[cnf.Solution, str]:
    """Values alone: the best of three bases by leave-one-out."""
    rows, space = sum(c.rows for c in given), state_space(problem)
    bases: dict[str, cnf.bases.Basis] = {
        f"{2 * rows} waves": cnf.bases.RandomFourier(space, size=2 * rows, bandwidth=0.1, seed=seed),
        f"{rows} Gaussians": cnf.bases.Kernel(space, given, cnf.kernels.Gaussian(0.1)),
        f"{rows} Matern kernels": cnf.bases.Kernel(space, given, cnf.kernels.Matern(2.5, 0.1)),
    }
    found = []
    for name, basis in bases.items():
        field = cnf.ConstrainedField(basis, given)
        trials = tune_bandwidth(field, cnf.losses.LeaveOneOut())
        best = min(trials, key=lambda t: t.loss)
        solution = field.eval().solution
        setting = f"{rows} conditions, {name}, bandwidth {best.value:.2g} ({len(trials)} tried)"
        found.append((not solution.certificate.exact, best.loss, solution, setting))
    return min(found, key=lambda f: f[:2])[2:]


def solve(problem: Problem, asked: argparse.Namespace) -> Solved:
    torch.set_num_threads(asked.threads)
    watch = Stopwatch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cnf.errors.CnfWarning)  # the table shows every residual
        solution, setting = solve_with_cnf(problem, asked.seed)
    seconds = watch.read()

    def derivative(points: Array, index: Index) -> Array:
        return differentiate(solution, problem, points, index)

    return Solved(derivative, problem.interior, seconds, setting)


def differentiate(solution: cnf.Solution, problem: Problem, points: Array, index: Index) -> Array:
    """d^alpha u of a solution at points, (P,)."""
    x = torch.from_numpy(np.ascontiguousarray(points))
    steps = [rf"\partial_{name}^{order}" for name, order in zip(problem.coordinates, index, strict=True) if order]
    with torch.no_grad():
        return (solution.apply(" ".join([*steps, "u"]), x) if steps else solution(x))[:, 0].numpy()


if __name__ == "__main__":
    run_peer("cnf", solve)
