"""Materials, cases: one method on one material, measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cnf.errors import CnfError, FileError
from cnf.files import as_path, hash_file
from cnf.materials.commands import options
from cnf.materials.fitting.fit import Fit, Settings
from cnf.materials.fitting.fitted import as_material
from cnf.materials.fitting.measuring import held_out_error, time_inference
from cnf.materials.fitting.methods import find_method
from cnf.materials.reflectance import Material
from cnf.materials.reflectance.reading import is_generated
from cnf.materials.rendering.metrics import ImageErrors
from cnf.reports.terminal import split_words

PAPER_METHODS = ("nbrdf", "ffn", "siren", "kernel-ffn", "kernel-siren")
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
    standing: str = "Reference"  # what the picture it is held against is, see `Material`

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
        standing=material.standing,
    )


def worst(residuals: Sequence[float]) -> float:
    """The largest, infinite if any is NaN."""
    return math.inf if any(map(math.isnan, residuals)) else max(residuals, default=math.nan)


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


def choose_methods(given: Sequence[str] | None, default: Sequence[str] = PAPER_METHODS) -> list[str]:
    """Names of methods, separated by commas, each known."""
    names = split_words(list(given)) if given else []
    if given and not names:
        raise CnfError(f"--methods is empty; choose from {options.ALL_METHODS}")
    for name in names:
        find_method(name)
    return names or list(default)
