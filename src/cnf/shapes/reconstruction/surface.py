"""A surface as a function: the solved field near the points, a smooth estimate of the distance far from them.

A compactly supported field is zero beyond its support, on both sides of the surface. So that the sign is right
everywhere and holes close, it fades with the distance to the nearest point into the mean distance to the tangent planes
of the points around: inside the first part of the support nothing is changed, and nothing at any point.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from scipy.spatial import cKDTree

import cnf
from cnf.operators import Operator
from cnf.solution import Solution

NEAR, FAR = 0.5, 0.9  # of the support: from where to where the field fades into the planes
PLANES = 24  # tangent planes that speak for a place far from the points


@dataclass(frozen=True, eq=False)
class Surface:
    """The zero set of channel 0 of a solution; points (P, D) with normals (P, D), `support` of the field."""

    solution: Solution
    points: np.ndarray
    normals: np.ndarray
    support: float
    counted: list[int] = field(default_factory=lambda: [0])  # evaluations so far

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(self.points)

    @cached_property
    def _operator(self) -> Operator:
        space = self.solution.space
        name = space.channels[0]
        return cnf.operators.stacked([space.operator(name), space.operator(rf"\nabla {name}")])

    def values(self, x: np.ndarray) -> np.ndarray:
        """(P, D) -> (P,): negative inside, positive outside."""
        return self._faded(x, 1)[:, 0]

    def slopes(self, x: np.ndarray) -> np.ndarray:
        """(P, D) -> (P, 1 + D): value and gradient together."""
        return self._faded(x, 1 + self.points.shape[1])

    def _faded(self, x: np.ndarray, columns: int) -> np.ndarray:
        self.counted[0] += len(x)
        distance = self._tree.query(x)[0]
        share = fade((distance / self.support - NEAR) / (FAR - NEAR))  # of the field
        found = np.zeros((len(x), columns))
        near = share > 0
        if near.any():
            with torch.no_grad():
                points = torch.from_numpy(x[near])
                if columns == 1:
                    found[near] = self.solution(points)[:, :1].numpy()
                else:
                    found[near] = self.solution.apply(self._operator, points).numpy()
        far = share < 1
        if far.any():
            planes = plane_distance(self._tree, self.points, self.normals, x[far])[:, :columns]
            # The share is taken as constant in the gradient: this serves Newton's steps, not the certificate.
            found[far] = share[far, None] * found[far] + (1 - share[far, None]) * planes
        return found

    def attributes(self, x: np.ndarray) -> np.ndarray:
        """The other channels, (P, C - 1)."""
        with torch.no_grad():
            return self.solution(torch.from_numpy(x))[:, 1:].numpy()


def fade(t: np.ndarray) -> np.ndarray:
    """One below 0, zero above 1, twice differentiable in between."""
    t = np.clip(t, 0.0, 1.0)
    return 1 - t**3 * (10 - t * (15 - 6 * t))


def nearby(tree: cKDTree, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest points of each place (P, k) and their weights, which sum to one.

    The weight of a point vanishes as it ceases to be among the nearest, so nothing jumps.
    """
    distance, index = tree.query(x, k=[*range(1, min(PLANES + 1, tree.n) + 1)])
    last = distance[:, -1:] * (1 + 1e-9) + 1e-300
    weights = (1 - distance / last) ** 2 + 1e-12
    return index, weights / weights.sum(axis=1, keepdims=True)


def local_mean(tree: cKDTree, values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Values (n, k) at the points of the tree, averaged around each place x: (P, k)."""
    index, weights = nearby(tree, x)
    return np.einsum("pj,pjk->pk", weights, values[index])


def plane_distance(tree: cKDTree, points: np.ndarray, normals: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Weighted mean of the signed distances to the tangent planes of the nearest points, and of their normals.

    (P, D) -> (P, 1 + D).
    """
    index, weights = nearby(tree, x)
    heights = np.einsum("pkd,pkd->pk", x[:, None] - points[index], normals[index])
    normal = np.einsum("pk,pkd->pd", weights, normals[index])
    return np.concatenate([np.einsum("pk,pk->p", weights, heights)[:, None], normal], axis=1)
