"""Carrying: equations that carry detail along instead of smoothing it, and the cells to begin with for these.

What u_tt = c^2 u_xx and u_t + b u_x = 0 start with goes everywhere in time. So cells are everywhere as small as the
data ask for anywhere, and slabs as short as the frequencies that such cells resolve ask for: halving cells again and
again where equations are off would come to the same, after many rounds in which nothing is resolved yet.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from cnf.bases.cells import Cells
from cnf.pde.domains.domain import Sample
from cnf.pde.patches.layout import cut_together
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.question import Question

RESOLVED = 1 / 3  # of the degree: the wave number, in half cells, that polynomials follow to some digits
LONGER = 1.5  # slabs than cells: at the end of a slab, fields are better than between
POINTS = 200  # at which coefficients are looked at
ALIKE = 1.5  # cells are cut if they are wider than the smallest by more


def carries(question: Question, orders: Orders) -> bool:
    """Whether waves travel: of second order in time as asked, or of first order in all coordinates."""
    first = all(orders.along(k) == 1 for k in range(len(orders.coordinates)))
    return orders.time is not None and (question.asked is not None or first)


def carried_cells(question: Question, orders: Orders, cells: Cells, degree: tuple[int, ...], most: int) -> Cells:
    """Cells as small as the smallest of these, and slabs to go with them; the same cells if these were too many."""
    time = orders.time
    assert time is not None
    found, smallest = cells, (cells.upper - cells.lower).min(axis=0)
    while (wide := found.upper - found.lower > ALIKE * smallest)[:, orders.spatial].any():
        if found.count > most:
            return cells
        wide[:, time] = False
        found = cut_together(found, wide, time)
    waves = 2 * RESOLVED * np.array(degree) / smallest  # wave numbers along every coordinate
    frequency = fastest(question, orders, waves)
    length = LONGER * 2 * RESOLVED * degree[time] / frequency if frequency > 0 else math.inf
    whole = (cells.upper - cells.lower)[:, time].max()
    return in_slabs(found, time, length) if found.count * whole / length <= most else cells


def fastest(question: Question, orders: Orders, waves: np.ndarray) -> float:
    """The highest frequency of fields with these wave numbers (D,) in any region."""
    return max(fastest_in(question, orders, waves, area) for area in range(question.areas))


def fastest_in(question: Question, orders: Orders, waves: np.ndarray, area: int) -> float:
    """The same in one region: |A^-1 B| for A u_t + B u = 0, signs left aside."""
    channels, time = len(orders.channels), orders.time
    assert time is not None
    at = Sample(question.domain.random(POINTS, torch.Generator().manual_seed(question.seed)), None)
    moving, staying = np.zeros((2, POINTS, channels, channels))
    row = 0
    for k in question.inside_of(area):
        for probe in question.at(k, at).expanded():
            for r, request in zip(probe.rows, probe.requests, strict=True):
                for index, weight in request.weights.items():
                    size = np.abs(weight.detach().numpy()) * np.prod(np.delete(waves**index, time))
                    (moving if index[time] else staying)[:, row + r, request.channel] += size
        row += len(question.constraints[k].operator.rows)
    regular = np.abs(np.linalg.det(moving)) > 0
    if not regular.any():
        return 0.0
    return float(np.abs(np.linalg.eigvals(np.linalg.solve(moving[regular], staying[regular]))).max())


def in_slabs(cells: Cells, time: int, length: float) -> Cells:
    """Every slab in as many equal ones that none is longer than `length`."""
    parts = np.ceil((cells.upper - cells.lower)[:, time] / length - 1e-9).astype(np.int64).clip(1)  # of every cell
    while (parts > 1).any():
        chosen = np.flatnonzero(parts > 1)
        low, high = cells.lower[chosen, time], cells.upper[chosen, time]
        first = parts[chosen] // 2
        cells = cells.cut(chosen, time, (low + (high - low) * first / parts[chosen]).tolist())
        parts = np.concatenate([parts, parts[chosen] - first])
        parts[chosen] = first
    return cells
