"""Shapes, pictures of the study: dot plots, and shaded pictures side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cnf.meshes.mesh import Mesh
from cnf.reports.plots import BLUE, GREEN, INK, ORANGE, RED, SKY, draw
from studies.shapes.collection import SHAPES, Shape
from studies.shapes.tables import mean_of
from studies.study import Row

PANELS = {  # title -> name
    "Chamfer distance": "chamfer",
    "Hausdorff distance": "hausdorff",
    "inputs to mesh, largest (1e-9: or less)": "input_max",
    "normals at the inputs, degrees": "input_angle_mean",
    "seconds": "seconds",
    "memory in MB": "megabytes",
}
COLOURS = (BLUE, ORANGE, GREEN, RED, SKY, INK)
LARGEST_ERROR, ERROR_COLOURS = 0.005, "YlOrRd"  # of the coloured pictures
SMALLEST = 1e-9  # distances below it are drawn there: as good as zero


def plot_study(rows: Sequence[Row], path: object) -> Path:
    """One panel per measure, one line per method, a dot per shape; the best methods of the first panel on top."""
    shapes, methods = list(dict.fromkeys(r["shape"] for r in rows)), list(dict.fromkeys(r["method"] for r in rows))
    methods.sort(key=lambda m: -mean_of([r for r in rows if r["method"] == m], "chamfer"))  # the last is drawn on top

    def paint(figure: Any) -> None:
        panels = figure.subplots(2, 3, sharey=True).ravel()
        for panel, (title, name) in zip(panels, PANELS.items(), strict=True):
            for place, method in enumerate(methods):
                own = [r for r in rows if r["method"] == method]
                values = [(r["shape"], max(v, SMALLEST)) for r in own if (v := r[name]) is not None and v == v]
                if not values:
                    continue
                numbers = [v for _, v in values]
                panel.plot([min(numbers), max(numbers)], [place] * 2, color="#C8C8C8", linewidth=2, zorder=2)
                for shape, value in values:
                    colour = COLOURS[shapes.index(shape) % len(COLOURS)]
                    panel.plot(value, place, "o", color=colour, markersize=6, markeredgecolor="white", zorder=3)
            panel.set(xscale="log", title=title)
            panel.grid(True, axis="x")
            panel.grid(True, axis="y", color="#F0F0F0", linewidth=0.7)
            panel.set_yticks(range(len(methods)), methods)
            panel.tick_params(axis="y", length=0)
            panel.spines["left"].set_visible(False)
            _thin_ticks(panel)
        for label in [text for panel in panels for text in panel.get_yticklabels()]:
            if label.get_text().startswith("cnf"):
                label.set(fontweight="bold", color=INK)
        from matplotlib.lines import Line2D

        marks = [
            Line2D([], [], marker="o", linestyle="none", color=COLOURS[k % len(COLOURS)], label=shape)
            for k, shape in enumerate(shapes)
        ]
        figure.legend(handles=marks, loc="outside lower center", ncols=len(marks))

    return draw(path, (12.5, 2.2 + 0.42 * len(methods)), paint)


def _thin_ticks(panel: Any) -> None:
    """Labels at 1, 2, 5 (or at powers of ten over many decades), written as plain numbers where they are short."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = panel.get_xlim()
    decades = math.log10(high / low)
    if decades < 3:
        panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0) if decades > 1.2 else (1.0, 2.0, 5.0)))
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.xaxis.set_minor_formatter(NullFormatter())


def draw_shape(
    shape: str,
    truth: Mesh,
    meshes: Sequence[tuple[Row, Mesh]],
    path: object,
    *,
    errors: bool = False,
    columns: int = 5,
    size: int = 420,
) -> Path:
    """The true mesh and what every method made of it, shaded alike; with `errors` coloured by the distance between."""
    from cnf.meshes.distances import ClosestPoints
    from cnf.shapes.report.shaded import shade_mesh

    look = SHAPES.get(shape, Shape(""))
    distance = ClosestPoints(truth)
    titles = [f"{shape}\nthe true mesh"]
    pictures = [shade_mesh(truth, "three-quarter", up=look.up, turn=look.turn, size=size)]
    for row, mesh in meshes:
        titles.append(f"{row['method']}\nChamfer {1e4 * row['chamfer']:.2f}e-4")
        colours = _colour_errors(distance.find(mesh.vertices).distances) if errors else None
        pictures.append(shade_mesh(mesh, "three-quarter", colours, up=look.up, turn=look.turn, size=size))
    columns = min(columns, len(pictures))
    lines = math.ceil(len(pictures) / columns)

    def paint(figure: Any) -> None:
        panels = figure.subplots(lines, columns, squeeze=False).ravel()
        for panel in panels:
            panel.axis("off")
        for panel, picture, title in zip(panels, pictures, titles, strict=False):
            panel.imshow(picture)
            panel.set_title(title, fontsize=9, fontweight="bold" if title.startswith("cnf") else "normal")
        if errors:
            from matplotlib.cm import ScalarMappable
            from matplotlib.colors import Normalize

            scale = ScalarMappable(Normalize(0, LARGEST_ERROR), ERROR_COLOURS)
            bar = figure.colorbar(scale, ax=panels.tolist(), shrink=0.5, aspect=30, pad=0.01, extend="max")
            bar.set_label("distance of the vertices from the true mesh")
            bar.outline.set_visible(False)

    return draw(path, (2.6 * columns + (0.9 if errors else 0), 3.0 * lines), paint)


def _colour_errors(distances: np.ndarray) -> np.ndarray:
    """Colours (V, 3) from pale for 0 to dark red for LARGEST_ERROR and more."""
    from matplotlib import colormaps

    return colormaps[ERROR_COLOURS](np.clip(distances / LARGEST_ERROR, 0, 1))[:, :3]
