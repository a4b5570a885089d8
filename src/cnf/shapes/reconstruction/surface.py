"""A surface as a function: the solved field near the points, held within bounds of their winding number further off.

A compactly supported field is zero beyond its support, on both sides of the surface, and around tips, at edges and
between few points it bulges already within. The winding number w of the points (`winding`) knows inside from outside
everywhere, only not sharply. So the field may differ from `g = L (c - w)` by no more than a bound, c being what w is at
the points around: about 1/2 on a closed surface, less along its edges, -1/2 around a hollow, whose normals point
inward, 0 on an open sheet:

    up to FREE spacings from the nearest point      any: nothing is changed there, and nothing at any point
    at FIRM spacings                                BOUND L: what is zero here has w within c -+ BOUND
    at FAR spacings, or REACH supports              0: holes and all that is far away are the winding number's, with c
                                                    of +-1/2, so that the lid of a hole with a plane rim is plane

Most of a good field keeps the bound by itself and stays as it was solved. Outside g is L / 2 and inside -L / 2, so L is
twice the distance from the points, and g that distance with its sign; but no less than the support, half of which is
where a field begins to lose its height.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from scipy.spatial import cKDTree

import cnf
from cnf.certificate.certificate import Certificate
from cnf.operators import Operator
from cnf.shapes.clouds.spacing import Spacing, measure_spacing
from cnf.shapes.clouds.winding import WindingNumber
from cnf.solution import Solution
from cnf.threads import map_pieces, one_thread_each

FREE, FIRM, FAR = 0.6, 1.0, 2.4  # spacings from the nearest point: see above
REACH = 0.9  # of the support: beyond, the field has no say
BOUND = 0.1  # of the winding number
LARGEST = 0.7  # |c - w| is not more than this: 1/2, and what the areas of points are off
CLOSED = 0.25  # how far w at a point may be from 1/2 on a closed surface: random areas are off by less
LOOKED, RARE = 1000, 0.05  # points at which that is looked at; share that may be otherwise, around small holes
SOFT = 0.5  # spacings: the width of a point's disc
PIECE = 1 << 15  # places that are looked at together, by one thread
AVERAGED = 24  # points whose values are averaged to the local mean of an attribute


@dataclass(frozen=True, eq=False)
class Guide:
    """What knows inside from outside wherever a field is silent or wrong: points (P, 3) with unit normals (P, 3)."""

    points: np.ndarray
    normals: np.ndarray

    @cached_property
    def spacing(self) -> Spacing:
        return measure_spacing(self.points, self.normals)

    @cached_property
    def winding(self) -> WindingNumber:
        """About 1 inside and 0 outside."""
        return WindingNumber(self.points, self.normals, self.spacing.areas, SOFT * self.spacing.widths)

    @cached_property
    def levels(self) -> np.ndarray:
        """What the winding number is on the surface: -+1/2 for a closed one, (1,), else a mean at each point, (n,)."""
        found = self.winding.values(self.points[:: max(1, len(self.points) // LOOKED)])
        closed = np.copysign(0.5, np.median(found))
        if np.mean(np.abs(found - closed) > CLOSED) <= RARE:
            return np.array([closed])
        return self.means

    @cached_property
    def means(self) -> np.ndarray:
        """The winding number around each point, (n,): less than 1/2 along edges and at tips, more along grooves."""
        return local_mean(self.spacing.tree, self.winding.values(self.points)[:, None], self.points)[:, 0]

    def level(self, x: np.ndarray, apart: np.ndarray) -> np.ndarray:
        """The same at places (P, 3) so many spacings (P,) from the points; nothing jumps, (P,).

        The points around speak for a place near them. Farther off, what the rim of a hole has says nothing of its lid.
        """
        if len(self.levels) > 1:
            return local_mean(self.spacing.tree, self.means[:, None], x)[:, 0]
        levels = np.full(len(x), self.levels[0])
        near = np.flatnonzero(apart < FAR)
        if len(near):
            beyond = local_mean(self.spacing.tree, self.means[:, None], x[near])[:, 0] - self.levels[0]
            levels[near] += fade((apart[near] - FIRM) / (FAR - FIRM)) * beyond
        return levels


@dataclass(frozen=True, eq=False)
class Surface:
    """The zero set of channel 0 of a solution; points (P, D) with normals (P, D), `support` of the field.

    `given`: the guide of a larger cloud, of which these points are a part.
    """

    solution: Solution
    points: np.ndarray
    normals: np.ndarray
    support: float
    counted: list[int] = field(default_factory=lambda: [0])  # evaluations so far
    given: Guide | None = None

    @property
    def certificate(self) -> Certificate:
        return self.solution.certificate

    @cached_property
    def guide(self) -> Guide:
        return self.given or Guide(self.points, self.normals)

    @property
    def spacing(self) -> Spacing:
        return self.guide.spacing

    @property
    def winding(self) -> WindingNumber:
        return self.guide.winding

    @cached_property
    def _operator(self) -> Operator:
        space = self.solution.space
        name = space.channels[0]
        return cnf.operators.stacked([space.operator(name), space.operator(rf"\nabla {name}")])

    def values(self, x: np.ndarray) -> np.ndarray:
        """(P, D) -> (P,): negative inside, positive outside."""
        return self._bounded(x, 1)[:, 0]

    def slopes(self, x: np.ndarray) -> np.ndarray:
        """(P, D) -> (P, 1 + D): value and gradient together."""
        return self._bounded(x, 1 + self.points.shape[1])

    def _bounded(self, x: np.ndarray, columns: int) -> np.ndarray:
        self.counted[0] += len(x)
        # Made once, before several threads ask for them.
        _ = self.guide.levels, self.guide.means, self.winding._sources, self._operator
        return in_pieces(lambda piece: self._bounded_piece(piece, columns), x)

    def _bounded_piece(self, x: np.ndarray, columns: int) -> np.ndarray:
        distance, apart = self.spacing.measure(x)
        apart = np.maximum(apart, FAR / REACH * distance / self.support)
        found = np.zeros((len(x), columns))
        near = apart < FAR
        if near.any():
            with torch.no_grad():
                points = torch.from_numpy(x[near])
                if columns == 1:
                    found[near] = self.solution(points)[:, :1].numpy()
                else:
                    found[near] = self.solution.apply(self._operator, points).numpy()
        scale = np.maximum(self.support, 2 * distance)
        bound = BOUND * scale * loosen(apart)
        off = np.flatnonzero(bound < np.abs(found[:, 0]) + LARGEST * scale)  # elsewhere the bound cannot be reached
        guide = scale[off] * (self.guide.level(x[off], apart[off]) - self.winding.values(x[off]))
        beyond = found[off, 0] - guide
        held = np.abs(beyond) > bound[off]
        at = off[held]
        found[at, 0] = guide[held] + np.sign(beyond[held]) * bound[at]
        if columns > 1:  # bound and scale are taken as constant: this serves Newton's steps, not the certificate
            found[at, 1:] = -scale[at, None] * self.winding.slopes(x[at])[:, 1:]
        return found

    def attributes(self, x: np.ndarray) -> np.ndarray:
        """The other channels, (P, C - 1)."""

        def look(piece: np.ndarray) -> np.ndarray:
            with torch.no_grad():
                return self.solution(torch.from_numpy(piece))[:, 1:].numpy()

        return in_pieces(look, x)


def in_pieces(look: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """What `look` finds at places (P, D), a thread for each piece.

    Cut alike whatever the threads: what the tree of the winding number leaves open depends on the piece.
    """
    with one_thread_each() as threads:
        return np.concatenate(map_pieces(look, np.array_split(x, max(1, -(-len(x) // PIECE))), threads))


def loosen(apart: np.ndarray) -> np.ndarray:
    """How far the bound is from `BOUND` at so many spacings from the points: infinite at FREE, 1 at FIRM, 0 at FAR."""
    with np.errstate(divide="ignore"):
        return fade((apart - FIRM) / (FAR - FIRM)) / (1 - fade((apart - FREE) / (FIRM - FREE)))


def fade(t: np.ndarray) -> np.ndarray:
    """One below 0, zero above 1, twice differentiable in between."""
    t = np.clip(t, 0.0, 1.0)
    return 1 - t**3 * (10 - t * (15 - 6 * t))


def nearby(tree: cKDTree, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest points of each place (P, k) and their weights, which sum to one.

    The weight of a point vanishes as it ceases to be among the nearest, so nothing jumps.
    """
    distance, index = tree.query(x, k=[*range(1, min(AVERAGED + 1, tree.n) + 1)])
    last = distance[:, -1:] * (1 + 1e-9) + 1e-300
    weights = (1 - distance / last) ** 2 + 1e-12
    return index, weights / weights.sum(axis=1, keepdims=True)


def local_mean(tree: cKDTree, values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Values (n, k) at the points of the tree, averaged around each place x: (P, k)."""
    index, weights = nearby(tree, x)
    return np.einsum("pj,pjk->pk", weights, values[index])
