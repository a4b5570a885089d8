"""Materials, the study: every method on every material, with the paper's tables and figures.

One case is one method on one material. The pictures of a material are rendered with one scene and one exposure, those
of its reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from cnf.errors import CnfError
from cnf.materials.commands import options
from cnf.materials.fitting.fit import Settings, fit_material
from cnf.materials.reflectance.checksums import list_known
from cnf.materials.rendering.stage import Stage
from cnf.materials.report.curves import draw_learning_curves
from cnf.reports.terminal import split_words
from studies.keeping import find_arrays
from studies.materials import subjects
from studies.materials.cases import Case as Measured
from studies.materials.cases import choose_methods, hash_source, measure
from studies.materials.dots import draw_study
from studies.materials.pages import draw_pages
from studies.materials.results import COLUMNS, choose_champion, mean_curves, where_order_breaks
from studies.materials.tables import NOTES, study_tables
from studies.options import Names, Seed
from studies.study import Case, Desk, Row, Study
from studies.tables import Table

COUNT = 20
COPIED = (*(name for name in COLUMNS if name not in ("material", "method")), "rate")


@dataclass(frozen=True)
class Materials(Study):
    """Soft and constrained models of many materials.

    Errors of renderings, times, sizes, exactness. Needs measurements in CNF_DATA, MERL's files with --merl, or
    materials of your own with --material.
    """

    name = "materials"
    key = ("material", "method")
    columns = (*COPIED, "held_out")
    curve = ("step", "loss", "seconds")
    workers = 2

    materials: Annotated[
        Names,
        typer.Option(
            metavar="NAMES", help="Names from the data or --merl, such as chrome,brass; default: see --count."
        ),
    ] = None
    material: Annotated[
        Names,
        typer.Option(
            metavar="WORDS|FILE", help="A material of your own: ggx:gold:0.1, a file, or FILE:NAME; repeatable."
        ),
    ] = None
    count: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100,
            help="NBRDF of MERL (or --merl): the ten most specular, then others evenly spread; and RGL's four (20).",
        ),
    ] = None
    everything: Annotated[
        bool,
        typer.Option("--everything", help="All networks of MERL and of RGL, and RGL's four tables: 155 materials."),
    ] = False
    merl: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="MERL's .binary files, verified by their checksums, instead of networks of them: all, or --materials, "
            "or --count.",
        ),
    ] = None
    methods: Annotated[
        Names,
        typer.Option(metavar="NAMES", help=f"From {options.ALL_METHODS}, with commas; default: the paper's five."),
    ] = None
    data: Annotated[
        Path | None, typer.Option(help="Folder with brdf/nbrdf_merl100.npz; default: environment variable CNF_DATA.")
    ] = None
    env: options.Env = None
    size: options.Size = 128
    quick: Annotated[
        bool,
        typer.Option("--quick/--full", help="640 steps of 1000 samples per fit, or the paper's budget: 1280 of 5000."),
    ] = True
    samples: options.Samples = None
    epochs: options.Epochs = None
    batch: options.Batch = None
    conditions: options.Conditions = None
    parameters: options.Parameters = None
    placement: options.Placement = None
    on_nodes: Annotated[
        str,
        typer.Option(
            metavar="auto|yes|no", help="Conditions are entries of a MERL table; no: between them, as in the paper."
        ),
    ] = "no"
    sampling: options.Sampling = None
    loss: options.Loss = None
    reciprocity: options.Reciprocity = None
    rate: options.Rate = None
    precision: options.Precision = None
    seed: Seed = 0

    def __post_init__(self) -> None:
        assert self.budget and self.cases()  # both refuse what cannot be run
        options.open_light(self.env)

    @cached_property
    def budget(self) -> Settings:
        """What every method is given."""
        return options.choose_settings(self.quick, **options.pick_budget(vars(self)))

    @property
    def light(self) -> str | None:
        """The map that lights all materials; None: the studio."""
        return None if self.env is None else str(self.env)

    @cached_property
    def chosen(self) -> dict[str, subjects.Chosen]:
        """The materials by name; data are needed unless all are given by --material."""
        names, words = split_words(self.materials), self.material or []
        if sum((bool(names), self.count is not None, self.everything)) > 1:
            raise CnfError(
                "--materials names materials, --count chooses some, --everything takes all; give one of them"
            )
        found: list[subjects.Chosen] = []
        if self.merl is not None:
            found += subjects.choose_merl(self.verified, names, self.count, self.merl)
        elif names:
            found += subjects.name_subjects(subjects.find_measurements(self.data), names)
        elif self.everything:
            found += subjects.list_everything(subjects.find_measurements(self.data))
        elif self.count is not None or self.data is not None or not words:
            folder = subjects.find_measurements(self.data)
            found += subjects.choose_subjects(folder, COUNT if self.count is None else self.count)
        found += [subjects.open_subject(word)[0] for word in dict.fromkeys(words)]
        subjects.check_distinct(found)
        return {one.name: one for one in found}

    @cached_property
    def verified(self) -> list[subjects.Chosen]:
        """All of MERL's files in the folder of --merl."""
        if self.merl is None:
            return []
        if self.everything or self.data is not None:
            other = "--everything takes all networks" if self.everything else "--data is the folder of networks"
            raise CnfError(f"--merl takes MERL's own files, {other}; give one of them")
        return subjects.verify_merl(self.merl)

    @cached_property
    def contents(self) -> dict[str, str]:
        """What the files hold, in short: read once, for MERL's are 3.5 GB."""
        paths = dict.fromkeys(one.subject.path for one in self.chosen.values())
        return {path: hash_source(path) for path in paths}

    def settings(self) -> dict[str, Any]:
        light = None if self.env is None else self.env.name  # its contents tell cases apart
        budget = asdict(self.budget)
        if self.budget.on_nodes == "no":
            del budget["on_nodes"]  # as in rows of before it could be asked for, which are the same
        return {**budget, "environment": light, "size": self.size}

    def cases(self) -> list[Case]:
        """The source tells a file by its contents: one that was changed is fitted again."""
        methods = choose_methods(self.methods)
        light = hash_source(self.light)
        return [
            {"material": one.name, "method": method, "source": self._identify(one, light)}
            for one in self.chosen.values()
            for method in methods
        ]

    def _identify(self, one: subjects.Chosen, light: str) -> list[str]:
        """What was read for a case: names, and files by their contents."""
        return [Path(one.subject.path).name, one.subject.name or "", self.contents[one.subject.path], light]

    def introduce(self) -> str:
        many, ways = len(self.chosen), len(choose_methods(self.methods))
        count = f"{many} material{'s' * (many > 1)}, {ways} method{'s' * (ways > 1)}"
        samples = f"{self.budget.samples} samples x {self.budget.epochs}"
        budget = f"of about {self.budget.parameters} parameters, {samples}, {self.budget.conditions} conditions"
        if not self.verified:
            return f"{count} {budget}"
        known = len(list_known())
        return f"{len(self.verified)} of MERL's {known} files, each verified by its SHA-256\n{count} {budget}"

    def count_steps(self, case: Case) -> int:
        return self.budget.steps // self.budget.log_every

    def run(self, case: Case, desk: Desk) -> Row:
        """Fit, render, measure."""
        one = self.chosen[case["material"]]
        if desk.shared.get("name") != one.name:  # the stage of the last material serves all its methods
            reference = one.subject.read()
            stages = (
                Stage.of(reference, options.open_light(self.env), self.size),
                Stage.facing(reference, self.size // 2),
            )
            desk.shared.update(name=one.name, stages=stages)
        stage, facing = desk.shared["stages"]

        def tell(step: int, steps: int, loss: float, residual: float | None) -> None:
            desk.tell(f"step {step}: loss {loss:.3g}")

        fit = fit_material(stage.reference, case["method"], self.budget, tell)
        if fit.course.stopped == "interrupted":
            raise KeyboardInterrupt
        found, image = measure(fit, one.subject.group, stage, facing)
        desk.keep(image=image.numpy().astype(np.float32), reference=stage.image.numpy().astype(np.float32))
        curve = {"step": found.steps, "loss": found.losses, "seconds": found.times}
        kept = {name: getattr(found, name) for name in COPIED}
        return {**kept, "held_out": found.held_out, "standing": found.standing, "curve": curve}

    def describe(self, row: Row) -> str:
        seen = f"PSNR {row['psnr']:6.2f} dB   SSIM {row['ssim']:.3f}   {row['seconds']:7.1f} s"
        return seen + ("" if row["residual"] is None else f"   conditions {row['residual']:.0e}")

    @property
    def stem(self) -> str:
        return "study"

    def tables(self, rows: Sequence[Row]) -> list[Table]:
        return study_tables(self.measured(rows))

    def notes(self, rows: Sequence[Row]) -> str:
        """What the columns mean, and on which materials another method is ahead."""
        methods = list(dict.fromkeys(row["method"] for row in rows))
        breaks = where_order_breaks(self.measured(rows), choose_champion(methods))
        against = ", ".join(dict.fromkeys(case.standing for case in self.measured(rows))).lower()
        about = f"Marked: best of its column. {NOTES} Pictures are held against: {against}."
        return "\n\n".join([about, "\n".join(breaks)])

    def plots(self, rows: Sequence[Row], folder: Path) -> list[Path]:
        cases, methods = self.measured(rows), list(dict.fromkeys(row["method"] for row in rows))
        many = len({case.material for case in cases})
        title = cases[0].label if many == 1 else f"mean over {many} materials"
        pictures = [find_arrays(self, folder, row) for row in rows]
        return [
            draw_study(cases, folder / "study.png", choose_champion(methods)),
            draw_learning_curves(mean_curves(cases), folder / "curves.png", title),
            *draw_pages(cases, pictures, methods, folder, "pictures"),
        ]

    def _kept(self, row: Row) -> dict[str, Any]:
        """What a row says; of its group this choice of materials decides."""
        return {**{name: row.get(name) for name in COPIED}, "group": self.chosen[row["material"]].subject.group}

    def measured(self, rows: Sequence[Row]) -> list[Measured]:
        """Rows as the reports of materials take them; groups are those of this choice."""
        return [
            Measured(
                **self._kept(row),
                material=row["material"],
                method=row["method"],
                steps=row["curve"]["step"],
                losses=row["curve"]["loss"],
                times=row["curve"]["seconds"],
                standing=row.get("standing", "Reference"),  # rows of earlier versions do not say
            )
            for row in rows
        ]
