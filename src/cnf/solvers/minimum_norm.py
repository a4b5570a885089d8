"""MinimumNorm: wide or rank-deficient systems by singular value decomposition, never by normal equations.

Of all weights that meet the conditions the smallest are taken. Directions whose singular value is below `cutoff` times
the largest (a few rounding errors) cannot be told from zero and are left out; the rank says how many remain.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cnf.errors import CnfError, SingularSystemError
from cnf.solvers.condition import Triplet
from cnf.solvers.solver import Factor, Solver, as_dense, power_of_two_scales
from cnf.solvers.sparse_matrix import SparseMatrix


@dataclass(frozen=True)
class MinimumNorm(Solver):
    """`cutoff` relative to the largest singular value; `least_squares=True` accepts more conditions than functions.

    >>> space = cnf.Space("x", "u")
    >>> points = cnf.Box(0, 1).grid(8)
    >>> condition = space.constraint("u = x", at=points)
    >>> basis = cnf.bases.RandomFourier(space, 20, 0.3)
    >>> field = cnf.ConstrainedField(basis, [condition], solver=cnf.solvers.MinimumNorm())
    >>> field.solve().certificate.exact
    True
    """

    cutoff: float = 4 * torch.finfo(torch.float64).eps
    least_squares: bool = False
    refine: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.cutoff < 1:
            raise CnfError(f"the cutoff of MinimumNorm lies between 0 and 1; got {self.cutoff!r}")

    def factor(self, matrix: Tensor | SparseMatrix, symmetric: bool = False) -> Factor:
        matrix = as_dense(matrix)
        wide = matrix.detach().to(torch.float64)
        norms = torch.linalg.vector_norm(wide, dim=1)
        # With more conditions than functions the scales would be weights, and change the least-squares answer.
        rows = power_of_two_scales(norms) if wide.shape[0] <= wide.shape[1] else torch.ones_like(norms)
        scaled = wide * rows[:, None]
        try:
            u, s, vh = singular_triplets(scaled)
        except RuntimeError as error:  # torch.linalg.LinAlgError: the iteration did not converge
            raise SingularSystemError(
                f"the singular value decomposition failed ({error}); are there huge entries?"
            ) from None
        rank = int((s > self.cutoff * s[0]).sum()) if s.numel() and s[0] > 0 else 0
        least = min(matrix.shape)
        notes: tuple[str, ...] = ()
        if rank < least:
            notes = (
                f"rank {rank} of {least}: directions below {self.cutoff:.1e} of the largest singular value "
                "are left out",
            )
        return MinimumNormFactor(
            shape=(matrix.shape[0], matrix.shape[1]),
            scale_rows=rows,
            scale_columns=scaled.new_ones(matrix.shape[1]),
            notes=notes,
            matrix=scaled,
            left=u[:, :rank],
            values=s[:rank],
            right=vh[:rank],
            refine=self.refine,
        )


def singular_triplets(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The thin singular value decomposition (m, k), (k,), (k, n).

    A wide matrix is first reduced to a square one, A^T = Q R, and R is decomposed: with two functions per condition
    that takes half the time of decomposing A, and it is as accurate, since Q is orthogonal to rounding.
    """
    m, n = matrix.shape
    if 5 * n < 6 * m:
        return torch.linalg.svd(matrix, full_matrices=False)
    q, r = torch.linalg.qr(matrix.T)
    u, s, vh = torch.linalg.svd(r)
    return vh.T, s, (q @ u).T


@dataclass(frozen=True, kw_only=True)
class MinimumNormFactor(Factor):
    """The singular triplets that were kept."""

    matrix: Tensor  # (m, n) scaled
    left: Tensor  # (m, r)
    values: Tensor  # (r,)
    right: Tensor  # (r, n)
    refine: bool = True

    name = "MinimumNorm"
    pseudo = True

    def solve(self, b: Tensor) -> Tensor:
        target = b * self.scale_rows[:, None]
        x = self._inverse(target)
        if self.refine:
            x = x + self._inverse(target - self.matrix @ x)
        return x

    def _inverse(self, target: Tensor) -> Tensor:
        return self.right.T @ ((self.left.T @ target) / self.values[:, None])

    def solve_transposed(self, b: Tensor) -> Tensor:
        return self.scale_rows[:, None] * (self.left @ ((self.right @ b) / self.values[:, None]))

    def unreached(self, b: Tensor) -> Tensor:
        if self.rank == self.shape[1]:
            return torch.zeros_like(b)
        for _ in range(2):  # the second time removes what rounding left of the first
            b = b - self.right.T @ (self.right @ b)
        return b

    def missed(self, b: Tensor) -> Tensor:
        if self.rank == self.shape[0]:
            return torch.zeros_like(b)
        scaled = b * self.scale_rows[:, None]
        for _ in range(2):
            scaled = scaled - self.left @ (self.left.T @ scaled)
        return scaled / self.scale_rows[:, None]

    @property
    def rank(self) -> int:
        return self.values.numel()

    def extremes(self) -> tuple[Triplet, Triplet]:
        if not self.rank:
            zero = self.matrix.new_zeros(())
            nothing = Triplet(zero, self.matrix.new_zeros(self.shape[0]), self.matrix.new_zeros(self.shape[1]))
            return nothing, nothing
        return tuple(Triplet(self.values[k], self.left[:, k], self.right[k]) for k in (0, -1))  # type: ignore[return-value]
