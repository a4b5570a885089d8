"""Solver and Factor: the contract between a matrix and its weights.

A solver factors a matrix once; the factor then solves with the matrix and with its transpose as often as needed: for
the weights, for the gradient (adjoint), for new right-hand sides, for the condition number. Factors work in float64 and
on an equilibrated matrix, and always speak in terms of the original one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from scipy import sparse
from torch import Tensor

from cnf.errors import CnfError, NotFiniteError
from cnf.fetching import fetched_together, numbers
from cnf.solvers.condition import (
    STEPS,
    Triplet,
    differentiable_ratio,
    extreme_triplets,
    sparse_ratio,
    starting_vector,
)
from cnf.solvers.sparse_matrix import SparseMatrix

NOT_FINITE = "the matrix has entries that are NaN or infinite; look at what it was assembled from"
WORSE = 2.0  # a refined answer whose residual grew by more is dropped


@dataclass(frozen=True, kw_only=True)
class Factor(ABC):
    """A factored matrix (m, n): raw solves without gradients. `scale_rows` (m,) and `scale_columns` (n,)
    equilibrate.

    >>> factor = cnf.solvers.MinimumNorm().factor(torch.tensor([[1.0, 1.0]], dtype=torch.float64))  # (M, N)
    >>> factor.rank
    1
    """

    shape: tuple[int, int]
    scale_rows: Tensor
    scale_columns: Tensor
    notes: tuple[str, ...] = field(default=())

    name = "solver"
    pseudo = False  # True: solves by pseudo-inverse, whose gradient has further terms

    @abstractmethod
    def solve(self, b: Tensor) -> Tensor:
        """(m, k) -> (n, k), so that A x = b, of minimum norm if there is a choice."""

    @abstractmethod
    def solve_transposed(self, b: Tensor) -> Tensor:
        """(n, k) -> (m, k) for the transposed matrix."""

    def unreached(self, b: Tensor) -> Tensor:
        """The part of b (n, k) that no combination of the rows gives; needed of factors with `pseudo` only."""
        return torch.zeros_like(b)

    def missed(self, b: Tensor) -> Tensor:
        """The part of b (m, k) that A x cannot give, b - A A^+ b; needed of factors with `pseudo` only."""
        return torch.zeros_like(b)

    @property
    @abstractmethod
    def rank(self) -> int:
        """Numerical rank of the equilibrated matrix."""

    @abstractmethod
    def extremes(self) -> tuple[Triplet, Triplet]:
        """Largest and smallest (non-zero) singular triplets of the equilibrated matrix."""

    def condition(self) -> float:
        """Condition number of the equilibrated matrix, from the extreme singular values."""
        top, bottom = numbers(*(triplet.value for triplet in self.extremes()))
        return top / bottom if bottom > 0 else float("inf")

    def condition_of(self, matrix: Tensor | SparseMatrix) -> Tensor:
        """The condition number of the equilibrated `matrix`, differentiable in it."""
        top, bottom = self.extremes()
        if isinstance(matrix, SparseMatrix):
            return sparse_ratio(matrix, top, bottom, self.scale_rows, self.scale_columns)
        return differentiable_ratio(matrix, top, bottom, self.scale_rows.to(matrix), self.scale_columns.to(matrix))


@dataclass(frozen=True, kw_only=True)
class SquareFactor(Factor):
    """A square matrix of full rank, equilibrated; `_inverse` solves with it, and `refine` once more for the residual.

    If the matrix is numerically singular, the second solve brings noise along its null space: it is then left
    out. What is `definite` is its own transpose.
    """

    matrix: Tensor | sparse.csr_matrix
    refine: bool = True
    definite: bool = False

    steps = STEPS  # of the iteration for extreme singular values: each takes two solves

    @abstractmethod
    def _inverse(self, b: Tensor, transposed: bool) -> Tensor:
        """(n, k) -> (n, k) for the equilibrated matrix."""

    def solve(self, b: Tensor) -> Tensor:
        return self._scaled(b, self.scale_rows, self.scale_columns, False)

    def solve_transposed(self, b: Tensor) -> Tensor:
        return self._scaled(b, self.scale_columns, self.scale_rows, not self.definite)

    def _scaled(self, b: Tensor, before: Tensor, after: Tensor, transposed: bool) -> Tensor:
        found = self._solved(b.to(before.device) * before[:, None], transposed)
        return (found * after[:, None]).to(b.device)

    def _solved(self, b: Tensor, transposed: bool) -> Tensor:
        x = self._inverse(b, transposed)
        if not self.refine:
            return x
        missed = b - self._product(x, transposed)
        again = x + self._inverse(missed, transposed)
        before, after = (torch.linalg.vector_norm(r, dim=0) for r in (missed, b - self._product(again, transposed)))
        return torch.where(after > WORSE * before, x, again)

    def _product(self, x: Tensor, transposed: bool) -> Tensor:
        matrix = self.matrix.T if transposed else self.matrix
        return matrix @ x if isinstance(matrix, Tensor) else torch.from_numpy(matrix @ x.numpy())

    @cached_property
    def _extremes(self) -> tuple[Triplet, Triplet]:
        start, other = starting_vector(self.shape[0], self.scale_rows), not self.definite

        def single(function: Callable[[Tensor, bool], Tensor], transposed: bool) -> Callable[[Tensor], Tensor]:
            return lambda v: function(v[:, None], transposed)[:, 0]

        product, inverse = ((single(of, False), single(of, other)) for of in (self._product, self._inverse))
        return extreme_triplets(product, inverse, start, self.steps)

    def extremes(self) -> tuple[Triplet, Triplet]:
        return self._extremes

    @property
    def rank(self) -> int:
        return self.shape[0]  # what is singular is refused


class Method:
    """What is given to a field as `solver=`: an algorithm with its settings; final classes are frozen dataclasses.

    >>> isinstance(cnf.solvers.Patches(), cnf.solvers.Method), isinstance(cnf.solvers.LU(), cnf.solvers.Method)
    (True, True)
    """

    @property
    def least_squares(self) -> bool:
        """True if more conditions than functions are acceptable, solved as well as possible."""
        return False


class Solver(Method, ABC):
    """A method for one matrix.

    >>> factor = cnf.solvers.LU().factor(torch.eye(3, dtype=torch.float64))
    >>> isinstance(cnf.solvers.LU(), cnf.solvers.Solver), factor.shape
    (True, (3, 3))
    """

    sparse: bool | None = False  # True: takes sparse matrices only; False: dense ones; None: either

    @abstractmethod
    def factor(self, matrix: Tensor | SparseMatrix, symmetric: bool = False) -> Factor:
        """Factor the matrix (m, n); `symmetric` declares it symmetric positive definite."""

    def factor_all(self, matrices: Sequence[Tensor | SparseMatrix], symmetric: bool = False) -> list[Factor]:
        """Factor several; those that can, ask for what they must know of all of them at once."""
        return [self.factor(matrix, symmetric) for matrix in matrices]


@dataclass(frozen=True)
class Begun:
    """A factorisation that is done but for what its numbers `told`, each (), say of it: `finish` gets them."""

    told: tuple[Tensor, ...]
    finish: Callable[[Sequence[float]], Factor]


class DenseSolver(Solver):
    """A solver of matrices that are written out: it begins, and is told in one transfer what came of it."""

    @abstractmethod
    def begin(self, matrices: Sequence[Tensor], symmetric: bool) -> list[Begun]:
        """Factor without a look at any number."""

    def factor(self, matrix: Tensor | SparseMatrix, symmetric: bool = False) -> Factor:
        return self.factor_all([matrix], symmetric)[0]

    def factor_all(self, matrices: Sequence[Tensor | SparseMatrix], symmetric: bool = False) -> list[Factor]:
        return finished([as_dense(matrix) for matrix in matrices], symmetric, self.begin)


def finished(
    matrices: Sequence[Tensor], symmetric: bool, begin: Callable[[Sequence[Tensor], bool], list[Begun]]
) -> list[Factor]:
    """The factors of dense matrices; those with entries that are no numbers are refused."""
    finite = [torch.isfinite(matrix.detach()).all() for matrix in matrices]
    try:
        begun = begin(matrices, symmetric)
    except CnfError:
        _refuse_unless(*numbers(*finite))
        raise
    sound, *told = fetched_together([finite, *(each.told for each in begun)])
    _refuse_unless(*map(bool, sound))
    return [each.finish([float(t) for t in own]) for each, own in zip(begun, told, strict=True)]


def _refuse_unless(*finite: float) -> None:
    if not all(finite):
        raise NotFiniteError(NOT_FINITE)


def power_of_two_scales(sizes: Tensor) -> Tensor:
    """1 / size rounded to a power of two, so that scaling rounds nothing; 1 where the size is zero."""
    sizes = torch.where(torch.isfinite(sizes), sizes, torch.finfo(sizes.dtype).max)
    exponents = torch.where(sizes > 0, -torch.log2(torch.where(sizes > 0, sizes, 1.0)).round(), torch.zeros_like(sizes))
    return torch.exp2(exponents.clamp(-1000, 1000))


def as_dense(matrix: Tensor | SparseMatrix) -> Tensor:
    """A dense solver takes a sparse matrix as well, as long as it is small enough to be written out."""
    return matrix.to_dense() if isinstance(matrix, SparseMatrix) else matrix
