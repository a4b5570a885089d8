"""One nonlinear problem with DeepXDE: pytorch backend, float64, Adam and then L-BFGS, as its examples do.

    cubic            Helmholtz_Dirichlet_2d, which has its frequency of 4 pi: sin, a factor that is zero on the
                     boundary; 3 x 50 instead of 3 x 150, 1200 points inside
    burgers          Burgers: 3 x 20 tanh, 2540 points inside, 80 on the walls, 160 at the start
    minimal-surface  none; as its Poisson examples, 3 x 50 tanh, 1200 points inside, 160 around
    kovasznay        Kovasznay_flow: 4 x 50 tanh, 2601 points inside, 400 around; the pressure at a point

"fair" is a part of their steps of Adam and then some of L-BFGS, about a minute on one core: the examples take many
times that. "quick" is a tenth of it, "long" six times as much.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass

os.environ.setdefault("DDE_BACKEND", "pytorch")

import deepxde as dde
import torch

from benchmarks.peer_scripts.differentiating import derive
from benchmarks.peer_scripts.measuring import Solved, Stopwatch, run_peer
from benchmarks.peer_scripts.nonlinear_problems import NONLINEAR, NonlinearProblem
from benchmarks.peer_scripts.problems import Array, Condition, Index


@dataclass(frozen=True)
class Recipe:
    """Hidden layers, points inside, and the steps of both optimisers with the budget "fair"."""

    layers: tuple[int, ...]
    activation: str
    inside: int
    adam: int
    lbfgs: int


RECIPES = {
    "cubic": Recipe((50,) * 3, "sin", 1200, 500, 700),
    "burgers": Recipe((20,) * 3, "tanh", 2540, 700, 1000),
    "minimal-surface": Recipe((50,) * 3, "tanh", 1200, 300, 500),
    "kovasznay": Recipe((50,) * 4, "tanh", 2601, 100, 150),
}
AROUND = {"boundary": 160, "along": 400, "up": 400, "walls": 80, "start": 160, "level": 1}
SHARE = {"quick": 0.1, "fair": 1.0, "long": 6.0}


def partial(u, x, index: Index):
    """d^alpha of every output, (P, C)."""
    axes = [k for k, order in enumerate(index) for _ in range(order)]
    if not axes:
        return u
    columns = range(u.shape[1])
    if len(axes) == 1:
        return torch.cat([dde.grad.jacobian(u, x, i=c, j=axes[0]) for c in columns], dim=1)
    return torch.cat([dde.grad.hessian(u, x, component=c, i=axes[0], j=axes[1]) for c in columns], dim=1)


def asked_at(condition: Condition):
    """A condition at its points, thinned to about as many as the examples have."""
    every = max(1, len(condition.between) // AROUND[condition.name])
    points = condition.between[::every]
    return dde.icbc.PointSetBC(points, condition.values(points), component=condition.channel or 0)


def solve(problem: NonlinearProblem, asked: argparse.Namespace) -> Solved:
    torch.set_num_threads(asked.threads)
    dde.config.set_default_float("float64")
    dde.config.set_random_seed(asked.seed)
    recipe = RECIPES[problem.name]
    adam, lbfgs = (max(50, int(SHARE[asked.budget] * n)) for n in (recipe.adam, recipe.lbfgs))
    hard = problem.name == "cubic"
    watch = Stopwatch()

    def residual(x, u):
        columns = [x[:, k : k + 1] for k in range(problem.dimension)]
        return problem.equation(columns, lambda index: partial(u, x, index), torch)

    data = dde.data.PDE(
        dde.geometry.Rectangle(problem.lower, problem.upper),
        residual,
        [] if hard else [asked_at(c) for c in problem.conditions],
        num_domain=recipe.inside,
    )
    net = dde.nn.FNN([problem.dimension, *recipe.layers, len(problem.channels)], recipe.activation, "Glorot uniform")
    if hard:
        net.apply_output_transform(lambda x, u: (x * (1 - x)).prod(dim=1, keepdim=True) * u)
    model = dde.Model(data, net)
    model.compile("adam", lr=1e-3)
    model.train(iterations=adam, display_every=adam)
    dde.optimizers.config.set_LBFGS_options(maxiter=lbfgs)
    # The pytorch backend goes in pieces of a thousand, beyond maxiter if need be, unless told otherwise.
    dde.optimizers.config.LBFGS_options.update(iter_per_step=min(lbfgs, 500), fun_per_step=int(1.25 * min(lbfgs, 500)))
    model.compile("L-BFGS")
    model.train(display_every=lbfgs)
    seconds = watch.read()

    def derivative(points: Array, index: Index) -> Array:
        x = torch.tensor(points, requires_grad=True)
        u = net(x)
        parts = [derive(u[:, c : c + 1], x, index) for c in range(u.shape[1])]
        return torch.cat(parts, dim=1).detach().numpy()

    setting = (
        f"{'hard' if hard else 'soft'}, {len(recipe.layers)} x {recipe.layers[0]} {recipe.activation}, "
        f"Adam {adam} + L-BFGS {model.train_state.step - adam}"
    )
    return Solved(derivative, data.train_x_all, seconds, setting)


if __name__ == "__main__":
    run_peer("deepxde", solve, NONLINEAR)
