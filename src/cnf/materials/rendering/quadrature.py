"""Quadrature over half vectors: the directions, weights and angles with which a point of a sphere collects light.

In: the angle between normal and view, and how many half vectors. Out: `Nodes`, which depend on neither the material nor
the light.

Half vectors are spaced evenly in the square root of their angle to the normal, as tables of measured reflectance are:
densest where highlights are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from cnf.materials.reflectance.angles import half_difference

FEWEST_TURNS = 24  # around the narrowest circles, where cells are far smaller than any light


@dataclass(frozen=True, eq=False)
class Nodes:
    """Quadrature for one angle of view; nodes with the light below the horizon are left out.

    radiance towards the camera = sum over the nodes of reflectance(angles) * weights * radiance from the directions
    """

    angles: Tensor  # (S, 3) theta_h, theta_d, phi_d
    directions: Tensor  # (S, 3) towards the light, with the camera at +z and the normal in the half plane y = 0 < x
    weights: Tensor  # (S,) cosine to the normal times solid angle
    widths: Tensor  # (S,) standard deviation, in radians, of the cone of directions each node stands for


def ring_angles(rings: int) -> Tensor:
    """(rings,): angle between the normal and the view, at the middle of equal steps from 0 to 90 degrees."""
    return (torch.arange(rings, dtype=torch.float64) + 0.5) / rings * (math.pi / 2)


@lru_cache(maxsize=4)
def half_vectors(steps: int) -> tuple[Tensor, Tensor, Tensor]:
    """Half vectors (S, 3) around the normal +z, their solid angles (S,) and the sides (S,) of their cells in radians.

    `steps` circles at theta_h = u^2 90 degrees, each with as many vectors as make its cells about square, and turned
    against the one before by the golden ratio, so that no azimuth is preferred.
    """
    u = (torch.arange(steps, dtype=torch.float64) + 0.5) / steps
    middle = u**2 * (math.pi / 2)
    height = math.pi * u / steps  # d theta_h
    turns = (2 * math.pi * torch.sin(middle) / height).round().long().clamp_min(FEWEST_TURNS)  # (steps,)
    # The midpoint rule in u, not exact areas: a highlight times sin theta_h d theta_h starts as u^3 and fades to
    # nothing, which leaves an error of fourth order in the step.
    area = torch.sin(middle) * height * (2 * math.pi / turns)
    circle = torch.repeat_interleave(torch.arange(steps), turns)  # (S,)
    place = torch.arange(len(circle)) - (turns.cumsum(0) - turns)[circle]
    offset = circle * ((math.sqrt(5) - 1) / 2) % 1.0
    azimuth = (place + offset) / turns[circle] * (2 * math.pi)
    sine, cosine = torch.sin(middle)[circle], torch.cos(middle)[circle]
    vectors = torch.stack([sine * torch.cos(azimuth), sine * torch.sin(azimuth), cosine], -1)
    return vectors, area[circle], height[circle]


def view_nodes(theta: float, steps: int) -> Nodes:
    """The nodes at an angle `theta` between normal and view.

    The light of a node is the mirror image of the view about its half vector. It turns twice as far as the half vector:
    its solid angle is 4 cos theta_d times as large.
    """
    half, area, side = half_vectors(steps)
    view = torch.tensor([math.sin(theta), 0.0, math.cos(theta)], dtype=torch.float64)  # normal = +z
    along = half @ view
    light = 2 * along[:, None] * half - view
    kept = (along > 0) & (light[:, 2] > 0)
    light = light[kept]
    x, y, z = light.unbind(-1)
    # From the frame of the normal to the camera's: the view (sin, 0, cos) becomes +z, the normal (sin, 0, cos).
    sine, cosine = math.sin(theta), math.cos(theta)
    return Nodes(
        angles=half_difference(light, view.expand_as(light)),
        directions=torch.stack([sine * z - cosine * x, -y, sine * x + cosine * z], -1),
        weights=z * 4 * along[kept] * area[kept],
        widths=2 * side[kept] / math.sqrt(12),  # an even spread over the cell, twice as wide for the light
    )
