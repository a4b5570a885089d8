"""Lengths that a reconstruction is made with, by how the points lie: the support of the kernel, the step of the grid.

In come points, or their spacing; out go lengths in scaled coordinates, and a note where the two do not fit each other.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from cnf.errors import CnfError
from cnf.shapes.clouds.spacing import Spacing

# Points inside the support: fewer leak; more cost a sparse system time, but patches, dense anyway, only digits.
NEIGHBOURS = {"blend": 200, "sparse": 55, "local": 55}
STEP, DENSE = 0.65, 0.2  # of the grid, in spacings of the points, such that this share of the points lies closer
# From so many points on the step grows with this power of them, up to so many spacings.
PLENTY, GROWTH, WIDEST = 50_000, 1 / 6, 1.1
COARSEST, FINEST = 96, 4096  # nodes along the longest side
RESOLVED = 3.0  # steps in the support: with fewer the grid does not see what the field is


def check_lengths(resolution: int | None, neighbours: int | None, support: float | None, flatness: float) -> None:
    """Refuse lengths that make no sense; None for those that are chosen."""
    if resolution is not None and not (isinstance(resolution, int) and 8 <= resolution <= FINEST):
        raise CnfError(f"the resolution is a number of grid nodes from 8 to {FINEST}; got {resolution}")
    if neighbours is not None and not 4 <= neighbours <= 1000:
        raise CnfError(f"the support holds 4 to 1000 neighbours; got {neighbours}")
    if support is not None and not (np.isfinite(support) and support > 0):
        raise CnfError(f"the support is a positive radius (the longest side of the cloud is 2); got {support}")
    if not (np.isfinite(flatness) and 0 <= flatness <= 1):
        raise CnfError(f"the flatness is a part of the grid's step, 0 to 1; got {flatness}")


def choose_resolution(size: float, spacing: Spacing) -> int:
    """Nodes along a side of that length whose step is `STEP` spacings where the points lie close.

    Facets are off by the square of the step: of very many points, faces as large as their spacing are fine enough.
    """
    return count_nodes(size, spacing.tree.n, float(np.quantile(spacing.widths, DENSE)))


def count_nodes(size: float, points: int, width: float) -> int:
    """The same for so many points, `width` being the spacing where they lie close."""
    step = min(STEP * max(1.0, points / PLENTY) ** GROWTH, WIDEST) * width
    return int(np.clip(np.ceil(size / step) + 1, COARSEST, FINEST)) if step > 0 else FINEST


def note_coarseness(step: float, support: float) -> list[str]:
    """What is to be said of a grid that is too coarse for the field."""
    if support >= RESOLVED * step:
        return []
    return [
        f"the grid's step {step:.3g} is more than a third of the support {support:.3g} of the field: the mesh misses "
        f"what the field knows; a resolution of {int(np.ceil(RESOLVED * 2 / support)) + 1} or more shows it"
    ]


def typical_reach(points: np.ndarray, neighbours: int) -> float:
    """Mean distance to the neighbour of that number, over some thousands of the points."""
    chosen = points[:: max(1, len(points) // 4000)]
    count = min(neighbours, len(points) - 1)
    return float(cKDTree(points).query(chosen, k=[count + 1])[0].mean())
