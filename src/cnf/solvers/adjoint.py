"""The differentiable solve: weights as a function of matrix and right-hand side, with the adjoint as gradient.

Square, A x = b.  dx = A^{-1}(db - dA x), so for a loss with gradient g in x:

    lambda = A^{-T} g,      dL/db = lambda,      dL/dA = -lambda x^T.

Pseudo-inverse, x = A^+ b at constant rank, with D the row scales (A^+ means (D A)^+ D, which for consistent
equations is the
plain minimum-norm solution), P = A^+ A, and A^+t the transposed map:

    lambda = A^+t g,   dL/db = lambda,
    dL/dA = -lambda x^T + (A^+t x) (g - P g)^T + D^2 (b - A x) (A^+ D^-2 lambda)^T,

and likewise for the transposed map z = A^+t v with gradient h in z:

    dL/dv = A^+ h,   dL/dA = -z (A^+ h)^T + (A^+t A^+ h) (v - P v)^T + D^2 (h - A A^+ h) (A^+ D^-2 z)^T.

Both backward passes are written with the differentiable maps themselves, so gradients of gradients are right too.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cnf.solvers.solver import Factor, as_dense
from cnf.solvers.sparse_matrix import Pattern, SparseMatrix


def solve(matrix: Tensor | SparseMatrix, b: Tensor, factor: Factor) -> Tensor:
    """x (n, k) with A x = b (m, k), differentiable in both."""
    return _applied(matrix, b, factor, False)


def solve_transposed(matrix: Tensor | SparseMatrix, b: Tensor, factor: Factor) -> Tensor:
    """The transposed map, differentiable in both."""
    return _applied(matrix, b, factor, True)


def _applied(matrix: Tensor | SparseMatrix, b: Tensor, factor: Factor, transposed: bool) -> Tensor:
    if isinstance(matrix, SparseMatrix) and not factor.pseudo:
        return _ApplySparse.apply(matrix.values, b, factor, transposed, matrix.pattern)
    return _Apply.apply(as_dense(matrix), b, factor, transposed)


class _ApplySparse(torch.autograd.Function):
    """The square case, with the gradient -lambda_r x_c of the stored entries only."""

    @staticmethod
    def forward(ctx, values: Tensor, b: Tensor, factor: Factor, transposed: bool, pattern: Pattern) -> Tensor:
        wide = b.detach().to(torch.float64)
        found = (factor.solve_transposed(wide) if transposed else factor.solve(wide)).to(b.dtype)
        ctx.factor, ctx.transposed, ctx.pattern = factor, transposed, pattern
        ctx.save_for_backward(values, b, found)
        return found

    @staticmethod
    def backward(ctx, grad: Tensor):
        values, b, found = ctx.saved_tensors
        factor, transposed, pattern = ctx.factor, ctx.transposed, ctx.pattern
        back = _ApplySparse.apply(values, grad, factor, not transposed, pattern)
        grad_values = None
        if ctx.needs_input_grad[0]:
            if torch.is_grad_enabled():
                found = _ApplySparse.apply(values, b, factor, transposed, pattern)
            left, right = (found, back) if transposed else (back, found)
            for a, b in zip(left.unbind(dim=1), right.unbind(dim=1), strict=True):  # all at once takes more memory
                rows, columns = pattern.row_of.to(a.device), pattern.column_of.to(a.device)
                part = a.neg().index_select(0, rows) * b.index_select(0, columns)
                grad_values = part if grad_values is None else grad_values + part
        return grad_values, back if ctx.needs_input_grad[1] else None, None, None, None


class _Apply(torch.autograd.Function):
    @staticmethod
    def forward(ctx, matrix: Tensor, b: Tensor, factor: Factor, transposed: bool) -> Tensor:
        wide = b.to(torch.float64)
        found = (factor.solve_transposed(wide) if transposed else factor.solve(wide)).to(b.dtype)
        ctx.factor, ctx.transposed = factor, transposed
        ctx.save_for_backward(matrix, b, found)
        return found

    @staticmethod
    def backward(ctx, grad: Tensor):
        matrix, b, found = ctx.saved_tensors
        factor, transposed = ctx.factor, ctx.transposed
        apply = _Apply.apply
        back = apply(matrix, grad, factor, not transposed)
        grad_matrix = None
        if ctx.needs_input_grad[0]:
            if torch.is_grad_enabled():
                found = apply(matrix, b, factor, transposed)  # anew, so that it can be differentiated once more
            left, right = (found, back) if transposed else (back, found)
            if not factor.pseudo:
                grad_matrix = -(left @ right.T)
            else:
                grad_matrix = _pseudo_gradient(matrix, b, grad, left, right, factor, transposed)
        return grad_matrix, back if ctx.needs_input_grad[1] else None, None, None


def _pseudo_gradient(
    matrix: Tensor, b: Tensor, grad: Tensor, left: Tensor, right: Tensor, factor: Factor, transposed: bool
) -> Tensor:
    """left (m, k) is what the transposed map gave, right (n, k) what the map gave."""
    apply = _Apply.apply
    tall, wide = (grad, b) if transposed else (b, grad)  # (m, k) and (n, k)
    squared = factor.scale_rows.to(matrix)[:, None] ** 2
    if torch.is_grad_enabled():  # a second derivative is asked for: only the maps themselves can be differentiated
        unreached = wide - apply(matrix, matrix @ wide, factor, False)
        missed = tall - matrix @ right
    else:  # A^+ (A g) would lose as many digits as the condition number has, and the factor next to it is large
        unreached = factor.unreached(wide.to(torch.float64)).to(wide)
        missed = factor.missed(tall.to(torch.float64)).to(tall)
    lefts = torch.cat([-left, apply(matrix, right, factor, True), squared * missed], dim=1)
    rights = torch.cat([right, unreached, apply(matrix, left / squared, factor, False)], dim=1)
    return lefts @ rights.T
