"""Clouds, sheets: pieces of a surface with one sign each, and what every one adds to the winding number.

In come points (P, 3) with unit normals, areas and widths, and which sheet each is on; out goes the quadratic form

    E(s) = mean over places of (sum_k s_k W_k - 1/2)^2,     s_k = +-1,

W_k being what sheet k adds to the winding number there. Places are points of the surface, where the winding number of a
closed one is 1/2: a sheet whose sign is wrong is seen from all others, across thin parts and gaps too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cnf.shapes.clouds.spacing import Spacing

PLACES, FEWEST = 800, 6  # places in all, and at least on each sheet
SOURCES = 1 << 12  # points summed over at once
SOFT = 0.5  # spacings: the width of a point's disc


@dataclass(frozen=True, eq=False)
class Sheets:
    """E(s) = s^T square s - 2 s^T slope + 1/4, for sheets (K,); the last row of s belongs to all that is on none."""

    square: np.ndarray  # (K + 1, K + 1)
    slope: np.ndarray  # (K + 1,), for normals that point outward; inward is its negative

    def gains(self, signs: np.ndarray) -> np.ndarray:
        """By how much E changes if one sheet turns over (K + 1,)."""
        return 4 * signs * (self.slope - self.square @ signs) + 4 * np.diag(self.square)


def measure_sheets(points: np.ndarray, normals: np.ndarray, spacing: Spacing, sheet: np.ndarray, count: int) -> Sheets:
    """Of sheets numbered 0 to count - 1 for each point (P,); `count` for a point that is on none."""
    random = np.random.default_rng(0)  # places are any points of a sheet
    order = np.argsort(sheet, kind="stable")
    bounds = np.searchsorted(sheet[order], np.arange(count + 2))
    places, shares = [], []
    for k in range(count):
        members = order[bounds[k] : bounds[k + 1]]
        wanted = min(len(members), max(FEWEST, PLACES * len(members) // len(points)))
        places.append(random.choice(members, wanted, replace=False))
        shares.append(np.full(wanted, spacing.areas[members].sum() / wanted))
    at, share = np.concatenate(places), np.concatenate(shares)
    share /= share.sum()
    added = _add_up(points[at], points, normals, spacing, order, sheet)  # (T, K + 1)
    added = np.pad(added, ((0, 0), (0, count + 1 - added.shape[1])))
    return Sheets(added.T @ (share[:, None] * added), added.T @ share / 2)


def _add_up(
    x: np.ndarray, points: np.ndarray, normals: np.ndarray, spacing: Spacing, order: np.ndarray, sheet: np.ndarray
) -> np.ndarray:
    """What each sheet adds at places (T, 3), (T, largest number + 1); `order` has the points sheet by sheet."""
    middle = points.mean(axis=0)
    x = x - middle
    square = np.sum(x * x, axis=1)[:, None]
    total = np.zeros((len(x), int(sheet.max()) + 1))
    for start in range(0, len(order), SOURCES):
        rows = order[start : start + SOURCES]
        flow, centre = spacing.areas[rows, None] * normals[rows] / (4 * np.pi), points[rows] - middle
        soft = np.sum(centre * centre, axis=1) + (SOFT * spacing.widths[rows]) ** 2
        reach = np.maximum(square + soft - 2 * x @ centre.T, np.finfo(float).tiny)  # (T, S), r^2 + e^2
        found = np.sum(flow * centre, axis=1) - x @ flow.T  # a n . r
        found /= np.maximum(reach * np.sqrt(reach), np.finfo(float).tiny)  # points on each other have no width
        own = sheet[rows]
        first = np.flatnonzero(np.diff(own, prepend=-1))
        total[:, own[first]] += np.add.reduceat(found, first, axis=1)
    return total
