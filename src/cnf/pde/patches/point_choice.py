"""Choosing points inside patches: grids over what lies inside, and of these where polynomials differ most.

In come the patches of a planar domain, out go points (P, 2) of each. Grids of many patches are looked at together,
those of solids as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
from numpy.polynomial import chebyshev
from scipy.linalg import lapack

from cnf.pde.patches.layout import gauss, tensor_grid
from cnf.pde.patches.shaped import Shaped

if TYPE_CHECKING:
    from cnf.pde.patches.solid import Solid

CANDIDATES = 3  # per coordinate and degree
HAIR = 1e-3  # of a frame: how far inside points along the boundary are
SEEN = 1e-3  # of the largest: polynomials that are smaller than this on a patch, beside what they are on its frame
TOGETHER = 2**14  # points looked at in one go: more have all holes of a domain near them


def chosen_inside(shaped: Shaped, counts: Sequence[int], usual: Sequence[int]) -> list[np.ndarray]:
    """`counts[k]` points of the inside of patch k; whole ones have a grid of `usual` (2,) if that is how many.

    At these points polynomials of the `usual` degrees are all told apart, as far as there are as many. In patches that
    are cut, the lowest ones are, as many as there are points, in a fraction of the time.
    """
    square = usual[0] * usual[1]
    plain = [bool(whole) and count == square for whole, count in zip(shaped.whole, counts, strict=True)]
    patches = np.flatnonzero(~np.array(plain))
    found: dict[int, np.ndarray] = {}
    regular = np.flatnonzero(plain)
    if len(regular):
        grids = tensor_grid(shaped.cover.lower[regular], shaped.cover.upper[regular], usual)
        found |= dict(zip(regular.tolist(), grids, strict=True))
    tried = [[more * CANDIDATES * (n + 1) for n in usual] for more in (1, 2, 4)]
    candidates = grid_inside(shaped, patches, tried, [2 * counts[k] for k in patches.tolist()])
    for patch, own in zip(patches.tolist(), candidates, strict=True):
        low, high = shaped.cover.lower[patch], shaped.cover.upper[patch]
        unit = (own - (low + high) / 2) / ((high - low) / 2)
        found[patch] = own[np.sort(_most_different(unit, counts[patch], usual, bool(shaped.whole[patch])))]
    return [found[patch] for patch in range(shaped.cover.count)]


def points_to_start_from(shaped: Shaped, degree: Sequence[int], seen: bool = False) -> list[np.ndarray]:
    """As many points (P, 2) of every patch as it has functions of space, from which these follow best.

    Nearly Fekete's points, of those inside and along the boundary: polynomials between them stay within some ten times
    what they are at the points. So they do only if each point is chosen by functions that are orthogonal over what lies
    inside (over the frame of a cut patch, it is hundreds of times), and if the boundary has some: the field is steep
    there where it starts from data that contradict each other.

    Polynomials that are next to nothing on a cut patch have points too, unless only what is `seen` there has: what such
    a polynomial is multiplied by is rounded to anything, and waves would carry that on from slab to slab.
    """
    functions = (degree[0] + 1) * (degree[1] + 1) - 1
    tried = [[more * CANDIDATES * (p + 2) for p in degree] for more in (1, 2, 4)]
    unit = tensor_grid(-np.ones((1, 2)), np.ones((1, 2)), tried[0])[0]
    unit = unit[_nearly_fekete(unit, degree, functions)]  # whole patches all have the same ones
    centre, half = (shaped.cover.lower + shaped.cover.upper) / 2, (shaped.cover.upper - shaped.cover.lower) / 2
    found = [*(centre[:, None] + half[:, None] * unit)]
    cut = np.flatnonzero(~shaped.whole)
    for patch, own in zip(cut.tolist(), grid_inside(shaped, cut, tried, [2 * functions] * len(cut)), strict=True):
        low, high = shaped.cover.lower[patch], shaped.cover.upper[patch]
        along = [run.at((gauss(CANDIDATES * (max(degree) + 1)) + 1) / 2) for run in shaped.runs[patch]]
        if along:
            edge = np.concatenate([points - HAIR * (high - low) * normals for points, normals in along])
            here = (edge >= low).all(axis=1) & (edge <= high).all(axis=1) & (shaped.cover.locate(edge) == patch)
            own = np.concatenate([own, edge[here & shaped.inside(edge)]])
        found[patch] = own[_nearly_fekete((own - centre[patch]) / half[patch], degree, functions, seen)]
    return found


def _nearly_fekete(unit: np.ndarray, degree: Sequence[int], functions: int, seen: bool = False) -> np.ndarray:
    """Numbers of as many of the points (P, 2) of the reference cell as there are functions, the lowest of them.

    Or as many as combinations of these are `seen` at the points.
    """
    products = _products(unit, degree)[:, :functions]
    if seen:
        orthogonal, sizes, _ = np.linalg.svd(products, full_matrices=False)
        orthogonal = orthogonal[:, sizes > SEEN * sizes[0]]
    else:
        orthogonal, _ = np.linalg.qr(products)
    _, pivot = scipy.linalg.qr(orthogonal.T, mode="r", pivoting=True)
    return np.sort(pivot[: orthogonal.shape[1]])


def grid_inside(
    shaped: Shaped | Solid, patches: np.ndarray, tried: Iterable[Sequence[int]], least: Sequence[float]
) -> list[np.ndarray]:
    """For every patch what lies inside of a grid over its frame: the first of those `tried` that has `least` points.

    Of patches that are too thin for all of them, the last one.
    """
    found: dict[int, np.ndarray] = {}
    enough = dict(zip(patches.tolist(), least, strict=True))
    for sizes in tried:
        waiting = np.array([k for k in patches.tolist() if k not in found or len(found[k]) < enough[k]], dtype=np.int64)
        step = max(1, TOGETHER // math.prod(sizes))
        for start in range(0, len(waiting), step):
            some = waiting[start : start + step]
            grid = tensor_grid(shaped.cover.lower[some], shaped.cover.upper[some], sizes)  # (n, P, D)
            flat = grid.reshape(-1, len(sizes))
            owner = np.repeat(some, grid.shape[1])
            own = ((shaped.cover.locate(flat) == owner) & shaped.inside(flat)).reshape(grid.shape[:2])
            found |= {k: points[kept] for k, points, kept in zip(some.tolist(), grid, own, strict=True)}
    return [found[k] for k in patches.tolist()]


def _most_different(unit: np.ndarray, count: int, usual: Sequence[int], all_told: bool) -> np.ndarray:
    """Numbers of `count` of the points (P, 2) of the reference cell, or of all if there are no more."""
    raised = 0
    while (usual[0] + raised) * (usual[1] + raised) < count:
        raised += 1
    degrees = [n - 1 + raised for n in usual]
    products = _products(unit, degrees)
    order = np.add.outer(np.arange(degrees[0] + 1), np.arange(degrees[1] + 1)).ravel().argsort(kind="stable")
    if all_told:  # Fekete's points, nearly: each as far as can be from what the others see
        if count == len(order) - 1:  # patches do without the highest product, for which one point would be kept
            products = products[:, order[:-1]]
        _, pivot = scipy.linalg.qr(products.T, mode="r", pivoting=True)
        return pivot[: max(count, 0)]
    chosen, numbers = order[: max(count, 0)], np.arange(len(unit))  # Leja's points: each is where the next one is large
    for k, swapped in enumerate(lapack.dgetrf(products[:, chosen])[1] if products.size and len(chosen) else ()):
        numbers[[k, swapped]] = numbers[[swapped, k]]
    return numbers[: len(chosen)]


def _products(unit: np.ndarray, degrees: Sequence[int]) -> np.ndarray:
    """Products of Chebyshev polynomials of both coordinates at points (P, 2), that of the highest degrees last."""
    tables = [chebyshev.chebvander(unit[:, k], degrees[k]) for k in (0, 1)]
    return (tables[0][:, :, None] * tables[1][:, None, :]).reshape(len(unit), -1)
