"""Comparison, cases: one method on one material, measured."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from cnf.errors import FileError
from cnf.files import as_path
from cnf.materials.fitting.fit import Fit, Settings
from cnf.materials.fitting.fitted import FittedMaterial, as_material
from cnf.materials.fitting.methods import find_method
from cnf.materials.fitting.sampling import draw_samples
from cnf.materials.reflectance import Material
from cnf.materials.reflectance.checksums import hash_file
from cnf.materials.reflectance.reading import is_generated
from cnf.materials.rendering.metrics import ImageErrors

HELD_OUT, HELD_SEED = 20_000, 2**40  # samples that no training sees: seeds of trainings are smaller
TIMED = 100_000  # evaluations that inference is timed with; scaled to a million


MEASURES = ("rmse", "psnr", "ssim", "log_error")  # what a case must have to count as finished


@dataclass(frozen=True)
class Case:
    """One method on one material: errors of its picture and of its reflectance, times, size, residual, its training."""

    material: str  # a name such as "chrome"
    label: str  # as pictures show it, such as "NBRDF of MERL chrome"
    group: str  # such as "RGL"
    method: str
    rmse: float
    psnr: float  # dB
    ssim: float
    log_error: float  # mean |d log(1 + f)| on held-out samples
    seconds: float  # of training
    inference_seconds: float  # for a million evaluations
    parameters: int
    residual: float | None  # worst relative one of all logged steps; None for methods without hard conditions
    rate: float | None = None  # the learning rate it was trained with
    steps: Sequence[int] = ()
    losses: Sequence[float] = ()
    times: Sequence[float] = ()

    @property
    def finished(self) -> bool:
        """Whether all its measures are finite."""
        return all(math.isfinite(getattr(self, name)) for name in MEASURES)

    @property
    def key(self) -> tuple[str, str]:
        """Which material of which group: the same name may stand in two groups."""
        return self.group, self.material


def measure(fit: Fit, material: Material, group: str, errors: ImageErrors) -> Case:
    """A fit and the errors of its picture, with what else is asked of it."""
    fitted = as_material(fit, reference=material)
    return Case(
        material=fit.name,
        label=fit.label,
        group=group,
        method=fit.method.name,
        rmse=errors.rmse,
        psnr=errors.psnr,
        ssim=errors.ssim,
        log_error=held_out_error(fitted, material),
        seconds=fit.seconds,
        inference_seconds=time_inference(fitted),
        parameters=fit.parameters,
        residual=worst(fit.course.residual) if fit.certificate is not None else None,
        steps=fit.course.step,
        losses=fit.course.loss,
        times=fit.course.seconds,
        rate=learning_rate(fit.method.name, fit.settings),
    )


def worst(residuals: Sequence[float]) -> float:
    """The largest, infinite if any is NaN."""
    return math.inf if any(map(math.isnan, residuals)) else max(residuals, default=math.nan)


def held_out_error(fitted: FittedMaterial, material: Material) -> float:
    """Mean |d log(1 + f)| at fresh samples, drawn as those of the training."""
    from cnf.materials.reflectance.angles import decode

    samples = draw_samples(material, HELD_OUT, HELD_SEED)
    found = torch.log1p(fitted(decode(samples.points)))
    return float((found - samples.logs).abs().mean())


def time_inference(fitted: FittedMaterial, count: int = TIMED) -> float:
    """Seconds for a million evaluations, from `count`."""
    generator = torch.Generator().manual_seed(0)
    angles = torch.rand(count, 3, dtype=torch.float64, generator=generator)
    fitted(angles[:1000])
    started = time.perf_counter()
    fitted(angles)
    return (time.perf_counter() - started) * 1e6 / count


def hash_source(path: str | None) -> str:
    """What a file holds, in short, so that one that was changed is fitted again; nothing for words."""
    if path is None or is_generated(path):
        return ""
    try:
        return hash_file(as_path(path))
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}") from None


def learning_rate(method: str, settings: Settings) -> float:
    """The rate a fit is trained with: that of the settings, or the method's own."""
    return find_method(method).rate if settings.rate is None else settings.rate
