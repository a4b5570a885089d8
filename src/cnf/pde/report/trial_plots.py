"""The picture of a tuning: what every trial achieved, which were unsolvable, and which was chosen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cnf.pde.report.map_panels import plain
from cnf.pde.report.table import show_setting
from cnf.reports.plots import BLUE, GREEN, GREY, INK, ORANGE, RED, SKY, draw

if TYPE_CHECKING:
    from cnf.pde.problems.answer import Answer

COLOURS = (BLUE, ORANGE, GREEN, RED, SKY, "#CC79A7", GREY)
PREFERRED = ("bandwidth", "size")  # for the horizontal axis


def plot_trials(answer: Answer, path: object) -> Path:
    """Objective (and relative held-out residual, where it is another number) of every trial, on logarithmic axes."""
    tuning = answer.tuning
    trials = list(tuning.trials)
    name = _varied(trials)
    at = [_number(t.settings.get(name)) if name else float(k + 1) for k, t in enumerate(trials)]
    groups: dict[str, list[int]] = {}
    for k, trial in enumerate(trials):
        groups.setdefault("rounds" if answer.measured is not None else _rest(trials, trial, name), []).append(k)
    what = "equations between their points" if answer.measured is not None else f"objective: {tuning.objective}"
    heights = {what: [_power(t.loss) for t in trials]}
    if any(math.isfinite(t.residual) and t.residual > 0 for t in trials) and not _same(trials):
        heights["relative held-out residual"] = [float(t.residual) for t in trials]
    best = next((k for k, t in enumerate(trials) if t is tuning.best or t == tuning.best), None)

    def paint(figure: Any) -> None:
        panels = figure.subplots(1, len(heights), squeeze=False, sharex=True)[0]
        for panel, (label, values) in zip(panels, heights.items(), strict=True):
            solved = [math.isfinite(v) and v > 0 for v in values]
            for colour, (text, members) in zip(_cycled(len(groups)), groups.items(), strict=True):
                line = sorted((at[k], values[k], trials[k].exact is not False) for k in members if solved[k])
                _plot_group(panel, line, colour, text or "trials")
            panel.set_yscale("log")
            if name:
                panel.set_xscale("log")
            if any(solved[k] and t.exact is False for k, t in enumerate(trials)):
                panel.plot([], [], "o", color=GREY, markerfacecolor="white", markersize=5.5, label="conditions missed")
            _mark(panel, at, values, solved, best)
            panel.set_xlabel(_axis_name(trials, name) if name else "trial")
            panel.set_ylabel(label)
            panel.grid(True)
            _label_axis(panel, at, bool(name))
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(3, len(labels)))

    return draw(path, (6.4 if len(heights) == 1 else 9.6, 4.2 + 0.12 * len(groups)), paint)


def _plot_group(panel: Any, line: Sequence[tuple[float, float, bool]], colour: str, label: str) -> None:
    """Trials that belong together, from left to right; hollow where conditions were missed."""
    style = {"color": colour, "marker": "o", "markersize": 5.5, "linewidth": 1.3}
    panel.plot([x for x, _, _ in line], [y for _, y, _ in line], **{**style, "marker": ""})
    for kept, fill in ((True, colour), (False, "white")):
        chosen = [(x, y) for x, y, exact in line if exact is kept]
        panel.plot([x for x, _ in chosen], [y for _, y in chosen], **{**style, "linewidth": 0}, markerfacecolor=fill)
    panel.plot([], [], **style, label=label)


def _mark(panel: Any, at: Sequence[float], values: Sequence[float], solved: Sequence[bool], best: int | None) -> None:
    lost = [at[k] for k in range(len(at)) if not solved[k]]
    if lost:  # on the upper edge: worse than everything
        panel.plot(
            lost,
            [1.0] * len(lost),
            "x",
            color=INK,
            markersize=6,
            transform=panel.get_xaxis_transform(),
            clip_on=False,
            label="unsolvable",
        )
    if best is not None and solved[best]:
        panel.plot(
            at[best],
            values[best],
            "o",
            color=INK,
            markersize=12,
            markerfacecolor="none",
            markeredgewidth=1.6,
            label="chosen",
        )


def _label_axis(panel: Any, at: Sequence[float], logarithmic: bool) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    panel.yaxis.set_minor_locator(NullLocator())
    if not logarithmic:
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        return
    wide = max(at) / min(at) > 300
    panel.xaxis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5)))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _varied(trials: Sequence[Any]) -> str:
    """The positive number that differs from trial to trial, the bandwidth if it does; empty if there is none."""
    names = dict.fromkeys(name for t in trials for name in t.settings)
    found = []
    for name in names:
        numbers = [_number(t.settings.get(name)) for t in trials]
        if all(math.isfinite(v) and v > 0 for v in numbers) and len(set(numbers)) > 1:
            found.append(name)
    return next((n for n in PREFERRED if n in found), found[0] if found else "")


def _number(value: object) -> float:
    """A number as it is, several (one per coordinate) by their geometric mean; NaN for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, list | tuple) and value and all(isinstance(v, int | float) and v > 0 for v in value):
        return math.exp(sum(math.log(v) for v in value) / len(value))
    return math.nan


def _axis_name(trials: Sequence[Any], name: str) -> str:
    several = any(isinstance(t.settings.get(name), list | tuple) and len(set(t.settings[name])) > 1 for t in trials)
    return f"{plain(name)} (geometric mean over the coordinates)" if several else plain(name)


def _rest(trials: Sequence[Any], trial: Any, name: str) -> str:
    """The other settings in which the trials differ, and how many conditions were solved, as text."""
    differ = [
        other for other in trial.settings if other != name and len({repr(t.settings.get(other)) for t in trials}) > 1
    ]
    parts = [plain(f"{other} {show_setting(trial.settings[other])}") for other in differ[:3]]
    if len({t.conditions for t in trials}) > 1:
        parts.append(f"{trial.conditions} conditions")
    return ", ".join(parts)


def _power(loss: float) -> float:
    return 10.0**loss if math.isfinite(loss) and abs(loss) < 300 else math.inf


def _same(trials: Sequence[Any]) -> bool:
    """True if the objective is the held-out residual itself."""
    pairs = [(_power(t.loss), t.residual) for t in trials if math.isfinite(t.loss) and math.isfinite(t.residual)]
    return all(math.isclose(a, b, rel_tol=1e-6) for a, b in pairs)


def _cycled(count: int) -> list[str]:
    return [COLOURS[k % len(COLOURS)] for k in range(count)]
