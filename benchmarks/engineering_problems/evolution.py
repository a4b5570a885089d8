"""Time: heat whose data jump in the corners of space and time, and a pulse that goes to and fro ten times."""

from __future__ import annotations

import numpy as np
from scipy.special import erfc

from benchmarks.engineering_problems.problem import Array, Problem, column, draw_points

END, LONG, PULSE = 0.2, 20.0, 0.08


def cooling_at(x: Array, t: Array) -> Array:
    """A warm rod whose ends are cooled at once: images of the error function."""
    spread, total = 2 * np.sqrt(t), np.ones_like(x)
    for n in range(12):
        total -= (-1) ** n * (erfc((n + x) / spread) + erfc((n + 1 - x) / spread))
    return total


def cooling() -> Problem:
    equations = {"interior": "u_t - u_{xx} = 0", "t = 0": "u = 1", "x = 0": "u = 0", "x = 1": "u = 0"}
    return Problem(
        "heat-jump",
        "heat, data that jump",
        {
            "coordinates": "x t",
            "domain": {"type": "interval", "from": 0, "to": 1, "time": [0, END]},
            "equations": equations,
        },
        draw_points((0, 0), (1, END)),
        column(cooling_at),
        asked=1e-5,
    )


def pulse(s: Array) -> Array:
    return np.exp(-(((s - 0.4) / PULSE) ** 2))


def string_at(x: Array, t: Array) -> Array:
    """Half of the pulse goes right, half left, reflected at the ends: d'Alembert on the odd, periodic pulse."""

    def extended(s: Array) -> Array:
        s = np.mod(s, 2)
        return sum(pulse(s + 2 * m) - pulse(-s + 2 * m) for m in range(-1, 3))

    return (extended(x - t) + extended(x + t)) / 2


def string() -> Problem:
    start = rf"e^{{-((x - 0.4) / {PULSE})^2}} - e^{{-((x + 0.4) / {PULSE})^2}} - e^{{-((1.6 - x) / {PULSE})^2}}"
    equations = [
        {"on": "interior", "equation": "u_{tt} - u_{xx} = 0"},
        {"on": "t = 0", "equation": f"u = {start}"},
        {"on": "t = 0", "equation": "u_t = 0"},
        {"on": "x = 0", "equation": "u = 0"},
        {"on": "x = 1", "equation": "u = 0"},
    ]
    return Problem(
        "wave",
        "wave over ten periods",
        {
            "coordinates": "x t",
            "domain": {"type": "interval", "from": 0, "to": 1, "time": [0, LONG]},
            "equations": equations,
        },
        draw_points((0, 0), (1, LONG)),
        column(string_at),
        note="displacement",
    )


PROBLEMS = (cooling(), string())
