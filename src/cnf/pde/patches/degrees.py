"""Degrees: those of the polynomials to begin with, and of a second opinion, by the coordinates of a domain.

In space and time cells have so many functions that the degree decides what a field costs: there, it is chosen with the
cells that follow the known formulas, by the work that both of them make.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from cnf.bases.cells import Cells
from cnf.pde.domains import Domain, Timed
from cnf.pde.patches.opinions import FINER

DEGREES = {1: 16, 2: 12, 3: 8, 4: 6}  # by dimension
EASY, LOWER = 1e-5, {2: 8, 3: 6}  # a target from which on lower degrees do in boxes, and these by dimension
DURING = {2: 4, 3: 3}  # in time, by the dimension of space: more slabs are cheaper there than more degrees
STEADY = 6  # in time for boxes of the plane whose slabs are solved in stages, as many as the degree
CARRIED = {2: (14, 14), 3: (8, 5), 4: (6, 3)}  # in space and in time, where equations carry detail along
MANY = 500  # cells
TRIED = range(8, 3, -1)  # degrees in space, beside time: more take seconds for one cell


def degrees_on(domain: Domain, carried: bool = False, steady: bool = False, goal: float = 0.0) -> tuple[int, ...]:
    """Along every coordinate; what is carried along varies in time as it does in space.

    In stages, a slab over a box of the plane is a few problems of the plane, with the degree that these have.
    """
    if goal >= EASY and domain._is_box and not isinstance(domain, Timed) and domain.dimension in LOWER:
        return (LOWER[domain.dimension],) * domain.dimension
    if carried:
        in_space, in_time = CARRIED[domain.dimension]
        return (*(in_space,) * (domain.dimension - 1), in_time)
    if steady and domain._is_box and isinstance(domain, Timed) and domain.dimension == 3:
        return (DEGREES[2], DEGREES[2], STEADY)
    found = [DEGREES[domain.dimension]] * domain.dimension
    if isinstance(domain, Timed):
        found[-1] = min(found[-1], DURING.get(domain.dimension - 1, found[-1]))
    return tuple(found)


def followed_by(domain: Domain, degree: Sequence[int]) -> list[int]:
    """The degrees of polynomials that formulas are followed by before anything is solved.

    Those of what the equations make of the field; in space those of the second opinion, which comes at once: a degree
    more costs less there than all the cells that would make up for it. In space and time those of the field itself,
    which starts as its formula says.
    """
    if domain.dimension == 4:
        return list(degree)
    spare = FINER if domain.dimension == 3 and not isinstance(domain, Timed) else 0
    found = [p - 2 + spare for p in degree]
    if isinstance(domain, Timed) and domain.dimension == 3:
        found[-1] += 1  # equations are of first order in time
    return found


def begin_with(
    usual: tuple[int, ...], channels: int, cells_for: Callable[[tuple[int, ...]], Cells]
) -> tuple[tuple[int, ...], Cells]:
    """Degrees along the coordinates and cells, where `cells_for` are those that some degrees take.

    In space and time, of several degrees in space the one that makes least work: the cube of what a cell has of
    functions, for every cell, and as much again for every step in which they are merged. Elsewhere the `usual` ones.
    """
    if len(usual) < 4:
        return usual, cells_for(usual)
    best, least = None, math.inf
    for p in TRIED:
        degree = (*(p,) * (len(usual) - 1), usual[-1])
        cells = cells_for(degree)
        functions = float(channels * math.prod(n + 1 for n in degree))
        work = cells.count * (1 + math.log2(cells.count)) * functions**3
        if work < least:
            best, least = (degree, cells), work
        if cells.count > MANY:
            break  # lower ones take more and more of them
    assert best is not None
    return best
