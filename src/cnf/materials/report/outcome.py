"""Outcome: a fit measured against the material it is of, and written into a folder with its pictures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cnf.materials.fitting.fit import Fit
from cnf.materials.fitting.fitted import as_material
from cnf.materials.fitting.folders import PICTURES, ConditionCheck, Source, check_conditions, save_fit
from cnf.materials.fitting.measuring import Inspection, held_out_error, inspect_fit, time_inference
from cnf.materials.rendering.stage import Stage, View
from cnf.materials.report.curves import draw_learning_curves
from cnf.materials.report.lobes import draw_lobes
from cnf.materials.report.pictures import Panel, draw_comparison
from cnf.reports.results import Results, publish


@dataclass(frozen=True)
class Outcome:
    """A fit on a stage with all that is measured of it."""

    fit: Fit
    stage: Stage
    seen: View
    numbers: dict[str, float | None]
    inspection: Inspection
    check: ConditionCheck

    @property
    def exact(self) -> bool | None:
        """Whether the conditions hold, by the certificate and as queried; None of methods without conditions."""
        certificate = self.fit.certificate
        return None if certificate is None else certificate.exact and self.check.within(certificate.tolerance)

    @property
    def fault(self) -> str:
        """What is wrong with the conditions; empty if they hold or there are none."""
        certificate = self.fit.certificate
        if certificate is None or self.exact:
            return ""
        if not certificate.exact:
            return f"its conditions do not hold: {certificate.advice()}"
        return (
            f"queries miss its conditions by {self.check.residual:.1e}, more than its certificate says "
            f"({certificate.worst:.1e})"
        )


def measure_fit(made: Fit, stage: Stage) -> Outcome:
    """All that is told about a fit."""
    fitted = as_material(made, reference=stage.reference)
    seen = stage.view(fitted)
    numbers: dict[str, float | None] = {"psnr": seen.errors.psnr, "ssim": seen.errors.ssim, "rmse": seen.errors.rmse}
    numbers["log_error"] = held_out_error(fitted, stage.reference)
    numbers["inference_seconds_per_million"] = time_inference(fitted)
    inspection = inspect_fit(fitted, stage.reference, seen.linear)
    return Outcome(made, stage, seen, numbers, inspection, check_conditions(made))


def write_outcome(outcome: Outcome, out: Path | Results, source: Source, picture: bool) -> list[Path]:
    """The fit and its pictures; the folder is complete or as it was before."""
    with publish(out, "fit", PICTURES) as results:
        written = save_fit(outcome.fit, results, source, outcome.numbers, outcome.inspection)
        if picture:
            written += draw_fit(outcome, results.folder)
    return written


def draw_fit(outcome: Outcome, folder: Path) -> list[Path]:
    """What was given, fit and error map; slices of the reflectance; the loss."""
    made, stage, seen = outcome.fit, outcome.stage, outcome.seen
    title, course = made.method.title, made.course
    standing = stage.reference.standing
    panels = [Panel(standing, stage.image), Panel(title, seen.image, seen.errors)]
    curves = [(standing, stage.reference), (title, as_material(made, reference=stage.reference))]
    made_here = [
        draw_comparison([(made.label, panels)], folder / "render.png"),
        draw_lobes(curves, folder / "lobes.png", made.label),
    ]
    if any(loss > 0 for loss in course.loss):  # a logarithmic scale has no zero
        entries = {made.method.name: (course.step, course.loss, course.seconds)}
        made_here.append(draw_learning_curves(entries, folder / "curve.png", made.label))
    return made_here
