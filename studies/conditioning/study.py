"""Conditioning: the paper's ablation of neural bases, trained for nothing but the condition number of their system.

Values of a 2D function are prescribed at n x n points of a square. Four bases with about the same number of trainable
parameters, all made of the same kind of network (two layers, each followed by Tanh), are trained by Adam on the
logarithm of the condition number; what is kept is how it goes down, or does not.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from scipy.spatial import cKDTree
from torch import Tensor, nn

import cnf
from cnf.training import History

CODES = 100  # hidden nodes of the hypernetwork, as in the paper
SQUARE = cnf.Box([-1, -1], [1, 1])
RESOLVED = 1 / torch.finfo(torch.float64).eps  # a larger condition number cannot be told from infinity


@dataclass(frozen=True)
class Progress:
    """Where the study is: one call of `report` per step."""

    name: str
    step: int
    condition: float


Report = Callable[[Progress], object]


@dataclass(frozen=True)
class Conditioning:
    """How one basis fared; entry k of `conditions` is the condition number after k updates, the last after all."""

    name: str
    conditions: tuple[float, ...]
    parameters: int
    seconds: float

    @property
    def start(self) -> float:
        return self.conditions[0]

    @property
    def end(self) -> float:
        return self.conditions[-1]

    @property
    def best(self) -> float:
        return min(self.conditions)

    @property
    def worst(self) -> float:
        return max(self.conditions)


def study_conditioning(
    points: int = 256,
    parameters: float = 1e5,
    steps: int = 60,
    seed: int = 0,
    lr: float = 1e-2,
    report: Report | None = None,
) -> list[Conditioning]:
    """Train the four bases of BASES on `points` (a square number) with about `parameters` parameters each.

    The default takes seconds; the paper's setting is points=4096, parameters=1.3e6, and the hypernet then needs minutes
    per step: every one of its 4096 networks is evaluated at all 4096 points.
    """
    check_study(points, parameters, steps, seed)
    return [train_basis(name, points, parameters, steps, seed, lr, report) for name in BASES]


def train_basis(
    name: str, points: int, parameters: float, steps: int, seed: int = 0, lr: float = 1e-2, report: Report | None = None
) -> Conditioning:
    """One basis: built, trained on its log condition number, and what came of it."""
    started = time.perf_counter()
    field = build_field(name, points, parameters, seed)

    def tell(step: int, solution: cnf.Solution, history: History) -> None:
        if report is not None:
            report(Progress(name, step, history.condition[-1]))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cnf.errors.CnfWarning)  # bad conditioning is what is looked at
        history = cnf.pretrain(
            field, steps, lr, seed=seed, progress=False, log_condition_every=1, callbacks=tell, keep="last"
        )
    return Conditioning(
        name=name,
        conditions=(*history.condition, math.exp(history.final_loss)),
        parameters=sum(p.numel() for p in field.basis.parameters() if p.requires_grad),
        seconds=time.perf_counter() - started,
    )


def build_field(name: str, points: int, parameters: float, seed: int = 0) -> cnf.ConstrainedField:
    """A field with values prescribed on the grid and one of BASES; nothing about it is chosen by hand."""
    space = cnf.Space("x y", "u")
    at = SQUARE.grid(math.isqrt(points))
    values = torch.sin(3 * at[:, 0]) * torch.cos(2 * at[:, 1])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        basis = BASES[name](space, at, int(parameters))
    # LU, not Auto: singular values below rounding count here, and are not to be left out.
    return cnf.ConstrainedField(
        basis, space.constraint("u", at=at, equals=values, name="values"), solver=cnf.solvers.LU()
    )


def _constraint_layer(space: cnf.Space, at: Tensor, parameters: int) -> cnf.bases.Basis:
    """2 -> w -> N: w (N + 3) + N parameters."""
    count = len(at)
    width = round((parameters - count) / (count + 3))
    return cnf.bases.ConstraintLayer(space, _layers(_positive(width, parameters, count + count + 3), count))


def _hypernet(space: cnf.Space, at: Tensor, parameters: int) -> cnf.bases.Basis:
    """Main network 2 -> w -> w -> 1 of m = w^2 + 5 w + 1 parameters; N codes, a generator and an offset."""
    count = len(at)
    main = (parameters - CODES * count) / (CODES + 1)
    width = round(math.sqrt(max(0.0, main + 5.25)) - 2.5)
    width = _positive(width, parameters, CODES * count + 7 * (CODES + 1))
    network = nn.Sequential(*_layers(width, width), nn.Linear(width, 1, dtype=torch.float64))
    return cnf.bases.Hypernet(space, network, count, codes=CODES, seed=int(torch.initial_seed() % 2**31))


def _dot_product(space: cnf.Space, at: Tensor, parameters: int) -> cnf.bases.Basis:
    return cnf.bases.Kernel(space, at, cnf.kernels.DotProduct(), _encoder(parameters))


def _gaussian(space: cnf.Space, at: Tensor, parameters: int) -> cnf.bases.Basis:
    encoder = _encoder(parameters)
    with torch.no_grad():
        encoded = encoder(at).numpy()
    nearest = sorted(cKDTree(encoded).query(encoded, k=2)[0][:, 1])
    return cnf.bases.Kernel(space, at, cnf.kernels.Gaussian(float(nearest[len(nearest) // 2])), encoder)


BASES: dict[str, Callable[[cnf.Space, Tensor, int], cnf.bases.Basis]] = {
    "constraint layer": _constraint_layer,
    "hypernet": _hypernet,
    "dot-product kernel": _dot_product,
    "Gaussian kernel": _gaussian,
}


def _encoder(parameters: int) -> nn.Sequential:
    """2 -> w -> w: w^2 + 4 w parameters."""
    width = round(math.sqrt(parameters + 4) - 2)
    return _layers(_positive(width, parameters, 5), width)


def _layers(width: int, outputs: int) -> nn.Sequential:
    """Two layers, each followed by Tanh."""
    return nn.Sequential(
        nn.Linear(2, width, dtype=torch.float64), nn.Tanh(), nn.Linear(width, outputs, dtype=torch.float64), nn.Tanh()
    )


def _positive(width: int, parameters: int, least: int) -> int:
    if width < 1:
        raise cnf.errors.CnfError(f"{parameters} parameters are too few for these points; at least {least} are needed")
    return width


def check_study(points: int, parameters: float, steps: int, seed: int) -> None:
    error = cnf.errors.CnfError
    if points < 4 or math.isqrt(points) ** 2 != points:
        raise error(f"the points form a square grid: their number is a square of at least 4, such as 256; got {points}")
    least = CODES * points + 7 * (CODES + 1)
    if not (math.isfinite(parameters) and parameters >= least):
        raise error(
            f"{points} points need at least {least} parameters, for the hypernet has {CODES} per point; "
            f"got {parameters:g}"
        )
    if steps < 1 or seed < 0:
        raise error(f"steps is at least 1 and seed at least 0; got {steps} and {seed}")
