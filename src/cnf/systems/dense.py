"""Matrices factored and solved: one per block of the layout, written out or compressed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cnf.bases.basis import Basis, Evaluator
from cnf.constraints import Constraint
from cnf.errors import BasisError, NotFiniteError, OverdeterminedError
from cnf.solvers.adjoint import solve
from cnf.solvers.solver import Factor, Method, Solver
from cnf.solvers.sparse_matrix import SparseMatrix
from cnf.systems.assembly import Block, joint_columns
from cnf.systems.expansions import BasisExpansion, FactorAccount, expand_over
from cnf.systems.formulation import Formulation, KnownAccount, Plan, stack_targets, state_entry
from cnf.systems.layout import BlockLayout


@dataclass(frozen=True, eq=False)
class MatrixPlan(Plan):
    """Factored matrices, one per block of the layout."""

    formulation: Formulation
    basis: Basis
    evaluator: Evaluator
    matrices: tuple[Tensor | SparseMatrix, ...]
    factors: tuple[Factor, ...]

    def solve(self, targets: Sequence[Tensor]) -> BasisExpansion:
        layout = self.formulation.layout
        sides = [stack_targets(targets, block) for block in layout]
        parts = tuple(solve(m, b, f) for m, b, f in zip(self.matrices, sides, self.factors, strict=True))
        blocks = tuple(Block(*triple) for triple in zip(layout, self.matrices, sides, strict=True))
        account = FactorAccount(self.factors, tuple(len(b.layout.copies) for b in blocks))
        weights = scatter_parts(self.basis, layout, parts)
        return expand_over(
            self.basis, self.evaluator, weights, account, blocks=blocks, factors=self.factors, parts=parts
        )


def factor_matrices(
    formulation: Formulation,
    solver: Solver,
    basis: Basis,
    constraints: Sequence[Constraint],
    evaluator: Evaluator,
    matrices: Sequence[Tensor | SparseMatrix],
) -> MatrixPlan:
    """The plan of assembled matrices."""
    symmetric = basis.is_symmetric_for(constraints)
    try:
        factors = tuple(solver.factor_all(matrices, symmetric))
    except NotFiniteError:
        raise BasisError(
            "the basis gives values or derivatives that are not finite at the points of the constraints; look at its "
            "parameters (a bandwidth that ran to zero?), at functions such as sqrt or norm at zero, and at the scale "
            "of the coordinates (float32 ends at 3e38, float64 at 1e308)"
        ) from None
    return MatrixPlan(formulation, basis, evaluator, tuple(matrices), factors)


def scatter_parts(basis: Basis, layout: Sequence[BlockLayout], parts: Sequence[Tensor]) -> Tensor:
    """Block solutions (n, k) -> weights (N, C), or (N,) for joint bases."""
    size, channels = basis.size, len(basis.space.channels)
    if not basis.joint:
        columns: dict[int, Tensor] = {}
        for block, part in zip(layout, parts, strict=True):
            for k, copy in enumerate(block.copies):
                for j, c in enumerate(copy.channels):
                    columns[c] = part[j * size : (j + 1) * size, k]
        zero = parts[0].new_zeros(size)
        return torch.stack([columns.get(c, zero) for c in range(channels)], dim=1)
    weights = parts[0].new_zeros(size)
    for block, part in zip(layout, parts, strict=True):
        for k, copy in enumerate(block.copies):
            columns_of = joint_columns(basis, copy, part.device)
            weights = weights.index_put((columns_of,), part[:, k])
    return weights


def restore_weights(basis: Basis, state: Mapping[str, Tensor]) -> BasisExpansion:
    """The expansion of saved weights."""
    shape = (basis.size,) if basis.joint else (basis.size, len(basis.space.channels))
    weights = state_entry(state, "weights", shape)
    return expand_over(basis, basis.snapshot(), weights, KnownAccount("weights from a file"))


def refuse_overdetermined(
    method: Method, basis: Basis, constraints: Sequence[Constraint], layout: Sequence[BlockLayout]
) -> None:
    """More conditions than functions are refused before anything is assembled, unless a fit was asked for."""
    for block in layout:
        rows = sum(constraints[i].points.shape[0] for i, _ in block.first.rows)
        columns = len(joint_columns(basis, block.first)) if basis.joint else basis.size * len(block.first.channels)
        if rows > columns and not method.least_squares:
            raise OverdeterminedError(
                f"{rows} conditions but only {columns} basis functions: they cannot all hold. Give the basis at "
                f"least {rows} functions, drop conditions, or ask for a least-squares fit with "
                "solver=cnf.solvers.Auto(least_squares=True)"
            )
