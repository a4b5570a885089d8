"""One nonlinear problem with tfc: a constrained expression with Chebyshev polynomials, its nonlinear least squares.

Degree and points of its own test are those of tfc (20 and 20 x 20); for the others the degree is chosen by hand, high
enough for the exact solution, which a user finds in a few tries that are not counted. Time includes the compilation
by JAX; the setting says how long the same solve takes once compiled.
"""

from __future__ import annotations

import argparse

import jax
import numpy as np
from jax import numpy as jnp
from tfc import mtfc, utfc
from tfc.utils import NLLS, egrad

from benchmarks.peer_scripts.measuring import Solved, Stopwatch, run_peer
from benchmarks.peer_scripts.nonlinear_problems import NONLINEAR, PI, NonlinearProblem, sines
from benchmarks.peer_scripts.problems import Array, Index
from benchmarks.peer_scripts.tfc_peer import take_derivative

DEGREES = {
    "nl-poisson": 20,
    "bratu": 20,
    "steady-burgers": 40,
    "nl-helmholtz": 20,
    "allen-cahn": 30,
    "tfc-test": 20,
    "cubic": 40,
}


def connect(name: str, g, module):
    """g minus what it gets wrong on the boundary, as a function of the coordinates."""
    zero = module.zeros_like

    def wrong(x, y):
        return g(x, y) - (sines(x, y, module, 3.0) if name == "nl-helmholtz" else 0.0)

    def sides(x, y):
        return (1 - x) * wrong(zero(x), y) + x * wrong(zero(x) + 1, y)

    def of_square(x, y):
        between = [wrong(x, zero(y) + at) - sides(x, zero(y) + at) for at in (0.0, 1.0)]
        return g(x, y) - sides(x, y) - (1 - y) * between[0] - y * between[1]

    def of_line(x):
        return g(x) - (1 - x) * g(zero(x)) - x * g(zero(x) + 1)

    def held(x, y):  # at both sides
        return g(x, y) - sides(x, y)

    def of_test(x, y):  # a value below, a slope above
        slope = 2 * module.sin(PI * x) - egrad(held, 1)(x, zero(y) + 1)
        return held(x, y) - held(x, zero(y)) + y * slope

    return {"tfc-test": of_test, "steady-burgers": of_line, "allen-cahn": of_line}.get(name, of_square)


def build(problem: NonlinearProblem, degree: int):
    points = degree if problem.name == "tfc-test" else degree + 2
    if problem.dimension == 1:
        return utfc(points, 2, degree, basis="CP", x0=0.0, xf=1.0)
    return mtfc([points] * 2, [2, 2], degree, dim=2, basis="CP", x0=[0.0, 0.0], xf=[1.0, 1.0])


def solve(problem: NonlinearProblem, asked: argparse.Namespace) -> Solved:
    jax.config.update("jax_enable_x64", True)
    degree = DEGREES[problem.name]
    watch = Stopwatch()
    functions = build(problem, degree)
    points = (functions.x,) if problem.dimension == 1 else tuple(functions.x)

    def field(xi, *x):
        return connect(problem.name, lambda *p: functions.H(*p) @ xi, jnp)(*x)

    def residual(xi):
        return problem.equation(points, lambda index: take_derivative(field, index)(xi, *points), jnp)[0]

    unknowns = jnp.zeros(functions.H(*points).shape[1])
    tol = 1e-13 * problem.size  # of its residuals, whose rounding goes with the size of the terms
    xi, steps = NLLS(unknowns, residual, tol=tol)
    xi = xi.block_until_ready()
    seconds = watch.read()
    _, _, compiled = NLLS(unknowns, residual, tol=tol, timer=True)

    def derivative(p: Array, index: Index) -> Array:
        return np.asarray(take_derivative(field, index)(xi, *(jnp.asarray(column) for column in p.T)))[:, None]

    setting = (
        f"Chebyshev degree {degree}, {len(points[0])} points, {len(unknowns)} unknowns, {int(steps)} steps; "
        f"{compiled:.2g} s once compiled"
    )
    return Solved(derivative, np.stack([np.asarray(x) for x in points], axis=1), seconds, setting)


if __name__ == "__main__":
    run_peer("tfc", solve, NONLINEAR)
