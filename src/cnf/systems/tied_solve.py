"""Tied solve: the weights of tied cells, and their gradients by the factor that is there."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from cnf.solvers.marching import MarchedFactor
from cnf.solvers.null_space import TiedFactor, squares_of, times_weights
from cnf.solvers.refining import Tried, refined

Factor = TiedFactor | MarchedFactor

NO_ROWS = np.zeros(0, dtype=np.int64)
TWICE = 2  # is enough to be orthogonal to rounding


class SolveTied(torch.autograd.Function):
    """w of smallest |K w - k|^2 + |faint w|^2 with B w = b, where B = (L, T), b = (right, tied) and K are the guides.

    With R^T R = K^T K + faint^2 (without guides R is diagonal, one over the columns' weights) and h = R^-T K^T k,
    y = R w is y = h + B'^+ (b - B' h), B' = B R^-1. Gradients at full row rank, from the conditions that w and
    multipliers make up, which are symmetric:

    z = R^-T dL/dw,  mu = B'^+T z,  lambda = B'^+T (y - h),  v = R^-1 (z - B'^T mu),
    dL/db = mu,  dL/dB = lambda v^T - mu w^T,  dL/dk = K v,  dL/dK = (k - K w) v^T - (K v) w^T,

    for the stored entries only. R^-1 makes weights that guides hardly see as large as 1 / FAINT, and rounding with
    them: z - B'^T mu is therefore taken in y, and made orthogonal to the rows once more.
    """

    @staticmethod
    def forward(ctx, table, vectors, guides, right, tied, wanted, starts: np.ndarray, factor: Factor) -> Tensor:
        guided = np.repeat(np.arange(len(factor.starts) - 1), np.diff(starts)) if len(guides) else NO_ROWS
        pull = np.zeros(factor.metric.active.shape) if len(guides) else None
        if pull is not None:
            table_of, sides = as_array(guides), as_array(wanted)
            for cell, (a, b) in enumerate(pairwise(starts)):
                pull[cell] = sides[a:b] @ table_of[a:b]
        found, beyond = nearest_weights(factor, as_array(table), as_array(right), as_array(tied), pull)
        weights = torch.from_numpy(found).to(right)
        ctx.factor, ctx.guided = factor, torch.from_numpy(guided)
        ctx.save_for_backward(table, vectors, guides, wanted, torch.from_numpy(beyond).to(right), weights)
        return weights

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad: Tensor):
        table, vectors, guides, wanted, beyond, weights = ctx.saved_tensors
        factor: Factor = ctx.factor
        z = factor.metric.transposed(as_array(grad))
        multipliers = factor.solve_transposed(z)
        if any(ctx.needs_input_grad[k] for k in (0, 1, 2, 5)):
            z, multipliers = orthogonal(factor, as_array(table), as_array(vectors), z, multipliers)
        rows, ties = (torch.from_numpy(a).to(grad) for a in multipliers)
        grads: list[Tensor | None] = [None, None, None, rows, ties, None]
        if any(ctx.needs_input_grad[k] for k in (0, 1, 2, 5)):
            more, more_ties = (torch.from_numpy(a).to(grad) for a in factor.within(as_array(beyond)))
            owner = torch.from_numpy(np.repeat(np.arange(grad.shape[0]), np.diff(factor.starts)))
            cells, numbers = torch.from_numpy(factor.ties.cells), torch.from_numpy(factor.ties.rows)
            v = torch.from_numpy(factor.metric.weights(z)).to(grad)
            grads[0] = more[:, None] * v[owner] - rows[:, None] * weights[owner]
            grads[1] = more_ties[:, None] * v[cells] - ties[numbers][:, None] * weights[cells]
            off = wanted - (guides * weights[ctx.guided]).sum(dim=1)
            along = (guides * v[ctx.guided]).sum(dim=1)
            grads[2] = off[:, None] * v[ctx.guided] - along[:, None] * weights[ctx.guided]
            grads[5] = along
        return (*grads, None, None)


def orthogonal(
    factor: Factor, table: np.ndarray, vectors: np.ndarray, z: np.ndarray, multipliers: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """z - B'^T mu (cells, n) and mu, of the rows and of the ties; `multipliers` are a first mu = B'^+T z."""
    owner = np.repeat(np.arange(len(z)), np.diff(factor.starts))
    cells, numbers, metric = factor.ties.cells, factor.ties.rows, factor.metric
    over, across = metric.over_all(owner, table), metric.over_all(cells, vectors)
    rows, ties = np.zeros(len(table)), np.zeros(factor.ties.count)
    for k in range(TWICE):
        more, more_ties = multipliers if k == 0 else factor.solve_transposed(z)
        rows, ties, z = rows + more, ties + more_ties, z.copy()
        np.subtract.at(z, owner, over * more[:, None])
        np.subtract.at(z, cells, across * more_ties[numbers][:, None])
    return z, (rows, ties)


def nearest_weights(
    factor: Factor, table: np.ndarray, right: np.ndarray, tied: np.ndarray, pull: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Weights (cells, n), corrected by what rows still miss for as long as that helps, and y - h of `SolveTied`.

    `pull` (cells, n) is K^T k. Corrections are added to the weights: in y, they would be lost in its rounding.
    """
    owner = np.repeat(np.arange(len(factor.starts) - 1), np.diff(factor.starts))

    def tried(weights: np.ndarray, beyond: np.ndarray) -> Tried:
        off = right - times_weights(table, owner, weights), tied - factor.ties.applied(weights)
        return Tried(weights, off, beyond)

    def step(found: Tried) -> Tried:
        y = factor.solve(*found.off)
        return tried(found.weights + factor.metric.weights(y), found.beyond + y)

    across = np.bincount(factor.ties.rows, squares_of(factor.ties.vectors), minlength=factor.ties.count)
    none = np.zeros(factor.metric.active.shape)
    begun = Tried(none, (right, tied), none)
    if pull is not None:
        begun = tried(factor.metric.weights(factor.metric.transposed(pull)), none)
    found = refined(step, begun, (squares_of(table), across))
    assert found.beyond is not None
    return found.weights, found.beyond


def as_array(given: Tensor) -> np.ndarray:
    return given.detach().double().numpy()
