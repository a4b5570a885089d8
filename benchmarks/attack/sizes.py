"""Sizes: what an error of a condition is compared with, worked out from the terms by hand.

s = sqrt(sum over terms of (|w| / prod_k l_k^alpha_k)^2), with w the coefficient (under an integral: the integral of
|w|) and l_k the extent of all points; the natural size is s times the lower median of |g| / s over conditions that ask
for something, among those on the same channels, directly or through others. An error is relative to the larger of |g|
and that.
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
    amplitudes = np.zeros(len(parts))
    for group in np.unique(tied(parts)):
        own = np.flatnonzero(tied(parts) == group)
        amplitudes[own] = amplitude([parts[i][2] for i in own], [sizes[i] for i in own])
    return [np.maximum(np.abs(values), s * a) for (_, _, values), s, a in zip(parts, sizes, amplitudes, strict=True)]


def tied(parts: Sequence[tuple[Asked, np.ndarray, np.ndarray]]) -> np.ndarray:
    """A number for each part, the same for parts that share channels: powers of the matrix of who shares with whom."""
    channels = [{term.channel for row in asked.rows for term in row} for asked, _, _ in parts]
    shares = np.array([[float(bool(a & b)) for b in channels] for a in channels])
    reached = np.linalg.matrix_power(shares + np.eye(len(parts)), len(parts)) > 0
    return reached.argmax(axis=1)  # the first one that is reached


def amplitude(values: Sequence[np.ndarray], sizes: Sequence[np.ndarray]) -> float:
    """What conditions with these right-hand sides typically ask of the field."""
    sides, flat = (np.concatenate([np.abs(a).ravel() for a in arrays]) for arrays in (values, sizes))
    asking = (sides > NOTHING * sides.max()) & (flat > 0)
    found = np.sort(sides[asking] / flat[asking])
    return float(found[(found.size - 1) // 2]) if found.size else 1.0
