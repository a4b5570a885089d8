"""Materials, comparing: several methods on one material, with the models kept beside their pictures.

In: a material on its stage. Out: one `Compared` per method: its case, its picture and the fitted material. Models
are kept as folders of fits; what is there with the same settings and source is not fitted again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from cnf.errors import FileError
from cnf.materials.fitting.fit import Fit, Settings
from cnf.materials.fitting.fitted import FittedMaterial, as_material
from cnf.materials.fitting.folders import KeptFit, Source, is_fit, load_fit, save_fit
from cnf.materials.rendering.stage import Stage
from studies.materials.cases import Case, hash_source, measure
from studies.materials.subjects import Subject

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
    folder: Path

    @property
    def name(self) -> str:
        return self.stage.reference.name

    def find(self, method: str) -> Compared | None:
        """The method's fit of an earlier run with the same settings and source, if it is there and whole."""
        if not is_fit(self.place(method)):
            return None
        try:
            kept = load_fit(self.place(method))
        except FileError:
            return None
        same = kept.source == self.source and kept.fit.settings == self.settings
        return self.show(kept.fit) if same and kept.fit.course.stopped != "interrupted" else None

    def run(self, method: str, train: Train) -> Compared:
        """Fit, measure and keep; an interrupted training is not kept."""
        fit = train(method)
        if fit.course.stopped == "interrupted":
            raise KeyboardInterrupt
        found = self.show(fit)
        numbers = {name: getattr(found.case, name) for name in ("psnr", "ssim", "rmse", "log_error")}
        save_fit(fit, self.place(method), self.source, numbers)
        return found

    def show(self, fit: Fit) -> Compared:
        """A fit, also one made elsewhere, rendered on this stage and measured."""
        fitted = as_material(fit, reference=self.stage.reference)
        case, image = measure(fit, self.subject.group, self.stage)
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
    def source(self) -> Source:
        return Source(self.subject.path, self.subject.name, hash_source(self.subject.path))

    def place(self, method: str) -> Path:
        return self.folder / "fits" / f"{self.name}_{method}"
