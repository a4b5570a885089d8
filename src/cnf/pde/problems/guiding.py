"""Guiding: fields that are exact at their points and, between them, as close to the equations as their functions come.

Equations are known everywhere, not at the points alone. Conditions at M points leave N - M of N functions free. The
smallest weights, which know nothing of the equations, decide on these in an ordinary field; here least squares do, of
the same equations at several times as many other points, the guides. With A w = b the conditions and B w = c the
guides, A^T = Q R by reflectors, of which the first M columns Y of Q span the conditions and the others, Z, what they
leave free:

    w = Y R^-T b + Z v,    v of the smallest |B Z v - (c - B Y R^-T b)|^2 + |faint v|^2.

Z is orthonormal and A Z = 0: whatever the guides say, conditions hold as they do without them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from cnf.bases.basis import Basis
from cnf.constraints import Constraint
from cnf.field import ConstrainedField
from cnf.pde.problems.problem import Problem
from cnf.solution import Solution
from cnf.solvers.qr import QR, QRFactor
from cnf.systems.assembly import evaluated
from cnf.systems.formulation import KnownAccount, SavedWeights

GUIDES = 2.0  # rows per function
OTHER = 31  # added to the seed for every set of other points
FAINT = 1e-6  # how much weights themselves count beside guides, of order one each


def guided(field: ConstrainedField, guides: Sequence[Constraint]) -> Solution:
    """Solve a field (in place) with the help of guides; it keeps the weights until anything they depend on changes."""
    field.eval()
    conditions, wanted = weighed_rows(field.basis, field.constraints)  # (M, C N), (M,)
    others, near = weighed_rows(field.basis, guides)  # (G, C N), (G,)
    factor = QR().factor(torch.from_numpy(conditions))
    found = guided_weights(factor, *map(torch.from_numpy, (wanted, others, near)))
    table = found.reshape(len(field.basis.space.channels), -1).T.contiguous()  # (N, C)
    note = f"what {len(wanted)} conditions leave free is fitted to the equations at {len(near)} others"
    account = KnownAccount("QR and least squares", (*factor.notes, note), 1, factor.passed)
    field.restore(SavedWeights({"weights": table}, account, "it was fitted to its equations between the points"))
    return field.settle(measure=False)


def guided_weights(factor: QRFactor, wanted: Tensor, others: Tensor, near: Tensor) -> Tensor:
    """(M, n) factored, (M,), (G, n), (G,) -> (n,): exact at conditions, near the others as that leaves room."""
    m, n = factor.shape
    weights = factor.solve(wanted[:, None])
    if n > m:
        free = torch.ormqr(factor.reflectors, factor.factors, others.T, left=True, transpose=True)[m:].T  # (G, n - m)
        size = float(free.square().sum(dim=1).mean().sqrt()) or 1.0
        faint = FAINT * size * torch.eye(n - m, dtype=free.dtype)
        reflectors, factors = torch.geqrf(torch.cat([free, faint]))
        left = torch.cat([near[:, None] - others @ weights, faint.new_zeros(n - m, 1)])
        turned = torch.ormqr(reflectors, factors, left, left=True, transpose=True)[: n - m]
        inner = torch.linalg.solve_triangular(reflectors[: n - m].triu(), turned, upper=True)
        moved = torch.cat([inner.new_zeros(m, 1), inner])
        weights = weights + torch.ormqr(factor.reflectors, factor.factors, moved)
    return factor.corrected(weights, wanted[:, None])[:, 0]


def make_guides(problem: Problem, functions: int, seed: int, share: float = 1.0) -> list[Constraint]:
    """The equations of a problem at other points, so many that there are `GUIDES` rows per function."""
    found: list[Constraint] = []
    number = 1
    while sum(c.rows for c in found) < GUIDES * functions:
        found += problem.elsewhere(seed + OTHER * number, share)
        number += 1
    return found


@torch.no_grad()
def weighed_rows(basis: Basis, conditions: Sequence[Constraint]) -> tuple[np.ndarray, np.ndarray]:
    """Rows (M, C N) and right-hand sides (M,); every row of an operator is of order one, whatever its derivatives."""
    evaluator, channels = basis.snapshot(), len(basis.space.channels)
    every = {(r, c) for condition in conditions for r in range(condition.values.shape[1]) for c in range(channels)}
    rows: list[Tensor] = []
    right: list[Tensor] = []
    for condition in conditions:
        count, width = condition.values.shape
        block = condition.values.new_zeros(width, count, channels, basis.size)
        for (r, c), part in evaluated(evaluator, basis.size, condition.expanded(), every):
            block[r, :, c] += part
        size = block.square().sum(dim=(2, 3)).mean(dim=1).sqrt().clamp_min(1e-300)  # (R,)
        rows.append((block / size[:, None, None, None]).flatten(2).flatten(0, 1))
        right.append((condition.values.T / size[:, None]).reshape(-1))
    return torch.cat(rows).numpy(), torch.cat(right).numpy()
