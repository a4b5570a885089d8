"""Smooth pieces of a surface around places where it may have a crease, each as a quadric.

In come points with unit normals; out go, around each place, the neighbours sorted into pieces by their normals, and a
quadric through each piece with its normals as gradients. Planes, spheres and cylinders are met to rounding, so what is
continued beyond the points of a piece, to where it meets the next, is right for these.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

AROUND = 44  # points around a place that are sorted into pieces
MOST, FEWEST, FIRM = 4, 6, 3  # pieces at a place; points of a piece, and those of them whose normals count
LINK = 14.0  # degrees between the normals of two points on one piece
LONG = 2.2  # spacings between them
ARC = 0.06  # sine of the angle between a chord and the arc that the two normals at its ends belong to
SEEN, OWN = 10, 0.4  # neighbours by which a normal is judged; share of them that must fit it
WIDE = 0.5  # cosine: neighbours that turn away farther do not judge
RIDGE = 1e-9  # what keeps terms that the points say nothing about at zero
TERMS = 10
STEPS = 6  # of Newton, towards an edge or a corner
ROUNDS, SPARED = 3, 0.01  # of a fit; how far a gradient may always be from its normal


@dataclass(frozen=True, eq=False)
class Sorted:
    """Neighbours of places, and the piece each is on."""

    rows: np.ndarray  # (n, AROUND) numbers of points
    piece: np.ndarray  # (n, AROUND), -1 for none
    firm: np.ndarray  # (n, AROUND) bool: whether its normal counts, or only its place

    def take(self, rows: np.ndarray) -> Sorted:
        return Sorted(self.rows[rows], self.piece[rows], self.firm[rows])


@dataclass(frozen=True, eq=False)
class Quadrics:
    """f = 0 with |grad f| near 1, in lengths of `scale` from `centre`; pieces that there are not are NaN."""

    centre: np.ndarray  # (n, 3)
    scale: np.ndarray  # (n,)
    terms: np.ndarray  # (n, MOST, TERMS)
    misfit: np.ndarray  # (n, MOST): how far gradients are from normals, root mean square

    def at(self, rows: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of the quadrics numbered (P,): values (P, MOST), in lengths of x, and gradients (P, MOST, 3) at x (P, 3)."""
        local = (x - self.centre[rows]) / self.scale[rows, None]
        basis, slopes = list_terms(local), list_slopes(local)
        terms = self.terms[rows]
        values = np.einsum("pkt,pt->pk", terms, basis) * self.scale[rows, None]
        return values, np.einsum("pkt,pdt->pkd", terms, slopes)

    def around(self, centre: np.ndarray, scale: np.ndarray) -> Quadrics:
        """The same functions written around other places (n, 3), in other lengths (n,)."""
        shift, ratio = (centre - self.centre) / self.scale[:, None], scale / self.scale
        basis, slopes = list_terms(shift), list_slopes(shift)
        constant = np.einsum("pkt,pt->pk", self.terms, basis)
        linear = np.einsum("pkt,pdt->pkd", self.terms, slopes) * ratio[:, None, None]
        terms = np.concatenate([constant[..., None], linear, self.terms[..., 4:] * ratio[:, None, None] ** 2], axis=-1)
        return Quadrics(centre, scale, terms / ratio[:, None, None], self.misfit)

    def take(self, rows: np.ndarray) -> Quadrics:
        return Quadrics(self.centre[rows], self.scale[rows], self.terms[rows], self.misfit[rows])


def list_terms(y: np.ndarray) -> np.ndarray:
    """The monomials up to degree two at y (..., 3): (..., TERMS)."""
    a, b, c = (y[..., k] for k in range(3))
    return np.stack([np.ones_like(a), a, b, c, a * a, b * b, c * c, a * b, a * c, b * c], axis=-1)


