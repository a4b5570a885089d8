"""Results of methods on materials: where the order of the methods breaks, and tables as files.

In: one `Case` per material and method. Out: tables (see `tables`) as text, Markdown, LaTeX and CSV, and lines that
say on which materials another method wins.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np

from cnf.files import as_path, write_text
from cnf.materials.report.curves import Logged
from cnf.materials.report.method_style import title_of
from studies.materials.cases import Case
from studies.materials.tables import check_results, study_latex, study_markdown, study_text
from studies.tables import Table

CHAMPION = "kernel-siren"
COLUMNS = [field.name for field in fields(Case) if field.name not in ("rate", "steps", "losses", "times", "standing")]


def where_order_breaks(results: Sequence[Case], champion: str = CHAMPION) -> list[str]:
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


def _ratio_line(group: str, results: Sequence[Case], champion: str) -> str:
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
    results: Sequence[Case], folder: object, champion: str = CHAMPION, notes: Sequence[str] = ()
) -> list[Path]:
    """study.txt, study.md, study.tex and study.csv in `folder`; the first two end with where the order breaks, and
    with the notes."""
    check_results(results)
    place = as_path(folder)
    breaks, shown = [*where_order_breaks(results, champion), *notes], [*COLUMNS, "held_out"]
    contents = {
        "study.txt": "\n".join([study_text(results), "", *breaks]),
        "study.md": "\n".join([study_markdown(results), "", *(f"- {line}" for line in breaks)]),
        "study.tex": study_latex(results),
        "study.csv": Table(shown, [[getattr(r, name) for name in shown] for r in results]).csv(),
    }
    return [write_text(place / name, text.rstrip("\n") + "\n") for name, text in contents.items()]


def choose_champion(methods: Sequence[str]) -> str:
    """The kernel grid if it took part, else Kernel SIREN, else the last: tables have constrained ones at their end."""
    return next((name for name in ("kernel-grid", CHAMPION) if name in methods), methods[-1])


def mean_curves(cases: Sequence[Case]) -> dict[str, Logged]:
    """Per method the loss and the seconds at every logged step, averaged over the materials logged at the same steps.

    A material with fewer samples than asked for is trained in fewer steps; the most frequent length counts.
    """
    found: dict[str, Logged] = {}
    for method in dict.fromkeys(case.method for case in cases):
        own = [case for case in cases if case.method == method and case.steps]
        if not own:
            continue
        steps = Counter(tuple(case.steps) for case in own).most_common(1)[0][0]
        same = [case for case in own if tuple(case.steps) == steps]
        losses, times = (np.mean([getattr(case, name) for case in same], axis=0) for name in ("losses", "times"))
        found[method] = list(steps), losses.tolist(), times.tolist()
    return found
