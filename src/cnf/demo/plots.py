"""Pictures of the worked problems: fields and errors, choosing a bandwidth, slices, paths, and how a training went."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from cnf.reports.plots import BLUE, GREEN, GREY, INK, ORANGE, RED, SKY, draw

if TYPE_CHECKING:
    from cnf.demo.advection import Advection
    from cnf.demo.light_path import LightPath
    from cnf.training import History


def plot_light_path(result: LightPath, path: object) -> Path:
    """Before and after training, the refractive index as background."""

    def paint(figure: Any) -> None:
        from matplotlib.ticker import MaxNLocator

        panels = figure.subplots(1, 2, sharex=True, sharey=True)
        (x0, x1), (y0, y1) = _frame([result.before, result.after, result.exact])
        heights = np.linspace(y0, y1, 256)
        index = np.repeat(result.medium.index(heights)[:, None], 2, axis=1)
        ends = np.asarray(result.ends)
        titles = (
            f"random start: time {result.start_time:.3f}",
            f"after {len(result.history)} steps: time {result.final_time:.5f}",
        )
        for panel, title, line in zip(panels, titles, (result.before, result.after), strict=True):
            image = panel.imshow(
                index,
                extent=(x0, x1, y0, y1),
                origin="lower",
                aspect="equal",
                cmap="Blues",
                alpha=0.85,
                interpolation="bilinear",
            )
            panel.plot(*line.T, color="white", linewidth=4.5, solid_capstyle="round")
            panel.plot(
                *line.T, color=ORANGE, linewidth=2.6, solid_capstyle="round", label="sum of two learnable quadratics"
            )
            if line is result.after:
                panel.plot(
                    *result.exact.T,
                    color=INK,
                    linewidth=1.2,
                    linestyle=(0, (4, 3)),
                    label=f"least time of all paths: {result.exact_time:.5f}",
                )
            panel.plot(
                *ends.T,
                "o",
                color="white",
                markeredgecolor=INK,
                markersize=8,
                markeredgewidth=1.5,
                zorder=5,
                label="end points (conditions)",
            )
            panel.set_title(title)
            panel.set_xlabel("x")
            panel.spines[:].set_visible(False)
            panel.tick_params(length=0)
            panel.locator_params(nbins=5)
        panels[0].set_ylabel("y")
        handles, labels = panels[1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
        bar = figure.colorbar(image, ax=panels, label="refractive index n(y)", pad=0.02, shrink=0.9)
        bar.outline.set_visible(False)
        bar.locator = MaxNLocator(4)
        bar.update_ticks()

    return draw(path, (9.6, 3.8), paint, layout="compressed")


def plot_advection(results: Sequence[Advection], path: object) -> Path:
    """The exact field with the scattered points, and the error of every result on one logarithmic scale.

    For a single result its field is shown as well.
    """
    from cnf.demo.advection import SQUARE, exact_field

    side = 161
    points = SQUARE.grid(side)
    exact = _picture(exact_field(points), side)
    with torch.no_grad():
        found = [_picture(result.field.solution(points)[:, 0], side) for result in results]
    errors = [np.abs(field - exact) for field in found]
    fields = 2 if len(results) == 1 else 1

    def paint(figure: Any) -> None:
        from matplotlib.colors import LogNorm

        panels = list(figure.subplots(1, fields + len(results), sharex=True, sharey=True))
        flat = {"extent": (0, 1, 0, 1), "origin": "lower"}
        for panel, field in zip(panels[:fields], (exact, found[0]), strict=False):
            image = panel.imshow(field, cmap="viridis", vmin=-1, vmax=1, interpolation="bilinear", **flat)
        scattered = results[0].points.numpy()
        inside = scattered[((scattered >= 0) & (scattered <= 1)).all(axis=1)]
        panels[0].plot(*inside.T, "o", color="white", markersize=2.1, markeredgewidth=0.3, markeredgecolor=INK)
        panels[0].set_title(f"exact field and points\nperturbation {results[0].perturbation:g}")
        panels[fields - 1].set_title(f"solution\n{results[0].method}" if fields == 2 else panels[0].get_title())
        _bar(figure, image, panels[:fields], "u", [-1, 0, 1])
        low, high = _decades(errors)
        for panel, result, error in zip(panels[fields:], results, errors, strict=True):
            image = panel.imshow(
                np.maximum(error, low), cmap="cividis", norm=LogNorm(low, high), interpolation="nearest", **flat
            )
            panel.set_title(f"error of {result.method}\nRMSE {result.rmse:.1e}")
        _bar(figure, image, panels[fields:], "|error|", None)
        for panel in panels:
            panel.set_xlabel("x")
            panel.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
            panel.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
            panel.spines[:].set_visible(False)
        panels[0].set_ylabel("t")

    return draw(path, (2.7 * (fields + len(results)) + 1.6, 3.4), paint, layout="compressed")


def plot_tuning(results: Sequence[Advection], path: object) -> Path:
    """What the scan saw: the held-out residual over the bandwidth, and what it chose."""

    def paint(figure: Any) -> None:
        from matplotlib.ticker import LogLocator

        panel = figure.subplots()
        for result, colour in zip(results, (BLUE, ORANGE, GREEN, RED, SKY), strict=False):
            trials = sorted((t.value, math.exp(t.loss / 2)) for t in result.trials if math.isfinite(t.loss))
            best = min(trials, key=lambda t: t[1])
            panel.loglog(
                *zip(*trials, strict=True), color=colour, marker="o", markersize=4, linewidth=1.4, label=result.method
            )
            panel.loglog(*best, "o", color=colour, markersize=11, markerfacecolor="none", markeredgewidth=1.6)
        panel.loglog(
            [], [], "o", color=GREY, markersize=11, markerfacecolor="none", markeredgewidth=1.6, label="chosen"
        )
        panel.set_xlabel("bandwidth")
        panel.set_ylabel("held-out residual (root mean square)")
        panel.set_title(f"choosing a bandwidth, perturbation {results[0].perturbation:g}")
        panel.grid(True, which="major", color="#DDDDDD", linewidth=0.7)
        panel.minorticks_off()
        panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        panel.legend()

    return draw(path, (6.4, 4.0), paint)


def plot_slices(result: Advection, path: object, times: Sequence[float] = (0.0, 0.5, 1.0)) -> Path:
    """Exact field and solution along x at a few times, and the error below."""
    from cnf.demo.advection import exact_field

    x = torch.linspace(0, 1, 401, dtype=torch.float64)
    colours = (BLUE, ORANGE, GREEN, RED, SKY)

    def paint(figure: Any) -> None:
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
        for t, colour in zip(times, colours, strict=False):
            points = torch.stack([x, torch.full_like(x, t)], dim=1)
            exact = exact_field(points)
            with torch.no_grad():
                found = result.field.solution(points)[:, 0]
            top.plot(x, exact, color=colour, linewidth=4, alpha=0.35)
            top.plot(x, found, color=colour, linewidth=1.6, label=f"t = {t:g}")
            bottom.semilogy(x, (found - exact).abs().clamp_min(1e-17), color=colour, linewidth=1.2)
        top.plot([], [], color=GREY, linewidth=4, alpha=0.35, label="exact (wide lines)")
        top.set_ylabel("u(x, t)")
        top.legend(loc="upper right", ncols=2)
        top.set_ylim(-1.15, 1.5)
        top.set_title(f"{result.method}, perturbation {result.perturbation:g}")
        bottom.set_ylabel("|error|")
        bottom.set_xlabel("x")
        bottom.set_xlim(0, 1)
        bottom.grid(True, which="major", axis="y", color="#DDDDDD", linewidth=0.7)

    return draw(path, (6.4, 5.0), paint)


def plot_learning(history: History, path: object, title: str, loss: str, least: float | None = None) -> Path:
    """The loss over the steps, and the residual of the conditions, which has to stay where it is."""

    def paint(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        left.plot(history.step, history.loss, color=BLUE, marker="o", markersize=3.5)
        if least is not None:
            left.axhline(least, color=GREY, linestyle=(0, (4, 3)), linewidth=1.2, label=f"least possible {least:.5f}")
            left.legend(loc="upper right")
        left.set_ylabel(loss)
        left.set_title(title)
        residual = np.asarray(history.residual)
        zero = residual == 0  # a logarithmic axis has no place for them: hollow marks on its lower end
        right.semilogy(history.step, np.maximum(residual, 1e-17), color=RED, linewidth=1.2, zorder=1)
        right.scatter(np.asarray(history.step)[~zero], residual[~zero], color=RED, s=14, zorder=2)
        if zero.any():
            right.scatter(
                np.asarray(history.step)[zero],
                np.full(zero.sum(), 1e-17),
                **{
                    "facecolor": "white",
                    "edgecolor": RED,
                    "s": 22,
                    "zorder": 3,
                    "clip_on": False,
                    "label": "exactly zero",
                },
            )
            right.legend(loc="upper right")
        right.set_ylim(1e-17, max(1e-12, 10 * residual.max()))
        right.set_ylabel("worst relative residual")
        right.set_title("conditions, at every step")
        for panel in (left, right):
            panel.set_xlabel("step")
            panel.xaxis.get_major_locator().set_params(integer=True)
            panel.minorticks_off()
            panel.grid(True, which="major", axis="y", color="#DDDDDD", linewidth=0.7)

    return draw(path, (9.0, 3.4), paint)


def _bar(figure: Any, image: Any, panels: Sequence[Any], label: str, ticks: Sequence[float] | None) -> None:
    bar = figure.colorbar(image, ax=list(panels), pad=0.02 if len(panels) > 1 else 0.04, ticks=ticks)
    bar.ax.set_title(label, fontsize=10, loc="left")  # above, where it cannot run into the next panel
    bar.ax.minorticks_off()
    bar.outline.set_visible(False)


def _picture(values: torch.Tensor, side: int) -> np.ndarray:
    """Values on a grid (x slow, t fast) -> rows t, columns x."""
    return values.reshape(side, side).T.numpy()


def _decades(errors: Sequence[np.ndarray]) -> tuple[float, float]:
    """Powers of ten between which the errors lie; rounding noise below 1e-15 does not count."""
    smallest = max(min(float(np.median(e)) for e in errors) / 10, 1e-15)
    largest = max(max(float(e.max()) for e in errors), 10 * smallest)
    return 10.0 ** math.floor(math.log10(smallest)), 10.0 ** math.ceil(math.log10(largest))


def _frame(lines: Sequence[np.ndarray], margin: float = 0.12) -> tuple[tuple[float, float], tuple[float, float]]:
    """Limits that hold all lines, with the same margin on all sides."""
    joined = np.concatenate(lines)
    low, high = joined.min(axis=0), joined.max(axis=0)
    pad = margin * float((high - low).max())
    return (low[0] - pad, high[0] + pad), (low[1] - pad, high[1] + pad)
