"""One nonlinear problem with cnf, as a user states it: the equations and a target. No more is set."""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import scipy.stats  # noqa: F401 -- cnf imports it when it first needs it; imports do not count, for nobody
import torch

import cnf
import cnf.pde.problems.choosing
import cnf.pde.problems.on_patches
from benchmarks.peer_scripts.measuring import Solved, Stopwatch, run_peer
from benchmarks.peer_scripts.nonlinear_problems import NONLINEAR, NonlinearProblem
from benchmarks.peer_scripts.problems import Array, Index


def solve(problem: NonlinearProblem, asked: argparse.Namespace) -> Solved:
    torch.set_num_threads(asked.threads)
    watch = Stopwatch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cnf.errors.CnfWarning)  # the table shows every residual
        answer = cnf.Problem(**problem.entries, solve={"target": problem.asked}).solve()
    seconds = watch.read()

    def derivative(points: Array, index: Index) -> Array:
        x = torch.from_numpy(np.ascontiguousarray(points))
        steps = [rf"\partial_{name}^{n}" for name, n in zip(problem.coordinates, index, strict=True) if n]
        with torch.no_grad():
            if not steps:
                return answer(x).numpy()
            parts = [answer.solution.apply(" ".join([*steps, channel]), x) for channel in problem.channels]
            return torch.cat(parts, dim=1).numpy()

    given = {c.name: c.points.detach().numpy() for c in answer.field.constraints}
    how = "patches" if answer.mesh is not None else "waves"
    exact = "exact" if answer.certificate.exact else "not exact"
    setting = (
        f"target {problem.asked:.0e}; {answer.conditions} conditions, {how}, estimate {answer.estimate:.1e}, {exact}"
    )
    return Solved(derivative, given["equation"], seconds, setting, given)


if __name__ == "__main__":
    run_peer("cnf", solve, NONLINEAR)
