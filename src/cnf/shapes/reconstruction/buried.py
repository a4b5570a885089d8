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
IN_FRONT = 1.0  # spacings: so far in front of a point in a groove is outside, and not yet the other side
TOLD, SHARE = 10, 1e-3  # points, and the share of all, from which on they are told


def find_buried(
    winding: WindingNumber, spacing: Spacing, means: np.ndarray, closed: float
) -> np.ndarray:
    """Numbers (k,) of the buried ones of points (n, 3), in rising order.

    `means` (n,): w around each; `closed`: what it is on a closed surface, 1/2, or -1/2 if normals look inward.
    """
    side = np.sign(closed)
    order = winding.sources.order  # neighbours follow one another: sums of places far apart are long
    rows = order[side * (means[order] - closed) > SUSPECT]
    ways = side * IN_FRONT * spacing.widths[rows, None] * winding.normals[rows]
    return np.sort(rows[side * (winding.values(spacing.points[rows] + ways) - closed) > 0])


def note_buried(buried: np.ndarray, cloud: Prepared) -> list[str]:
    """What is to be said of buried points, by their numbers (k,)."""
    if len(buried) < max(TOLD, SHARE * len(cloud)):
        return []
    points = cloud.to_input(cloud.points[buried])
    low, high = (", ".join(f"{x:.4g}" for x in corner) for corner in (points.min(axis=0), points.max(axis=0)))
    return [
        f"{len(buried)} of {len(cloud)} points, between ({low}) and ({high}), lie inside of what the others enclose: "
        "sheets within a body, or parts that reach into each other. The mesh goes through them too and closes in front "
        "of them, within about a spacing; that side is a guess. Remove them if only the outside is wanted"
    ]
