"""Shapes, training: the kernel's support learned on the eikonal loss near the surface, conditions exact throughout.

The support is all that a surface of compactly supported Hermite functions can learn: everything else about it follows
from the conditions. What comes in: prepared points with normals. What goes out: the support, and how training went.
"""

from __future__ import annotations

import numpy as np
import torch

import cnf
from cnf.shapes.clouds.preparation import Prepared
from cnf.shapes.reconstruction.lengths import NEIGHBOURS, typical_reach
from cnf.training import History

STEPS, RATE = 4, 0.09  # of Adam, on the logarithm of the support: it grows or shrinks by a factor of 1.43 at most
DRAWN = 2000  # points of the eikonal loss, anew at every step


class Shell:
    """Points near the surface, for losses to draw: points of the cloud, moved by up to a distance."""

    volume = 1.0

    def __init__(self, points: np.ndarray, distance: float):
        self.points, self.distance = torch.from_numpy(points), distance

    def random(self, count: int, generator: torch.Generator | None = None) -> torch.Tensor:
        """(count, 3), each uniform in a cube around one of the points."""
        chosen = torch.randint(len(self.points), (count,), generator=generator)
        moves = 2 * torch.rand(count, 3, dtype=torch.float64, generator=generator) - 1
        return self.points[chosen] + self.distance * moves


def train_support(cloud: Prepared, steps: int = STEPS, seed: int = 0) -> tuple[float, History]:
    """The support of smallest eikonal loss along a few steps of Adam, beginning with the one that is used untrained."""
    start = typical_reach(cloud.points, NEIGHBOURS["sparse"])
    space = cnf.Space("x y z", "d")
    where = torch.from_numpy(cloud.points)
    conditions = [
        space.constraint("d = 0", at=where, name="points"),
        space.constraint(r"\nabla d", at=where, equals=torch.from_numpy(cloud.normals), name="normals"),
    ]
    kernel = cnf.kernels.Wendland(1, start)
    model = cnf.ConstrainedField(cnf.bases.Hermite(space, conditions, kernel), conditions)
    loss = cnf.losses.Eikonal(Shell(cloud.points, typical_reach(cloud.points, 1)), DRAWN)
    history = cnf.fit(model, loss, steps, RATE, seed=seed, progress=False, log_condition_every=None, keep="best")
    if history.stopped == "interrupted":  # half a training is no result
        raise KeyboardInterrupt
    return float(kernel.radius.detach()), history
