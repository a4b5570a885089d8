"""Buried points: those in front of which everything is inside, by the winding number of all points.

A scanned body has none. Models put together from parts have them by the thousand: the far half of an eyeball within the
head, a limb that reaches into the trunk, a mouth folded through itself, cloth through skin. There the field must vanish
and grow along the normal, but all around is inside; so its zero set needs a second sheet, in front of the first, where
no point is. If the winding number at buried points has a say in the level of the surface, that sheet lies halfway to
the rest of it, across the whole body. With a level lower than any inside it closes right in front.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cnf.shapes.clouds.spacing import Spacing
from cnf.shapes.clouds.winding import WindingNumber

CLOSED = 0.25  # how far w around a point may be below 1/2 on a closed surface: random areas are off by less
RARE = 0.05  # share of points that may be otherwise, around small holes
SUSPECT = 0.1  # by how much w around a buried point is beyond 1/2, at least
SURE = 0.3  # the same of one that is told: in grooves narrower than two spacings what is in front may be mistaken
IN_FRONT = 1.0  # spacings: so far in front of a point in a groove is outside, unless another wall is nearer than that
WALLS, OPPOSITE = 4, -0.5  # points around that place which may be such a wall, and the cosine of their normals
TOLD, SHARE = 10, 1e-3  # points, and the share of all, from which on they are told

Around = tuple[np.ndarray, np.ndarray]  # points (k, WALLS, 3) and their normals


def find_buried(
    winding: WindingNumber, spacing: Spacing, means: np.ndarray, closed: float
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the buried ones of points (n, 3), and of those among them that surely are, in rising order.

    `means` (n,): w around each; `closed`: what it is on a closed surface, 1/2, or -1/2 if normals look inward.
    """
    order = winding.sources.order  # neighbours follow one another: sums of places far apart are long
    order = order[np.sign(closed) * (means[order] - closed) > SUSPECT]
    points, normals = spacing.points[order], winding.normals[order]

    def around(places: np.ndarray) -> Around:
        index = spacing.tree.query(places, k=[*range(1, min(WALLS, len(means)) + 1)])[1]
        return spacing.points[index], winding.normals[index]

    found, sure = are_buried(winding, around, points, normals, spacing.widths[order], means[order], closed)
    return np.sort(order[found]), np.sort(order[sure])


def are_buried(
    winding: WindingNumber,
    around: Callable[[np.ndarray], Around],
    points: np.ndarray,
    normals: np.ndarray,
    widths: np.ndarray,
    means: np.ndarray,
    closed: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Which of some points (n, 3) are, and which surely, each (n,) bool; see `find_buried`.

    `around`: places (k, 3) to the `WALLS` points of the cloud nearest to each, and their normals.
    """
    side = np.sign(closed)
    beyond = side * (means - closed)
    rows = np.flatnonzero(beyond > SUSPECT)
    ways = side * IN_FRONT * widths[rows, None] * normals[rows]
    inside = side * (winding.values(points[rows] + ways) - closed) > 0
    rows, ways = rows[inside], ways[inside]
    found = np.zeros(len(points), dtype=bool)
    if len(rows):
        near, facing = around(points[rows] + ways)
        found[rows] = ~_meets_wall(points[rows], normals[rows], ways, near, facing)
    return found, found & (beyond > SURE)


def _meets_wall(
    points: np.ndarray, normals: np.ndarray, ways: np.ndarray, near: np.ndarray, facing: np.ndarray
) -> np.ndarray:
    """Whether the ways (k, 3) from points lead through a sheet that faces them, with points near (k, WALLS, 3), (k,).

    Then there is outside between the two, however narrow: a slot, or two bodies that nearly touch.
    """
    opposed = np.einsum("kwd,kd->kw", facing, normals) < OPPOSITE
    ahead = np.einsum("kwd,kd->kw", near - points[:, None], ways) > 0
    return np.asarray((opposed & ahead).any(axis=1))


def level_in_front(closed: float) -> float:
    """What the winding number is taken for at buried points: lower than at any other, see above."""
    return closed - float(np.sign(closed)) * CLOSED


def is_closed(means: np.ndarray, half: float) -> np.ndarray:
    """Where w around points (n,) speaks of a closed surface, (n,): around holes it is less; more, in nested sheets."""
    return np.asarray(np.sign(half) * (means - half) >= -CLOSED)


def note_buried(count: int, total: int, first: int, place: np.ndarray) -> list[str]:
    """What is to be said of points that surely are buried: how many, and number and place (3,) of the first."""
    if count < max(TOLD, SHARE * total):
        return []
    where = ", ".join(f"{x:.4g}" for x in place)
    return [
        f"{count} of {total} points lie inside of what the others enclose, point {first} at ({where}) and others: "
        "sheets within a body, or parts that reach into each other. The mesh goes through them too and closes "
        "within about a spacing in front of them, which is a guess; remove them if only the outside is wanted"
    ]
