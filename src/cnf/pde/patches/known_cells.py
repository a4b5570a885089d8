"""Known cells: as small as the domain and all that is known in advance ask for, before anything is solved."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cnf.bases.cells import Cells
from cnf.bases.corner_functions import CornerFunctions
from cnf.bases.cover import Cover
from cnf.bases.piecewise import Piecewise
from cnf.pde.patches.asked import asked_formulas
from cnf.pde.patches.carrying import carried_cells, carries, wave_cells
from cnf.pde.patches.degrees import followed_by
from cnf.pde.patches.evening import evened, is_steady
from cnf.pde.patches.formulas import follow
from cnf.pde.patches.jumps import breaks, cut_at
from cnf.pde.patches.mesh import is_aligned
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.question import Question
from cnf.pde.patches.refining import graded
from cnf.pde.patches.shaped import first_cells, swings_on_cut_patches
from cnf.pde.patches.starting import for_the_start
from cnf.solution import Solution

CLOSELY, CLOSEST = 0.1, 1e-9  # of the goal: how closely formulas are followed, and the closest at all
DURING, AT_LEAST = 10.0, 1e-3  # the same in the plane during time, and how closely at least: see `closeness`
DETAIL = 1e-5  # to which formulas are followed at least where detail is carried along: errors add up on the way
MOST_CONDITIONS = 400_000  # at once: of all cells, or of a slab where slabs are solved one after the other
MOST_MARCHED = 4_000_000  # of all slabs
SAME = 1e-9  # of the domain: places closer than that are one


def known_cells(
    question: Question, orders: Orders, corners: Sequence[CornerFunctions], degree: tuple[int, ...], goal: float
) -> Cells:
    """As small as the domain and formulas ask for to reach a goal, before anything is solved."""
    carried = carries(question, orders)
    begin = cells_to_begin_with(question, corners)
    cells = following_formulas(question, orders, cells_of_start(question, begin), degree, goal)
    if question.domain._is_box and question.domain.dimension == 2 and question.time is None and not corners:
        cells = graded(cells)
    functions = math.prod(p + 1 for p in degree) * len(question.space.channels)
    if swings_on_cut_patches(question.domain, orders.swings):
        smallest, usual = ((c.upper - c.lower).min(axis=0) for c in (cells, begin))
        widest = (begin.upper - begin.lower).max(axis=0) * smallest / usual
        cells = wave_cells(question, orders, begin, degree, widest, MOST_MARCHED // (2 * functions))
    elif carried:
        cells = carried_cells(question, orders, cells, degree, 2 * MOST_CONDITIONS // functions)
    elif orders.time is not None:
        cells = for_the_start(question, orders, cells, degree, goal, MOST_MARCHED // (2 * functions))
    return evened(cells, orders.time) if is_steady(question) else cells


def cells_of_start(question: Question, begin: Cells) -> Cells:
    """Those of the field that nonlinear equations start from, if they are `begin` cut further: it needed them."""
    basis = question.state.basis if isinstance(question.state, Solution) else None
    if not isinstance(basis, Piecewise):
        return begin
    cells = basis.cells.cells if isinstance(basis.cells, Cover) else basis.cells
    if cells.dimension != begin.dimension:
        return begin
    around = begin.locate((cells.lower + cells.upper) / 2)
    slack = SAME * (begin.upper.max(axis=0) - begin.lower.min(axis=0))
    inside = (cells.lower >= begin.lower[around] - slack) & (cells.upper <= begin.upper[around] + slack)
    covered = np.bincount(around, (cells.upper - cells.lower).prod(axis=1), minlength=begin.count)
    whole = (begin.upper - begin.lower).prod(axis=1)
    return cells if inside.all() and np.allclose(covered, whole, rtol=SAME) else begin


def following_formulas(question: Question, orders: Orders, cells: Cells, degree: tuple[int, ...], goal: float) -> Cells:
    """Cells cut until polynomials follow all that is known: right-hand sides, coefficients, data."""
    return follow(
        cells,
        followed_by(question.domain, degree),
        asked_formulas(question.shown(), orders),
        closeness(question, carries(question, orders), goal),
        question.seed,
        orders.time,
    )


def closeness(question: Question, carried: bool, goal: float) -> float:
    """To which part of its largest value every formula is followed before anything is solved.

    What polynomials leave of a source oscillates within a cell, and diffusion and time smooth that: in the plane during
    time, fields are a thousand times closer than their sources, and slabs are too dear to do without that.
    """
    if carried:
        return min(max(CLOSELY * goal, CLOSEST), DETAIL)
    if question.time is not None and question.domain.dimension == 3:
        return max(min(DURING * goal, AT_LEAST), CLOSEST)
    return max(CLOSELY * goal, CLOSEST)


def cells_to_begin_with(question: Question, corners: Sequence[CornerFunctions]) -> Cells:
    """As the domain, its regions, corners and kinks of right-hand sides ask for."""
    domain, regions = question.domain, question.regions
    flat = regions.flat_at if regions is not None and is_aligned(domain, regions) else None
    centres = list(dict.fromkeys(c.centre for c in corners))
    cells = first_cells(domain, centres, regions) if flat is None else cut_at(first_cells(domain), flat)
    return cut_at(cells, breaks(question)) if domain._is_box else cells
