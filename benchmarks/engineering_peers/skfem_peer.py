"""One engineering problem with scikit-fem.

`--setting` is the level of the mesh; `--variant` linear or quadratic on meshes graded by hand, or adaptive (quadratic).
"""

from __future__ import annotations

import argparse

from benchmarks.engineering_peers import skfem_adaptive, skfem_scalar, skfem_time, skfem_vector
from benchmarks.engineering_peers.measuring import Solved, run_script
from benchmarks.engineering_problems.problem import Problem

SOLVERS = {**skfem_scalar.SOLVERS, **skfem_vector.SOLVERS, **skfem_time.SOLVERS}


def solve(problem: Problem, asked: argparse.Namespace) -> Solved:
    known = skfem_adaptive.SOLVERS if asked.variant == "adaptive" else SOLVERS
    return known[problem.name](int(asked.setting), 1 if asked.variant == "linear" else 2)


if __name__ == "__main__":
    run_script(solve)
