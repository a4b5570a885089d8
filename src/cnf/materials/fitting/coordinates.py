"""Materials, coordinates: encoded directions in forms that suit a network, a grid, or distances between conditions.

In: encoded pairs of directions (P, 6), the half vector h and the difference vector d. Out: the same with reciprocity
built in, or three coordinates of the unit cube in which highlights are wide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from cnf.bases.part import Part

HIGHLIGHT = 0.02  # theta_h, in radians, up to which the coordinate grows in proportion; as its logarithm beyond


class SwapInvariant(Part):
    """(d_x, d_y) -> (d_x^2 - d_y^2, 2 d_x d_y), (P, 6) -> (P, 6): the same for light and eye swapped."""

    def forward(self, x: Tensor) -> Tensor:
        across, along = x[:, 3], x[:, 4]
        return torch.stack([*x[:, :3].unbind(1), *double_azimuth(across, along), x[:, 5]], dim=1)

    def config(self) -> dict:
        return {}


class HighlightCoordinates(Part):
    """(P, 6) -> (P, 3) in the unit cube: theta_h stretched towards the highlight, theta_d, and phi_d.

    phi_d repeats after 1: after half a turn if the field is to be reciprocal, after a whole one if not.
    """

    def __init__(self, reciprocal: bool = True, highlight: float = HIGHLIGHT):
        super().__init__()
        self.reciprocal, self.highlight = reciprocal, highlight

    def forward(self, x: Tensor) -> Tensor:
        hx, hz, dx, dy, dz = x[:, 0], x[:, 2], x[:, 3], x[:, 4], x[:, 5]
        theta_h, theta_d = torch.atan2(hx, hz), torch.atan2(torch.hypot(dx, dy), dz)
        height = torch.asinh(theta_h / self.highlight) / math.asinh(0.5 * math.pi / self.highlight)
        c, s = double_azimuth(dx, dy) if self.reciprocal else (dx, dy)
        return torch.stack([height, theta_d / (0.5 * math.pi), torch.atan2(s, c) / (2 * math.pi)], dim=1)

    def config(self) -> dict:
        return {"reciprocal": self.reciprocal, "highlight": self.highlight}


class CellDistances(Part):
    """(P, 6) -> (P, 4): points whose distances are counted in cells of a grid over `HighlightCoordinates`.

    The azimuth is a circle, as wide as it has cells, that shrinks to a point at the poles, where it has no meaning.
    """

    def __init__(self, cells: Sequence[int], reciprocal: bool = True, highlight: float = HIGHLIGHT):
        super().__init__()
        self.cells = tuple(int(n) for n in cells)
        self.coordinates = HighlightCoordinates(reciprocal, highlight)

    def forward(self, x: Tensor) -> Tensor:
        at = self.coordinates(x)
        height, width = at[:, 0] * self.cells[0], at[:, 1] * self.cells[1]
        turn = 2 * math.pi * at[:, 2]
        radius = self.cells[2] / (2 * math.pi) * torch.tanh(height) * torch.tanh(width)
        return torch.stack([height, width, radius * turn.cos(), radius * turn.sin()], dim=1)

    def config(self) -> dict:
        own = self.coordinates
        return {"cells": list(self.cells), "reciprocal": own.reciprocal, "highlight": own.highlight}


def double_azimuth(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """A vector of twice the azimuth; the opposite vector gives the same, to the last bit."""
    return x * x - y * y, 2 * x * y
