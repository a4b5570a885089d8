"""One problem with tfc: a constrained expression with Chebyshev polynomials, linear least squares.

The expressions (hard_forms.connect) are written by hand, as tfc's tutorials do; the conditions then hold everywhere.
The degree is chosen by hand, high enough for the exact solution (a user finds it in a few tries, not counted), on tfc's
own grid with two more points per direction than the degree. Time includes the compilation by JAX, without which
nothing runs; the setting says how long the same solve takes once compiled.
"""

from __future__ import annotations

import argparse

import jax
import numpy as np
from jax import numpy as jnp
from tfc import mtfc, utfc
from tfc.utils import LS, egrad

from benchmarks.peer_scripts.hard_forms import connect
from benchmarks.peer_scripts.measuring import Solved, Stopwatch, run_peer
from benchmarks.peer_scripts.problems import Array, Index, Problem

DEGREES = {"poisson1d": 60, "poisson2d": 28, "peak": 44, "helmholtz": 40, "wave": 48, "advection": 24}
CONDITIONS = {"poisson1d": 2, "advection": [-1, 1]}  # per coordinate, tfc's nC; two for all others
SHARE = {"quick": 0.6, "fair": 1.0, "long": 1.2}


def build(problem: Problem, degree: int):
    if problem.dimension == 1:
        return utfc(degree + 2, CONDITIONS["poisson1d"], degree, basis="CP", x0=problem.lower[0], xf=problem.upper[0])
    counts = [degree + 2] * 2
    lower, upper = list(problem.lower), list(problem.upper)
    return mtfc(counts, CONDITIONS.get(problem.name, [2, 2]), degree, dim=2, basis="CP", x0=lower, xf=upper)


def solve(problem: Problem, asked: argparse.Namespace) -> Solved:
    jax.config.update("jax_enable_x64", True)
    degree = int(SHARE[asked.budget] * DEGREES[problem.name])
    watch = Stopwatch()
    functions = build(problem, degree)
    points = (functions.x,) if problem.dimension == 1 else functions.x

    def field(xi, *x):
        slope = (lambda *p: functions.Hy(*p) @ xi) if problem.dimension == 2 else None
        return connect(problem.name, lambda *p: functions.H(*p) @ xi, slope, jnp)(*x)

    source = jnp.asarray(problem.source(np.stack([np.asarray(x) for x in points], axis=1)))
    terms = [(c, take_derivative(field, index)) for index, c in problem.operator.items()]

    def residual(xi):
        return sum(c * term(xi, *points) for c, term in terms) - source

    unknowns = jnp.zeros(functions.H(*points).shape[1])
    xi = LS(unknowns, residual).block_until_ready()
    seconds = watch.read()
    _, compiled = LS(unknowns, residual, timer=True, timerType="perf_counter")

    def derivative(p: Array, index: Index) -> Array:
        return np.asarray(take_derivative(field, index)(xi, *(jnp.asarray(column) for column in p.T)))

    setting = (
        f"Chebyshev degree {degree}, {len(source)} points, {len(unknowns)} unknowns; {compiled:.2g} s once compiled"
    )
    return Solved(derivative, np.stack([np.asarray(x) for x in points], axis=1), seconds, setting)


def take_derivative(function, index: Index):
    """d^alpha of function(xi, x, ...)."""
    for axis, order in enumerate(index):
        for _ in range(order):
            function = egrad(function, axis + 1)
    return function


if __name__ == "__main__":
    run_peer("tfc", solve)
