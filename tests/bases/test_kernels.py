"""Kernels: profiles and their derivatives in s against SymPy, and the centre, where A's diagonal sits."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp
import torch
from torch import Tensor

import cnf
from cnf import kernels
from cnf.bases import Hermite, Kernel
from cnf.errors import BasisError
from cnf.operators.expansion import Request
from tests.bases.contract import WENDLAND, distances, matern

R = sp.Symbol("r", positive=True)


def matern_formula(nu: sp.Rational) -> sp.Expr:
    """Half-integer Matern as printed (Rasmussen and Williams 4.16), z = sqrt(2 nu) r."""
    p = int(nu - sp.Rational(1, 2))
    z = sp.sqrt(2 * nu) * R
    terms = [sp.factorial(p + i) / (sp.factorial(i) * sp.factorial(p - i)) * (2 * z) ** (p - i) for i in range(p + 1)]
    return sp.exp(-z) * sp.factorial(p) / sp.factorial(2 * p) * sum(terms)


def wendland_formula(k: int, dimension: int = 3) -> sp.Expr:
    """phi_{d,k}: (1-r)^l integrated k times by int_r^1 t f(t) dt, value 1 at 0."""
    t = sp.Symbol("t", positive=True)
    f = sp.expand((1 - R) ** (dimension // 2 + k + 1))
    for _ in range(k):
        f = sp.expand(sp.integrate(sp.expand(t * f.subs(R, t)), (t, R, 1)))
    return sp.expand(f / f.subs(R, 0))


FORMULAS: dict[str, tuple[kernels.KernelProfile, sp.Expr, int]] = {
    "Gaussian": (kernels.Gaussian(1.0), sp.exp(-(R**2) / 2), 6),
    **{
        f"Matern-{n}/2": (kernels.Matern(n / 2, 1.0), matern_formula(sp.Rational(n, 2)), n - 1) for n in (1, 3, 5, 7, 9)
    },
    **{f"Wendland-{k}": (kernels.Wendland(k, 1.0), wendland_formula(k), 2 * k) for k in range(5)},
    "Wendland-2-in-5D": (kernels.Wendland(2, 1.0, dimension=5), wendland_formula(2, 5), 4),
}
every_kernel = pytest.mark.parametrize(("kernel", "formula", "smoothness"), FORMULAS.values(), ids=FORMULAS.keys())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_far_from_its_centre_a_gaussian_is_zero(dtype: torch.dtype):
    """exp(-s / 2) up to the smallest normal number, then zero: subnormal numbers, which are slow, are few.

    Without a care there are 180 of them in float32 and 50 in float64. The slope is -k / 2, zero where the kernel is.
    """
    tiny, eps = torch.finfo(dtype).tiny, torch.finfo(dtype).eps
    s = torch.linspace(0.0, -4 * math.log(tiny), 2001, dtype=dtype, requires_grad=True)
    found = kernels.Gaussian(1.0).value(s)
    exact = torch.exp(-0.5 * s.detach().double())
    assert ((found - exact).abs() <= (2 * eps + eps * s) * exact + 2 * tiny).all()
    assert ((found > 0) & (found < tiny)).sum() <= 10 and (found == 0).sum() > 900
    (slope,) = torch.autograd.grad(found.sum(), s)
    assert ((slope + 0.5 * found).abs() <= eps * found + 2 * tiny).all() and (slope[found == 0] == 0).all()


@every_kernel
def test_profiles_and_derivatives_in_s(kernel, formula: sp.Expr, smoothness: int):
    """k^(m)(s) for s = r^2: (1/2r d/dr)^m of the printed formula by SymPy at 40 digits, to 1e-10 relative."""
    radii = [0.05, 0.3, 0.62, 0.9]
    s = torch.tensor([r * r for r in radii], dtype=torch.float64)
    found = kernel.profile(s, smoothness)
    assert len(found) == smoothness + 1
    expression = formula
    for m in range(smoothness + 1):
        expected = torch.tensor(
            [float(expression.subs(R, sp.Float(r, 60)).evalf(40)) for r in radii], dtype=torch.float64
        )
        assert (found[m].detach() / expected - 1).abs().max() <= 1e-10, m
        expression = sp.simplify(expression.diff(R) / (2 * R))


@every_kernel
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_value_one_at_the_centre(kernel, formula: sp.Expr, smoothness: int, dtype: torch.dtype):
    """k(0) = 1 to rounding, in both precisions."""
    value = kernel.profile(torch.zeros(1, dtype=dtype), 0)[0]
    assert value.dtype == dtype
    assert abs(float(value) - 1) <= 4 * torch.finfo(dtype).eps


@every_kernel
def test_derivatives_at_the_centre(kernel, formula: sp.Expr, smoothness: int):
    """At x = centre, from the series k = 1 + c1 s + c2 s^2 + ... (odd powers of r start above the smoothness):

    d_x^2 = 2 c1, d_x^4 = 24 c2, d_x^2 d_y^2 = 8 c2, odd ones 0. They are finite, and so is their gradient.
    """
    series = sp.series(formula, R, 0, 6).removeO()
    c1, c2 = float(series.coeff(R, 2)), float(series.coeff(R, 4))
    expected = {
        (0, 0): 1.0, (1, 0): 0.0, (2, 0): 2 * c1, (1, 1): 0.0, (3, 0): 0.0, (2, 1): 0.0,
        (4, 0): 24 * c2, (2, 2): 8 * c2, (3, 1): 0.0,
    }  # fmt: skip
    space = cnf.Space("x y", "u")
    centre = torch.tensor([[0.4, 0.7]], dtype=torch.float64)
    basis = Kernel(space, centre, kernel)
    one = torch.ones((), dtype=torch.float64)
    for index, value in expected.items():
        if sum(index) > smoothness:
            continue
        found = basis.rows(centre, [Request(0, {index: one})])[0, 0, 0]
        assert float(found.detach()) == pytest.approx(value, rel=1e-10, abs=1e-10), index
        (slope,) = torch.autograd.grad(found, kernel.log_length)
        # k((x - c) / length): a derivative of order n scales with length^-n
        assert float(slope) == pytest.approx(-sum(index) * value, rel=1e-9, abs=1e-9), index


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, 7.5])
def test_matern_is_the_bessel_function(nu: float):
    """Against SciPy's modified Bessel function of the second kind."""
    r = np.linspace(0, 5, 40)
    found = kernels.Matern(nu, 1.0).profile(torch.from_numpy(r**2), 0)[0].detach().numpy()
    assert np.abs(found - matern(r, nu)).max() <= 1e-13


