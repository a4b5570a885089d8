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
from cnf.shapes.clouds.spacing import NEAREST, Spacing, measure_spacing
from cnf.shapes.clouds.winding import ROUGH, WindingNumber
from cnf.shapes.reconstruction.buried import RARE, find_buried, is_closed, level_in_front
from cnf.solution import Solution
from cnf.threads import map_pieces, one_thread_each

FREE, FIRM, FAR = 0.6, 1.0, 2.4  # spacings from the nearest point: see above
REACH = 0.9  # of the support: beyond, the field has no say
BOUND = 0.1  # of the winding number
LARGEST = 0.7  # |c - w| is not more than this: 1/2, and what the areas of points are off
SOFT = 0.5  # spacings: the width of a point's disc
STIRRED, STEEP = (0.003, 0.01, 0.03), 4.0  # spacings that places move, and scales that field and guide part in one
BESIDE = 1.2  # spacings from the points up to which there is a field that says where the surface is
LOOSE = 0.65  # spacings from the nearest point up to which the bound is many scales
PIECE = 1 << 15  # places that are looked at together, by one thread
Winding = Callable[[np.ndarray], np.ndarray]  # (P, 3) -> (P,)
Neighbours = tuple[np.ndarray, np.ndarray]  # distances (P, k), ascending, and numbers (P, k) of the nearest points
AVERAGED = 24  # points whose values are averaged to the local mean of an attribute


@dataclass(frozen=True, eq=False)
class Guide:
    """What knows inside from outside wherever a field is silent or wrong: a winding number, about 1 inside, 0 outside.

    `means` (n,): what it is around each point: 1/2 on average, less along edges and at tips, more along grooves.
    `closed`: -+1/2 if the surface is closed, else None. `rows` (n,): which points of the cloud it looks at; None: all.
    `buried`: numbers of the points of the cloud that surely lie within what the others enclose, if it is closed; the
    means of these, and of more that may, are set below 1/2, so that the surface closes right in front of them.
    """

    spacing: Spacing
    winding: WindingNumber
    means: np.ndarray
    closed: float | None
    rows: np.ndarray | None = None
    buried: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def level(self, x: np.ndarray, apart: np.ndarray, around: Neighbours | None = None) -> np.ndarray:
        """The same at places (P, 3) so many spacings (P,) from the points; nothing jumps, (P,).

        The points around speak for a place near them. Farther off, what the rim of a hole has says nothing of its lid.
        `around`: their nearest points, if these are known.
        """
        distance, index = around or find_nearest(self.spacing.tree, x)
        means = np.einsum("pj,pj->p", weigh_nearest(distance), self.means[index])
        if self.closed is None:
            return means
        levels: np.ndarray = self.closed + fade((apart - FIRM) / (FAR - FIRM)) * (means - self.closed)
        return levels

    def near(self, low: np.ndarray, high: np.ndarray) -> Guide:
        """The same for places whose nearest points lie in a box, corners (3,): it looks for them among these alone."""
        rows = rows_in_box(self.spacing.points, low, high)
        return Guide(self.spacing.take(rows), self.winding, self.means[rows], self.closed, rows, self.buried)


def make_guide(points: np.ndarray, normals: np.ndarray) -> Guide:
    """That of points (P, 3) with unit normals (P, 3)."""
    with one_thread_each():  # many small products of matrices
        return _make_guide(points, normals)


