"""Reflectance: what physics asks of it, measured: light and eye change places, no energy is made, no direction jumps.

In: a material. Out: `Physics`, plain numbers.

Albedo is the share of the light from one direction that leaves again, the integral of f cos over all ways out. It is
taken over half vectors at (theta, phi) around the normal. For light at an angle with sine s and cosine c the way out is
at height s cos(phi) sin(2 theta) + c cos(2 theta), which is above the horizon up to theta = pi / 4 + atan2(s cos(phi),
c) / 2: the limits are known, and Gauss's rule in theta, denser towards the highlight, times equal steps in phi
converges like any rule for a smooth function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor

from cnf.errors import ConstraintError
from cnf.materials.reflectance.angles import above_horizon, half_difference, spherical
from cnf.materials.reflectance.material import Material

Reflectance = Callable[[Tensor], Tensor]
INCIDENCE = (0.0, 15.0, 30.0, 45.0, 60.0, 75.0, 85.0)  # degrees
RINGS, TURNS = 64, 256  # of half vectors, per angle of incidence
PAIRS = 20_000  # of directions
AZIMUTHS = 36  # at which the mirror direction is approached
STEEPEST = 75.0  # degrees: beyond it measured tables are mostly guesses
ENERGY = 1e-6  # albedo above 1 that rounding explains
TRIES = 100  # times as many candidates as pairs


@dataclass(frozen=True)
class Physics:
    """Errors of one material; shares and relative errors, 0 is ideal.

    Reciprocity: |f(i, o) - f(o, i)| over the mean of both, or over the median f where that is larger. Albedo: (red,
    green, blue) for every angle of `incidence`, in degrees; what is not known counts as dark. Mirror jump: at theta_h =
    0 the azimuth phi_d has no meaning; the spread of f over it, largest less smallest over the mean. Negative: the
    share of directions at which the model of a fit is below 0 and is shown as 0; None for materials that are no fit.
    """

    label: str
    reciprocity_worst: float
    reciprocity_mean: float
    incidence: tuple[float, ...]
    albedo: tuple[tuple[float, float, float], ...]
    mirror_jump_worst: float
    mirror_jump_mean: float
    negative_share: float | None = None

    @property
    def highest_albedo(self) -> float:
        return max(max(colour) for colour in self.albedo)

    @property
    def makes_energy(self) -> bool:
        """Whether more light leaves than arrives, in any channel from any of the angles."""
        return self.highest_albedo > 1 + ENERGY

    def albedo_at(self, degrees: float) -> tuple[float, float, float]:
        """Of the nearest angle that was measured."""
        return self.albedo[int(np.argmin([abs(degrees - angle) for angle in self.incidence]))]

    def to_dict(self) -> dict[str, object]:
        return {**asdict(self), "highest_albedo": self.highest_albedo, "makes_energy": self.makes_energy}


def measure_physics(
    material: Material, valid: Callable[[Tensor], Tensor] | None = None, incidence: Sequence[float] = INCIDENCE
) -> Physics:
    """All of it. `valid`: where pairs are drawn, that of the material by default."""
    known = material.valid if valid is None else valid
    pairs = random_pairs(known, PAIRS)
    worst, mean = reciprocity_errors(material, pairs)
    jump, usual = mirror_jumps(material, known)
    logarithm = getattr(material, "logarithm", None)
    below = None if logarithm is None else float((logarithm(pairs) < 0).any(1).double().mean())
    albedo = [directional_albedo(material, degrees) for degrees in incidence]
    colours = tuple((float(a[0]), float(a[1]), float(a[2])) for a in albedo)
    return Physics(material.label, worst, mean, tuple(incidence), colours, jump, usual, below)


def random_pairs(valid: Callable[[Tensor], Tensor], count: int, seed: int = 0) -> Tensor:
    """Angles (count, 3) of light and eye uniform over the hemisphere each, known as they are and swapped."""
    generator = torch.Generator().manual_seed(seed)
    found: list[Tensor] = []
    missing = count
    for _ in range(TRIES):
        draws = torch.rand(count, 4, dtype=torch.float64, generator=generator)
        wi, wo = (
            torch.stack(spherical(torch.acos(draws[:, k]), 2 * math.pi * draws[:, k + 1]), -1) for k in (0, 2)
        )  # heights are uniform on a sphere
        angles = half_difference(wi, wo)
        found.append(angles[valid(angles) & valid(swapped(angles))][:missing])
        missing -= len(found[-1])
        if not missing:
            return torch.cat(found)
    raise ConstraintError(f"only {count - missing} of {count} pairs of directions are known both ways round")


def swapped(angles: Tensor) -> Tensor:
    """Light and eye exchanged: phi_d turned by half a turn."""
    turned = torch.where(angles[:, 2] < math.pi, angles[:, 2] + math.pi, angles[:, 2] - math.pi)
    return torch.stack([angles[:, 0], angles[:, 1], turned], -1)


def reciprocity_errors(reflectance: Reflectance, angles: Tensor) -> tuple[float, float]:
    """Worst and mean of |f(i, o) - f(o, i)| over the mean of both, not less than the median of f; worst channel."""
    there, back = (reflectance(way).double() for way in (angles, swapped(angles)))
    middle = (there + back) / 2
    least = float(middle[middle > 0].median()) if bool((middle > 0).any()) else 1.0
    error = ((there - back).abs() / middle.clamp_min(least)).amax(dim=1)
    return float(error.max()), float(error.mean())


def mirror_jumps(
    reflectance: Reflectance, valid: Callable[[Tensor], Tensor] = above_horizon, steepest: float = STEEPEST
) -> tuple[float, float]:
    """Worst and mean, over theta_d, of the spread of the sum of channels over phi_d at theta_h = 0, where known."""
    theta_d = torch.linspace(0, math.radians(steepest), 31, dtype=torch.float64)[1:]  # at 0 it does not depend on phi_d
    phi_d = torch.arange(AZIMUTHS, dtype=torch.float64) / AZIMUTHS * 2 * math.pi
    theta, phi = (part.reshape(-1) for part in torch.meshgrid(theta_d, phi_d, indexing="ij"))
    angles = torch.stack([torch.zeros_like(theta), theta, phi], -1)
    known = valid(angles).reshape(len(theta_d), AZIMUTHS)
    values = reflectance(angles).double().sum(1).reshape(len(theta_d), AZIMUTHS)
    mean = torch.where(known, values, 0.0).sum(1) / known.sum(1).clamp_min(1)
    values = torch.where(known, values, mean[:, None])
    spread = (values.amax(1) - values.amin(1)) / torch.where(mean > 0, mean, 1.0)
    return float(spread.max()), float(spread.mean())


def directional_albedo(reflectance: Reflectance, degrees: float, rings: int = RINGS, turns: int = TURNS) -> Tensor:
    """The integral of f cos over all ways out, (3,), for light at `degrees` from the normal."""
    if not 0 <= degrees < 90:
        raise ConstraintError(f"albedo is for light from 0 to below 90 degrees, got {degrees}")
    s, c = math.sin(math.radians(degrees)), math.cos(math.radians(degrees))
    nodes, weights = (torch.from_numpy(part) for part in np.polynomial.legendre.leggauss(rings))
    u = (nodes + 1) / 2
    phi = (torch.arange(turns, dtype=torch.float64) + 0.5) / turns * 2 * math.pi
    limit = math.pi / 4 + torch.atan2(s * phi.cos(), torch.full_like(phi, c)) / 2  # (turns,)
    theta = u[:, None] ** 3 * limit  # (rings, turns)
    step = (weights / 2)[:, None] * 3 * u[:, None].square() * limit * (2 * math.pi / turns)  # d theta d phi
    half = torch.stack(spherical(theta.reshape(-1), phi.expand(rings, -1).reshape(-1)), -1)
    light = half.new_tensor([s, 0.0, c]).expand_as(half)
    along = (half * light).sum(1)
    out = 2 * along[:, None] * half - light
    angles = half_difference(light, out)
    # a direction turns twice as far as the half vector: its solid angle is 4 cos(theta_d) times as large
    weight = step.reshape(-1) * theta.reshape(-1).sin() * 4 * along * out[:, 2]
    values = reflectance(angles).double()
    return (torch.where(above_horizon(angles)[:, None], values, 0.0) * weight[:, None]).sum(0)
