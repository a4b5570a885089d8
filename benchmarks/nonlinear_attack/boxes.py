"""Boxes: small nonlinear problems of the problem tool, with all its methods, solved and looked at independently."""

from __future__ import annotations

import numpy as np
import sympy as sp

import cnf
from benchmarks.attack.setting import Setting
from benchmarks.manufactured import latex
from benchmarks.nonlinear_attack.expressions import Writer, Written
from benchmarks.nonlinear_attack.problems import Part

METHODS = ("patches", "patches", "waves", "auto")
TARGET = 1e-3


def draw_box(seed: int, number: int) -> tuple[cnf.Problem, Setting, dict[str, tuple[Written, sp.Expr]], str]:
    """-c Laplace u + terms in u and its slopes = f on an interval or a square, values given all around.

    The problem, its setting, every condition with its right-hand side by the name of its place, and a description.
    """
    rng = np.random.default_rng([seed, number, 15])
    dimension = int(rng.choice([1, 1, 1, 2]))
    names = ("x", "y")[:dimension]
    setting = Setting(names, ("u",), np.zeros(dimension), np.ones(dimension))
    writer = Writer(rng, setting)
    (known,), (c, factor) = writer.known(), writer.number(0.5, 2.0)
    (more, added), u = writer.term(), writer.u[0]
    while sum(sp.diff(added, d) != 0 for d in added.atoms(sp.Derivative) if len(d.variables) > 1):  # of second order
        more, added = writer.term()
    expr = -factor * sum(sp.diff(u, x, 2) for x in writer.x) + added
    made = rng.random() < 0.7
    side = expr.subs(u, known).doit() if made else sp.Float(f"{rng.normal(scale=5):.2f}")
    around = known if made else sp.Float(f"{rng.normal():.2f}")
    method = str(rng.choice(METHODS))
    equations = {
        "interior": rf"-{c} \Delta u + {more} = {latex(side)}",
        "boundary": f"u = {latex(around)}",
    }
    domain = cnf.Box((0,) * dimension, (1,) * dimension)
    solve = {"method": method, "target": TARGET}
    problem = cnf.Problem(coordinates=" ".join(names), domain=domain, equations=equations, solve=solve)
    asked = {"interior": (Written("", (expr,)), side), "boundary": (Written("u", (u,)), around)}
    return problem, setting, asked, f"{equations['interior']}; {equations['boundary']} | {method}"


def parts_of(solution: cnf.Solution, setting: Setting, asked: dict[str, tuple[Written, sp.Expr]]) -> dict[str, Part]:
    """The conditions at the points that the tool chose for them, with right-hand sides by SymPy."""
    found = {}
    for constraint in solution.constraints:
        key = next((name for name in asked if constraint.name.startswith(name)), None)
        if key is None:
            continue
        points = constraint.points.detach().double().numpy()
        function = sp.lambdify([sp.Symbol(n, real=True) for n in setting.coordinates], asked[key][1], "numpy")
        values = np.broadcast_to(np.asarray(function(*points.T), dtype=float), points.shape[:1])
        found[constraint.name] = Part(asked[key][0], points, values[:, None])
    return found
