"""The seven linear problems that fastlsq ships, as entries of cnf: smooth, global, up to six coordinates.

Time is scaled to [0, 1] as there. cnf gets what fastlsq gets: the equation, values and velocities at the start, values
around (for the heat equation the slope along the normal).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.engineering_problems.problem import Array, Problem, box, column, draw_points

PI = np.pi
SPACE = ("x_1", "x_2", "x_3", "x_4", "x_5")


def helmholtz(x: Array, y: Array) -> Array:
    return np.sin(10 * x) * np.sin(10 * y)


def string(x: Array, t: Array) -> Array:
    return np.sin(PI * x) * np.cos(2 * PI * t) + 0.5 * np.sin(4 * PI * x) * np.cos(8 * PI * t)


def cavity(x: Array, y: Array, t: Array) -> Array:
    return np.sin(PI * x) * np.sin(PI * y) * np.cos(np.sqrt(2) * PI * t)


def membrane(x: Array, y: Array, t: Array) -> Array:
    return np.sin(PI * x) * np.sin(PI * y) * np.cos(4 * np.sqrt(3) * PI * t)


def pressure_wave(points: Array) -> Array:
    x, y, t = points.T
    swing = PI * np.cos(4 * np.sqrt(2) * PI * t)
    return np.stack([np.cos(PI * x) * np.sin(PI * y), np.sin(PI * x) * np.cos(PI * y)], axis=1) * swing[:, None]


def sines(points: Array) -> Array:
    return np.sin(PI / 2 * points).sum(axis=1, keepdims=True)


def growing(points: Array) -> Array:
    return np.exp(0.5 * np.square(points[:, :5]).sum(axis=1) + points[:, 5])[:, None]


def membrane_like(name: str, title: str, speed: str, a2: str, exact: Callable[..., Array]) -> Problem:
    """u_tt = speed^2 (u_xx + a2 u_yy), u = 0 around, from sin(pi x) sin(pi y) at rest."""
    equations = [
        {"on": "interior", "equation": rf"u_{{tt}} - {speed} (u_{{xx}} + {a2} u_{{yy}}) = 0"},
        {"on": "boundary", "equation": "u = 0"},
        {"on": "t = 0", "equation": r"u = \sin(\pi x)\sin(\pi y)"},
        {"on": "t = 0", "equation": "u_t = 0", "name": "at rest"},
    ]
    entries = {"coordinates": "x y t", "domain": box((0, 0), (1, 1), time=[0, 1]), "equations": equations}
    return Problem(name, title, entries, draw_points((0, 0, 0), (1, 1, 1)), column(exact))


def elastic_wave() -> Problem:
    """t_max = 2, c_p = 2, c_s = 1: all terms in space times four."""
    swing = r"\cos(4 \sqrt{2} \pi t)"
    u, v = rf"\pi \cos(\pi x)\sin(\pi y) {swing}", rf"\pi \sin(\pi x)\cos(\pi y) {swing}"
    first = "u_{tt} - 4 (4 u_{xx} + u_{yy} + 3 v_{xy}) = 0"
    second = "v_{tt} - 4 (4 v_{yy} + v_{xx} + 3 u_{xy}) = 0"
    equations = [{"on": "interior", "equation": e} for e in (first, second)]
    equations += [{"on": "boundary", "equation": e} for e in (f"u = {u}", f"v = {v}")]
    equations += [{"on": "t = 0", "equation": e} for e in (f"u = {u}", f"v = {v}", "u_t = 0", "v_t = 0")]
    entries = {
        "coordinates": "x y t",
        "channels": "u v",
        "domain": box((0, 0), (1, 1), time=[0, 1]),
        "equations": equations,
    }
    return Problem("elastic-wave", "elastic wave", entries, draw_points((0, 0, 0), (1, 1, 1)), pressure_wave)


def poisson_5d() -> Problem:
    total = " + ".join(rf"\sin(\frac{{\pi}}{{2}} {x})" for x in SPACE)
    equations = {"interior": rf"-\Delta u = \frac{{\pi^2}}{{4}} ({total})", "boundary": f"u = {total}"}
    entries = {"coordinates": " ".join(SPACE), "domain": box((0,) * 5, (1,) * 5), "equations": equations}
    return Problem("poisson-5d", "Poisson, five coordinates", entries, draw_points((0,) * 5, (1,) * 5), sines)


def heat_6d() -> Problem:
    """In the unit ball of five coordinates, u = e^(r^2 / 2 + t): u_n = r u = u on the boundary."""
    square = " + ".join(f"{x}^2" for x in SPACE)
    growth = rf"e^{{\frac{{1}}{{2}} ({square}) + t}}"
    equations = {
        "interior": rf"u_t - 0.2 \Delta u = -0.2 ({square}) {growth}",
        "boundary": rf"\partial_n u = {growth}",
        "t = 0": rf"u = {growth.replace(' + t', '')}",
    }
    ball = {"type": "ball", "center": [0] * 5, "radius": 1, "time": [0, 1]}
    entries = {"coordinates": " ".join((*SPACE, "t")), "domain": ball, "equations": equations}

    def inside(points: Array) -> Array:
        return np.square(points[:, :5]).sum(axis=1) < 1

    points = draw_points((-1,) * 5 + (0,), (1,) * 6, inside)
    return Problem("heat-6d", "heat, five coordinates and time", entries, points, growing)


def plain(name: str, title: str, entries: dict[str, object], exact: Callable[..., Array]) -> Problem:
    return Problem(name, title, entries, draw_points((0, 0), (1, 1)), column(exact))


SMOOTH: dict[str, Problem] = {
    p.name: p
    for p in (
        plain(
            "helmholtz-10",
            "Helmholtz, k = 10",
            {
                "coordinates": "x y",
                "domain": box((0, 0), (1, 1)),
                "equations": {
                    "interior": r"\Delta u + 100 u = -100 \sin(10x)\sin(10y)",
                    "boundary": r"u = \sin(10x)\sin(10y)",
                },
            },
            helmholtz,
        ),
        plain(
            "wave-1d",
            "wave, one coordinate",
            {
                "coordinates": "x t",
                "domain": {"type": "interval", "from": 0, "to": 1, "time": [0, 1]},
                "equations": [
                    {"on": "interior", "equation": "u_{tt} - 4 u_{xx} = 0"},
                    {"on": "boundary", "equation": "u = 0"},
                    {"on": "t = 0", "equation": r"u = \sin(\pi x) + 0.5 \sin(4\pi x)"},
                    {"on": "t = 0", "equation": "u_t = 0", "name": "at rest"},
                ],
            },
            string,
        ),
        membrane_like("maxwell", "Maxwell, cavity", "1", "1", cavity),
        membrane_like("wave-2d", "wave, two coordinates, anisotropic", "16", "2", membrane),
        elastic_wave(),
        poisson_5d(),
        heat_6d(),
    )
}
