"""Comparison, cases: one method on one material, measured, and kept on disk as a file of its own.

A case from an earlier run counts only if its settings, its light and its source are the same.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cnf.errors import FileError
from cnf.files import as_path, read_text, write_atomically
from cnf.materials.comparison.stage import Light, Subject
from cnf.materials.fitting.fit import Fit, Settings
from cnf.materials.fitting.fitted import FittedMaterial, as_material
from cnf.materials.fitting.methods import find_method
from cnf.materials.fitting.sampling import draw_samples
from cnf.materials.reflectance import Material
from cnf.materials.reflectance.checksums import hash_file
from cnf.materials.reflectance.reading import is_generated
from cnf.materials.rendering.metrics import ImageErrors
from cnf.reading.arrays import read_arrays

HELD_OUT, HELD_SEED = 20_000, 2**40  # samples that no training sees: seeds of trainings are smaller


TIMED = 100_000  # evaluations that inference is timed with; scaled to a million


LARGEST_CASE, LARGEST_PICTURE = 16 * 2**20, 2**28  # bytes


@dataclass(frozen=True)
class Case:
    """One method on one material; `residual` is the worst of all logged steps, None for a method without conditions."""

    material: str
    label: str
    group: str
    method: str
    settings: dict
    light: dict
    rmse: float
    psnr: float
    ssim: float
    log_error: float  # mean |d log(1 + f)| on held-out samples
    seconds: float
    inference_seconds: float  # for a million evaluations
    parameters: int
    residual: float | None
    steps: list[int]
    losses: list[float]
    times: list[float]
    source: str = ""  # the material's file or words and the light's file, with their contents, as `identify` says
    rate: float | None = None  # the learning rate it was trained with


def measure(fit: Fit, material: Material, group: str, light: Light, errors: ImageErrors) -> Case:
    fitted = as_material(fit, reference=material)
    return Case(
        material=fit.name,
        label=fit.label,
        group=group,
        method=fit.method.name,
        settings=asdict(fit.settings),
        light=asdict(light),
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


def case_file(folder: Path, subject_name: str, method: str) -> Path:
    return folder / "cases" / f"{subject_name}_{method}.json"


def picture_file(folder: Path, subject_name: str, method: str) -> Path:
    """Tone-mapped pictures are kept as arrays, for figures of any layout."""
    return folder / "cases" / f"{subject_name}_{method}.npz"


def read_case(path: Path) -> Case:
    try:
        case = Case(**json.loads(read_text(path, LARGEST_CASE)))
        numbers = (case.rmse, case.psnr, case.ssim, case.log_error, case.seconds, case.inference_seconds)
        rows = (case.steps, case.losses, case.times)
        whole = all(isinstance(n, float | int) for n in (*numbers, case.parameters, *(v for row in rows for v in row)))
        if not whole or len({len(row) for row in rows}) != 1 or not isinstance(case.residual, float | int | None):
            raise ValueError("not numbers")
    except (ValueError, TypeError, RecursionError):
        raise FileError(f"{path} is damaged or of another version; remove it to run the case again") from None
    return case


def read_picture(path: Path) -> Tensor:
    try:
        image = torch.from_numpy(read_arrays(path, LARGEST_PICTURE)["image"].astype(np.float64))
        if image.ndim != 3 or image.shape[2] != 3 or not bool(((image >= 0) & (image <= 1)).all()):
            raise ValueError("not a picture")
    except (FileError, ValueError, KeyError, TypeError):
        raise FileError(f"{path} is damaged; remove it to run the case again") from None
    return image


def known_case(
    folder: Path, name: str, method: str, settings: Settings, light: Light, source: str | None = None
) -> Case | None:
    """The case from an earlier run with the same settings (and source, if given), if it is there and whole."""
    path = case_file(folder, name, method)
    if not path.exists() or not picture_file(folder, name, method).exists():
        return None
    try:
        case = read_case(path)
        read_picture(picture_file(folder, name, method))
    except FileError:
        return None
    same = case.settings == asdict(settings) and case.light == asdict(light)
    same = same and case.rate in (None, learning_rate(method, settings))
    return case if same and (source is None or case.source in ("", source)) else None


def identify(subject: Subject, light: Light) -> str:
    """What was read for a case: a file by its path and contents, so that a file that was changed is fitted again."""
    found = [subject.path, subject.name or "", light.path or "studio"]
    for path in (subject.path, light.path):
        if path is not None and not is_generated(path):
            try:
                found.append(hash_file(as_path(path)))
            except OSError as error:
                raise FileError(f"{path} cannot be read: {error.strerror or error}") from None
    return " ".join(found)


def learning_rate(method: str, settings: Settings) -> float:
    """The rate a fit is trained with: that of the settings, or the method's own."""
    return find_method(method).rate if settings.rate is None else settings.rate


def is_picture(path: Path, size: int) -> bool:
    """Whether the file is a whole picture of that size."""
    try:
        return path.exists() and len(read_picture(path)) == size
    except FileError:
        return False


def keep_case(case: Case, path: Path) -> None:
    write_atomically(path, lambda file: file.write_text(json.dumps(asdict(case))))


def keep_picture(image: Tensor, path: Path) -> None:
    def write(file: Path) -> None:
        with file.open("wb") as stream:
            np.savez_compressed(stream, image=image.numpy().astype(np.float32))

    write_atomically(path, write)
