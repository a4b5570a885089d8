"""Everything about an answer in one folder: the solved field, its numbers, data files, pictures and a report."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any

import torch

from cnf.files import write_text
from cnf.pde.report.animation import write_animation
from cnf.pde.report.course import continuation_table, course_table
from cnf.pde.report.course_plots import has_course, has_steps, plot_course, plot_newton
from cnf.pde.report.exports import grid_counts, is_timed, write_csv, write_npz, write_vtk_files
from cnf.pde.report.field_plots import plot_field
from cnf.pde.report.page import write_report
from cnf.pde.report.table import list_equations
from cnf.pde.report.trial_plots import plot_trials
from cnf.pde.tuning.trial import RESOLVED
from cnf.reports.plots import check_pictures
from cnf.reports.results import Run, publish

if TYPE_CHECKING:
    from cnf.pde.problems.answer import Answer


# Files that not every answer has: one of an earlier problem in the same folder would be taken for this one's.
OPTIONAL = (
    *("solution.vti", "solution.vtu", "solution.pvd"),
    *("field.png", "newton.png", "course.png", "tuning.png", "animation.gif"),
)


def is_answer(folder: Path) -> bool:
    """Whether the folder holds an answer."""
    return (folder / "solution.pt").is_file()


def write_answer(
    answer: Answer, folder: object, progress: Callable[[str], None] | None = None, pictures: bool = True
) -> list[Path]:
    """Write all files into `folder`, which is complete or as it was before (see `cnf.reports.results`); their paths.

    Always: solution.pt, certificate.txt, summary.json, solution.csv, solution.npz, report.html; solution.vti, .vtu or
    .pvd for up to three space coordinates; with `pictures` field.png, newton.png for nonlinear conditions, course.png
    and animation.gif for problems in time, tuning.png if anything was tuned. `progress` is told the name of each file
    before it is written.
    """
    if pictures:
        check_pictures()
    tell = progress or (lambda name: None)
    written: list[Path] = []
    with publish(folder, "answer", OPTIONAL) as results:

        def write(name: str, make: Callable[[Path], object]) -> Path:
            tell(name)
            make(results.folder / name)
            written.append(results.folder / name)
            return written[-1]

        write("solution.pt", answer.field.save)
        write("certificate.txt", lambda path: write_text(path, certificate_text(answer)))
        write("summary.json", lambda path: write_text(path, summary_text(answer, results.run)))
        tell("values on a grid")
        grid = answer.grid(grid_counts(answer))
        write("solution.csv", lambda path: write_csv(answer, grid, path))
        write("solution.npz", lambda path: write_npz(answer, grid, path))
        tell("files for ParaView")
        written += write_vtk_files(answer, grid, results.folder)
        shown: list[Path] = []
        if pictures:
            shown.append(write("field.png", lambda path: plot_field(answer, path)))
            if has_steps(answer):
                shown.append(write("newton.png", lambda path: plot_newton(answer, path)))
            if has_course(answer):
                shown.append(write("course.png", lambda path: plot_course(answer, path)))
            if len(answer.tuning.trials) > 1:
                shown.append(write("tuning.png", lambda path: plot_trials(answer, path)))
            if is_timed(answer):
                shown.append(write("animation.gif", lambda path: write_animation(answer, path)))
        write("report.html", lambda path: write_report(answer, path, shown, results.run))
    return results.published(written)


def certificate_text(answer: Answer) -> str:
    """The certificate, what is fitted instead, and what led to the field: values of a continuation, windows of time."""
    parts = [str(answer.certificate)]
    if answer.recovered is not None:
        parts.append("\n  ".join(["unknowns", *answer.recovered.lines()]))
    if answer.passed:
        parts.append(f"continuation\n{indent(continuation_table(answer).text(), '  ')}")
    if answer.course is not None:
        parts.append(f"{answer.course.describe()}\n{indent(course_table(answer).text(), '  ')}")
    return "\n\n".join(parts) + "\n"


def summary_text(answer: Answer, run: Run | None = None) -> str:
    """The numbers of an answer as JSON, with the run that writes them; what is NaN or infinite becomes null."""
    from cnf import __version__

    certificate, problem, tuning = answer.certificate, answer.problem, answer.tuning
    summary = {
        "run": asdict(run) if run is not None else None,
        "title": problem.title,
        "coordinates": list(problem.space.coordinates),
        "channels": list(problem.space.channels),
        "exact": certificate.exact,
        "worst_relative_residual": certificate.worst,
        "tolerance": certificate.tolerance,
        "equations": [
            {
                "name": row.name,
                "on": row.where,
                "latex": row.latex,
                "points": row.points,
                "conditions": row.conditions,
                "residual": row.absolute,
                "relative_residual": row.relative,
                "held_out_relative_residual": row.held_out,
                "held_out_largest_relative_residual": row.largest,
            }
            for row in list_equations(answer)
        ],
        "conditions": certificate.conditions,
        "functions": certificate.functions,
        "rank": certificate.rank,
        "condition": certificate.condition,
        "weight_norm": certificate.weight_norm,
        "notes": list(certificate.notes),
        "newton": certificate.to_dict()["newton"],
        "continuation": [asdict(passed) for passed in answer.passed],
        "course": None if answer.course is None else answer.course.to_dict(),
        "errors": answer.errors,
        "unknowns": None if answer.recovered is None else answer.recovered.to_dict(),
        "disagreement": answer.disagreement,
        "estimate": answer.estimate,
        "target": problem.solving.target or RESOLVED,
        "target_reached": not answer.off_target,
        "tuning": {
            "objective": tuning.objective,
            "interrupted": tuning.interrupted,
            "best": _trial(tuning.best) if tuning.trials else None,
            "trials": [_trial(trial) for trial in tuning.trials],
        },
        "seconds": answer.seconds,
        "seed": problem.seed,
        "versions": {"cnf": __version__, "torch": torch.__version__, "python": platform.python_version()},
    }
    return json.dumps(plain(summary), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _trial(trial: Any) -> dict[str, object]:
    keys = ("loss", "residual", "exact", "conditions", "seconds")
    return {"settings": dict(trial.settings), **{key: getattr(trial, key) for key in keys}}


def plain(value: Any) -> Any:
    """The value in the types that JSON has."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return plain(value.item()) if hasattr(value, "item") else str(value)
