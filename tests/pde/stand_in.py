"""Small solved problems with known answers, in the shape that reports take: real fields, the plainest possible rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

import cnf

PI = math.pi
Inside = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Region:
    """A box, or the part of it where `outside` (P, D) -> (P,) is not positive."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    outside: Inside | None = None

    def contains(self, points: Tensor, margin: float = 0.0) -> Tensor:
        low, high = (torch.tensor(v, dtype=torch.float64) for v in (self.lower, self.upper))
        found = ((points >= low + margin) & (points <= high - margin)).all(dim=1)
        return found if self.outside is None else found & (self.outside(points) <= -margin)


@dataclass(frozen=True)
class StandIn:
    """The fields of an answer."""

    problem: Any
    field: Any
    solution: Any
    certificate: Any
    tuning: Any
    held_out: dict[str, float]
    disagreement: float | None
    errors: dict[str, float] | None
    seconds: float = 1.5
    extra: dict[str, Any] = field(default_factory=dict)
    measured: float | None = None
    source: str = "a second field from other points, values on the boundary between the points"
    recovered: None = None
    off_target: str = ""
    attempts: str = "16 trials"
    largest: dict[str, float] = field(default_factory=dict)
    convergence: Any = None
    course: Any = None
    passed: tuple[Any, ...] = ()

    def __call__(self, points: Tensor) -> Tensor:
        return self.solution(points)

    @property
    def estimate(self) -> float:
        return max(self.worst_held_out, self.disagreement or 0.0)

    @property
    def worst_held_out(self) -> float:
        return max((v for v in self.held_out.values() if not math.isnan(v)), default=math.nan)

    @property
    def resolved(self) -> bool:
        return not self.worst_held_out > 1e-3

    @property
    def conditions(self) -> int:
        return sum(c.rows for c in self.field.constraints)

    def grid(self, counts: Sequence[int] | None = None) -> Any:
        region = self.problem.domain
        counts = counts or (5,) * len(region.lower)
        axes = tuple(
            torch.linspace(a, b, n, dtype=torch.float64)
            for a, b, n in zip(region.lower, region.upper, counts, strict=True)
        )
        points = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).reshape(-1, len(axes))
        inside = region.contains(points, margin=-1e-9)
        with torch.no_grad():
            values = self.solution(points)
        values[~inside] = math.nan
        exact = None
        if self.problem.exact:
            columns = [self.problem.exact[c](points) for c in self.problem.space.channels]
            exact = torch.stack(columns, dim=1)
            exact[~inside] = math.nan
        return SimpleNamespace(axes=axes, points=points, inside=inside, values=values, exact=exact)


def make_trials(count: int = 8) -> Any:
    """A scan over the bandwidth for two sizes, the last trial unsolvable."""
    trials = []
    for size in (1.5, 2.0):
        for k in range(count):
            bandwidth = 0.05 * 1.5**k
            loss = -6 + 8 * math.log10(bandwidth / 0.3) ** 2 - 0.3 * size
            trials.append(
                SimpleNamespace(
                    settings={"type": "random-fourier", "size": size, "bandwidth": bandwidth},
                    loss=loss,
                    residual=3 * 10**loss,
                    seconds=0.1,
                    exact=k > 0,
                    conditions=300,
                )
            )
    trials[-1].loss, trials[-1].residual = math.inf, math.nan
    best = min(trials, key=lambda t: t.loss)
    return SimpleNamespace(objective="held-out", trials=tuple(trials), best=best, interrupted=False)


