"""How often oriented points wind around a place: about 1 inside, 0 outside, 1/2 on the surface they are drawn from.

In come points (n, 3) with unit normals, areas and widths; out goes

    w(x) = sum_i a_i n_i . r_i / (4 pi (|r_i|^2 + e_i^2)^(3/2)),     r_i = p_i - x,

with its gradient: Gauss's integral of the solid angle, over the points. It needs no neighbours of x, so it keeps its
sense around tips, between thin sheets and where points are missing. A point stands for a disc rather than for a pole:
above a plane its share is h / sqrt(h^2 + e^2) of 1/2, which rises over the width e.

Sums over many points are taken by a tree (Barnes and Hut): points far from a group of places count as one, by their
moments up to the second order. That costs about 1e-3 on average and 5e-3 at most (`NARROW`), which is less than random
points leave undecided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

LEAF, GROUP = 16, 64  # points that are not divided further; places that are summed together
NARROW = 0.3  # how large points may look from a group of places, radius to distance, to count as one
WIDE, LARGE = 0.4, 256  # the same of estimates, in single precision
ROUGH = 0.02  # what is allowed for these to be off: 0.013 at most was seen on 10,000 points, 0.008 on 200,000
GAP = 4.0  # times the typical width of a group of places: it reaches across a gap
AT_ONCE = 1 << 16  # leaves that are summed together
BATCH = 512  # groups whose lists are held at once
SYMMETRIC = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
TWICE = np.array([1.0, 1.0, 1.0, 2.0, 2.0, 2.0])  # how often each of these is in a symmetric matrix
FULL = np.array([[0, 3, 4], [3, 1, 5], [4, 5, 2]])  # where each entry of the matrix is among them


@dataclass(frozen=True, eq=False)
class WindingNumber:
    """Of points (n, 3) with unit normals (n, 3), the area that each stands for (n,), and widths (n,)."""

    points: np.ndarray
    normals: np.ndarray
    areas: np.ndarray
    widths: np.ndarray
    gathered: Sources | None = None  # all that can be summed; None: gathered when first asked for

    def values(self, x: np.ndarray) -> np.ndarray:
        """(P, 3) -> (P,)."""
        return self._sum(x, 1, NARROW)[:, 0]

    def estimate(self, x: np.ndarray) -> np.ndarray:
        """(P, 3) -> (P,), off by less than `ROUGH` wherever it was looked at, in two thirds of the time."""
        return self._sum(x, 1, WIDE, LARGE, np.float32)[:, 0]

    def values_alone(self, x: np.ndarray) -> np.ndarray:
        """The same, each place by itself: what else is asked has no say in how the tree is cut off. Slow."""
        return self._sum(x, 1, NARROW, 1)[:, 0]

    def slopes(self, x: np.ndarray) -> np.ndarray:
        """(P, 3) -> (P, 4): value and gradient."""
        return self._sum(x, 4, NARROW)

    @cached_property
    def sources(self) -> Sources:
        return self.gathered or _gather(self.points, self.areas[:, None] * self.normals, self.areas, self.widths)

    def _sum(
        self, x: np.ndarray, columns: int, narrow: float, group: int = GROUP, precision: type = np.float64
    ) -> np.ndarray:
        answer = np.empty((len(x), columns))
        if not len(x):
            return answer
        order, bounds = _divide(x, group) if group > 1 else (np.arange(len(x)), np.arange(len(x) + 1))
        bounds = _part_wide_ones(x[order], bounds)
        for first in range(0, len(bounds) - 1, BATCH):
            groups = bounds[first : first + BATCH + 1]
            for rows, listed in zip(
                np.split(order[groups[0] : groups[-1]], groups[1:-1] - groups[0]),
                self.sources.list_for(x, order, groups, narrow),
                strict=True,
            ):
                answer[rows] = self.sources.add_up(x[rows], listed, columns, precision)
        return answer


@dataclass(frozen=True, eq=False)
class Sources:
    """Everything that can be summed: the nodes of the tree, numbered like a heap, and behind them the points."""

    centres: np.ndarray  # (S, 3)
    radii: np.ndarray  # (count,), of the ball around the centre that holds the points
    flow: np.ndarray  # (S, 3), sum of a n
    spread: np.ndarray  # (count, 6), symmetric part of the sum of a n (p - centre)^T
    softness: np.ndarray  # (S,), e^2
    leaves: np.ndarray  # bounds of the leaves among the points
    order: np.ndarray  # which point of those given each one is
    count: int  # nodes

    def list_for(self, x: np.ndarray, order: np.ndarray, bounds: np.ndarray, narrow: float) -> list[np.ndarray]:
        """For each group of places the sources to be summed: large ones far away, single points nearby."""
        starts, sizes = bounds[:-1], np.diff(bounds)
        local, owner = x[order[bounds[0] : bounds[-1]]], np.repeat(np.arange(len(starts)), sizes)
        middle = np.add.reduceat(local, starts - bounds[0], axis=0) / sizes[:, None]
        reach = np.sqrt(np.maximum.reduceat(np.sum((local - middle[owner]) ** 2, axis=1), starts - bounds[0]))
        group, node = np.arange(len(starts)), np.zeros(len(starts), dtype=np.int64)
        taken = []
        inner = self.count // 2  # nodes from here on are leaves
        while len(group):
            apart = np.sqrt(np.sum((self.centres[node] - middle[group]) ** 2, axis=1)) - reach[group]
            small = self.radii[node] <= narrow * apart
            taken.append((group[small], node[small]))
            last = ~small & (node >= inner)
            leaf = node[last] - inner
            held = self.leaves[leaf + 1] - self.leaves[leaf]
            within = np.arange(held.sum()) - np.repeat(np.cumsum(held) - held, held)
            taken.append((np.repeat(group[last], held), self.count + np.repeat(self.leaves[leaf], held) + within))
            onward = ~small & (node < inner)
            group = np.repeat(group[onward], 2)
            node = np.stack([2 * node[onward] + 1, 2 * node[onward] + 2], axis=1).ravel()
        owners, sources = (np.concatenate([pair[k] for pair in taken]) for k in (0, 1))
        order = np.argsort(owners, kind="stable")
        return np.split(sources[order], np.searchsorted(owners[order], np.arange(1, len(starts))))

    def add_up(self, x: np.ndarray, listed: np.ndarray, columns: int, precision: type = np.float64) -> np.ndarray:
        """The sum over listed sources (m,) at places (P, 3), with R = c - x and q^2 = R^2 + e^2:

        4 pi w = sum (N . R + tr S) / q^3 - 3 R^T S R / q^5. Everything is a product of two matrices, one of the places
        and one of the sources; measured from the middle of the places, so that large coordinates cost no digits.
        """
        listed = np.sort(listed)
        many = int(np.searchsorted(listed, self.count))  # nodes of the tree; single points behind them have no S
        middle = x.mean(axis=0)
        x, c = x - middle, self.centres[listed] - middle
        flow, spread, arm = self.flow[listed], self.spread[listed[:many]], c[:many]
        turned = np.einsum("mij,mj->mi", spread[:, FULL], arm)  # S c
        one = np.ones((len(x), 1))
        pairs = np.stack([x[:, i] * x[:, j] for i, j in SYMMETRIC], axis=1)  # (P, 6)
        height = np.einsum("md,md->m", flow, c)
        height[:many] += spread[:, :3].sum(axis=1)

        def product(of_places: Sequence[np.ndarray], of_sources: Sequence[np.ndarray]) -> np.ndarray:
            rows: np.ndarray = np.concatenate(of_sources, axis=1).astype(precision)
            return np.concatenate(of_places, axis=1).astype(precision) @ rows.T  # (P, m)

        far = np.einsum("md,md->m", c, c) + self.softness[listed]
        square = product([x, one, pairs[:, :3].sum(axis=1)[:, None]], [-2 * c, far[:, None], np.ones((len(c), 1))])
        straight = product([x, one], [-flow, height[:, None]])  # N . R + tr S
        bent = product(  # R^T S R
            [pairs, x, one], [TWICE * spread, -2 * turned, np.einsum("md,md->m", arm, turned)[:, None]]
        )
        bent /= square[:, :many]
        third = np.sqrt(square)
        third *= square
        np.reciprocal(third, out=third)
        if columns == 1:
            straight[:, :many] -= 3 * bent
            return np.einsum("pm,pm->p", straight, third)[:, None] / (4 * np.pi)
        # d/dR: N / q^3 - 6 S R / q^5 + R (15 R^T S R / q^7 - 3 (N . R + tr S) / q^5); d/dx is its negative.
        fifth = third / square
        along = -3 * straight * fifth
        along[:, :many] += 15 * bent * fifth[:, :many]
        straight[:, :many] -= 3 * bent
        total = np.einsum("pm,pm->p", straight, third)
        slope = third @ flow - 6 * (fifth[:, :many] @ turned) + along @ c - along.sum(axis=1)[:, None] * x
        mixed = fifth[:, :many] @ spread  # (P, 6)
        for k, (i, j) in enumerate(SYMMETRIC):
            slope[:, i] += 6 * mixed[:, k] * x[:, j]
            if i != j:
                slope[:, j] += 6 * mixed[:, k] * x[:, i]
        return np.concatenate([total[:, None], -slope], axis=1) / (4 * np.pi)


def _divide(points: np.ndarray, largest: int) -> tuple[np.ndarray, np.ndarray]:
    """An order of the points in which equal portions of at most `largest` lie together, and the bounds of these.

    There are 2^k portions: each is halved across its widest side, k times.
    """
    depth = tree_depth(len(points), largest)
    order = divide(points, [bounds_at(len(points), level) for level in range(depth)])
    return order, bounds_at(len(points), depth)


def tree_depth(count: int, largest: int) -> int:
    """How often so many points are halved until at most `largest` are together."""
    return max(0, int(np.ceil(np.log2(max(count, 1) / largest))))


def divide(points: np.ndarray, levels: Sequence[np.ndarray]) -> np.ndarray:
    """An order of the points in which, for the bounds of each level, each portion is sorted along its widest side."""
    count = len(points)
    order = np.arange(count)
    for bounds in levels:
        moved = points[order]
        owner = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
        sides = np.maximum.reduceat(moved, bounds[:-1]) - np.minimum.reduceat(moved, bounds[:-1])
        axis = np.argmax(sides, axis=1)
        low = np.minimum.reduceat(moved, bounds[:-1])[np.arange(len(axis)), axis]
        wide = np.maximum(sides[np.arange(len(axis)), axis], np.finfo(float).tiny)
        share = (moved[np.arange(count), axis[owner]] - low[owner]) / wide[owner]  # 0 to 1
        order = order[np.argsort(owner + 0.999 * share)]  # one number to sort by, in half the time of two
    return order


def _part_wide_ones(x: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Bounds in which each place of a group that reaches across a gap stands alone: near such a group is everything."""
    starts = bounds[:-1]
    sides = np.maximum.reduceat(x, starts) - np.minimum.reduceat(x, starts)
    width = np.linalg.norm(sides, axis=1)
    wide = width > GAP * np.median(width)
    within = np.arange(len(x))[np.repeat(wide, np.diff(bounds))]
    return np.union1d(bounds, within)


