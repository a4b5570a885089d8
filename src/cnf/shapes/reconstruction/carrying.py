"""Creases carried on from where they were found: along edges into gaps, and to the corners where edges meet.

In come places of which it is certain that they are on a crease, with their pieces; out go more of them. A piece that is
known need not be found again: the points that lie on it are what it is fitted to at the next place. So less need be
explained there than where a crease is found, and no crease begins where none was.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np
from scipy.spatial import cKDTree

from cnf.meshes.mesh import unit_rows
from cnf.shapes.clouds.spacing import Spacing
from cnf.shapes.reconstruction.creases import Joined, concatenate
from cnf.shapes.reconstruction.sides import AROUND, MOST, TERMS, Quadrics, Sorted, meet

APART = 0.5  # spacings between anchors, about
FARTHEST = 40  # steps along an edge
CLOSE = 0.6  # of a step: an anchor this close to another says nothing new
ONTO, ALIKE = 0.12, 0.9  # spacings, and cosine: what a point may differ by from the piece that it is on
CORNER = 6.0  # spacings between a corner and the anchors whose pieces meet there
SAME, TURNED = 0.3, 0.95  # spacings, and cosine: pieces that differ by less near a corner are one
CANDIDATES = 24  # sets of three pieces that are tried at a corner
TRIED = 12  # anchors around a corner whose pieces are taken


class Judge(Protocol):
    """Who fits pieces to places and says whether they hold."""

    def refit(self, places: np.ndarray, given: Sorted, least: float) -> Joined:
        """Of places (n, 3) with their points sorted those where the points up to `least` spacings are explained."""

    def join_best(self, quadrics: Quadrics) -> Joined:
        """Pieces as they are, joined as explains the points farthest."""

    def show_all(self, made: Joined) -> np.ndarray:
        """Where every piece has points around (n,) bool."""


@dataclass(frozen=True, eq=False)
class Carrier:
    """What is needed to judge a place: the cloud, and who judges pieces."""

    points: np.ndarray
    normals: np.ndarray
    sound: np.ndarray
    spacing: Spacing
    judge: Judge
    angle: float

    def along(self, known: Joined, least: float) -> Joined:
        """Known places (n), and those that follow from them along their edges."""
        front = known
        for _ in range(FARTHEST):
            pairs = np.flatnonzero((front.block >= 0).sum(axis=1) == 2)
            if not len(pairs):
                break
            front = front.take(pairs)
            places, scale = front.quadrics.centre, front.quadrics.scale
            way = APART * scale[:, None] * tangents(front)
            targets = np.concatenate([places + way, places - way])
            parents = np.tile(np.arange(len(places)), 2)
            free = self._new(targets, np.tile(scale, 2), known)
            targets, parents = targets[free], parents[free]
            if not len(targets):
                break
            moved = front.quadrics.take(parents).around(targets, front.quadrics.scale[parents])
            found = self.judge.refit(targets, self._sort(moved), least)
            front = found.take(self._new(found.quadrics.centre, found.quadrics.scale, known))
            if not len(front.sign):
                break
            known = concatenate([known, front])
        return known

    def to_corners(self, known: Joined, least: float) -> Joined:
        """Known places (n), and the corners that follow from the pieces of those around, continued as they are.

        Of all candidates at one corner that counts which explains the points farthest.
        """
        triples = self._list_triples(known)
        places = triples.centre
        if not len(places):
            return known
        group = gather(places, triples.scale)
        first = np.unique(group, return_index=True)[1]
        tree = cKDTree(known.quadrics.centre)
        index = tree.query(places[first], k=[*range(1, min(TRIED, tree.n) + 1)])[1]
        every = self._choose(places[first], known.quadrics, index)  # where four meet
        made = concatenate([self.judge.join_best(triples), self.judge.join_best(every)])
        kept = (made.reach >= least * made.quadrics.scale) & ((made.block >= 0).sum(axis=1) > 2)
        kept &= self.judge.show_all(made)
        order = np.lexsort([(made.block >= 0).sum(axis=1), -made.reach])
        order = order[kept[order]]
        best = np.unique(np.concatenate([group, group[first]])[order], return_index=True)[1]
        return concatenate([known, made.take(order[best])])

    def _new(self, places: np.ndarray, scale: np.ndarray, known: Joined) -> np.ndarray:
        """Numbers of places (n, 3) that are close neither to a known one nor to one before."""
        step = CLOSE * APART * scale
        free = np.flatnonzero(cKDTree(known.quadrics.centre).query(places)[0] > step)
        if not len(free):
            return free
        gone = np.zeros(len(free), dtype=bool)
        for k, group in enumerate(cKDTree(places[free]).query_ball_point(places[free], step[free])):
            if not gone[k]:
                gone[[other for other in group if other > k]] = True
        return free[~gone]

    def _choose(self, places: np.ndarray, quadrics: Quadrics, index: np.ndarray) -> Quadrics:
        """At places (n, 3) the pieces of the quadrics numbered (n, m), each once, in the order that they come in."""
        scale = quadrics.scale[index[:, 0]]
        held = np.zeros(len(places), dtype=np.int64)
        terms = np.full((len(places), MOST, TERMS), np.nan)
        misfit = np.full((len(places), MOST), np.nan)
        for j in range(index.shape[1]):
            moved = quadrics.take(index[:, j]).around(places, scale)
            for k in range(MOST):
                value, slope = moved.terms[:, k, 0], unit_rows(moved.terms[:, k, 1:4])
                same = np.abs(terms[..., 0] - value[:, None]) < SAME
                same &= np.einsum("pkd,pd->pk", unit_rows(terms[..., 1:4]), slope) > TURNED
                new = np.flatnonzero(~np.isnan(value) & (held < MOST) & ~same.any(axis=1))
                terms[new, held[new]], misfit[new, held[new]] = moved.terms[new, k], moved.misfit[new, k]
                held[new] += 1
        return Quadrics(places, scale, terms, misfit)

    def _sort(self, quadrics: Quadrics) -> Sorted:
        """The points around the centres of quadrics (n,) by which piece they are on."""
        tree = self.spacing.tree
        rows = tree.query(quadrics.centre, k=[*range(1, min(AROUND, tree.n) + 1)])[1]
        one = np.repeat(np.arange(len(rows)), rows.shape[1])
        values, slopes = quadrics.at(one, self.points[rows].reshape(-1, 3))
        off = np.abs(values) / quadrics.scale[one, None]
        cosine = np.einsum("pkd,pd->pk", slopes, self.normals[rows].reshape(-1, 3)) / np.linalg.norm(slopes, axis=2)
        off[~(off < ONTO) | (self.sound[rows].reshape(-1, 1) & ~(cosine > ALIKE))] = np.inf
        piece = np.where(np.isfinite(off).any(axis=1), np.argmin(off, axis=1), -1)
        return Sorted(rows, piece.reshape(rows.shape), self.sound[rows])

    def _list_triples(self, known: Joined) -> Quadrics:
        """Where two pieces of one anchor meet a third of another, each set of three around the place: candidates."""
        places, scale = known.quadrics.centre, known.quadrics.scale
        edges = np.flatnonzero((known.block >= 0).sum(axis=1) == 2)
        pairs = cKDTree(places[edges]).query_pairs(CORNER * float(np.median(scale)), output_type="ndarray")
        i, j = np.concatenate([edges[pairs], edges[pairs[:, ::-1]]]).T
        own, other = (unit_slopes(known.quadrics, rows, places[j]) for rows in (i, j))
        found = []
        for k in range(2):  # two pieces are the first two
            alike = np.einsum("pld,pd->pl", own, other[:, k]).max(axis=1)
            rows = np.flatnonzero(alike < np.cos(np.radians(self.angle)))
            one, two = i[rows], j[rows]
            pair = known.quadrics.take(one)
            terms = pair.terms.copy()
            terms[:, 2] = known.quadrics.take(two).around(pair.centre, pair.scale).terms[:, k]
            triple = Quadrics(pair.centre, pair.scale, terms, pair.misfit)
            at, turn, fine = meet(triple, np.arange(len(rows)), (places[one] + places[two]) / 2, (0, 1, 2))
            fine &= np.linalg.norm(at - places[one], axis=1) < CORNER * pair.scale
            fine &= np.linalg.norm(at - places[two], axis=1) < CORNER * pair.scale
            fine &= turn > 0.5 * np.radians(self.angle)
            found.append(triple.take(fine).around(at[fine], pair.scale[fine]))
        every = Quadrics(*(np.concatenate([getattr(q, f.name) for q in found]) for f in fields(Quadrics)))
        group = gather(every.centre, every.scale)
        mixed = np.random.default_rng(0).permutation(len(group))
        order = mixed[np.argsort(group[mixed], kind="stable")]
        rank = np.arange(len(group)) - np.searchsorted(group[order], group[order])
        return every.take(np.sort(order[rank < CANDIDATES]))


def unit_slopes(quadrics: Quadrics, rows: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Directions (P, 2, 3) in which the first two pieces of quadrics (P,) grow at x (P, 3)."""
    return unit_rows(quadrics.at(rows, x)[1][:, :2].reshape(-1, 3)).reshape(-1, 2, 3)


def gather(places: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Numbers of groups (n,): places (n, 3) within a spacing of the first of them."""
    group = np.full(len(places), -1)
    if len(places):
        tree = cKDTree(places)
        for k in range(len(places)):
            if group[k] < 0:
                near = np.array(tree.query_ball_point(places[k], scale[k]))
                group[near[group[near] < 0]] = k
    return group


def tangents(joined: Joined) -> np.ndarray:
    """Along the edges of places where two pieces meet, (n, 3)."""
    slopes = joined.quadrics.at(np.arange(len(joined.sign)), joined.quadrics.centre)[1]
    return unit_rows(np.cross(slopes[:, 0], slopes[:, 1]))
