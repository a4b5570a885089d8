"""Patches in time: data that jump, planar domains of any shape and curved solids during time, sources that move, waves.

    python -m benchmarks.time_patches [NAME ...]

Compared with known solutions: Fourier series, error functions, manufactured fields, d'Alembert's. Degrees were chosen
on the disk and the plate with four holes, those of waves and the length of their slabs on the pulse on a string, where
a boundary cuts patches on a triangle and a disk, slabs of solids on the block with values on its hole and on one mode
of the ball, windows on the bump that drifts (with other constants beside it), sources in the plane on that of
`benchmarks.engineering`; refinement is that of `benchmarks.patches`; nothing was chosen on the others. Times are
processor seconds of one thread, everything included. Exit code 1 if a figure is missed.
"""

from __future__ import annotations

import sys

import numpy as np
import torch

import cnf
from benchmarks.cases import Case, run_cases
from benchmarks.engineering_problems.evolution import string, string_at
from cnf.domains import Ball, Box, Difference, Disk, Polygon, Timed

WAVY = r"e^{-t} \sin(2x + 1) \cos(3y)"
HEAT = {"interior": rf"u_t - 0.1 \Delta u = 0.3 {WAVY}", "t = 0": r"u = \sin(2x + 1) \cos(3y)"}
FOUR = Difference(Box((0, 0), (1, 1)), [Disk((x, y), 0.12) for x in (0.3, 0.7) for y in (0.3, 0.7)])
L_SHAPE = Polygon([(-1, -1), (1, -1), (1, 1), (0, 1), (0, 0), (-1, 0)])
FRAME = Difference(Box((0, 0), (3, 3)), [Box((1, 1), (2, 2))])
PLACE = r"\frac{x - t / 2 - 0.2}{0.02}"
MOVING = {
    "interior": rf"u_t - 0.001 u_{{xx}} = e^{{-({PLACE})^2}} (50 ({PLACE}) - 2.5 (4 ({PLACE})^2 - 2))",
    "boundary": rf"u = e^{{-({PLACE})^2}}",
    "t = 0": r"u = e^{-(\frac{x - 0.2}{0.02})^2}",
}


def cooled(answer: cnf.Answer) -> float:
    """u = 1 at the start, 0 at both ends: against the sine series."""
    x = answer.problem.domain.random(2000, torch.Generator().manual_seed(0))
    place, moment = x.numpy().T[:, :, None]
    n = np.arange(1, 2000, 2)
    exact = (4 / (np.pi * n) * np.sin(np.pi * n * place) * np.exp(-((np.pi * n) ** 2) * moment)).sum(axis=1)
    with torch.no_grad():
        found = answer(x)[:, 0].numpy()
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def plucked(answer: cnf.Answer) -> float:
    """The pulse on a string: against d'Alembert."""
    x = answer.problem.domain.random(5000, torch.Generator().manual_seed(0))
    exact = string_at(*x.numpy().T)
    with torch.no_grad():
        found = answer(x)[:, 0].numpy()
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def standing(interior: str, shape: str, clock: str, *boundary: str) -> dict[str, object]:
    """Equations, and the exact solution, of a standing wave that starts at rest."""
    equations = [
        {"on": "interior", "equation": interior},
        {"on": "t = 0", "equation": f"u = {shape}"},
        {"on": "t = 0", "equation": "u_t = 0"},
        *({"on": "boundary", "equation": e} for e in boundary),
    ]
    return {"equations": equations, "exact": rf"({shape}) \cos({clock} t)"}


def entries(domain: object, equations: object, target: float, **more: object) -> dict[str, object]:
    names = {2: "x t", 3: "x y t", 4: "x y z t"}[domain.dimension]  # type: ignore[attr-defined]
    solve = {"method": "patches", "target": target}
    return {"coordinates": names, "domain": domain, "equations": equations, "solve": solve, **more}


