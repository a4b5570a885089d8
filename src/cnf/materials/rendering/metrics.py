"""How far a picture is from its reference, on the object's pixels only: tone-mapped, or light as it is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cnf.errors import ConstraintError, MissingExtraError

HIGHEST_PSNR = 100.0  # dB; equal pictures would have infinity, of which no mean can be taken


@dataclass(frozen=True)
class ImageErrors:
    """Errors of one picture: root mean square (0 is equal), PSNR in dB (at most 100), SSIM (1 is equal).

    >>> cnf.materials.ImageErrors(rmse=0.1, psnr=20.0, ssim=0.9).psnr
    20.0
    """

    rmse: float
    psnr: float
    ssim: float


@dataclass(frozen=True)
class LinearErrors:
    """Errors of linear radiance, nothing clipped; 0 is equal, 1 is as far off as a black picture.

    `l1`: the sum of |difference| over that of the reference; `l2`: the same with roots of sums of squares.
    """

    l1: float
    l2: float


def linear_errors(radiance: Tensor, reference: Tensor, mask: Tensor | None = None) -> LinearErrors:
    """Compare linear radiance (H, W, 3) over the pixels of `mask` (H, W); a highlight counts as bright as it is."""
    if radiance.ndim != 3 or radiance.shape != reference.shape:
        raise ConstraintError(
            f"radiance to compare must both be (H, W, 3), got {tuple(radiance.shape)} and {tuple(reference.shape)}"
        )
    inside = _inside(radiance, mask)
    wanted = reference[inside].double()
    off = radiance[inside].double() - wanted
    if not float(wanted.abs().sum()) > 0:
        raise ConstraintError("the reference is black, so errors relative to it have no meaning")
    return LinearErrors(float(off.abs().sum() / wanted.abs().sum()), float(off.norm() / wanted.norm()))


def image_errors(image: Tensor, reference: Tensor, mask: Tensor | None = None) -> ImageErrors:
    """Compare tone-mapped pictures (H, W, 3) in [0, 1].

    RMSE and PSNR are over the pixels of `mask` (H, W), and SSIM's local map is averaged over them: a black background,
    equal in both, would flatter all three. Without a mask all pixels count.

    >>> picture = torch.full((16, 16, 3), 0.5)
    >>> errors = cnf.materials.image_errors(picture, picture)
    >>> errors.rmse, errors.psnr, errors.ssim
    (0.0, 100.0, 1.0)
    """
    shown = ssim_map(image, reference)
    inside = _inside(image, mask)
    squared = float(((image - reference)[inside].double() ** 2).mean())
    psnr = HIGHEST_PSNR if squared == 0 else min(HIGHEST_PSNR, -10 * math.log10(squared))
    return ImageErrors(rmse=math.sqrt(squared), psnr=psnr, ssim=float(shown[inside].mean()))


def error_map(image: Tensor, reference: Tensor) -> Tensor:
    """(H, W): the absolute difference per pixel, averaged over the channels."""
    _check(image, reference)
    return (image - reference).abs().mean(-1)


def ssim_map(image: Tensor, reference: Tensor) -> Tensor:
    """(H, W): structural similarity in a 7 x 7 window around each pixel, averaged over the channels."""
    _check(image, reference)
    if min(image.shape[:2]) < 7:
        raise ConstraintError(f"SSIM needs pictures of at least 7 x 7 pixels, got {tuple(image.shape[:2])}")
    try:
        from skimage.metrics import structural_similarity
    except ImportError:
        raise MissingExtraError.of("SSIM needs scikit-image", "scikit-image", "geometry") from None
    first, second = (picture.detach().double().numpy() for picture in (image, reference))
    _, local = structural_similarity(first, second, data_range=1.0, channel_axis=-1, full=True)
    return torch.from_numpy(local).mean(-1)


def _inside(image: Tensor, mask: Tensor | None) -> Tensor:
    """The mask (H, W), or all pixels."""
    inside = torch.ones(image.shape[:2], dtype=torch.bool) if mask is None else mask
    if inside.shape != image.shape[:2] or inside.dtype != torch.bool or not bool(inside.any()):
        raise ConstraintError(f"a mask must be boolean of shape {tuple(image.shape[:2])} with at least one pixel")
    return inside


def _check(image: Tensor, reference: Tensor) -> None:
    """Both (H, W, 3), equal in shape, finite, in [0, 1]."""
    if image.ndim != 3 or image.shape != reference.shape or image.shape[2] != 3:
        raise ConstraintError(
            f"pictures to compare must both be (H, W, 3), got {tuple(image.shape)} and {tuple(reference.shape)}"
        )
    for picture in (image, reference):
        if not bool(torch.isfinite(picture).all()) or float(picture.min()) < 0 or float(picture.max()) > 1:
            raise ConstraintError("pictures to compare must be tone-mapped: finite and in [0, 1]; see tone_map")
