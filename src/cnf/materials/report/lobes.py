"""Lobes: slices of reflectance through the plane of incidence, the reference beside its fits.

In: reflectances as functions of half and difference angles (P, 3) -> (P, 3), the reference first. Out: a PNG with a row
per angle of incidence: the lobes as a polar plot, the luminance over the angle of the eye, and its peak enlarged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cnf.errors import ConstraintError
from cnf.materials.reflectance.angles import half_difference
from cnf.materials.rendering.tone import luminance
from cnf.materials.report.method_style import TITLES, colour_of
from cnf.reports.plots import BLUE, GREEN, GREY, INK, ORANGE, RED, SKY, draw

Curve = tuple[str, Callable[[Tensor], Tensor]]
INCIDENCE = (15.0, 45.0, 70.0)  # degrees
REACH = 89.0  # degrees: nothing is seen beyond the horizon
COARSE, FINE = 1425, 801  # points of the whole slice, and of the part that is enlarged
PALETTE = (RED, BLUE, GREEN, ORANGE, SKY, "#CC79A7", "#8C6D31", GREY)
MIRROR: Any = {"color": GREY, "linewidth": 0.9, "linestyle": (0, (4, 3)), "zorder": 0}
DECADES = 7.0  # at most, on the logarithmic axis


@dataclass(frozen=True)
class Slice:
    """Luminance of every curve for one angle of incidence; the light comes from the left, at -incidence."""

    incidence: float  # degrees, as all angles here
    eye: np.ndarray  # (P,) from -REACH to REACH
    values: list[np.ndarray]  # (P,) each, NaN where not known
    near: tuple[float, float]  # the part that is enlarged


def plane_angles(incidence: float, eye: np.ndarray) -> Tensor:
    """Angles (P, 3) for light from -incidence and an eye at `eye` (P,), in degrees from the normal in one plane."""
    light = torch.full((len(eye),), -math.radians(incidence), dtype=torch.float64)
    view = torch.from_numpy(np.radians(eye))
    zero = torch.zeros_like(light)
    wi, wo = (torch.stack([a.sin(), zero, a.cos()], -1) for a in (light, view))
    return half_difference(wi, wo)


def slice_curves(curves: Sequence[Curve], incidence: float) -> Slice:
    """Evaluate all curves in the plane of incidence, densely where the reference has its peak."""
    eye = np.linspace(-REACH, REACH, COARSE)
    near = _surround_peak(eye, _evaluate(curves[0], incidence, eye), incidence)
    eye = np.unique(np.concatenate([eye, np.linspace(*near, FINE), [incidence]]))
    return Slice(incidence, eye, [_evaluate(curve, incidence, eye) for curve in curves], near)


def _evaluate(curve: Curve, incidence: float, eye: np.ndarray) -> np.ndarray:
    title, reflectance = curve
    angles = plane_angles(incidence, eye)
    with torch.no_grad():
        found = reflectance(angles)
    if not isinstance(found, Tensor) or found.shape != angles.shape:
        shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise ConstraintError(
            f"the reflectance {title!r} gave {shape} for angles {tuple(angles.shape)}; expected both equal"
        )
    values = luminance(found.double()).cpu().numpy()
    return np.where(np.isfinite(values), values, np.nan)


def _surround_peak(eye: np.ndarray, values: np.ndarray, mirror: float) -> tuple[float, float]:
    """An interval around the mirror direction, a few times as wide as the reference's peak there."""
    known = np.nan_to_num(values, nan=0.0)
    beside = np.abs(eye - mirror) < 20
    peak = eye[beside][np.argmax(known[beside])]
    high = known >= 0.25 * known[beside].max()
    wide = max(abs(peak - mirror), float(np.ptp(eye[high & (np.abs(eye - peak) < 30)])) / 2)
    half = float(np.clip(2.5 * wide, 2.0, 25.0))
    return max(mirror - half, -REACH), min(mirror + half, REACH)


def draw_lobes(curves: Sequence[Curve], path: object, title: str = "", incidence: Sequence[float] = INCIDENCE) -> Path:
    """Slices for every angle of incidence (degrees): polar log(1 + f), f on a logarithmic axis, f near the mirror."""
    if not curves:
        raise ConstraintError("lobes need at least one curve, the reference; got none")
    if not incidence or not all(0 <= angle < REACH for angle in incidence):
        raise ConstraintError(f"angles of incidence must be from 0 to {REACH:g} degrees, got {list(incidence)}")
    slices = [slice_curves(curves, angle) for angle in incidence]
    for part in slices:
        if not np.nanmax(np.append(part.values[0], 0.0)) > 0:
            raise ConstraintError(f"the reference {curves[0][0]!r} is dark or not finite at {part.incidence:g} degrees")
    looks = [_look(name, k) for k, (name, _) in enumerate(curves)]

    def paint(figure: Any) -> None:
        figure.get_layout_engine().set(w_pad=0.08, h_pad=0.06)
        cells = figure.add_gridspec(len(slices), 3, width_ratios=(1.35, 1.3, 1.0))
        for row, part in enumerate(slices):
            _paint_polar(figure.add_subplot(cells[row, 0]), part, looks)
            panels = [figure.add_subplot(cells[row, k]) for k in (1, 2)]
            _paint_whole(panels[0], part, looks)
            _paint_peak(panels[1], part, looks)
            if row == 0:
                panels[0].set_title("luminance of f")
                panels[1].set_title("near the mirror direction")
            if row == len(slices) - 1:
                for panel in panels:
                    panel.set_xlabel(r"$\theta_o$ in degrees")
        from matplotlib.lines import Line2D

        handles = [Line2D([], [], label=name, **look) for (name, _), look in zip(curves, looks, strict=True)]
        handles.append(Line2D([], [], label="mirror direction", **MIRROR))
        figure.legend(handles=handles, loc="outside lower center", ncols=min(5, len(handles)))
        if title:
            figure.suptitle(title, fontsize=12)

    return draw(path, (10.4, 0.9 + 2.25 * len(slices)), paint)


