"""Animation: the solution of a time problem as a GIF, a moving curve or a changing map. Needs the extra `viz`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from cnf.files import write_atomically
from cnf.pde.report.map_panels import add_bar, draw_map, find_scale, find_shape, math_name
from cnf.pde.report.planes import Plane, evaluate, evaluate_exact, sample_plane
from cnf.reports.plots import BLUE, GREY, INK, STYLE, check_pictures

if TYPE_CHECKING:
    from cnf.pde.problems.answer import Answer

FRAMES = 41
MILLISECONDS = 90
HOLD = 1200  # the last frame stays
MOST_CHANNELS = 3
Paint = Callable[[Any], Callable[[int], None]]


def write_animation(answer: Answer, path: object, frames: int = FRAMES) -> Path:
    """A GIF of the channels from the first time to the last; for three space coordinates a plane through the middle."""
    domain = answer.problem.domain
    times = np.linspace(domain.lower[-1], domain.upper[-1], frames)
    prepare = _prepare_curves if len(domain.lower) == 2 else _prepare_maps
    return write_frames(path, *prepare(answer, times), frames)


def write_frames(
    path: object, size: tuple[float, float], paint: Paint, frames: int, milliseconds: int = MILLISECONDS
) -> Path:
    """A GIF of what `paint` draws into a figure of `size` inches; what it returns advances that to a frame."""
    check_pictures()
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    with matplotlib.rc_context({**STYLE, "savefig.dpi": "figure"}):
        figure = Figure(figsize=size, dpi=100, layout="constrained")
        canvas = FigureCanvasAgg(figure)
        advance = paint(figure)
        pictures = []
        for k in range(frames):
            advance(k)
            canvas.draw()
            if k == 0:
                figure.set_layout_engine("none")  # the panels stay where they are
            pictures.append(Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy()))
    palette = _shared_palette(pictures)
    coded = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    durations = [milliseconds] * (frames - 1) + [HOLD]

    def save(file: Path) -> None:
        coded[0].save(
            file, format="GIF", save_all=True, append_images=coded[1:], duration=durations, loop=0, optimize=False
        )

    return write_atomically(path, save)


def _shared_palette(pictures: list[Any]) -> Any:
    """One palette for all frames, so that colours do not flicker; nearly white is made white."""
    from PIL import Image

    chosen = [pictures[k] for k in sorted({0, len(pictures) // 3, 2 * len(pictures) // 3, len(pictures) - 1})]
    width, height = chosen[0].size
    together = Image.new("RGB", (width, height * len(chosen)))
    for k, picture in enumerate(chosen):
        together.paste(picture, (0, k * height))
    coded = together.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    colours = np.array(coded.getpalette()).reshape(-1, 3)
    colours[(colours >= 247).all(axis=1)] = 255
    coded.putpalette(colours.reshape(-1).tolist())
    return coded


def _prepare_curves(answer: Answer, times: np.ndarray) -> tuple[tuple[float, float], Paint]:
    """One space coordinate: curves, the exact ones dashed."""
    space, domain = answer.problem.space, answer.problem.domain
    shown = min(len(space.channels), MOST_CHANNELS)
    x = torch.linspace(domain.lower[0], domain.upper[0], 401, dtype=torch.float64)
    found, exact = [], []
    for time in times:
        points = torch.stack([x, torch.full_like(x, float(time))], dim=1)
        outside = ~domain.contains(points, margin=-1e-9).cpu().numpy()
        values, known = evaluate(answer, points), evaluate_exact(answer, points)
        values[:, outside] = np.nan
        found.append(values)
        if known is not None:
            known[:, outside] = np.nan
            exact.append(known)

    def paint(figure: Any) -> Callable[[int], None]:
        panels = figure.subplots(1, shown, squeeze=False)[0]
        lines, dashes = [], []
        for k, panel in enumerate(panels):
            (line,) = panel.plot(x, found[0][k], color=BLUE, linewidth=2.2, label="solution")
            lines.append(line)
            if exact:
                (dash,) = panel.plot(x, exact[0][k], color=INK, linewidth=1.2, linestyle=(0, (4, 3)), label="exact")
                dashes.append(dash)
            low, high = (float(f(np.stack(found)[:, k])) for f in (np.nanmin, np.nanmax))
            room = 0.08 * (high - low) or 0.5 * abs(high) or 1.0
            panel.set_ylim(low - room, high + room)
            panel.set_xlim(float(x[0]), float(x[-1]))
            panel.set_xlabel(math_name(space.coordinates[0]))
            panel.set_ylabel(math_name(space.channels[k]))
            panel.grid(True)
        if exact:
            handles, labels = panels[0].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside lower center", ncols=2)
        title = panels[0].set_title(_clock(space.coordinates[-1], times, 0), loc="left")

        def advance(step: int) -> None:
            title.set_text(_clock(space.coordinates[-1], times, step))
            for k, line in enumerate(lines):
                line.set_ydata(found[step][k])
            for k, dash in enumerate(dashes):
                dash.set_ydata(exact[step][k])

        return advance

    return (5.6 if shown == 1 else 3.6 * shown, 3.6), paint


def _prepare_maps(answer: Answer, times: np.ndarray) -> tuple[tuple[float, float], Paint]:
    """Two space coordinates, or a plane through the middle of more: maps with one colour scale for all times."""
    space, domain = answer.problem.space, answer.problem.domain
    shown = min(len(space.channels), MOST_CHANNELS)
    last = len(domain.lower) - 1
    middle = {k: (domain.lower[k] + domain.upper[k]) / 2 for k in range(2, last)}
    planes: list[Plane] = [
        sample_plane(answer, (0, 1), {**middle, last: float(time)}, 71, with_residual=False) for time in times
    ]
    width, height = find_shape(planes[0], False)

    def paint(figure: Any) -> Callable[[int], None]:
        panels = figure.subplots(1, shown, squeeze=False)[0]
        images = []
        for k, panel in enumerate(panels):
            scale = find_scale([p.values[k] for p in planes], [p.inside for p in planes], False)
            images.append(draw_map(panel, planes[0], planes[0].values[k], scale, width / height))
            panel.set_xlabel(math_name(space.coordinates[0]))
            panel.set_ylabel(math_name(space.coordinates[1]))
            add_bar(figure, images[-1], panel, math_name(space.channels[k]), False)
        title = panels[0].set_title(_clock(space.coordinates[-1], times, 0), loc="left")
        for axis, value in middle.items():
            panels[-1].set_title(f"{math_name(space.coordinates[axis])} = {value:.3g}", loc="right", color=GREY)

        def advance(step: int) -> None:
            title.set_text(_clock(space.coordinates[-1], times, step))
            for k, image in enumerate(images):
                image.set_data(planes[step].values[k])

        return advance

    return (shown * (width + 1.5), height + 0.8), paint


def _clock(name: str, times: np.ndarray, step: int) -> str:
    """The time with as many decimals as its steps need, so that the title does not jump."""
    span = float(times[-1] - times[0])
    decimals = max(0, 2 - int(np.floor(np.log10(span)))) if span > 0 else 2
    return f"{math_name(name)} = {times[step]:.{min(decimals, 8)}f}"
