"""Auto: its decision table, and what it does, loudly, when the first choice fails."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch import Tensor

import cnf
from cnf.errors import NumericalWarning
from cnf.solvers import LU, Auto, Cholesky, MinimumNorm


@pytest.mark.parametrize(
    ("conditions", "functions", "symmetric", "kind"),
    [
        (5, 5, False, LU),
        (5, 5, True, Cholesky),
        (5, 9, False, MinimumNorm),
        (5, 9, True, MinimumNorm),
        (1, 1, False, LU),
    ],
)
def test_the_table(conditions: int, functions: int, symmetric: bool, kind: type):
    """Square: LU; declared symmetric positive definite: Cholesky; wide: MinimumNorm. It factors as it says."""
    chosen = Auto().choose(conditions, functions, symmetric)
    assert type(chosen) is kind
    matrix = torch.eye(conditions, functions, dtype=torch.float64)
    assert Auto().factor(matrix, symmetric).name == kind.__name__


def test_tall_systems_on_request():
    """m > n is solved by MinimumNorm in the least-squares sense if that was asked for."""
    chosen = Auto(least_squares=True).choose(9, 5)
    assert isinstance(chosen, MinimumNorm)
    assert chosen.least_squares


def singular(kind: str) -> Tensor:
    """Square, rank 4 of 5: exactly so (equal rows of integers), or up to rounding."""
    generator = torch.Generator().manual_seed(0)
    if kind == "exactly":
        matrix = torch.randint(-4, 5, (5, 5), generator=generator).double()
        matrix[3] = matrix[1]
        return matrix
    left, right = (torch.randn(*s, dtype=torch.float64, generator=generator) for s in ((5, 4), (4, 5)))
    return left @ right


@pytest.mark.parametrize("kind", ["exactly", "nearly"])
def test_a_singular_matrix_falls_back_with_a_warning_and_a_note(kind: str):
    """LU cannot; MinimumNorm gives NumPy's pseudo-inverse solution of consistent equations, and says so."""
    matrix = singular(kind)
    b = matrix @ torch.ones(5, 1, dtype=torch.float64)
    with pytest.warns(NumericalWarning, match="MinimumNorm was used instead"):
        factor = Auto().factor(matrix)
    assert factor.name == "MinimumNorm"
    assert factor.rank == 4
    assert any("MinimumNorm was used instead" in note for note in factor.notes)
    expected = np.linalg.pinv(matrix.numpy(), rcond=1e-12) @ b.numpy()
    assert np.abs(factor.solve(b).numpy() - expected).max() <= 1e-11


def test_an_indefinite_matrix_declared_definite_falls_back():
    """Cholesky meets a negative pivot: the answer is still that of numpy.linalg.solve."""
    matrix = torch.tensor([[1.0, 2.0], [2.0, 1.0]], dtype=torch.float64)
    b = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    with pytest.warns(NumericalWarning, match="Cholesky failed"):
        factor = Auto().factor(matrix, symmetric=True)
    assert np.abs(factor.solve(b).numpy() - np.linalg.solve(matrix.numpy(), b.numpy())).max() <= 1e-14


def test_a_good_matrix_gives_no_warning():
    """Nothing is said when nothing was done: condition 1e6 is no reason to fall back."""
    generator = torch.Generator().manual_seed(0)
    q, _ = torch.linalg.qr(torch.randn(8, 8, dtype=torch.float64, generator=generator))
    matrix = q @ torch.diag(torch.logspace(0, -6, 8, dtype=torch.float64)) @ q.T
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Auto().factor(matrix).notes == ()


def test_the_note_reaches_the_certificate():
    """Two equal conditions in a square system: the field falls back, is exact, and its certificate tells."""
    space = cnf.Space("x", "u")
    at = torch.tensor([[0.1], [0.5], [0.5], [0.9]], dtype=torch.float64)
    constraint = space.constraint("u", at=at, equals=torch.tensor([1.0, 2.0, 2.0, 3.0]), name="value")
    field = cnf.ConstrainedField(cnf.bases.Polynomial(space, 3), constraint)
    with pytest.warns(NumericalWarning):
        certificate = field.solve().certificate
    assert certificate.exact
    assert certificate.solver == "MinimumNorm"
    assert certificate.rank == 3
    assert any("MinimumNorm was used instead" in note for note in certificate.notes)
    assert "MinimumNorm was used instead" in str(certificate)
