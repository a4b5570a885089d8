"""Creases carried on from where they were found: along edges into gaps, and to the corners where edges meet.

In come places of which it is certain that they are on a crease, with their pieces; out go more of them. A piece that is
known need not be found again: the points that lie on it are what it is fitted to at the next place. So less need be
explained there than where a crease is found, and no crease begins where none was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from cnf.meshes.mesh import unit_rows
from cnf.shapes.clouds.spacing import Spacing
from cnf.shapes.reconstruction.creases import Joined, concatenate
from cnf.shapes.reconstruction.sides import AROUND, MOST, Quadrics, Sorted, meet

APART = 0.5  # spacings between anchors, about
FARTHEST = 40  # steps along an edge
CLOSE = 0.6  # of a step: an anchor this close to another says nothing new
ONTO, ALIKE = 0.12, 0.9  # spacings, and cosine: what a point may differ by from the piece that it is on
CORNER = 4.5  # spacings between a corner and the anchors whose pieces meet there
SAME, TURNED = 0.3, 0.95  # spacings, and cosine: pieces that differ by less near a corner are one
TRIED = 12  # anchors around a corner whose pieces are taken

# Places (n, 3), what their neighbours are on, and how far that must explain the points: the places that hold.
Fit = Callable[[np.ndarray, Sorted, float], Joined]


@dataclass(frozen=True, eq=False)
class Carrier:
    """What is needed to judge a place: the cloud, and how pieces are fitted to it."""

    points: np.ndarray
    normals: np.ndarray
    sound: np.ndarray
    spacing: Spacing
    fit: Fit
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
            found = self.fit(targets, self._sort(targets, front.quadrics, parents[:, None]), least)
            front = found.take(self._new(found.quadrics.centre, found.quadrics.scale, known))
            if not len(front.sign):
                break
            known = concatenate([known, front])
        return known

    def to_corners(self, known: Joined, least: float) -> Joined:
        """Known places (n), and the corners that follow from three pieces of those around."""
        places = self._list_corners(known)
        if not len(places):
            return known
        tree = cKDTree(known.quadrics.centre)
        index = tree.query(places, k=[*range(1, min(TRIED, tree.n) + 1)])[1]
        found = self.fit(places, self._sort(places, known.quadrics, index), least)
        found = found.take(np.flatnonzero((found.block >= 0).sum(axis=1) > 2))
        return concatenate([known, found]) if len(found.sign) else known

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

    def _sort(self, places: np.ndarray, quadrics: Quadrics, index: np.ndarray) -> Sorted:
        """The points around places (n, 3) by which piece of the quadrics numbered (n, m) they are on."""
        tree = self.spacing.tree
        rows = tree.query(places, k=[*range(1, min(AROUND, tree.n) + 1)])[1]
        count, tried = index.shape
        one = np.repeat(np.arange(count), rows.shape[1])
        x, n = self.points[rows].reshape(-1, 3), self.normals[rows].reshape(-1, 3)
        sound = self.sound[rows].reshape(-1)
        scale = quadrics.scale[index[:, 0]]
        # Pieces in the order of their anchors; one that is as another before it is the same.
        chosen = np.full((count, MOST, 2), -1)
        held = np.zeros(count, dtype=np.int64)
        here = np.full((count, MOST), np.nan)
        steep = np.full((count, MOST, 3), np.nan)
        for j in range(tried):
            values, slopes = quadrics.at(index[:, j], places)
            for k in range(MOST):
                there = ~np.isnan(values[:, k]) & (held < MOST)
                unit = unit_rows(slopes[:, k])
                with np.errstate(invalid="ignore"):
                    same = (np.abs(here - values[:, [k]]) < SAME * scale[:, None]) & (
                        np.einsum("pkd,pd->pk", steep, unit) > TURNED
                    )
                new = np.flatnonzero(there & ~same.any(axis=1))
                chosen[new, held[new]] = np.column_stack([index[new, j], np.full(len(new), k)])
                here[new, held[new]], steep[new, held[new]] = values[new, k], unit[new]
                held[new] += 1
        piece, best = np.full(len(x), -1), np.full(len(x), np.inf)
        for k in range(MOST):
            there = (chosen[:, k, 0] >= 0)[one]
            at, which = np.maximum(chosen[:, k, 0], 0)[one], np.maximum(chosen[:, k, 1], 0)[one]
            values, slopes = quadrics.at(at, x)
            every = np.arange(len(x))
            value, slope = np.abs(values[every, which]) / scale[one], unit_rows(slopes[every, which])
            fits = there & (value < ONTO) & (~sound | (np.einsum("pd,pd->p", slope, n) > ALIKE)) & (value < best)
            piece[fits], best[fits] = k, value[fits]
        return Sorted(rows, piece.reshape(rows.shape), self.sound[rows])

    def _list_corners(self, known: Joined) -> np.ndarray:
        """Where two pieces of one anchor meet a third of another: (m, 3), candidates only."""
        places, scale = known.quadrics.centre, known.quadrics.scale
        edges = np.flatnonzero((known.block >= 0).sum(axis=1) == 2)
        if len(edges) < 2:
            return np.empty((0, 3))
        pairs = cKDTree(places[edges]).query_pairs(CORNER * float(np.median(scale)), output_type="ndarray")
        i, j = np.concatenate([edges[pairs], edges[pairs[:, ::-1]]]).T
        found = []
        own = known.quadrics.at(i, places[j])[1]
        other = known.quadrics.at(j, places[j])[1]
        for k in range(2):  # two pieces are the first two
            third = unit_rows(other[:, k])
            alike = np.einsum("pld,pd->pl", unit_rows(own[:, :2].reshape(-1, 3)).reshape(-1, 2, 3), third).max(axis=1)
            rows = np.flatnonzero(alike < np.cos(np.radians(self.angle)))
            if not len(rows):
                continue
            moved = known.quadrics.take(i[rows])
            theirs = known.quadrics.take(j[rows]).around(moved.centre, moved.scale)
            terms = moved.terms.copy()
            terms[:, 2] = theirs.terms[:, k]
            triple = Quadrics(moved.centre, moved.scale, terms, moved.misfit)
            at, turn, fine = meet(triple, np.arange(len(rows)), (places[i[rows]] + places[j[rows]]) / 2, (0, 1, 2))
            reach = CORNER * scale[i[rows]]
            fine &= (np.linalg.norm(at - places[i[rows]], axis=1) < reach) & (turn > 0.5 * np.radians(self.angle))
            fine &= np.linalg.norm(at - places[j[rows]], axis=1) < reach
            found.append(np.column_stack([at, scale[i[rows]]])[fine])
        every = np.concatenate(found) if found else np.empty((0, 4))
        cell = np.floor(every[:, :3] / (APART * every[:, 3:]).mean()).astype(np.int64) if len(every) else every[:, :3]
        return every[np.sort(np.unique(cell, axis=0, return_index=True)[1]), :3]


def tangents(joined: Joined) -> np.ndarray:
    """Along the edges of places where two pieces meet, (n, 3)."""
    slopes = joined.quadrics.at(np.arange(len(joined.sign)), joined.quadrics.centre)[1]
    return unit_rows(np.cross(slopes[:, 0], slopes[:, 1]))