def list_slopes(y: np.ndarray) -> np.ndarray:
    """Their gradients (..., 3, TERMS)."""
    a, b, c = (y[..., k] for k in range(3))
    zero, one = np.zeros_like(a), np.ones_like(a)
    rows = [
        [zero, one, zero, zero, 2 * a, zero, zero, b, c, zero],
        [zero, zero, one, zero, zero, 2 * b, zero, a, zero, c],
        [zero, zero, zero, one, zero, zero, 2 * c, zero, a, b],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def find_sound(tree: cKDTree, normals: np.ndarray) -> np.ndarray:
    """The points (P,) bool whose normals fit the places of the points around.

    Through two points with normals at their ends there is an arc if the chord is at right angles to the sum of the
    normals. Normals that were interpolated across a crease do not pass.
    """
    points = tree.data
    fits = np.zeros(len(points), dtype=bool)
    for start in range(0, len(points), 1 << 15):
        part = slice(start, start + (1 << 15))
        index = tree.query(points[part], k=[*range(2, min(SEEN + 1, tree.n) + 1)])[1]
        cosine = np.einsum("pkd,pd->pk", normals[index], normals[part])
        arc = np.where(
            cosine > WIDE, _arc(points[part][:, None], points[index], normals[part][:, None], normals[index]), 1
        )
        fits[part] = np.quantile(arc, OWN, axis=1) <= ARC
    return fits


def _arc(p: np.ndarray, q: np.ndarray, m: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Half the sine between chords from p to q (..., 3) and the sum of the normals m, n (..., 3)."""
    way = q - p
    length = np.sqrt(np.einsum("...d,...d->...", way, way))
    return 0.5 * np.abs(np.einsum("...d,...d->...", way, m + n)) / np.maximum(length, 1e-300)


def sort_around(
    tree: cKDTree, normals: np.ndarray, sound: np.ndarray, places: np.ndarray, widths: np.ndarray
) -> Sorted:
    """Sort the neighbours of places (n, 3), where points are `widths` (n,) apart, into pieces."""
    rows = tree.query(places, k=[*range(1, min(AROUND, tree.n) + 1)])[1]
    points, count = tree.data, rows.shape[1]
    p, n = points[rows], normals[rows]
    cosine = np.einsum("pid,pjd->pij", n, n)
    square = np.einsum("pid,pid->pi", p - places[:, None], p - places[:, None])
    inner = np.einsum("pid,pjd->pij", p - places[:, None], p - places[:, None])
    apart = np.sqrt(np.maximum(square[:, :, None] + square[:, None, :] - 2 * inner, 0))
    own = np.einsum("pid,pid->pi", p - places[:, None], n)
    cross = np.einsum("pid,pjd->pij", p - places[:, None], n)  # p_i . n_j
    chord = cross.transpose(0, 2, 1) - own[:, :, None] + own[:, None, :] - cross  # (p_j - p_i) . (n_i + n_j)
    linked = cosine > np.cos(np.radians(LINK))
    linked &= (apart < LONG * widths[:, None, None]) & (
        np.abs(chord) <= 2 * ARC * apart + 1e-12 * widths[:, None, None]
    )
    good = sound[rows]
    linked &= good[:, :, None] & good[:, None, :]
    label = np.where(good, np.arange(count), count)
    while True:
        spread = np.where(linked, label[:, None, :], count).min(axis=2)
        spread = np.minimum(spread, label)
        if np.array_equal(spread, label):
            break
        label = spread
    size = np.zeros((len(places), count + 1), dtype=np.int64)
    np.add.at(size, (np.arange(len(places))[:, None], label), 1)
    size[:, count] = 0
    size[size < FEWEST] = 0
    order = np.argsort(-size, axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(count + 1)[None], axis=1)
    piece = np.take_along_axis(rank, label, axis=1)
    there = np.take_along_axis(size, label, axis=1) > 0
    return Sorted(rows, np.where(there & (piece < MOST), piece, -1), good)


def fit_quadrics(
    points: np.ndarray, normals: np.ndarray, places: np.ndarray, widths: np.ndarray, given: Sorted
) -> Quadrics:
    """A quadric through every piece, by least squares that count near points most.

    A normal that does not fit what the others of the piece say counts little in a second round and a third.
    """
    local = (points[given.rows] - places[:, None]) / widths[:, None, None]
    wanted = normals[given.rows]
    near = np.exp(-np.einsum("pkd,pkd->pk", local, local) / 4)
    values, slopes = list_terms(local), list_slopes(local)
    terms, misfit = np.full((len(places), MOST, TERMS), np.nan), np.full((len(places), MOST), np.nan)
    for k in range(MOST):
        mine = (given.piece == k).sum(axis=1) >= FEWEST
        mine &= ((given.piece == k) & given.firm).sum(axis=1) >= FIRM
        v, g, n = values[mine], slopes[mine], wanted[mine]
        on, firm = (given.piece == k)[mine], given.firm[mine] & (given.piece == k)[mine]
        weight = near[mine] * on / np.maximum((near[mine] * on).sum(axis=1, keepdims=True), 1e-300)
        trust = firm.astype(np.float64)
        for _ in range(ROUNDS):
            w = weight * trust
            a = np.einsum("pk,pks,pkt->pst", weight, v, v) + np.einsum("pk,pkds,pkdt->pst", w, g, g)
            a += RIDGE * np.trace(a, axis1=1, axis2=2)[:, None, None] * np.eye(TERMS)
            found = np.linalg.solve(a, np.einsum("pk,pkdt,pkd->pt", w, g, n)[..., None])[..., 0]
            off = np.linalg.norm(np.einsum("pkdt,pt->pkd", g, found) - n, axis=2)
            usual = np.nanmedian(np.where(firm, off, np.nan), axis=1)
            trust = firm / (1 + (off / (SPARED + 2 * usual[:, None])) ** 2) ** 2
        terms[mine, k] = found
        misfit[mine, k] = np.sqrt((w * off**2).sum(axis=1) / w.sum(axis=1))
    return Quadrics(places, widths, terms, misfit)


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
