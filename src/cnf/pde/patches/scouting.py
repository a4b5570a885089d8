"""Scouting: how long slabs of time may be, found by fields of a low degree in space before one of a high degree is.

In space and time a field is dear, and how fast it changes is known only from the field itself. Polynomials of a low
degree in space follow it roughly, at a small part of the cost, which is enough to see how it changes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cnf.bases.cells import Cells
from cnf.pde.patches.layout import cut_together
from cnf.pde.patches.refining import coefficient_tails
from cnf.pde.patches.rounds import Round

SCOUT = 4  # its degree in space
SLABS = 64  # at most
LEFT = 0.5  # of what is aimed at: what slabs may leave out


def scouted(
    cells: Cells, degree: tuple[int, ...], closely: float, solve: Callable[[Cells, tuple[int, ...]], Round]
) -> Cells:
    """All slabs halved until what coefficients in time leave out is well below `closely` of the largest of all.

    That is the next one, if it is as much smaller than the last as that is smaller than the one before. Slabs of one
    length share a factor, so more of them cost little. The first one does not count: what it starts from is followed
    roughly too, and that settles there. Time is the last coordinate.
    """
    time = len(degree) - 1
    low = tuple(p if k == time else min(p, SCOUT) for k, p in enumerate(degree))
    while 2 * (slabs := len(np.unique(cells.lower[:, time]))) <= SLABS:
        found = solve(cells, low)
        largest = float(found.solution.weights.detach().abs().max())
        later = (cells.lower[:, time] > cells.lower[:, time].min()) | (slabs == 1)
        one, two = (coefficient_tails(found, last=count)[later, time] for count in (1, 2))
        if not (one * one / two > LEFT * closely * largest).any():
            break
        cut = np.zeros((cells.count, cells.dimension), dtype=bool)
        cut[:, time] = True
        cells = cut_together(cells, cut, time)
    return cells
