"""The base of a field: any network, in the precision of the field, with its own derivatives if it has them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property

import torch
from torch import Tensor, nn

from cnf.bases.network_detail import network_detail
from cnf.bases.precision import Recast, coarsest_precision, recast
from cnf.errors import CnfError, ConstraintError
from cnf.operators.detail import Detail
from cnf.operators.expansion import Probe
from cnf.systems.assembly import applied

ROUNDINGS = 4  # of the coarser precision, in a derivative or a sum of terms


class BaseFunction:
    """(P, D) -> (P, C).

    A network in a coarser precision than the field's is evaluated in the field's, so that its values do not depend on
    how many points are asked at once. One that insists on its own (by conversions inside) keeps it, and `measured`
    counts what that leaves open.
    """

    def __init__(self, base: nn.Module, channels: int, like: Tensor):
        """`like` (1, D): one point, in the precision of the field."""
        self._base, self._channels, self._like = base, channels, like.detach()
        self._given = base
        if hasattr(base, "derivatives"):
            self.derivatives = base.derivatives
        elif _is_coarser(_precision(base), like.dtype):
            with torch.no_grad(), suppress(RuntimeError, TypeError, CnfError):  # it converts by itself, or is a script
                recast = Recast(base, like.dtype)
                recast(like)
                self._base = recast

    @property
    def network(self) -> nn.Module:
        """What is evaluated."""
        return self._base

    def detail(self) -> Detail:
        """How fast the base varies."""
        return network_detail(self._given, self._like.shape[1])

    def __call__(self, x: Tensor) -> Tensor:
        return evaluate_base(self._base, x, self._channels)

    def in_precision(self, precision: torch.dtype) -> BaseFunction:
        """The same for points and values in another precision, and evaluated in it unless it insists on its own."""
        like, given = self._like.to(precision), self._given
        if not hasattr(given, "derivatives"):
            with suppress(RuntimeError, TypeError, CnfError):
                changed = recast(given, precision)
                with torch.no_grad():
                    changed(like)
                found = BaseFunction(changed, self._channels, like)
                found._given = given
                return found
        return BaseFunction(given, self._channels, like)

    @cached_property
    def precision(self) -> torch.dtype:
        """The coarsest precision that the base computes in, if that is coarser than the field's."""
        if hasattr(self._base, "derivatives"):
            own = _precision(self._base)
            return own if own is not None and _is_coarser(own, self._like.dtype) else self._like.dtype
        return coarsest_precision(self, self._like)

    @property
    def reason(self) -> str:
        """Why conditions on this base may be missed."""
        if self.precision == self._like.dtype:
            return ""
        return (
            f"the base computes in {self.precision}, which leaves its values open by as much as that rounds. Let it "
            f"compute in the precision of its input ({self._like.dtype}), or give the field a tolerance that fits "
            f"{self.precision}"
        )

    def measured(self, probes: Sequence[Probe], shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """L[base], and how far it may be off by rounding, both (P, R)."""
        found = applied(self, probes, shape)
        roundings = 1 if self.precision == self._like.dtype else ROUNDINGS
        return found, roundings * torch.finfo(self.precision).eps * found.abs().to(torch.float64)


def _is_coarser(one: torch.dtype | None, other: torch.dtype) -> bool:
    return one is not None and torch.finfo(one).eps > torch.finfo(other).eps


def _precision(base: nn.Module) -> torch.dtype | None:
    """The coarsest precision of the parameters and buffers; None if there are none."""
    kinds = {t.dtype for t in (*base.parameters(), *base.buffers()) if t.is_floating_point()}
    return max(kinds, key=lambda kind: torch.finfo(kind).eps, default=None)


def evaluate_base(base: nn.Module, x: Tensor, channels: int) -> Tensor:
    """The values of a base network, in the precision of the points: (P, D) -> (P, C)."""
    like = next(base.parameters(), None) if isinstance(base, nn.Module) else None
    given = x if like is None or isinstance(base, Recast) else x.to(like.dtype)
    try:
        values = base(given)
    except RuntimeError as error:
        raise ConstraintError(
            f"the base network fails on points of shape {tuple(x.shape)}: {str(error).splitlines()[0]}; it must map "
            f"(P, {x.shape[1]}) to (P, {channels})"
        ) from error
    if values.dim() == 1:
        values = values[:, None]
    if values.shape != (x.shape[0], channels):
        raise ConstraintError(
            f"the base network returned shape {tuple(values.shape)} for {x.shape[0]} points; expected "
            f"({x.shape[0]}, {channels})"
        )
    return values.to(x.dtype)
