"""Starting: slabs and cells for data of the plane that contradict each other where time begins.

A start that misses a condition of the boundary (u = 0 where heat is exchanged, u = 1 where u = 0 is given) has a layer
along it, as wide as diffusion has come, sqrt(K t): slabs shrink geometrically towards the start, and cells along such
a boundary are as narrow as the layer is at the end of their slab. That follows from the data: halving the first slab
and the cells in it, again and again, would come to the same after many rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from cnf.bases.cells import Cells
from cnf.constraints import Constraint
from cnf.pde.domains.boundary import Curve
from cnf.pde.domains.domain import Sample
from cnf.pde.patches.carrying import fastest
from cnf.pde.patches.jumps import cut_at
from cnf.pde.patches.layout import cut_together
from cnf.pde.patches.meeting import meets_curves
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.outline import curves_of
from cnf.pde.patches.question import Question

Start = Callable[[Tensor], Tensor]  # of points (P, D), the channels (P, C)

RATIO = 0.4  # of the time from the start to the end of a slab: where the one before ends
FIRST = 3.0  # times the goal, of all the time: the first slab, if the start is as far off as it can be
WIDTH = 1.06  # of a layer sqrt(K t), times the degree: cells along it
ALONG = np.linspace(0.05, 0.95, 13)  # of a curve: where conditions are looked at
INSIDE = 64  # points at which the size of the start is looked at
MET = 1e-8  # of the data: slopes of the start are no more exact than that
STEP = 1e-5  # of the domain, for differences of the start
SHORT = 1e-2  # of the domain: lengths over which diffusion is what counts


def for_the_start(
    question: Question, orders: Orders, cells: Cells, degree: tuple[int, ...], goal: float, most: int
) -> Cells:
    """Slabs and cells as layers ask for, in so many cells at `most`: from then on, slabs begin with coarser ones."""
    layers = contradicted_curves(question, orders)
    time, domain = orders.time, question.domain
    if not layers or time is None:
        return cells
    whole = domain.upper[time] - domain.lower[time]
    slabs = math.log(min(1.0, FIRST * goal / max(layers.values()))) / math.log(RATIO)
    first = {curve: FIRST * goal * whole / off for curve, off in layers.items()}
    for count in range(round(slabs), 0, -1):
        moments = [domain.lower[time] + whole * RATIO**k for k in range(1, count + 1)]
        places = [moments if k == time else [] for k in range(len(degree))]
        found = _narrow(question, orders, cut_at(cells, places), degree, first, most)
        if found is not None:
            return found
    return cells


def _narrow(
    question: Question, orders: Orders, cells: Cells, degree: tuple[int, ...], first: dict[Curve, float], most: int
) -> Cells | None:
    """Cells along curves cut until none is too wide for the layer at the end of its slab; None if they are too many.

    `first` says after which time a layer counts.
    """
    time = orders.time
    assert time is not None
    size = float(np.subtract(question.domain.upper, question.domain.lower)[orders.spatial].max())
    rate = fastest(question, orders, np.full(len(degree), 1 / (SHORT * size)))  # of a wave as short in all of them
    diffusion = rate * (SHORT * size) ** 2 / len(orders.spatial)
    while cells.count <= most:
        wide = np.zeros(cells.lower.shape, dtype=bool)
        for curve, least in first.items():
            layer = np.sqrt(diffusion * np.maximum(cells.upper[:, time] - question.domain.lower[time], least))
            beside = cells.upper - cells.lower > WIDTH * np.array(degree) * layer[:, None]
            wide |= beside & meets_curves([curve], cells.lower, cells.upper)[:, None]
        wide[:, time] = False
        if not wide.any():
            return cells
        cells = cut_together(cells, wide, time)
    return None


def contradicted_curves(question: Question, orders: Orders) -> dict[Curve, float]:
    """Curves of the boundary of the plane whose conditions the start misses, and by what part of the data's size."""
    start = start_of(question, orders)
    if start is None or not orders.second:
        return {}
    domain = question.domain
    inside = domain.fill(INSIDE, "halton", question.seed)
    inside[:, 2] = domain.lower[2]
    size = float(start(inside).abs().max())  # on the boundary alone it may be nothing but rounding
    found: dict[Curve, float] = {}
    for curve in curves_of(domain):
        points, normals = curve.at(curve.start + curve.measure * ALONG)
        x = np.column_stack([points, np.full(len(points), domain.lower[2])])
        for k, place in enumerate(question.places):
            if place.kind == "interior" or not question.holds(k, curve, x, normals):
                continue
            condition = question.at(k, Sample(torch.from_numpy(x), torch.from_numpy(normals)))
            missed, natural = _missed(condition, start, float(np.subtract(domain.upper, domain.lower)[:2].max()))
            found[curve] = max(found.get(curve, 0.0), float((missed / natural).max()))
            size = max(size, float((condition.values.detach().abs() / natural).max()))
        size = max(size, float(start(torch.from_numpy(x)).abs().max()))
    return {curve: off / size for curve, off in found.items() if MET * size < off < math.inf}


def start_of(question: Question, orders: Orders) -> Start | None:
    """What the channels are given as at the start of time in the plane; None if they are not, each for itself."""
    time, domain = orders.time, question.domain
    if time != 2 or domain.dimension != 3:
        return None
    own = {}
    for k, place in enumerate(question.places):
        rows = question.constraints[k].operator.rows
        if (place.fixed or {}) == {time: domain.lower[time]} and len(rows) == 1 and place.region is None:
            ((*terms,),) = rows
            if len(terms) == 1 and not terms[0].derivatives and terms[0].coefficient == 1:
                own[terms[0].channel] = k
    if set(own) != set(orders.channels):
        return None

    def start(points: Tensor) -> Tensor:
        sample = Sample(points, None)
        return torch.cat([question.at(own[c], sample).values.detach() for c in orders.channels], dim=1)

    return start


def _missed(condition: Constraint, start: Start, length: float) -> tuple[Tensor, Tensor]:
    """What a start misses of a condition, (P, R), and what that is for fields as large as one over a length, (P, R).

    Nothing is known of conditions with other than values and slopes in space: they count as met.
    """
    shape = (condition.values.shape[0], condition.values.shape[1])
    reached, natural = torch.zeros(2, *shape, dtype=torch.float64)
    for probe in condition.expanded():
        for r, request in zip(probe.rows, probe.requests, strict=True):
            for index, weight in request.weights.items():
                if sum(index) > 1 or index[-1] or probe.nodes > 1:
                    return torch.zeros(shape), torch.ones(shape)
                step = probe.points.new_tensor(index) * STEP * length
                ahead = start(probe.points + step)[:, request.channel]
                slope = (ahead - start(probe.points - step)[:, request.channel]) / (2 * STEP * length)
                reached[:, r] += weight.detach() * (slope if sum(index) else ahead)
                natural[:, r] += weight.detach().abs() / length ** sum(index)
    return (reached - condition.values.detach()).abs(), natural.clamp_min(1e-300)
