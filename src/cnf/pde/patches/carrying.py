"""Carrying: equations that carry detail along instead of smoothing it, and the cells to begin with for these.

What u_tt = c^2 u_xx and u_t + b u_x = 0 start with goes everywhere in time. So cells are everywhere as small as the
data ask for anywhere, and slabs as short as the frequencies that such cells resolve ask for: halving cells again and
again where equations are off would come to the same, after many rounds in which nothing is resolved yet.

Where a boundary cuts patches, what these do not resolve grows: frequencies of cut patches are not quite real. Radau's
points damp what goes to and fro several times in a slab. So slabs are long there, by how wide cells are, and shorter
ones take smaller cells: what is resolved in time is resolved in space, and all else is damped.
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
LONGER_IF_CUT = 4.8  # the same where a boundary cuts patches: half as long, a triangle is stable; a third, it grows
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


def wave_cells(
    question: Question,
    orders: Orders,
    begin: Cells,
    degree: tuple[int, ...],
    widest: np.ndarray,
    most: int,
) -> Cells:
    """Cells where a boundary cuts patches: those to `begin` with, cut until they are about as narrow as `widest` (D,).

    Or until they are `most`. Slabs are as short as such cells allow; a single one may be shorter, nothing grows in it.
    """
    time, found = orders.time, begin
    assert time is not None
    whole = question.domain.upper[time] - question.domain.lower[time]
    while True:
        width = found.upper - found.lower
        frequency = slowest(question, orders, 2 * RESOLVED * np.array(degree) / width.max(axis=0))
        length = LONGER_IF_CUT * 2 * RESOLVED * degree[time] / frequency if frequency > 0 else math.inf
        parts = max(1, math.floor(whole / length))
        cut = width > ALIKE * widest
        cut[:, time] = False
        if not cut.any() or found.count * parts > most:
            return in_slabs(found, time, whole / parts)
        found = cut_together(found, cut, time)


def slowest(question: Question, orders: Orders, waves: np.ndarray) -> float:
    """The lowest of the frequencies that fields with these wave numbers (D,) have at some place."""
    return float(min(frequencies_in(question, orders, waves, area).min() for area in range(question.areas)))


def fastest(question: Question, orders: Orders, waves: np.ndarray) -> float:
    """The highest frequency of fields with these wave numbers (D,) in any region."""
    return float(max(frequencies_in(question, orders, waves, area).max() for area in range(question.areas)))


def frequencies_in(question: Question, orders: Orders, waves: np.ndarray, area: int) -> np.ndarray:
    """At some points of a region, (P,), 0 if there are none: |A^-1 B| for A u_t + B u = 0, signs left aside."""
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
        return np.zeros(1)
    return np.abs(np.linalg.eigvals(np.linalg.solve(moving[regular], staying[regular]))).max(axis=1)


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
