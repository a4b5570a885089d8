"""Panels of the pictures: maps cut out along the edge of the domain, their colour scales and bars, and names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cnf.operators.printing import GREEK
from cnf.pde.report.planes import Plane
from cnf.reports.plots import INK

SIGNED, SEQUENTIAL, ERRORS = "coolwarm", "viridis", "cividis"
LONGEST = 5  # sides of a map to each other; longer ones are squeezed
SMALLEST = 1e-17  # errors below are zero for a float64
MOST_DECADES = 8
FRAME = 4  # pixels around a mask
FEW = 0.999  # of the values decide on a scale of errors


def find_scale(arrays: Sequence[np.ndarray], inside: Sequence[np.ndarray], logarithmic: bool) -> dict[str, Any]:
    """Colour map and limits shared by several maps, as keywords of `imshow`; only pixels inside count."""
    from matplotlib.colors import LogNorm, Normalize

    seen = np.concatenate([a[i & np.isfinite(a)] for a, i in zip(arrays, inside, strict=True)])
    if logarithmic:
        return {"cmap": ERRORS, "norm": LogNorm(*find_decades([seen]), clip=True), "interpolation": "nearest"}
    low, high = (float(seen.min()), float(seen.max())) if seen.size else (0.0, 1.0)
    largest = max(abs(low), abs(high))
    cmap = SEQUENTIAL
    if low < 0 < high and min(-low, high) > 0.1 * largest:
        low, high, cmap = -largest, largest, SIGNED
    if high - low <= 1e-9 * max(largest, 1e-300):  # constant: rounding noise is not structure
        room = 0.5 * largest or 1.0
        low, high = low - room, high + room
    return {"cmap": cmap, "norm": Normalize(low, high), "interpolation": "bilinear"}


def find_decades(arrays: Sequence[np.ndarray]) -> tuple[float, float]:
    """Powers of ten between which nearly all positive values lie, at least two and at most eight decades."""
    seen = np.concatenate([a[np.isfinite(a) & (a > 0)] for a in arrays])
    if not seen.size:
        return SMALLEST, 100 * SMALLEST
    # Few pixels at a corner may be infinite or nearly so; they would leave the rest in one colour.
    high = math.ceil(math.log10(max(float(np.quantile(seen, FEW)), 100 * SMALLEST)) - 1e-9)
    low = math.floor(math.log10(max(float(np.quantile(seen, 0.05)), SMALLEST)))
    low = max(min(low, high - 2), high - MOST_DECADES)
    return 10.0**low, 10.0**high


def find_shape(plane: Plane, timed: bool, side: float = 3.3) -> tuple[float, float]:
    """Width and height in inches of the map of a plane: true to scale, unless that gives a strip or an axis is time."""
    across, up = plane.extent[1] - plane.extent[0], plane.extent[3] - plane.extent[2]
    ratio = 1.15 if timed else min(max(across / up, 1 / LONGEST), LONGEST)
    return (side * min(1.0, ratio) if ratio <= 1 else side * min(ratio, 1.4), side / max(1.0, ratio / 1.4))


def draw_map(panel: Any, plane: Plane, values: np.ndarray, scale: dict[str, Any], ratio: float) -> Any:
    """Values (n, n) as colours; what is outside the domain is covered with white and its edge drawn."""
    logarithmic = type(scale["norm"]).__name__ == "LogNorm"
    shown = np.where(np.isfinite(values), np.maximum(values, scale["norm"].vmin) if logarithmic else values, np.nan)
    image = panel.imshow(shown, extent=plane.extent, origin="lower", aspect="auto", zorder=1, **scale)
    if plane.mask is not None:
        cover_outside(panel, plane)
    panel.set_box_aspect(1 / ratio)
    x0, x1, y0, y1 = plane.extent
    room = 0.0 if plane.mask is None else 0.015  # the line along the edge is not cut in half
    panel.set_xlim(x0 - room * (x1 - x0), x1 + room * (x1 - x0))
    panel.set_ylim(y0 - room * (y1 - y0), y1 + room * (y1 - y0))
    panel.locator_params(nbins=5)
    panel.spines[:].set_visible(plane.mask is None)
    panel.tick_params(length=3, width=0.6)
    return image


def cover_outside(panel: Any, plane: Plane) -> None:
    """White over what is outside the domain, and a line along the edge, smoother than the pixels of the field."""
    assert plane.mask is not None
    cover = np.ones((*plane.mask.shape, 4))
    cover[..., 3] = plane.mask
    panel.imshow(cover, extent=plane.extent, origin="lower", aspect="auto", zorder=2, interpolation="antialiased")
    if plane.mask.all():
        panel.text(0.5, 0.5, "outside", transform=panel.transAxes, ha="center", va="center", color="#7A7A7A", zorder=3)
        return
    # A frame of outside pixels lets the line close where the domain touches the edge of the picture.
    draw_edge(panel, plane, np.pad(plane.mask.astype(float), FRAME, constant_values=1.0))


def draw_edge(panel: Any, plane: Plane, framed: np.ndarray) -> Any:
    """A smooth line between the zeros and ones of pixels (n + 2 FRAME, n + 2 FRAME); the contour."""
    from scipy.ndimage import gaussian_filter

    n = framed.shape[0] - 2 * FRAME
    x0, x1, y0, y1 = plane.extent
    steps = (np.arange(-FRAME, n + FRAME) + 0.5) / n
    along, up = x0 + (x1 - x0) * steps, y0 + (y1 - y0) * steps
    return panel.contour(along, up, gaussian_filter(framed, 1.2), levels=[0.5], colors=INK, linewidths=0.8, zorder=3)


def draw_region(panel: Any, plane: Plane, inside: np.ndarray) -> Any:
    """A line along the edge of a region, from its pixels (n, n) bool, as far as it runs inside the picture."""
    return draw_edge(panel, plane, np.pad(inside.astype(float), FRAME, mode="edge"))


def path_around(panel: Any, plane: Plane, inside: np.ndarray) -> Any:
    """The path around pixels (n, n) bool, to clip by."""
    closed = draw_edge(panel, plane, np.pad(inside.astype(float), FRAME))
    closed.set_visible(False)
    return closed.get_paths()[0]


def add_bar(figure: Any, image: Any, panel: Any, label: str, logarithmic: bool) -> None:
    """A colour bar exactly as high as the panel, on its right."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    width, height = panel.get_window_extent().size
    bar = figure.colorbar(image, cax=panel.inset_axes([1.05, 0.0, 0.05 * max(1.0, height / width), 1.0]))
    bar.set_label(label, rotation=0 if label.count("$") == 2 and len(label) < 12 else 90, labelpad=8)
    bar.locator = LogLocator(numticks=6) if logarithmic else MaxNLocator(5)
    if not logarithmic:
        bar.formatter.set_useMathText(True)
    bar.update_ticks()
    bar.ax.minorticks_off()
    bar.outline.set_visible(False)


def math_name(name: str) -> str:
    """The name of a coordinate or channel in the notation of mathematics: Greek letters, subscripts."""
    parts = [f"\\{p}" if p in GREEK else p if len(p) == 1 else f"\\mathrm{{{p}}}" for p in name.split("_")]
    return f"${parts[0]}$" if len(parts) == 1 else f"${parts[0]}_{{{parts[1]}}}$"


def plain(text: str, width: int = 34) -> str:
    """Text of the user as it stands, without the formulas that matplotlib would see between dollar signs."""
    flat = " ".join(text.split())
    return (flat if len(flat) <= width else flat[: width - 1] + "…").replace("$", r"\$")