def _make_guide(points: np.ndarray, normals: np.ndarray) -> Guide:
    spacing = measure_spacing(points, normals)
    winding = WindingNumber(points, normals, spacing.areas, SOFT * spacing.widths)
    winding = replace(winding, gathered=winding.sources)
    order = winding.sources.order  # pieces of neighbours: sums of places far apart are long
    there, means = np.empty((len(points), 1)), np.empty(len(points))
    there[order, 0] = in_pieces(winding.values, points[order])
    means[order] = in_pieces(lambda piece: local_mean(spacing.tree, there, piece)[:, 0], points[order])
    half = float(np.copysign(0.5, np.median(means)))
    if np.mean(~is_closed(means, half)) > RARE:
        return Guide(spacing, winding, means, None)
    buried, sure = find_buried(winding, spacing, means, half)
    means[buried] = level_in_front(half)
    return Guide(spacing, winding, means, half, buried=sure)


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

    def values_to_follow(self, x: np.ndarray) -> np.ndarray:
        """The same, but beside the points off by up to `ROUGH` supports where the bound holds and zero is farther off.

        What goes through between such places is moved onto the zero set anyway; lids, far from the points, are not
        always, and where they begin is seen.
        """
        return self._bounded(x, 1, rough=True)[:, 0]

    def slopes(self, x: np.ndarray) -> np.ndarray:
        """(P, D) -> (P, 1 + D): value and gradient together."""
        return self._bounded(x, 1 + self.points.shape[1])

    def slopes_near(self, x: np.ndarray, leeway: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same of places that are asked again and again and move little, with the leeway that each has, (P,).

        `leeway` (P,): how far a place may still move until the bound could have a say. A place that has used it up,
        what is left being negative, is looked at anew; of all others the field itself is asked, and nothing else.
        """
        found = np.empty((len(x), 1 + self.points.shape[1]))
        left, anew = leeway.copy(), leeway < 0
        if anew.any():
            seen = self._bounded(x[anew], found.shape[1], leeway=True)
            found[anew], left[anew] = seen[:, :-1], seen[:, -1]
        if not anew.all():
            self.counted[0] += int(np.sum(~anew))
            found[~anew] = in_pieces(self._field, x[~anew])
        return found, left

    def _bounded(
        self, x: np.ndarray, columns: int, winding: Winding | None = None, rough: bool = False, leeway: bool = False
    ) -> np.ndarray:
        self.counted[0] += len(x)
        _ = self.guide, self.spacing.tree, self._operator  # made once, before several threads ask for them
        how = winding or self.winding.values
        return in_pieces(lambda piece: self._bounded_piece(piece, columns, how, rough, leeway), x)

    def _field(self, x: np.ndarray, steep: bool = True) -> np.ndarray:
        """What was solved for, without a bound: value and gradient (P, 1 + D), or the value alone, (P, 1)."""
        with torch.no_grad():
            points = torch.from_numpy(x)
            found = self.solution.apply(self._operator, points) if steep else self.solution(points)[:, :1]
            return np.asarray(found.numpy())

    def _bounded_piece(self, x: np.ndarray, columns: int, winding: Winding, rough: bool, leeway: bool) -> np.ndarray:
        spacing = self.spacing
        distance, first = (row[:, 0] for row in spacing.tree.query(x, k=[1]))
        width = spacing.widths[first]
        beyond = FAR / REACH * distance / self.support
        look = np.flatnonzero(np.maximum(distance / width, beyond) >= FREE)  # the others are free by their nearest
        close, index = find_nearest(spacing.tree, x[look])
        ratios = close[:, :NEAREST] / spacing.widths[index[:, :NEAREST]]
        apart = np.zeros(len(x))
        apart[look] = np.maximum(ratios.min(axis=1), beyond[look])
        found = np.zeros((len(x), columns))
        near = apart < FAR
        if near.any():
            found[near] = self._field(x[near], columns > 1)
        scale = np.maximum(self.support, 2 * distance)
        bound = np.full(len(x), np.inf)
        bound[look] = BOUND * scale[look] * loosen(apart[look])
        some = np.flatnonzero(bound[look] < np.abs(found[look, 0]) + LARGEST * scale[look])  # others cannot reach it
        off = look[some]
        level = self.guide.level(x[off], apart[off], (close[some], index[some]))
        likely = scale[off] * (level - self.winding.estimate(x[off]))
        excess = np.abs(found[off, 0] - likely) - bound[off]
        if leeway:
            left = np.minimum(LOOSE * width, LOOSE * REACH / FAR * self.support) - distance
            over = np.abs(found[look, 0]) / scale[look] + LARGEST
            over[some] = (excess + bound[off]) / scale[off]
            nearest = spacing.widths[index[np.arange(len(look)), ratios.argmin(axis=1)]]
            left[look] = nearest * find_leeway(over, apart[look])
        unclear = excess > -ROUGH * scale[off]  # elsewhere it does not hold
        if rough:
            sure = unclear & (excess > ROUGH * scale[off]) & (apart[off] < BESIDE)
            held = likely + np.copysign(bound[off], found[off, 0] - likely)
            sure &= np.abs(held) > ROUGH * scale[off]
            found[off[sure], 0] = held[sure]
            unclear &= ~sure
        off, level = off[unclear], level[unclear]
        guide = scale[off] * (level - winding(x[off]))
        over = found[off, 0] - guide
        held = np.abs(over) > bound[off]
        at = off[held]
        found[at, 0] = guide[held] + np.sign(over[held]) * bound[at]
        if columns > 1:  # bound and scale are taken as constant: this serves Newton's steps, not the certificate
            found[at, 1:] = -scale[at, None] * self.winding.slopes(x[at])[:, 1:]
        return np.column_stack([found, left]) if leeway else found

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


def find_leeway(over: np.ndarray, apart: np.ndarray) -> np.ndarray:
    """Spacings that a place may move before the bound could hold it, (P,); -1 if it may already.

    `over` (P,): how far the field is from the guide, in units of the scale; `apart` (P,) spacings from the points.
    """
    found = np.full(len(over), -1.0)
    for spacings in STIRRED:
        with np.errstate(divide="ignore"):
            clear = over + ROUGH + STEEP * spacings < BOUND * loosen(apart + spacings)
        found[clear] = spacings
    return found


def fade(t: np.ndarray) -> np.ndarray:
    """One below 0, zero above 1, twice differentiable in between."""
    t = np.clip(t, 0.0, 1.0)
    return 1 - t**3 * (10 - t * (15 - 6 * t))


def find_nearest(tree: cKDTree, x: np.ndarray) -> Neighbours:
    """The points that are averaged at each place (P, 3): their distances (P, k), ascending, and numbers (P, k)."""
    distance, index = tree.query(x, k=[*range(1, min(AVERAGED + 1, tree.n) + 1)])
    return distance, index


def weigh_nearest(distance: np.ndarray) -> np.ndarray:
    """Weights (P, k), which sum to one, of the nearest points by their distances (P, k).

    The weight of a point vanishes as it ceases to be among the nearest, so nothing jumps.
    """
    last = distance[:, -1:] * (1 + 1e-9) + 1e-300
    weights = (1 - distance / last) ** 2 + 1e-12
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def local_mean(tree: cKDTree, values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Values (n, k) at the points of the tree, averaged around each place x: (P, k)."""
    distance, index = find_nearest(tree, x)
    return np.einsum("pj,pjk->pk", weigh_nearest(distance), values[index])
