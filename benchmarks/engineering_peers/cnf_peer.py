"""One engineering problem with cnf, as a user states it; `--setting`: target or "default", `--variant`: method."""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import scipy.stats  # noqa: F401 -- cnf imports it when it first needs it; imports do not count, for nobody
import torch

import cnf
import cnf.pde.problems.choosing
import cnf.pde.problems.on_patches
from benchmarks.engineering_peers.measuring import Solved, run_script
from benchmarks.engineering_problems.problem import Array, Problem


def solve(problem: Problem, asked: argparse.Namespace) -> Solved:
    torch.set_num_threads(1)
    solving: dict[str, object] = {"method": asked.variant or "auto"}
    if asked.setting != "default":
        solving["target"] = float(asked.setting)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cnf.errors.CnfWarning)  # the table has the estimate, and whether it is exact
        answer = cnf.Problem(**problem.entries, solve=solving).solve()

    def field(points: Array) -> Array:
        with torch.no_grad():
            return answer(torch.from_numpy(np.ascontiguousarray(points))).numpy()

    return Solved(
        field,
        answer.conditions,
        {
            "estimate": float(answer.estimate),
            "exact": bool(answer.certificate.exact),
            "worst": float(answer.certificate.worst),
        },
    )


if __name__ == "__main__":
    run_script(solve)
