"""Auto: the decision table, and a way to ask what it would choose.

| the system                                              | the solver                          |
|---------------------------------------------------------|-------------------------------------|
| more conditions than functions (m > n)                  | refused, unless least_squares=True  |
| declared symmetric positive definite (Hermite)          | Cholesky                            |
| square                                                  | LU                                  |
| wide (m < n)                                            | MinimumNorm; QR if `reveal_rank` is  |
|                                                         | False                               |
| sparse (compact support, many conditions), definite     | SparseCholesky, or SparseLU if that |
|                                                         | fails, with a note and a warning    |
| sparse and square                                       | SparseLU                            |
| Cholesky or LU fails, or the pivots of LU differ by more | MinimumNorm, with a note and a      |
| than `pivots`: numerically singular                     | warning                             |
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from cnf.errors import NumericalWarning, OverdeterminedError, SingularSystemError
from cnf.solvers.cholesky import Cholesky
from cnf.solvers.lu import LU, LUFactor
from cnf.solvers.minimum_norm import MinimumNorm
from cnf.solvers.qr import QR
from cnf.solvers.solver import Begun, DenseSolver, Factor, Solver, as_dense, finished
from cnf.solvers.sparse_direct import SparseCholesky, SparseLU
from cnf.solvers.sparse_matrix import SparseMatrix


@dataclass(frozen=True)
class Auto(Solver):
    """Chooses by shape and structure; `choose(m, n, symmetric)` answers without solving.

    >>> solver = cnf.solvers.Auto()
    >>> solver.choose(100, 100, symmetric=False), type(solver.choose(100, 200, symmetric=False)).__name__
    (LU(refine=True), 'MinimumNorm')
    """

    least_squares: bool = False
    pivots: float = 1e-14
    reveal_rank: bool = True

    sparse = None

    def choose(self, conditions: int, functions: int, symmetric: bool = False) -> DenseSolver:
        """The first choice for a system of this shape."""
        if conditions > functions and not self.least_squares:
            raise OverdeterminedError(
                f"{conditions} conditions but only {functions} basis functions: they cannot all hold. Give the basis "
                f"at least {conditions} functions, drop conditions, or ask for a fit with Auto(least_squares=True)"
            )
        if conditions < functions and not self.reveal_rank:
            return QR()
        if conditions != functions:
            return MinimumNorm(least_squares=self.least_squares)
        return Cholesky() if symmetric else LU()

    def factor(self, matrix: Tensor | SparseMatrix, symmetric: bool = False) -> Factor:
        return self.factor_all([matrix], symmetric)[0]

    def factor_all(self, matrices: Sequence[Tensor | SparseMatrix], symmetric: bool = False) -> list[Factor]:
        compressed = [isinstance(m, SparseMatrix) and m.shape[0] == m.shape[1] for m in matrices]
        written = [as_dense(m) for m, small in zip(matrices, compressed, strict=True) if not small]
        dense = iter(finished(written, symmetric, self._begin))
        return [
            self._sparse_factor(m, symmetric) if small else next(dense)  # type: ignore[arg-type]
            for m, small in zip(matrices, compressed, strict=True)
        ]

    def _begin(self, matrices: Sequence[Tensor], symmetric: bool) -> list[Begun]:
        """Every matrix by its first choice; those of one kind together."""
        choices = [self.choose(m.shape[0], m.shape[1], symmetric) for m in matrices]
        begun: dict[int, Begun] = {}
        for first in dict.fromkeys(choices):
            own = [k for k, choice in enumerate(choices) if choice == first]
            begun |= zip(own, first.begin([matrices[k] for k in own], symmetric), strict=True)
        return [self._watched(matrices[k], choices[k], begun[k]) for k in range(len(matrices))]

    def _watched(self, matrix: Tensor, first: Solver, begun: Begun) -> Begun:
        """Another solver takes over if the first choice turns out to be no good."""
        if isinstance(first, MinimumNorm | QR):
            return begun

        def finish(told: Sequence[float]) -> Factor:
            try:
                factor = begun.finish(told)
            except SingularSystemError:
                return self._fallback(matrix, f"{type(first).__name__} failed: the matrix is numerically singular")
            if isinstance(factor, LUFactor) and factor.pivot_ratio < self.pivots:
                return self._fallback(matrix, f"the pivots of LU differ by {1 / max(factor.pivot_ratio, 1e-300):.0e}")
            return factor

        return Begun(begun.told, finish)

    def _sparse_factor(self, matrix: SparseMatrix, symmetric: bool) -> Factor:
        if not symmetric:
            return SparseLU().factor(matrix)
        try:
            return SparseCholesky().factor(matrix, symmetric=True)
        except SingularSystemError:
            note = "SparseCholesky failed: the matrix is not numerically positive definite; SparseLU was used instead"
            warnings.warn(f"{note}. A smaller radius avoids this", NumericalWarning, stacklevel=2)
            factor = SparseLU().factor(matrix)
            return dataclasses.replace(factor, notes=(note, *factor.notes))

    def _fallback(self, matrix: Tensor, why: str) -> Factor:
        note = f"{why}; MinimumNorm was used instead"
        warnings.warn(
            f"{note}. The basis is too smooth or too wide for these points; a smaller bandwidth, or more "
            "functions than conditions, avoids this",
            NumericalWarning,
            stacklevel=2,
        )
        factor = MinimumNorm().factor(matrix)
        return dataclasses.replace(factor, notes=(note, *factor.notes))
