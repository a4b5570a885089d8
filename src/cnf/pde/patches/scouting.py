"""Scouting: how long slabs of time may be, found by fields of a low degree in space before one of a high degree is.

In space and time a field is dear, and how fast it changes is known only from the field itself. Polynomials of a low
degree in space follow it roughly, at a small part of the cost, which is enough to see how it changes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.polynomial import chebyshev

from cnf.bases.cells import Cells
from cnf.pde.domains import Timed
from cnf.pde.patches.layout import cut_together, gauss
from cnf.pde.patches.refining import coefficient_tails
from cnf.pde.patches.rounds import Round

SCOUT = 4  # its degree in space
SLABS, SLABS_OF_SOLIDS = 64, 16  # at most
LEFT = 0.5  # of what is aimed at: what slabs may leave out
EACH_DEGREE = 1e-2  # of the field: its last coefficient in time of degree 3, from which on every degree gains a digit
HARDLY, SMALL = 0.5, 0.1  # of the last coefficients, if they are small: what is left more shows patches, not the field
MANY_SLABS, FEW, MARKED = 8, 0.25, 0.1  # slabs, a share of them, and of the largest coefficient in any
LOOKED_AT = 500  # points of space at which fields are followed through time


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
        cells = halved(cells)
    return cells


def scouted_in_solid(cells: Cells, domain: Timed, seed: int, solve: Callable[[Cells], Round]) -> Cells:
    """All slabs halved until each degree in time gains about as much as one in space does, by fields of low degree.

    Coefficients of patches that are cut say little, for they are also those of what lies outside: values inside do.
    What these show at all lengths of slabs is that such patches fit their equations anew in every slab.
    """
    before, coarser = np.inf, cells
    while True:
        found = float(np.max(in_time(solve(cells), domain, seed)))
        if HARDLY * before < found < SMALL:
            return coarser
        if found <= EACH_DEGREE or 2 * len(np.unique(cells.lower[:, -1])) > SLABS_OF_SOLIDS:
            return cells
        before, coarser, cells = found, cells, halved(cells)


def in_time(found: Round, domain: Timed, seed: int) -> np.ndarray:
    """The last coefficients of a field in time, slab by slab, (slabs,): root mean squares, relative to its own."""
    degree = found.mesh.degree[-1]
    place = domain.space.fill(LOOKED_AT, "halton", seed).numpy()
    starts, ends = (np.unique(a[:, -1]) for a in (found.mesh.cells.lower, found.mesh.cells.upper))
    moments = (starts + ends)[:, None] / 2 + (ends - starts)[:, None] / 2 * gauss(degree + 1)  # (slabs, q + 1)
    points = np.column_stack([np.tile(place, (moments.size, 1)), np.repeat(moments.ravel(), len(place))])
    with torch.no_grad():
        values = found.solution(torch.from_numpy(points)).numpy()
    values = values.reshape(*moments.shape, -1, values.shape[1])  # (slabs, q + 1, P, C)
    size = np.sqrt(np.square(values).mean(axis=(0, 1, 2))).max()
    last = np.linalg.inv(chebyshev.chebvander(gauss(degree + 1), degree))[-1]
    return np.sqrt(np.square(np.einsum("m,smpc->spc", last, values)).mean(axis=1).max(axis=1)) / (size or 1.0)


def halved(cells: Cells, shown: np.ndarray | None = None) -> Cells:
    """With all slabs cut in two; if they are many, only those few in which as much is `shown` (slabs,) as in any.

    Equal slabs share a factor, those of every other length have one of their own.
    """
    cut = np.zeros((cells.count, cells.dimension), dtype=bool)
    cut[:, -1] = True
    if shown is not None and len(shown) >= MANY_SLABS:
        marked = shown > MARKED * shown.max()
        if marked.mean() <= FEW:
            cut[:, -1] = np.isin(cells.lower[:, -1], np.unique(cells.lower[:, -1])[marked])
    return cut_together(cells, cut, cells.dimension - 1)
