"""Plane strain with Lame constants 1.5 and 1: a cantilever with a loaded end, and a plate with a hole under tension."""

from __future__ import annotations

from functools import cache

import numpy as np

from benchmarks.engineering_problems.analytic import (
    Analytic,
    Combination,
    Corner,
    edge,
    exponents,
    fit_goursat,
    inward,
)
from benchmarks.engineering_problems.problem import Array, Problem, box, draw_points

KAPPA = 1.8  # 3 - 4 nu, nu = 0.3
RADIUS = 0.3
INTERIOR = ("-3.5 u_{xx} - u_{yy} - 2.5 v_{xy} = 0", "-v_{xx} - 3.5 v_{yy} - 2.5 u_{xy} = 0")
SIDES = ([0, 4], [4, 4 + 1j], [4 + 1j, 1j], [1j, 0])


@cache
def bent() -> tuple[Combination, float]:
    """Clamped at x = 0, loaded by the shear -4 y (1 - y) at x = 4: exponents of Williams at the corners."""
    clamped = exponents(lambda s: np.sin(s * np.pi / 2) ** 2 - (KAPPA + 1) ** 2 / (4 * KAPPA) + s**2 / KAPPA, 14)
    free = exponents(lambda s: np.sin(s * np.pi / 2) ** 2 - s**2, 14)
    places: list[complex] = [0, 4, 4 + 1j, 1j]
    into = inward(places)
    corners = [Corner(places[k], into[k], clamped if k in (0, 3) else free) for k in range(4)]
    bottom, end, top, wall = (edge(*side) for side in SIDES)
    force = [
        (bottom, lambda z: 0 * z),
        (end, lambda z: 2 * z.imag**2 - 4 / 3 * z.imag**3 + 0j),
        (top, lambda z: 0 * z + 2 / 3),
    ]
    return fit_goursat(Analytic(2 + 0.5j, 2, 60, corners), KAPPA, [(wall, lambda z: 0 * z)], force)


def bent_at(points: Array) -> Array:
    w = bent()[0](points[:, 0] + 1j * points[:, 1]) / 2
    return np.stack([w.real, w.imag], axis=1)


def cantilever() -> Problem:
    free = [{"on": s, "equation": e} for s in ("y = 0", "y = 1") for e in ("u_y + v_x = 0", "3.5 v_y + 1.5 u_x = 0")]
    equations = [
        *({"on": "interior", "equation": e} for e in INTERIOR),
        *({"on": "x = 0", "equation": e} for e in ("u = 0", "v = 0")),
        *free,
        {"on": "x = 4", "equation": "3.5 u_x + 1.5 v_y = 0"},
        {"on": "x = 4", "equation": "u_y + v_x = -4 y (1 - y)"},
    ]
    entries = {"coordinates": "x y", "channels": "u v", "domain": box((0, 0), (4, 1)), "equations": equations}
    return Problem(
        "cantilever",
        "cantilever 4 : 1, end load",
        entries,
        draw_points((0, 0), (4, 1)),
        bent_at,
        asked=1e-5,
        seconds=60,
    )


def pulled_at(points: Array) -> Array:
    """Kirsch: the infinite plate under unit tension along x, with a free hole, (P, 2)."""
    x, y = points.T
    r2 = x * x + y * y
    a2 = RADIUS**2
    cos3, sin3 = 4 * x**3 - 3 * x * r2, 3 * y * r2 - 4 * y**3  # r^3 cos 3 theta, r^3 sin 3 theta
    u = 2.8 * x + 2 * a2 * (2.8 * x / r2 + cos3 / r2**2) - 2 * a2**2 * cos3 / r2**3
    v = -1.2 * y + 2 * a2 * (-0.8 * y / r2 + sin3 / r2**2) - 2 * a2**2 * sin3 / r2**3
    return np.stack([u, v], axis=1) / 8


def plate() -> Problem:
    square = "(x^2 + y^2)"

    def displacement(first: str, second: str, wave: str) -> str:
        near = rf"2 \cdot 0.09 ({second} / {square} + \frac{{{wave}}}{{{square}^2}})"
        return rf"\frac{{1}}{{8}} ({first} + {near} - 2 \cdot 0.0081 \frac{{{wave}}}{{{square}^3}})"

    cos, sin = rf"(4x^3 - 3x {square})", rf"(3y {square} - 4y^3)"
    u, v = displacement("2.8 x", "2.8 x", cos), displacement("-1.2 y", "-0.8 y", sin)
    equations = [
        *({"on": "interior", "equation": e} for e in INTERIOR),
        *({"on": "boundary except hole", "equation": e} for e in (f"u = {u}", f"v = {v}")),
        {"on": "hole", "equation": "n_x (3.5 u_x + 1.5 v_y) + n_y (u_y + v_x) = 0"},
        {"on": "hole", "equation": "n_x (u_y + v_x) + n_y (3.5 v_y + 1.5 u_x) = 0"},
    ]
    hole = {"type": "disk", "name": "hole", "center": [0, 0], "radius": RADIUS}
    domain = {"type": "difference", "of": box((-1, -1), (1, 1)), "minus": [hole]}
    return Problem(
        "plate",
        "plate with a hole (Kirsch)",
        {"coordinates": "x y", "channels": "u v", "domain": domain, "equations": equations},
        draw_points((-1, -1), (1, 1), lambda p: np.hypot(*p.T) > RADIUS),
        pulled_at,
        asked=1e-5,
        seconds=60,
    )


PROBLEMS = (cantilever(), plate())
