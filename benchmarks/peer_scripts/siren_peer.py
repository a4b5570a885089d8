"""One problem with a plain SIREN and soft constraints: the loss is the equation plus weighted conditions.

float64, three hidden layers of 64 sines, first frequency OMEGA (chosen by hand) on coordinates scaled to [-1, 1],
initialised as SIREN prescribes. Adam at 1e-3 with cosine decay, then L-BFGS with strong-Wolfe line search. Equation
residuals are divided by the largest term of the equation, conditions count 10 times. "fair" is ADAM and LBFGS
steps: half a minute to two minutes on one core; "quick" a tenth, "long" four times as much.
"""

from __future__ import annotations

import argparse
import math

import torch
from torch import nn

from benchmarks.peer_scripts.differentiating import derive, differentiate
from benchmarks.peer_scripts.measuring import Solved, Stopwatch, run_peer
from benchmarks.peer_scripts.problems import Array, Index, Problem

WIDTH, LAYERS, INNER, WEIGHT = 64, 3, 1.0, 10.0
OMEGA = {"poisson1d": 5.0, "poisson2d": 4.0, "peak": 4.0, "helmholtz": 6.0, "wave": 8.0, "advection": 3.0}
ADAM, LBFGS = 1000, 1000
SHARE = {"quick": 0.1, "fair": 1.0, "long": 4.0}


class Sine(nn.Module):
    """sin(omega (W x + b)) with SIREN's initialisation."""

    def __init__(self, inputs: int, outputs: int, omega: float, first: bool):
        super().__init__()
        self.linear, self.omega = nn.Linear(inputs, outputs, dtype=torch.float64), omega
        bound = 1 / inputs if first else math.sqrt(6 / inputs) / omega
        nn.init.uniform_(self.linear.weight, -bound, bound)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(self.omega * self.linear(x))


class Siren(nn.Module):
    """Coordinates of the box -> u, (P, D) -> (P, 1)."""

    def __init__(self, problem: Problem, omega: float):
        super().__init__()
        self.lower, self.upper = (torch.tensor(v, dtype=torch.float64) for v in (problem.lower, problem.upper))
        hidden = [Sine(WIDTH, WIDTH, INNER, first=False) for _ in range(LAYERS - 1)]
        last = nn.Linear(WIDTH, 1, dtype=torch.float64)
        bound = math.sqrt(6 / WIDTH) / INNER
        nn.init.uniform_(last.weight, -bound, bound)
        self.layers = nn.Sequential(Sine(problem.dimension, WIDTH, omega, first=True), *hidden, last)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(2 * (x - self.lower) / (self.upper - self.lower) - 1)


def build_loss(problem: Problem, net: nn.Module):
    """The loss as a function of nothing: all points in every step."""
    targets = [
        (torch.tensor(c.points, requires_grad=True), c.derivative, torch.tensor(c.values(c.points))[:, None])
        for c in problem.conditions
    ]
    inside = torch.tensor(problem.interior, requires_grad=True)
    source = None if problem.source is None else torch.tensor(problem.source(problem.interior))[:, None]

    def loss() -> torch.Tensor:
        total = torch.zeros((), dtype=torch.float64)
        if source is not None:
            u = net(inside)
            applied = sum(c * derive(u, inside, index) for index, c in problem.operator.items())
            total = total + ((applied - source) / problem.size).square().mean()
        for x, index, values in targets:
            total = total + WEIGHT * (derive(net(x), x, index) - values).square().mean()
        return total

    return loss


def train(net: nn.Module, loss, adam: int, lbfgs: int) -> None:
    optimizer: torch.optim.Optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, adam)
    for _ in range(adam):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
        schedule.step()
    optimizer = torch.optim.LBFGS(
        net.parameters(),
        max_iter=lbfgs,
        max_eval=int(1.25 * lbfgs),
        history_size=100,
        tolerance_grad=1e-12,
        tolerance_change=0,
        line_search_fn="strong_wolfe",
    )

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    optimizer.step(closure)


def solve(problem: Problem, asked: argparse.Namespace) -> Solved:
    torch.set_num_threads(asked.threads)
    torch.manual_seed(asked.seed)
    adam, lbfgs = (int(SHARE[asked.budget] * n) for n in (ADAM, LBFGS))
    omega = OMEGA.get(problem.name, 10.0)
    watch = Stopwatch()
    net = Siren(problem, omega)
    train(net, build_loss(problem, net), adam, lbfgs)
    seconds = watch.read()

    def derivative(points: Array, index: Index) -> Array:
        return differentiate(net, points, index, torch.float64)

    setting = f"float64, {LAYERS} x {WIDTH}, omega {omega:g}, Adam {adam} + L-BFGS {lbfgs}"
    return Solved(derivative, problem.interior, seconds, setting)


if __name__ == "__main__":
    run_peer("siren", solve)
