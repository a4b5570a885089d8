"""Reflectance: how far a material is from another inside the highlight, where pictures hardly look.

In: two materials. Out: `LobeErrors`, plain numbers. A tone-mapped picture clips the highlight and shows it on a few
pixels; these look at it alone: half vectors within 4 degrees of the normal, light from 0 to 75 degrees.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from cnf.errors import ConstraintError
from cnf.materials.reflectance.angles import half_difference, spherical
from cnf.materials.reflectance.material import Material

REACH = math.radians(4)  # of theta_h
STEEPEST = math.radians(75)  # of the light
DIRECTIONS = 2**14
PEAKS = tuple(math.radians(degrees) for degrees in (0, 15, 30, 45, 60, 75))  # angles of incidence
SCANNED = (81, 24)  # theta_h and azimuths of half vectors, per angle of incidence


@dataclass(frozen=True)
class LobeErrors:
    """Errors of reflectance within 4 degrees of the mirror direction; 0 and, for peaks, 1 is equal.

    Relative: the sum of the channels' differences over the sum of the reference's channels, direction by direction. A
    peak is the largest sum of the channels for one angle of incidence; `peak_ratio` is the fit's over the reference's,
    the median over six angles, and `peak_worst` the one that is farthest from 1.
    """

    median: float
    mean: float
    peak_ratio: float
    peak_worst: float


def lobe_errors(
    fitted: Callable[[Tensor], Tensor], reference: Material, directions: int = DIRECTIONS, reach: float = REACH
) -> LobeErrors:
    """Compare a reflectance (angles (P, 3) -> (P, 3)) with the reference where the reference is known."""
    angles = lobe_angles(directions, reach)
    angles = angles[reference.valid(angles)]
    if not len(angles):
        raise ConstraintError(f"{reference.label} is not known anywhere in its highlight, so there is no error of it")
    wanted = reference(angles).double()
    off = (fitted(angles).double() - wanted).abs().sum(1) / wanted.sum(1).clamp_min(torch.finfo(torch.float64).tiny)
    ratios = [ratio for incidence in PEAKS if (ratio := compare_peaks(fitted, reference, incidence, reach)) is not None]
    middle = float(torch.tensor(ratios, dtype=torch.float64).quantile(0.5)) if ratios else math.nan
    worst = max(ratios, key=lambda ratio: abs(math.log(ratio)) if ratio > 0 else math.inf, default=math.nan)
    return LobeErrors(float(off.median()), float(off.mean()), middle, worst)


def lobe_angles(count: int = DIRECTIONS, reach: float = REACH) -> Tensor:
    """Angles (count, 3): half vectors uniform over the cap, angles of incidence uniform from 0 to 75 degrees; Sobol."""
    draws = torch.quasirandom.SobolEngine(3).draw(count).double() + 0.5 / count  # (count, 3), not the corner itself
    theta = 2 * torch.asin((draws[:, 0].clamp_max(1.0)).sqrt() * math.sin(reach / 2))  # 1 - cos is uniform
    return pair_angles(STEEPEST * draws[:, 2], theta, 2 * math.pi * draws[:, 1])


def pair_angles(incidence: Tensor, theta: Tensor, azimuth: Tensor) -> Tensor:
    """Angles (P, 3) of light at `incidence` in the plane of azimuth 0 whose half vector has these angles, (P,) each."""
    light = torch.stack(spherical(incidence, torch.zeros_like(incidence)), -1)
    half = torch.stack(spherical(theta, azimuth), -1)
    return half_difference(light, 2 * (light * half).sum(-1, keepdim=True) * half - light)


def compare_peaks(
    fitted: Callable[[Tensor], Tensor], reference: Material, incidence: float, reach: float
) -> float | None:
    """The fit's largest sum of channels over the reference's, for one angle of incidence; None where it is dark."""
    rings, turns = SCANNED
    theta = torch.linspace(0, 1, rings, dtype=torch.float64).square() * reach
    azimuth = torch.arange(turns, dtype=torch.float64) / turns * 2 * math.pi
    theta, azimuth = (part.reshape(-1) for part in torch.meshgrid(theta, azimuth, indexing="ij"))
    angles = pair_angles(torch.full_like(theta, incidence), theta, azimuth)
    angles = angles[reference.valid(angles)]
    if not len(angles):
        return None
    highest, wanted = (float(f(angles).double().sum(1).max()) for f in (fitted, reference))
    return highest / wanted if wanted > 0 else None
