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
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from scipy.spatial import cKDTree

import cnf
from cnf.certificate.certificate import Certificate
from cnf.operators import Operator
from cnf.shapes.clouds.spacing import Spacing, measure_spacing
from cnf.shapes.clouds.winding import ROUGH, WindingNumber
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
Winding = Callable[[np.ndarray], np.ndarray]  # (P, 3) -> (P,)
AVERAGED = 24  # points whose values are averaged to the local mean of an attribute


@dataclass(frozen=True, eq=False)
class Guide:
    """What knows inside from outside wherever a field is silent or wrong: a winding number, about 1 inside, 0 outside.

    `means` (n,): what it is around each point: 1/2 on average, less along edges and at tips, more along grooves.
    `closed`: -+1/2 if the surface is closed, else None. `rows` (n,): which points of the cloud it looks at; None: all.
    """

    spacing: Spacing
    winding: WindingNumber
    means: np.ndarray
    closed: float | None
    rows: np.ndarray | None = None

    def level(self, x: np.ndarray, apart: np.ndarray) -> np.ndarray:
        """The same at places (P, 3) so many spacings (P,) from the points; nothing jumps, (P,).

        The points around speak for a place near them. Farther off, what the rim of a hole has says nothing of its lid.
        """
        if self.closed is None:
            return local_mean(self.spacing.tree, self.means[:, None], x)[:, 0]
        levels = np.full(len(x), self.closed)
        near = np.flatnonzero(apart < FAR)
        if len(near):
            beyond = local_mean(self.spacing.tree, self.means[:, None], x[near])[:, 0] - self.closed
            levels[near] += fade((apart[near] - FIRM) / (FAR - FIRM)) * beyond
        return levels

    def near(self, low: np.ndarray, high: np.ndarray) -> Guide:
        """The same for places whose nearest points lie in a box, corners (3,): it looks for them among these alone."""
        rows = rows_in_box(self.spacing.points, low, high)
        return Guide(self.spacing.take(rows), self.winding, self.means[rows], self.closed, rows)


def make_guide(points: np.ndarray, normals: np.ndarray) -> Guide:
    """That of points (P, 3) with unit normals (P, 3)."""
    with one_thread_each():  # many small products of matrices
        return _make_guide(points, normals)


def _make_guide(points: np.ndarray, normals: np.ndarray) -> Guide:
    spacing = measure_spacing(points, normals)
    winding = WindingNumber(points, normals, spacing.areas, SOFT * spacing.widths)
    winding = replace(winding, gathered=winding.sources)
    found = winding.values(points[:: max(1, len(points) // LOOKED)])
    half = np.copysign(0.5, np.median(found))
    closed = float(half) if np.mean(np.abs(found - half) > CLOSED) <= RARE else None
    order = winding.sources.order  # pieces of neighbours: sums of places far apart are long
    there, means = np.empty((len(points), 1)), np.empty(len(points))
    there[order, 0] = in_pieces(winding.values, points[order])
    means[order] = in_pieces(lambda piece: local_mean(spacing.tree, there, piece)[:, 0], points[order])
    return Guide(spacing, winding, means, closed)


def rows_in_box(points: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Numbers of the points (P, 3) between two corners (3,)."""
    within = np.ones(len(points), dtype=bool)
    for axis in range(points.shape[1]):
        within &= (points[:, axis] >= low[axis]) & (points[:, axis] <= high[axis])
    return np.flatnonzero(within)


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
        return self.given or make_guide(self.points, self.normals)

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

    def values_alone(self, x: np.ndarray) -> np.ndarray:
        """The same, whatever else is asked with it: of the winding number's sums, too, nothing depends on that."""
        return self._bounded(x, 1, self.winding.values_alone)[:, 0]

    def slopes(self, x: np.ndarray) -> np.ndarray:
        """(P, D) -> (P, 1 + D): value and gradient together."""
        return self._bounded(x, 1 + self.points.shape[1])

    def _bounded(self, x: np.ndarray, columns: int, winding: Winding | None = None) -> np.ndarray:
        self.counted[0] += len(x)
        _ = self.guide, self.spacing.tree, self._operator  # made once, before several threads ask for them
        return in_pieces(lambda piece: self._bounded_piece(piece, columns, winding or self.winding.values), x)

    def _bounded_piece(self, x: np.ndarray, columns: int, winding: Winding) -> np.ndarray:
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
        likely = scale[off] * (self.guide.level(x[off], apart[off]) - self.winding.estimate(x[off]))
        off = off[np.abs(found[off, 0] - likely) > bound[off] - ROUGH * scale[off]]  # elsewhere it is not
        guide = scale[off] * (self.guide.level(x[off], apart[off]) - winding(x[off]))
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