@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_wendland_is_the_printed_polynomial(k: int):
    """Against Wendland's table for three dimensions, and zero from the radius on, derivatives included."""
    r = np.linspace(0, 1, 30)
    found = kernels.Wendland(k, 1.0).profile(torch.from_numpy(r**2), 0)[0].detach().numpy()
    assert np.abs(found - WENDLAND[k](r)).max() <= 1e-14
    outside = torch.tensor([1.0, 1.0 + 1e-12, 2.0, 1e6], dtype=torch.float64)
    for part in kernels.Wendland(k, 1.0).profile(outside, 2 * k):
        assert float(part.detach().abs().max()) <= 1e-14


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("kernel", [kernels.Wendland(k, 0.8) for k in range(4)] + [kernels.Matern(1.5, 0.2)])
def test_positive_definite(dimension: int, kernel):
    """The matrix k(|x_i - x_j|) of random points has only positive eigenvalues, up to three dimensions."""
    points = cnf.Box([0.0] * dimension, [1.0] * dimension).random(25, torch.Generator().manual_seed(dimension))
    matrix = Kernel(cnf.Space(["x", "y", "z"][:dimension], "u"), points, kernel)(points).detach()
    assert float(torch.linalg.eigvalsh((matrix + matrix.T) / 2).min()) > 0


