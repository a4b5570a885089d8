"""Transfer: widths trained for one initial state solve others without training, the paper's transfer experiment.

    u_t + beta u_x = 0,   u(x, 0) = sin(2 pi x) + mu;   exact: u = sin(2 pi (x - beta t)) + mu.

A skewed RBF is trained on scattered points at mu = 0 alone (`solve_advection`). Every other shift changes only the
right-hand side, so `field.update` solves it with the factorisation that is there. Beside it: a skewed RBF whose
covariances are drawn at random around a common width, on the same points, with the same solver.
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
from cnf.demo.advection import SQUARE, Advection, conditions, exact_field, solve_advection
from cnf.training.bandwidth import ScanReport

SHIFTS = (0.0, 1.0, 10.0, 100.0, 1000.0, 10000.0)
BANDWIDTH = 0.1  # around which random covariances are drawn: the default of SkewedRBF
SPREAD = 0.5  # standard deviation of the logarithms of random widths, and of the skews relative to 1 / width

# shift: (RMSE, nRMSE) of the paper's random and of its pre-trained skewed RBF.
PAPER = {
    0.0: ((0.0127, 0.0227), (0.0070, 0.0129)),
    1.0: ((0.0460, 0.0736), (0.0049, 0.0074)),
    10.0: ((0.5788, 0.0594), (0.0177, 0.0018)),
    100.0: ((5.8613, 0.0587), (0.2221, 0.0022)),
    1000.0: ((60.143, 0.0602), (2.3113, 0.0023)),
    10000.0: ((635.78, 0.0636), (23.844, 0.0024)),
}


@dataclass(frozen=True)
class Shifted:
    """One shift, solved with both bases; errors are measured on a 101 x 101 grid of the unit square."""

    shift: float
    random_rmse: float
    random_nrmse: float  # RMSE over the root mean square of the exact field
    rmse: float
    nrmse: float
    random_residual: float  # worst relative residual of all conditions
    residual: float
    seconds: float  # of the update of the trained field: no assembly, no factorisation, no training

    @property
    def gain(self) -> float:
        """How many times smaller the error is with the trained basis."""
        return self.random_rmse / self.rmse

    @property
    def paper(self) -> tuple[tuple[float, float], tuple[float, float]] | None:
        """((RMSE, nRMSE) random, (RMSE, nRMSE) pre-trained) of the paper, if it has this shift."""
        return PAPER.get(self.shift)


@dataclass(frozen=True, eq=False)
class Transfer:
    """All shifts, and how the basis was trained."""

    trained: Advection
    rows: tuple[Shifted, ...]
    field: cnf.ConstrainedField  # trained
    random: cnf.ConstrainedField
    seconds: float


def study_transfer(
    perturbation: float = 0.1,
    seed: int = 0,
    shifts: Sequence[float] = SHIFTS,
    *,
    side: int = 32,
    steps: int = 10,
    report: ScanReport | None = None,
) -> Transfer:
    """Train at mu = 0, then solve every shift without training; `report` is called with every trial of the training."""
    started = time.perf_counter()
    if not shifts or not all(math.isfinite(shift) for shift in shifts):
        raise cnf.errors.CnfError(f"shifts are finite numbers, at least one; got {list(shifts)!r}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cnf.errors.CnfWarning)  # the residuals are in the result
        trained = solve_advection(perturbation, "skewed-rbf", seed, side=side, steps=steps, report=report)
        random = random_field(perturbation, seed, side)
        rows = tuple(solve_shift(trained.field, random, shift) for shift in shifts)
    return Transfer(trained, rows, trained.field, random, time.perf_counter() - started)


def random_field(perturbation: float, seed: int = 0, side: int = 32) -> cnf.ConstrainedField:
    """The same conditions with a skewed RBF whose covariances are random around diag(BANDWIDTH^2)."""
    given = conditions(perturbation, seed, side)
    basis = cnf.bases.SkewedRBF(cnf.Space("x t", "u"), given, bandwidth=BANDWIDTH, full=True)
    generator = torch.Generator().manual_seed(seed)
    assert basis.skew is not None
    with torch.no_grad():
        for parameter, scale in ((basis.log_bandwidth, SPREAD), (basis.skew, SPREAD / BANDWIDTH)):
            parameter.add_(scale * torch.randn(parameter.shape, dtype=parameter.dtype, generator=generator))
    return cnf.ConstrainedField(basis, given).eval()


def solve_shift(trained: cnf.ConstrainedField, random: cnf.ConstrainedField, shift: float) -> Shifted:
    """Both fields with the initial state sin(2 pi x) + shift."""
    started = time.perf_counter()
    found = shift_field(trained, shift)
    seconds = time.perf_counter() - started
    other = shift_field(random, shift)
    (error, size), (random_error, _) = measure_shifted(found, shift), measure_shifted(other, shift)
    return Shifted(
        shift=shift,
        random_rmse=random_error,
        random_nrmse=random_error / size,
        rmse=error,
        nrmse=error / size,
        random_residual=other.certificate.worst,
        residual=found.certificate.worst,
        seconds=seconds,
    )


def shift_field(field: cnf.ConstrainedField, shift: float) -> cnf.Solution:
    """The solution with initial state sin(2 pi x) + shift, by the factorisation that the field has already."""

    def initial(points: Tensor) -> Tensor:
        return torch.sin(2 * math.pi * points[:, 0]) + shift

    return field.update(values={"start": initial})


def measure_shifted(solution: cnf.Solution, shift: float) -> tuple[float, float]:
    """The root mean square of the error and of the exact field, on a grid of the unit square."""
    points = SQUARE.grid(101)
    with torch.no_grad():
        exact = exact_field(points) + shift
        error = solution(points)[:, 0] - exact
    return float(error.square().mean().sqrt()), float(exact.square().mean().sqrt())
