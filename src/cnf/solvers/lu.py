"""LU: square systems, partial pivoting, rows and columns equilibrated, one step of refinement."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cnf.errors import SingularSystemError
from cnf.solvers.solver import Factor, Solver, SquareFactor, as_dense, power_of_two_scales
from cnf.solvers.sparse_matrix import SparseMatrix


@dataclass(frozen=True)
class LU(Solver):
    """The fast choice for square, well conditioned systems.

    >>> space = cnf.Space("x", "u")
    >>> points = cnf.Box(0, 1).grid(8)
    >>> condition = space.constraint("u = x", at=points)
    >>> basis = cnf.bases.Kernel(space, points, cnf.kernels.Matern(2.5, 0.3))
    >>> field = cnf.ConstrainedField(basis, [condition], solver=cnf.solvers.LU())
    >>> field.solve().certificate.exact
    True
    """

    refine: bool = True

    def factor(self, matrix: Tensor | SparseMatrix, symmetric: bool = False) -> Factor:
        matrix = as_dense(matrix)
        m, n = matrix.shape
        if m != n:
            raise SingularSystemError(
                f"LU needs as many basis functions as conditions, but there are {n} and {m}; "
                "use cnf.solvers.MinimumNorm() (or Auto) for wide systems"
            )
        scaled, rows, columns = equilibrated(matrix.detach())
        lu, pivots, _ = torch.linalg.lu_factor_ex(scaled)  # judged below; lu_factor would raise
        smallest = lu.diagonal().abs().min() if n else lu.new_ones(())
        if not bool(smallest > 0) or not bool(torch.isfinite(smallest)):
            raise SingularSystemError(
                f"the {m} x {n} system is exactly singular: (a) two conditions or two basis functions are the same, "
                "(b) a basis function vanishes on all conditions, (c) the basis is far too smooth for the points. "
                "cnf.solvers.MinimumNorm() solves it if the conditions agree with each other"
            )
        return LUFactor(
            shape=(m, n),
            scale_rows=rows,
            scale_columns=columns,
            matrix=scaled,
            lu=lu,
            pivots=pivots,
            refine=self.refine,
        )


def equilibrated(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The matrix in float64 with rows, then columns, brought to about unit size; and the scales."""
    wide = matrix.to(torch.float64)
    rows = power_of_two_scales(torch.linalg.vector_norm(wide, dim=1))
    scaled = wide * rows[:, None]
    columns = power_of_two_scales(torch.linalg.vector_norm(scaled, dim=0))
    if bool((columns != 1).any()):
        scaled = scaled * columns
    return scaled, rows, columns


@dataclass(frozen=True, kw_only=True)
class LUFactor(SquareFactor):
    """The equilibrated matrix and its factors, packed as LAPACK does."""

    lu: Tensor
    pivots: Tensor

    name = "LU"

    def _inverse(self, b: Tensor, transposed: bool) -> Tensor:
        return torch.linalg.lu_solve(self.lu, self.pivots, b, adjoint=transposed)

    @property
    def pivot_ratio(self) -> float:
        """Smallest over largest pivot: a cheap hint at the conditioning."""
        diagonal = self.lu.diagonal().abs()
        return float(diagonal.min() / diagonal.max())

    @property
    def rank(self) -> int:
        if self.condition() < 1e15:
            return self.shape[0]
        return int(torch.linalg.matrix_rank(self.matrix))
