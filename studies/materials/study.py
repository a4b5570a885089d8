"""Materials, the study: every method on every material, one job per material, in parallel processes.

In: materials and methods. Out: one `Case` per pair, kept as a file of its own as soon as it is there; a study that was
stopped goes on with what is missing. The pictures of a material are rendered with one scene and one exposure, those of
its reference.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cnf.applications.materials.fitted import FittedMaterial, as_material
from cnf.applications.materials.fitting import Fit, Settings, fit_material
from cnf.applications.materials.methods import find_method
from cnf.applications.materials.metrics import ImageErrors, image_errors
from cnf.applications.materials.rendering import Scene, prepare_scene
from cnf.applications.materials.sampling import draw_samples
from cnf.applications.materials.tone import exposure_for, tone_map
from cnf.data.arrays import read_arrays
from cnf.data.environments import Environment, read_environment, studio
from cnf.data.materials import Material, read_material
from cnf.data.materials.checksums import hash_file
from cnf.data.materials.reading import is_generated
from cnf.errors import CnfError, FileError
from cnf.files import as_path, read_text, write_atomically

HELD_OUT, HELD_SEED = 20_000, 2**40  # samples that no training sees: seeds of trainings are smaller
TIMED = 100_000  # evaluations that inference is timed with; scaled to a million
FAILURES = (CnfError, RuntimeError, MemoryError)  # of one material; torch reports a lack of memory as a RuntimeError
LARGEST_CASE, LARGEST_PICTURE = 16 * 2**20, 2**28  # bytes
STEPS = 80  # of the renderer's quadrature


@dataclass(frozen=True)
class Subject:
    """A material of a study: where it is read from, and which group it belongs to."""

    path: str
    name: str | None
    group: str

    def read(self) -> Material:
        return read_material(self.path, self.name)


@dataclass(frozen=True)
class Light:
    """The scene all materials are shown in; no path: the studio that cnf generates."""

    path: str | None = None
    size: int = 128

    def environment(self) -> Environment:
        return studio() if self.path is None else read_environment(self.path)


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


@dataclass(frozen=True)
class Stage:
    """A reference rendered, with the exposure that all pictures of it share."""

    scene: Scene
    reference: Material
    exposure: float
    image: Tensor  # (H, W, 3) tone-mapped

    @staticmethod
    def of(reference: Material, environment: Environment, size: int, steps: int = STEPS) -> Stage:
        scene = prepare_scene(environment, size, steps)
        radiance = scene.render(reference, reference.valid)
        exposure = exposure_for(radiance, scene.mask)
        return Stage(scene, reference, exposure, tone_map(radiance, exposure))

    def show(self, material: Material) -> tuple[Tensor, ImageErrors]:
        """The tone-mapped picture of a fit of the reference, and how far it is from the reference's."""
        image = tone_map(self.scene.render(material, self.reference.valid), self.exposure)
        return image, image_errors(image, self.image, self.scene.mask)


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
    from cnf.data.materials.angles import decode

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


def run_material(
    subject: Subject, methods: Sequence[str], settings: Settings, light: Light, folder: Path, threads: int = 1
) -> list[Case]:
    """All methods on one material; finished ones are read, others are run and written."""
    torch.set_num_threads(threads)
    material = subject.read()
    reference, source = picture_file(folder, material.name, "reference"), identify(subject, light)
    stage: Stage | None = None
    cases = []
    for method in methods:
        case = known_case(folder, material.name, method, settings, light, source)
        if case is None:
            if stage is None:
                stage = Stage.of(material, light.environment(), light.size)
                keep_picture(stage.image, reference)
            fit = fit_material(material, method, settings)
            if fit.course.stopped == "interrupted":
                raise KeyboardInterrupt
            image, errors = stage.show(as_material(fit, reference=material))
            case = replace(measure(fit, material, subject.group, light, errors), source=source)
            keep_picture(image, picture_file(folder, material.name, method))
            keep_case(case, case_file(folder, material.name, method))
        cases.append(case)
    if stage is None and not is_picture(reference, light.size):
        keep_picture(Stage.of(material, light.environment(), light.size).image, reference)
    return cases


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


Report = Callable[[Subject, list[Case] | None, str], object]  # subject, cases or None, what went wrong


def run_study(
    subjects: Sequence[Subject],
    methods: Sequence[str],
    settings: Settings,
    light: Light,
    folder: Path,
    *,
    processes: int = 2,
    report: Report | None = None,
) -> list[Case]:
    """Every method on every subject; a material that fails is told and left out, the others go on."""
    if processes < 1:
        raise CnfError(f"a study needs at least one process; got {processes}")
    (folder / "cases").mkdir(parents=True, exist_ok=True)
    found: dict[int, list[Case]] = {}
    for number, cases, problem in _results(subjects, methods, settings, light, folder, processes):
        if cases is not None:
            found[number] = cases
        if report is not None:
            report(subjects[number], cases, problem)
    return [case for number in sorted(found) for case in found[number]]


def _results(
    subjects: Sequence[Subject], methods: Sequence[str], settings: Settings, light: Light, folder: Path, processes: int
) -> Iterator[tuple[int, list[Case] | None, str]]:
    """Numbers of subjects as they are done, with their cases or what went wrong."""
    if processes == 1:
        for number, subject in enumerate(subjects):
            try:
                yield number, run_material(subject, methods, settings, light, folder, torch.get_num_threads()), ""
            except FAILURES as error:
                yield number, None, reason(error)
        return
    context = multiprocessing.get_context("spawn")  # a forked torch may hang in its thread pools
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        waiting: dict[Future, int] = {
            pool.submit(run_material, subject, methods, settings, light, folder): number
            for number, subject in enumerate(subjects)
        }
        try:
            while waiting:
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    number = waiting.pop(future)
                    try:
                        yield number, future.result(), ""
                    except FAILURES as error:
                        yield number, None, reason(error)
        except BaseException:
            for future in waiting:
                future.cancel()
            for process in list((pool._processes or {}).values()):
                process.terminate()
            raise


def reason(error: BaseException) -> str:
    """The first line of what went wrong."""
    return str(error).strip().split("\n")[0] or type(error).__name__


def specularity(material: Material) -> float:
    """Mean reflectance in the mirror direction over incidence up to 60 degrees: how specular a material is."""
    theta = torch.linspace(0.0, math.pi / 3, 25, dtype=torch.float64)
    angles = torch.stack([torch.zeros_like(theta), theta, torch.full_like(theta, math.pi / 2)], dim=1)
    known = material.valid(angles)
    return float(material(angles)[known].mean()) if bool(known.any()) else 0.0
