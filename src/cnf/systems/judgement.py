"""Judgement: what a solve missed, measured on the original rows, and what is done about it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from cnf.bases.basis import Basis
from cnf.constraints import Constraint
from cnf.errors import ViolationError, ViolationWarning
from cnf.systems.assembly import Block
from cnf.systems.certificate import Certificate, Residual
from cnf.systems.diagnostics import find_conflicts
from cnf.systems.sizes import natural_sizes
from cnf.systems.sparse import SparseMatrix

if TYPE_CHECKING:
    from cnf.solvers.solver import Factor


class Measured(Protocol):
    """A solution as far as measuring it goes."""

    @property
    def basis(self) -> Basis:
        """What is summed."""
        ...

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """What is asked."""
        ...

    def residual(self, constraint: Constraint) -> Tensor:
        """L f - g, (P, R)."""
        ...


LOWER = "add conditions on the values there, or solve with Auto() instead of Patches"
NOTHING = 1e-13  # right-hand sides this much smaller than the largest are rounding, not data


def certify(
    blocks: Sequence[Block],
    parts: Sequence[Tensor],
    factors: Sequence[Factor],
    constraints: Sequence[Constraint],
    basis: Basis,
    tolerance: float,
    seconds: float,
    integrals: Mapping[str, Tensor],
) -> Certificate:
    """Measure the solved blocks: `parts` (n, k) are the weights of each, `integrals` (P, R) what quadrature adds."""
    missed: dict[str, list[tuple[Tensor, Tensor]]] = {c.name: [] for c in constraints}
    natural = natural_sizes(constraints)
    reference, weight = 0.0, 0.0
    with torch.no_grad():
        for block, part in zip(blocks, parts, strict=True):
            norms = row_norms(block.matrix)
            absolute = (block.matrix @ part - block.targets).abs()
            weight += float(part.square().sum())
            for k, copy in enumerate(block.layout.copies):
                sizes, typical = data_sizes(block.targets[:, k], norms)
                reference = max(reference, typical)
                start = 0
                for i, r in copy.rows:
                    rows = slice(start, start + constraints[i].points.shape[0])
                    name, off = constraints[i].name, absolute[rows, k]
                    off = off + integrals[name][:, r] if name in integrals else off
                    asked = block.targets[rows, k].abs()
                    # The smaller of two scales: rows of a smooth basis may be so small that any target looks large.
                    scale = (norms[rows] * sizes[rows]).clamp_max(natural[i]).maximum(asked)
                    missed[name].append((off, off / scale))
                    start = rows.stop
    kept, known = tuple(blocks), tuple(constraints)
    return Certificate(
        residuals={name: _worst(found) for name, found in missed.items()},
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
        quadrature={name: float(off.max()) for name, off in integrals.items()},
    )


def measure(
    solution: Measured, factors: Sequence[Factor], tolerance: float, seconds: float, weight_norm: float
) -> Certificate:
    """The certificate of a solution made of patches: every condition measured on the field itself."""
    constraints = solution.constraints
    natural = natural_sizes(constraints)
    residuals, asked = {}, 0.0
    with torch.no_grad():
        for constraint, size in zip(constraints, natural, strict=True):
            off = solution.residual(constraint).abs()
            values = constraint.renewed().values.abs()
            residuals[constraint.name] = _worst([(off, off / values.clamp_min(size))])
            asked = max(asked, float(values.max()))
    far = 1e3 * tolerance  # beyond what rounding does
    slopes = [c.name for c in constraints if c.operator.order and not residuals[c.name].relative <= far]
    hint = f"patches keep a derivative exact only where all lower orders are given at the same points; {LOWER}"
    return Certificate(
        residuals=residuals,
        tolerance=tolerance,
        conditions=sum(c.rows for c in constraints),
        functions=solution.basis.size,
        channels=1 if solution.basis.joint else len(solution.basis.space.channels),
        hint=f"{', '.join(map(repr, slopes))}: {hint}" if slopes else "",
        weight_norm=weight_norm,
        data_size=asked,
        seconds=seconds,
        factors=tuple(factors),
        served=(1,),
        explain=lambda: (),
    )


def row_norms(matrix: Tensor | SparseMatrix) -> Tensor:
    """Euclidean norms of the rows, safe from overflow; one where a row is zero."""
    if isinstance(matrix, SparseMatrix):
        return matrix.row_norms()
    largest = matrix.abs().amax(dim=1)
    safe = torch.where(largest > 0, largest, 1.0)
    return torch.where(largest > 0, safe * torch.linalg.vector_norm(matrix / safe[:, None], dim=1), 1.0)


def data_sizes(target: Tensor, norms: Tensor) -> tuple[Tensor, float]:
    """What each row's residual is compared with, and the typical size of the data.

    A row is compared with its own right-hand side over its norm, or with the median of these over all rows that ask for
    something, whichever is larger: zero right-hand sides have a scale then, and no single huge one hides the others.
    `certify` takes the natural size of the constraint instead where that is smaller.
    """
    scaled = target.abs() / norms
    asked = scaled[target.abs() > NOTHING * target.abs().max()]
    typical = float(asked.median()) if asked.numel() else 0.0
    sizes = scaled.clamp_min(typical)
    return torch.where(sizes > 0, sizes, torch.finfo(sizes.dtype).tiny), typical


def _worst(found: Sequence[tuple[Tensor, Tensor]]) -> Residual:
    if not found:
        return Residual(0.0, 0.0)
    absolute, relative = (torch.cat(list(parts)).max() for parts in zip(*found, strict=True))
    return Residual(float(absolute), float(relative))


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
