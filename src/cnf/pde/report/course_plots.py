"""Pictures of a nonlinear solve and of a solve in time: how Newton's iteration converged, how the error goes on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cnf.pde.report.map_panels import plain
from cnf.reports.plots import BLUE, GREY, INK, ORANGE, RED, draw

if TYPE_CHECKING:
    from cnf.pde.problems.answer import Answer
    from cnf.pde.problems.course import Course

LEAST = 1e-17  # what is met better than rounding is drawn here


def has_steps(answer: Answer) -> bool:
    """Whether there is an iteration to draw: one step is no curve."""
    return answer.convergence is not None and answer.convergence.steps > 1


def has_course(answer: Answer) -> bool:
    """Whether anything is known of the error over time."""
    course = answer.course
    return course is not None and any(map(math.isfinite, (*course.estimates, *course.errors)))


def plot_newton(answer: Answer, path: object) -> Path:
    """What the conditions missed, and by how much the field changed, step by step; the tolerance as a line."""
    convergence = answer.convergence
    assert convergence is not None

    def paint(figure: Any) -> None:
        from matplotlib.ticker import MaxNLocator, NullLocator

        panel = figure.subplots()
        _line(panel, range(len(convergence.missed)), convergence.missed, BLUE, "o", "conditions missed by")
        _line(panel, range(1, convergence.steps + 1), convergence.changes, ORANGE, "s", "change of the field")
        panel.axhline(answer.certificate.tolerance, color=GREY, linewidth=1.0, linestyle="--", label="tolerance")
        if convergence.stopped:
            panel.set_title("not converged", color=RED)
        panel.set_yscale("log")
        panel.set_xlabel("Newton step")
        panel.set_ylabel("relative")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.yaxis.set_minor_locator(NullLocator())
        panel.grid(True)
        figure.legend(loc="outside lower center", ncols=3)

    return draw(path, (6.4, 3.9), paint)


def plot_course(answer: Answer, path: object) -> Path:
    """The estimated error over time, the true one where it is known, and where windows begin."""
    course = answer.course
    assert course is not None

    def paint(figure: Any) -> None:
        from matplotlib.ticker import NullLocator

        panel = figure.subplots()
        for window in course.windows[1:] if course.followed else ():
            panel.axvline(window.start, color=GREY, linewidth=0.7, alpha=0.6)
        if any(map(math.isfinite, course.errors)):
            _line(panel, course.moments, course.errors, ORANGE, "", "error against the exact solution")
        if any(map(math.isfinite, course.estimates)):
            _line(panel, course.moments, course.estimates, BLUE, "", "estimate of the error")
        if course.followed and len(course.windows) > 1:
            panel.plot([], [], color=GREY, linewidth=0.7, label="windows")
        panel.set_yscale("log")
        panel.set_xlim(course.windows[0].start, course.windows[-1].end)
        panel.set_xlabel(plain(course.coordinate))
        panel.set_ylabel("relative to the field")
        panel.yaxis.set_minor_locator(NullLocator())
        panel.grid(True, axis="y")
        _limit(panel, course)
        figure.legend(loc="outside lower center", ncols=3)

    return draw(path, (8.0, 3.9), paint)


def _limit(panel: Any, course: Course) -> None:
    """Whole powers of ten around all that is drawn."""
    known = [max(v, LEAST) for v in (*course.estimates, *course.errors) if math.isfinite(v)]
    panel.set_ylim(10.0 ** math.floor(math.log10(min(known))), 10.0 ** math.ceil(math.log10(max(known)) + 1e-9))


def _line(panel: Any, at: Sequence[float], values: Sequence[float], colour: str, marker: str, label: str) -> None:
    """A curve of what is a number; zeros at the bottom."""
    shown = [(x, max(v, LEAST)) for x, v in zip(at, values, strict=True) if math.isfinite(v)]
    style = {"color": colour, "marker": marker, "markersize": 5, "linewidth": 1.6, "markeredgecolor": colour}
    panel.plot([x for x, _ in shown], [v for _, v in shown], label=label, **style)
    if marker and len(shown) < len(values):  # beyond all bounds: on the upper edge
        lost = [x for x, v in zip(at, values, strict=True) if not math.isfinite(v)]
        edge = panel.get_xaxis_transform()
        panel.plot(lost, [1.0] * len(lost), "x", color=INK, transform=edge, clip_on=False, label="not a number")