def solve(
    space: cnf.Space,
    region: Region,
    equations: Sequence[tuple[str, str | None, str, Tensor | None]],
    exact: dict[str, Callable[[Tensor], Tensor]] | None = None,
    bandwidth: float = 0.3,
    size: int = 0,
    title: str = "",
    **coefficients: Any,
) -> StandIn:
    """Solve `equations` (name, on, LaTeX, points) with random Fourier functions."""
    torch.manual_seed(0)
    constraints = []
    for name, _, latex, points in equations:
        used = dict(coefficients.get(name, {}))
        constraints.append(space.constraint(latex, at=points, name=name, **used))
    count = size or 2 * sum(c.rows for c in constraints)
    made = cnf.ConstrainedField(cnf.bases.RandomFourier(space, size=count, bandwidth=bandwidth), constraints)
    made.eval()
    solution = made.solution
    problem = SimpleNamespace(
        title=title,
        description="",
        space=space,
        domain=region,
        domain_text="a region",
        regions=None,
        jumps=(),
        equations=tuple(
            SimpleNamespace(name=n, on=on, latex=latex, file=None, region=None) for n, on, latex, _ in equations
        ),
        exact=exact,
        seed=0,
        solving=SimpleNamespace(target=None),
        given_parameters={},
        given_start=None,
        continuation={},
        unknowns={},
    )
    problem.original = problem
    return StandIn(
        problem=problem,
        field=made,
        solution=solution,
        certificate=solution.certificate,
        tuning=make_trials(),
        held_out={n: 1e-6 if on == "interior" else math.nan for n, on, _, _ in equations},
        largest={n: 1e-5 if on == "interior" else math.nan for n, on, _, _ in equations},
        disagreement=2.5e-7,
        errors=dict.fromkeys(space.channels, 1.25e-8) if exact else None,
    )


def wave_1d() -> StandIn:
    """u'' = -4 pi^2 sin(2 pi x), u = 0 at both ends: u = sin(2 pi x)."""
    inside = torch.linspace(0, 1, 42, dtype=torch.float64)[1:-1, None]
    ends = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    return solve(
        cnf.Space("x", "u"),
        Region((0.0,), (1.0,)),
        [
            ("pde", "interior", r"u_{xx} = -4 \pi^2 \sin(2 \pi x)", inside),
            ("ends", "boundary", "u = 0", ends),
        ],
        {"u": lambda x: torch.sin(2 * PI * x[:, 0])},
        title="Poisson equation in one dimension",
    )


def poisson_2d(with_exact: bool = True, count: int = 250) -> StandIn:
    """-Laplace u = 8 pi^2 sin sin on the unit square, zero on its edge: u = sin(2 pi x) sin(2 pi y)."""
    square = cnf.Box((0, 0), (1, 1))
    exact = {"u": lambda x: torch.sin(2 * PI * x[:, 0]) * torch.sin(2 * PI * x[:, 1])} if with_exact else None
    return solve(
        cnf.Space("x y", "u"),
        Region((0.0, 0.0), (1.0, 1.0)),
        [
            ("pde", "interior", r"-\Delta u = 8 \pi^2 \sin(2 \pi x) \sin(2 \pi y)", square.halton(count)),
            ("edge", "boundary", "u = 0", square.boundary(16)),
        ],
        exact,
        title="Poisson equation on the unit square",
    )


def ring_2d() -> StandIn:
    """Laplace u = 0 between circles of radius 0.3 and 1, u = 0 outside, 1 on the hole; no exact solution given."""

    def outside(x: Tensor) -> Tensor:
        return torch.maximum(x.norm(dim=1) - 1, 0.3 - (x - torch.tensor([0.2, 0.1], dtype=torch.float64)).norm(dim=1))

    region = Region((-1.0, -1.0), (1.0, 1.0), outside)
    cloud = cnf.Box((-1, -1), (1, 1)).halton(500)
    angle = torch.linspace(0, 2 * PI, 61, dtype=torch.float64)[:-1]
    circle = torch.stack([angle.cos(), angle.sin()], dim=1)
    return solve(
        cnf.Space("x y", "u"),
        region,
        [
            ("pde", "interior", r"\nabla^2 u = 0", cloud[region.contains(cloud)]),
            ("rim", "boundary", "u = 0", circle),
            ("hole", "hole1", "u = 1", torch.tensor([0.2, 0.1], dtype=torch.float64) + 0.3 * circle[::2]),
        ],
        title="Potential between two circles",
        bandwidth=0.1,
    )


