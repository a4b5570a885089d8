"""Climbing in curved solids: the cells to begin with, and during time the slabs, from which degrees are climbed.

During time, a slab is a few problems of the solid (see `solvers/stages.py`), and equal slabs share their factors: so
slabs are equal, and short enough for polynomials in time of a low degree. The degree in time climbs with that in space:
how fields of different degrees approach each other says how far off they are in both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from cnf.bases.cells import Cells
from cnf.bases.edge_functions import Edge
from cnf.pde.domains import Domain, Timed
from cnf.pde.patches.asked import asked_formulas
from cnf.pde.patches.climbing import Climb
from cnf.pde.patches.degrees import DEGREES
from cnf.pde.patches.edges import edge_potentials
from cnf.pde.patches.evening import evened
from cnf.pde.patches.formulas import Meets, follow
from cnf.pde.patches.interfaces import stiffness_of
from cnf.pde.patches.mesh import Mesh
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.probes import Probes
from cnf.pde.patches.question import Question
from cnf.pde.patches.refining import graded, refine
from cnf.pde.patches.rounds import Adapted, Round, clocks, solve_round, worked_since
from cnf.pde.patches.scouting import EACH_DEGREE, halved, in_time, scouted_in_solid
from cnf.pde.patches.solid import shapes_to_cut
from cnf.pde.patches.solid_cells import first_solid_cells
from cnf.pde.patches.solid_edges import straight_edges
from cnf.pde.patches.solid_surface import STEP
from cnf.solution import Solution

COARSE, ROUGH = 10, 1e-2  # times the target, and at most: where degrees are climbed, they follow formulas as well
CLIMBED, LEAST_CLIMBED = 2, 5  # degrees that formulas are followed by, beside the digits asked for, and at least
IN_TIME = 1  # degrees less than in space
SCOUT = 3  # the degree of scouts, in space and in time
DUE_TO_TIME = 0.5  # of the difference to the field before: the last coefficients in time of a field whose slabs are cut


def climb_solid(
    question: Question,
    orders: Orders,
    goal: float,
    report: Callable[[Round], object],
    missed: Callable[[Solution, Probes], float],
    most: int,
    seconds: float,
) -> Adapted:
    """As `adapt`, degree by degree; formulas are followed only so far by the first cells, and further by the degrees.

    If so many cells would take more memory than there is, not even that far.
    """
    started, time = clocks(), orders.time
    base, stiffness = edge_potentials(question, orders), stiffness_of(question)
    edges = straight_edges(question, orders)

    def mesh_of(cells: Cells, degree: Sequence[int]) -> Mesh:
        own = [replace(edge, powers=degree[0]) for edge in edges]
        return Mesh.of(cells, degree, question.domain, (), base, question.regions, stiffness, own)

    def mesh_on(cells: Cells, degree: int) -> Mesh:
        return mesh_of(evened(cells, time, math.inf), degrees_for(degree, time))

    def cut(last: Round, off: float) -> Cells:
        if isinstance(question.domain, Timed):
            shown = in_time(last, question.domain, question.seed)
            if shown.max() > min(DUE_TO_TIME * off, EACH_DEGREE):
                return halved(last.mesh.cells, shown)
        return refine(last, orders, across_time=False)

    climb = Climb(question, orders, mesh_on, cut, goal, Probes.of(question.domain, question.seed), missed)
    begin, formulas = cells_of_solid(question), asked_formulas(question, orders)
    formulas = [replace(f, meets=partial(_away_from, edges, f.meets, question.domain)) for f in formulas]
    degree = min(max(round(CLIMBED - math.log10(goal)), LEAST_CLIMBED), DEGREES[3])
    accuracy = max(min(COARSE * goal, ROUGH), 1e-9)

    def followed(accuracy: float) -> Cells:
        degrees = degrees_for(degree, time)
        return evened(follow(begin, degrees, formulas, accuracy, question.seed, time), time, math.inf)

    cells = followed(accuracy)
    while accuracy < ROUGH and not climb.can_be_judged(cells):
        accuracy *= 10
        cells = followed(accuracy)
    if isinstance(question.domain, Timed):
        scouts = partial(mesh_of, degree=(SCOUT,) * 4)
        climb.refuse_if_too_large(scouts(cells))
        solve = partial(solve_round, question, orders)
        cells = scouted_in_solid(cells, question.domain, question.seed, lambda cells: solve(scouts(cells)))
    return climb.run(cells, report, most, seconds - worked_since(started))


def cells_of_solid(question: Question) -> Cells:
    """As its domain and its regions ask for."""
    cells = first_solid_cells(question.domain, question.regions)
    return graded(cells) if len(shapes_to_cut(question.domain, question.regions)) > 1 else cells


def degrees_for(degree: int, time: int | None) -> tuple[int, ...]:
    """Those along all coordinates if that in space is this one."""
    return (degree,) * 3 if time is None else (*(degree,) * 3, degree - IN_TIME)


def _away_from(edges: Sequence[Edge], meets: Meets, domain: Domain, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Which of the boxes that `meets` picks have no edge with functions of its own: those follow what data do there."""
    found = meets(lower, upper)
    near = 10 * STEP * float(max(np.subtract(domain.upper, domain.lower)))
    for edge in edges:
        found &= ~edge.touches(lower, upper, near)
    return found
