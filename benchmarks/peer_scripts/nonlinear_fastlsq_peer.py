"""One nonlinear problem with fastlsq: random Fourier features, soft conditions, its own Newton with its own settings.

    fastlsq        the size of its defaults (3 x 500 features, 4500 points), the scale of its tests. `auto_select_scale`
                   would take 27 such solves to find a scale, by the error against the exact solution: not counted.
    fastlsq-tests  the size of its tests (2 x 300 features, at most 15 steps), the scale of its tests
    fastlsq-quick  the smallest error of all solves that take no longer than QUICK processor seconds, among three
                   sizes and its nine scales, as if both had been known beforehand: the time is that of the one solve

The scale of the cubic problem, which is not its own, is the one that suits its frequency of 4 pi.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from fastlsq import solve_nonlinear
from fastlsq.problems import nonlinear

from benchmarks.peer_scripts.measuring import Solved, Stopwatch, run_peer
from benchmarks.peer_scripts.nonlinear_problems import NONLINEAR, NonlinearProblem, cubic_source, two_scales
from benchmarks.peer_scripts.problems import Array, Index

QUICK = 1.2  # what cnf takes for these problems
SCALES = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0, 12.0, 15.0)
SIZES = (50, 100, 200)  # more features take longer than that


class TwoScales(nonlinear.NLPoisson2D):
    """Its own equation with another solution."""

    def exact(self, x):
        return two_scales(x[:, :1], x[:, 1:], torch)

    def source(self, x):
        return cubic_source(x[:, :1], x[:, 1:], torch)


OWN = {  # with the scales of its tests
    "nl-poisson": (nonlinear.NLPoisson2D, 8.0),
    "bratu": (nonlinear.Bratu2D, 15.0),
    "steady-burgers": (nonlinear.SteadyBurgers1D, 10.0),
    "nl-helmholtz": (nonlinear.NLHelmholtz2D, 5.0),
    "allen-cahn": (nonlinear.AllenCahn1D, 15.0),
    "cubic": (TwoScales, 15.0),
}


def run(problem: NonlinearProblem, seed: int, scale: float, **sizes: int):
    """Its solver, the points where it had the equation and the values around, and the time."""
    torch.manual_seed(seed)
    own = OWN[problem.name][0]()
    given = []
    draw = own.get_train_data

    def drawn(*counts: int, **more: int):
        given.append(draw(*counts, **more))
        return given[-1]

    own.get_train_data = drawn
    watch = Stopwatch()
    found = solve_nonlinear(
        own, scale=scale, auto_scale=False, verbose=False, return_solver=True, return_metrics=False, **sizes
    )
    seconds = watch.read()
    inside, around, _ = given[-1]
    return found["solver"], inside.numpy(), around[0][0].numpy(), seconds, found["n_iters"]


def differentiate(solver, points: Array, index: Index) -> Array:
    with torch.no_grad():
        features = solver.basis.derivative(torch.from_numpy(np.ascontiguousarray(points)), index)
        return (features @ solver.beta).numpy()


def solve(problem: NonlinearProblem, asked: argparse.Namespace) -> Solved:
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(asked.threads)
    scale = OWN[problem.name][1]
    if asked.method == "fastlsq-quick":
        grid = problem.grid()
        exact = problem.exact(grid)

        def error(solver) -> float:
            return float(np.linalg.norm(differentiate(solver, grid, (0,) * problem.dimension) - exact))

        run(problem, asked.seed, 3.0, n_blocks=1, hidden_size=50)  # what the first solve sets up is not counted
        tried = [(run(problem, asked.seed, s, n_blocks=1, hidden_size=size), s, size) for size in SIZES for s in SCALES]
        (found, scale, size) = min((t for t in tried if t[0][3][1] <= QUICK), key=lambda t: error(t[0][0]))
        sizes = {"n_blocks": 1, "hidden_size": size}
    else:
        small = asked.method == "fastlsq-tests"
        sizes = {"n_blocks": 2, "hidden_size": 300, "max_iter": 15} if small else {"n_blocks": 3, "hidden_size": 500}
        found = run(problem, asked.seed, scale, **sizes)
    solver, inside, around, seconds, steps = found
    count = sizes["n_blocks"] * sizes["hidden_size"]
    setting = f"{count} features, scale {scale:g}, {len(inside)} + {len(around)} points, {steps} steps of Newton"
    return Solved(
        lambda points, index: differentiate(solver, points, index), inside, seconds, setting, {"boundary": around}
    )


if __name__ == "__main__":
    run_peer("fastlsq", solve, NONLINEAR)
