"""Tables of the study of materials, as the paper's: per method the mean and standard deviation over materials.

In: the study's results. Out: the same tables as plain text, Markdown and LaTeX, one block for all materials and one per
group. A result that is not finite counts as failed: it is left out of the means, the table says over how many materials
each method's numbers are, and a method that lacks some is never marked as the best.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cnf.errors import ConstraintError
from cnf.materials.report.method_style import title_of
from studies.materials.cases import Case
from studies.materials.subjects import GLOSSY
from studies.tables import Cell, Table


@dataclass(frozen=True)
class Column:
    """One column of the table: `better` is -1 if low values are good, 1 if high ones are, 0 if neither is marked."""

    heading: str
    name: str
    better: int
    write: Callable[[float], str]
    spread: bool = False  # with the standard deviation
    worst: bool = False  # the largest instead of the mean


COLUMNS = (
    Column("RMSE e-2", "rmse", -1, lambda v: f"{100 * v:.2f}", spread=True),
    Column("PSNR dB", "psnr", 1, lambda v: f"{v:.2f}", spread=True),
    Column("SSIM", "ssim", 1, lambda v: f"{v:.3f}", spread=True),
    Column("log error e-2", "log_error", -1, lambda v: f"{100 * v:.2f}"),
    Column("lobe e-2", "lobe_mean", -1, lambda v: f"{100 * v:.1f}"),
    Column("light e-2", "linear_l2", -1, lambda v: f"{100 * v:.2f}"),
    Column("facing PSNR", "facing_psnr", 1, lambda v: f"{v:.2f}"),
    Column("training s", "seconds", -1, lambda v: f"{v:.1f}"),
    Column("processor s", "cpu_seconds", -1, lambda v: f"{v:.1f}"),
    Column("inference s", "inference_seconds", -1, lambda v: f"{v:.3f}"),
    Column("parameters", "parameters", 0, lambda v: f"{v:.0f}"),
    Column("reciprocity", "reciprocity", 0, lambda v: f"{v:.0e}", worst=True),
    Column("queried", "queried", 0, lambda v: f"{v:.0e}", worst=True),
    Column("worst residual", "residual", 0, lambda v: f"{v:.0e}" if math.isfinite(v) else "not finite", worst=True),
)
NOTES = (
    "Mean ± sample standard deviation over materials; the best mean of each column is marked, and shares the mark with "
    "those that read the same. RMSE, PSNR and SSIM are of tone-mapped pictures, over the object's pixels; log error is "
    "that of the reflectance, lobe its relative error within 4 degrees of the mirror direction, light the relative "
    "error of the picture before clipping and tone mapping; facing: of a picture whose highlight is in its middle. "
    "Training, processor and inference (of a million): mean seconds. Largest over the materials: reciprocity, the "
    "relative change with light and eye swapped; queried, the relative error of reflectance at the conditions; worst "
    "residual, that of the conditions; - for methods that have none. Held out: none of the dozen materials that "
    "settings were chosen on."
)


def check_results(results: Sequence[Case]) -> None:
    """Refuse an empty study, and two results for the same material and method."""
    if not results:
        raise ConstraintError("a study needs at least one result, got none")
    seen = set()
    for result in results:
        place = (*result.key, result.method)
        if place in seen:
            raise ConstraintError(
                f"two results of {result.method} on {result.material} in group {result.group!r}; expected one of each"
            )
        seen.add(place)


def study_tables(results: Sequence[Case]) -> list[Table]:
    """One table for all materials, one for those held out if some are not, and one for each of several groups."""
    check_results(results)
    groups = list(dict.fromkeys(r.group for r in results))
    if len(groups) == 1 and all(r.held_out for r in results):
        return [_table(groups[0] or "Materials", results)]
    apart = {title: own for title, own in _held_out(results).items() if own and len(own) < len(results)}
    several = groups if len(groups) > 1 else []
    return [
        _table("All groups" if several else groups[0] or "Materials", results),
        *(_table(title, own) for title, own in apart.items()),
        *(_table(group, [r for r in results if r.group == group]) for group in several),
    ]


def _held_out(results: Sequence[Case]) -> dict[str, list[Case]]:
    held = [r for r in results if r.held_out]
    glossy = [r for r in held if (r.glossiness or 0.0) >= GLOSSY]
    return {"Held out": held, "Held out, specular": glossy}


def pair_table(results: Sequence[Case], champion: str) -> Table:
    """One method against every other, each pair on the held-out materials that both finished.

    Means over different materials cannot be compared; these can, however few materials a method was run on.
    """
    check_results(results)
    rows: list[list[object]] = []
    for title, own in _held_out([r for r in results if r.finished]).items():
        ours = {r.key: r for r in own if r.method == champion}
        for method in dict.fromkeys(r.method for r in own if r.method != champion):
            pairs = [(ours[r.key], r) for r in own if r.method == method and r.key in ours]
            if not pairs:
                continue
            psnr = [math.fsum(pair[k].psnr for pair in pairs) / len(pairs) for k in (0, 1)]
            rmse = [math.fsum(pair[k].rmse for pair in pairs) / len(pairs) for k in (0, 1)]
            ahead = sum(a.psnr > b.psnr for a, b in pairs)
            errors = [*(f"{100 * v:.3f}" for v in rmse), f"{rmse[0] / rmse[1]:.2f}" if rmse[1] else "-"]
            decibels = [*(f"{v:.2f}" for v in psnr), f"{psnr[0] - psnr[1]:+.2f}"]
            name = f"{title}: {title_of(method)}"
            rows.append([name, len(pairs), *decibels, *errors, f"{ahead} of {len(pairs)}"])
    name = title_of(champion)
    header = ["against", "materials", f"PSNR dB: {name}", "the other", "difference", f"RMSE e-2: {name}", "the other"]
    return Table([*header, "ratio", "ahead by PSNR"], rows)


def _table(title: str, results: Sequence[Case]) -> Table:
    materials = len({r.key for r in results})
    done = {
        method: [r for r in results if r.method == method and r.finished]
        for method in dict.fromkeys(r.method for r in results)
    }
    columns = [_cells(column, done, materials) for column in COLUMNS]
    complete = all(len(own) == materials for own in done.values())
    rows = []
    for method, own in done.items():
        finished = [] if complete else [f"{len(own)} of {materials}"]
        rows.append([title_of(method), *finished, *(column[method] for column in columns)])
    lead = ["method"] if complete else ["method", "finished"]
    header, better = [*lead, *(c.heading for c in COLUMNS)], [*[0] * len(lead), *(c.better for c in COLUMNS)]
    return Table(header, rows, title=f"{title} ({materials} material{'s' * (materials != 1)})", better=better)


def _cells(column: Column, done: dict[str, list[Case]], materials: int) -> dict[str, Cell]:
    means: dict[str, float] = {}
    deviations: dict[str, str] = {}
    for method, own in done.items():
        values = [float(v) for r in own if (v := getattr(r, column.name)) is not None]
        if column.worst:
            values = [math.inf if math.isnan(v) else v for v in values]  # the worst there is, and not to be hidden
        else:
            values = [v for v in values if math.isfinite(v)]
        if not values:
            continue
        means[method] = max(values) if column.worst else math.fsum(values) / len(values)
        if column.spread and len(values) > 1:
            deviations[method] = column.write(statistics.stdev(values))
    rivals = [means[m] for m, own in done.items() if m in means and len(own) == materials]
    best = column.write(max(rivals, key=lambda v: column.better * v)) if rivals and len(done) > 1 else None
    cells = {}
    for method, own in done.items():
        if method not in means:
            cells[method] = Cell("-")
            continue
        text = column.write(means[method])
        marked = column.better != 0 and len(own) == materials and text == best
        cells[method] = Cell(text, deviations.get(method, ""), marked)
    return cells


def study_text(results: Sequence[Case]) -> str:
    """The tables as plain text, the best of each column with a star."""
    parts = [table.text() for table in study_tables(results)]
    return "\n\n".join([*parts, "* best of its column. " + NOTES, *_failures(results)])


def study_markdown(results: Sequence[Case]) -> str:
    """The tables in Markdown, the best of each column in bold."""
    parts = [table.markdown() for table in study_tables(results)]
    return "\n\n".join([*parts, "Bold: best of its column. " + NOTES, *_failures(results)])


def study_latex(results: Sequence[Case]) -> str:
    """The tables in LaTeX (package booktabs), the best of each column in bold; one tabular per table."""
    return "\n\n".join(table.latex() for table in study_tables(results))


def _failures(results: Sequence[Case]) -> list[str]:
    failed = [f"{title_of(r.method)} on {r.label}" for r in results if not r.finished]
    return [f"Failed, and not in the means: {', '.join(failed)}."] if failed else []
