"""Evening: slabs of time with the same cells in space, where they are nearly the same anyway.

Equal slabs share a factor, so a cell more in each of them costs less than cells of their own in every one: what moves
about in a box asks for small cells everywhere, sooner or later.
"""

from __future__ import annotations

import numpy as np
import sympy as sp

from cnf.bases.cells import Cells
from cnf.operators.coefficients import DataFunction, RowFunction
from cnf.operators.frame import symbol
from cnf.pde.patches.layout import cut_together
from cnf.pde.patches.question import Question

PARTS = ("interior", "boundary", "shape", "slice")
GROWTH = 2.0  # times as many cells at most
WIDER = 1.5  # than another slab's cell at the same place: cut


def is_steady(question: Question, normals: bool = False) -> bool:
    """Whether coefficients do not depend on time, as far as formulas say: then slabs are solved in stages.

    Outward `normals` are known at the points only; whether they pass for steady, as they are, is for the caller to say.
    """
    if question.time is None:
        return False
    clock = symbol(question.space.coordinates[question.time])
    for condition, place in zip(question.constraints, question.places, strict=True):
        for coefficient in (term.coefficient for row in condition.operator.rows for term in row):
            if normals and place.kind in PARTS:  # nothing else is known at the points of these only
                coefficient = coefficient.xreplace(dict.fromkeys(coefficient.atoms(RowFunction), sp.Integer(1)))
            if coefficient.has(clock, DataFunction):
                return False
    return True


def evened(cells: Cells, time: int | None, growth: float = GROWTH) -> Cells:
    """Every slab cut as finely as any slab is at the same place; the same cells if these were too many more.

    That is `growth` times as many.
    """
    if time is None:
        return cells
    found = cells
    others = [k for k in range(cells.dimension) if k != time]
    while True:
        low, high = found.lower[:, others], found.upper[:, others]
        boxes, number = np.unique(np.concatenate([low, high], axis=1), axis=0, return_inverse=True)
        corner, end = boxes[:, : len(others)], boxes[:, len(others) :]
        meet: np.ndarray = np.all((corner[:, None] < end) & (corner < end[:, None]), axis=2)  # (b, b)
        narrowest = np.where(meet[:, :, None], end - corner, np.inf).min(axis=1)  # (b, D - 1)
        wide = np.zeros(found.lower.shape, dtype=bool)
        wide[:, others] = (end - corner)[number.ravel()] > WIDER * narrowest[number.ravel()]
        if not wide.any():
            return found
        found = cut_together(found, wide, time)
        if found.count > growth * cells.count:
            return cells
