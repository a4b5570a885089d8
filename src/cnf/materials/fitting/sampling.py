"""Materials, sampling: where a material is looked at for training, and where the fitted field must equal it.

In: a material. Out: `Samples` for the loss, and angles (M, 3) of hard conditions. Reflectance enters as log(1 + f), and
directions below the horizon, or unknown to the material, are never asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from cnf.errors import ConstraintError
from cnf.materials.reflectance.angles import cosines, encode
from cnf.materials.reflectance.material import Material
from cnf.materials.reflectance.scattered import Scattered

LIMITS = (math.pi / 2, math.pi / 2, 2 * math.pi)  # of theta_h, theta_d, phi_d
HIGHLIGHT = 0.1  # standard deviation of theta_h, in radians, of conditions around the highlight
SAMPLINGS = ("highlight", "uniform")
Draw = Callable[[int, torch.Generator], Tensor]  # how many -> angles (count, 3)
LARGEST_LOG = 30.0  # log(1 + f) beyond which a value is nonsense, measured or predicted
TRIES = 200  # batches of candidates before a material counts as unknown nearly everywhere


@dataclass(frozen=True)
class Samples:
    """Encoded directions (P, 6), log(1 + f) there (P, 3), and the cosine of the incident direction (P,)."""

    points: Tensor
    logs: Tensor
    cosines: Tensor

    def __len__(self) -> int:
        return len(self.points)

    def to(self, dtype: torch.dtype) -> Samples:
        return Samples(self.points.to(dtype), self.logs.to(dtype), self.cosines.to(dtype))


def uniform_angles(count: int, generator: torch.Generator) -> Tensor:
    """Angles (count, 3), each uniform in its range."""
    return torch.rand(count, 3, dtype=torch.float64, generator=generator) * torch.tensor(LIMITS, dtype=torch.float64)


def highlight_angles(count: int, generator: torch.Generator, spread: float = HIGHLIGHT) -> Tensor:
    """As uniform ones, but theta_h normal around 0 with standard deviation `spread`."""
    angles = uniform_angles(count, generator)
    angles[:, 0] = (spread * torch.randn(count, dtype=torch.float64, generator=generator)).abs().clamp_max(LIMITS[0])
    return angles


def grid_like_angles(count: int, generator: torch.Generator) -> Tensor:
    """theta_h as dense as the rows of a MERL table, which get closer towards the highlight as its root."""
    angles = uniform_angles(count, generator)
    angles[:, 0] = angles[:, 0].square() / LIMITS[0]
    return angles


def draw_valid(material: Material, count: int, draw: Draw, generator: torch.Generator) -> Tensor:
    """`count` angles from draw(count, generator) at which the material is known."""
    found: list[Tensor] = []
    missing = count
    for _ in range(TRIES):
        candidates = draw(max(1000, 2 * missing), generator)
        found.append(candidates[material.valid(candidates)][:missing])
        missing -= len(found[-1])
        if not missing:
            return torch.cat(found)
    raise ConstraintError(
        f"{material.label} is known at too few directions: {count - missing} of {count} found; is the file damaged?"
    )


def draw_samples(material: Material, count: int, seed: int = 0, sampling: str = "highlight") -> Samples:
    """Training data. "uniform": uniform angles; "highlight": half of them with theta_h as dense as MERL's rows.

    A material that is a list of measurements gives these, all of them, in random order.
    """
    generator = torch.Generator().manual_seed(seed)
    if sampling not in SAMPLINGS:
        raise ConstraintError(f"sampling is one of {', '.join(SAMPLINGS)}; got {sampling!r}")
    if isinstance(material, Scattered):
        return take_measurements(material, torch.randperm(len(material.angles), generator=generator)[:count])
    if sampling == "uniform":
        angles = draw_valid(material, count, uniform_angles, generator)
    else:
        near = draw_valid(material, count // 2, grid_like_angles, generator)
        angles = torch.cat([near, draw_valid(material, count - count // 2, uniform_angles, generator)])
        angles = angles[torch.randperm(count, generator=generator)]
    return look_up(material, angles)


def swapping_gap(material: Material, seed: int = 0, count: int = 4000) -> float | None:
    """What swapping light and eye changes in log(1 + f), over its mean; None for a list of measurements."""
    if isinstance(material, Scattered):
        return None
    angles = draw_valid(material, count, uniform_angles, torch.Generator().manual_seed(seed))
    swapped = angles.clone()
    swapped[:, 2] = (swapped[:, 2] + math.pi) % LIMITS[2]
    both = material.valid(swapped)
    first, second = torch.log1p(material(angles[both])), torch.log1p(material(swapped[both]))
    mean = float((first + second).mean() / 2) if bool(both.any()) else 0.0
    return float((first - second).abs().mean()) / mean if mean > 0 else None


def look_up(material: Material, angles: Tensor) -> Samples:
    """The material at these angles, as samples."""
    return as_samples(material, angles, material(angles))


def take_measurements(material: Scattered, which: Tensor) -> Samples:
    """Measurements by their numbers, as samples."""
    return as_samples(material, material.angles[which], material.values[which])


def as_samples(material: Material, angles: Tensor, reflectance: Tensor) -> Samples:
    logs = torch.log1p(reflectance.to(torch.float64))
    if not bool((logs <= LARGEST_LOG).all()):
        raise ConstraintError(
            f"{material.label} is not finite, or above {math.exp(LARGEST_LOG):.0e}, at some directions; repair or "
            "remove them"
        )
    return Samples(encode(angles), logs, cosines(angles)[0].clamp(0, 1))
