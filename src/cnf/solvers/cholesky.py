"""Cholesky: symmetric positive definite systems, those of Hermite bases, scaled to a unit diagonal."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cnf.errors import SingularSystemError
from cnf.solvers.solver import Factor, Solver, SquareFactor, as_dense, power_of_two_scales
from cnf.solvers.sparse_matrix import SparseMatrix


@dataclass(frozen=True)
class Cholesky(Solver):
    """Half the work of LU; fails, and says so, if the matrix is not numerically positive definite.

    >>> space = cnf.Space("x", "u")
    >>> points = cnf.Box(0, 1).grid(8)
    >>> condition = space.constraint("u = x", at=points)
    >>> basis = cnf.bases.Hermite(space, [condition], cnf.kernels.Matern(2.5, 0.3))
    >>> field = cnf.ConstrainedField(basis, [condition], solver=cnf.solvers.Cholesky())
    >>> field.solve().certificate.exact
    True
    """

    refine: bool = True

    def factor(self, matrix: Tensor | SparseMatrix, symmetric: bool = False) -> Factor:
        matrix = as_dense(matrix)
        m, n = matrix.shape
        wide = matrix.detach().to(torch.float64)
        if m != n or not bool(
            torch.allclose(wide, wide.T, rtol=1e-8, atol=1e-8 * float(wide.abs().max()) if n else 0.0)
        ):
            raise SingularSystemError(
                f"Cholesky needs a symmetric matrix, but this {m} x {n} one is not: use it with "
                "cnf.bases.Hermite built from the same constraints as the field, or choose LU, MinimumNorm or Auto"
            )
        scale = power_of_two_scales(wide.diagonal().clamp_min(0).sqrt())
        scaled = scale[:, None] * wide * scale
        root, info = torch.linalg.cholesky_ex(scaled)
        if int(info):
            raise SingularSystemError(
                f"the matrix is not numerically positive definite (pivot {int(info)} of {n}): conditions are nearly "
                "dependent, or the kernel is too wide for the spacing of the points. A smaller bandwidth, or "
                "MinimumNorm, will do"
            )
        return CholeskyFactor(
            shape=(m, n), scale_rows=scale, scale_columns=scale, matrix=scaled, root=root, refine=self.refine
        )


@dataclass(frozen=True, kw_only=True)
class CholeskyFactor(SquareFactor):
    """The scaled matrix and its lower triangular root."""

    root: Tensor
    definite: bool = True

    name = "Cholesky"

    def _inverse(self, b: Tensor, transposed: bool) -> Tensor:
        return torch.cholesky_solve(b, self.root)
