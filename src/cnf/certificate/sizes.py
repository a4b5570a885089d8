"""Sizes: what an error of a condition is to be compared with, whatever the basis.

Conditions of different kinds have different units (values, second derivatives). What the operator of a condition makes
of a field of amplitude 1 that varies over the whole extent of the points is

    s = sqrt(sum_alpha (|w_alpha| / prod_k l_k^alpha_k)^2),

w_alpha the coefficients there and l_k the extent of all constraint points along coordinate k. The natural size of a
condition is s U with U the amplitude that the conditions on its channels ask for. Rescaling a constraint, a coordinate
or the field changes nothing. Everything is worked out from the conditions as they are now: nothing is remembered.

The tails of a right-hand side do not ask for a small field: beside a narrow source of size 1 a wave of amplitude 1
solves Laplace u + k^2 u = 1e-7, and rounds by k^2. Conditions far below both the terms that their operator adds up
there and what the same equation asks for elsewhere are left out of the amplitude V >= U that is asked of the field as a
whole, which is never more than the field shows anywhere. V stands for U where the right-hand side is zero and, no
further than those terms and the peak of that right-hand side reach, in its tails. What is asked for throughout, or of
one term, is compared with U.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from cnf.constraints import Constraint
from cnf.fetching import fetched_together
from cnf.operators.expansion import Probe

NOTHING = 1e-13  # right-hand sides this much smaller than the largest are rounding, not data
CANCELLED = 1e-3  # sums below this part of the sizes of their terms: these cancel
VANISHING = 1e-3  # terms below this part of the natural size of a jump: there, rounding would be measured by itself


def extents(constraints: Sequence[Constraint]) -> Tensor:
    """The extent of all points along every coordinate, (D,); 1 where they do not differ."""
    points = torch.cat([c.points.detach().to(torch.float64) for c in constraints])
    extent = points.amax(dim=0) - points.amin(dim=0)
    return torch.where(extent > 0, extent, 1.0)


def row_sizes(probes: Sequence[Probe], shape: tuple[int, int], lengths: Tensor) -> Tensor:
    """The size s of every condition of a constraint, (P, R), in float64."""
    total = torch.zeros(shape, dtype=torch.float64, device=probes[0].points.device)
    for probe in probes:
        for r, request in zip(probe.rows, probe.requests, strict=True):
            for index, weight in request.weights.items():
                size = weight.detach().to(torch.float64).abs()
                if probe.nodes > 1:
                    size = size.expand(shape[0] * probe.nodes).reshape(-1, probe.nodes).sum(dim=1)
                for length, order in zip(lengths, index, strict=True):
                    size = size / length**order if order else size
                total[:, r] = torch.hypot(total[:, r], size)  # squares would overflow
    return total


def typical_amplitude(values: Sequence[Tensor], sizes: Sequence[Tensor]) -> float:
    """The median amplitude that conditions with right-hand sides `values` (P, R) ask for; 1 if none asks for anything.

    A median, so that no single huge right-hand side hides the others.
    """
    asked = _asked_amplitudes(values, sizes)
    return float(asked.median()) if asked.numel() else 1.0


def _asked_amplitudes(values: Sequence[Tensor], sizes: Sequence[Tensor], among: Sequence[Tensor] = ()) -> Tensor:
    """The amplitudes that conditions ask for, of all that do ask or of those `among` (P, R) them."""
    sides = torch.cat([v.detach().to(torch.float64).abs().reshape(-1) for v in values])
    scales = torch.cat([s.reshape(-1) for s in sizes])
    asking = (sides > NOTHING * sides.max()) & (scales > 0)
    if among:
        asking &= torch.cat([chosen.reshape(-1) for chosen in among])
    return (sides / scales)[asking]


def coupled(constraints: Sequence[Constraint]) -> list[list[int]]:
    """Which constraints speak of the same channels, directly or through others: numbers of theirs, group by group."""
    groups: list[tuple[set[str | None], list[int]]] = []
    for i, constraint in enumerate(constraints):
        channels = _channels(constraint)
        members = [i]
        for group in [g for g in groups if g[0] & channels]:
            groups.remove(group)
            channels |= group[0]
            members += group[1]
        groups.append((channels, members))
    return [members for _, members in groups]


def amplitudes(
    constraints: Sequence[Constraint],
    values: Sequence[Tensor],
    sizes: Sequence[Tensor],
    shown: Callable[[Sequence[int]], float],
) -> list[float]:
    """The amplitude U for every constraint: huge values of one channel say nothing about another one.

    `values` are their right-hand sides (P, R), these and the `sizes` on the host. `shown` tells the largest value of
    the field at the points of some constraints, given by their numbers. A condition that is linearised where it hardly
    depends on the field asks for more than any field shows (u^2 = -1 next to u = 0).
    """
    found = [1.0] * len(constraints)
    for group in coupled(constraints):
        typical = typical_amplitude([values[i] for i in group], [sizes[i] for i in group])
        if any(constraints[i].nonlinear is not None for i in group):
            typical = min(typical, shown(group))
        for i in group:
            found[i] = typical
    return found


def whole_amplitudes(
    constraints: Sequence[Constraint],
    values: Sequence[Tensor],
    sizes: Sequence[Tensor],
    found: Sequence[float],
    standing: Sequence[Tensor],
    shown: Callable[[Sequence[int]], float],
) -> list[float]:
    """The amplitude V for every constraint, given U (`found`) and which conditions do not cancel (`standing`, (P, R)).

    `shown` tells the largest value of the field at the points of some constraints, given by their numbers.
    """
    whole = list(found)
    for group in coupled(constraints):
        asked = _asked_amplitudes(*([of[i] for i in group] for of in (values, sizes, standing)))
        typical = float(asked.median()) if asked.numel() else 0.0
        if typical > found[group[0]]:
            # A source far narrower than the domain asks for more, by this measure, than any field will show.
            typical = min(typical, shown(group))
        for i in group:
            whole[i] = max(found[i], typical)
    return whole


def cancelled_sizes(sums: Tensor, terms: Tensor, asked: Tensor, peak: Tensor) -> Tensor:
    """How far terms reach that cancel in a tail of the right-hand side, (P, R); 0 where they do not.

    There `sums` and what is asked are small beside the sizes of the `terms` and beside the `peak` (R,) of what is asked
    anywhere: terms that cancel to what an equation asks for throughout leave nothing to excuse.
    """
    reach = terms.minimum(peak)
    return torch.where(sums.abs().maximum(asked.abs()) < CANCELLED * reach, reach, 0.0)


def allowed_sizes(
    asked: Tensor, size: Tensor, amplitude: float, whole: float, cancelled: Tensor | None = None
) -> Tensor:
    """What an error is compared with, (P, R): |g| or the natural size by U, or by V as far as that is allowed.

    `cancelled`: how far terms reach that cancel, 0 for others.
    """
    reach = torch.zeros_like(size) if cancelled is None else cancelled
    reach = torch.where(asked == 0, torch.inf, reach)
    return asked.abs().maximum(size * amplitude).maximum(reach.minimum(size * whole))


def tied_sizes(sides: Tensor) -> Tensor:
    """What a jump of derivatives is compared with, (P, R), from what both sides are there.

    A field that varies far faster than over the whole extent has derivatives far above their natural size, and these
    round by themselves: also where one passes through zero, so that the typical one counts as well.
    """
    found = sides.to(torch.float64)
    return found.maximum(found.median(dim=0).values) if len(found) else found


def tied_term_sizes(terms: Tensor, natural: Tensor) -> Tensor:
    """What a jump that is not linear is compared with, (P, R), from the sizes of its terms and its natural size.

    The natural size is that of a linearisation: next to 300, e^(u - 300) asks for an amplitude of 300 while its terms
    are about 1. It counts only where nothing flows at all.
    """
    return tied_sizes(terms).maximum(VANISHING * natural)


def amplitude_beside(condition: Constraint, constraints: Sequence[Constraint], found: Sequence[float]) -> float:
    """The amplitude for a condition that is no constraint: the least of those that share a channel with it."""
    own = _channels(condition)
    return min((u for c, u in zip(constraints, found, strict=True) if _channels(c) & own), default=1.0)


def _channels(constraint: Constraint) -> set[str | None]:
    return {term.channel for row in constraint.operator.rows for term in row}


def natural_sizes(constraints: Sequence[Constraint]) -> list[float]:
    """One size per constraint, by which losses weigh the errors of several; U is the largest amplitude asked for."""
    with torch.no_grad():
        lengths = extents(constraints)
        sizes = [row_sizes(c.expanded(), tuple(c.values.shape), lengths) for c in constraints]  # type: ignore[arg-type]
        both = (sizes, [c.values.to(torch.float64) for c in constraints])
        means, asked = ([float(t) for t in of] for of in fetched_together([[_mean(t) for t in of] for of in both]))
    means = [mean or 1.0 for mean in means]
    amplitude = max(a / s for a, s in zip(asked, means, strict=True)) or 1.0
    return [s * amplitude for s in means]


def _mean(values: Tensor) -> Tensor:
    return values.square().mean().sqrt()
