"""Pages of the study of materials: renderings of every material beside what it is held against, a few rows each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from cnf.materials.rendering.metrics import ImageErrors
from cnf.materials.report.method_style import title_of
from cnf.materials.report.pictures import Panel, Row, draw_comparison
from studies.materials.cases import Case

ROWS = 6  # of one picture, at most
Images = dict[str, np.ndarray]  # "image" and "reference", (H, W, 3)


def picture_rows(found: Sequence[tuple[Case, Images]], methods: Sequence[str]) -> list[Row]:
    """One row per material of which all methods are finished."""
    rows: list[Row] = []
    for name in dict.fromkeys(case.material for case, _ in found):
        own = {case.method: (case, images) for case, images in found if case.material == name}
        if not all(method in own for method in methods):
            continue
        first, images = own[methods[0]]
        panels = [Panel(first.standing, torch.from_numpy(images["reference"]).double())]
        for method in methods:
            case, images = own[method]
            errors = ImageErrors(case.rmse, case.psnr, case.ssim)
            panels.append(Panel(title_of(method), torch.from_numpy(images["image"]).double(), errors))
        rows.append((first.label, panels))
    return rows


def draw_pages(
    cases: Sequence[Case], images: Sequence[Images], methods: Sequence[str], folder: Path, name: str
) -> list[Path]:
    """The figure for every group of materials, on pages of a few rows each: name_1.png, name_2.png, ...

    Materials whose pictures are held against different things have pages of their own.
    """
    made: list[Path] = []
    found = list(zip(cases, images, strict=True))
    for kind in dict.fromkeys((case.group, case.standing) for case in cases):
        rows = picture_rows([pair for pair in found if (pair[0].group, pair[0].standing) == kind], methods)
        for start in range(0, len(rows), ROWS):
            made.append(draw_comparison(rows[start : start + ROWS], folder / f"{name}_{len(made) + 1}.png"))
    return made
