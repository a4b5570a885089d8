"""Light path: the path of least travel time between two points, in a medium whose refractive index grows along y.

    minimise  T[p] = integral_0^1 n(y(s)) |p'(s)| ds   over  p = (x, y): [0, 1] -> R^2,   p(0) and p(1) given.

As in the paper, p is the weighted sum of two learnable quadratics, and the end points are conditions: they hold at
every step, whatever the loss does to the coefficients. Two numbers to compare with are found without this library:
the least time of all paths (Euler-Lagrange equation by shooting) and the least time of all quadratic paths.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.integrate import solve_ivp
from scipy.optimize import brentq, minimize
from torch import Tensor

import cnf
from cnf.certificate.certificate import Certificate
from cnf.training import History

NODES = 64  # Gauss-Legendre nodes of the travel time
SAMPLES = 201  # points of a path that is kept for plots
Point = tuple[float, float]


@dataclass(frozen=True)
class Medium:
    """Refractive index n(y) = base + growth * y; the speed of light in vacuum is 1."""

    base: float = 1.0
    growth: float = 2.0

    def index(self, y):
        """Works for numbers, arrays and tensors."""
        return self.base + self.growth * y


@dataclass(frozen=True, eq=False)
class LightPath:
    """What was found; paths are (S, 2) arrays of x and y."""

    medium: Medium
    ends: tuple[Point, Point]
    before: np.ndarray
    after: np.ndarray
    exact: np.ndarray
    start_time: float
    final_time: float
    exact_time: float  # least of all paths
    quadratic_time: float  # least of all quadratic paths
    end_errors: tuple[float, ...]  # distance from an end point, before every step and at the end
    certificate: Certificate
    history: History
    field: cnf.ConstrainedField
    seconds: float

    @property
    def end_error(self) -> float:
        """The worst distance from an end point, over all steps."""
        return max(self.end_errors)

    @property
    def excess(self) -> float:
        """How much longer than the least time of all paths it takes, relative."""
        return self.final_time / self.exact_time - 1

    @property
    def quadratic_excess(self) -> float:
        """How much longer than the least time of all quadratic paths it takes, relative."""
        return self.final_time / self.quadratic_time - 1


def solve_light_path(
    steps: int = 100,
    seed: int = 1,
    progress: bool = True,
    ends: tuple[Point, Point] = ((0.0, 0.3), (1.0, 0.9)),
    medium: Medium = Medium(),
) -> LightPath:
    """Train two random quadratics, their end points fixed, towards the least travel time."""
    started = time.perf_counter()
    _check(ends, medium)
    field = path_field(ends, seed)
    nodes, weights = gauss_nodes()

    def travel_time(solution: cnf.Solution) -> Tensor:
        p, velocity = solution(nodes), solution.apply(cnf.operators.partial("s"), nodes)  # (Q, 2) each
        return (weights * medium.index(p[:, 1]) * velocity.square().sum(dim=1).sqrt()).sum()

    parameter = torch.linspace(0, 1, SAMPLES, dtype=torch.float64)[:, None]
    before = field.solve()(parameter).detach().numpy()
    start_time = float(travel_time(field.solve()).detach())
    ends_at, wanted = parameter[[0, -1]], torch.tensor(ends, dtype=torch.float64)
    misses: list[float] = []

    def watch(step: int, solution: cnf.Solution, history: object) -> None:
        with torch.no_grad():
            misses.append(float((solution(ends_at) - wanted).abs().max()))

    history = cnf.fit(field, travel_time, steps=steps, optimizer="lbfgs", progress=progress, callbacks=watch)
    field.eval()
    solution = field.solution
    watch(steps, solution, history)
    exact, exact_time = least_time_path(ends, medium)
    return LightPath(
        medium=medium,
        ends=ends,
        before=before,
        after=solution(parameter).detach().numpy(),
        exact=exact,
        start_time=start_time,
        final_time=float(travel_time(solution).detach()),
        exact_time=exact_time,
        quadratic_time=least_quadratic_time(ends, medium),
        end_errors=tuple(misses),
        certificate=solution.certificate,
        history=history,
        field=field,
        seconds=time.perf_counter() - started,
    )


def path_field(ends: tuple[Point, Point], seed: int = 0) -> cnf.ConstrainedField:
    """p(s) = beta_1 f_1(s) + beta_2 f_2(s), channel by channel, with p(0) and p(1) given."""
    space = cnf.Space("s", "x y")
    conditions = [
        space.constraint("x; y", at=[[float(k)]], equals=[list(map(float, ends[k]))], name=name)
        for k, name in enumerate(("start", "end"))
    ]
    quadratics = [cnf.encoders.LearnablePolynomial(1, 2, degree=2, seed=2 * seed + k) for k in range(2)]
    return cnf.ConstrainedField(cnf.bases.Independent(space, quadratics), conditions)


def gauss_nodes(count: int = NODES) -> tuple[Tensor, Tensor]:
    """Gauss-Legendre nodes (Q, 1) and weights (Q,) on [0, 1]."""
    x, w = np.polynomial.legendre.leggauss(count)
    return torch.from_numpy((x + 1) / 2)[:, None], torch.from_numpy(w / 2)


def least_time_path(ends: tuple[Point, Point], medium: Medium) -> tuple[np.ndarray, float]:
    """The fastest path y(x), (S, 2), and its time, by shooting.

    The Euler-Lagrange equation of n(y) sqrt(1 + y'^2) is y'' = n'(y) / n(y) (1 + y'^2); the first slope is adjusted
    until the path arrives. In a linear medium the paths are catenaries, of which two may arrive; the faster one is
    meant.
    """
    (x0, y0), (x1, y1) = ends
    floor = -medium.base / medium.growth  # where the index vanishes

    def curve(_: float, state: Sequence[float]) -> list[float]:
        y, slope, _time = state
        n = medium.index(y)
        root = math.sqrt(1 + slope * slope)
        return [slope, medium.growth / n * root * root, n * root]

    def too_steep(_: float, state: Sequence[float]) -> float:
        return 1e4 - abs(state[1])

    def too_low(_: float, state: Sequence[float]) -> float:
        return state[0] - floor - 1e-6

    too_steep.terminal = too_low.terminal = True  # type: ignore[attr-defined]

    def shoot(slope: float, where: np.ndarray | None = None):
        return solve_ivp(
            curve, (x0, x1), [y0, slope, 0.0], "DOP853", where, events=(too_steep, too_low), rtol=1e-12, atol=1e-13
        )

    def miss(slope: float) -> float:
        found = shoot(slope)
        return float(found.y[0, -1]) - y1 if found.status == 0 else math.copysign(1e6, found.y[1, -1])

    chord = (y1 - y0) / (x1 - x0)
    slopes = chord + np.tan(np.linspace(-1.5, 1.5, 61))
    misses = [miss(s) for s in slopes]
    roots = [
        brentq(miss, a, b, xtol=1e-13)
        for a, b, u, v in zip(slopes[:-1], slopes[1:], misses[:-1], misses[1:], strict=True)
        if u * v < 0 and abs(u) + abs(v) < 1e5
    ]
    if not roots:
        raise cnf.errors.CnfError(
            f"no path of light joins {ends[0]} and {ends[1]} in this medium: they are too far apart for its growth; "
            "move them together or up, or make the growth smaller"
        )
    shots = [shoot(root, np.linspace(x0, x1, SAMPLES)) for root in roots]
    best = min(shots, key=lambda shot: shot.y[2, -1])
    return np.stack([best.t, best.y[0]], axis=1), float(best.y[2, -1])


def least_quadratic_time(ends: tuple[Point, Point], medium: Medium) -> float:
    """The least time of all quadratic paths with these ends: two unknowns, the middle control point."""
    s, w = (t.numpy().reshape(-1, 1) for t in gauss_nodes())
    p0, p1 = (np.asarray(end, dtype=float) for end in ends)

    def travel_time(control: np.ndarray) -> float:
        p = (1 - s) ** 2 * p0 + 2 * s * (1 - s) * control + s**2 * p1
        velocity = 2 * (1 - s) * (control - p0) + 2 * s * (p1 - control)
        return float((w[:, 0] * medium.index(p[:, 1]) * np.linalg.norm(velocity, axis=1)).sum())

    return float(
        minimize(travel_time, (p0 + p1) / 2, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-14}).fun
    )


def _check(ends: tuple[Point, Point], medium: Medium) -> None:
    numbers = [*ends[0], *ends[1], medium.base, medium.growth]
    if not all(math.isfinite(v) for v in numbers):
        raise cnf.errors.CnfError("the end points and the medium must be finite numbers")
    if not ends[1][0] > ends[0][0]:
        raise cnf.errors.CnfError(
            f"the second end point lies to the right of the first; got x = {ends[0][0]} and {ends[1][0]}"
        )
    if not medium.growth > 0 or min(medium.index(end[1]) for end in ends) <= 0:
        raise cnf.errors.CnfError("the refractive index must be positive at both end points and grow along y")
