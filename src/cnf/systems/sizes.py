"""Sizes: what an error of a constraint is to be compared with, whatever the basis.

Conditions of different kinds have different units (values, second derivatives). The natural size of a constraint is

    s_i = U sqrt(mean over rows and points of sum_alpha (|w_alpha| / prod_k l_k^alpha_k)^2),

w_alpha the coefficients of its operator, l_k the extent of all constraint points along coordinate k, and U the
amplitude of the field that the largest right-hand side asks for. Rescaling a constraint, a coordinate or the field
changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import torch

from cnf.constraints import Constraint

_known: WeakKeyDictionary[Constraint, tuple[tuple[float, ...], float]] = WeakKeyDictionary()


def natural_sizes(constraints: Sequence[Constraint]) -> list[float]:
    """What each constraint asks for if the field varies over the whole extent of the points (see the module)."""
    with torch.no_grad():
        points = torch.cat([c.points.to(torch.float64) for c in constraints])
        extent = points.amax(dim=0) - points.amin(dim=0)
        lengths = torch.where(extent > 0, extent, 1.0).tolist()
        sizes = [_operator_size(c, tuple(lengths)) or 1.0 for c in constraints]
        asked = [float(c.values.to(torch.float64).square().mean().sqrt()) for c in constraints]
    amplitude = max(a / s for a, s in zip(asked, sizes, strict=True)) or 1.0
    return [s * amplitude for s in sizes]


def _operator_size(constraint: Constraint, lengths: tuple[float, ...]) -> float:
    """Root mean square of what the operator makes of a field of amplitude 1 that varies over the given lengths."""
    if constraint in _known and _known[constraint][0] == lengths:
        return _known[constraint][1]
    total = 0.0
    for probe in constraint.expanded():
        for request in probe.requests:
            for index, weight in request.weights.items():
                size = weight.to(torch.float64).abs().reshape(-1)
                if probe.nodes > 1:
                    size = size.reshape(-1, probe.nodes).sum(dim=1)
                for length, order in zip(lengths, index, strict=True):
                    size = size / length**order
                total += float(size.square().mean())
    size = (total / max(1, len(constraint.operator.rows))) ** 0.5
    _known[constraint] = (lengths, size)
    return size
