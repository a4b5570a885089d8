"""Creases of a surface: where smooth pieces meet at an angle, and the surface as what they make together there.

In come a cloud's points with normals; out go `Creases`: places along the creases (anchors), each with the quadrics of
the pieces around and how they are joined. Two pieces meet as the larger (a convex edge) or the smaller (a hollow one)
of their functions; at a corner these are nested. Of all ways to join the pieces the one is taken that has the points
farthest around on its zero set, and it holds no farther than that: a crease must explain every point near it, or there
is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from cnf.meshes.mesh import unit_rows
from cnf.shapes.clouds.preparation import Prepared
from cnf.shapes.clouds.spacing import Spacing
from cnf.shapes.reconstruction.sides import (
    MOST,
    Quadrics,
    Sorted,
    find_sound,
    fit_quadrics,
    sort_around,
)
from cnf.shapes.reconstruction.surface import fade

LOOKED = 16  # neighbours that a crease is looked for between
HINT = 0.6  # of the angle: what two neighbours must differ by for a look
ROUGH = 0.06  # how far gradients of a piece may be from its normals, root mean square
STRAY = 0.06  # spacings: a point farther from the joined pieces is not explained by them
ASTRAY = 0.5  # cosine: the same of a sound normal
LOOSE, FIRST = 3.0, 0.8  # as many times that at first; spacings that must be explained then
REFITS, SHOWN = 2, 3  # further fits; points of either piece around a crease
CHECKED = 90  # points around that are held against the pieces
LEAST, REACH = 2.0, 3.0  # spacings to the nearest point not explained: what a crease needs, and how far it counts
FULL = 0.5  # of the reach: so far the pieces alone count
NEAR = 2.5  # spacings from the points in which a crease is looked for to where it is found
APART = 0.5  # spacings between anchors, about
STEPS = 6  # of Newton, towards an edge or a corner
JOINED, LONG = 1.5, 5.0  # spacings between anchors of one crease, and what it is long at least
PORTION = 2000  # places that are looked at together
BARE, VOID = (
    1.1,
    1.8,
)  # spacings from the nearest point: up to the first pieces alone count, beyond the second not at all
ALONG = 1.4  # spacings along a crease at which an anchor with two pieces ceases to count: there may be a corner
RICHER = 0.3  # of the distance: how much nearer an anchor counts for each piece more than two
TRIED = 8  # anchors around a place of which one speaks for it


@dataclass(frozen=True, eq=False)
class Joined:
    """Pieces at places, how they are joined, and how far that holds."""

    quadrics: Quadrics
    sign: np.ndarray  # (n,): 1 for the largest of the smallest in each block, -1 for the other way round
    block: np.ndarray  # (n, MOST): which block a piece is in, -1 for none
    reach: np.ndarray  # (n,) lengths

    def take(self, rows: np.ndarray) -> Joined:
        return Joined(self.quadrics.take(rows), self.sign[rows], self.block[rows], self.reach[rows])


@dataclass(frozen=True, eq=False)
class Creases(Joined):
    """The same at anchors along creases."""

    angle: float  # degrees by which the surface turns at least at a crease

    def __len__(self) -> int:
        return len(self.sign)

    @property
    def places(self) -> np.ndarray:
        """(n, 3), on the creases."""
        return self.quadrics.centre

    @cached_property
    def pieces(self) -> np.ndarray:
        """How many are joined (n,)."""
        return (self.block >= 0).sum(axis=1)

    @cached_property
    def tangents(self) -> np.ndarray:
        """Along the crease where two pieces meet, (n, 3); zero where more do."""
        slopes = self.quadrics.at(np.arange(len(self)), self.places)[1]
        found = unit_rows(np.cross(slopes[:, 0], slopes[:, 1]))
        found[self.pieces != 2] = 0
        return found

    @cached_property
    def tree(self) -> cKDTree:
        return cKDTree(self.places)

    def near(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The anchor that speaks for each place x (P, 3), and how far away it is in parts of its reach, (P,)."""
        distance, index = self.tree.query(x, k=[*range(1, min(TRIED, len(self)) + 1)])
        along = np.abs(np.einsum("pkd,pkd->pk", x[:, None] - self.places[index], self.tangents[index]))
        apart = np.maximum(distance / self.reach[index], along / (ALONG * self.quadrics.scale[index]))
        richer = 1 - RICHER * (self.pieces[index] - 2)  # it knows what the others know, and more
        best = np.argmin(apart * richer, axis=1)[:, None]
        return np.take_along_axis(index, best, 1)[:, 0], np.take_along_axis(apart, best, 1)[:, 0]

    def near_points(self, x: np.ndarray, spacing: Spacing) -> tuple[np.ndarray, np.ndarray]:
        """The same, and as far away where no point is near: beyond a corner nothing else contradicts an edge."""
        anchor, apart = self.near(x)
        rows = np.flatnonzero(apart < 1)
        bare = (spacing.measure(x[rows])[1] - BARE) / (VOID - BARE)
        apart[rows] = np.maximum(apart[rows], FULL + (1 - FULL) * np.clip(bare, 0, 1))
        return anchor, apart

    def look(self, rows: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The joined pieces of anchors (P,) at x (P, 3): values (P,), the piece that decides (P,); all pieces'."""
        values, slopes = self.quadrics.at(rows, x)
        value, active = join(values, self.sign[rows], self.block[rows])
        return value, active, values, slopes

    def sharpen(
        self, slopes: Callable[[np.ndarray], np.ndarray], spacing: Spacing
    ) -> Callable[[np.ndarray], np.ndarray]:
        """The field with value and gradient (P, 4) that is the joined pieces near creases, and `slopes` elsewhere."""

        def look(x: np.ndarray) -> np.ndarray:
            anchor, apart = self.near_points(x, spacing)
            inner = apart < FULL
            found = np.empty((len(x), 4))
            if not inner.all():
                found[~inner] = slopes(x[~inner])
            rows = np.flatnonzero(apart < 1)
            if not len(rows):
                return found
            at, there = anchor[rows], x[rows]
            value, active, _, gradients = self.look(at, there)
            joined = np.concatenate([value[:, None], gradients[np.arange(len(rows)), active]], axis=1)
            t = (apart[rows] - FULL) / (1 - FULL)
            share = fade(t)[:, None]
            mixed = np.flatnonzero(t > 0)
            found[rows[t <= 0]] = joined[t <= 0]
            smooth = found[rows[mixed]]
            found[rows[mixed]] = smooth + share[mixed] * (joined[mixed] - smooth)
            away = there[mixed] - self.places[at[mixed]]
            length = np.linalg.norm(away, axis=1)
            steep = -30 * (t[mixed] * (1 - t[mixed])) ** 2 / ((1 - FULL) * self.reach[at[mixed]] * length)
            found[rows[mixed], 1:] += ((joined[mixed, 0] - smooth[:, 0]) * steep)[:, None] * away
            return found

        return look

    def sharpen_values(
        self, values: Callable[[np.ndarray], np.ndarray], spacing: Spacing
    ) -> Callable[[np.ndarray], np.ndarray]:
        """The same for values (P,) alone."""

        def look(x: np.ndarray) -> np.ndarray:
            anchor, apart = self.near_points(x, spacing)
            found = np.empty(len(x))
            outer, rows = apart >= FULL, np.flatnonzero(apart < 1)
            if outer.any():
                found[outer] = values(x[outer])
            joined = self.look(anchor[rows], x[rows])[0]
            share = fade((apart[rows] - FULL) / (1 - FULL))
            found[rows] = np.where(outer[rows], (1 - share) * found[rows] + share * joined, joined)
            return found

        return look


def join(values: np.ndarray, sign: np.ndarray, block: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What pieces with values (..., MOST) are together, and which of them decides."""
    turned = sign[..., None] * values
    inner = np.full((*values.shape[:-1], MOST), -np.inf)
    which = np.zeros(inner.shape, dtype=np.int64)
    for b in range(MOST):
        mine = np.where(block == b, turned, np.inf)
        which[..., b] = np.argmin(mine, axis=-1)
        smallest = mine.min(axis=-1)
        inner[..., b] = np.where(np.isfinite(smallest), smallest, -np.inf)
    outer = np.argmax(inner, axis=-1)[..., None]
    value = np.take_along_axis(inner, outer, -1)[..., 0]
    return sign * value, np.take_along_axis(which, outer, -1)[..., 0]


def list_joins(count: int) -> list[tuple[int, tuple[int, ...]]]:
    """All ways to join `count` pieces: a sign, and the block of each."""

    def partitions(n: int) -> Iterator[tuple[int, ...]]:
        if n == 0:
            yield ()
            return
        for start in partitions(n - 1):
            for b in range(max(start, default=-1) + 2):
                yield (*start, b)

    rest = (-1,) * (MOST - count)
    found = [(sign, (*blocks, *rest)) for sign in (1, -1) for blocks in partitions(count)]
    # One block, or one block for each, is the same for both signs the other way round.
    return [(s, b) for s, b in found if s == 1 or 1 < len(set(b[:count])) < count]


def look_for_creases(cloud: Prepared, spacing: Spacing, angle: float) -> Creases | None:
    """The creases of a prepared cloud; none if the angle is 0. Normals that were estimated and are doubtful say nothing."""
    return find_creases(cloud.points, cloud.normals, spacing, angle, cloud.trusted) if angle else None


def find_creases(
    points: np.ndarray, normals: np.ndarray, spacing: Spacing, angle: float, trusted: np.ndarray | None = None
) -> Creases | None:
    """The creases of a cloud (P, 3) with unit normals (P, 3) at which it turns by `angle` degrees or more."""
    tree = spacing.tree
    index = tree.query(points, k=[*range(2, min(LOOKED + 1, len(points)) + 1)])[1]
    cosine = np.einsum("pkd,pd->pk", normals[index], normals).min(axis=1)
    hinted = np.flatnonzero(cosine < np.cos(np.radians(HINT * angle)))
    if not len(hinted):
        return None
    sound = find_sound(tree, normals)
    if trusted is not None:
        sound &= trusted
    widths = spacing.widths
    places = points[hinted[thin(points[hinted], widths[hinted])]]
    seek = _Search(points, normals, spacing, sound, angle)
    first = [seek.find_edges(places[k : k + PORTION]) for k in range(0, len(places), PORTION)]
    places = np.concatenate(first)
    if not len(places):
        return None
    places = places[thin(places, seek.width_at(places))]
    found = [seek.settle(places[k : k + PORTION]) for k in range(0, len(places), PORTION)]
    names = Quadrics.__annotations__
    quadrics = Quadrics(*(np.concatenate([getattr(f.quadrics, name) for f in found]) for name in names))
    sign, block, reach = (np.concatenate([getattr(f, name) for f in found]) for name in ("sign", "block", "reach"))
    kept = find_long(quadrics.centre, quadrics.scale) if len(sign) else np.empty(0, dtype=bool)
    if not kept.any():
        return None
    return Creases(quadrics.take(kept), sign[kept], block[kept], reach[kept], angle)


def find_long(places: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Which places (n,) bool are in rows of them that are `LONG` spacings long: a single one may be a wart."""
    pairs = cKDTree(places).query_pairs(JOINED * float(widths.max()), output_type="ndarray")
    a, b = pairs.T
    near = np.linalg.norm(places[a] - places[b], axis=1) < JOINED * np.minimum(widths[a], widths[b])
    graph = coo_matrix((np.ones(int(near.sum())), (a[near], b[near])), shape=(len(places), len(places)))
    count, part = connected_components(graph, directed=False)
    size = np.zeros(count)
    for k in range(count):
        mine = part == k
        size[k] = np.linalg.norm(np.ptp(places[mine], axis=0)) / widths[mine].mean()
    return size[part] >= LONG


def thin(places: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Numbers of places (n, 3), one in each cell of about `APART` widths (n,)."""
    level = np.round(np.log2(widths)).astype(np.int64)
    cell = np.floor(places / (APART * np.exp2(level))[:, None]).astype(np.int64)
    return np.sort(np.unique(np.column_stack([level, cell]), axis=0, return_index=True)[1])


@dataclass(frozen=True, eq=False)
class _Search:
    points: np.ndarray
    normals: np.ndarray
    spacing: Spacing
    sound: np.ndarray
    angle: float

    def width_at(self, places: np.ndarray) -> np.ndarray:
        """Spacing of the points around places (n, 3)."""
        tree = self.spacing.tree
        return self.spacing.widths[tree.query(places, k=[*range(1, min(8, tree.n) + 1)])[1]].mean(axis=1)

    def fit(self, places: np.ndarray) -> Quadrics:
        widths = self.width_at(places)
        given = sort_around(self.spacing.tree, self.normals, self.sound, places, widths)
        return fit_quadrics(self.points, self.normals, places, widths, given)

    def find_edges(self, places: np.ndarray) -> np.ndarray:
        """For each place the nearest one where two of its pieces meet at an angle, and those where three do: (m, 3)."""
        quadrics = self.fit(places)
        nearest, best = np.full(len(places), np.inf), np.zeros_like(places)
        for k, l in list_pairs():
            rows = np.flatnonzero(~np.isnan(quadrics.terms[:, [k, l], 0]).any(axis=1))
            if not len(rows):
                continue
            found, turn, fine = meet(quadrics, rows, places[rows], (k, l))
            fine &= turn >= np.radians(self.angle)
            apart = np.linalg.norm(found - places[rows], axis=1)
            fine &= (apart < NEAR * quadrics.scale[rows]) & (apart < nearest[rows])
            nearest[rows[fine]], best[rows[fine]] = apart[fine], found[fine]
        corners = [best[np.isfinite(nearest)]]
        for triple in list_triples():
            rows = np.flatnonzero(~np.isnan(quadrics.terms[:, triple, 0]).any(axis=1))
            if len(rows):
                found, turn, fine = meet(quadrics, rows, places[rows], triple)
                fine &= np.linalg.norm(found - places[rows], axis=1) < NEAR * quadrics.scale[rows]
                corners.append(found[fine & (turn >= 0.5 * np.radians(self.angle))])
        return np.concatenate(corners)

    def settle(self, places: np.ndarray) -> Joined:
        """Of places (n, 3) on creases those at which the pieces explain all points around, and how they are joined.

        What is found at first is fitted anew, with every point that lies on it; so it is pinned close to the crease,
        where the first fit had to be continued to.
        """
        widths = self.width_at(places)
        given = sort_around(self.spacing.tree, self.normals, self.sound, places, widths)
        made = self.join_best(fit_quadrics(self.points, self.normals, places, widths, given), LOOSE * STRAY)
        for _ in range(REFITS):
            found, on = self._on_crease(made, given.rows)
            on &= made.reach > FIRST * widths
            made, given, places, widths = made.take(on), given.take(on), found[on], widths[on]
            value, active, _ = self.compare(made, given.rows)
            distance = np.linalg.norm(self.points[given.rows] - places[:, None], axis=2)
            onto = (np.abs(value) < LOOSE * STRAY * widths[:, None]) & (distance <= made.reach[:, None])
            onto &= ~self.sound[given.rows]
            given = Sorted(given.rows, np.where(onto, active, given.piece), given.firm)
            made = self.join_best(fit_quadrics(self.points, self.normals, places, widths, given), STRAY)
        found, on = self._on_crease(made, given.rows)
        fine = on & (made.reach >= LEAST * made.quadrics.scale) & ~(made.quadrics.misfit > ROUGH).any(axis=1)
        return made.take(fine)

    def compare(self, made: Joined, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """At points numbered (n, k): the joined pieces' values, the piece that decides, its cosine with the normal."""
        one = np.repeat(np.arange(len(rows)), rows.shape[1])
        values, slopes = made.quadrics.at(one, self.points[rows].reshape(-1, 3))
        value, active = join(values, made.sign[one], made.block[one])
        steep = slopes[np.arange(len(one)), active]
        cosine = np.einsum("nd,nd->n", steep, self.normals[rows].reshape(-1, 3)) / np.linalg.norm(steep, axis=1)
        return tuple(part.reshape(rows.shape) for part in (value, active, cosine))

    def join_best(self, quadrics: Quadrics, stray: float) -> Joined:
        """The pieces of each quadric joined as explains the points farthest around; reach 0 where nothing does."""
        tree = self.spacing.tree
        places = quadrics.centre
        there = (~np.isnan(quadrics.terms[..., 0])).sum(axis=1)
        distance, rows = tree.query(places, k=[*range(1, min(CHECKED, tree.n) + 1)])
        best = Joined(quadrics, np.ones(len(places), np.int64), np.full((len(places), MOST), -1), np.zeros(len(places)))
        total = np.full(len(places), np.inf)
        for count in range(2, MOST + 1):
            mine = np.flatnonzero(there == count)
            if not len(mine):
                continue
            for s, blocks in list_joins(count):
                tried = Joined(
                    quadrics.take(mine), np.full(len(mine), s), np.tile(blocks, (len(mine), 1)), distance[mine, -1]
                )
                value, _, cosine = self.compare(tried, rows[mine])
                off = (np.abs(value) > stray * quadrics.scale[mine, None]) | (
                    self.sound[rows[mine]] & (cosine < ASTRAY)
                )
                held = np.where(off, distance[mine], np.inf).min(axis=1)
                held = np.minimum(held, np.minimum(distance[mine, -1], REACH * quadrics.scale[mine]))
                rest = (np.abs(value) * (distance[mine] <= held[:, None])).sum(axis=1)
                better = (held > best.reach[mine]) | ((held == best.reach[mine]) & (rest < total[mine]))
                at = mine[better]
                best.reach[at], total[at], best.sign[at], best.block[at] = held[better], rest[better], s, blocks
        return best

    def _on_crease(self, made: Joined, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The places (n, 3) on a crease of joined pieces that are closest to their centres, and where there is one.

        Pieces that meet where no point is are no crease; both must show points, of those numbered `rows` (n, k).
        """
        centre, scale = made.quadrics.centre, made.quadrics.scale
        nearest, best = np.full(len(made.sign), np.inf), centre.copy()
        value, active, _ = self.compare(made, rows)
        seen = np.linalg.norm(self.points[rows] - centre[:, None], axis=2) <= made.reach[:, None]
        seen &= np.abs(value) < LOOSE * STRAY * scale[:, None]
        shown = np.stack([((active == k) & seen).sum(axis=1) for k in range(MOST)], axis=1)
        for k, l in list_pairs():
            at = np.flatnonzero((made.block[:, k] >= 0) & (made.block[:, l] >= 0))
            if not len(at):
                continue
            found, turn, fine = meet(made.quadrics, at, centre[at], (k, l))
            fine &= (shown[at][:, [k, l]] >= SHOWN).all(axis=1)
            value, _ = join(made.quadrics.at(at, found)[0], made.sign[at], made.block[at])
            apart = np.linalg.norm(found - centre[at], axis=1)
            fine &= (np.abs(value) < 1e-6 * scale[at]) & (apart < 2 * APART * scale[at])
            fine &= (turn >= np.radians(self.angle)) & (apart < nearest[at])
            nearest[at[fine]], best[at[fine]] = apart[fine], found[fine]
        return best, np.isfinite(nearest)


def list_pairs() -> list[tuple[int, int]]:
    """Of pieces."""
    return [(k, l) for l in range(MOST) for k in range(l)]


def list_triples() -> list[tuple[int, int, int]]:
    """Of pieces."""
    return [(k, l, m) for k, l in list_pairs() for m in range(l + 1, MOST)]


def meet(
    quadrics: Quadrics, rows: np.ndarray, start: np.ndarray, pieces: tuple[int, ...] | np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where two or three pieces of quadrics (P,) are zero together, by the shortest way from `start` (P, 3).

    Returns places (P, 3), the least angle between two gradients there (P,), radians, and whether Newton's steps
    converged (P,). `pieces`: their numbers, the same for all or (P, 2) or (P, 3).
    """
    chosen = np.broadcast_to(np.asarray(pieces), (len(rows), np.shape(pieces)[-1]))
    places, last = start.copy(), np.full(len(rows), np.inf)
    for _ in range(STEPS):
        values, slopes = quadrics.at(rows, places)
        f = np.take_along_axis(values, chosen, 1)
        g = np.take_along_axis(slopes, chosen[..., None], 1)  # (P, m, 3)
        gram = np.einsum("pid,pjd->pij", g, g)
        gram += 1e-12 * np.eye(gram.shape[1])
        step = -np.einsum("pid,pi->pd", g, np.linalg.solve(gram, f[..., None])[..., 0])
        last = np.linalg.norm(step, axis=1)
        long = last > quadrics.scale[rows]
        step[long] *= (quadrics.scale[rows][long] / last[long])[:, None]
        places = places + step
    unit = g / np.maximum(np.linalg.norm(g, axis=2, keepdims=True), 1e-300)
    cosine = np.einsum("pid,pjd->pij", unit, unit)
    pairs = np.triu_indices(chosen.shape[1], 1)
    turn = np.arccos(np.clip(cosine[:, pairs[0], pairs[1]], -1, 1)).min(axis=1)
    return places, turn, last < 1e-6 * quadrics.scale[rows]
