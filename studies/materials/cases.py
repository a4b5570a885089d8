"""Materials, cases: one method on one material, measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from cnf.errors import CnfError, FileError
from cnf.files import as_path, hash_file
from cnf.materials.commands import options
from cnf.materials.fitting.fit import Fit, Settings
from cnf.materials.fitting.fitted import as_material
from cnf.materials.fitting.folders import check_conditions
from cnf.materials.fitting.measuring import held_out_error, point_errors, time_inference
from cnf.materials.fitting.methods import find_method
from cnf.materials.reflectance.physics import measure_physics
from cnf.materials.reflectance.reading import is_generated
from cnf.materials.rendering.stage import Stage
from cnf.reports.terminal import split_words
from studies.materials.subjects import is_held_out, specularity

PAPER_METHODS = ("nbrdf", "ffn", "siren", "kernel-ffn", "kernel-siren")
SEEN = ("lobe_mean", "peak_ratio", "linear_l2", "facing_rmse", "facing_psnr", "facing_ssim")
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
    queried: float | None = None  # worst relative error of reflectance at the conditions, as a user's query finds it
    cpu_seconds: float | None = None  # processor seconds of training
    lobe_mean: float | None = None  # relative error within 4 degrees of the mirror direction
    peak_ratio: float | None = None  # fitted over measured
    linear_l2: float | None = None  # relative error of the light itself, not clipped
    facing_rmse: float | None = None  # of the picture whose highlight is in its middle
    facing_psnr: float | None = None
    facing_ssim: float | None = None
    reciprocity: float | None = None  # worst relative change with light and eye swapped
    albedo: float | None = None  # the highest directional albedo of any channel
    glossiness: float | None = None  # mean reflectance of the reference in the mirror direction
    rate: float | None = None  # the learning rate it was trained with
    steps: Sequence[int] = ()
    losses: Sequence[float] = ()
    times: Sequence[float] = ()
    standing: str = "Reference"  # what the picture it is held against is, see `Material`

    @property
    def held_out(self) -> bool:
        """Whether it is none of the materials that settings were chosen on."""
        return is_held_out(self.material)

    @property
    def finished(self) -> bool:
        """Whether all its measures are finite."""
        return all(math.isfinite(getattr(self, name)) for name in MEASURES)

    @property
    def key(self) -> tuple[str, str]:
        """Which material of which group: the same name may stand in two groups."""
        return self.group, self.material


def measure(fit: Fit, group: str, stage: Stage, facing: Stage | None = None) -> tuple[Case, Tensor]:
    """A fit with all that is asked of it, and its picture; `facing`: the stage whose light faces the viewer."""
    material = stage.reference
    fitted = as_material(fit, reference=material)
    seen = stage.view(fitted)
    more: dict[str, Any] = {}
    if facing is not None:
        points = point_errors(fitted, material, seen, facing.view(fitted))
        physics = measure_physics(fitted, material.valid)
        more = {name: getattr(points, name) for name in SEEN}
        more |= {"reciprocity": physics.reciprocity_worst, "albedo": physics.highest_albedo}
    case = Case(
        material=fit.name,
        label=fit.label,
        group=group,
        method=fit.method.name,
        rmse=seen.errors.rmse,
        psnr=seen.errors.psnr,
        ssim=seen.errors.ssim,
        log_error=held_out_error(fitted, material),
        seconds=fit.seconds,
        cpu_seconds=fit.cpu_seconds,
        inference_seconds=time_inference(fitted),
        parameters=fit.parameters,
        residual=worst(fit.course.residual) if fit.certificate is not None else None,
        queried=None if fit.certificate is None else check_conditions(fit).worst,
        **more,
        glossiness=specularity(material),
        steps=fit.course.step,
        losses=fit.course.loss,
        times=fit.course.seconds,
        rate=learning_rate(fit.method.name, fit.settings),
        standing=material.standing,
    )
    return case, seen.image


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


def learning_rate(method: str, settings: Settings) -> float | None:
    """The rate a fit is trained with: that of the settings, or the method's own; None if nothing is trained."""
    known = find_method(method)
    return None if known.solved else known.rate if settings.rate is None else settings.rate


def choose_methods(given: Sequence[str] | None, default: Sequence[str] = PAPER_METHODS) -> list[str]:
    """Names of methods, separated by commas, each known."""
    names = split_words(list(given)) if given else []
    if given and not names:
        raise CnfError(f"--methods is empty; choose from {options.ALL_METHODS}")
    for name in names:
        find_method(name)
    return names or list(default)