def test_wendland_knows_its_dimension():
    """A kernel made for one dimension is refused by Hermite in three; made for three it serves."""
    space = cnf.Space("x y z", "u")
    constraint = space.constraint("u", at=cnf.Box([0.0] * 3, [1.0] * 3).halton(6), equals=1.0)
    with pytest.raises(BasisError, match="give dimension=3"):
        Hermite(space, [constraint], kernels.Wendland(1, 1.0, dimension=1))
    assert Hermite(space, [constraint], kernels.Wendland(1, 1.0)).size == 6


def test_smoothness_is_what_it_says():
    """Matern nu has 2 floor(nu) derivatives, Wendland k has 2k; Gaussian and dot product have all."""
    assert [kernels.Matern(nu).smoothness for nu in (0.5, 1.5, 2.5, 7.5)] == [0, 2, 4, 14]
    assert [kernels.Wendland(k).smoothness for k in (0, 1, 2)] == [0, 2, 4]
    assert kernels.TruncatedGaussian().smoothness == 0
    assert kernels.Gaussian().smoothness is None
    assert kernels.DotProduct().smoothness is None


@pytest.mark.parametrize(
    "build",
    [
        lambda: kernels.Matern(1.0),
        lambda: kernels.Matern(-0.5),
        lambda: kernels.Matern(8.5),
        lambda: kernels.Wendland(6),
        lambda: kernels.Wendland(-1),
        lambda: kernels.Wendland(1.5),
    ],
)
def test_smoothness_that_does_not_exist(build):
    with pytest.raises(BasisError, match="the smoothness of a"):
        build()


def test_one_bandwidth_per_coordinate():
    """exp(-sum (x_k - y_k)^2 / 2 b_k^2); a number of bandwidths that does not fit is refused with both numbers."""
    space = cnf.Space("x y", "u")
    points = cnf.Box((0, 0), (1, 1)).halton(5)
    found = Kernel(space, points, kernels.Gaussian([0.2, 0.7]))(points).detach().numpy()
    assert (
        np.abs(found - np.exp(-0.5 * distances(points.numpy(), points.numpy(), np.array([0.2, 0.7])) ** 2)).max()
        < 1e-14
    )
    with pytest.raises(BasisError, match="3 bandwidths for features of width 2"):
        Kernel(space, points, kernels.Gaussian([0.2, 0.7, 0.1]))(points)


def test_truncation_is_at_three_bandwidths():
    """The Gaussian inside, nothing outside; the jump is exp(-4.5)."""
    kernel = kernels.TruncatedGaussian(0.5)
    space = cnf.Space("x", "u")
    x: Tensor = torch.tensor([[0.0], [1.4999], [1.5001], [-1.4999], [9.0]], dtype=torch.float64)
    found = Kernel(space, torch.zeros(1, 1, dtype=torch.float64), kernel)(x)[:, 0].tolist()
    edge = math.exp(-0.5 * (1.4999 / 0.5) ** 2)
    assert found == pytest.approx([1.0, edge, 0.0, edge, 0.0], abs=1e-12)


@pytest.mark.parametrize("kernel", [cnf.kernels.Matern(2.5, 0.7), cnf.kernels.Wendland(2, 1.3)])
def test_plain_autograd_twice_at_a_centre(kernel):
    """u_xx at an anchor by reverse mode through field(x) equals what `apply` gives from closed forms."""
    space = cnf.Space("x y", "u")
    anchors = cnf.Box((0, 0), (1, 1)).halton(9)
    value = space.constraint("u", at=anchors, equals=lambda p: torch.sin(3 * p[:, 0]) + p[:, 1], name="value")
    solution = cnf.ConstrainedField(cnf.bases.Kernel(space, anchors, kernel), value).solve()
    x = anchors.clone().requires_grad_(True)
    (first,) = torch.autograd.grad(solution(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first[:, 0].sum(), x)
    assert torch.allclose(second[:, :1], solution.apply("u_{xx}", anchors), rtol=1e-9, atol=1e-10)
