"""Angles: the paper's figure 6, half and difference angles after Rusinkiewicz, drawn from their definition.

h = normalise(wi + wo),   theta_h: from the normal n to h,   phi_h: of h around n, from the tangent t;
d = wi turned so that h becomes n,   theta_d: from h to wi,   phi_d: of wi around h, from the plane of n and h.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cnf.reports.plots import BLUE, GREEN, GREY, INK, RED, draw

THETA_H, PHI_H, THETA_D, PHI_D = (np.radians(v) for v in (30.0, 70.0, 46.0, 42.0))
VIEW = np.radians(18.0), np.radians(24.0)  # azimuth and height of the eye
LONG = 1.0


def draw_angles(path: Path) -> Path:
    """Two panels: where the half vector stands over the surface, and where the light stands around the half vector."""
    return draw(path, (9.6, 4.6), _paint)


def _turn(axis: str, angle: float) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) if axis == "z" else np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])


def _directions() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """h, wi, wo and the turn that takes n to h."""
    frame = _turn("z", PHI_H) @ _turn("y", THETA_H)
    half = frame @ np.array([0.0, 0.0, 1.0])
    light = frame @ np.array([np.sin(THETA_D) * np.cos(PHI_D), np.sin(THETA_D) * np.sin(PHI_D), np.cos(THETA_D)])
    eye = 2 * (half @ light) * half - light  # the mirror image in h
    return half, light, eye, frame


def _flat(points: np.ndarray) -> np.ndarray:
    """(P, 3) -> (P, 2), as seen from VIEW."""
    around, above = VIEW
    right = np.array([-np.sin(around), np.cos(around), 0.0])
    toward = np.array([np.cos(around) * np.cos(above), np.sin(around) * np.cos(above), np.sin(above)])
    return np.stack([points @ right, points @ np.cross(toward, right)], axis=-1)


def _arc(start: np.ndarray, end: np.ndarray, radius: float) -> np.ndarray:
    """Points (P, 3) of the great circle from one direction to another."""
    angle = np.arccos(np.clip(start @ end, -1, 1))
    at = np.linspace(0, 1, 60)[:, None]
    return radius * (np.sin((1 - at) * angle) * start + np.sin(at * angle) * end) / np.sin(angle)


def _circle(frame: np.ndarray, start: float, stop: float, radius: float) -> np.ndarray:
    """Points (P, 3) of a circle in the plane of the first two directions of a frame."""
    at = np.linspace(start, stop, 160)
    return radius * np.stack([np.cos(at), np.sin(at), np.zeros_like(at)], axis=1) @ frame.T


def _paint(figure: Any) -> None:
    left, right = figure.subplots(1, 2)
    half, light, eye, frame = _directions()
    upright, normal, tangent = np.eye(3), np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0])
    flat = half - (half @ normal) * normal
    below = flat / np.linalg.norm(flat)
    for panel in (left, right):
        panel.set_aspect("equal")
        panel.set_axis_off()
        disc = _flat(_circle(upright, 0, 2 * np.pi, 1.0))
        panel.fill(*disc.T, facecolor="#F3F1EC", edgecolor="#CFCAC0", linewidth=1.0, zorder=0)
        _arrow(panel, normal, INK, "n")
    left.set_title("the half vector over the surface")
    _arrow(left, tangent, GREY, "t", place=(-0.10, -0.02))
    _line(left, np.stack([np.zeros(3), below]), GREY, dashed=True)
    _line(left, np.stack([half, flat]), GREY, dashed=True)
    _arrow(left, half, BLUE, "h")
    _arrow(left, light, RED, r"$\omega_i$")
    _arrow(left, eye, GREEN, r"$\omega_o$")
    _angle(left, _arc(normal, half, 0.42), BLUE, r"$\theta_h$", 1.22)
    _angle(left, _circle(upright, 0, PHI_H, 0.38), BLUE, r"$\phi_h$", 1.28)

    right.set_title("the light around the half vector")
    reach = np.sin(THETA_D)  # where the light stands over the plane across h
    plane = _circle(frame, 0, 2 * np.pi, reach)
    right.fill(*_flat(plane).T, facecolor=BLUE, alpha=0.07, edgecolor="none", zorder=1)
    right.plot(*_flat(plane).T, color=BLUE, linewidth=0.9, alpha=0.6, zorder=1)
    foot = light - (light @ half) * half
    _line(right, np.stack([np.zeros(3), reach * frame[:, 0]]), BLUE, dashed=True)
    _line(right, np.stack([np.zeros(3), foot]), RED, dashed=True)
    _line(right, np.stack([light, foot]), GREY, dashed=True)
    _arrow(right, half, BLUE, "h")
    _arrow(right, light, RED, r"$\omega_i$")
    _arrow(right, eye, GREEN, r"$\omega_o$")
    _angle(right, _arc(half, light, 0.50), RED, r"$\theta_d$", 1.20)
    _angle(right, _circle(frame, 0, PHI_D, 0.34), RED, r"$\phi_d$", 1.30)
    for panel in (left, right):
        panel.set_xlim(-1.15, 1.15)
        panel.set_ylim(-0.55, 1.2)


def _arrow(
    panel: Any, direction: np.ndarray, colour: str, label: str, place: tuple[float, float] | None = None
) -> None:
    tip = _flat(LONG * direction)
    style = {"arrowstyle": "-|>,head_length=0.5,head_width=0.22", "color": colour, "linewidth": 2.0}
    panel.annotate("", tip, (0, 0), arrowprops={**style, "shrinkA": 0, "shrinkB": 0}, zorder=4)
    shift = np.array(place) if place is not None else 0.085 * tip / float(np.linalg.norm(tip))
    panel.text(*(tip + shift), label, color=colour, fontsize=13, ha="center", va="center", fontweight="bold", zorder=5)


def _line(panel: Any, points: np.ndarray, colour: str, dashed: bool = False) -> None:
    panel.plot(*_flat(points).T, color=colour, linewidth=1.1, linestyle=(0, (4, 3)) if dashed else "-", zorder=2)


def _angle(panel: Any, points: np.ndarray, colour: str, label: str, out: float) -> None:
    """An arc and its name, beside the middle."""
    seen = _flat(points)
    panel.plot(*seen.T, color=colour, linewidth=1.6, zorder=3)
    middle = seen[len(seen) // 2]
    panel.text(*(out * middle), label, color=colour, fontsize=13, ha="center", va="center", zorder=5)
