"""Tone mapping and picture errors against values worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from cnf.errors import ConstraintError
from cnf.materials.rendering.metrics import HIGHEST_PSNR, error_map, image_errors, linear_errors, ssim_map
from cnf.materials.rendering.tone import exposure_for, luminance, srgb_curve, tone_map


def grey(value: float, size: int = 16) -> torch.Tensor:
    """A picture of one grey."""
    return torch.full((size, size, 3), value, dtype=torch.float64)


def test_srgb_curve():
    """Known pairs of the standard: 0, the end of the straight part, 18 percent grey (46 percent on the display), 1."""
    linear = torch.tensor([0.0, 0.0031308, 0.18, 0.2140411, 1.0], dtype=torch.float64)
    shown = torch.tensor([0.0, 0.04045, 0.4613561, 0.5, 1.0], dtype=torch.float64)
    assert torch.allclose(srgb_curve(linear), shown, rtol=0, atol=1e-5)
    steps = srgb_curve(torch.linspace(0, 1, 10001, dtype=torch.float64)).diff()
    assert float(steps.min()) > 0 and float(steps.max()) < 2e-3  # no jump where the parts meet


def test_tone_map_clamps_and_scales():
    """Exposure first, then clamping: 2 at exposure 1/4 is 0.5, linear; anything above 1 is 1, below 0 is 0."""
    assert torch.allclose(tone_map(grey(2.0), 0.25), srgb_curve(grey(0.5)))
    assert torch.allclose(tone_map(grey(3.0)), grey(1.0), rtol=1e-15) and torch.equal(tone_map(grey(-1.0)), grey(0.0))
    assert float(tone_map(grey(3.0)).max()) <= 1


def test_exposure_puts_the_bright_end_where_asked():
    """Luminances 1 to 1000: at the exposure of 99 percent at 0.9, ten values in a thousand are above 0.9 displayed."""
    radiance = torch.arange(1, 1001, dtype=torch.float64).reshape(10, 100, 1).expand(-1, -1, 3)
    shown = tone_map(radiance, exposure_for(radiance))
    assert int((shown[..., 0] > 0.9).sum()) == 10
    assert float(luminance(torch.ones(3, dtype=torch.float64))) == pytest.approx(1)


def test_exposure_looks_at_the_object_only():
    """A black background changes nothing; with a mask, what is outside does not count."""
    radiance = torch.rand(20, 20, 3, dtype=torch.float64) + 0.1
    mask = torch.zeros(20, 20, dtype=torch.bool)
    mask[5:15, 5:15] = True
    alone = exposure_for(radiance[5:15, 5:15])
    assert exposure_for(radiance * mask[..., None]) == pytest.approx(alone)
    assert exposure_for(radiance, mask) == pytest.approx(alone)
    for wrong in (torch.zeros(4, 4, 3), torch.full((4, 4, 3), math.nan)):
        with pytest.raises(ConstraintError):
            exposure_for(wrong)


def test_errors_of_two_greys():
    """0.5 against 0.6: RMSE 0.1, PSNR 20 dB, SSIM (2 a b + c) / (a^2 + b^2 + c) with c = 0.01^2."""
    errors = image_errors(grey(0.6), grey(0.5))
    assert errors.rmse == pytest.approx(0.1)
    assert errors.psnr == pytest.approx(20)
    assert errors.ssim == pytest.approx((2 * 0.3 + 1e-4) / (0.25 + 0.36 + 1e-4))


def test_equal_pictures():
    """RMSE 0, SSIM 1, and a PSNR that can be averaged."""
    picture = torch.rand(16, 16, 3, dtype=torch.float64)
    errors = image_errors(picture, picture.clone())
    assert (errors.rmse, errors.psnr) == (0, HIGHEST_PSNR) and errors.ssim == pytest.approx(1)
    assert image_errors(grey(0.5), grey(0.5 + 1e-9)).psnr == HIGHEST_PSNR  # no better than equal


def test_the_background_does_not_flatter():
    """Wrong by 0.2 on a quarter of the picture, equal elsewhere: RMSE 0.1 over all, 0.2 over the object."""
    mask = torch.zeros(32, 32, dtype=torch.bool)
    mask[8:24, 8:24] = True
    reference = grey(0.0, 32)
    image = reference + 0.2 * mask[..., None]
    over_all, over_object = image_errors(image, reference), image_errors(image, reference, mask)
    assert over_all.rmse == pytest.approx(0.1) and over_object.rmse == pytest.approx(0.2)
    assert over_object.psnr < over_all.psnr and over_object.ssim < over_all.ssim
    assert over_object.ssim == pytest.approx(float(ssim_map(image, reference)[mask].mean()))


def test_error_map():
    """The mean of the channels' absolute differences: (0.3 + 0 + 0.3) / 3."""
    image, reference = grey(0.5), grey(0.5)
    image[3, 4] = torch.tensor([0.8, 0.5, 0.2])
    found = error_map(image, reference)
    assert float(found[3, 4]) == pytest.approx(0.2) and float(found.sum()) == pytest.approx(0.2)


def test_pictures_that_cannot_be_compared():
    """Different sizes, linear radiance, NaN, a mask of another shape or empty, too small for SSIM: one clear line."""
    good = grey(0.5)
    none = torch.zeros(16, 16, dtype=torch.bool)
    bad = [(grey(0.5, 17), None), (grey(2.0), None), (grey(math.nan), None), (good, none), (good, none[:5])]
    for image, mask in bad:
        with pytest.raises(ConstraintError):
            image_errors(image, good, mask)
    with pytest.raises(ConstraintError, match="7 x 7"):
        image_errors(grey(0.5, 5), grey(0.5, 5))


def test_linear_errors_are_not_clipped():
    """One pixel of 100 among 99 of 1 comes out as 50: 50 / 199 in L1, 50 / sqrt(10099) in L2; a mask hides it."""
    reference = grey(1.0, 10)
    reference[2, 3] = 100.0
    found = reference.clone()
    found[2, 3] = 50.0
    errors = linear_errors(found, reference)
    assert (errors.l1, errors.l2) == pytest.approx((50 / 199, 50 / math.sqrt(10099)))
    elsewhere = torch.ones(10, 10, dtype=torch.bool)
    elsewhere[2, 3] = False
    assert linear_errors(found, reference, elsewhere) == linear_errors(reference, reference)
    assert linear_errors(0 * reference, reference).l2 == pytest.approx(1)
    for wrong in (grey(0.0, 10), grey(1.0, 9)):
        with pytest.raises(ConstraintError):
            linear_errors(reference, wrong)
