"""Pages of the study of materials: renderings of every material beside its reference, a few rows each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cnf.materials.comparison.cases import picture_file, read_picture
from cnf.materials.rendering.metrics import ImageErrors
from cnf.materials.report.method_style import title_of
from cnf.materials.report.pictures import Panel, Row, draw_comparison

if TYPE_CHECKING:
    from cnf.materials.comparison.cases import Case


ROWS = 6  # of one picture, at most


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
