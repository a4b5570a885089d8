"""Slivers: cells of which little lies inside become part of a neighbour's patch.

In come cells and what they share, out go the patch of every cell and the frames of the patches.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cnf.bases.cover import OUTSIDE


def join_slivers(
    inside: np.ndarray, sliver: np.ndarray, shared: Iterable[tuple[int, int, float]], low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The patch of every cell (n,), and the frames of the patches (patches, D); slivers go where they share most.

    `shared` has two cells and how much they share, `low` and `high` (n, D) frame what lies inside of every cell.
    """
    shared, waiting = tuple(shared), sliver
    goes_to = np.arange(len(inside))
    while waiting.any():  # slivers beside slivers follow those that have joined
        most = np.zeros(len(inside))
        for one, two, size in shared:
            for cell, other in ((one, two), (two, one)):
                if waiting[cell] and not waiting[other] and size > most[cell]:
                    goes_to[cell], most[cell] = goes_to[other], size
        if not most.any():
            break
        waiting = waiting & (most == 0)
    kept = np.flatnonzero(inside & (goes_to == np.arange(len(inside))))
    number = np.full(len(inside), OUTSIDE)
    number[kept] = np.arange(len(kept))
    patch = np.where(inside, number[goes_to], OUTSIDE)
    shape = len(kept), low.shape[1]
    lower, upper = np.full(shape, np.inf), np.full(shape, -np.inf)
    own = np.flatnonzero(inside)
    np.minimum.at(lower, patch[own], low[own])
    np.maximum.at(upper, patch[own], high[own])
    return patch, lower, upper