def advection_1d() -> StandIn:
    """u_t + 0.5 u_x = 0 from u = sin(2 pi x): u = sin(2 pi (x - t / 2)), periodic in x."""
    square = cnf.Box((0, 0), (1, 1))
    return solve(
        cnf.Space("x t", "u"),
        Region((0.0, 0.0), (1.0, 1.0)),
        [
            ("pde", "interior", r"\partial_t u + \frac{1}{2} \partial_x u = 0", square.halton(250)),
            ("start", "t = 0", r"u = \sin(2 \pi x)", square.face(1, 0, 30)),
            ("inflow", "x = 0", r"u = -\sin(\pi t)", square.face(0, 0, 30)[1:]),
        ],
        {"u": lambda x: torch.sin(2 * PI * (x[:, 0] - x[:, 1] / 2))},
        title="Advection",
    )


def heat_2d(disk: bool = False) -> StandIn:
    """u_t = 0.05 Laplace u, u = sin(pi x) sin(pi y) at the start, zero on the edge: decays like exp(-0.1 pi^2 t)."""
    region = Region((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    if disk:
        region = Region(region.lower, region.upper, lambda x: (x[:, :2] - 0.5).norm(dim=1) - 0.5)
    box = cnf.Box(region.lower, region.upper)
    cloud = box.halton(250, seed=1)
    sides = torch.cat([box.face(axis, side, 6) for axis in (0, 1) for side in (0, 1)])
    return solve(
        cnf.Space("x y t", "u"),
        region,
        [
            ("pde", "interior", r"u_t = 0.05 \nabla^2 u", cloud[region.contains(cloud)]),
            ("start", "t = 0", r"u = \sin(\pi x) \sin(\pi y)", box.face(2, 0, 8)),
            ("sides", "boundary", "u = 0", torch.unique(sides[sides[:, 2] > 0], dim=0)),
        ],
        {"u": lambda x: torch.sin(PI * x[:, 0]) * torch.sin(PI * x[:, 1]) * torch.exp(-0.1 * PI**2 * x[:, 2])},
        bandwidth=0.8,
        title="Heat on a square plate",
    )


def potential_3d() -> StandIn:
    """Laplace u = 0 in a ball shell part of the unit cube with u = x y z on the cube's faces: u = x y z."""
    box = cnf.Box((0, 0, 0), (1, 1, 1))
    region = Region((0.0,) * 3, (1.0,) * 3, lambda x: 0.25 - (x - 0.5).norm(dim=1))
    cloud = box.halton(200)
    return solve(
        cnf.Space("x y z", "phi"),
        region,
        [
            ("pde", "interior", r"\Delta \phi = 0", cloud[region.contains(cloud)]),
            ("faces", "boundary", r"\phi = x y z", box.boundary(5)),
        ],
        bandwidth=1.0,
        title="Potential in a cube",
    )


def flow_2d() -> StandIn:
    """div (u, v) = 0 and u_y - v_x = 0 with u = x, v = -y on the edge: the stagnation flow u = x, v = -y."""
    square = cnf.Box((-1, -1), (1, 1))
    return solve(
        cnf.Space("x y", "u v", vectors={"w": ("u", "v")}),
        Region((-1.0, -1.0), (1.0, 1.0)),
        [
            ("mass", "interior", r"\nabla\cdot\mathbf{w} = 0", square.halton(120)),
            ("curl", "interior", r"\partial_y u - \partial_x v = 0", square.halton(120, seed=1)),
            ("u on the edge", "boundary", "u = x", square.boundary(10)),
            ("v on the edge", "boundary", "v = -y", square.boundary(10)),
        ],
        {"u": lambda x: x[:, 0], "v": lambda x: -x[:, 1]},
        bandwidth=1.0,
        title="Stagnation flow",
    )


ALL = {
    "wave_1d": wave_1d,
    "poisson_2d": poisson_2d,
    "ring_2d": ring_2d,
    "advection_1d": advection_1d,
    "heat_2d": heat_2d,
    "potential_3d": potential_3d,
    "flow_2d": flow_2d,
}
