"""Scattered values with SciPy's RBFInterpolator, the only problem it can take: it knows no derivatives.

scipy-thin-plate   the default kernel, which has no parameter
scipy-gaussian     epsilon by ten-fold cross-validation over a scan, as a user would do; the scan counts in the time
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.interpolate import RBFInterpolator

from benchmarks.peer_scripts.measuring import Solved, Stopwatch, run_peer
from benchmarks.peer_scripts.problems import Array, Index, Problem

EPSILONS = np.geomspace(2, 30, 12)
FOLDS = 10


def cross_validate(points: Array, values: Array, epsilon: float, seed: int) -> float:
    """Root mean square error of predicting every tenth from the rest; infinite if a fit is singular."""
    order = np.random.default_rng(seed).permutation(len(points))
    squares = []
    for fold in range(FOLDS):
        left_out = order[fold::FOLDS]
        kept = np.setdiff1d(order, left_out)
        try:
            fit = RBFInterpolator(points[kept], values[kept], kernel="gaussian", epsilon=epsilon)
        except np.linalg.LinAlgError:
            return np.inf
        squares.append((fit(points[left_out]) - values[left_out]) ** 2)
    return float(np.sqrt(np.concatenate(squares).mean()))


def solve(problem: Problem, asked: argparse.Namespace) -> Solved:
    (condition,) = problem.conditions
    points = condition.points
    values = condition.values(points)
    watch = Stopwatch()
    if asked.method == "scipy-gaussian":
        epsilon = min(EPSILONS, key=lambda e: cross_validate(points, values, e, asked.seed))
        fit = RBFInterpolator(points, values, kernel="gaussian", epsilon=epsilon)
        setting = f"epsilon {epsilon:.3g} of {len(EPSILONS)} by {FOLDS}-fold cross-validation"
    else:
        fit = RBFInterpolator(points, values, kernel="thin_plate_spline")
        setting = "default kernel"
    seconds = watch.read()

    def derivative(x: Array, index: Index) -> Array:
        assert not any(index), "RBFInterpolator has no derivatives"
        return fit(x)

    return Solved(derivative, problem.interior, seconds, setting)


if __name__ == "__main__":
    run_peer("scipy-thin-plate", solve)