WIDTH = "(0.0072 + 0.004 t)"
DRIFT = rf"0.001 + \frac{{0.0072}}{{{WIDTH}}} e^{{-((x - 0.25 - 0.5 t)^2 + (y - 0.3 - 0.3 t)^2) / {WIDTH}}}"
DRIFTING = {
    "interior": r"u_t + 0.5 u_x + 0.3 u_y - 0.001 \Delta u = 0",
    "boundary": f"u = {DRIFT}",
    "t = 0": f"u = {DRIFT}",
}
BLOCK = Difference(Box((0, 0, 0), (1, 1, 1), name="box"), [Ball((0.5, 0.5, 0.5), 0.3, name="hole")])
WARM = r"\sin(2x + 1)\cos(y) e^z"
SLOPE = r"2\cos(2x + 1)\cos(y)(x - 0.5) - \sin(2x + 1)\sin(y)(y - 0.5) + \sin(2x + 1)\cos(y)(z - 0.5)"
COOLING = {
    "interior": rf"u_t - \Delta u = 3 e^{{-t}} {WARM}",
    "t = 0": f"u = {WARM}",
    "box": f"u = e^{{-t}} {WARM}",
    "hole": rf"\partial_n u + 2 u = -e^{{z - t}} ({SLOPE}) / 0.3 + 2 e^{{-t}} {WARM}",
}
RADIUS = r"\sqrt{x^2 + y^2 + z^2}"
MODE = rf"\frac{{\sin(\pi {RADIUS})}}{{{RADIUS}}}"
COLD = {"interior": r"u_t = \Delta u", "t = 0": f"u = {MODE}", "boundary": "u = 0"}
SWAY = r"\cos(6t)\sin(x + 2y) + z^2"
SWAYING = {
    "interior": r"u_t - 0.2\Delta u + u_x = \sin(x + 2y)(\cos(6t) - 6\sin(6t)) - 0.4 + \cos(6t)\cos(x + 2y)",
    "t = 0": r"u = \sin(x + 2y) + z^2",
    "boundary": f"u = {SWAY}",
}
SINE, COSINE, DRUM = r"\sin(\pi x)", r"\cos(\pi x)", r"\sin(\pi x) \sin(2 \pi y)"
CORNERED, ROUND = r"\sin(\pi x) \sin(\pi y)", r"\cos(2x + 1) \cos(y)"
KLEIN, BEAT, TONE = r"\sqrt{\pi^2 + 9}", r"\sqrt{5} \pi", r"\sqrt{2} \pi"
FREE, HELD = r"\partial_n u = 0", ("u = 0", "u_{xx} = 0")
JUMP = {"interior": "u_t = u_{xx}", "boundary": "u = 0", "t = 0": "u = 1"}
EDGE = {"boundary": f"u = {WAVY}"}
CASES = (
    Case("heat with jumping data", entries(Timed(Box(0, 1), 0, 0.2), JUMP, 1e-6), 1e-5, error=cooled),
    Case("the same for long", entries(Timed(Box(0, 1), 0, 20), JUMP, 1e-6), 1e-5, error=cooled),
    Case("disk", entries(Timed(Disk((0, 0), 1), 0, 0.5), HEAT | EDGE, 1e-4, exact=WAVY), 1e-4),
    Case("plate with four holes", entries(Timed(FOUR, 0, 0.5), HEAT | EDGE, 1e-4, exact=WAVY), 1e-4),
    Case(
        "ball, one mode", entries(Timed(Ball((0, 0, 0), 1), 0, 0.1), COLD, 1e-3, exact=rf"e^{{-\pi^2 t}} {MODE}"), 1e-3
    ),
    Case("block with a hole, Robin", entries(Timed(BLOCK, 0, 0.1), COOLING, 1e-5, exact=f"e^{{-t}} {WARM}"), 1e-5),
    Case("block with a hole, swaying", entries(Timed(BLOCK, 0, 2), SWAYING, 1e-4, exact=SWAY), 1e-4),
    *(
        Case(
            f"moving source until {until:g}",
            entries(Timed(Box(0, 1), 0, until), MOVING, 1e-6, exact=rf"e^{{-({PLACE})^2}}"),
            1e-6,
        )
        for until in (0.25, 0.5, 1.0)
    ),
    Case("bump that drifts", entries(Timed(Box((0, 0), (1, 1)), 0, 1), DRIFTING, 1e-4, exact=DRIFT), 1e-4),
    Case(
        "pulse on a string, to and fro ten times",
        {**string().entries, "solve": {"method": "patches", "target": 1e-7}},
        1e-7,
        error=plucked,
    ),
    Case(
        "Klein-Gordon, free ends",
        entries(Timed(Box(0, 1), 0, 20), target=1e-8, **standing("u_{tt} = u_{xx} - 9 u", COSINE, KLEIN, FREE)),
        1e-8,
    ),
    Case(
        "beam on two supports",
        entries(Timed(Box(0, 1), 0, 2), target=1e-6, **standing("u_{tt} + u_{xxxx} = 0", SINE, r"\pi^2", *HELD)),
        1e-6,
    ),
    Case(
        "membrane, square",
        entries(Timed(Box((0, 0), (1, 1)), 0, 2), target=1e-4, **standing(r"u_{tt} = \Delta u", DRUM, BEAT, "u = 0")),
        1e-4,
    ),
    Case(
        "membrane, L, nearly six periods",
        entries(Timed(L_SHAPE, 0, 8), target=1e-4, **standing(r"u_{tt} = \Delta u", CORNERED, TONE, "u = 0")),
        1e-4,
    ),
    Case(
        "membrane, frame",
        entries(Timed(FRAME, 0, 3), target=1e-4, **standing(r"u_{tt} = \Delta u", CORNERED, TONE, "u = 0")),
        1e-4,
    ),
    Case(
        "membrane, disk",
        entries(
            Timed(Disk((0, 0), 1), 0, 4),
            target=1e-4,
            **standing(r"u_{tt} = \Delta u", ROUND, r"\sqrt{5}", rf"u = {ROUND} \cos(\sqrt{{5}} t)"),
        ),
        1e-4,
    ),
)


def main() -> int:
    torch.set_num_threads(1)
    cases = {case.name: case for case in CASES}
    return int(run_cases([cases[name] for name in sys.argv[1:] or cases], estimated=True) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
