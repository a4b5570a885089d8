"""Quadrature: how finely the integrals in conditions are worked out, and how far they are off all the same.

A condition on an integral is met by the rule that stands for the integral. The rule is refined until it agrees with one
twice as fine on every basis function; after each solve the finer rule is applied to the field itself, and what it says
differently counts as residual.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from cnf.bases.basis import Basis
from cnf.constraints import Constraint
from cnf.operators.expansion import Probe, has_finer_rule, has_integrals
from cnf.systems.assembly import evaluated

AGREEMENT = {torch.float64: 1e-13, torch.float32: 1e-6}


def resolve(basis: Basis, constraints: Sequence[Constraint]) -> tuple[Constraint, ...]:
    """The constraints with their integrals refined as far as these basis functions need."""
    if not any(has_finer_rule(c.operator, c.level) for c in constraints):
        return tuple(constraints)
    with torch.no_grad():
        evaluator = basis.snapshot()
        return tuple(_resolved(evaluator, basis.size, c) for c in constraints)


def _resolved(evaluator, size: int, constraint: Constraint) -> Constraint:
    if not has_finer_rule(constraint.operator, constraint.level):
        return constraint
    coarse = _rows(evaluator, size, constraint)
    while has_finer_rule(constraint.operator, constraint.level):
        finer = constraint.refined(constraint.level + 1)
        fine = _rows(evaluator, size, finer)
        scale = max(float(v.abs().max()) for v in fine.values())
        off = max(float((fine[key] - coarse[key]).abs().max()) for key in fine)
        if off <= AGREEMENT.get(constraint.points.dtype, 1e-6) * scale:
            return constraint
        constraint, coarse = finer, fine
    return constraint


def _rows(evaluator, size: int, constraint: Constraint) -> dict[tuple[int, int], Tensor]:
    """Every row of the constraint, (row, channel) -> (P, N)."""
    found: dict[tuple[int, int], Tensor] = {}
    probes = constraint.expanded()
    wanted = {(r, q.channel) for probe in probes for r, q in zip(probe.rows, probe.requests, strict=True)}
    for key, value in evaluated(evaluator, size, probes, wanted):
        found[key] = found[key] + value if key in found else value
    return found


def quadrature_errors(
    applied: Callable[[Sequence[Probe], tuple[int, int]], Tensor], constraints: Sequence[Constraint]
) -> dict[str, Tensor]:
    """|other rule - rule| of the solved field, (P, R), for every constraint with integrals."""
    found = {}
    with torch.no_grad():
        for c in constraints:
            if has_integrals(c.operator):
                count, rows = c.values.shape
                # Beyond the finest rule there is only the next coarser one to compare with.
                other = c.level + 1 if has_finer_rule(c.operator, c.level) else c.level - 1
                found[c.name] = (
                    applied(c.refined(other).expanded(), (count, rows)) - applied(c.expanded(), (count, rows))
                ).abs()
    return found