def bounds_at(count: int, level: int) -> np.ndarray:
    """Of the 2^level equal portions of so many points."""
    return np.arange(2**level + 1) * count // 2**level


def _gather(points: np.ndarray, flow: np.ndarray, areas: np.ndarray, widths: np.ndarray) -> Sources:
    """The tree over the points and its moments: of leaves from their points, of other nodes from their two halves."""
    order, leaves = _divide(points, LEAF)
    depth, count = int(np.log2(len(leaves) - 1)), len(points)
    points, flow, areas, soft = points[order], flow[order], areas[order], widths[order] ** 2
    levels = [bounds_at(count, level) for level in range(depth + 1)]
    nodes = [np.concatenate(column) for column in zip(*sum_up(points, flow, areas, soft, levels), strict=True)]
    return Sources(
        centres=np.concatenate([nodes[1], points]),
        radii=nodes[5],
        flow=np.concatenate([nodes[2], flow]),
        spread=nodes[3],
        softness=np.concatenate([nodes[4], soft]),
        leaves=leaves,
        order=order,
        count=2 ** (depth + 1) - 1,
    )


Nodes = tuple[np.ndarray, ...]  # weights, centres, flow, spread and softness of some nodes, and their radii


def sum_up(
    points: np.ndarray, flow: np.ndarray, areas: np.ndarray, soft: np.ndarray, levels: Sequence[np.ndarray]
) -> list[Nodes]:
    """The nodes of a tree, from its root on: points (n, 3) that are sorted lie between the bounds of each level."""
    nodes = _sum_leaves(points, flow, areas, soft, levels[-1])
    found = [nodes]
    for _ in levels[:-1]:
        nodes = join_pairs(nodes)
        found.append(nodes)
    found.reverse()
    return [(*nodes, reach_of(points, nodes[1], bounds)) for nodes, bounds in zip(found, levels, strict=True)]


