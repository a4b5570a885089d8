"""One problem with DeepXDE: pytorch backend, float64, hard-constraint output transform, Adam and then L-BFGS.

Networks and numbers follow DeepXDE's own examples where there is one:

    poisson1d   Poisson_Dirichlet_1d_exactBC: 3 x 50 tanh, 64 points, 30000 steps of Adam at 1e-4 with inverse-time
                decay. Here 1e-3, with which far fewer steps reach the same, then L-BFGS.
    poisson2d, peak, helmholtz
                Helmholtz_Dirichlet_2d, whose k = 4 pi is ours: 3 x 150 sin, Adam at 1e-3, 5000 steps, hard constraint.
                The two Poisson problems have half its wave number, so 3 x 50 (tanh, as in the other Poisson examples).
    wave        wave_1d: 3 x 100 tanh with Fourier features of space and time, 10000 steps. The pytorch backend lacks
                those features (STMsFFN), so here 3 x 100 sin, the activation of the Helmholtz example.
    advection   none; as diffusion_1d_exactBC: 3 x 32 tanh, 10000 steps of Adam at 1e-3.

"fair" (RECIPES) is a part of these steps of Adam and then thousands of L-BFGS, which several examples add and which
gains more per second here: one to two minutes on one core. "quick" is a tenth of that, "long" six times as much, about
the steps of the examples. Points are those of the problem, given as anchors. Time counts from building the
network to the end of the training.
"""

from __future__ import annotations

import argparse
import math
import os
from dataclasses import dataclass

os.environ.setdefault("DDE_BACKEND", "pytorch")

import deepxde as dde
import torch

from benchmarks.peer_scripts.differentiating import differentiate
from benchmarks.peer_scripts.hard_forms import transform
from benchmarks.peer_scripts.measuring import Solved, Stopwatch, run_peer
from benchmarks.peer_scripts.problems import Array, Index, Problem


@dataclass(frozen=True)
class Recipe:
    """A network of three hidden layers, and the steps of both optimisers with the budget "fair"."""

    width: int
    activation: str
    adam: int
    lbfgs: int


RECIPES = {
    "poisson1d": Recipe(50, "tanh", 3000, 2000),
    "poisson2d": Recipe(50, "tanh", 1500, 2000),
    "peak": Recipe(50, "tanh", 1500, 2000),
    "helmholtz": Recipe(150, "sin", 800, 1200),
    "wave": Recipe(100, "sin", 1000, 2000),
    "advection": Recipe(32, "tanh", 4000, 2000),
}
SHARE = {"quick": 0.1, "fair": 1.0, "long": 6.0}


def state_equation(problem: Problem):
    """The residual as DeepXDE wants it; the source comes as an auxiliary array."""

    def residual(x, u, source):
        total = -source
        for index, c in problem.operator.items():
            order = sum(index)
            if order == 0:
                term = u
            elif order == 1:
                term = dde.grad.jacobian(u, x, i=0, j=index.index(1))
            else:
                axis = index.index(2)
                term = dde.grad.hessian(u, x, i=axis, j=axis)
            total = total + c * term
        return total  # as it is, like all examples: the tolerances of the optimisers count on that

    return residual


def build_geometry(problem: Problem):
    if problem.dimension == 1:
        return dde.geometry.Interval(problem.lower[0], problem.upper[0])
    return dde.geometry.Rectangle(problem.lower, problem.upper)


def solve(problem: Problem, asked: argparse.Namespace) -> Solved:
    torch.set_num_threads(asked.threads)
    dde.config.set_default_float("float64")
    dde.config.set_random_seed(asked.seed)
    recipe = RECIPES[problem.name]
    adam, lbfgs = (max(50, int(SHARE[asked.budget] * n)) for n in (recipe.adam, recipe.lbfgs))
    watch = Stopwatch()
    data = dde.data.PDE(
        build_geometry(problem),
        state_equation(problem),
        [],
        num_domain=0,
        anchors=problem.interior,
        auxiliary_var_function=lambda x: problem.source(x)[:, None],
    )
    net = dde.nn.FNN([problem.dimension, *[recipe.width] * 3, 1], recipe.activation, "Glorot uniform")
    net.apply_output_transform(
        lambda x, u: transform(problem.name, [x[:, k : k + 1] for k in range(problem.dimension)], u, torch)
    )
    model = dde.Model(data, net)
    model.compile("adam", lr=1e-3)
    model.train(iterations=adam, display_every=adam)
    dde.optimizers.config.set_LBFGS_options(maxiter=lbfgs)
    # The pytorch backend goes in pieces of a thousand, beyond maxiter if need be, unless told otherwise.
    piece = math.ceil(lbfgs / math.ceil(lbfgs / 1000))
    dde.optimizers.config.LBFGS_options.update(iter_per_step=piece, fun_per_step=int(1.25 * piece))
    model.compile("L-BFGS")
    model.train(display_every=lbfgs)
    seconds = watch.read()

    def derivative(points: Array, index: Index) -> Array:
        return differentiate(net, points, index, torch.float64)

    setting = f"float64, 3 x {recipe.width} {recipe.activation}, Adam {adam} + L-BFGS {model.train_state.step - adam}"
    return Solved(derivative, problem.interior, seconds, setting)


if __name__ == "__main__":
    run_peer("deepxde", solve)
