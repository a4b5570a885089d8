"""Plots: pictures of results, written as PNG whole or not at all. Needs the extra `viz` (matplotlib)."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cnf.errors import MissingExtraError
from cnf.files import write_atomically

# Okabe and Ito's colours: distinct for every kind of colour vision.
BLUE, ORANGE, GREEN, RED, SKY, GREY, INK = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#7A7A7A", "#222222"
ROUNDED = 1e-6  # inches
STYLE: Any = {
    "figure.dpi": 100,
    "savefig.dpi": 130,
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlepad": 8,
    "axes.labelsize": 10,
    "axes.edgecolor": "#444444",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 2.0,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.axisbelow": True,
    "grid.color": "#E2E2E2",
    "grid.linewidth": 0.7,
}


def check_pictures() -> None:
    """Raise `MissingExtraError` if pictures cannot be drawn; worth asking before a long run."""
    if find_spec("matplotlib") is None:  # importing it takes most of a second
        raise MissingExtraError.of("pictures need matplotlib", "matplotlib", "viz")


def draw(path: object, size: tuple[float, float], paint: Callable[[Any], None], layout: Any = "constrained") -> Path:
    """Let `paint` fill a figure of `size` inches and save it."""
    check_pictures()
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=size, layout=layout)  # no pyplot: nothing global, no windows
        FigureCanvasAgg(figure)
        paint(figure)
        figure.draw_without_rendering()  # the layout is worked out now
        page, drawn = figure.bbox_inches, figure.get_tightbbox()
        room = (drawn.x0 - page.x0, drawn.y0 - page.y0, page.x1 - drawn.x1, page.y1 - drawn.y1)
        whole = page.union([page, drawn.padded(0.05)]) if min(room) < -ROUNDED else page  # labels are not cut off
        return write_atomically(
            path, lambda file: figure.savefig(file, format="png", facecolor="white", bbox_inches=whole)
        )
