"""MinimumNorm: wide or rank-deficient systems by singular value decomposition, never by normal equations.

Of all weights that meet the conditions the smallest are taken. Directions whose singular value is below `cutoff` times
the largest (a few rounding errors) cannot be told from zero and are left out; the rank says how many remain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cnf.errors import CnfError, SingularSystemError
from cnf.solvers.condition import Triplet
from cnf.solvers.solver import Begun, DenseSolver, Factor, power_of_two_scales


@dataclass(frozen=True)
class MinimumNorm(DenseSolver):
    """`cutoff` relative to the largest singular value; `least_squares=True` accepts more conditions than functions."""

    cutoff: float = 4 * torch.finfo(torch.float64).eps
    least_squares: bool = False
    refine: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.cutoff < 1:
            raise CnfError(f"the cutoff of MinimumNorm lies between 0 and 1; got {self.cutoff!r}")

    def begin(self, matrices: Sequence[Tensor], symmetric: bool) -> list[Begun]:
        rows, scaled = [], []
        for matrix in matrices:
            wide = matrix.detach().to(torch.float64)
            norms = torch.linalg.vector_norm(wide, dim=1)
            # With more conditions than functions the scales would be weights, and change the least-squares answer.
            rows.append(power_of_two_scales(norms) if wide.shape[0] <= wide.shape[1] else torch.ones_like(norms))
            scaled.append(wide * rows[-1][:, None])
        try:
            triplets = singular_triplets(scaled)
        except RuntimeError as error:  # torch.linalg.LinAlgError: the iteration did not converge
            raise SingularSystemError(
                f"the singular value decomposition failed ({error}); are there huge entries?"
            ) from None
        return [self._begun(*parts) for parts in zip(scaled, rows, triplets, strict=True)]

    def _begun(self, scaled: Tensor, rows: Tensor, triplets: tuple[Tensor, Tensor, Tensor]) -> Begun:
        u, s, vh = triplets
        least = min(scaled.shape)

        def finish(told: Sequence[float]) -> MinimumNormFactor:
            rank = int(told[0])
            note = (
                f"rank {rank} of {least}: directions below {self.cutoff:.1e} of the largest singular value are left out"
            )
            return MinimumNormFactor(
                shape=(scaled.shape[0], scaled.shape[1]),
                scale_rows=rows,
                scale_columns=scaled.new_ones(scaled.shape[1]),
                notes=(note,) if rank < least else (),
                matrix=scaled,
                left=u[:, :rank],
                values=s[:rank],
                right=vh[:rank],
                refine=self.refine,
            )

        return Begun((((s > self.cutoff * s[:1]) & (s[:1] > 0)).sum(),), finish)


def singular_triplets(matrices: Sequence[Tensor]) -> list[tuple[Tensor, Tensor, Tensor]]:
    """The thin singular value decompositions (m, k), (k,), (k, n).

    A wide matrix is first reduced to a square one, A^T = Q R, and R is decomposed: with two functions per condition
    that takes half the time of decomposing A, and it is as accurate, since Q is orthogonal to rounding.
    """
    wide = [5 * m.shape[1] >= 6 * m.shape[0] for m in matrices]
    reduced = [torch.linalg.qr(m.T) if by_qr else (m, m) for m, by_qr in zip(matrices, wide, strict=True)]
    found = _decomposed([r for _, r in reduced])
    return [
        (vh.T, s, (q @ u).T) if by_qr else (u, s, vh)
        for by_qr, (q, _), (u, s, vh) in zip(wide, reduced, found, strict=True)
    ]


def _decomposed(matrices: Sequence[Tensor]) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Thin singular value decompositions; matrices of one shape in one go, of which a device reports back once."""
    if len({m.shape for m in matrices}) > 1 or len(matrices) == 1:
        return [torch.linalg.svd(m, full_matrices=False) for m in matrices]
    return list(zip(*torch.linalg.svd(torch.stack(list(matrices)), full_matrices=False), strict=True))


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
