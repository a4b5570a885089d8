"""The cheap condition number: value within 5 % of torch.linalg.cond, gradient with cosine of at least 0.99 to its."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import cnf
from benchmarks.speed import condition_number
from cnf.solvers import LU, Cholesky, MinimumNorm
from cnf.solvers.condition import largest_triplet


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def with_values(values: Tensor, seed: int = 0) -> Tensor:
    """A matrix with given singular values."""
    u, _ = torch.linalg.qr(normal(len(values), len(values), seed=seed))
    v, _ = torch.linalg.qr(normal(len(values), len(values), seed=seed + 1))
    return u @ torch.diag(values) @ v.T


def gaussian(n: int, bandwidth: float) -> Tensor:
    x = torch.linspace(0, 1, n, dtype=torch.float64)
    return torch.exp(-0.5 * ((x[:, None] - x) / bandwidth) ** 2)


def skewed(n: int) -> Tensor:
    """A Gaussian kernel matrix with another bandwidth in every column: not symmetric."""
    x = torch.linspace(0, 1, n, dtype=torch.float64)
    widths = (1.2 + 0.6 * torch.sin(7 * x)) / n
    return torch.exp(-0.5 * ((x[:, None] - x) / widths) ** 2)


MATRICES = {
    "random": normal(60, 60),
    "random-shifted": normal(50, 50, seed=3) + 10 * torch.eye(50, dtype=torch.float64),
    "geometric-1e3": with_values(torch.logspace(0, -3, 40, dtype=torch.float64)),
    "geometric-1e10": with_values(torch.logspace(0, -10, 40, dtype=torch.float64)),
    "gaussian": gaussian(64, 1.5 / 64),
    "skewed": skewed(128),
    "two": torch.tensor([[2.0, 1.0], [0.0, 0.5]], dtype=torch.float64),
}
every_matrix = pytest.mark.parametrize("matrix", MATRICES.values(), ids=MATRICES.keys())


def compared(found: Tensor, expected: Tensor, matrix: Tensor) -> None:
    assert float(found) == pytest.approx(float(expected), rel=0.05)
    (a,) = torch.autograd.grad(found, matrix)
    (b,) = torch.autograd.grad(expected, matrix)
    assert float(torch.nn.functional.cosine_similarity(a.reshape(-1), b.reshape(-1), dim=0)) >= 0.99
    assert float(a.norm() / b.norm()) == pytest.approx(1, rel=0.1)


@every_matrix
def test_condition_number(matrix: Tensor):
    """Against the singular value decomposition of torch.linalg.cond, value and gradient."""
    a = matrix.clone().requires_grad_()
    compared(condition_number(a), torch.linalg.cond(a), a)


@every_matrix
def test_condition_from_the_factor_that_is_there(matrix: Tensor):
    """Every factor knows the condition of its equilibrated matrix, differentiable in the original one.

    For Cholesky: the definite matrix with the same, well separated singular values (where they coincide, the gradient
    of a condition number does not exist).
    """
    _, values, right = torch.linalg.svd(matrix)
    definite = right.T @ torch.diag(values) @ right
    definite = (definite + definite.T) / 2
    for solver, given in ((LU(), matrix), (MinimumNorm(), matrix), (Cholesky(), definite)):
        a = given.clone().requires_grad_()
        factor = solver.factor(a)
        expected = torch.linalg.cond(factor.scale_rows[:, None] * a * factor.scale_columns)
        assert factor.condition() == pytest.approx(float(expected), rel=0.05)
        compared(factor.condition_of(a), expected, a)


def test_wide_matrices():
    """MinimumNorm: the ratio of the extreme singular values of a 6 x 15 matrix."""
    a = normal(6, 15).requires_grad_()
    factor = MinimumNorm().factor(a)
    compared(factor.condition_of(a), torch.linalg.cond(factor.scale_rows[:, None] * a), a)


def test_largest_triplet_of_a_zero_map():
    """The zero matrix has the singular value zero, and no division by it."""
    zero = torch.zeros(4, 4, dtype=torch.float64)
    found = largest_triplet(lambda v: zero @ v, lambda u: zero @ u, torch.ones(4, dtype=torch.float64))
    assert float(found.value) == 0


def test_condition_of_a_field():
    """The certificate's condition is that of the equilibrated system it solved, by NumPy's reckoning within 5 %."""
    space = cnf.Space("x", "u")
    at = cnf.Box(0.0, 1.0).grid(20)
    constraint = space.constraint("u", at=at, equals=1.0)
    field = cnf.ConstrainedField(cnf.bases.Kernel(space, at, cnf.kernels.Gaussian(0.06)), constraint)
    solution = field.solve()
    factor = LU().factor(solution.blocks[0].matrix)
    scaled = factor.scale_rows[:, None] * solution.blocks[0].matrix * factor.scale_columns
    assert solution.certificate.condition == pytest.approx(float(torch.linalg.cond(scaled.detach())), rel=0.05)
