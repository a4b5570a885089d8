"""Cholesky: symmetric positive definite systems, those of Hermite bases, scaled to a unit diagonal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cnf.errors import SingularSystemError
from cnf.solvers.solver import Begun, DenseSolver, SquareFactor, power_of_two_scales


@dataclass(frozen=True)
class Cholesky(DenseSolver):
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

    def begin(self, matrices: Sequence[Tensor], symmetric: bool) -> list[Begun]:
        return [self._begin(matrix) for matrix in matrices]

    def _begin(self, matrix: Tensor) -> Begun:
        m, n = matrix.shape
        if m != n:
            raise _not_symmetric(m, n)
        wide = matrix.detach().to(torch.float64)
        sizes = wide.abs()
        allowed = 1e-8 * sizes.T + 1e-8 * sizes.amax() if n else sizes
        alike = ((wide - wide.T).abs() <= allowed).all()
        scale = power_of_two_scales(wide.diagonal().clamp_min(0).sqrt())
        scaled = scale[:, None] * wide * scale
        root, failed = torch.linalg.cholesky_ex(scaled)

        def finish(told: Sequence[float]) -> CholeskyFactor:
            symmetric, pivot = told
            if not symmetric:
                raise _not_symmetric(m, n)
            if pivot:
                raise SingularSystemError(
                    f"the matrix is not numerically positive definite (pivot {pivot:.0f} of {n}): conditions are "
                    "nearly dependent, or the kernel is too wide for the spacing of the points. A smaller bandwidth, "
                    "or MinimumNorm, will do"
                )
            return CholeskyFactor(
                shape=(m, n), scale_rows=scale, scale_columns=scale, matrix=scaled, root=root, refine=self.refine
            )

        return Begun((alike, failed), finish)


def _not_symmetric(m: int, n: int) -> SingularSystemError:
    return SingularSystemError(
        f"Cholesky needs a symmetric matrix, but this {m} x {n} one is not: use it with cnf.bases.Hermite built from "
        "the same constraints as the field, or choose LU, MinimumNorm or Auto"
    )


@dataclass(frozen=True, kw_only=True)
class CholeskyFactor(SquareFactor):
    """The scaled matrix and its lower triangular root."""

    root: Tensor
    definite: bool = True

    name = "Cholesky"

    def _inverse(self, b: Tensor, transposed: bool) -> Tensor:
        return torch.cholesky_solve(b, self.root)
