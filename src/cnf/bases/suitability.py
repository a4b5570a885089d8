"""Suitability: whether a basis and a base can serve the conditions asked of them; checked when a field is made."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import nn

from cnf.bases.basis import Basis, check_smoothness
from cnf.bases.determinism import refuse_unsteady
from cnf.bases.layers import smoothness
from cnf.constraints import Constraint
from cnf.errors import BasisError, ConstraintError, SmoothnessWarning

PRECISIONS = (torch.float64, torch.float32)  # in which conditions can be met and measured


def suited(basis: Basis, base: nn.Module | None, given: Sequence[Constraint] | Constraint) -> tuple[Constraint, ...]:
    """The constraints in one precision, refused or warned about if the basis cannot serve them."""
    constraints = [given] if isinstance(given, Constraint) else list(given) if isinstance(given, Sequence) else []
    if not constraints or not all(isinstance(c, Constraint) for c in constraints):
        raise ConstraintError("a field needs at least one constraint, made with space.constraint(...)")
    seen: set[str] = set()
    for c in constraints:
        if c.operator.frame != basis.space.frame:
            raise ConstraintError(f"constraint {c.name!r} belongs to another space than the basis")
        if c.name in seen:
            raise ConstraintError(f"two constraints are called {c.name!r}; give each its own name=")
        seen.add(c.name)
        check_smoothness(basis, c.operator, f"constraint {c.name!r}")
    _warn_of_kinks(basis, base, max(c.operator.order for c in constraints))
    dtype = torch.float64 if any(c.points.dtype == torch.float64 for c in constraints) else constraints[0].points.dtype
    return tuple(c.to(dtype) for c in constraints)


def _warn_of_kinks(basis: Basis, base: nn.Module | None, order: int) -> None:
    better = "tanh, softplus or sine are better for conditions on derivatives"
    if order >= 1 and any(smoothness(m) == 1 for m in basis.modules()):
        warnings.warn(
            f"the encoder is piecewise linear (ReLU): its first derivative jumps and its second is zero; {better}",
            SmoothnessWarning,
            stacklevel=4,
        )
    if order >= 2 and base is not None and smoothness(base) == 1:
        warnings.warn(
            f"the base is piecewise linear (ReLU): its derivatives of order {order} are zero at the points and "
            f"infinite on its kinks, so it has no part in the conditions on them; {better}",
            SmoothnessWarning,
            stacklevel=4,
        )


def check_parts(basis: Basis, base: nn.Module | None, dtype: torch.dtype) -> None:
    """Refuse what changed since the field was made: another precision, layers that answer at random."""
    types = {t.dtype for t in (*basis.parameters(), *basis.buffers()) if t.is_floating_point()}
    if types - {dtype}:
        raise BasisError(
            f"the basis is in {', '.join(map(str, types))} now, the field in {dtype}: was it given to another "
            "field since? Build one basis for each, or convert this field: field.to(dtype)"
        )
    refuse_unsteady(basis, "the basis")
    if base is not None:
        refuse_unsteady(base, "the base network")
