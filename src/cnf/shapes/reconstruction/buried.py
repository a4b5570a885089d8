"""Buried points: those in front of which everything is inside, by the winding number of all points.

A scanned body has none. Models put together from parts have them by the thousand: the far half of an eyeball within the
head, a limb that reaches into the trunk, a mouth folded through itself, cloth through skin. There the field must vanish
and grow along the normal, but all around is inside; so its zero set needs a second sheet, in front of the first, where
no point is. If the winding number at buried points has a say in the level of the surface, that sheet lies halfway to
the rest of it, across the whole body. With a level lower than any inside it closes right in front.
"""

from __future__ import annotations

import numpy as np

from cnf.shapes.clouds.spacing import Spacing
from cnf.shapes.clouds.winding import WindingNumber

CLOSED = 0.25  # how far w around a point may be below 1/2 on a closed surface: random areas are off by less
RARE = 0.05  # share of points that may be otherwise, around small holes
SUSPECT = 0.1  # by how much w around a buried point is beyond 1/2, at least
SURE = 0.3  # the same of one that is told: in grooves narrower than two spacings what is in front may be mistaken
IN_FRONT = 1.0  # spacings: so far in front of a point in a groove is outside, and not yet the other side
TOLD, SHARE = 10, 1e-3  # points, and the share of all, from which on they are told


def find_buried(
    winding: WindingNumber, spacing: Spacing, means: np.ndarray, closed: float
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the buried ones of points (n, 3), and of those among them that surely are, in rising order.

    `means` (n,): w around each; `closed`: what it is on a closed surface, 1/2, or -1/2 if normals look inward.
    """
    order = winding.sources.order  # neighbours follow one another: sums of places far apart are long
    points, normals = spacing.points[order], winding.normals[order]
    found, sure = are_buried(winding, points, normals, spacing.widths[order], means[order], closed)
    return np.sort(order[found]), np.sort(order[sure])


def are_buried(
    winding: WindingNumber, points: np.ndarray, normals: np.ndarray, widths: np.ndarray, means: np.ndarray, closed: float
) -> tuple[np.ndarray, np.ndarray]:
    """Which of some points (n, 3) are, and which surely, each (n,) bool; see `find_buried`."""
    side = np.sign(closed)
    beyond = side * (means - closed)
    found = beyond > SUSPECT
    ahead = points[found] + side * IN_FRONT * widths[found, None] * normals[found]
    found[found] = side * (winding.values(ahead) - closed) > 0
    return found, found & (beyond > SURE)


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
