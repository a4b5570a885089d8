"""Cholesky: symmetric positive definite systems, those of Hermite bases, scaled to a unit diagonal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from cnf.errors import SingularSystemError
from cnf.solvers.condition import Triplet, largest_triplet, smallest_triplet, starting_vector
from cnf.solvers.solver import Factor, Solver, as_dense, power_of_two_scales
from cnf.solvers.sparse_matrix import SparseMatrix


@dataclass(frozen=True)
class Cholesky(Solver):
    """Half the work of LU; fails, and says so, if the matrix is not numerically positive definite."""

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
                f"the matrix is not numerically positive definite (pivot {int(info)} of {n}): conditions are "
                "nearly dependent, or "
                "the kernel is too wide for the spacing of the points. A smaller bandwidth, or MinimumNorm, will do"
            )
        return CholeskyFactor(
            shape=(m, n), scale_rows=scale, scale_columns=scale, matrix=scaled, root=root, refine=self.refine
        )


@dataclass(frozen=True, kw_only=True)
class CholeskyFactor(Factor):
    """The scaled matrix and its lower triangular root."""

    matrix: Tensor
    root: Tensor
    refine: bool = True

    name = "Cholesky"

    def solve(self, b: Tensor) -> Tensor:
        right = b * self.scale_rows[:, None]
        x = torch.cholesky_solve(right, self.root)
        if self.refine:
            x = x + torch.cholesky_solve(right - self.matrix @ x, self.root)
        return x * self.scale_columns[:, None]

    def solve_transposed(self, b: Tensor) -> Tensor:
        return self.solve(b)

    @cached_property
    def _extremes(self) -> tuple[Triplet, Triplet]:
        start = starting_vector(self.shape[0], self.matrix)

        def solved(b: Tensor) -> Tensor:
            return torch.cholesky_solve(b[:, None], self.root)[:, 0]

        top = largest_triplet(lambda v: self.matrix @ v, lambda u: self.matrix @ u, start)
        return top, smallest_triplet(solved, solved, start)

    def extremes(self) -> tuple[Triplet, Triplet]:
        return self._extremes

    @property
    def rank(self) -> int:
        return self.shape[0]
