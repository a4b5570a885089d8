"""Holes: a disk with sixteen of them, a cube with f = 1, and the cube with four balls taken out (of PINNacle)."""

from __future__ import annotations

from functools import cache

import numpy as np

from benchmarks.engineering_problems.analytic import Analytic, Combination, circle, fit_harmonic
from benchmarks.engineering_problems.problem import Array, Problem, box, column, draw_points

RING = [
    *(complex(0.36 * np.exp(2j * np.pi * k / 5)) for k in range(5)),
    *(complex(0.73 * np.exp(2j * np.pi * (k + 0.3) / 11)) for k in range(11)),
]
HOLES = [(round(c.real, 3) + 1j * round(c.imag, 3), 0.06 + 0.01 * (k % 4)) for k, c in enumerate(RING)]
BALLS = [((0.4, 0.3, 0.6), 0.2), ((0.6, 0.7, 0.6), 0.2), ((0.2, 0.8, 0.7), 0.1), ((0.6, 0.2, 0.3), 0.1)]


@cache
def drained() -> tuple[Combination, float]:
    """-Laplace u = 1, u = 0 on all edges: u + |z|^2 / 4 from powers about the holes and logarithms."""
    edges = [circle(0, 1, 600), *(circle(c, r) for c, r in HOLES)]
    basis = Analytic(0, 1, 60, holes=HOLES, powers=24)
    return fit_harmonic(basis, [(z, lambda z: np.abs(z) ** 2 / 4) for z in edges], logarithms=[c for c, _ in HOLES])


def drained_at(x: Array, y: Array) -> Array:
    z = x + 1j * y
    return drained()[0](z) - np.abs(z) ** 2 / 4


def between_holes(points: Array) -> Array:
    z = points[:, 0] + 1j * points[:, 1]
    return (np.abs(z) < 1) & np.all([np.abs(z - c) > r for c, r in HOLES], axis=0)


def sieve() -> Problem:
    minus = [{"type": "disk", "center": [c.real, c.imag], "radius": r} for c, r in HOLES]
    domain = {"type": "difference", "of": {"type": "disk", "center": [0, 0], "radius": 1}, "minus": minus}
    return Problem(
        "holes",
        "Poisson, disk with 16 holes",
        {"coordinates": "x y", "domain": domain, "equations": {"interior": r"-\Delta u = 1", "boundary": "u = 0"}},
        draw_points((-1, -1), (1, 1), between_holes),
        column(drained_at),
        trained_by=("deepxde",),
    )


def cube_at(points: Array) -> Array:
    """-Laplace u = 1 in the unit cube, (P, 1): the square's solution minus a double series that decays along the third.

    Of the coordinates, the one furthest from its ends is the third, the next the second: both series are short then.
    """
    away = np.minimum(points, 1 - points)
    order = np.argsort(away, axis=1)
    x, y, z = np.take_along_axis(points, order, axis=1).T
    found = np.zeros(len(points))
    for lot in np.array_split(np.argsort(np.minimum(z, 1 - z)), min(40, len(z))):
        count = int(min(400, 12 / max(1e-3, np.minimum(z, 1 - z)[lot].min()))) // 2 + 4
        n = 2 * np.arange(count) + 1
        kappa = np.pi * np.sqrt(n[:, None] ** 2 + n**2)
        weights = 16 / (np.pi**4 * np.outer(n, n) * (n[:, None] ** 2 + n**2))
        sx, sy = (np.sin(np.pi * np.outer(c[lot], n)) for c in (x, y))
        decay = fading(kappa[None], z[lot][:, None, None])
        flat = x[lot] * (1 - x[lot]) / 2 - sum_of_modes(x[lot], y[lot])
        found[lot] = flat - np.einsum("pm,pn,mn,pmn->p", sx, sy, weights, decay)
    return found[:, None]


def sum_of_modes(x: Array, y: Array) -> Array:
    """4 / pi^3 sum over odd n of sin(n pi x) / n^3 cosh(n pi (y - 1/2)) / cosh(n pi / 2)."""
    n = 2 * np.arange(6000) + 1
    total = np.zeros(len(x))
    for part in np.array_split(n, 20):
        waves = np.sin(np.pi * np.outer(x, part)) / part**3 * fading(np.pi * part[None], y[:, None])
        total += waves.sum(axis=1)
    return 4 / np.pi**3 * total


def fading(k: Array, s: Array) -> Array:
    """cosh(k (s - 1/2)) / cosh(k / 2) without overflow."""
    s = np.maximum(s, 1 - s)
    return (np.exp(k * (s - 1)) + np.exp(-k * s)) / (1 + np.exp(-k))


def cube() -> Problem:
    return Problem(
        "cube",
        "cube, f = 1",
        {
            "coordinates": "x y z",
            "domain": box((0, 0, 0), (1, 1, 1)),
            "equations": {"interior": r"-\Delta u = 1", "boundary": "u = 0"},
        },
        draw_points((0, 0, 0), (1, 1, 1)),
        cube_at,
        seconds=60,
        trained_by=("deepxde",),
        digits=1e-9,
    )


def outside_balls(points: Array) -> Array:
    return np.all([np.linalg.norm(points - np.array(c), axis=1) > r for c, r in BALLS], axis=0)


def balls() -> Problem:
    """-Laplace u + 64 u = f with u = sin(pi x) cos(2 y) e^z: values on the cube, fluxes on the balls."""

    def exact(x: Array, y: Array, z: Array) -> Array:
        return np.sin(np.pi * x) * np.cos(2 * y) * np.exp(z)

    minus = [{"type": "ball", "name": f"ball{k + 1}", "center": list(c), "radius": r} for k, (c, r) in enumerate(BALLS)]
    names = ", ".join(f"ball{k + 1}" for k in range(len(BALLS)))
    slope = [r"\pi \cos(\pi x)\cos(2y) e^z", r"-2 \sin(\pi x)\sin(2y) e^z", r"\sin(\pi x)\cos(2y) e^z"]
    flux = " + ".join(f"n_{c} ({s})" for c, s in zip("xyz", slope, strict=True))
    equations = {
        "interior": r"-\Delta u + 64 u = (67 + \pi^2) \sin(\pi x)\cos(2y) e^z",
        f"boundary except {names}": r"u = \sin(\pi x)\cos(2y) e^z",
        names: rf"\partial_n u = {flux}",
    }
    domain = {"type": "difference", "of": box((0, 0, 0), (1, 1, 1)), "minus": minus}
    return Problem(
        "balls",
        "cube without four balls",
        {"coordinates": "x y z", "domain": domain, "equations": equations},
        draw_points((0, 0, 0), (1, 1, 1), outside_balls),
        column(exact),
        asked=1e-3,
        seconds=300,
        note="geometry of PINNacle's Poisson3d-CG, manufactured solution",
    )


PROBLEMS = (sieve(), cube(), balls())
