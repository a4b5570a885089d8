"""Creases of a surface: where smooth pieces meet at an angle, and the surface as what they make together there.

In come a cloud's points with normals; out go `Creases`: places along the creases (anchors), each with the quadrics of
the pieces around and how they are joined. Two pieces meet as the larger (a convex edge) or the smaller (a hollow one)
of their functions; at a corner these are nested. Of all ways to join the pieces the one is taken that has the points
farthest around on its zero set, and it holds no farther than that: a crease must explain every point near it, or there
is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from scipy.spatial import cKDTree

from cnf.meshes.mesh import unit_rows
from cnf.shapes.clouds.spacing import Spacing
from cnf.shapes.reconstruction.sides import MOST, Quadrics
from cnf.shapes.reconstruction.surface import fade

FULL = 0.5  # of the reach: so far the pieces alone count
BARE, VOID = 1.1, 1.5  # spacings to the nearest point: up to the first pieces alone count, from the second on not
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


def concatenate(parts: Sequence[Joined]) -> Joined:
    """All places together."""
    quadrics = Quadrics(*(np.concatenate([getattr(p.quadrics, f.name) for p in parts]) for f in fields(Quadrics)))
    return Joined(quadrics, *(np.concatenate([getattr(p, name) for p in parts]) for name in ("sign", "block", "reach")))


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
