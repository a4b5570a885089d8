"""Checking: a module that is made is compared with the field it was made from, before it leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.func import vmap

from cnf.bases.precision import coarsest_precision
from cnf.errors import CnfError
from cnf.modules.field_module import FieldModule
from cnf.systems.formulation import Expansion
from cnf.systems.tied import CellExpansion

MOST = 128  # points of each kind
AROUND = 0.1  # of its extent, how far beside the region of the conditions it is compared as well
ROUNDINGS = 1e3  # another order of the same sums comes out different by so many roundings at most
MOSTLY = 0.9


def check_module(
    module: FieldModule, expansion: Expansion, field: Callable[[Tensor], Tensor], conditions: Sequence[Tensor]
) -> None:
    """Refuse a module that is not the field at points (P, D) of the conditions, between and around them, or on cuts.

    Once as it is evaluated, and once as it is while something looks into it; and one that another call changes.
    """
    points = sample(expansion, conditions)
    found = steady_values(module, points)
    want = field(points)
    bound = allowed_off(field, points, want)
    compare(found, want, bound)
    compare(looked_into(module.sums, points), want if module.base is None else module.sums(points), bound)


def steady_values(module: FieldModule, points: Tensor) -> Tensor:
    """The values (P, C), if a call leaves the module as it was and another gives them again."""
    before = {name: tensor.clone() for name, tensor in state_of(module)}
    found = module(points)
    changed = [name for name, tensor in state_of(module) if not is_equal(tensor, before[name])]
    if changed or not is_equal(module(points), found):
        reason = f"a call changes its {changed[0]}" if changed else "a second call gives other values"
        raise CnfError(
            f"the field cannot leave as a torch module, for {reason}: a network in it is in training mode, or keeps "
            "something from call to call. Call base.eval() (or .eval() of the basis' network) and solve again"
        )
    return found


def state_of(module: nn.Module) -> list[tuple[str, Tensor]]:
    return [*module.named_parameters(), *module.named_buffers()]


def is_equal(one: Tensor, other: Tensor) -> bool:
    return bool(((one == other) | (one.isnan() & other.isnan())).all())


def looked_into(sums: nn.Module, points: Tensor) -> Tensor:
    """The sums as recorded operations have them: nothing in them may hang on numbers."""
    try:
        return vmap(lambda x: sums(x[None])[0])(points)
    except Exception as error:  # networks of a user's own may do anything
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CnfError(
            f"the field cannot leave as a torch module, for torch.func cannot look into it ({reason:.300}); networks "
            "and bases of your own must be made of torch operations whose way does not depend on numbers"
        ) from None


def compare(found: Tensor, want: Tensor, bound: Tensor) -> None:
    off = (found - want).abs()
    good = (off <= bound) | (found.isnan() & want.isnan()) | (found == want)
    if not bool(good.all()):
        worst = float(off.nan_to_num(torch.inf).max())
        raise CnfError(
            f"the module made of this field is {worst:.1e} off it, where rounding explains {float(bound):.1e}: it is "
            "not handed out. Please report the basis and the solver of the field"
        )


def allowed_off(field: Callable[[Tensor], Tensor], points: Tensor, want: Tensor) -> Tensor:
    """How far sums in another order may be off: many times what the field is off itself where points are.

    At points whose last bits are others everything in it is rounded anew; last bits of the coarsest precision that
    something in it works in. Only most of the points count: where a field jumps, it jumps there too.
    """
    draw = torch.rand(points.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(points)
    eps = torch.finfo(coarsest_precision(field, points)).eps
    noise = (field(points * (1 + 4 * eps * (draw - 0.5))) - want).abs().nan_to_num()
    return ROUNDINGS * (noise.flatten().quantile(MOSTLY) + eps * want.abs().nan_to_num(posinf=0.0).max())


def sample(expansion: Expansion, conditions: Sequence[Tensor]) -> Tensor:
    """Points (P, D) of the conditions, between and around them, and corners of cells, which lie on cuts."""
    like = expansion.like
    every = torch.cat([spread(points) for points in conditions]).to(like)
    every = every[torch.isfinite(every).all(dim=1)]
    low, high = every.amin(dim=0), every.amax(dim=0)
    generator = torch.Generator().manual_seed(0)
    inside = torch.rand(2 * MOST, every.shape[1], generator=generator, dtype=torch.float64).to(like)
    around = low + (high - low) * ((1 + 2 * AROUND) * inside - AROUND)
    parts = [spread(every, 4 * MOST), around]
    if isinstance(expansion, CellExpansion):
        cells = expansion.evaluator.cells
        lower, upper = (spread(torch.from_numpy(ends)).to(like) for ends in (cells.lower, cells.upper))
        parts += [lower, upper, torch.where(inside[: len(lower)] < 0.5, lower, (lower + upper) / 2)]
    return torch.cat(parts)


def spread(points: Tensor, most: int = MOST) -> Tensor:
    """At most so many of the rows, evenly."""
    count = points.shape[0]
    return points[torch.linspace(0, count - 1, min(count, most)).round().long().to(points.device)]
