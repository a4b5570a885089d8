"""Pictures of an answer: the field with its conditions, its error or residual, and the trials of the tuning.

Signed fields get a diverging colour map with its grey at zero, others a sequential one; errors and residuals are on
logarithmic scales. What is outside the domain stays white. Needs the extra `viz` (matplotlib).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cnf.bases import Cover
from cnf.bases.piecewise import Piecewise
from cnf.pde.report.exports import is_timed
from cnf.pde.report.map_panels import (
    add_bar,
    draw_map,
    draw_region,
    find_decades,
    find_scale,
    find_shape,
    math_name,
    path_around,
    plain,
)
from cnf.pde.report.measured import list_measured
from cnf.pde.report.misfit_plots import draw_data, draw_misfit, draw_values
from cnf.pde.report.planes import MASK, Line, Plane, pixel_centres, sample_line, sample_plane
from cnf.pde.report.table import tied_conditions
from cnf.reports.plots import BLUE, GREEN, GREY, INK, ORANGE, RED, SKY, draw

if TYPE_CHECKING:
    from cnf.pde.problems.answer import Answer

COLOURS = (ORANGE, GREEN, RED, SKY, "#CC79A7", BLUE, "#F0E442")
FILLS = ("white", INK, "#B5B5B5")  # points inside
MARKS = ("s", "^", "D", "v", "P", "X")
FEW_ON_CURVE = 20  # points that hide nothing of a curve
SNAPSHOTS = 4
MOST_CHANNELS = 6  # drawn; a picture of more has no readable panels


def plot_field(answer: Answer, path: object) -> Path:
    """The picture that fits the problem: a curve, a map, snapshots in time, or three planes through the middle."""
    dimension = len(answer.problem.space.coordinates)
    if dimension == 1:
        return plot_line(answer, sample_line(answer), path)
    if dimension == 2:
        return plot_plane(answer, sample_plane(answer, (0, 1), {}, 201), path)
    return plot_planes(answer, choose_planes(answer), path)


def choose_planes(answer: Answer) -> list[Plane]:
    """Snapshots in time for two space coordinates; else three planes through the middle, at the last time if any."""
    domain = answer.problem.domain
    dimension = len(domain.lower)
    if is_timed(answer) and dimension == 3:
        times = np.linspace(domain.lower[2], domain.upper[2], SNAPSHOTS)
        return [sample_plane(answer, (0, 1), {2: float(time)}, 101) for time in times]
    middle = {k: (domain.lower[k] + domain.upper[k]) / 2 for k in range(dimension)}
    if is_timed(answer):
        middle[dimension - 1] = domain.upper[-1]
    pairs = ((0, 1), (0, 2), (1, 2))
    return [sample_plane(answer, pair, {k: v for k, v in middle.items() if k not in pair}, 101) for pair in pairs]


def plot_line(answer: Answer, line: Line, path: object) -> Path:
    """For every channel: the curve with its conditions and data, the error, and what data it misses.

    Without an exact solution the residual, which is one of all equations, once for all channels.
    """
    space = answer.problem.space
    shown = min(len(space.channels), MOST_CHANNELS)
    columns = 2 if shown in (2, 4, 5, 6) else 1  # three side by side would be too small to read on a page
    rows = -(-shown // columns)
    data = list_measured(answer)
    alone = line.errors is None and line.residual is not None and shown > 1  # below everything
    below = not alone and (line.errors is not None or line.residual is not None)
    shares = [2.0, *([1.0] if below else []), *([0.8] if data else [])]
    step, heights = len(shares), shares * rows + ([1.2] if alone else [])

    def paint(figure: Any) -> None:
        panels = figure.subplots(len(heights), columns, squeeze=False, sharex=True, height_ratios=heights)
        if alone:
            for panel in panels[-1]:
                panel.remove()
            whole = figure.add_subplot(panels[0, 0].get_gridspec()[-1, :], sharex=panels[0, 0])
            _plot_error(whole, line.at, line.residual, "|residual|")
            whole.set_xlabel(math_name(space.coordinates[0]))
            panels = panels[:-1]
        for k in range(rows * columns):
            own = panels[step * (k // columns) : step * (k // columns + 1), k % columns]
            if k >= shown:
                for panel in own:
                    panel.set_visible(False)
                continue
            top, last = own[0], own[-1]
            if line.exact is not None and np.isfinite(line.exact[k]).any():
                top.plot(line.at, line.exact[k], color=GREY, linewidth=5, alpha=0.4, label="exact", zorder=2)
            top.plot(line.at, line.values[k], color=BLUE, linewidth=1.8, label="solution", zorder=3)
            _mark_on_curve(answer, top, line, k)
            top.set_ylabel(math_name(space.channels[k]))
            top.grid(True)
            if below:
                errors = line.errors[k] if line.errors is not None else line.residual
                _plot_error(own[1], line.at, errors, "|error|" if line.errors is not None else "|residual|")
            if data:
                draw_data(top, last, [m for m in data if m.channel == k])
            last.set_xlabel(math_name(space.coordinates[0]))
            last.set_xlim(line.at[0], line.at[-1])
            last.tick_params(labelbottom=True)
        legend = collect_legend(panels.flat)
        figure.legend(legend.values(), legend.keys(), loc="outside lower center", ncols=min(4, len(legend)))

    width, part = (6.8, 1.63) if shown == 1 else (4.9 * columns, 1.5) if columns > 1 else (8.2, 1.2)
    return draw(path, (width, max(3.6, part * sum(heights))), paint)


def collect_legend(panels: Iterable[Any]) -> dict[str, Any]:
    """Label -> handle, of all panels together."""
    found = [panel.get_legend_handles_labels() for panel in panels]
    return {label: handle for handles, labels in found for handle, label in zip(handles, labels, strict=True)}


def _plot_error(panel: Any, at: np.ndarray, errors: np.ndarray | None, label: str) -> None:
    panel.set_ylabel(label)
    panel.grid(True)
    if errors is None or not np.isfinite(errors).any():
        panel.text(0.5, 0.5, "no exact solution given", transform=panel.transAxes, ha="center", color=GREY)
        return
    low, high = find_decades([errors])
    panel.semilogy(at, np.maximum(errors, low), color=RED, linewidth=1.0)
    panel.set_ylim(low, high)
    panel.minorticks_off()


def _mark_on_curve(answer: Answer, panel: Any, line: Line, channel: int) -> None:
    """The points of every constraint, put on the curve."""
    for name, points, style in styled_points(answer):
        at = points[:, 0]
        height = np.interp(at, line.at, line.values[channel])
        larger = {"markersize": max(style["markersize"], 4.2)} if len(at) <= FEW_ON_CURVE else {}
        panel.plot(at, height, **style | larger, label=name, zorder=4, clip_on=False)


def styled_points(answer: Answer) -> list[tuple[str, np.ndarray, dict[str, Any]]]:
    """(legend, points (P, D), markers) of every constraint that has points: dots inside, shapes for the other parts."""
    found = []
    where = {equation.name: equation.on or equation.file for equation in answer.problem.equations}
    within = apart = 0
    patched = isinstance(answer.field.basis, Piecewise)
    for constraint in answer.field.constraints:
        if where.get(constraint.name, "interior") is None:
            continue  # an integral over everything is nowhere
        if patched and where.get(constraint.name, "interior") == "interior":
            continue  # thousands of points would cover what they are there for; their cells are shown
        points = constraint.points.detach().cpu().numpy()
        if where.get(constraint.name, "interior") == "interior":
            small = 2.4 if len(points) <= 600 else 1.6
            style = {"linestyle": "none", "marker": "o", "markersize": small, "markeredgewidth": 0.35}
            style |= {"markeredgecolor": INK, "markerfacecolor": FILLS[within % len(FILLS)]}
            within += 1
        else:
            style = apart_style(apart, 2.2 if patched else 4.2)
            apart += 1
        found.append((f"{plain(constraint.name)} ({len(points)})", points, style))
    given = {jump.name(n): jump.equation.name for jump in answer.problem.jumps for n in jump.interfaces}
    together: dict[str, list[np.ndarray]] = {}  # one entry for all that is not asked for
    for condition in tied_conditions(answer):
        name = given.get(condition.name, "interfaces")
        together.setdefault(name, []).append(condition.points.detach().cpu().numpy())
    for name, parts in together.items():
        points = np.concatenate(parts)
        found.append((f"{plain(name)} ({len(points)})", points, apart_style(apart, 2.2)))
        apart += 1
    return found


def apart_style(number: int, size: float) -> dict[str, Any]:
    """Markers of conditions that do not hold inside, by their number."""
    colours = {"markeredgecolor": INK, "markerfacecolor": COLOURS[number % len(COLOURS)]}
    return {
        "linestyle": "none",
        "marker": MARKS[number % len(MARKS)],
        "markersize": size,
        "markeredgewidth": 0.1 * size,
        **colours,
    }


def plot_plane(answer: Answer, plane: Plane, path: object) -> Path:
    """The whole of a problem in two coordinates: every channel, its error beside it, or one map of the residual."""
    space = answer.problem.space
    shown = min(len(space.channels), MOST_CHANNELS)
    titles: list[tuple[str, np.ndarray, bool]] = []  # title, values, logarithmic
    for k, name in enumerate(space.channels[:shown]):
        titles.append((f"solution {math_name(name)}", plane.values[k], False))
        if plane.errors is not None and np.isfinite(plane.errors[k]).any():
            error = (answer.errors or {}).get(name, float("nan"))
            relative = f", relative {error:.1e}" if np.isfinite(error) else ""
            titles.append((f"|error| of {math_name(name)}{relative}", plane.errors[k], True))
    if plane.residual is not None:
        titles.append(("|residual| of the equations inside", plane.residual, True))
    data = list_measured(answer)
    fitted = [(space.channels[k], [m for m in data if m.channel == k]) for k in sorted({m.channel for m in data})]
    width, height = find_shape(plane, is_timed(answer))
    count = len(titles) + len(fitted)
    columns = 1 if width >= 2 * height else min(2, count)  # long shapes one below the other; three would be too small
    rows = -(-count // columns)
    marks = styled_points(answer)

    def paint(figure: Any) -> None:
        panels = figure.subplots(rows, columns, squeeze=False)
        free = None  # a place that no map needs takes the legend
        for k, panel in enumerate(panels.flat):
            if k >= count:
                panel.set_axis_off()
                free = panel
                continue
            panel.set_xlabel(math_name(space.coordinates[0]))
            panel.set_ylabel(math_name(space.coordinates[1]))
            if k >= len(titles):
                name, own = fitted[k - len(titles)]
                panel.set_title(f"misfit of the data of {math_name(name)}")
                add_bar(figure, draw_misfit(panel, plane, own, width / height), panel, "field minus data", False)
                continue
            title, values, logarithmic = titles[k]
            scale = find_scale([values], [plane.inside], logarithmic)
            image = draw_map(panel, plane, values, scale, width / height)
            panel.set_title(title)
            add_bar(figure, image, panel, "", logarithmic)
            draw_values(panel, [m for m in data if title == f"solution {math_name(space.channels[m.channel])}"], scale)
        draw_patches(panels[0, 0], answer, plane)
        for name, points, style in marks:
            panels[0, 0].plot(*points[:, :2].T, **style, label=name, zorder=5, clip_on=False)
        legend = collect_legend(panels.flat)
        if legend and free is not None:
            free.legend(legend.values(), legend.keys(), loc="center", markerscale=1.4, labelspacing=0.8)
        elif legend:
            ways: Any = {"loc": "outside lower center", "ncols": min(4, len(legend)), "markerscale": 1.4}
            figure.legend(legend.values(), legend.keys(), **ways)

    room = 0.0 if count < rows * columns else 0.24 * -(-(len(marks) + len(data) + 1) // 4)
    size = (columns * (width + 1.4), rows * (height + 0.82) + 0.2 + room)
    return draw(path, size, paint)


def draw_patches(panel: Any, answer: Answer, plane: Plane) -> None:
    """Where cells meet, if the field is made of them, under the white of what is outside; interfaces in bold."""
    basis = answer.field.basis
    if not isinstance(basis, Piecewise):
        return
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    corners = zip(basis.cells.lower, basis.cells.upper, strict=True)
    frames = [Rectangle(tuple(low), *(high - low)) for low, high in corners]
    region = basis.cells.region if isinstance(basis.cells, Cover) else np.zeros(len(frames), dtype=np.int64)
    numbers = number_regions(answer, plane)
    for number in np.unique(region):
        own = [frames[k] for k in np.flatnonzero(region == number)]
        drawn = PatchCollection(own, facecolor="none", edgecolor=INK, linewidth=0.5, alpha=0.45, zorder=1.5)
        panel.add_collection(drawn, autolim=False)
        if numbers is not None:  # a patch across an interface is its region's on its own side only
            draw_region(panel, plane, numbers == number)
            drawn.set_clip_path(path_around(panel, plane, numbers == number), panel.transData)
        elif plane.mask is not None:
            drawn.set_clip_path(path_around(panel, plane, ~plane.mask), panel.transData)
    panel.plot([], [], color=INK, linewidth=0.5, alpha=0.45, label=f"patches ({len(frames)})")


def number_regions(answer: Answer, plane: Plane) -> np.ndarray | None:
    """The region of every pixel (MASK, MASK) of a plane, if there are regions."""
    regions = answer.problem.regions
    if regions is None:
        return None
    points = pixel_centres(plane.extent, MASK, plane.axes, plane.fixed, len(answer.problem.domain.lower))
    return regions.number(points.cpu().numpy()).reshape(MASK, MASK)


def plot_planes(answer: Answer, planes: Sequence[Plane], path: object) -> Path:
    """One column per plane; two rows per channel (solution and error), or one and a last row for the residual."""
    space = answer.problem.space
    shown = min(len(space.channels), MOST_CHANNELS)
    rows: list[tuple[str, list[np.ndarray], bool]] = []
    for k, name in enumerate(space.channels[:shown]):
        rows.append((math_name(name), [p.values[k] for p in planes], False))
        errors = [np.full_like(p.values[k], np.nan) if p.errors is None else p.errors[k] for p in planes]
        if any(np.isfinite(e).any() for e in errors):
            rows.append((f"|error| of {math_name(name)}", errors, True))
    residuals = [np.full_like(p.values[0], np.nan) if p.residual is None else p.residual for p in planes]
    if any(np.isfinite(r).any() for r in residuals):
        rows.append(("|residual|", residuals, True))
    shapes = [find_shape(plane, False, side=2.3) for plane in planes]
    same = len({plane.axes for plane in planes}) == 1

    def paint(figure: Any) -> None:
        figure.get_layout_engine().set(w_pad=0.09, h_pad=0.06)
        panels = figure.subplots(len(rows), len(planes), squeeze=False, sharex="col", sharey="row" if same else "none")
        for row, (label, arrays, logarithmic) in enumerate(rows):
            line = panels[row]
            scale = find_scale(arrays, [p.inside for p in planes], logarithmic)
            for panel, plane, values, (width, height) in zip(line, planes, arrays, shapes, strict=True):
                image = draw_map(panel, plane, values, scale, width / height)
                first, second = (math_name(space.coordinates[k]) for k in plane.axes)
                if row == len(rows) - 1:
                    panel.set_xlabel(first)
                if panel is line[0] or not same:
                    panel.set_ylabel(second)
            add_bar(figure, image, line[-1], label, logarithmic)
        for panel, plane in zip(panels[0], planes, strict=True):
            panel.set_title(
                ", ".join(f"{math_name(space.coordinates[k])} = {value:.3g}" for k, value in plane.fixed.items())
            )

    width = sum(w + (0.25 if same else 0.65) for w, _ in shapes) + 1.4
    height = len(rows) * (max(h for _, h in shapes) + 0.35) + 0.8
    return draw(path, (width, height), paint)
