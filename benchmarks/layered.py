"""Regions in one dimension, in space and during time: rods, walls, blocks, and a disk whose field decays.

    python -m benchmarks.layered [NAME ...]

All solutions are known: formulas of one dimension, modes that decay, and two formulas inside and outside of the disk
whose jumps are given on the interface. Nothing was chosen on these problems. Times are processor seconds of one thread,
everything included. Exit code 1 if a figure is missed.
"""

from __future__ import annotations

import math
import sys

import torch

from benchmarks.cases import Case, run_cases
from cnf.domains import Ball, Box, Difference, Disk, Domain, Interval, Timed

UNIT, CUBE, BELOW = Box((0, 0), (1, 1)), Box((0, 0, 0), (1, 1, 1)), Box((0, 0, 0), (1, 1, 0.4))
HOLE = Ball((0.5, 0.5, 0.45), 0.25)


def rod() -> dict[str, object]:
    """-(k u')' = 1 on three pieces with u = 0 at both ends: k u' = c - x, and c from the whole."""
    ends, ratios, names = (0.0, 0.3, 0.7, 1.0), (1.0, 100.0, 5.0), ("left", "middle", "rest")
    pieces = list(zip(ends[:-1], ends[1:], ratios, strict=True))
    c = sum((b * b - a * a) / (2 * k) for a, b, k in pieces) / sum((b - a) / k for a, b, k in pieces)
    fields, start = {}, 0.0
    for name, (a, b, k) in zip(names, pieces, strict=True):
        fields[name] = f"{start!r} + {1 / k!r} ({c!r} (x - {a}) - (x^2 - {a * a!r}) / 2)"
        start += (c * (b - a) - (b * b - a * a) / 2) / k
    return {
        "coordinates": "x",
        "domain": Interval(0, 1),
        "regions": {"left": Interval(0, 0.3), "middle": Interval(0.3, 0.7)},
        "parameters": {"k": dict(zip(names, ratios, strict=True))},
        "equations": {"interior": r"-\nabla\cdot(k \nabla u) = 1", "boundary": "u = 0"},
        "exact": fields,
        "solve": {"target": 1e-12},
    }


def block(domain: Domain, lower: Domain) -> dict[str, object]:
    """sin(pi x) sin(pi y) Z(z) with Z'' = 2 pi^2 Z; Z and k Z' are continuous at 0.4, k = 1 and 50."""
    rate, wave = math.sqrt(2) * math.pi, r"\sin(\pi x)\sin(\pi y)"
    a, b = math.sinh(0.4 * rate), math.cosh(0.4 * rate) / 50
    field = {
        "lower": rf"{wave} \sinh({rate!r} z)",
        "rest": rf"{wave} ({a!r} \cosh({rate!r} (z - 0.4)) + {b!r} \sinh({rate!r} (z - 0.4)))",
    }
    return {
        "coordinates": "x y z",
        "domain": domain,
        "regions": {"lower": lower},
        "parameters": {"k": {"lower": 1, "rest": 50}, "g": field},
        "equations": {"interior": r"-\nabla\cdot(k \nabla u) = 0", "boundary": "u = g"},
        "exact": field,
        "solve": {"target": 1e-4},
    }


def wall(domain: Domain, layer: Domain, coordinates: str, target: float) -> dict[str, object]:
    """e^-t X(x): X = sin x up to 0.4 where k = 1, and k X'' = -X with k = 4 beyond it."""
    a, b = math.sin(0.4), math.cos(0.4) / 2
    field = {"a": r"e^{-t} \sin x", "rest": rf"e^{{-t}} ({a!r} \cos(0.5 (x - 0.4)) + {b!r} \sin(0.5 (x - 0.4)))"}
    heat = r"u_t - \nabla\cdot(k \nabla u) = 0"
    return {
        "coordinates": coordinates,
        "domain": Timed(domain, 0, 1),
        "regions": {"a": layer},
        "parameters": {"k": {"a": 1, "rest": 4}, "g": field},
        "equations": {"interior": heat, "t = 0": "u = g", "boundary": "u = g"},
        "exact": field,
        "solve": {"target": target},
    }


def disk() -> dict[str, object]:
    """e^-t x^2 y in a disk ten times as conductive, e^-t sin(2x) cos(3y) around it; their jumps are given."""
    inner, outer = "x^2 y", r"\sin(2x)\cos(3y)"
    around = r"2 n_x \cos(2x)\cos(3y) - 3 n_y \sin(2x)\sin(3y)"
    field = {"a": f"e^{{-t}} {inner}", "rest": f"e^{{-t}} {outer}"}
    return {
        "coordinates": "x y t",
        "domain": Timed(Box((-1, -1), (1, 1)), 0, 1),
        "regions": {"a": Disk((0.1, 0.15), 0.4)},
        "parameters": {
            "k": {"a": 10, "rest": 1},
            "g": field,
            "f": {"a": f"-e^{{-t}} ({inner} + 20 y)", "rest": f"12 e^{{-t}} {outer}"},
        },
        "equations": [
            {"on": "interior", "equation": r"u_t - \nabla\cdot(k \nabla u) = f"},
            {"on": "boundary", "equation": "u = g"},
            {"on": "t = 0", "equation": "u = g"},
            {"on": "interface a", "equation": f"[u] = e^{{-t}} ({outer} - {inner})"},
            {
                "on": "interface a",
                "equation": rf"[k \partial_n u] = e^{{-t}} ({around} - 10 (2 x y n_x + x^2 n_y))",
            },
        ],
        "exact": {"u": field},
        "solve": {"target": 1e-4},
    }


CASES = (
    Case("rod", rod(), 1e-12),
    Case("wall during time", wall(Interval(0, 1), Interval(0, 0.4), "x t", 1e-9), 1e-9),
    Case("plate during time", wall(UNIT, Box((0, 0), (0.4, 1)), "x y t", 1e-6), 1e-6),
    Case("disk during time", disk(), 1e-4),
    Case("block", block(CUBE, BELOW), 1e-4),
    Case("block with a hole", block(Difference(CUBE, HOLE), Difference(BELOW, HOLE)), 1e-4),
)


def main() -> int:
    torch.set_num_threads(1)
    return int(run_cases(case for case in CASES if not sys.argv[1:] or case.name in sys.argv[1:]) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
