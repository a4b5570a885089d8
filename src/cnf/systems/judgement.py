"""Judgement: what a solve missed, measured on the original rows, and what is done about it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from cnf.bases.basis import Basis
from cnf.constraints import Constraint
from cnf.errors import ViolationError, ViolationWarning
from cnf.systems.assembly import Block
from cnf.systems.certificate import Certificate, Residual
from cnf.systems.diagnostics import find_conflicts

if TYPE_CHECKING:
    from cnf.solvers.solver import Factor


def certify(
    blocks: Sequence[Block],
    parts: Sequence[Tensor],
    factors: Sequence[Factor],
    constraints: Sequence[Constraint],
    basis: Basis,
    tolerance: float,
    seconds: float,
) -> Certificate:
    """Measure the solved blocks: `parts` (n, k) are the weights of each."""
    missed: dict[str, list[tuple[Tensor, Tensor]]] = {c.name: [] for c in constraints}
    reference, weight = 0.0, 0.0
    with torch.no_grad():
        for block, part in zip(blocks, parts, strict=True):
            norms = torch.linalg.vector_norm(block.matrix, dim=1)
            absolute = (block.matrix @ part - block.targets).abs()
            safe = torch.where(norms > 0, norms, 1.0)
            reference = max(reference, float((block.targets.abs() / safe[:, None]).max()))
            weight += float(part.square().sum())
            for k, copy in enumerate(block.layout.copies):
                start = 0
                for i, _ in copy.rows:
                    rows = slice(start, start + constraints[i].points.shape[0])
                    missed[constraints[i].name].append((absolute[rows, k], norms[rows]))
                    start = rows.stop
    joined = {n: (torch.cat([a for a, _ in v]), torch.cat([b for _, b in v])) for n, v in missed.items()}
    kept, known = tuple(blocks), tuple(constraints)
    return Certificate(
        residuals=measured(joined, reference),
        tolerance=tolerance,
        conditions=sum(c.rows for c in constraints),
        functions=basis.size,
        channels=1 if basis.joint else len(basis.space.channels),
        weight_norm=weight**0.5,
        data_size=reference,
        seconds=seconds,
        factors=tuple(factors),
        served=tuple(len(b.layout.copies) for b in blocks),
        explain=lambda: find_conflicts(kept, known),
    )


def measured(missed: Mapping[str, tuple[Tensor, Tensor]], reference: float) -> dict[str, Residual]:
    """Residuals from (|L f - g|, row norm) per constraint; `reference` is the largest scaled right-hand side."""
    found = {}
    for name, (absolute, norms) in missed.items():
        worst = float(absolute.max())
        scaled = float((absolute / torch.where(norms > 0, norms, 1.0)).max())
        unreachable = 0.0 if worst == 0 else float("inf")
        relative = scaled / reference if reference > 0 else unreachable
        found[name] = Residual(worst, relative)
    return found


def judge(certificate: Certificate, on_violation: str) -> None:
    """Raise or warn if the tolerance is missed; a violated constraint is never silent."""
    if certificate.exact:
        return
    name, residual = max(certificate.residuals.items(), key=lambda pair: pair[1].relative)
    missed = (
        f"constraint {name!r} is missed by {residual.absolute:.1e} (relative {residual.relative:.1e}, tolerance "
        f"{certificate.tolerance:.0e})"
    )
    if on_violation == "raise":
        raise ViolationError(f"{missed}: {certificate.advice()}", certificate)
    warnings.warn(f"{missed}; see solution.certificate for the reason", ViolationWarning, stacklevel=5)
