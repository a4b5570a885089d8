"""Casting: how far off its field a module is in another precision, measured after the cast."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cnf.errors import CnfError, NumericalWarning
from cnf.modules.checking import sample
from cnf.modules.field_module import FieldModule
from cnf.systems.formulation import Expansion

TOLD = 1e-3  # of the field's size; more than this is told
ROUNDINGS = 16  # of a precision coarser than single are told of only if they are more
BESIDE = 4  # times every point is moved by its own rounding: where the field jumps, either side will do
LEAST = 1e-4  # of the largest channel, what counts as the size of one that is zero but for rounding


@dataclass(frozen=True)
class Difference:
    """The largest difference between a module and its field, and the size of that channel of the field."""

    largest: float
    size: float

    @property
    def share(self) -> float:
        return self.largest / self.size if self.size else float("inf") if self.largest else 0.0

    def __str__(self) -> str:
        return f"{self.largest:.1e} off the field, {self.share:.1e} of its size"


def measure_difference(
    module: FieldModule, expansion: Expansion, field: Callable[[Tensor], Tensor], conditions: Sequence[Tensor]
) -> Difference:
    """Of the module as it is now, at points (P, D) it can tell apart: of the conditions, between and around them."""
    own, precision = expansion.like.dtype, module.like.dtype
    with torch.no_grad():
        x = sample(expansion, conditions).to(precision)
        found, points = module(x).to(own), x.to(own)
        extent = points.amax(dim=0) - points.amin(dim=0)
        step = 4 * torch.finfo(precision).eps * extent.maximum(points.abs().amax(dim=0))
        generator = torch.Generator().manual_seed(2)
        draws = [torch.rand(points.shape, generator=generator, dtype=torch.float64).to(points) for _ in range(BESIDE)]
        want = field(points)
        off = _off(found, want)
        for draw in draws:
            off = off.minimum(_off(found, field(points + step * (2 * draw - 1))))
    sizes = want.abs().nan_to_num(posinf=0.0).amax(dim=0)  # (C,)
    sizes = sizes.maximum(LEAST * sizes.max())
    worst = off.amax(dim=0)
    channel = int((worst / sizes).nan_to_num(0.0, posinf=torch.inf).argmax())
    return Difference(float(worst[channel]), float(sizes[channel]))


def judge_difference(difference: Difference, expansion: Expansion, precision: torch.dtype) -> None:
    """Warn of a module that is well off its field in this precision; refuse one that has nothing left of it."""
    eps = torch.finfo(precision).eps
    if difference.share <= max(TOLD, ROUNDINGS * eps):
        return
    total = float(expansion.weights.detach().abs().sum(dim=0).max())
    why = (
        f"in {precision} the module is {difference}: the |weights| add up to {total:.1e}, and {precision} rounds such "
        f"sums by about {eps * total:.0e}"
    )
    advice = "Take a finer precision, torch.float64, or a basis with smaller weights, such as one of narrower functions"
    if difference.share > 1:
        raise CnfError(f"{why}, which leaves nothing of the field. {advice}")
    warnings.warn(f"{why}. {advice}", NumericalWarning, stacklevel=3)


def _off(found: Tensor, want: Tensor) -> Tensor:
    same = (found == want) | (found.isnan() & want.isnan())
    return torch.where(same, 0.0, (found - want).abs().nan_to_num(torch.inf))
