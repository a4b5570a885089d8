"""Where the creases of a cloud are: places at which smooth pieces meet and explain every point around.

In come points with unit normals; out go `Creases`. Places are looked for between points whose normals differ, fitted
anew until they lie on the crease, and kept only where the joined pieces leave no point near unexplained.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from cnf.shapes.clouds.preparation import Prepared
from cnf.shapes.clouds.spacing import Spacing
from cnf.shapes.reconstruction.carrying import APART, Carrier
from cnf.shapes.reconstruction.creases import Creases, Joined, concatenate, join, list_joins
from cnf.shapes.reconstruction.sides import (
    AROUND,
    MOST,
    Quadrics,
    Sorted,
    find_sound,
    fit_quadrics,
    list_pairs,
    list_triples,
    meet,
    sort_around,
)

LOOKED = 16  # neighbours that a crease is looked for between
HINT = 0.6  # of the angle: what two neighbours must differ by for a look
ROUGH = 0.06  # how far gradients of a piece may be from its normals, root mean square
STRAY = 0.06  # spacings: a point farther from the joined pieces is not explained by them
ASTRAY = 0.5  # cosine: the same of a sound normal
LOOSE, FIRST = 3.0, 0.8  # as many times that at first; spacings that must be explained then
REFITS, SHOWN, WITHIN = 2, 3, 2.5  # further fits; points of either piece around a crease, and spacings to them
FEW = 2  # of every piece around a corner
BESIDE = 1.2  # spacings to the nearest point: where none is nothing contradicts a crease
BENT = 0.15  # second-order terms of a piece, in spacings: one that bends more is none
CHECKED = 90  # points around that are held against the pieces
LEAST, REACH = 2.0, 3.0  # spacings to the nearest point not explained: what a crease needs, and how far it counts
CARRIED = 1.0  # the same of one that is carried on
NEAR = 2.5  # spacings from the points in which a crease is looked for to where it is found
JOINED, LONG = 1.5, 8.0  # spacings between anchors of one crease, and what it is long at least
PORTION = 2000  # places that are looked at together


def look_for_creases(cloud: Prepared, spacing: Spacing, angle: float) -> Creases | None:
    """The creases of a prepared cloud; none if the angle is 0. Normals that are doubtful say nothing."""
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
    sure = concatenate(found)
    if not len(sure.sign):
        return None
    carrier = Carrier(points, normals, sound, spacing, seek, angle)
    sure = carrier.along(sure, LEAST)
    kept = find_long(sure.quadrics.centre, sure.quadrics.scale)
    if not kept.any():
        return None
    every = carrier.to_corners(carrier.along(sure.take(np.flatnonzero(kept)), CARRIED), CARRIED)
    return Creases(every.quadrics, every.sign, every.block, every.reach, angle)


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
        given = sort_around(self.spacing.tree, self.normals, self.sound, places, self.width_at(places))
        return self.refit(places, given, LEAST)

    def refit(self, places: np.ndarray, given: Sorted, least: float) -> Joined:
        """The same, of places (n, 3) where points were sorted, if all points up to `least` spacings are explained."""
        widths = self.width_at(places)
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
        fine = on & (made.reach >= least * made.quadrics.scale) & ~(made.quadrics.misfit > ROUGH).any(axis=1)
        fine &= self.spacing.tree.query(made.quadrics.centre)[0] < BESIDE * made.quadrics.scale
        fine &= ~(np.abs(made.quadrics.terms[..., 4:]) > BENT).any(axis=(1, 2))
        return made.take(fine)

    def compare(self, made: Joined, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """At points numbered (n, k): the joined pieces' values, the piece that decides, its cosine with the normal."""
        one = np.repeat(np.arange(len(rows)), rows.shape[1])
        values, slopes = made.quadrics.at(one, self.points[rows].reshape(-1, 3))
        value, active = join(values, made.sign[one], made.block[one])
        steep = slopes[np.arange(len(one)), active]
        cosine = np.einsum("nd,nd->n", steep, self.normals[rows].reshape(-1, 3)) / np.linalg.norm(steep, axis=1)
        return value.reshape(rows.shape), active.reshape(rows.shape), cosine.reshape(rows.shape)

    def join_best(self, quadrics: Quadrics, stray: float = STRAY) -> Joined:
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
                rest = np.where(distance[mine] <= held[:, None], np.abs(value), 0).sum(axis=1)
                better = (held > best.reach[mine]) | ((held == best.reach[mine]) & (rest < total[mine]))
                at = mine[better]
                best.reach[at], total[at], best.sign[at], best.block[at] = held[better], rest[better], s, blocks
        return best

    def show(self, made: Joined, rows: np.ndarray) -> np.ndarray:
        """How many of the points numbered (n, k) are on each piece, close to the centres: (n, MOST)."""
        value, active, _ = self.compare(made, rows)
        scale = made.quadrics.scale[:, None]
        seen = np.linalg.norm(self.points[rows] - made.quadrics.centre[:, None], axis=2) <= WITHIN * scale
        seen &= np.abs(value) < LOOSE * STRAY * scale
        return np.stack([((active == k) & seen).sum(axis=1) for k in range(MOST)], axis=1)

    def show_all(self, made: Joined) -> np.ndarray:
        """Where every piece has points around (n,) bool."""
        rows = self.spacing.tree.query(made.quadrics.centre, k=[*range(1, min(AROUND, len(self.points)) + 1)])[1]
        return np.asarray(((self.show(made, rows) >= FEW) | (made.block < 0)).all(axis=1))

    def _on_crease(self, made: Joined, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The places (n, 3) on a crease of joined pieces that are closest to their centres, and where there is one.

        Pieces that meet where no point is are no crease; both must show points, of those numbered `rows` (n, k).
        """
        centre, scale = made.quadrics.centre, made.quadrics.scale
        nearest, best = np.full(len(made.sign), np.inf), centre.copy()
        shown = self.show(made, rows)
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
