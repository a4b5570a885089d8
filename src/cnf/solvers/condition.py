"""The condition number as a cheap, differentiable estimate.

The extreme singular triplets come from a few steps of Golub-Kahan bidiagonalisation, with the matrix for the
largest and
with solves (a factorisation that is there already) for the smallest. d sigma = u^T dA v makes the estimate
differentiable without a graph through the iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from cnf.errors import CnfError
from cnf.fetching import is_here
from cnf.solvers.sparse_matrix import SparseMatrix

Apply = Callable[[Tensor], Tensor]
STEPS = 24
TOLERANCE = 1e-3  # of the singular vectors; the values agree to its square


@dataclass(frozen=True)
class Triplet:
    """A singular value and its left (m,) and right (n,) vectors."""

    value: Tensor
    left: Tensor
    right: Tensor


def _next_left(apply: Apply, right: list[Tensor], left: list[Tensor], betas: list[Tensor]) -> Tensor:
    """What the last right vector is mapped to, made orthogonal to all left ones."""
    u = apply(right[-1])
    if not left:
        return u
    u = u - betas[-1] * left[-1]
    basis = torch.stack(left)
    return u - basis.T @ (basis @ u)


def largest_triplet(apply: Apply, adjoint: Apply, start: Tensor, steps: int = STEPS) -> Triplet:
    """The largest singular triplet of the map v -> apply(v), by bidiagonalisation with full reorthogonalisation."""
    right = [start / torch.linalg.vector_norm(start)]
    left: list[Tensor] = []
    alphas: list[Tensor] = []
    betas: list[Tensor] = []
    previous = 0.0
    for step in range(steps):
        u = _next_left(apply, right, left, betas)
        alpha = torch.linalg.vector_norm(u)
        if alpha == 0 or not torch.isfinite(alpha):
            break
        left.append(u / alpha)
        alphas.append(alpha)
        v = adjoint(left[-1]) - alpha * right[-1]
        basis = torch.stack(right)
        v = v - basis.T @ (basis @ v)
        beta = torch.linalg.vector_norm(v)
        if step % 2 == 1 or step == steps - 1 or beta <= 1e-14 * alpha:
            current = float(torch.linalg.matrix_norm(_bidiagonal(alphas, betas), 2))
            if beta <= 1e-14 * alpha or abs(current - previous) <= TOLERANCE**2 * current:
                break
            previous = current
        betas.append(beta)
        right.append(v / beta)
    if not alphas:
        zero = torch.zeros((), dtype=start.dtype, device=start.device)
        return Triplet(zero, apply(start) * 0, start * 0)
    small = _bidiagonal(alphas, betas)
    u, s, vh = torch.linalg.svd(small)
    k = len(alphas)
    return Triplet(s[0], torch.stack(left[:k]).T @ u[:, 0], torch.stack(right[:k]).T @ vh[0])


def extreme_triplets(
    product: tuple[Apply, Apply], inverse: tuple[Apply, Apply], start: Tensor, steps: int
) -> tuple[Triplet, Triplet]:
    """The largest and the smallest triplet of a square matrix, given with its adjoint, from products and solves.

    Where to look costs a wait, all steps are made, and both small decompositions in one go.
    """
    if is_here(start):
        return largest_triplet(*product, start, steps), smallest_triplet(*inverse, start, steps)
    both = [_reduced_blindly(*maps, start, min(steps, start.shape[0])) for maps in (product, inverse)]
    parts = zip(both, *torch.linalg.svd(torch.stack([small for _, _, small in both])), strict=True)
    top, bottom = (Triplet(s[0], left.T @ u[:, 0], right.T @ vh[0]) for (left, right, _), u, s, vh in parts)
    return top, Triplet(1 / bottom.value, bottom.right, bottom.left)


def _reduced_blindly(apply: Apply, adjoint: Apply, start: Tensor, steps: int) -> tuple[Tensor, Tensor, Tensor]:
    """Left (k, m) and right (k, n) vectors and the bidiagonal matrix between them, without a look at any number.

    Once nothing is left to find, vectors and numbers that follow are zero.
    """
    right = [start / torch.linalg.vector_norm(start)]
    left: list[Tensor] = []
    alphas: list[Tensor] = []
    betas: list[Tensor] = []
    for _ in range(steps):
        u = _next_left(apply, right, left, betas)
        alpha = torch.linalg.vector_norm(u)
        usable = (alpha > 0) & torch.isfinite(alpha)
        left.append(torch.where(usable, u / alpha, 0.0))
        alphas.append(torch.where(usable, alpha, 0.0))
        v = adjoint(left[-1]) - alphas[-1] * right[-1]
        basis = torch.stack(right)
        v = v - basis.T @ (basis @ v)
        beta = torch.linalg.vector_norm(v)
        usable = beta > 1e-14 * alphas[-1]
        right.append(torch.where(usable, v / beta, 0.0))
        betas.append(torch.where(usable, beta, 0.0))
    return torch.stack(left), torch.stack(right[:-1]), _bidiagonal(alphas, betas)


def _bidiagonal(alphas: list[Tensor], betas: list[Tensor]) -> Tensor:
    k = len(alphas)
    matrix = torch.diag(torch.stack(alphas))
    if k > 1:
        matrix = matrix + torch.diag(torch.stack(betas[: k - 1]), 1)
    return matrix


def smallest_triplet(solve: Apply, solve_adjoint: Apply, start: Tensor, steps: int = STEPS) -> Triplet:
    """The smallest singular triplet of A from v -> A^{-1} v; `start` has as many entries as A has rows."""
    found = largest_triplet(solve, solve_adjoint, start, steps)
    return Triplet(1 / found.value, found.right, found.left)


def starting_vector(size: int, like: Tensor) -> Tensor:
    """A fixed random direction, the same in every run."""
    generator = torch.Generator().manual_seed(size)
    return torch.randn(size, generator=generator, dtype=torch.float64).to(like)


class Ratio(torch.autograd.Function):
    """sigma_max / sigma_min as a function of the matrix, the vectors known: one product for the whole gradient."""

    @staticmethod
    def forward(ctx, matrix: Tensor, lefts: Tensor, rights: Tensor, high: Tensor, low: Tensor) -> Tensor:
        ctx.save_for_backward(matrix, lefts, rights, high, low)
        return high / low

    @staticmethod
    def backward(ctx, grad: Tensor):
        matrix, lefts, rights, high, low = ctx.saved_tensors  # (m, 2), (n, 2): columns of the largest and smallest
        factors = grad * torch.stack([1 / low, -high / low**2])
        found = (lefts * factors) @ rights.T
        return _Once.apply(found, matrix) if torch.is_grad_enabled() else found, None, None, None, None


def differentiable_ratio(matrix: Tensor, top: Triplet, bottom: Triplet, rows: Tensor, columns: Tensor) -> Tensor:
    """The condition number of diag(rows) matrix diag(columns), whose extreme triplets are given."""
    lefts = torch.stack([top.left, bottom.left], dim=1).to(matrix) * rows[:, None]
    rights = torch.stack([top.right, bottom.right], dim=1).to(matrix) * columns[:, None]
    return Ratio.apply(matrix, lefts, rights, top.value.to(matrix), bottom.value.to(matrix))


def sparse_ratio(matrix: SparseMatrix, top: Triplet, bottom: Triplet, rows: Tensor, columns: Tensor) -> Tensor:
    """The same for a sparse matrix: sigma = u^T A v has the derivative u_r v_c in every stored entry."""
    values, pattern = matrix.values, matrix.pattern
    slopes = [
        ((t.left * rows)[pattern.row_of] * (t.right * columns)[pattern.column_of]).to(values) for t in (top, bottom)
    ]
    high, low = (t.value.to(values) for t in (top, bottom))
    gradient = slopes[0] / low - slopes[1] * (high / low**2)
    return high / low + ((values - values.detach()) * gradient).sum()


class _Once(torch.autograd.Function):
    """Refuses a second derivative, which would miss how the singular vectors move."""

    @staticmethod
    def forward(ctx, value: Tensor, matrix: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx, grad: Tensor):
        raise CnfError("the condition number can be differentiated only once; use it without create_graph")
