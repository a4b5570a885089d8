"""The base of a field: any network, in the precision of the field, with its own derivatives if it has them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cnf.bases.network_detail import network_detail
from cnf.bases.precision import Recast
from cnf.errors import ConstraintError
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
        self._base, self._channels, self._width = base, channels, like.shape[1]
        self._given = base
        self._resolution = torch.finfo(like.dtype).eps
        if hasattr(base, "derivatives"):
            self.derivatives = base.derivatives
        own = _precision(base)
        if own is None or torch.finfo(own).eps <= torch.finfo(like.dtype).eps:
            return
        with torch.no_grad():
            try:
                recast = Recast(base, like.dtype)
                if hasattr(base, "derivatives") or recast(like).dtype != like.dtype:
                    raise RuntimeError("it converts what it is given")
                self._base = recast
            except RuntimeError:
                self._resolution = ROUNDINGS * torch.finfo(own).eps

    def detail(self) -> Detail:
        """How fast the base varies."""
        return network_detail(self._given, self._width)

    def __call__(self, x: Tensor) -> Tensor:
        return evaluate_base(self._base, x, self._channels)

    def measured(self, probes: Sequence[Probe], shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """L[base], and how far it may be off by rounding, both (P, R)."""
        found = applied(self, probes, shape)
        return found, self._resolution * found.abs().to(torch.float64)


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
