"""Materials, comparing: several methods on one material, with the models kept beside their pictures.

In: a material on its stage. Out: one `Compared` per method: its case, its picture and the fitted material. Cases and
pictures are kept as in a study, models as folders of fits; what is there with the same settings is not fitted again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from cnf.errors import FileError
from cnf.materials.comparison.cases import (
    Case,
    case_file,
    identify,
    keep_case,
    keep_picture,
    known_case,
    measure,
    picture_file,
    read_picture,
)
from cnf.materials.comparison.stage import Light, Stage, Subject
from cnf.materials.fitting.fit import Fit, Settings
from cnf.materials.fitting.fitted import FittedMaterial, as_material
from cnf.materials.fitting.folders import KeptFit, Source, is_fit, load_fit, save_fit

Train = Callable[[str], Fit]  # the name of a method


@dataclass(frozen=True)
class Compared:
    """One method on one material: what was measured, the tone-mapped picture (H, W, 3), and the model."""

    case: Case
    image: Tensor
    material: FittedMaterial
    title: str


@dataclass(frozen=True)
class Comparison:
    """Where methods are compared on one material, under which light, and the folder that keeps the results."""

    subject: Subject
    stage: Stage
    settings: Settings
    light: Light
    folder: Path

    @property
    def name(self) -> str:
        return self.stage.reference.name

    def find(self, method: str) -> Compared | None:
        """The method's result of an earlier run with the same settings and source, if it is there and whole."""
        case = known_case(self.folder, self.name, method, self.settings, self.light, self.identity)
        place = self.place(method)
        if case is None or not is_fit(place):
            return None
        try:
            kept = load_fit(place)
            image = read_picture(picture_file(self.folder, self.name, method))
        except FileError:
            return None
        same = (
            kept.source == self.source and kept.fit.settings == self.settings and image.shape == self.stage.image.shape
        )
        if not same or kept.fit.course.stopped == "interrupted":
            return None
        fitted = as_material(kept.fit, reference=self.stage.reference)
        return Compared(replace(case, group=self.subject.group), image, fitted, kept.fit.method.title)

    def run(self, method: str, train: Train) -> Compared:
        """Fit, measure and keep; an interrupted training is not kept."""
        fit = train(method)
        if fit.course.stopped == "interrupted":
            raise KeyboardInterrupt
        found = self.show(fit)
        numbers = {name: getattr(found.case, name) for name in ("psnr", "ssim", "rmse", "log_error")}
        case_file(self.folder, self.name, method).unlink(missing_ok=True)  # of an earlier fit, which is replaced now
        save_fit(fit, self.place(method), self.source, numbers)
        keep_picture(self.stage.image, picture_file(self.folder, self.name, "reference"))
        keep_picture(found.image, picture_file(self.folder, self.name, method))
        keep_case(replace(found.case, source=self.identity), case_file(self.folder, self.name, method))  # complete now
        return found

    def show(self, fit: Fit) -> Compared:
        """A fit, also one made elsewhere, rendered on this stage and measured."""
        fitted = as_material(fit, reference=self.stage.reference)
        image, errors = self.stage.show(fitted)
        case = measure(fit, self.stage.reference, self.subject.group, self.light, errors)
        case = replace(case, material=self.name, label=self.stage.reference.label)
        return Compared(case, image, fitted, fit.method.title)

    def show_kept(self, kept: KeptFit, folder: Path, taken: list[str]) -> Compared:
        """A fit from its folder; named after it if the method is among those `taken` already."""
        found = self.show(kept.fit)
        if found.case.method not in taken:
            return found
        title = f"{found.title}, {folder.resolve().name}"
        return replace(found, case=replace(found.case, method=title), title=title)

    @property
    def identity(self) -> str:
        return identify(self.subject, self.light)

    @property
    def source(self) -> Source:
        return Source(self.subject.path, self.subject.name)

    def place(self, method: str) -> Path:
        return self.folder / "fits" / f"{self.name}_{method}"