def _look(name: str, k: int) -> dict[str, Any]:
    """The reference black and wide, fits thin and coloured on top of it; known methods in their own colours."""
    if k == 0:
        return {"color": "#111111", "linewidth": 3.2, "zorder": 1}
    known = {title: method for method, title in TITLES.items()}
    colour = colour_of(known[name]) if name in known else colour_of(name) if name in TITLES else None
    return {"color": colour or PALETTE[(k - 1) % len(PALETTE)], "linewidth": 1.35, "zorder": 2 + k}


def _paint_polar(panel: Any, part: Slice, looks: Sequence[dict[str, Any]]) -> None:
    """A half disc: the eye's angle from the normal, which points up, and log(1 + f) as the distance from the middle."""
    lobes = [np.log1p(np.maximum(values, 0)) for values in part.values]
    highest = 1.06 * float(np.nanmax(lobes[0]))
    turn, rim = np.radians(part.eye), np.linspace(-np.pi / 2, np.pi / 2, 181)
    thin = {"color": "#DDDDDD", "linewidth": 0.7, "zorder": 0}
    for radius in (*_round_steps(highest), highest):
        panel.plot(radius * np.sin(rim), radius * np.cos(rim), **thin)
        if radius < highest:
            panel.text(-radius, -0.03 * highest, f"{radius:g}", fontsize=7, color=GREY, ha="center", va="top")
    for degrees in range(-90, 91, 30):
        x, y = highest * math.sin(math.radians(degrees)), highest * math.cos(math.radians(degrees))
        panel.plot([0, x], [0, y], **thin)
        panel.text(1.09 * x, 1.09 * y, f"{degrees}°", fontsize=7.5, color="#444444", ha="center", va="center")
    for lobe, look in zip(lobes, looks, strict=True):
        inside = np.minimum(lobe, highest)  # a fit that is far too bright ends at the rim
        panel.plot(inside * np.sin(turn), inside * np.cos(turn), solid_joinstyle="round", **look)
    x, y = highest * math.sin(math.radians(part.incidence)), highest * math.cos(math.radians(part.incidence))
    panel.plot([0, x], [0, y], **MIRROR)
    arrow = {"arrowstyle": "-|>", "color": INK, "linewidth": 1.0, "shrinkA": 0, "shrinkB": 0}
    panel.annotate("", (-0.62 * x, 0.62 * y), (-0.97 * x, 0.97 * y), arrowprops=arrow)
    panel.set(xlim=(-1.16 * highest, 1.16 * highest), ylim=(-0.12 * highest, 1.15 * highest), aspect="equal")
    panel.axis("off")
    panel.set_title(rf"$\theta_i$ = {part.incidence:g}°: lobes of log(1 + f)", pad=2)


def _round_steps(highest: float) -> list[float]:
    """Two to four round numbers below `highest`."""
    power = 10.0 ** math.floor(math.log10(highest))
    step = next(s * power for s in (0.2, 0.5, 1.0, 2.0, 5.0) if highest < 5 * s * power)
    return [step * k for k in range(1, 5) if step * k < highest]


def _paint_whole(panel: Any, part: Slice, looks: Sequence[dict[str, Any]]) -> None:
    reference = part.values[0]
    top = 10 ** (math.log10(float(np.nanmax(reference))) + 0.3)
    positive = reference[reference > 0]
    floor = max(float(positive.min()) / 3, top / 10**DECADES)
    for values, look in zip(part.values, looks, strict=True):
        panel.semilogy(part.eye, np.maximum(values, floor), **look)  # zero lies on the floor
    panel.axvline(part.incidence, **MIRROR)
    panel.axvspan(*part.near, color="#F3F1EC", linewidth=0, zorder=-1)
    panel.set_ylim(floor, top)
    panel.set_xlim(-90, 90)
    panel.set_xticks(range(-90, 91, 30))
    panel.grid(True, which="major", axis="y", color="#E2E2E2", linewidth=0.7)
    panel.set_axisbelow(True)
    panel.minorticks_off()


def _paint_peak(panel: Any, part: Slice, looks: Sequence[dict[str, Any]]) -> None:
    inside = (part.eye >= part.near[0]) & (part.eye <= part.near[1])
    for values, look in zip(part.values, looks, strict=True):
        panel.plot(part.eye[inside], values[inside], **look)
    panel.axvline(part.incidence, **MIRROR)
    panel.set_facecolor("#FAF9F6")
    panel.set_xlim(*part.near)
    panel.set_ylim(0, 1.25 * float(np.nanmax(part.values[0][inside])))
    panel.grid(True, axis="y", color="#E2E2E2", linewidth=0.7)
    panel.set_axisbelow(True)
    panel.locator_params(nbins=5)
