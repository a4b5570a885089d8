"""Results of methods on materials: where the order of the methods breaks, and tables as files.

In: one `Result` per material and method. Out: tables (see `tables`) as text, Markdown, LaTeX and CSV, and lines that
say on which materials another method wins.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from cnf.files import as_path, write_atomically
from cnf.materials.report.method_style import title_of
from cnf.materials.report.tables import check_results, study_latex, study_markdown, study_text

__all__ = [
    "Result",
    "study_latex",
    "study_markdown",
    "study_text",
    "where_order_breaks",
    "write_study",
]
CHAMPION = "kernel-siren"
MEASURES = ("rmse", "psnr", "ssim", "log_error")  # what a result must have to count as finished


@dataclass(frozen=True)
class Result:
    """One method on one material: errors of the picture, mean log error of the reflectance, times, size, residual."""

    material: str  # a name such as "chrome"
    label: str  # as pictures show it, such as "NBRDF of MERL chrome"
    group: str  # such as "RGL"
    method: str
    rmse: float
    psnr: float  # dB
    ssim: float
    log_error: float
    seconds: float  # of training
    inference_seconds: float
    parameters: int
    residual: float | None  # worst relative residual of the conditions; None for methods without hard conditions

    @property
    def finished(self) -> bool:
        """Whether all its measures are finite."""
        return all(math.isfinite(getattr(self, name)) for name in MEASURES)

    @property
    def key(self) -> tuple[str, str]:
        """Which material of which group: the same name may stand in two groups."""
        return self.group, self.material


def where_order_breaks(results: Sequence[Result], champion: str = CHAMPION) -> list[str]:
    """Where another method has a higher PSNR than `champion`, and per group its RMSE over that of the best soft method.

    A soft method is one without conditions (`residual` is None). Means are over materials that both finished.
    """
    check_results(results)
    name = title_of(champion)
    own = {r.key: r for r in results if r.method == champion and r.finished}
    if not own:
        return [f"no finished result of {name}: there is nothing to compare"]
    breaks = []
    contested = [key for key in own if any(r.key == key and r.method != champion and r.finished for r in results)]
    for key in contested:
        above = [r for r in results if r.key == key and r.finished and r.psnr > own[key].psnr]
        if above:
            above.sort(key=lambda r: -r.psnr)
            others = ", ".join(f"{title_of(r.method)} {r.psnr:.2f} dB" for r in above)
            breaks.append(f"{own[key].label}: {others}; {name} {own[key].psnr:.2f} dB")
    lines = [f"{name} has the highest PSNR on {len(contested) - len(breaks)} of {len(contested)} materials", *breaks]
    for group in dict.fromkeys(r.group for r in results):
        lines.append(_ratio_line(group, [r for r in results if r.group == group and r.finished], champion))
    missing = list(dict.fromkeys(r.material for r in results if r.key not in own))
    if missing:
        count = "1 material" if len(missing) == 1 else f"{len(missing)} materials"
        lines.append(f"{name} has no finished result on {count}: {', '.join(missing)}")
    return lines


def _ratio_line(group: str, results: Sequence[Result], champion: str) -> str:
    own = {r.key: r.rmse for r in results if r.method == champion}
    ratios = {}
    for method in dict.fromkeys(r.method for r in results if r.residual is None and r.method != champion):
        pairs = [(own[r.key], r.rmse) for r in results if r.method == method and r.key in own]
        if pairs:
            ours, theirs = (math.fsum(column) / len(pairs) for column in zip(*pairs, strict=True))
            ratios[method] = (ours / theirs if theirs > 0 else math.inf, ours, theirs, len(pairs))
    if not ratios:
        return f"{group}: no soft method to compare with"
    best = max(ratios, key=lambda m: ratios[m][0])  # the soft method with the least error for its share of materials
    ratio, ours, theirs, count = ratios[best]
    return (
        f"{group}: mean RMSE of {title_of(champion)} / {title_of(best)} (best soft method) = "
        f"{ours:.2e} / {theirs:.2e} = {ratio:.2f} over {count} material{'s' if count > 1 else ''}"
    )


def write_study(
    results: Sequence[Result], folder: object, champion: str = CHAMPION, notes: Sequence[str] = ()
) -> list[Path]:
    """study.txt, study.md, study.tex and study.csv in `folder`; the first two end with where the order breaks, and
    with the notes."""
    check_results(results)
    place = as_path(folder)
    breaks = [*where_order_breaks(results, champion), *notes]
    contents = {
        "study.txt": "\n".join([study_text(results), "", *breaks]),
        "study.md": "\n".join([study_markdown(results), "", *(f"- {line}" for line in breaks)]),
        "study.tex": study_latex(results),
        "study.csv": _rows_as_csv(results),
    }

    def write(name: str, text: str) -> Path:
        return write_atomically(place / name, lambda file: file.write_text(text.rstrip("\n") + "\n", encoding="utf-8"))

    return [write(name, text) for name, text in contents.items()]


def _rows_as_csv(results: Sequence[Result]) -> str:
    """All rows with all digits (numbers read back are the same); an empty cell stands for None."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in fields(Result)])
    for result in results:
        writer.writerow(["" if v is None else repr(v) if isinstance(v, float) else v for v in astuple(result)])
    return text.getvalue()
