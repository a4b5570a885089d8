"""Fits: one material per piece of work, on any executor; a folder for each, with the fit and its numbers.

Every fit is done on one thread, so that it is the same wherever it is done.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cnf.errors import CnfWarning
from cnf.execution import Executor, opened
from cnf.files import hash_file
from cnf.materials.fitting.fit import Settings, fit_material, suit_method
from cnf.materials.fitting.folders import Source
from cnf.materials.reflectance import read_material
from cnf.materials.rendering.environments import read_environment, studio
from cnf.materials.rendering.stage import Stage
from cnf.materials.report.outcome import Outcome, measure_fit, write_outcome
from cnf.materials.several.sources import Listed
from cnf.reports import cases
from cnf.reports.cases import Case, Made, do_cases, open_cases
from cnf.reports.results import RECORD
from cnf.threads import one_thread_each


@dataclass(frozen=True)
class FitMaterial:
    """The work: the same settings for all."""

    settings: Settings
    method: str | None
    light: Path | None  # None: the studio
    size: int
    picture: bool

    def __call__(self, listed: Listed) -> Made:
        began = time.process_time()
        with one_thread_each(), warnings.catch_warnings(), tempfile.TemporaryDirectory(prefix="cnf-fit-") as name:
            warnings.simplefilter("ignore", CnfWarning)  # the row says the same
            given = read_material(listed.path, listed.within)
            light = studio() if self.light is None else read_environment(self.light)
            stage = Stage.of(given, light, self.size)
            made = fit_material(given, self.method or suit_method(given), self.settings)
            if made.course.stopped == "interrupted":
                raise KeyboardInterrupt
            outcome, folder = measure_fit(made, stage), Path(name) / "fit"
            write_outcome(outcome, folder, Source(listed.path, listed.within), self.picture)
            files = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != RECORD}
            return Made({**describe(outcome), "processor_seconds": time.process_time() - began}, files)

    def checksums(self) -> dict[str, str]:
        """What every fit depends on besides its material."""
        asked = {f"the setting {name}": repr(value) for name, value in asdict(self.settings).items()}
        asked |= {"the method": repr(self.method), "the size of pictures": f"{self.size}, {self.picture}"}
        return {**asked, "the environment": "studio" if self.light is None else hash_file(self.light)}


def describe(outcome: Outcome) -> dict[str, Any]:
    """The numbers of a fit that a table has."""
    made, numbers = outcome.fit, outcome.numbers
    return {
        "label": made.label,
        "method": made.method.name,
        "exact": outcome.exact,
        "worst_relative_error_at_conditions": outcome.check.worst,
        **{name: numbers[name] for name in ("psnr", "ssim", "log_error")},
        "parameters": made.parameters,
        "seconds": made.seconds,
        "fault": outcome.fault,
    }


def fit_materials(
    listed: Sequence[Listed],
    work: FitMaterial,
    out: object,
    workers: int | str | Executor = 1,
    tell: Callable[[cases.Outcome], object] = lambda outcome: None,
) -> list[cases.Outcome]:
    """A fit for every material, in a folder of its name in `out`; what is there already is not done again."""
    wanted = [Case(one.name, one.identity, one) for one in listed]
    with open_cases(out, "fits", work.checksums()) as folder, opened(workers) as executor:
        return do_cases(folder, work, wanted, executor, tell)