def join_pairs(nodes: Nodes) -> Nodes:
    """The nodes of which each two neighbours are the halves, without radii."""
    weights, centres, flows, spreads, softness = nodes[:5]
    both = weights.reshape(-1, 2)
    weights = both.sum(axis=1)
    share = both / weights[:, None]  # (n, 2)
    middle = centres
    centres = np.einsum("nk,nkd->nd", share, middle.reshape(-1, 2, 3))
    spreads = (spreads + _symmetric(flows, middle - np.repeat(centres, 2, axis=0))).reshape(-1, 2, 6).sum(axis=1)
    flows = flows.reshape(-1, 2, 3).sum(axis=1)
    return weights, centres, flows, spreads, (share * softness.reshape(-1, 2)).sum(axis=1)


def _sum_leaves(
    points: np.ndarray, flow: np.ndarray, areas: np.ndarray, soft: np.ndarray, leaves: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Areas (n,), centres (n, 3), flow (n, 3), spread (n, 6) and softness (n,) of the leaves."""
    parts = []
    for first in range(0, len(leaves) - 1, AT_ONCE):
        bounds = leaves[first : first + AT_ONCE + 1]
        rows, start = slice(bounds[0], bounds[-1]), bounds[:-1] - bounds[0]
        weight = np.add.reduceat(areas[rows], start)
        centre = np.add.reduceat(areas[rows, None] * points[rows], start, axis=0) / weight[:, None]
        moments = _symmetric(flow[rows], points[rows] - np.repeat(centre, np.diff(bounds), axis=0))
        sums = np.add.reduceat(flow[rows], start), np.add.reduceat(moments, start)
        parts.append((weight, centre, *sums, np.add.reduceat(areas[rows] * soft[rows], start) / weight))
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def reach_of(points: np.ndarray, centres: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """The largest distance of a portion's points from its centre, (n,)."""
    square, owner = np.zeros(len(points)), np.repeat(np.arange(len(centres)), np.diff(bounds))
    for axis in range(3):  # one coordinate at a time: this is the largest array of the tree
        arm = centres[owner, axis]
        arm -= points[:, axis]
        arm *= arm
        square += arm
    return np.sqrt(np.maximum.reduceat(square, bounds[:-1]))


def _symmetric(flow: np.ndarray, arm: np.ndarray) -> np.ndarray:
    """Symmetric part of flow arm^T, (n, 6)."""
    return np.stack([(flow[:, i] * arm[:, j] + flow[:, j] * arm[:, i]) / 2 for i, j in SYMMETRIC], axis=1)
