"""Materials, the study: every method on every material, one job per material, in parallel processes.

In: materials and methods. Out: one `Case` per pair, kept as a file of its own as soon as it is there; a study that was
stopped goes on with what is missing. The pictures of a material are rendered with one scene and one exposure, those of
its reference.
"""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

import torch

from cnf.errors import CnfError
from cnf.materials.comparison.cases import (
    Case,
    case_file,
    identify,
    is_picture,
    keep_case,
    keep_picture,
    known_case,
    measure,
    picture_file,
)
from cnf.materials.comparison.stage import Light, Stage, Subject
from cnf.materials.fitting.fit import Settings, fit_material
from cnf.materials.fitting.fitted import as_material
from cnf.materials.reflectance import Material

FAILURES = (CnfError, RuntimeError, MemoryError)  # of one material; torch reports a lack of memory as a RuntimeError


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
