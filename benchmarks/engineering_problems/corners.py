"""Corners: the L-shaped bar under torsion, fixed all round, and with one free side, where u behaves like r^(1/3)."""

from __future__ import annotations

from functools import cache

import numpy as np

from benchmarks.engineering_problems.analytic import Analytic, Combination, Corner, edge, fit_harmonic, inward
from benchmarks.engineering_problems.problem import Array, Problem, draw_points

VERTICES = [(-1, -1), (1, -1), (1, 1), (0, 1), (0, 0), (-1, 0)]
CORNERS = [complex(*v) for v in VERTICES]
FREE = 3  # the edge from (0, 1) to (0, 0), the fourth


def inside(points: Array) -> Array:
    return (points[:, 0] > 0) | (points[:, 1] < 0)


@cache
def torsion(mixed: bool) -> tuple[Combination, float]:
    """-Laplace u = 1: u + |z|^2 / 4 is harmonic; its data ask for z^2 log z at a corner where 2 is an exponent."""
    into = inward(CORNERS)
    edges = [edge(z, CORNERS[(k + 1) % 6]) for k, z in enumerate(CORNERS)]
    step = [(2 * k - mixed) / 3 for k in range(1, 60)]
    inner = Corner(0, into[4], [s for s in step if s % 1 > 0.1], () if mixed else (2,))
    convex = [Corner(CORNERS[k], into[k], (), (2,)) for k in (0, 1, 2, 3, 5) if not (mixed and k == FREE)]
    basis = Analytic(0, 1.5, 50, [*convex, inner])
    free = [FREE] if mixed else []
    value = [(z, lambda z: np.abs(z) ** 2 / 4) for k, z in enumerate(edges) if k not in free]
    return fit_harmonic(basis, value, [edges[k] for k in free])


def reference(mixed: bool, points: Array) -> Array:
    z = points[:, 0] + 1j * points[:, 1]
    return (torsion(mixed)[0](z) - np.abs(z) ** 2 / 4)[:, None]


def lshape(mixed: bool) -> Problem:
    equations = {"interior": r"-\Delta u = 1", "boundary": "u = 0"}
    if mixed:
        equations = {
            "interior": r"-\Delta u = 1",
            "edge 4": r"\partial_n u = 0",
            "boundary except edge 4": "u = 0",
        }
    return Problem(
        "lshape-mixed" if mixed else "lshape",
        "L-shape, one side free, r^(1/3)" if mixed else "L-shape, r^(2/3)",
        {
            "coordinates": "x y",
            "domain": {"type": "polygon", "vertices": [list(v) for v in VERTICES]},
            "equations": equations,
        },
        draw_points((-1, -1), (1, 1), inside),
        lambda points: reference(mixed, points),
        asked=1e-7,
        trained_by=() if mixed else ("deepxde",),
    )


PROBLEMS = (lshape(False), lshape(True))
