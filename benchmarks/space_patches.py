"""Patches in space: boxes, and solids with curved boundaries.

    python -m benchmarks.space_patches [NAME ...]

All but one have a known solution; the cube with f = 1 is compared with its series, which converges fast if the
coordinate farthest from the faces is the one that is solved exactly. How many points the curved boundary gets, and how
estimates follow from the degrees below, was chosen on balls and on holes with a smooth solution, so `bar`, `layer` and
`oscillating` are the ones to look at. Times are processor seconds of one thread, everything included. Exit code 1 if a
figure is missed.
"""

from __future__ import annotations

import sys

import numpy as np
import torch

import cnf
from benchmarks.cases import Case, run_cases
from cnf.domains import Ball, Box, Difference, Domain, Union

CUBE = Box((0, 0, 0), (1, 1, 1))
HOLE = Difference(CUBE, [Ball((0.5, 0.5, 0.5), 0.3)])
BALLS = [((0.4, 0.3, 0.6), 0.2), ((0.6, 0.7, 0.6), 0.2), ((0.2, 0.8, 0.7), 0.1), ((0.6, 0.2, 0.3), 0.1)]
FOUR = Difference(CUBE, [Ball(center, radius) for center, radius in BALLS])
BAR = Union([Ball((0, 0, 0), 0.6), Box((0, -0.3, -0.3), (1, 0.3, 0.3))])
SMOOTH = r"\sin(3x + 1)\cos(2y) e^z"
WAVE = r"\sin(\pi x)\sin(5\pi y)\sin(3\pi z)"
LAYER = r"\frac{e^{(x - 1)/0.05} - e^{-20}}{1 - e^{-20}} \sin(y) \cos(z)"


def entries(domain: Domain, equations: dict[str, str], target: float, **more: object) -> dict[str, object]:
    solve = {"method": "patches", "target": target}
    return {"coordinates": "x y z", "domain": domain, "equations": equations, "solve": solve, **more}


def poisson(name: str, domain: Domain, target: float) -> Case:
    equations = {"interior": rf"-\Delta u = 12 {SMOOTH}", "boundary": f"u = {SMOOTH}"}
    return Case(name, entries(domain, equations, target, exact=SMOOTH), target)


def series(points: np.ndarray) -> np.ndarray:
    """-Laplace u = 1 in the cube, u = 0 on its faces: the solution of the square less what the two faces take away."""
    order = np.argsort(np.minimum(points, 1 - points), axis=1)
    x, y, z = (np.take_along_axis(points, order[:, k : k + 1], axis=1) for k in range(3))
    odd = np.arange(1, 300, 2)

    def faces(rate: np.ndarray, at: np.ndarray) -> np.ndarray:
        return (np.exp(-rate * at) + np.exp(-rate * (1 - at))) / (1 + np.exp(-rate))

    found = (x * (1 - x) / 2)[:, 0] - (4 / (np.pi * odd) ** 3 * np.sin(odd * np.pi * x) * faces(odd * np.pi, y)).sum(
        axis=1
    )
    for m in odd:
        rate = np.pi * np.hypot(m, odd)
        waves = np.sin(m * np.pi * x) * np.sin(odd * np.pi * y)
        found -= (16 / (np.pi**2 * m * odd * rate**2) * waves * faces(rate, z)).sum(axis=1)
    return found


def against_series(answer: cnf.Answer) -> float:
    x = np.random.default_rng(0).random((1000, 3))
    with torch.no_grad():
        found, exact = answer(torch.from_numpy(x))[:, 0].numpy(), series(x)
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


THIN = {"interior": rf"-0.05 \Delta u + u_x = 0.1 {LAYER}", "boundary": f"u = {LAYER}"}
ONE = {"interior": r"-\Delta u = 1", "boundary": "u = 0"}
WAVES = {"interior": rf"-\Delta u + 64 u = (35\pi^2 + 64) {WAVE}", "boundary": f"u = {WAVE}"}
CASES = (
    poisson("box", CUBE, 1e-8),
    poisson("ball", Ball((0, 0, 0), 1.0), 1e-6),
    poisson("hole", HOLE, 1e-6),
    poisson("bar", BAR, 1e-5),
    Case("layer", entries(CUBE, THIN, 1e-5, exact=LAYER), 1e-5),
    Case("one", entries(CUBE, ONE, 1e-6), 1e-6, 60, error=against_series),
    Case("oscillating", entries(FOUR, WAVES, 1e-3, exact=WAVE), 1e-3, 300),
)


def main() -> int:
    torch.set_num_threads(1)
    cases = {case.name: case for case in CASES}
    return int(run_cases(cases[name] for name in sys.argv[1:] or cases) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
