"""Conditioning: the paper's ablation of neural bases, trained for nothing but the condition number of their system.

Values of a 2D function are prescribed at n x n points of a square. Four bases with about the same number of trainable
parameters, all made of the same kind of network (two layers, each followed by Tanh), are trained by Adam on the
logarithm of the condition number; what is kept is how it goes down, or does not.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from scipy.spatial import cKDTree
from torch import Tensor, nn

import cnf
from cnf.training import History
from studies.conditioning.plots import plot_conditioning
from studies.options import Seed, Steps
from studies.study import Case, Desk, Row, Study
from studies.tables import Style, Table

RATE = 1e-2  # of Adam
CODES = 100  # hidden nodes of the hypernetwork, as in the paper
SQUARE = cnf.Box([-1, -1], [1, 1])
SAVED_EVERY = 5  # steps, which are minutes at the paper's size
RESOLVED = 1 / torch.finfo(torch.float64).eps  # a larger condition number cannot be told from infinity


@dataclass(frozen=True)
class Conditioning(Study):
    """Condition number of four bases trained for it.

    The default takes well under two minutes; the paper's size (--points 4096 --parameters 1.3e6) about an hour of
    processor time, most of it for the hypernet. A case that is interrupted goes on where it was.
    """

    name = "conditioning"
    key = ("basis",)
    columns = ("parameters", "start", "end", "lowest", "highest", "seconds")
    curve = ("step", "condition")

    points: Annotated[int, typer.Option(help="How many points, a square number (paper: 4096).")] = 256
    parameters: Annotated[float, typer.Option(metavar="NUMBER", help="Parameters per basis (paper: 1.3e6).")] = 1e5
    steps: Steps = 60
    seed: Seed = 0

    def __post_init__(self) -> None:
        check_sizes(self.points, self.parameters)

    def settings(self) -> dict[str, Any]:
        return vars(self)

    def cases(self) -> list[Case]:
        return [{"basis": name} for name in BASES]

    def count_steps(self, case: Case) -> int:
        return self.steps

    def introduce(self) -> str:
        size = f"{self.points} points, about {self.parameters:g} parameters"
        return f"{size}, {self.steps} steps of Adam on the log condition number"

    def run(self, case: Case, desk: Desk) -> Row:
        """One basis: built, trained on its log condition number, and what came of it."""
        started = told = time.perf_counter()
        field = build_field(case["basis"], self.points, self.parameters, self.seed)
        unfinished = desk.unfinished(self.settings())
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        building = time.perf_counter() - started

        def tell(step: int, solution: cnf.Solution, history: History) -> None:
            nonlocal told
            told = time.perf_counter()
            desk.tell(f"condition {history.condition[-1]:.1e}")

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cnf.errors.CnfWarning)  # bad conditioning is what is looked at
            history = cnf.pretrain(
                field,
                self.steps,
                RATE,
                seed=self.seed,
                progress=False,
                log_condition_every=1,
                callbacks=tell,
                keep="last",
                checkpoint=unfinished,
                checkpoint_every=SAVED_EVERY,
                resume=unfinished.exists(),
            )
        if history.stopped == "interrupted":
            raise KeyboardInterrupt
        unfinished.unlink()
        conditions = [*history.condition, math.exp(history.final_loss)]  # entry k: after k updates
        return {
            "parameters": sum(p.numel() for p in field.basis.parameters() if p.requires_grad),
            "start": conditions[0],
            "end": conditions[-1],
            "lowest": min(conditions),
            "highest": max(conditions),
            "seconds": building + history.seconds[-1] + time.perf_counter() - told,  # before interruptions too
            "curve": {"step": list(range(len(conditions))), "condition": conditions},
        }

    def describe(self, row: Row) -> str:
        return f"condition {row['start']:.1e} to {row['end']:.1e}"

    def tables(self, rows: Sequence[Row]) -> list[Table]:
        """One row per basis; condition numbers beyond 1 / eps are marked: float64 cannot tell them from infinity."""

        def shown(value: float) -> str:
            return f"{value:.1e}" if value < RESOLVED else f"> {RESOLVED:.1e}"

        columns: dict[str, tuple[str, Style]] = {"basis": ("basis", ""), "parameters": ("parameters", "d")}
        columns |= {name: (name, shown) for name in ("start", "end", "lowest", "highest")}
        columns |= {"seconds": ("seconds", ".1f")}
        return [Table.of(rows, columns)]

    def plots(self, rows: Sequence[Row], folder: Path) -> list[Path]:
        title = f"{self.points} points, {self.parameters:g} parameters: trained for the condition number alone"
        return [plot_conditioning(rows, folder / "conditioning.png", RESOLVED, title)]


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


def check_sizes(points: int, parameters: float) -> None:
    """Refuse what cannot be built, before anything is."""
    error = cnf.errors.CnfError
    if points < 4 or math.isqrt(points) ** 2 != points:
        raise error(f"the points form a square grid: their number is a square of at least 4, such as 256; got {points}")
    least = CODES * points + 7 * (CODES + 1)
    if not (math.isfinite(parameters) and parameters >= least):
        raise error(
            f"{points} points need at least {least} parameters, for the hypernet has {CODES} per point; "
            f"got {parameters:g}"
        )
