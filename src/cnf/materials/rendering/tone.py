"""From radiance to pictures: one exposure for all pictures that are compared, then the sRGB curve."""

from __future__ import annotations

import torch
from torch import Tensor

from cnf.errors import ConstraintError

LUMINANCE = (0.2126, 0.7152, 0.0722)  # of linear sRGB


def luminance(radiance: Tensor) -> Tensor:
    """(..., 3) -> (...)"""
    return radiance @ radiance.new_tensor(LUMINANCE)


def srgb_curve(linear: Tensor) -> Tensor:
    """Linear values in [0, 1] to display values in [0, 1], as the sRGB standard has it."""
    return torch.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear.clamp_min(0.0031308) ** (1 / 2.4) - 0.055)


def tone_map(radiance: Tensor, exposure: float = 1.0) -> Tensor:
    """Display values in [0, 1] of linear radiance (H, W, 3): times `exposure`, clamped, through the sRGB curve.

    >>> [round(value, 4) for value in cnf.materials.tone_map(torch.tensor([[[0.0, 0.5, 7.0]]]))[0, 0].tolist()]
    [0.0, 0.7354, 1.0]
    """
    return srgb_curve((radiance * exposure).clamp(0, 1)).clamp(0, 1)  # 1 could round to above 1


def exposure_for(radiance: Tensor, mask: Tensor | None = None, percentile: float = 99.0, target: float = 0.9) -> float:
    """The exposure at which `percentile` percent of the pixels in `mask` are at most `target` on the display.

    Luminance counts. Without a mask, pixels that are black (the background) are left out. Take it from the reference
    and use it for every picture compared with it.

    >>> round(cnf.materials.exposure_for(torch.full((4, 4, 3), 2.0)), 2)
    0.39
    """
    bright = luminance(radiance)
    bright = bright[mask] if mask is not None else bright[bright > 0]
    if bright.numel() == 0 or not bool(torch.isfinite(bright).all()):
        raise ConstraintError("an exposure needs a finite picture that is not black all over")
    level = float(torch.quantile(bright.double(), percentile / 100))
    if level <= 0:
        raise ConstraintError(f"an exposure needs light: {percentile} percent of the pixels are black")
    linear = ((target + 0.055) / 1.055) ** 2.4 if target > 0.04045 else target / 12.92
    return linear / level
