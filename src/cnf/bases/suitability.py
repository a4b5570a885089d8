"""Suitability: whether a basis and a base can serve the conditions asked of them; checked when a field is made."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from cnf.bases.basis import Basis, check_smoothness
from cnf.bases.determinism import UNSTEADY, refuse_unsteady
from cnf.bases.layers import smoothness
from cnf.bases.precision import without_autocast
from cnf.constraints import Constraint
from cnf.errors import BasisError, CnfError, ConstraintError, SmoothnessWarning
from cnf.operators.forward import derivatives

LINES, PLACES = 4, 32  # along which, and at which, a base is looked at for kinks
CHANGE = 1e-2  # of a derivative along a line, relative to the largest: no rounding, in any precision
PRECISIONS = (torch.float64, torch.float32)  # in which conditions can be met and measured


def check_arguments(basis: object, base: object, tolerance: object, on_violation: object) -> Basis:
    """Refuse arguments of a field that are none; returns the basis."""
    if not isinstance(basis, Basis):
        raise BasisError(
            "the first argument is a basis from cnf.bases (or your own subclass of Basis), or 'auto'; got a "
            f"{type(basis).__name__}"
        )
    if on_violation not in ("raise", "warn"):
        raise CnfError(f"on_violation is 'raise' or 'warn', not {on_violation!r}")
    if tolerance is not None and not (isinstance(tolerance, int | float) and tolerance > 0):
        raise CnfError(f"the tolerance is a positive number; got {tolerance!r}")
    if base is not None and not isinstance(base, nn.Module):
        raise CnfError(f"base must be a torch module R^D -> R^C; got a {type(base).__name__}")
    return basis


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
    _refuse_strangers(base, constraints)
    _warn_of_kinks(basis, base, constraints)
    dtype = torch.float64 if any(c.points.dtype == torch.float64 for c in constraints) else constraints[0].points.dtype
    return tuple(c.to(dtype) for c in constraints)


def _refuse_strangers(base: nn.Module | None, constraints: Sequence[Constraint]) -> None:
    """Devices follow the points: these lie on one, and the base network with them."""
    where: dict[str, list[str]] = {}
    for c in constraints:
        where.setdefault(str(c.points.device), []).append(repr(c.name))
    if len(where) > 1:
        listed = "; ".join(f"{', '.join(names)} on {device}" for device, names in where.items())
        raise ConstraintError(
            f"the conditions lie on several devices ({listed}); put all their points on one: at=points.to(device)"
        )
    (device,) = where
    others = {str(t.device) for t in (*base.parameters(), *base.buffers())} - {device} if base is not None else set()
    if others:
        raise BasisError(
            f"the base network is on {', '.join(sorted(others))}, the conditions on {device}; move it there: "
            f"base.to({device!r})"
        )


def _warn_of_kinks(basis: Basis, base: nn.Module | None, constraints: Sequence[Constraint]) -> None:
    better = "tanh, softplus or sine are better for conditions on derivatives"
    order = max(c.operator.order for c in constraints)
    if order >= 1 and any(smoothness(m) == 1 for m in basis.modules()):
        warnings.warn(
            f"the encoder is piecewise linear (ReLU): its first derivative jumps and its second is zero; {better}",
            SmoothnessWarning,
            stacklevel=4,
        )
    if base is None or order < 2:
        return
    if smoothness(base) == 1 or is_piecewise_polynomial(base, constraints[0].points, order):
        warnings.warn(
            f"the base is piecewise linear (ReLU) or the like: its derivatives of order {order} are zero at the points "
            f"and infinite on its kinks, so it has no part in the conditions on them; {better}",
            SmoothnessWarning,
            stacklevel=4,
        )


def is_piecewise_polynomial(network: nn.Module, points: Tensor, order: int) -> bool:
    """True if a derivative up to that order vanishes along straight lines although the one below changes there.

    Measured, whatever the activations are called: along a line, a polynomial has no such derivative, and those of any
    other smooth function do not vanish at places chosen at random. The lines run across the extent of the points.
    """
    left = (torch.jit.ScriptModule, *UNSTEADY)  # without derivatives, or not to be evaluated just so
    if any(isinstance(layer, left) for layer in network.modules()) or any(is_lazy(p) for p in network.parameters()):
        return False
    if hasattr(network, "derivatives"):  # a field
        return False
    chance = torch.Generator().manual_seed(0)
    low, high = points.amin(dim=0), points.amax(dim=0)
    ends = torch.rand(2, LINES, points.shape[1], generator=chance).to(points) * (high - low + (high == low)) + low
    places = torch.rand(LINES * PLACES, 1, generator=chance).to(points)
    start, way = (end.repeat_interleave(PLACES, dim=0) for end in (ends[0], ends[1] - ends[0]))
    own = next((p.dtype for p in network.parameters()), points.dtype)
    try:
        with torch.no_grad(), without_autocast(points.device):
            found = derivatives(lambda t: network((start + t * way).to(own)), places, [(k,) for k in range(order + 1)])
    except (RuntimeError, TypeError):  # what cannot be differentiated says so when it is asked to
        return False
    for k in range(1, order + 1):
        below = found[(k - 1,)].reshape(LINES, PLACES, -1)
        changes = (below - below[:, :1]).abs().amax() > CHANGE * below.abs().amax()
        if bool(changes) and not bool(found[(k,)].any()):
            return True
    return False


def check_parts(basis: Basis, base: nn.Module | None, like: Tensor) -> None:
    """Refuse what changed since the field was made: another precision or device, layers that answer at random.

    `like`: points of the conditions.
    """
    dtype = like.dtype
    devices = {str(t.device) for t in (*basis.parameters(), *basis.buffers())} - {str(like.device)}
    if devices:
        raise BasisError(
            f"the basis is on {', '.join(sorted(devices))} now, the field on {like.device}: was it given to another "
            "field since, or moved without this one? Build one basis for each, or move this field: field.to(device)"
        )
    types = {t.dtype for t in (*basis.parameters(), *basis.buffers()) if t.is_floating_point()}
    if types - {dtype}:
        raise BasisError(
            f"the basis is in {', '.join(map(str, types))} now, the field in {dtype}: was it given to another "
            "field since? Build one basis for each, or convert this field: field.to(dtype)"
        )
    refuse_unsteady(basis, "the basis")
    for part, name in ((basis, "basis"), (base, "base network")):
        if part is not None and any(is_lazy(p) for p in part.parameters()):
            raise BasisError(
                f"the {name} has lazy layers that do not know their shape yet; call it once on points first"
            )
    if base is not None:
        refuse_unsteady(base, "the base network")
