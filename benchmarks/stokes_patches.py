"""Patches with channels of different orders: Stokes and Oseen, on boxes and other domains, and under a sliding lid.

    python -m benchmarks.stokes_patches [NAME ...]

Smooth flows are manufactured (a stream function or a vector potential, and a pressure). The cavity is compared with
functions of Goursat's form, fitted to its boundary, at points further than 0.1 from the ends of the lid, velocities
only. Chosen on the cavity and on the vortex: that corner patches stay square, and the highest exponent of corner
functions; so the others are the ones to look at. Times are processor seconds of one thread, everything included. Exit
code 1 if a figure is missed. How a ball begins (an eighth of it in a patch) was chosen on `ball`.
"""

from __future__ import annotations

import sys

import numpy as np
import sympy as sp
import torch

import cnf
from benchmarks.cases import Case, run_cases
from benchmarks.engineering_problems.flow import cavity
from cnf.domains import Ball, Box, Difference, Disk, Domain

X, Y, Z = sp.symbols("x y z")
SMOOTH = sp.sin(2 * X + Y) * sp.cos(3 * Y - X), sp.sin(3 * X) * sp.cos(2 * Y + 1)
NARROW = sp.exp(-40 * ((X - 0.6) ** 2 + (Y - 0.4) ** 2)), sp.exp(X) * sp.sin(5 * Y) / 1000  # a vortex, hardly pushed


def flow(
    domain: Domain,
    target: float,
    fields: tuple[sp.Expr, sp.Expr] = SMOOTH,
    wind: tuple[int, int] = (0, 0),
) -> dict[str, object]:
    """-Laplace u + (wind . grad) u + grad p = f with velocities all around and the pressure at one point."""
    stream, p = fields
    velocities = {"u": stream.diff(Y), "v": -stream.diff(X)}
    equations = []
    for (name, field), slope in zip(velocities.items(), (X, Y), strict=True):
        side = -field.diff(X, 2) - field.diff(Y, 2) + wind[0] * field.diff(X) + wind[1] * field.diff(Y) + p.diff(slope)
        left = rf"-\Delta {name} + {wind[0]} {name}_x + {wind[1]} {name}_y + p_{slope}"
        equations.append({"on": "interior", "equation": f"{left} = {sp.latex(side)}"})
        equations.append({"on": "boundary", "equation": f"{name} = {sp.latex(field)}"})
    equations.append({"on": "interior", "equation": "u_x + v_y = 0"})
    equations.append({"equation": f"p(0.3, 0.6) = {float(p.subs({X: 0.3, Y: 0.6}))!r}"})
    return {
        "coordinates": "x y",
        "channels": "u v p",
        "domain": domain,
        "equations": equations,
        "exact": {name: sp.latex(field) for name, field in (*velocities.items(), ("p", p))},
        "solve": {"method": "patches", "target": target},
    }


def flow_in_space(domain: Domain, target: float) -> dict[str, object]:
    """-Laplace u + grad p = f in a solid with velocities all around and the pressure at one point."""
    a, b, c = sp.sin(2 * Y + Z) * sp.cos(X), sp.cos(Z - 2 * X), sp.sin(X + Y) * sp.exp(Z / 2)
    velocities = {"u": c.diff(Y) - b.diff(Z), "v": a.diff(Z) - c.diff(X), "w": b.diff(X) - a.diff(Y)}
    p = sp.sin(3 * X) * sp.cos(2 * Y + 1) * sp.exp(Z)
    equations = [{"on": "interior", "equation": "u_x + v_y + w_z = 0"}]
    for (name, field), slope in zip(velocities.items(), (X, Y, Z), strict=True):
        side = -sum(field.diff(k, 2) for k in (X, Y, Z)) + p.diff(slope)
        equations.append({"on": "interior", "equation": rf"-\Delta {name} + p_{slope} = {sp.latex(side)}"})
        equations.append({"on": "boundary", "equation": f"{name} = {sp.latex(field)}"})
    equations.append({"equation": f"p(0.1, 0.2, 0.1) = {float(p.subs({X: 0.1, Y: 0.2, Z: 0.1}))!r}"})
    return {
        "coordinates": "x y z",
        "channels": "u v w p",
        "domain": domain,
        "equations": equations,
        "exact": {name: sp.latex(field) for name, field in (*velocities.items(), ("p", p))},
        "solve": {"method": "patches", "target": target},
    }


def stirring(target: float) -> dict[str, object]:
    return {**cavity().entries, "solve": {"method": "patches", "target": target}}


def stirred(answer: cnf.Answer) -> float:
    lid = cavity()
    with torch.no_grad():
        found, wanted = answer(torch.from_numpy(lid.points))[:, :2].numpy(), lid.reference(lid.points)
    return float((np.linalg.norm(found - wanted, axis=0) / np.linalg.norm(wanted, axis=0)).max())


SQUARE, WIDE = Box((0, 0), (1, 1)), Box((-1, -1), (1, 1))
CASES = (
    Case("Stokes, square", flow(SQUARE, 1e-6), 1e-6),
    Case("Stokes, square", flow(SQUARE, 1e-9), 1e-9),
    Case("Oseen, wind (10, 3)", flow(WIDE, 1e-6, wind=(10, 3)), 1e-6),
    Case("vortex of width 0.1, small pressure", flow(SQUARE, 1e-5, NARROW), 1e-5),
    Case("Stokes, disk", flow(Disk((0, 0), 1), 1e-8), 1e-8),
    Case("Stokes around a hole", flow(Difference(WIDE, Disk((0.1, -0.2), 0.4)), 1e-6), 1e-6),
    Case("ball", flow_in_space(Ball((0, 0, 0), 1.0), 1e-3), 1e-3),
    Case(
        "around a ball", flow_in_space(Difference(Box((0, 0, 0), (1, 1, 1)), [Ball((0.5, 0.5, 0.5), 0.3)]), 1e-3), 1e-3
    ),
    Case("lid-driven cavity", stirring(1e-5), 1e-4, error=stirred),
    Case("lid-driven cavity", stirring(1e-6), 1e-4, error=stirred),
)


def main() -> int:
    torch.set_num_threads(1)
    wanted = sys.argv[1:]
    return int(run_cases([c for c in CASES if not wanted or c.name in wanted], patches=True) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
