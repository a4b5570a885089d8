"""Measured data in the pictures of a field: on its curve with what it misses below, or on a map, coloured by that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cnf.pde.report.map_panels import SIGNED, draw_map, plain
from cnf.pde.report.measured import Measured
from cnf.pde.report.planes import Plane
from cnf.reports.plots import INK, ORANGE

DATA = {"linestyle": "none", "marker": "o", "markersize": 5.5, "markeredgewidth": 0.9, "markeredgecolor": INK}
FACES = (ORANGE, "white", "#B5B5B5")
LEVELS = 8  # lines of the field under its misfit
MOST_LARGE = 200  # measurements; more are drawn smaller
MOST_STEMS = 60  # measurements; the lines of more run into each other


def draw_data(top: Any, below: Any, data: Sequence[Measured]) -> None:
    """Measurements at their own heights over the curve; field minus measurement in the panel below."""
    below.axhline(0.0, color=INK, linewidth=0.8)
    below.set_ylabel("misfit")
    below.grid(True)
    if not data:
        below.text(0.5, 0.6, "not measured", transform=below.transAxes, ha="center", va="bottom", color="#7A7A7A")
        below.set_yticks([])
        return
    for k, own in enumerate(data):
        style, at = DATA | {"markerfacecolor": FACES[k % len(FACES)]}, own.points[:, 0]
        top.plot(at, own.values, **style, label=label_of(own), zorder=5, clip_on=False)
        if len(at) <= MOST_STEMS:
            below.vlines(at, 0.0, own.misfit, color=INK, linewidth=0.9, zorder=3)
        below.plot(at, own.misfit, **style | {"markersize": 4}, zorder=4, clip_on=False)
    reach = reach_of(data)
    below.set_ylim(-1.15 * reach, 1.15 * reach)
    below.locator_params(axis="y", nbins=4)
    below.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)


def draw_values(panel: Any, data: Sequence[Measured], scale: dict[str, Any]) -> None:
    """Measurements on the map of their channel, in the colours of its scale: what is fitted well blends in."""
    colours = {"cmap": scale["cmap"], "norm": scale["norm"]}
    for own in data:
        _scatter(panel, own, own.values, colours)
        panel.plot([], [], **DATA | {"markerfacecolor": "none", "markersize": 4}, label=label_of(own))


def draw_misfit(panel: Any, plane: Plane, data: Sequence[Measured], ratio: float) -> Any:
    """Points coloured by field minus measurement, over lines of the field; what the colour bar is of."""
    from matplotlib.colors import Normalize

    values, (x0, x1, y0, y1) = plane.values[data[0].channel], plane.extent
    faint = {"cmap": "Greys", "norm": Normalize(0.0, 1.0), "interpolation": "nearest"}
    draw_map(panel, plane, np.full_like(values, 0.06), faint, ratio)
    if np.ptp(values[plane.inside]) > 0:
        steps = (np.arange(len(values)) + 0.5) / len(values)
        at, up = x0 + (x1 - x0) * steps, y0 + (y1 - y0) * steps
        panel.contour(at, up, values, levels=LEVELS, colors="#B5B5B5", linewidths=0.8, linestyles="solid", zorder=1.5)
    reach = reach_of(data)
    colours = {"cmap": SIGNED, "norm": Normalize(-reach, reach)}
    return [_scatter(panel, own, own.misfit, colours) for own in data][-1]


def _scatter(panel: Any, own: Measured, shown: np.ndarray, colours: dict[str, Any]) -> Any:
    size = 46 if len(shown) <= MOST_LARGE else 14
    halo = {"c": "white", "linewidths": 0, "zorder": 5.5, "clip_on": False}  # dark edges are lost on dark maps
    panel.scatter(*own.points[:, :2].T, s=1.7 * size, **halo)
    edge = {"edgecolors": INK, "linewidths": 0.7, "zorder": 6, "clip_on": False}
    return panel.scatter(*own.points[:, :2].T, c=shown, s=size, **colours, **edge)


def reach_of(data: Sequence[Measured]) -> float:
    """The largest misfit; one if all is met."""
    return max(float(np.abs(own.misfit).max()) for own in data) or 1.0


def label_of(own: Measured) -> str:
    return f"data: {plain(own.name)} ({len(own.misfit)})"
