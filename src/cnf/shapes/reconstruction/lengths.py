"""Lengths that a reconstruction is made with, by how the points lie: the support of the kernel, the step of the grid.

In come points, or their spacing; out go lengths in scaled coordinates, and a note where the two do not fit each other.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from cnf.shapes.clouds.spacing import Spacing

# Points inside the support: fewer leak; more cost a sparse system time, but patches, dense anyway, only digits.
NEIGHBOURS = {"blend": 200, "sparse": 55, "local": 55}
STEP, DENSE = 0.65, 0.2  # of the grid, in spacings of the points, such that this share of the points lies closer
# From so many points on the step grows with this power of them, up to so many spacings.
PLENTY, GROWTH, WIDEST = 50_000, 1 / 6, 1.1
COARSEST, FINEST = 96, 4096  # nodes along the longest side
RESOLVED = 3.0  # steps in the support: with fewer the grid does not see what the field is


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
