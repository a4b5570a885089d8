"""The paper's advection study: five perturbations by every method, with errors, learning curves and times.

One case is one method on one grid. Its result depends on perturbation, method, seed, side and steps only, not on which
other cases run: every method tunes itself from the beginning.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

import cnf
from cnf.demo.advection import METHODS, PAPER, conditions, solve_advection
from cnf.training.bandwidth import ScanReport
from studies.advection.baselines import (
    Curve,
    Predict,
    errors_of,
    time_inference,
    train_as_the_paper,
    train_siren,
    worst_residual,
)

STUDY_METHODS = (*METHODS, "skewed-rbf-paper", "siren")
# Steps of each method for one of `--steps`: about the same time for all, on one core.
PACE = {"skewed-rbf": 1, "skewed-rbf-paper": 10, "siren": 200}
# (training, inference) in seconds, of the paper's table; on hardware and with numbers of points that it does not name.
PAPER_SECONDS = {
    "rbf": (160.7, 0.0056),
    "skewed-rbf": (265.6, 0.0061),
    "skewed-rbf-paper": (265.6, 0.0061),
    "siren": (36.7, 0.0087),
}


@dataclass(frozen=True, eq=False)
class Case:
    """One method on one grid; see `errors_of` for the errors."""

    perturbation: float
    method: str
    seed: int
    rmse: float  # PDEBench
    nrmse: float  # PDEBench
    pooled_rmse: float  # over all points of the grid at once
    residual: float  # the largest of all conditions, absolute
    steps: int  # training steps, 0 if there is nothing to train
    training_seconds: float  # all it takes to get a field: scan of the bandwidth, training, solving; no measuring
    inference_seconds: float  # for all points of the grid
    curve: Curve
    points: Tensor  # (P, 2) of the conditions, initial points first
    predict: Predict

    @property
    def paper(self) -> tuple[float, float] | None:
        """(RMSE, nRMSE) of the paper, if its table has this basis at this perturbation."""
        return PAPER.get(self.method.removesuffix("-paper"), {}).get(self.perturbation)

    @property
    def paper_seconds(self) -> tuple[float, float] | None:
        """(training, inference) of the paper, if it has the method."""
        return PAPER_SECONDS.get(self.method)


def study_case(
    perturbation: float = 0.1,
    method: str = "random-fourier",
    seed: int = 0,
    *,
    side: int = 32,
    steps: int = 10,
    report: ScanReport | None = None,
) -> Case:
    """Solve one case; `steps` is that of skewed-rbf, the others take PACE times as many.

    Ctrl-C ends it with KeyboardInterrupt, in the middle of a training too.
    """
    check_study([perturbation], [method], 1, steps)
    own = steps * PACE.get(method, 0)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cnf.errors.CnfWarning)  # residuals are in the result
        predict, curve = _train(perturbation, method, seed, side, own, report)
        seconds = time.perf_counter() - started - curve.measuring
        given = conditions(perturbation, seed, side)
        rmse, nrmse, pooled = errors_of(predict)
        residual = worst_residual(predict, given)
    return Case(
        perturbation=perturbation,
        method=method,
        seed=seed,
        rmse=rmse,
        nrmse=nrmse,
        pooled_rmse=pooled,
        residual=residual,
        steps=own,
        training_seconds=seconds,
        inference_seconds=time_inference(predict),
        curve=curve,
        points=torch.cat([c.points for c in given]),
        predict=predict,
    )


def check_study(levels: Sequence[float], methods: Sequence[str], seeds: int, steps: int) -> None:
    """Refuse what cannot be run, before anything is."""
    error = cnf.errors.CnfError
    for level in levels:
        if not (math.isfinite(level) and level >= 0):
            raise error(f"levels are standard deviations, finite numbers of at least 0; got {level:g}")
    for method in methods:
        if method not in STUDY_METHODS:
            raise error(
                f"there is no method {method!r}; choose from {', '.join(STUDY_METHODS)}."
                + cnf.errors.nearest(method, STUDY_METHODS)
            )
    if not levels or not methods or seeds < 1 or steps < 1:
        raise error(
            "a study needs at least one level, method, seed and step; "
            f"got {len(levels)}, {len(methods)}, {seeds} and {steps}"
        )


def _train(
    perturbation: float, method: str, seed: int, side: int, steps: int, report: ScanReport | None
) -> tuple[Predict, Curve]:
    if method == "siren":
        return train_siren(perturbation, seed, side=side, steps=steps, report=report)
    if method == "skewed-rbf-paper":
        field, curve, history = train_as_the_paper(perturbation, seed, side=side, steps=steps, report=report)
        _pass_on(history.stopped)
        return field.solution, curve
    curve = Curve()
    result = solve_advection(perturbation, method, seed, side=side, steps=steps, report=report, watch=curve.note)
    if result.history is not None:
        _pass_on(result.history.stopped)
    return result.field.solution, curve


def _pass_on(stopped: str) -> None:
    """`fit` ends in good order on Ctrl-C; a study has to end as well, for half a training is no result."""
    if stopped == "interrupted":
        raise KeyboardInterrupt
