"""Sources: a very narrow one, one in a room of forty waves, and one that moves."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import exp1

from benchmarks.engineering_problems.problem import Array, Problem, box, column, draw_points

WIDTH = 0.002
PLACE = (0.31, 0.67)
WAVE, HEIGHT, SPOT, SOURCE = 40.0, 0.8, 0.05, (0.3, 0.45)
MOVING, DIFFUSION = 0.1, 0.02


def narrow_at(x: Array, y: Array) -> Array:
    """The point source in the square by images in a strip, minus what spreading takes away, E1(r^2 / 2w^2) / 4 pi."""
    (a, b), total = PLACE, np.zeros_like(x)
    r2 = (x - a) ** 2 + (y - b) ** 2
    for m in range(-8, 9):
        for sign in (1, -1):
            along = np.pi * (x - sign * a + 2 * m)
            near = np.cosh(along) - np.cos(np.pi * (y - b))
            # cosh - cos loses digits at the source itself: half angles do not.
            near = 2 * (np.sinh(along / 2) ** 2 + np.sin(np.pi * (y - b) / 2) ** 2) if abs(m) < 2 else near
            total += sign * np.log((np.cosh(along) - np.cos(np.pi * (y + b))) / near) / (4 * np.pi)
    return total - exp1(r2 / (2 * WIDTH**2)) / (4 * np.pi)


def narrow() -> Problem:
    peak = (
        rf"\frac{{1}}{{{2 * np.pi * WIDTH**2!r}}} e^{{-((x - {PLACE[0]})^2 + (y - {PLACE[1]})^2) / {2 * WIDTH**2!r}}}"
    )
    lower, upper = (tuple(c + s * 5 * WIDTH for c in PLACE) for s in (-1, 1))
    return Problem(
        "source",
        "Poisson, source of width 0.002",
        {
            "coordinates": "x y",
            "domain": box((0, 0), (1, 1)),
            "equations": {"interior": rf"-\Delta u = {peak}", "boundary": "u = 0"},
        },
        np.concatenate([draw_points((0, 0), (1, 1))[:1500], draw_points(lower, upper)[:500]]),
        column(narrow_at),
        note="a quarter of the points within five widths of the source",
    )


@cache
def modes(count: int = 120) -> Array:
    """Weights of sin(m pi x) sin(n pi y / h) in the solution, (count, count), by Gauss quadrature of the source."""
    nodes, weights = np.polynomial.legendre.leggauss(600)
    k = np.arange(1, count + 1)
    parts = []
    for length, place in ((1.0, SOURCE[0]), (HEIGHT, SOURCE[1])):
        s = (nodes + 1) / 2 * length
        bump = np.exp(-((s - place) ** 2) / (2 * SPOT**2))
        parts.append(np.sin(np.outer(k, np.pi * s / length)) @ (weights * bump))  # 2 / length times length / 2
    spectrum = (np.pi * k[:, None]) ** 2 + (np.pi * k / HEIGHT) ** 2
    return 1000 * np.outer(*parts) / (spectrum - WAVE**2)


def room_at(x: Array, y: Array) -> Array:
    k = np.arange(1, len(modes()) + 1)
    return np.einsum("pm,mn,pn->p", np.sin(np.pi * x[:, None] * k), modes(), np.sin(np.pi * y[:, None] * k / HEIGHT))


def helmholtz() -> Problem:
    """-Laplace u - 1600 u = a Gaussian, u = 0 around it; no eigenvalue is nearer than 4 to 1600."""
    source = rf"1000 e^{{-((x - {SOURCE[0]})^2 + (y - {SOURCE[1]})^2) / {2 * SPOT**2!r}}}"
    return Problem(
        "helmholtz",
        "Helmholtz, k = 40, with a source",
        {
            "coordinates": "x y",
            "domain": box((0, 0), (1, HEIGHT)),
            "equations": {"interior": rf"-\Delta u - 1600 u = {source}", "boundary": "u = 0"},
        },
        draw_points((0, 0), (1, HEIGHT)),
        column(room_at),
        asked=1e-5,
        digits=1e-9,
    )


def moving_at(x: Array, y: Array, t: Array) -> Array:
    """A Gaussian that goes round in a circle."""
    a, b = 0.5 + 0.2 * np.cos(2 * np.pi * t), 0.5 + 0.2 * np.sin(2 * np.pi * t)
    return np.exp(-((x - a) ** 2 + (y - b) ** 2) / (2 * MOVING**2))


def moving() -> Problem:
    """u_t - 0.02 Laplace u = what makes u a Gaussian of width 0.1 that goes round once."""
    w2 = MOVING**2
    parameters = {
        "X": r"x - 0.5 - 0.2 \cos(2\pi t)",
        "Y": r"y - 0.5 - 0.2 \sin(2\pi t)",
        "g": rf"e^{{-(X^2 + Y^2) / {2 * w2!r}}}",
    }
    drift = r"0.4 \pi (Y \cos(2\pi t) - X \sin(2\pi t))"
    spread = rf"{DIFFUSION} (\frac{{X^2 + Y^2}}{{{w2!r}}} - 2)"
    equations = {
        "interior": rf"u_t - {DIFFUSION} \Delta u = {1 / w2!r} g \cdot ({drift} - {spread})",
        "boundary": "u = g",
        "t = 0": "u = g",
    }
    return Problem(
        "moving",
        "heat of a source that moves in a circle",
        {
            "coordinates": "x y t",
            "domain": box((0, 0), (1, 1), time=[0, 1]),
            "parameters": parameters,
            "equations": equations,
        },
        draw_points((0, 0, 0), (1, 1, 1)),
        column(moving_at),
    )


PROBLEMS = (narrow(), helmholtz(), moving())
