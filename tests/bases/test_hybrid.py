"""Hybrid: supports one can choose, the pattern they give, and the product rule."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial import cKDTree
from torch import Tensor

import cnf
from cnf import encoders, kernels
from cnf.bases import Hermite, Hybrid, HypernetKernel, Kernel, Polynomial, RandomFourier, SkewedRBF
from cnf.bases.basis import Basis
from cnf.errors import BasisError, RepeatedAnchorError, SmoothnessError
from cnf.operators.expansion import Request
from tests.bases.contract import nested_autograd

PLANE = cnf.Space("x y", "u")
BOX = cnf.Box((0, 0), (1, 1))
ANCHORS = BOX.halton(40, seed=2)
X = cnf.Box((-0.2, -0.2), (1.2, 1.2)).halton(300, seed=5)
INDICES = [(0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2), (2, 1), (0, 3)]


def inner(kind: str) -> Basis:
    torch.manual_seed(3)
    if kind == "Kernel":
        return Kernel(PLANE, ANCHORS, kernels.Gaussian(0.3))
    if kind == "Kernel-encoder":
        return Kernel(PLANE, ANCHORS, kernels.Gaussian(1.0), encoders.MLP(2, 12, hidden=(16,)))
    if kind == "SkewedRBF":
        return SkewedRBF(PLANE, ANCHORS, bandwidth=0.3)
    if kind == "Kernel-DotProduct":
        return Kernel(PLANE, ANCHORS, kernels.DotProduct(), encoders.MLP(2, 12, hidden=(16,)))
    return HypernetKernel(PLANE, ANCHORS, encoders.MLP(2, 12, hidden=(16,)))


KINDS = ["Kernel", "Kernel-encoder", "Kernel-DotProduct", "SkewedRBF", "HypernetKernel"]
each_inner = pytest.mark.parametrize("kind", KINDS)


def derivatives(basis: Basis, x: Tensor, indices=INDICES) -> Tensor:
    one = torch.ones((), dtype=x.dtype)
    return basis.rows(x, [Request(0, {index: one}) for index in indices]).detach()  # (P, K, N)


@each_inner
@pytest.mark.parametrize("radius", [0.15, 0.4, [0.2, 0.5]])
def test_zero_outside_the_support(kind: str, radius):
    """Values and derivatives to order 3 are exactly zero beyond the radius, and the functions are not zero within."""
    basis = Hybrid(inner(kind), kernels.Wendland(3, radius))
    r = (((X[:, None] - ANCHORS[None]) / torch.tensor(radius, dtype=torch.float64)) ** 2).sum(dim=2).sqrt()  # (P, N)
    found = derivatives(basis, X)
    outside = (r >= 1)[:, None].expand_as(found)
    assert (found[outside] == 0).all()
    assert (found[:, 0][r < 0.9] != 0).all()
    assert torch.allclose(basis.support.detach(), torch.tensor(radius, dtype=torch.float64), rtol=1e-14)


@each_inner
def test_the_truncated_gaussian_vanishes_beyond_three_bandwidths(kind: str):
    basis = Hybrid(inner(kind), kernels.TruncatedGaussian(0.1))
    r = torch.cdist(X, ANCHORS)
    values = basis(X).detach()
    assert (values[r >= 0.3] == 0).all()
    assert (values[r < 0.29] != 0).all()
    assert float(basis.support.detach()) == pytest.approx(0.3, rel=1e-14)


@pytest.mark.parametrize("window", [kernels.Wendland(2, 0.25), kernels.TruncatedGaussian(0.25 / 3)])
def test_the_pattern_of_the_system_is_that_of_the_neighbours(window):
    """Which entries of A are there follows from points and radius alone: SciPy's k-d tree finds the same."""
    basis = Hybrid(inner("HypernetKernel"), window)
    points = BOX.halton(35, seed=8)
    conditions = PLANE.constraint("u", at=points, equals=1.0)
    field = cnf.ConstrainedField(basis, conditions, solver=cnf.solvers.Auto(least_squares=True), tolerance=10.0)
    matrix = field.solve().blocks[0].matrix.detach()
    expected = np.zeros((35, 40), dtype=bool)
    for row, columns in enumerate(cKDTree(ANCHORS.numpy()).query_ball_point(points.numpy(), 0.25)):
        expected[row, columns] = True
    assert np.array_equal(matrix.numpy() != 0, expected)
    assert 0.02 < expected.mean() < 0.5  # otherwise this test tests nothing


