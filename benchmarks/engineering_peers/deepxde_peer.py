"""A few engineering problems with DeepXDE: pytorch backend, float64, Adam and then L-BFGS, as its examples do.

Networks of its Poisson and L-shape examples (Poisson_Lshape: 4 x 50 tanh, 1200 points inside, 120 around, soft
conditions); `--setting` is the budget: fair is about two minutes on one core, quick a tenth of it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass

os.environ.setdefault("DDE_BACKEND", "pytorch")

import deepxde as dde
import numpy as np
import torch

from benchmarks.engineering_peers.measuring import Solved, run_script
from benchmarks.engineering_problems import corners, holes
from benchmarks.engineering_problems.problem import Array, Problem

SHARE = {"quick": 0.1, "fair": 1.0}


@dataclass(frozen=True)
class Task:
    """A domain, the residual of the equation, values around, and where they hold."""

    geometry: Callable[[], object]
    residual: Callable[..., object]
    values: Callable[[Array], Array]
    points: tuple[int, int]  # inside, around
    adam: int = 1500
    lbfgs: int = 1500


def laplacian(x, u, dimension: int):
    return sum(dde.grad.hessian(u, x, i=k, j=k) for k in range(dimension))


def nothing(x: Array) -> Array:
    return np.zeros((len(x), 1))


def layer_residual(x, u):
    profile = x[:, :1] - torch.exp((x[:, :1] - 1) / 0.01)
    source = (1 + 0.04 * profile) * torch.cos(2 * x[:, 1:2])
    return -0.01 * laplacian(x, u, 2) + dde.grad.jacobian(u, x, i=0, j=0) - source


def layer_values(x: Array) -> Array:
    return ((x[:, 0] - np.exp((x[:, 0] - 1) / 0.01)) * np.cos(2 * x[:, 1]))[:, None]


def sieve():
    disk = dde.geometry.Disk([0, 0], 1)
    for centre, radius in holes.HOLES:
        disk = dde.geometry.CSGDifference(disk, dde.geometry.Disk([centre.real, centre.imag], radius))
    return disk


TASKS = {
    "layer-0.01": Task(lambda: dde.geometry.Rectangle([0, 0], [1, 1]), layer_residual, layer_values, (1200, 200)),
    "lshape": Task(
        lambda: dde.geometry.Polygon([list(v) for v in corners.VERTICES]),
        lambda x, u: -laplacian(x, u, 2) - 1,
        nothing,
        (1200, 120),
    ),
    "holes": Task(sieve, lambda x, u: -laplacian(x, u, 2) - 1, nothing, (1500, 800)),
    "cube": Task(
        lambda: dde.geometry.Cuboid([0, 0, 0], [1, 1, 1]), lambda x, u: -laplacian(x, u, 3) - 1, nothing, (1200, 600)
    ),
}


def solve(problem: Problem, asked: argparse.Namespace) -> Solved:
    torch.set_num_threads(1)
    dde.config.set_default_float("float64")
    dde.config.set_random_seed(0)
    task, share = TASKS[problem.name], SHARE[asked.setting]
    geometry = task.geometry()
    around = dde.icbc.DirichletBC(geometry, task.values, lambda x, on_boundary: on_boundary)
    data = dde.data.PDE(geometry, task.residual, around, num_domain=task.points[0], num_boundary=task.points[1])
    net = dde.nn.FNN([problem.points.shape[1], *[50] * 4, 1], "tanh", "Glorot uniform")
    model = dde.Model(data, net)
    model.compile("adam", lr=1e-3)
    model.train(iterations=int(share * task.adam), display_every=10**6)
    steps = int(share * task.lbfgs)
    dde.optimizers.config.set_LBFGS_options(maxiter=steps)
    # The pytorch backend goes in pieces of a thousand, beyond maxiter if need be, unless told otherwise.
    dde.optimizers.config.LBFGS_options.update(iter_per_step=min(steps, 500), fun_per_step=int(1.25 * min(steps, 500)))
    model.compile("L-BFGS")
    model.train(display_every=10**6)
    count = sum(p.numel() for p in net.parameters())
    return Solved(lambda points: model.predict(points), count)


if __name__ == "__main__":
    run_script(solve)
