"""Materials, measuring: how far a fit is from its material where it was not trained, and how fast it is.

Errors of tone-mapped pictures hardly see the point of exact highlights: `point_errors` looks into the lobe, at light
that is not clipped, and at a highlight in the middle of the picture. `inspect_fit` says what physics says of a fit.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass

import torch

from cnf.materials.fitting.fitted import FittedMaterial
from cnf.materials.fitting.sampling import draw_samples
from cnf.materials.reflectance import Material
from cnf.materials.reflectance.angles import decode
from cnf.materials.reflectance.lobe import LobeErrors, lobe_errors
from cnf.materials.reflectance.physics import Physics, measure_physics
from cnf.materials.rendering.metrics import LinearErrors
from cnf.materials.rendering.stage import View

HELD_OUT, HELD_SEED = 20_000, 2**40  # samples that no training sees: seeds of trainings are smaller
TIMED = 100_000  # evaluations that inference is timed with; scaled to a million


def held_out_error(fitted: FittedMaterial, material: Material) -> float:
    """Mean |d log(1 + f)| at fresh samples, drawn as those of the training."""
    samples = draw_samples(material, HELD_OUT, HELD_SEED)
    found = torch.log1p(fitted(decode(samples.points)))
    return float((found - samples.logs).abs().mean())


def time_inference(fitted: FittedMaterial, count: int = TIMED) -> float:
    """Seconds for a million evaluations, from `count`, all above the horizon."""
    generator = torch.Generator().manual_seed(0)
    angles = 0.75 * torch.rand(count, 3, dtype=torch.float64, generator=generator)
    fitted(angles[:1000])
    started = time.perf_counter()
    fitted(angles)
    return (time.perf_counter() - started) * 1e6 / count


@dataclass(frozen=True)
class PointErrors:
    """Errors of a fit in the highlight; see `LobeErrors`, `LinearErrors` and `facing_light`.

    `lobe_`, `peak_`: reflectance within 4 degrees of the mirror direction; `linear_`: light of the usual picture, not
    clipped; `facing_`: of a picture whose highlight is in the middle and not clipped, tone-mapped and as light.
    """

    lobe_median: float
    lobe_mean: float
    peak_ratio: float
    peak_worst: float
    linear_l1: float
    linear_l2: float
    facing_rmse: float
    facing_psnr: float
    facing_ssim: float
    facing_linear_l1: float
    facing_linear_l2: float


def point_errors(fitted: FittedMaterial, reference: Material, seen: View, front: View) -> PointErrors:
    """`seen`: as the stage shows it where pictures are compared anyway; `front`: as `Stage.facing` does."""
    lobe = lobe_errors(fitted, reference)
    return PointErrors(
        lobe_median=lobe.median,
        lobe_mean=lobe.mean,
        peak_ratio=lobe.peak_ratio,
        peak_worst=lobe.peak_worst,
        linear_l1=seen.linear.l1,
        linear_l2=seen.linear.l2,
        facing_rmse=front.errors.rmse,
        facing_psnr=front.errors.psnr,
        facing_ssim=front.errors.ssim,
        facing_linear_l1=front.linear.l1,
        facing_linear_l2=front.linear.l2,
    )


@dataclass(frozen=True)
class Inspection:
    """What physics says of a fit and of its reference, and how far they are apart in the highlight.

    Without the reference, `reference` and `lobe` are None; `linear` is None if no picture was rendered.
    """

    fitted: Physics
    reference: Physics | None = None
    lobe: LobeErrors | None = None
    linear: LinearErrors | None = None

    def to_dict(self) -> dict[str, object]:
        return {
            "fitted": self.fitted.to_dict(),
            "reference": None if self.reference is None else self.reference.to_dict(),
            "lobe": None if self.lobe is None else asdict(self.lobe),
            "linear": None if self.linear is None else asdict(self.linear),
        }


def inspect_fit(fitted: Material, reference: Material | None = None, linear: LinearErrors | None = None) -> Inspection:
    """Physics of a fit, and of its reference beside it."""
    if reference is None:
        return Inspection(measure_physics(fitted), linear=linear)
    found = measure_physics(fitted, reference.valid), measure_physics(reference)
    return Inspection(*found, lobe_errors(fitted, reference), linear)
