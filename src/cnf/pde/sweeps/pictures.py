"""Pictures of a sweep: some of its fields side by side on one scale, all of them one after the other, and its numbers.

Needs the extra `viz` (matplotlib).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from cnf.pde.report.animation import MOST_CHANNELS, Paint, write_frames
from cnf.pde.report.map_panels import add_bar, draw_map, find_scale, find_shape, math_name
from cnf.pde.report.planes import Plane
from cnf.pde.sweeps.frames import Curve, Frame, choose_evenly, name_axis
from cnf.pde.sweeps.sweep import Row, Sweep
from cnf.reports.plots import BLUE, GREY, RED, draw

ACROSS = 5  # maps of a row
MOST_FRAMES = 60
LASTS, QUICKEST, SLOWEST = 5000, 70, 350  # milliseconds of an animation, and of its frames
COLOURS = "viridis"
SHORT = 12  # characters of a label that need not be turned
WIDE_RANGE = 50.0  # largest value over the smallest, from which on an axis is logarithmic


def plot_strip(sweep: Sweep, frames: Sequence[Frame], path: object) -> Path:
    """Curves of all cases in one panel, coloured by the value; or maps of some of them, on one scale."""
    return _plot_curves(sweep, frames, path) if isinstance(frames[0].shown, Curve) else _plot_maps(sweep, frames, path)


def _plot_maps(sweep: Sweep, frames: Sequence[Frame], path: object) -> Path:
    channels = sweep.problem.space.channels[:MOST_CHANNELS]
    lines = 2 if len(channels) == 1 and len(frames) > ACROSS else 1
    picked = [frames[k] for k in choose_evenly(len(frames), ACROSS * lines)]
    across = -(-len(picked) // lines)
    width, height = find_shape(_union(picked), _shows_time(sweep), 1.75)
    rows = lines * len(channels)

    def paint(figure: Any) -> None:
        panels = figure.subplots(rows, across, squeeze=False)
        for k, channel in enumerate(channels):
            scale, last = _scale(frames, k), None
            for n, frame in enumerate(picked):
                row, column = (n // across, n % across) if len(channels) == 1 else (k, n)
                panel, plane = panels[row, column], _plane(frame)
                image = draw_map(panel, plane, plane.values[k], scale, width / height)
                _fit(panel, _union(picked))
                panel.locator_params(nbins=3)
                if k == 0:
                    panel.set_title(frame.words.replace(", ", "\n"), fontsize=9, pad=4)
                if row < rows - 1:
                    panel.set_xticklabels([])
                else:
                    panel.set_xlabel(math_name(sweep.problem.space.coordinates[0]))
                if column:
                    panel.set_yticklabels([])
                else:
                    panel.set_ylabel(math_name(sweep.problem.space.coordinates[1]))
                if column == across - 1 or n == len(picked) - 1:
                    last = (image, panel)
                    if len(channels) > 1 or row == 0:
                        add_bar(figure, image, panel, math_name(channel), False)
            assert last is not None
        for panel in panels.flat[len(picked) :] if len(channels) == 1 else ():
            panel.set_visible(False)

    return draw(path, (across * (width + 0.15) + 1.5, rows * (height + 0.15 + 0.15 * len(sweep.axes)) + 0.4), paint)


def _plot_curves(sweep: Sweep, frames: Sequence[Frame], path: object) -> Path:
    channels = sweep.problem.space.channels[:MOST_CHANNELS]

    def paint(figure: Any) -> None:
        panels = figure.subplots(1, len(channels), squeeze=False)[0]
        colours = _colours(sweep, frames)
        for k, (panel, channel) in enumerate(zip(panels, channels, strict=True)):
            for frame, colour in zip(frames, colours, strict=True):
                curve = cast(Curve, frame.shown)
                label = frame.words if len(sweep.axes) > 1 and k == 0 and len(frames) <= 8 else None
                panel.plot(curve.at, curve.values[k], color=colour, linewidth=1.4, label=label)
            panel.set_xlabel(math_name(sweep.problem.space.coordinates[0]))
            panel.set_ylabel(math_name(channel))
            panel.margins(x=0.0)
            panel.grid(True)
        if len(sweep.axes) == 1:
            _value_bar(figure, panels[-1], sweep, 0)
        elif len(frames) <= 8:
            figure.legend(loc="outside lower center", ncols=2)

    return draw(path, (6.6 if len(channels) == 1 else 3.9 * len(channels), 3.9), paint)


# ---- one after the other


def write_sweep_animation(sweep: Sweep, frames: Sequence[Frame], path: object) -> Path:
    """A GIF through the cases, in their order, on one scale."""
    picked = [frames[k] for k in choose_evenly(len(frames), MOST_FRAMES)]
    prepare = _moving_curves if isinstance(frames[0].shown, Curve) else _changing_maps
    size, paint = prepare(sweep, picked)
    pause = min(max(LASTS // len(picked), QUICKEST), SLOWEST)
    return write_frames(path, size, paint, len(picked), pause)


def _moving_curves(sweep: Sweep, frames: Sequence[Frame]) -> tuple[tuple[float, float], Paint]:
    """The curve of a case; those before it stay, in grey."""
    channels = sweep.problem.space.channels[:MOST_CHANNELS]
    curves = [cast(Curve, frame.shown) for frame in frames]

    def paint(figure: Any) -> Any:
        panels = figure.subplots(1, len(channels), squeeze=False)[0]
        lines = []
        for k, (panel, channel) in enumerate(zip(panels, channels, strict=True)):
            before = [panel.plot(c.at, c.values[k], color=GREY, alpha=0.0, linewidth=0.8)[0] for c in curves]
            lines.append((before, panel.plot(curves[0].at, curves[0].values[k], color=BLUE, linewidth=2.2)[0]))
            panel.set_xlabel(math_name(sweep.problem.space.coordinates[0]))
            panel.set_ylabel(math_name(channel))
            panel.margins(x=0.0)
            panel.grid(True)
        title = panels[0].set_title(frames[0].words, loc="left")

        def advance(step: int) -> None:
            title.set_text(frames[step].words)
            for k, (before, line) in enumerate(lines):
                line.set_data(curves[step].at, curves[step].values[k])
                for n, old in enumerate(before):
                    old.set_alpha(0.35 if n < step else 0.0)

        return advance

    return (5.6 if len(channels) == 1 else 3.6 * len(channels), 3.6), paint


def _changing_maps(sweep: Sweep, frames: Sequence[Frame]) -> tuple[tuple[float, float], Paint]:
    space = sweep.problem.space
    channels, whole = space.channels[:MOST_CHANNELS], _union(frames)
    width, height = find_shape(whole, _shows_time(sweep))
    scales = [_scale(frames, k) for k in range(len(channels))]

    def paint(figure: Any) -> Any:
        panels = figure.subplots(1, len(channels), squeeze=False)[0]
        for k, panel in enumerate(panels):
            image = draw_map(panel, _plane(frames[0]), _plane(frames[0]).values[k], scales[k], width / height)
            _fit(panel, whole)
            panel.set_xlabel(math_name(space.coordinates[0]))
            panel.set_ylabel(math_name(space.coordinates[1]))
            add_bar(figure, image, panel, math_name(channels[k]), False)
        title = panels[0].set_title(frames[0].words, loc="left")
        words = [f"{math_name(space.coordinates[axis])} = {value:.3g}" for axis, value in whole.fixed.items()]
        panels[-1].set_title(", ".join(words), loc="right", color=GREY)

        def advance(step: int) -> None:
            title.set_text(frames[step].words)
            for k, panel in enumerate(panels):
                for old in [*panel.images, *panel.collections, *panel.texts]:
                    old.remove()
                draw_map(panel, _plane(frames[step]), _plane(frames[step]).values[k], scales[k], width / height)
                _fit(panel, whole)

        return advance

    return (len(channels) * (width + 1.5), height + 0.8), paint


# ---- numbers


def plot_numbers(sweep: Sweep, path: object) -> Path:
    """What was found over the values of the last axis, a line for each value of others: errors, ranges, unknowns."""
    axis, others = sweep.axes[-1], sweep.axes[:-1]
    count = len(axis.values)
    groups = [sweep.rows[k : k + count] for k in range(0, len(sweep.rows), count)]
    channels = sweep.problem.space.channels[:MOST_CHANNELS]
    unknowns = sorted({n for row in sweep.rows if row.found is not None for n in row.found["unknowns"] or {}})[:3]
    names = [*(("range", c) for c in channels), *(("unknown", u) for u in unknowns)]

    def paint(figure: Any) -> None:
        panels = figure.subplots(1, 1 + len(names), squeeze=False)[0]
        colours = [BLUE] if not others else _spread(len(groups))
        if len(others) == 1:
            colours = _by_value(sweep, [group[0] for group in groups])
        for group, colour in zip(groups, colours, strict=True):
            there = [row for row in group if row.holds]
            at = [row.values[axis.key] for row in there]
            found = [row.found or {} for row in there]
            estimates = [np.nan if f["estimate"] is None else max(f["estimate"], 1e-17) for f in found]
            panels[0].plot(at, estimates, "o-", color=colour, markersize=3.5, linewidth=1.6)
            for panel, (kind, name) in zip(panels[1:], names, strict=True):
                if kind == "unknown":
                    panel.plot(at, [(f["unknowns"] or {}).get(name, np.nan) for f in found], "o-", color=colour, ms=3.5)
                    continue
                ends = np.array([f["ranges"][name] or (np.nan, np.nan) for f in found], dtype=float).reshape(-1, 2)
                panel.plot(at, ends, color=colour, linewidth=1.6)
                panel.fill_between(at, *ends.T, color=colour, alpha=0.16 if not others else 0.05, linewidth=0)
        panels[0].axhline(sweep.problem.solving.target or 1e-3, color=GREY, linewidth=1.0, linestyle="--")
        panels[0].set_yscale("log")
        titles = [
            "estimate of the error",
            *(f"{math_name(name)}{'' if k == 'unknown' else ': range'}" for k, name in names),
        ]
        for panel, title in zip(panels, titles, strict=True):
            _mark_failures(panel, sweep, axis.key)
            panel.set_title(title, loc="left")
            panel.set_xlabel(name_axis(axis.key))
            if _is_wide(axis.values):
                panel.set_xscale("log")
            panel.grid(True)
        if len(others) == 1:
            _value_bar(figure, panels[-1], sweep, 0)

    return draw(path, (3.9 * (1 + len(names)) + (0.7 if len(others) == 1 else 0), 3.3), paint)


def _mark_failures(panel: Any, sweep: Sweep, key: str) -> None:
    """A cross on the axis where no field meets the conditions."""
    at = [row.values[key] for row in sweep.rows if not row.holds]
    if at:
        panel.plot(at, [0.0] * len(at), "x", color=RED, transform=panel.get_xaxis_transform(), clip_on=False, ms=6)


# ---- scales


def _scale(frames: Sequence[Frame], channel: int) -> dict[str, Any]:
    planes = [_plane(frame) for frame in frames]
    return find_scale([p.values[channel] for p in planes], [p.inside for p in planes], False)


def _plane(frame: Frame) -> Plane:
    assert isinstance(frame.shown, Plane)
    return frame.shown


def _union(frames: Sequence[Frame]) -> Plane:
    """A plane that is as large as all of them: the domain may be what is swept."""
    extents = np.array([_plane(frame).extent for frame in frames])
    (left, bottom), (right, top) = extents[:, [0, 2]].min(axis=0), extents[:, [1, 3]].max(axis=0)
    return replace(_plane(frames[0]), extent=(float(left), float(right), float(bottom), float(top)))


def _fit(panel: Any, whole: Plane) -> None:
    room = 0.0 if whole.mask is None else 0.015
    x0, x1, y0, y1 = whole.extent
    panel.set_xlim(x0 - room * (x1 - x0), x1 + room * (x1 - x0))
    panel.set_ylim(y0 - room * (y1 - y0), y1 + room * (y1 - y0))


def _shows_time(sweep: Sweep) -> bool:
    """Whether the second axis of the maps is time."""
    space = sweep.problem.space
    return len(space.coordinates) == 2 and space.coordinates[1] in space.frame.time


def _is_wide(values: Sequence[float]) -> bool:
    return min(values) > 0 and max(values) / min(values) >= WIDE_RANGE


def _norm(sweep: Sweep, axis: int) -> Any:
    from matplotlib.colors import LogNorm, Normalize

    values = sweep.axes[axis].values
    low, high = min(values), max(values)
    return LogNorm(low, high) if _is_wide(values) else Normalize(low, high if high > low else low + 1)


def _colours(sweep: Sweep, frames: Sequence[Frame]) -> list[Any]:
    """One colour for each curve: by its value, or by its place if several are swept."""
    if len(sweep.axes) > 1:
        return _spread(len(frames))
    return _by_value(sweep, [frame.row for frame in frames])


def _by_value(sweep: Sweep, rows: Sequence[Row]) -> list[Any]:
    """Colours by the value of the first axis, as `_value_bar` has them."""
    import matplotlib

    norm, key = _norm(sweep, 0), sweep.axes[0].key
    return [matplotlib.colormaps[COLOURS](0.92 * norm(row.values[key])) for row in rows]


def _spread(count: int) -> list[Any]:
    import matplotlib

    return [matplotlib.colormaps[COLOURS](0.92 * k / max(count - 1, 1)) for k in range(count)]


def _value_bar(figure: Any, panel: Any, sweep: Sweep, axis: int) -> None:
    """A bar that says which colour is which value."""
    import matplotlib
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap

    whole = matplotlib.colormaps[COLOURS]
    shades = ListedColormap([whole(0.92 * k / 255) for k in range(256)])
    bar = figure.colorbar(ScalarMappable(_norm(sweep, axis), shades), ax=panel, pad=0.02)
    label = name_axis(sweep.axes[axis].key)
    bar.set_label(label, rotation=0 if len(label) < SHORT else 90, labelpad=8)
    bar.outline.set_visible(False)


def pictures_of(sweep: Sweep, frames: Sequence[Frame], folder: Path) -> list[Path]:
    """strip.png, animation.gif, numbers.png, as far as there is something to show."""
    made = []
    if frames:
        made.append(plot_strip(sweep, frames, folder / "strip.png"))
    if len(frames) > 1:
        made.append(write_sweep_animation(sweep, frames, folder / "animation.gif"))
    if frames and any(len(axis.values) > 1 for axis in sweep.axes):
        made.append(plot_numbers(sweep, folder / "numbers.png"))
    return made
