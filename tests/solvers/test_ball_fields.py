"""Fields of balls: against the same sums pair by pair, at and beside the sources, where short distances lose digits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from cnf.kernels import Matern, Wendland
from cnf.systems.ball_fields import gather_sources

ORDERS = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
RADIUS = 0.7


def write_down(kernel: Wendland | Matern, x: Tensor, places: Tensor, value: Tensor, along: Tensor) -> Tensor:
    """v k + c . grad k and its gradient at x (P, 3), by automatic differentiation of sums over differences: (4, P)."""
    x = x.clone().requires_grad_()
    z = (x[:, None] - places) / RADIUS
    k = kernel.profile((z * z).sum(dim=2), 1)
    total = (k[0] * value + 2 / RADIUS * k[1] * (z * along).sum(dim=2)).sum(dim=1)
    (slope,) = torch.autograd.grad(total.sum(), x)
    return torch.cat([total.detach()[None], slope.T])


@pytest.mark.parametrize("apart", [0.0, 1e-12, 1e-7, 1e-5, 7e-4, 8e-4, 1e-2])
def test_sums_at_and_beside_the_sources(apart: float):
    """Values and slopes of Wendland's function, whose second derivative has a kink there, to 1e-10 of the strengths.

    Measured with distances from one product of matrices alone, slopes at a source are off by 1e-7 of them.
    """
    random = torch.Generator().manual_seed(1)
    places = torch.rand(40, 3, generator=random, dtype=torch.float64)
    value, along = torch.randn(40, generator=random).double(), torch.randn(40, 3, generator=random).double()
    way = torch.nn.functional.normalize(torch.randn(40, 3, generator=random).double(), dim=1)
    x, kernel = places + apart * RADIUS * way, Wendland(1, RADIUS).requires_grad_(False)
    strengths = {ORDERS[0]: value, **{ORDERS[1 + k]: along[:, k] for k in range(3)}}
    centre, one = torch.full((1, 3), 0.5, dtype=torch.float64), torch.ones(1).double()
    sources = gather_sources(kernel, np.array([0, 40]), places, strengths, centre, one)
    found = sources.fields(x, torch.arange(40), np.zeros(40, dtype=np.int64), ORDERS)
    beside = places + 1e-14 * way  # at a source slopes are what they are beside it; the square root there has none
    assert (found - write_down(kernel, x if apart else beside, places, value, along)).abs().max() <= 1e-10


@pytest.mark.parametrize("kernel", [Wendland(0, RADIUS), Matern(0.5, RADIUS)])
def test_values_of_kernels_with_a_tip(kernel: Wendland | Matern):
    """1 - r and exp(-r) near r = 0 follow r itself: at a source the value is the strength, to rounding."""
    places = torch.rand(30, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    strengths = torch.zeros(30).double()
    strengths[7] = 1.0
    centre, one = torch.full((1, 3), 0.5, dtype=torch.float64), torch.ones(1).double()
    kernel.requires_grad_(False)
    sources = gather_sources(kernel, np.array([0, 30]), places, {ORDERS[0]: strengths}, centre, one)
    found = sources.fields(places[7:8], torch.zeros(1, dtype=torch.int64), np.zeros(1, dtype=np.int64), ORDERS[:1])
    assert abs(float(found[0, 0]) - 1) <= 1e-14


@pytest.mark.parametrize("smoothness", [0, 1, 2, 3])
@pytest.mark.parametrize("least", [0.0, 1e-40, 1e-9])
def test_numbers_are_the_profile(smoothness: int, least: float):
    """k(s) and its derivatives in place are those with a graph, at the centre and beyond the support as well."""
    kernel = Wendland(smoothness, 1.0).requires_grad_(False)
    s = torch.cat([torch.tensor([least]).double(), torch.linspace(1e-3, 1.5, 500).double()])
    for order in range(min(2, 2 * smoothness) + 1):
        found, known = kernel.numbers(s.numpy().copy(), order), kernel.profile(s, order)
        assert len(found) == order + 1
        for ours, theirs in zip(found, known, strict=True):
            assert np.allclose(ours, theirs.numpy(), rtol=1e-13, atol=1e-14)
