"""Advection on scattered points, the paper's test of a PDE solver that tunes itself.

    u_t + beta u_x = 0,   u(x, 0) = sin(2 pi x),   x and t in (0, 1),   beta = 0.1;   exact: u = sin(2 pi (x - beta t)).

1024 conditions: the initial state at 32 points and the equation at 31 x 32 points of a uniform grid moved by Gaussian
noise of standard deviation `perturbation` (at 1.0 most of them lie outside the square). Nothing is tuned by hand:
`HeldOutResidual`, the residual of the equation at points of the square where it was not imposed, chooses the
parameters of every basis.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

import cnf
from cnf.certificate.certificate import Certificate
from cnf.training import History
from cnf.training.bandwidth import Loss, ScanReport, ScanStep, bandwidths, choose, tune_bandwidth

BETA = 0.1
LEVELS = (0.01, 0.05, 0.1, 0.5, 1.0)
METHODS = ("random-fourier", "rbf", "skewed-rbf")

# (RMSE, nRMSE) of the paper's table, by perturbation.
PAPER = {
    "rbf": {
        0.01: (0.0086, 0.0149),
        0.05: (0.0252, 0.0442),
        0.1: (0.1484, 0.2534),
        0.5: (0.0170, 0.0297),
        1.0: (0.2830, 0.4838),
    },
    "skewed-rbf": {
        0.01: (0.0061, 0.0116),
        0.05: (0.0024, 0.0043),
        0.1: (0.0344, 0.0651),
        0.5: (0.0167, 0.0282),
        1.0: (0.0231, 0.0365),
    },
}

SQUARE = cnf.Box([0, 0], [1, 1])
Watch = Callable[[int, float, cnf.Solution], object]  # step, loss and solution before every update of a training
SPREADS = ((0.3, 1.0), (0.3, 2.0), (0.6, 1.0), (0.6, 2.0), (0.9, 2.0))  # (spread of log-widths, factor on the width)


@dataclass(frozen=True, eq=False)
class Advection:
    """What was found; errors are measured on a 101 x 101 grid of the unit square."""

    perturbation: float
    method: str
    seed: int
    points: Tensor  # (1024, 2), initial points first
    rmse: float
    nrmse: float  # RMSE over the root mean square of the exact field
    start_rmse: float  # with one bandwidth for all functions, before any training
    bandwidth: float  # the best single bandwidth
    trials: tuple[ScanStep, ...]  # bandwidths tried
    spreads: tuple[ScanStep, ...]  # skewed-rbf: spreads of the widths tried
    history: History | None  # skewed-rbf: of the training
    certificate: Certificate
    field: cnf.ConstrainedField
    seconds: float

    @property
    def residual(self) -> float:
        """The worst relative residual of all conditions."""
        return self.certificate.worst

    @property
    def paper(self) -> tuple[float, float] | None:
        """(RMSE, nRMSE) that the paper reports for this method (for random-fourier: its better one), if it does."""
        return PAPER.get(self.method, PAPER["skewed-rbf"]).get(self.perturbation)


def exact_field(points: Tensor, beta: float = BETA) -> Tensor:
    """sin(2 pi (x - beta t)), (P,)."""
    return torch.sin(2 * math.pi * (points[:, 0] - beta * points[:, 1]))


def conditions(perturbation: float, seed: int = 0, side: int = 32, beta: float = BETA) -> list[cnf.Constraint]:
    """The initial state at `side` points and the equation at (side - 1) x side perturbed grid points."""
    space = cnf.Space("x t", "u")
    x = torch.linspace(0, 1, side, dtype=torch.float64)
    initial = torch.stack([x, torch.zeros_like(x)], dim=1)
    grid = torch.cartesian_prod(x, x[1:])
    noise = torch.randn(grid.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return [
        space.constraint(r"u = \sin(2 \pi x)", at=initial, name="start"),
        space.constraint(
            r"\partial_t u + \beta \partial_x u = 0", at=grid + perturbation * noise, beta=beta, name="pde"
        ),
    ]


def solve_advection(
    perturbation: float = 0.1,
    method: str = "random-fourier",
    seed: int = 0,
    *,
    size: int | None = None,
    side: int = 32,
    steps: int = 10,
    bandwidth: float | None = None,
    report: ScanReport | None = None,
    watch: Watch | None = None,
) -> Advection:
    """Solve the problem by one of METHODS.

    "random-fourier": `size` random waves (two per condition), one bandwidth chosen by a scan. "rbf": one Gaussian per
    condition, one bandwidth chosen by a scan. "skewed-rbf": from there, every Gaussian gets its own widths: first
    drawn around the common one, as widely as the held-out residual likes best, then trained for `steps` steps.
    `bandwidth` is where to begin instead of a scan; `report` is called with every `ScanStep`, training included, and
    `watch` with the solution at every training step.
    """
    started = time.perf_counter()
    _check(perturbation, method, seed, side, steps, bandwidth)
    given = conditions(perturbation, seed, side)
    rows = sum(c.rows for c in given)
    held_out = cnf.losses.HeldOutResidual(points=SQUARE.halton(512, seed=seed), constraint="pde")
    field = cnf.ConstrainedField(_basis(method, given, size or 2 * rows, bandwidth or 0.1, seed), given)
    trials = [] if bandwidth is not None else tune_bandwidth(field, held_out, report=report)
    width = bandwidth if bandwidth is not None else min(trials, key=lambda t: t.loss).value
    start_rmse, spreads, history = None, [], None
    if method == "skewed-rbf":
        start_rmse = _quiet_rmse(field)
        spreads = _spread(field, held_out, seed, report)
        history = _trained(field, held_out, steps, seed, report, watch) if steps else None
    field.eval()
    solution = field.solution
    error, size_of = measure(solution)
    return Advection(
        perturbation=perturbation,
        method=method,
        seed=seed,
        points=torch.cat([c.points for c in given]),
        rmse=error,
        nrmse=error / size_of,
        start_rmse=error if start_rmse is None else start_rmse,
        bandwidth=width,
        trials=tuple(trials),
        spreads=tuple(spreads),
        history=history,
        certificate=solution.certificate,
        field=field,
        seconds=time.perf_counter() - started,
    )


def measure(solution: cnf.Solution) -> tuple[float, float]:
    """The root mean square of the error and of the exact field, on a grid of the unit square."""
    points = SQUARE.grid(101)
    with torch.no_grad():
        exact = exact_field(points)
        error = solution(points)[:, 0] - exact
    return float(error.square().mean().sqrt()), float(exact.square().mean().sqrt())


def _basis(method: str, given: list[cnf.Constraint], size: int, bandwidth: float, seed: int) -> cnf.bases.Basis:
    space = cnf.Space("x t", "u")
    if method == "random-fourier":
        return cnf.bases.RandomFourier(space, size=size, bandwidth=bandwidth, seed=seed)
    if method == "rbf":
        return cnf.bases.Kernel(space, given, cnf.kernels.Gaussian(bandwidth))
    return cnf.bases.SkewedRBF(space, given, bandwidth=bandwidth)


def _spread(field: cnf.ConstrainedField, loss: Loss, seed: int, report: ScanReport | None) -> list[ScanStep]:
    """Draw the widths of all Gaussians around the common one, as widely as the loss likes best.

    Gaussians of one width on close points are almost dependent, which costs digits: large weights of alternating
    sign. Unequal widths tell them apart: the same field then has weights that are smaller by many orders of
    magnitude.
    """
    (parameter,) = bandwidths(field)
    common = parameter.detach().clone()
    noise = torch.randn(common.shape, dtype=common.dtype, generator=torch.Generator().manual_seed(seed + 1))
    candidates = [(spread, common + math.log(factor) + spread * noise) for spread, factor in SPREADS]
    return choose(field, loss, parameter, candidates, "spread", report)


def _trained(
    field: cnf.ConstrainedField,
    loss: Loss,
    steps: int,
    seed: int,
    report: ScanReport | None,
    watch: Watch | None,
) -> History:
    def tell(step: int, solution: cnf.Solution, history: History) -> None:
        if report is not None:
            report(ScanStep("step", step, history.loss[-1]))
        if watch is not None:
            watch(step, history.loss[-1], solution)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cnf.errors.CnfWarning)  # the final solve repeats what still holds
        return cnf.fit(
            field, loss, steps=steps, lr=0.02, progress=False, log_condition_every=None, seed=seed, callbacks=tell
        )


def _quiet_rmse(field: cnf.ConstrainedField) -> float:
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore", cnf.errors.CnfWarning)
        return measure(field.solve())[0]


def _check(perturbation: float, method: str, seed: int, side: int, steps: int, bandwidth: float | None) -> None:
    error = cnf.errors.CnfError
    if not math.isfinite(perturbation) or perturbation < 0:
        raise error(f"the perturbation is a standard deviation, a finite number of at least 0; got {perturbation!r}")
    if method not in METHODS:
        raise error(
            f"there is no method {method!r}; choose one of {', '.join(METHODS)}." + cnf.errors.nearest(method, METHODS)
        )
    if side < 4 or steps < 0 or seed < 0:
        raise error(f"side is at least 4, steps and seed at least 0; got {side}, {steps} and {seed}")
    if bandwidth is not None and not (bandwidth > 0 and math.isfinite(bandwidth)):
        raise error(f"the bandwidth is a positive number; got {bandwidth!r}")
