"""LU: square systems, partial pivoting, rows and columns equilibrated, one step of refinement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cnf.errors import SingularSystemError
from cnf.fetching import is_here
from cnf.solvers.solver import Begun, DenseSolver, SquareFactor, power_of_two_scales


@dataclass(frozen=True)
class LU(DenseSolver):
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

    def begin(self, matrices: Sequence[Tensor], symmetric: bool) -> list[Begun]:
        return [self._begin(matrix) for matrix in matrices]

    def _begin(self, matrix: Tensor) -> Begun:
        m, n = matrix.shape
        if m != n:
            raise SingularSystemError(
                f"LU needs as many basis functions as conditions, but there are {n} and {m}; "
                "use cnf.solvers.MinimumNorm() (or Auto) for wide systems"
            )
        scaled, rows, columns = equilibrated(matrix.detach())
        lu, pivots, _ = torch.linalg.lu_factor_ex(scaled)  # judged below; lu_factor would raise
        sizes = lu.diagonal().abs() if n else lu.new_ones(1)

        def finish(told: Sequence[float]) -> LUFactor:
            smallest, largest = told
            if not 0 < smallest < math.inf:
                raise SingularSystemError(
                    f"the {m} x {n} system is exactly singular: (a) two conditions or two basis functions are the "
                    "same, (b) a basis function vanishes on all conditions, (c) the basis is far too smooth for the "
                    "points. cnf.solvers.MinimumNorm() solves it if the conditions agree with each other"
                )
            return LUFactor(
                shape=(m, n),
                scale_rows=rows,
                scale_columns=columns,
                matrix=scaled,
                lu=lu,
                pivots=pivots,
                pivot_ratio=smallest / largest,
                refine=self.refine,
            )

        return Begun((sizes.min(), sizes.max()), finish)


def equilibrated(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The matrix in float64 with rows, then columns, brought to about unit size; and the scales."""
    wide = matrix.to(torch.float64)
    rows = power_of_two_scales(torch.linalg.vector_norm(wide, dim=1))
    scaled = wide * rows[:, None]
    columns = power_of_two_scales(torch.linalg.vector_norm(scaled, dim=0))
    if not is_here(columns) or bool((columns != 1).any()):
        scaled = scaled * columns
    return scaled, rows, columns


@dataclass(frozen=True, kw_only=True)
class LUFactor(SquareFactor):
    """The equilibrated matrix and its factors, packed as LAPACK does."""

    lu: Tensor
    pivots: Tensor
    pivot_ratio: float  # smallest over largest pivot: a cheap hint at the conditioning

    name = "LU"

    def _inverse(self, b: Tensor, transposed: bool) -> Tensor:
        return torch.linalg.lu_solve(self.lu, self.pivots, b, adjoint=transposed)

    @property
    def rank(self) -> int:
        if self.condition() < 1e15:
            return self.shape[0]
        return int(torch.linalg.matrix_rank(self.matrix))
