"""Terms: what the terms of a condition are one by one, of a field that is solved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from cnf.constraints import Constraint
from cnf.operators.expansion import Probe
from cnf.operators.forward import MultiIndex


class Applied(Protocol):
    """A solved field, as far as looking at its conditions goes."""

    def applied(self, probes: Sequence[Probe], shape: tuple[int, int]) -> Tensor: ...

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]: ...


def term_sizes(solution: Applied, constraint: Constraint) -> Tensor:
    """The sizes of all terms of a nonlinear condition together, its right-hand side included, (P, R), in float64."""
    asked = constraint.values if constraint.asked is None else constraint.asked
    total = asked.abs() + constraint.beyond(solution)[1]
    apart = [probe.term_by_term() for probe in constraint.linear_part]
    if apart:
        parts = solution.applied(*in_rows_of_their_own(apart, total.shape[0])).abs()  # (P, terms)
        for k, r in enumerate(r for probe in apart for r in probe.rows):
            total[:, r] += parts[:, k]
    return total.to(torch.float64)


def in_rows_of_their_own(probes: Sequence[Probe], points: int) -> tuple[list[Probe], tuple[int, int]]:
    """The same probes with a row for every request, and the shape (P, K) of what is found of them."""
    apart, count = [], 0
    for probe in probes:
        apart.append(replace(probe, rows=tuple(range(count, count + len(probe.requests)))))
        count += len(probe.requests)
    return apart, (points, count)
