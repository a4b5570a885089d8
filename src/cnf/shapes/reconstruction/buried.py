"""Buried points: those in front of which everything is inside, by the winding number of all points.

A scanned body has none. Models put together from parts have them by the thousand: the far half of an eyeball within the
head, a limb that reaches into the trunk, a mouth folded through itself, cloth through skin. There the field must vanish
and grow along the normal, but all around is inside; so its zero set needs a second sheet, in front of the first, where
no point is. If the winding number at buried points has a say in the level of the surface, that sheet lies halfway to
the rest of it, across the whole body. With a level lower than any inside it closes right in front.
"""

from __future__ import annotations

import numpy as np

from cnf.shapes.clouds.preparation import Prepared
from cnf.shapes.clouds.spacing import Spacing
from cnf.shapes.clouds.winding import WindingNumber

SUSPECT = 0.1  # by how much w around a buried point is beyond 1/2, at least
SURE = 0.3  # the same of one that is told: in grooves narrower than two spacings what is in front may be mistaken
IN_FRONT = 1.0  # spacings: so far in front of a point in a groove is outside, unless another wall is nearer than that
WALLS, OPPOSITE = 4, -0.5  # points around that place which may be such a wall, and the cosine of their normals
TOLD, SHARE = 10, 1e-3  # points, and the share of all, from which on they are told


def find_buried(
    winding: WindingNumber, spacing: Spacing, means: np.ndarray, closed: float
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the buried ones of points (n, 3), and of those among them that surely are, in rising order.

    `means` (n,): w around each; `closed`: what it is on a closed surface, 1/2, or -1/2 if normals look inward.
    """
    side = np.sign(closed)
    order = winding.sources.order  # neighbours follow one another: sums of places far apart are long
    rows = order[side * (means[order] - closed) > SUSPECT]
    ways = side * IN_FRONT * spacing.widths[rows, None] * winding.normals[rows]
    inside = side * (winding.values(spacing.points[rows] + ways) - closed) > 0
    rows, ways = rows[inside], ways[inside]
    found = np.sort(rows[~_meets_wall(spacing, winding.normals, rows, ways)])
    return found, found[side * (means[found] - closed) > SURE]


def _meets_wall(spacing: Spacing, normals: np.ndarray, rows: np.ndarray, ways: np.ndarray) -> np.ndarray:
    """Whether the ways (k, 3) from points numbered (k,) lead through a sheet that faces them, (k,).

    Then there is outside between the two, however narrow: a slot, or two bodies that nearly touch.
    """
    if not len(rows):
        return np.empty(0, dtype=bool)
    ends = spacing.points[rows] + ways
    near = spacing.tree.query(ends, k=[*range(1, min(WALLS, len(normals)) + 1)])[1]  # (k, WALLS)
    opposed = np.einsum("kwd,kd->kw", normals[near], normals[rows]) < OPPOSITE
    ahead = np.einsum("kwd,kd->kw", spacing.points[near] - spacing.points[rows, None], ways) > 0
    return np.asarray((opposed & ahead).any(axis=1))


def note_buried(buried: np.ndarray, cloud: Prepared) -> list[str]:
    """What is to be said of points that surely are buried, by their numbers (k,)."""
    if len(buried) < max(TOLD, SHARE * len(cloud)):
        return []
    first = ", ".join(f"{x:.4g}" for x in cloud.to_input(cloud.points[buried[:1]])[0])
    return [
        f"{len(buried)} of {len(cloud)} points lie inside of what the others enclose, point {buried[0]} at ({first}) "
        "and others: sheets within a body, or parts that reach into each other. The mesh goes through them too and "
        "closes within about a spacing in front of them, which is a guess; remove them if only the outside is wanted"
    ]
