"""From finished cases of materials to what their reports take: results, mean learning curves, rows of pictures.

In: the cases of a study or a comparison. Out: `Result`s for tables, curves averaged over materials, rows for the figure
that compares methods with the reference.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cnf.applications.materials.metrics import ImageErrors
from cnf.applications.materials.study import picture_file, read_picture
from cnf.reports.material_curves import Logged
from cnf.reports.material_methods import title_of
from cnf.reports.material_pictures import Panel, Row, draw_comparison
from cnf.reports.material_study import CHAMPION, Result

if TYPE_CHECKING:
    from cnf.applications.materials.study import Case

ROWS = 6  # of one picture, at most


def as_results(cases: Sequence[Case]) -> list[Result]:
    names = [field.name for field in dataclasses.fields(Result)]
    return [Result(**{name: getattr(case, name) for name in names}) for case in cases]


def choose_champion(methods: Sequence[str]) -> str:
    """Kernel SIREN if it took part, else the last method: tables have the constrained ones at their end."""
    return CHAMPION if CHAMPION in methods else methods[-1]


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


def picture_rows(cases: Sequence[Case], methods: Sequence[str], folder: Path) -> list[Row]:
    """One row per material of which all methods are finished and all pictures are there."""
    rows: list[Row] = []
    for name in dict.fromkeys(case.material for case in cases):
        own = {case.method: case for case in cases if case.material == name}
        files = [picture_file(folder, name, method) for method in ("reference", *methods)]
        if not all(method in own for method in methods) or not all(file.exists() for file in files):
            continue
        panels = [Panel("Reference", read_picture(files[0]))]
        for method, file in zip(methods, files[1:], strict=True):
            case = own[method]
            panels.append(Panel(title_of(method), read_picture(file), ImageErrors(case.rmse, case.psnr, case.ssim)))
        rows.append((own[methods[0]].label, panels))
    return rows


def draw_pages(cases: Sequence[Case], methods: Sequence[str], folder: Path, name: str) -> list[Path]:
    """The figure for every group of materials, on pages of a few rows each: name_1.png, name_2.png, ..."""
    made: list[Path] = []
    for group in dict.fromkeys(case.group for case in cases):
        rows = picture_rows([case for case in cases if case.group == group], methods, folder)
        for start in range(0, len(rows), ROWS):
            made.append(draw_comparison(rows[start : start + ROWS], folder / f"{name}_{len(made) + 1}.png"))
    return made
