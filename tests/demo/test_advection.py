"""Advection: the paper's problem solved without hand tuning, and the tuner that makes it possible."""

from __future__ import annotations

import math
import warnings

import pytest
import torch

import cnf
from cnf.demo.advection import PAPER, conditions, exact_field, solve_advection
from cnf.demo.tables import advection_table
from cnf.training.bandwidth import spacing, tune_bandwidth
from cnf.training.search import narrow


@pytest.mark.slow
def test_random_fourier_reaches_the_figures_at_the_paper_s_size() -> None:
    """1024 conditions, perturbation 0.5: RMSE below 1e-9 (paper: 1.7e-2), residual below 1e-11, no hand tuning."""
    result = solve_advection(0.5, "random-fourier", seed=0)
    assert result.rmse <= 1e-9
    assert result.residual <= 1e-11
    assert result.certificate.conditions == 1024
    assert result.nrmse == pytest.approx(result.rmse * math.sqrt(2), rel=0.05)  # the root mean square of a sine is 0.7


def test_skewed_gaussians_beat_their_start_and_the_paper() -> None:
    """400 conditions where the paper has 1024, perturbation 0.1, from a bandwidth that is good for equal widths."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cnf.errors.CnfWarning)
        result = solve_advection(0.1, "skewed-rbf", seed=0, bandwidth=0.27, steps=2, side=20)
    assert result.rmse < 0.1 * result.start_rmse
    assert result.rmse < PAPER["skewed-rbf"][0.1][0]
    assert result.certificate.exact
    assert result.history is not None
    assert len(result.history) == 2


@pytest.mark.parametrize("method", ["random-fourier", "rbf", "skewed-rbf"])
def test_every_method_solves_a_smaller_grid(method: str) -> None:
    seen = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cnf.errors.CnfWarning)
        result = solve_advection(0.1, method, side=12, steps=2, report=seen.append)
    assert result.rmse < 1e-2
    assert result.points.shape == (144, 2)
    kinds = {trial.what for trial in seen}
    assert kinds == ({"bandwidth", "spread", "step"} if method == "skewed-rbf" else {"bandwidth"})
    assert min(result.trials, key=lambda t: t.loss).value == pytest.approx(result.bandwidth)
    assert method in advection_table([result])


def test_conditions_are_the_paper_s() -> None:
    """32 + 31 x 32 conditions; the noise has the standard deviation asked for; the exact field meets all of them."""
    start, pde = conditions(0.5, seed=3)
    assert (start.rows, pde.rows) == (32, 992)
    moved = pde.points - conditions(0.0)[1].points
    assert moved.std().item() == pytest.approx(0.5, rel=0.05)
    assert torch.allclose(start.values[:, 0], exact_field(start.points))
    x = pde.points.clone().requires_grad_()
    (slope,) = torch.autograd.grad(exact_field(x).sum(), x)
    assert (slope[:, 1] + 0.1 * slope[:, 0]).abs().max() < 1e-12


@pytest.mark.parametrize(
    "arguments",
    [
        {"perturbation": -0.1},
        {"perturbation": float("nan")},
        {"method": "finite-elements"},
        {"bandwidth": 0.0},
        {"side": 2},
        {"steps": -1},
    ],
)
def test_bad_input_is_refused(arguments) -> None:
    with pytest.raises(cnf.errors.CnfError):
        solve_advection(**arguments)


def small_field(bandwidth: float) -> cnf.ConstrainedField:
    given = conditions(0.05, seed=0, side=8)
    space = cnf.Space("x t", "u")
    return cnf.ConstrainedField(cnf.bases.RandomFourier(space, size=128, bandwidth=bandwidth), given)


def test_tuning_finds_the_minimum_of_a_known_valley() -> None:
    """loss = (log bandwidth - log 0.3)^2: the scan starts 2^6 below, walks up, and narrows to a few per cent."""
    field = small_field(1.0)
    valley = math.log(0.3)
    trials = tune_bandwidth(
        field, lambda s: (s.basis.log_bandwidth - valley).square().sum(), start=0.3 / 64, scan=3, refine=8
    )
    assert field.basis.bandwidth.item() == pytest.approx(0.3, rel=0.05)
    assert len(trials) == len({t.value for t in trials})


def test_tuning_walks_down_as_well() -> None:
    field = small_field(1.0)
    valley = math.log(0.01)
    tune_bandwidth(field, lambda s: (s.basis.log_bandwidth - valley).square().sum(), start=0.3, scan=3, refine=6)
    assert field.basis.bandwidth.item() == pytest.approx(0.01, rel=0.1)


def test_tuning_passes_over_bandwidths_that_cannot_be_solved() -> None:
    def loss(solution: cnf.Solution) -> torch.Tensor:
        width = solution.basis.log_bandwidth.exp()
        if width < 0.05:
            raise cnf.errors.SingularSystemError("too small")
        return (width - 0.2).square()

    field = small_field(1.0)
    trials = tune_bandwidth(field, loss, start=0.02, scan=6, refine=6)
    assert math.isinf(trials[0].loss)
    assert field.basis.bandwidth.item() == pytest.approx(0.2, rel=0.2)


def test_golden_section_converges_at_its_rate() -> None:
    """After n evaluations the interval is golden^(n - 1) of the first; the best point lies within it."""
    tried: list[float] = []

    def attempt(x: float) -> float:
        tried.append(x)
        return (x - 0.7) ** 2

    narrow(attempt, 0.0, 1.0, 12)
    assert len(tried) == 12
    assert min(abs(x - 0.7) for x in tried) < 0.618**11


def test_spacing_is_the_distance_of_neighbours() -> None:
    """A grid of 8 x 8 points in the unit square has neighbours at 1 / 7."""
    given = conditions(0.0, side=8)
    field = cnf.ConstrainedField(cnf.bases.RandomFourier(cnf.Space("x t", "u"), size=64), given)
    assert spacing(field) == pytest.approx(1 / 7)


def test_a_basis_without_bandwidth_is_named() -> None:
    given = conditions(0.0, side=4)
    field = cnf.ConstrainedField(cnf.bases.Polynomial(cnf.Space("x t", "u"), degree=8), given)
    with pytest.raises(cnf.errors.CnfError, match="Polynomial has no bandwidth"):
        tune_bandwidth(field, lambda s: s.weights.sum())
