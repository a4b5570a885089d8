"""Sizes: what an error of a condition is compared with, worked out from the terms by hand.

s = sqrt(sum over terms of (|w| / prod_k l_k^alpha_k)^2), with w the coefficient (under an integral: the integral of
|w|) and l_k the extent of all points; the natural size is s times the lower median of |g| / s over conditions that ask
for something. An error is relative to the larger of |g| and that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from benchmarks.attack.conditions import Asked, Term
from benchmarks.attack.quadrature import integrate

NOTHING = 1e-13


def row_sizes(asked: Asked, points: np.ndarray, extent: np.ndarray) -> np.ndarray:
    """s of every condition, (P, R)."""
    found = np.zeros((points.shape[0], len(asked.rows)))
    for r, row in enumerate(asked.rows):
        merged: dict[tuple, list[Term]] = defaultdict(list)
        for term in row:
            merged[term.channel, term.index, term.moved, term.over].append(term)
        for (_, index, _, over), terms in merged.items():
            if over:
                weight = np.array([_mass(terms, point, over, asked) for point in points])
            else:
                weight = np.abs(sum(term.coefficient(points) for term in terms))
            found[:, r] += (weight / np.prod(extent ** np.array(index, dtype=float))) ** 2
    return np.sqrt(found)


def _mass(terms: Sequence[Term], point: np.ndarray, over: tuple, asked: Asked) -> float:
    """The integral of the size of the coefficient."""
    axes = [axis for axis, _, _ in over]

    def size(nodes: np.ndarray) -> np.ndarray:
        moved = np.repeat(point[None], nodes.shape[0], axis=0)
        moved[:, axes] = nodes
        return np.abs(sum(term.coefficient(moved) for term in terms))

    upper = [point[a] if high is None else high for a, _, high in over]
    breaks = [asked.breaks.get(a, []) for a in axes]
    return abs(integrate(size, [low for _, low, _ in over], upper, breaks, 0.0)[0])


def scales(parts: Sequence[tuple[Asked, np.ndarray, np.ndarray]]) -> list[np.ndarray]:
    """max(|g|, natural size) of every condition, (P, R) for each (asked, points, values)."""
    every = np.concatenate([points for _, points, _ in parts])
    extent = every.max(axis=0) - every.min(axis=0)
    extent = np.where(extent > 0, extent, 1.0)
    sizes = [row_sizes(asked, points, extent) for asked, points, _ in parts]
    sides = np.concatenate([np.abs(values).ravel() for _, _, values in parts])
    flat = np.concatenate([s.ravel() for s in sizes])
    asking = (sides > NOTHING * sides.max()) & (flat > 0)
    amplitudes = np.sort(sides[asking] / flat[asking])
    amplitude = amplitudes[(amplitudes.size - 1) // 2] if amplitudes.size else 1.0
    return [np.maximum(np.abs(values), s * amplitude) for (_, _, values), s in zip(parts, sizes, strict=True)]
