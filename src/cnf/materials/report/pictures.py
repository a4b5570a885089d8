"""Pictures of materials: exact pixels as PNG, and the figure that compares methods with a reference.

In: tone-mapped pictures (H, W, 3) in [0, 1] and their errors. Out: PNG files. The figure has a row per material: the
reference, then each method, each with an inset of the highlight; below them the same highlight enlarged (reference) and
maps of the absolute difference (methods), all on one colour scale.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from cnf.errors import ConstraintError, MissingExtraError
from cnf.files import write_atomically
from cnf.reports.plots import GREY, INK, draw

if TYPE_CHECKING:
    from cnf.materials.rendering.metrics import ImageErrors

Row = tuple[str, Sequence["Panel"]]
DOTS = 200  # per inch
CLOSEUP = 0.22  # of the picture's shorter side
INSET = 0.37  # of the cell
OBJECT = (
    0.46  # close-ups mostly stay within this radius (of the shorter side) around the middle: off the object's outline
)
NEARLY = 0.8  # as bright as the outline, and a highlight on the object is shown instead
CLIPPED = 0.3  # weight of a wide blur, which tells where the middle of a patch is that is white all over
FRAME = "white"
ERROR_COLOURS = "inferno"
LEAST_SCALE = 0.01  # of the error maps: below it there is nothing to see in a picture of 8 bits
GAP, LABEL, HEAD, TEXT, BETWEEN, BAR = 0.05, 0.32, 0.30, 0.20, 0.12, 0.85  # inches


@dataclass(frozen=True)
class Panel:
    """One picture of a comparison: (H, W, 3), tone-mapped; `errors` is None for the reference."""

    title: str
    image: Tensor
    errors: ImageErrors | None = None


def check_image(image: object, what: str = "a picture") -> np.ndarray:
    """(H, W, 3) float64 in [0, 1] of a tensor that is just that; anything else is refused."""
    if not isinstance(image, Tensor) or image.ndim != 3 or image.shape[2] != 3 or 0 in image.shape:
        shape = tuple(image.shape) if isinstance(image, Tensor) else type(image).__name__
        raise ConstraintError(f"{what} must be a tensor of shape (H, W, 3), got {shape}")
    pixels = image.detach().to("cpu", torch.float64).numpy()
    if not np.isfinite(pixels).all() or pixels.min() < 0 or pixels.max() > 1:
        raise ConstraintError(f"{what} must be tone-mapped, finite and in [0, 1]; see tone_map")
    return pixels


def save_picture(image: Tensor, path: object) -> Path:
    """Write display values (H, W, 3) in [0, 1] as 8-bit sRGB PNG, pixel by pixel."""
    pixels = np.rint(check_image(image) * 255).astype(np.uint8)
    try:
        from PIL import Image, PngImagePlugin
    except ImportError:
        raise MissingExtraError.of("pictures need Pillow", "pillow", "viz") from None
    marks = PngImagePlugin.PngInfo()
    marks.add(b"sRGB", b"\0")  # viewers need not guess
    return write_atomically(path, lambda file: Image.fromarray(pixels).save(file, format="PNG", pnginfo=marks))


def find_highlight(reference: np.ndarray) -> tuple[int, int, int]:
    """Top, left and side of the square around the brightest place of a picture (H, W, 3), or around its middle.

    The whole square lies on the object, unless what is brightest lies on its outline.
    """
    from scipy.ndimage import gaussian_filter

    height, width = reference.shape[:2]
    shorter = min(height, width)
    side = max(1, round(CLOSEUP * shorter))
    bright = reference @ np.array([0.2126, 0.7152, 0.0722])
    score = gaussian_filter(bright, side / 8, mode="nearest")  # no single pixel, and the middle of a clipped patch
    score = score + CLIPPED * gaussian_filter(bright, side / 2, mode="nearest")
    row, column = (np.abs(np.arange(n) - (n - 1) / 2) for n in (height, width))
    inside = np.hypot(row[:, None] + side / 2, column[None, :] + side / 2) <= OBJECT * shorter
    best = np.unravel_index(np.argmax(score), score.shape)
    if inside.any():
        on_object = np.unravel_index(np.argmax(np.where(inside, score, -1)), score.shape)
        best = on_object if score[on_object] >= NEARLY * score[best] else best
    if score.max() - score.min() <= 1e-9:  # nothing to see anywhere
        best = (np.intp(height // 2), np.intp(width // 2))
    top, left = (int(np.clip(b - side // 2, 0, n - side)) for b, n in zip(best, (height, width), strict=True))
    return top, left, side


def draw_comparison(rows: Sequence[Row], path: object, closeup: bool = True) -> Path:
    """The figure: rows of (label, panels), the first panel of each the reference; the same columns in every row."""
    titles = _check_rows(rows)
    columns = len(titles)
    cell = min(2.2, max(1.35, 11.5 / columns))
    pictures = [[check_image(p.image, f"the picture {p.title!r} of {label}") for p in panels] for label, panels in rows]
    differences = [[np.abs(p - row[0]).mean(-1) for p in row[1:]] for row in pictures]
    scale = error_scale(differences)
    lower = columns > 1 or closeup  # is there anything to show below the pictures?
    row_height = [cell * _shape(row[0]) * (2 if lower else 1) + (TEXT if lower else 0) for row in pictures]
    width = LABEL + columns * (cell + GAP) + (BAR if columns > 1 else 0.05)
    height = HEAD + sum(row_height) + BETWEEN * len(rows)

    def paint(figure: Any) -> None:
        from matplotlib import rcParams

        rcParams["savefig.dpi"] = DOTS  # `draw` restores the settings
        top = height - HEAD
        for number, (label, panels) in enumerate(rows):
            tall = cell * _shape(pictures[number][0])
            square = find_highlight(pictures[number][0])
            _write_label(figure, label, (LABEL * 0.55 / width, (top - row_height[number] / 2) / height), row_height)
            found = [p.errors.psnr for p in panels if p.errors is not None and math.isfinite(p.errors.psnr)]
            for column, panel in enumerate(panels):
                left = LABEL + column * (cell + GAP)
                axes = _place(figure, left, top - tall, cell, tall)
                _show_picture(axes, pictures[number][column], square if closeup else None)
                if number == 0:
                    axes.set_title(panel.title, fontsize=min(_fit(t, cell, 10) for t in titles), pad=4)
                if not lower:
                    continue
                below = _place(figure, left, top - 2 * tall - TEXT, cell, tall)
                if column:
                    image = differences[number][column - 1]
                    below.imshow(image, cmap=ERROR_COLOURS, vmin=0, vmax=scale, interpolation="bilinear")
                elif closeup:
                    _show_crop(below, pictures[number][0], square)
                else:
                    below.set_visible(False)
                middle = (left + cell / 2) / width, (top - tall - TEXT * 0.55) / height
                _write_errors(figure, panel, middle, cell, max(found, default=None))
            top -= row_height[number] + BETWEEN
        if columns > 1:
            _add_bar(figure, scale, (width, height))

    def _place(figure: Any, left: float, bottom: float, wide: float, tall: float) -> Any:
        axes = figure.add_axes((left / width, bottom / height, wide / width, tall / height))
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
        return axes

    return draw(path, (width, height), paint, layout=None)


def _check_rows(rows: Sequence[Row]) -> list[str]:
    """The titles of the columns, if every row has the same and equal shapes."""
    if not rows or not all(len(panels) for _, panels in rows):
        raise ConstraintError("a comparison needs at least one row, and every row at least the reference")
    titles = [panel.title for panel in rows[0][1]]
    for label, panels in rows:
        if [panel.title for panel in panels] != titles:
            found = [panel.title for panel in panels]
            raise ConstraintError(f"the row {label} has the pictures {found}; expected {titles} as in the first row")
        for panel in panels:
            check_image(panel.image, f"the picture {panel.title!r} of {label}")
            if panel.image.shape != panels[0].image.shape:
                given, expected = tuple(panel.image.shape), tuple(panels[0].image.shape)
                raise ConstraintError(f"the picture {panel.title!r} of {label} is {given}; its reference is {expected}")
    return titles


def error_scale(differences: Sequence[Sequence[np.ndarray]]) -> float:
    """A round number that most maps stay below: methods that fail altogether may go beyond the scale."""
    peaks = [float(np.quantile(image, 0.99)) for row in differences for image in row]
    if not peaks:
        return LEAST_SCALE
    wanted = max(1.5 * float(np.median(peaks)), LEAST_SCALE)
    power = 10.0 ** math.floor(math.log10(wanted))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= wanted * (1 - 1e-9))


def _shape(picture: np.ndarray) -> float:
    """Height over width."""
    return picture.shape[0] / picture.shape[1]


def _show_picture(axes: Any, picture: np.ndarray, square: tuple[int, int, int] | None) -> None:
    """The picture; with a `square`, its frame and its enlargement in the corner that is farthest from it."""
    axes.imshow(picture, interpolation="bicubic")
    if square is None:
        return
    top, left, side = square
    height, width = picture.shape[:2]
    _add_frame(axes, (left - 0.5, top - 0.5), side, axes.transData)
    wide, tall = INSET * min(1, _shape(picture)), INSET * min(1, 1 / _shape(picture))  # a square on the page
    right, upper = left + side / 2 < width / 2, top + side / 2 > height / 2
    inset = axes.inset_axes((0.985 - wide if right else 0.015, 0.985 - tall if upper else 0.015, wide, tall))
    _show_crop(inset, picture, square)


def _show_crop(axes: Any, picture: np.ndarray, square: tuple[int, int, int]) -> None:
    top, left, side = square
    axes.imshow(picture[top : top + side, left : left + side], interpolation="bicubic")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    _add_frame(axes, (0, 0), 1, axes.transAxes)


def _add_frame(axes: Any, corner: tuple[float, float], side: float, transform: Any) -> None:
    """A light square with a dark edge: one of them is seen on any material."""
    from matplotlib.patches import Rectangle

    for colour, width in (("#202020", 2.2), (FRAME, 1.0)):
        look: Any = {"fill": False, "edgecolor": colour, "linewidth": width, "clip_on": False}
        axes.add_patch(Rectangle(corner, side, side, transform=transform, joinstyle="miter", **look))


def _write_label(figure: Any, label: str, place: tuple[float, float], heights: Sequence[float]) -> None:
    """The material's name, upright beside its row; a long one in two lines."""
    size = _fit(label, min(heights), 9.5)
    if size < 7:
        label = textwrap.fill(label, max(len(label) // 2 + 4, 8), max_lines=2, placeholder=" ...")
        size = _fit(max(label.split("\n"), key=len), min(heights), 7)
    figure.text(*place, label, rotation=90, ha="center", va="center", ma="center", fontsize=size)


def _write_errors(figure: Any, panel: Panel, place: tuple[float, float], cell: float, best: float | None) -> None:
    """PSNR and SSIM between the picture and its error map, the row's best PSNR in bold; below the reference, which."""
    style = {"ha": "center", "va": "center", "fontsize": min(8.5, 6.2 * cell)}
    if panel.errors is not None:
        psnr, ssim = panel.errors.psnr, panel.errors.ssim
        text = f"{psnr:.1f} dB" if math.isfinite(psnr) else "failed"
        text += f"   {ssim:.3f}" if math.isfinite(ssim) else ""
        figure.text(*place, text, fontweight="bold" if psnr == best else "normal", color=INK, **style)
    elif best is not None:
        figure.text(*place, "PSNR   SSIM", color=GREY, **style)


def _fit(text: str, inches: float, largest: float) -> float:
    """A size at which the text fits: a character is about 0.6 of its size wide."""
    return min(largest, inches * 72 / (0.6 * max(len(text), 1)))


def _add_bar(figure: Any, scale: float, size: tuple[float, float]) -> None:
    """One colour bar for all maps, at the right."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    width, height = size
    tall = min(height - HEAD - BETWEEN, 3.2)
    left = width - BAR + 0.08
    axes = figure.add_axes((left / width, BETWEEN / height, 0.11 / width, tall / height))
    bar = figure.colorbar(ScalarMappable(Normalize(0, scale), ERROR_COLOURS), cax=axes, extend="max")
    bar.set_label("absolute difference", fontsize=8)
    bar.ax.tick_params(labelsize=7.5, length=2)
    bar.locator = _ticks()
    bar.update_ticks()
    bar.outline.set_visible(False)


def _ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(5)
