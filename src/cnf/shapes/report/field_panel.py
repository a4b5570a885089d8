"""A panel with a planar distance field: contours, zero level set, points, normals asked for and found."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cnf.reports.plots import INK

YELLOW = "#FFD21F"
ARROW = 0.55  # length of a unit normal in pictures
LIMIT = 1.6  # of the colours: distances beyond look alike


def paint_field(
    panel: Any,
    grid: np.ndarray,
    points: np.ndarray,
    normals: np.ndarray,
    found: np.ndarray | None = None,
    box: tuple[float, float, float, float] = (-2.0, 2.0, -2.0, 2.0),
    limit: float = LIMIT,
    arrow: float = ARROW,
) -> Any:
    """The field as filled contours, red outside, blue inside, its zero level set, the points and both normals."""
    smooth = _refined(grid)
    x, y = np.linspace(*box[:2], smooth.shape[1]), np.linspace(*box[2:], smooth.shape[0])
    levels = np.linspace(-limit, limit, 33)
    image = panel.contourf(x, y, np.clip(smooth, -limit, limit), levels=levels, cmap="RdBu_r", extend="both")
    panel.contour(x, y, smooth, levels=levels[::4], colors="white", linewidths=0.5, linestyles="solid", alpha=0.7)
    if smooth.min() < 0 < smooth.max():
        panel.contour(x, y, smooth, levels=[0.0], colors="black", linewidths=1.8)
    style = {"angles": "xy", "scale_units": "xy", "scale": 1 / arrow, "units": "inches"}
    shape = {"headwidth": 3.6, "headlength": 4.2, "headaxislength": 3.8}
    panel.quiver(*points.T, *normals.T, color="black", width=0.034, zorder=4, **style, **shape)
    if found is not None:
        panel.quiver(*points.T, *found.T, color="#E8112D", width=0.0145, zorder=5, **style, **shape)
    size = 26 if len(points) <= 60 else max(2.0, 1500 / len(points))
    panel.scatter(*points.T, s=size, color=YELLOW, edgecolors=INK, linewidths=0.8, zorder=6)
    panel.set_aspect("equal")
    panel.set_xlim(*box[:2])
    panel.set_ylim(*box[2:])
    panel.set_xticks([])
    panel.set_yticks([])
    panel.spines[:].set_visible(False)
    return image


def _refined(grid: np.ndarray, finest: int = 401) -> np.ndarray:
    """A coarse grid interpolated by cubic splines, so that level sets of smooth fields look smooth."""
    from scipy.ndimage import zoom

    factor = max(1, math.ceil(finest / max(grid.shape)))
    if factor == 1:
        return grid
    wanted = [(n - 1) * factor + 1 for n in grid.shape]
    return zoom(grid, [w / n for w, n in zip(wanted, grid.shape, strict=True)], order=3, grid_mode=False)
