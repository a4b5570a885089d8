"""Refining: from how far the patches of a mesh are off to the cells of the next one."""

from __future__ import annotations

import numpy as np

from cnf.bases.cells import Cells
from cnf.bases.piecewise import Piecewise
from cnf.pde.patches.layout import cut_together
from cnf.pde.patches.mesh import Mesh
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.rounds import Round

MARKED = 0.03  # cells that are off by more than that share of the worst are cut
TAIL = 0.5  # a coordinate is cut if its last coefficients are that large beside those of the others
LOW = 2  # degrees along the others: products of high degrees say nothing about directions
STEEPEST = 2.5  # times as wide: cells beside others in the plane, before anything is solved
SMALLEST = 1e-9  # cells, of a domain that is no box


def refine(last: Round, orders: Orders, across_time: bool = True) -> Cells:
    """Cells that are off, cut across the coordinates that their coefficients say; across time only if told so.

    A cell beside a coarser one takes over what that one gets wrong, however small it is: then the coarser one is cut.
    Across time, all cells of a slab are cut together.
    """
    return cut_together(last.mesh.cells, marked_cells(last, orders, across_time), orders.time)


def marked_cells(last: Round, orders: Orders, across_time: bool = True) -> np.ndarray:
    """Across which coordinates to cut every cell, (cells, D) bool."""
    cells, off, time = last.mesh.cells, last.off * last.shares, orders.time
    patches = last.mesh.patches_of_cells
    in_cell = np.where(patches >= 0, off[patches], -1.0)  # (cells, regions)
    patch = patches[np.arange(cells.count), in_cell.argmax(axis=1)]  # the worst of every cell
    marked = in_cell.max(axis=1) > MARKED * off.max()  # (cells,)
    tails = coefficient_tails(last)[patch]  # (cells, D)
    if time is not None and not across_time:
        tails[:, time] = 0.0
    cut = marked[:, None] & (tails >= TAIL * tails.max(axis=1, keepdims=True))
    cut = _coarser_first(last.mesh, marked, cut, time)
    at_corner = cut.any(axis=1) & (patch >= 0) & (last.mesh.at_corner[patch] >= 0)
    width = cells.upper - cells.lower
    cut[at_corner] = (width > 0.75 * width.max(axis=1, keepdims=True))[at_corner]  # r^lambda has no direction
    if last.mesh.shaped is not None:
        cut &= width > SMALLEST * np.subtract(cells.upper.max(axis=0), cells.lower.min(axis=0)).max()
    return cut


def graded(cells: Cells) -> Cells:
    """The same with neighbours at most twice as wide as each other.

    What a narrow source makes of a field fades with the distance from it, not at once: without the cells between,
    polynomials of wide cells beside narrow ones follow it badly, and it takes many rounds to find that out.
    """
    while True:
        width = cells.upper - cells.lower
        cut = np.zeros(width.shape, dtype=bool)
        for first, second in [(face.first, face.second) for face in cells.faces() if face.second >= 0]:
            cut[first] |= width[first] > STEEPEST * width[second]
            cut[second] |= width[second] > STEEPEST * width[first]
        if not cut.any():
            return cells
        cells = cut_together(cells, cut, None)


def _coarser_first(mesh: Mesh, marked: np.ndarray, cut: np.ndarray, time: int | None) -> np.ndarray:
    """Marked cells with a coarser neighbour are left alone, and the neighbour is cut along their common face."""
    width = mesh.cells.upper - mesh.cells.lower
    found, used = cut.copy(), mesh.patches_of_cells.max(axis=1) >= 0
    for face in mesh.faces:
        if face.second < 0 or face.axis == time or not (used[face.first] and used[face.second]):
            continue
        for cell, other in ((face.first, face.second), (face.second, face.first)):
            wider = width[other] > 1.5 * width[cell]
            wider[face.axis] = False
            if marked[cell] and wider.any():
                found[cell] = False
                found[other] |= wider
    return found


def coefficient_tails(of: Round, last: int = 2) -> np.ndarray:
    """The largest of the last two coefficients (or so many) along every coordinate, low in the others, (patches, D)."""
    weights = np.abs(of.solution.weights.detach().numpy())
    weights = weights.reshape(of.mesh.patches.count, -1, of.channels).max(axis=2)
    assert isinstance(of.field.basis, Piecewise)
    exponents = of.field.basis.snapshot().exponents  # (n, D)
    if of.field.basis.local is not None:  # they have no direction
        return np.ones((of.mesh.patches.count, exponents.shape[1]))
    weights = weights[:, : len(exponents)]
    found = []
    for k, p in enumerate(of.mesh.degree):
        low = np.delete(exponents, k, axis=1).max(axis=1, initial=0) <= LOW
        found.append(weights[:, (exponents[:, k] > p - last) & low].max(axis=1))
    return np.stack(found, axis=1) + 1e-300