@each_inner
def test_derivatives_follow_the_product_rule(kind: str):
    """Against reverse mode through inner(x) * window(x), each evaluated on its own."""
    parts, window = inner(kind), kernels.Wendland(3, 0.7)
    basis, plain = Hybrid(parts, window), Kernel(PLANE, ANCHORS, kernels.Wendland(3, 0.7))
    mix = torch.randn(40, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    x = X[:20]
    oracle = nested_autograd(lambda p: (parts(p) * plain(p)) @ mix, x, INDICES)
    found = derivatives(basis, x)
    for k, index in enumerate(INDICES):
        expected = oracle[index]
        assert (found[:, k] @ mix - expected).abs().max() <= 1e-10 * float(expected.abs().max()), index


def test_the_window_does_not_follow_what_the_encoder_learns():
    """After training the inner encoder the support is where it was."""
    basis = Hybrid(inner("Kernel-encoder"), kernels.Wendland(2, 0.3))
    before = basis(X).detach() != 0
    with torch.no_grad():
        for parameter in basis.inner.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    assert torch.equal(basis(X).detach() != 0, before)


def test_repeated_anchors_follow_the_inner_basis():
    """Value and gradient at the same points: with HypernetKernel inside they hold, with Kernel they are refused."""
    at = BOX.halton(6, seed=3)
    value = PLANE.constraint("u", at=at, equals=lambda p: torch.sin(3 * p[:, 0]), name="value")
    slope = PLANE.constraint(r"\nabla u", at=at, equals=0.3, name="slope")
    network = HypernetKernel(PLANE, [value, slope], encoders.MLP(2, 12, hidden=(16,), seed=0))
    basis = Hybrid(network, kernels.Wendland(3, 0.8))
    certificate = cnf.ConstrainedField(basis, [value, slope]).solve().certificate
    assert certificate.exact
    assert certificate.worst <= 1e-10
    assert basis.properties.repeated_anchors
    assert not Hybrid.properties.repeated_anchors  # of Hybrids in general
    with pytest.raises(RepeatedAnchorError):
        Hybrid(Kernel(PLANE, [value, slope], kernels.Gaussian(0.3)), kernels.Wendland(3, 0.8))


def test_parameters_follow_the_inner_basis():
    assert not Hybrid(inner("SkewedRBF"), kernels.Wendland(2, 0.3)).properties.parameters_independent
    assert Hybrid(inner("Kernel"), kernels.Wendland(2, 0.3)).properties.parameters_independent


@pytest.mark.parametrize(
    "window", [kernels.Gaussian(0.3), kernels.Matern(2.5, 0.3), kernels.DotProduct(), "wendland", None]
)
def test_a_window_without_support_is_refused(window):
    with pytest.raises(BasisError, match=r"zero beyond a radius.*Wendland"):
        Hybrid(inner("Kernel"), window)


def test_an_inner_basis_without_anchors_is_refused():
    value = PLANE.constraint("u", at=ANCHORS, equals=1.0)
    for given in (RandomFourier(PLANE, 10), Polynomial(PLANE, 2), Hermite(PLANE, [value]), None, kernels.Gaussian(0.1)):
        with pytest.raises(BasisError, match=r"needs anchors.*Kernel"):
            Hybrid(given, kernels.Wendland(2, 0.3))


def test_the_smoothness_is_that_of_the_rougher_part():
    """Wendland 1 has two derivatives; a condition with three is refused, not solved with zeros."""
    basis = Hybrid(inner("Kernel"), kernels.Wendland(1, 0.5))
    assert basis.smoothness == 2
    with pytest.raises(SmoothnessError):
        cnf.ConstrainedField(basis, PLANE.constraint("u_{xxx}", at=ANCHORS[:3], equals=0))
    with pytest.raises(SmoothnessError):
        cnf.ConstrainedField(
            Hybrid(inner("Kernel"), kernels.TruncatedGaussian(0.1)), PLANE.constraint("u_x", at=ANCHORS[:3], equals=0)
        )
    rough = Kernel(PLANE, ANCHORS, kernels.Matern(1.5, 0.3))
    assert Hybrid(rough, kernels.Wendland(4, 0.5)).smoothness == 2
