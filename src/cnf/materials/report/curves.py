"""Learning curves of the fits of a material.

In: per method the logged steps, losses and seconds. Out: a PNG file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cnf.errors import ConstraintError
from cnf.materials.report.method_style import colour_of, title_of
from cnf.reports.plots import draw

Logged = tuple[Sequence[float], Sequence[float], Sequence[float]]  # steps, losses, seconds
SMOOTHED = 0.04  # of the curve's points, on each side
WIDE_TIMES = 8.0  # trainings that differ by more are drawn over the logarithm of time


def smooth(losses: np.ndarray) -> np.ndarray:
    """The mean of the logarithms over a window of neighbours, narrower at the start; NaN stays NaN and is left out."""
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = np.log(losses)
    known = np.isfinite(logs)
    reach = max(1, round(SMOOTHED * len(losses)))
    sums, counts = (np.concatenate([[0.0], np.cumsum(v)]) for v in (np.where(known, logs, 0.0), known))
    place = np.arange(len(losses))
    before = np.minimum(place, reach)
    after = np.minimum(before, len(losses) - 1 - place)  # symmetric at the steep start; the end, flat, looks back
    low, high = place - before, place + after + 1
    with np.errstate(invalid="ignore"):
        return np.where(known, np.exp((sums[high] - sums[low]) / (counts[high] - counts[low])), np.nan)


def draw_learning_curves(curves: Mapping[str, Logged], path: object, title: str = "") -> Path:
    """The loss over steps and over seconds, raw in pale and smoothed on top; a cross where it stops being finite."""
    logged = {method: _check(method, ("steps", "losses", "seconds"), columns) for method, columns in curves.items()}
    if not logged:
        raise ConstraintError("learning curves need at least one method, got none")
    finite = {m: _positive(columns[1]) for m, columns in logged.items()}
    if not any(np.isfinite(losses).any() for losses in finite.values()):
        raise ConstraintError("no method has a finite loss: there is nothing to draw")
    ends = [columns[2][-1] for columns in logged.values() if columns[2][-1] > 0]

    def paint(figure: Any) -> None:
        panels = figure.subplots(1, 2, sharey=True)
        for k, (method, (steps, _, seconds)) in enumerate(logged.items()):
            losses = finite[method]
            smoothed = smooth(losses)
            last = smoothed[np.isfinite(smoothed)][-1:]
            label = ", ".join([title_of(method), *(f"{v:.2g}" for v in last)])
            label += "" if np.isfinite(losses[-1]) else ", failed"
            for panel, x in zip(panels, (steps, seconds), strict=True):
                colour = colour_of(method, k)
                panel.plot(x, losses, color=colour, linewidth=0.7, alpha=0.3)
                panel.plot(x, smoothed, color=colour, linewidth=1.7, label=label if panel is panels[0] else None)
                _mark_failure(panel, x, losses, colour)
        everything = np.concatenate([smooth(losses) for losses in finite.values()])
        low, high = np.nanmin(everything), np.nanmax(everything)
        panels[0].set_ylim(low / 1.5, high * 1.5)
        panels[0].set(yscale="log", xlabel="step", ylabel="loss")
        panels[1].set(xlabel="seconds of training")
        if ends and max(ends) > WIDE_TIMES * min(ends):
            panels[1].set_xscale("log")
            panels[1].set_xlim(left=max(min(ends) / 50, _first_time(logged)))
        else:
            panels[1].set_xlim(left=0)
        panels[0].set_xlim(left=0)
        for panel in panels:
            panel.grid(True)
        panels[0].locator_params(axis="x", nbins=5)
        _thin_log_ticks(panels[0])
        figure.legend(loc="outside right center", title="last loss (smoothed)", title_fontsize=8.5)
        if title:
            figure.suptitle(title, fontsize=12)

    return draw(path, (10.6, 3.7), paint)


def _check(method: str, names: Sequence[str], columns: Sequence[Sequence[float]]) -> list[np.ndarray]:
    """The columns as arrays, if they have one length and are not empty."""
    arrays = [np.asarray(column, dtype=np.float64).reshape(-1) for column in columns]
    lengths = [len(array) for array in arrays]
    if len(arrays) != len(names) or len(set(lengths)) != 1 or lengths[0] == 0:
        raise ConstraintError(f"{method} has {lengths} {', '.join(names)}; expected as many of each, at least one")
    return arrays


def _positive(losses: np.ndarray) -> np.ndarray:
    """A logarithmic axis has no place for other values."""
    return np.where(np.isfinite(losses) & (losses > 0), losses, np.nan)


def _mark_failure(panel: Any, x: np.ndarray, losses: np.ndarray, colour: str) -> None:
    """A cross on the last finite loss before one that is not."""
    known = np.isfinite(losses)
    if known.all() or not known.any():
        return
    last = int(np.flatnonzero(known)[-1])
    if last < len(losses) - 1:
        panel.plot(x[last], losses[last], "x", color=colour, markersize=8, markeredgewidth=2)


def _first_time(logged: Mapping[str, Sequence[np.ndarray]]) -> float:
    """The earliest logged time that a logarithmic axis can show."""
    times = np.concatenate([columns[2] for columns in logged.values()])
    return float(times[times > 0].min())


def _thin_log_ticks(panel: Any) -> None:
    """Plain numbers at 1, 2, 5 over few decades, powers of ten over many."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = panel.get_ylim()
    if math.log10(high / low) < 2.5:
        panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.yaxis.set_minor_formatter(NullFormatter())
