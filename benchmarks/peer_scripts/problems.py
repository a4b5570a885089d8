"""The problems that every package is given, each defined once: equation, conditions, points, solution. NumPy only.

An equation is sum_alpha c_alpha d^alpha u = source with constant c_alpha; alpha counts the derivatives per coordinate.
All methods that collocate get the same points: Halton points inside, even ones on the boundary. Conditions are also
measured on `between`, a denser set nobody is given, since a condition may hold at its points and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

Array = np.ndarray
Index = tuple[int, ...]  # derivatives per coordinate
Function = Callable[[Array], Array]  # points (P, D) -> (P,)

PI = np.pi
WAVE_NUMBER = 4 * PI
SPEED = 0.1
PARTS = (1, 2, 3, 4, 8)
PEAK = 20.0


@dataclass(frozen=True, eq=False)
class Condition:
    """One derivative of u (or u itself) with given values at points."""

    name: str
    derivative: Index
    values: Function
    points: Array  # (P, D), given to the methods
    between: Array  # (Q, D), only measured
    latex: str = ""  # the same for cnf; without "=" the right-hand side is `values`, a table
    channel: int | None = None  # of a field with several


@dataclass(frozen=True, eq=False)
class Problem:
    """A linear problem on a box with its exact solution; without `operator` there are only values to meet."""

    name: str
    title: str
    coordinates: tuple[str, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    exact: Function
    conditions: tuple[Condition, ...]
    operator: Mapping[Index, float] = field(default_factory=dict)
    source: Function | None = None
    latex: str = ""  # the equation for cnf; without "=" the right-hand side is `source`
    size: float = 1.0  # the largest term or source of the equation; its residuals are divided by it
    interior: Array = field(default_factory=lambda: np.zeros((0, 0)))  # (N, D)

    @property
    def dimension(self) -> int:
        return len(self.coordinates)

    @property
    def has_equation(self) -> bool:
        return self.source is not None

    def residual(self, points: Array, derivative: Callable[[Array, Index], Array]) -> Array:
        """What the equation misses at points, in parts of its largest term, (P,)."""
        assert self.source is not None
        total = sum(c * derivative(points, index) for index, c in self.operator.items())
        return (total - self.source(points)) / self.size

    def grid(self) -> Array:
        """Where the error is measured: 1001 points in one dimension, 101 x 101 in two."""
        return even_grid(self.lower, self.upper, 1001 if self.dimension == 1 else 101)


def even_grid(lower: tuple[float, ...], upper: tuple[float, ...], count: int) -> Array:
    """count^D points, corners included, (P, D)."""
    axes = [np.linspace(a, b, count) for a, b in zip(lower, upper, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def halton(count: int, dimension: int) -> Array:
    """The first `count` Halton points of the unit box, zero left out: the same in every environment, (count, D)."""
    columns = []
    for base in (2, 3, 5)[:dimension]:
        rest, share, column = np.arange(1, count + 1), 1.0, np.zeros(count)
        while rest.any():
            share /= base
            column += share * (rest % base)
            rest = rest // base
        columns.append(column)
    return np.stack(columns, axis=1)


def face(axis: int, at: float, count: int, ends: bool = True) -> Array:
    """Even points of the edge of the unit square where coordinate `axis` is `at`, (count, 2)."""
    along = np.linspace(0, 1, count) if ends else np.linspace(0, 1, count + 2)[1:-1]
    fixed = np.full_like(along, at)
    return np.stack([fixed, along] if axis == 0 else [along, fixed], axis=1)


def square_boundary(count: int) -> Array:
    """Even points on all four edges, `count` per edge with its ends, every corner once, (4 count - 4, 2)."""
    upright = [face(0, at, count) for at in (0.0, 1.0)]
    level = [face(1, at, count - 2, ends=False) for at in (0.0, 1.0)]
    return np.concatenate(upright + level)


def make_zero(points: Array) -> Array:
    return np.zeros(len(points))


def _poisson1d() -> Problem:
    def exact(p: Array) -> Array:
        return p[:, 0] + sum(np.sin(i * p[:, 0]) / i for i in PARTS)

    def source(p: Array) -> Array:
        return sum(i * np.sin(i * p[:, 0]) for i in PARTS)

    ends = np.array([[0.0], [PI]])
    return Problem(
        name="poisson1d",
        title="Poisson, 1D, five frequencies",
        coordinates=("x",),
        lower=(0.0,),
        upper=(PI,),
        exact=exact,
        conditions=(Condition("ends", (0,), lambda p: p[:, 0], ends, ends, "u = x"),),
        operator={(2,): -1.0},
        source=source,
        latex=r"-\partial_x^2 u = \sin(x) + 2\sin(2x) + 3\sin(3x) + 4\sin(4x) + 8\sin(8x)",
        size=14.0,
        interior=np.linspace(0, PI, 66)[1:-1, None],
    )


def _square(name: str, title: str, inside: int, edge: int, k: float, **equation: object) -> Problem:
    """sin(kx) sin(ky) on the unit square, zero on its boundary."""
    boundary = Condition("boundary", (0, 0), make_zero, square_boundary(edge), square_boundary(201), "u = 0")
    return Problem(
        name=name,
        title=title,
        coordinates=("x", "y"),
        lower=(0.0, 0.0),
        upper=(1.0, 1.0),
        exact=lambda p: np.sin(k * p[:, 0]) * np.sin(k * p[:, 1]),
        conditions=(boundary,),
        interior=halton(inside, 2),
        **equation,  # type: ignore[arg-type]
    )


def _poisson2d() -> Problem:
    return _square(
        "poisson2d",
        "Poisson, 2D",
        inside=400,
        edge=21,
        k=2 * PI,
        operator={(2, 0): -1.0, (0, 2): -1.0},
        source=lambda p: 8 * PI**2 * np.sin(2 * PI * p[:, 0]) * np.sin(2 * PI * p[:, 1]),
        latex=r"-\Delta u = 8 \pi^2 \sin(2 \pi x) \sin(2 \pi y)",
        size=8 * PI**2,
    )


def _peak() -> Problem:
    """Not made of waves: a hill beside the middle, brought to zero at the boundary by a polynomial."""

    def parts(p: Array) -> tuple[Array, Array, Array, Array, Array, Array]:
        x, y = p.T
        a, b = x * (1 - x), y * (1 - y)
        across, up = x - 0.4, y - 0.6
        return a, b, across, up, 1 - 2 * x, 1 - 2 * y

    def exact(p: Array) -> Array:
        a, b, across, up, _, _ = parts(p)
        return 16 * a * b * np.exp(-PEAK * (across**2 + up**2))

    def source(p: Array) -> Array:
        # u = 16 a(x) b(y) e^q with q = -PEAK r^2: u_xx / (16 e^q) = b (a'' + 2 a' q_x + a (q_xx + q_x^2)).
        a, b, across, up, da, db = parts(p)
        hill = 16 * np.exp(-PEAK * (across**2 + up**2))
        qx, qy = -2 * PEAK * across, -2 * PEAK * up
        along_x = b * (-2 + 2 * da * qx + a * (qx**2 - 2 * PEAK))
        along_y = a * (-2 + 2 * db * qy + b * (qy**2 - 2 * PEAK))
        return -hill * (along_x + along_y)

    boundary = Condition("boundary", (0, 0), make_zero, square_boundary(21), square_boundary(201), "u = 0")
    return Problem(
        name="peak",
        title="Poisson, 2D, a peak",
        coordinates=("x", "y"),
        lower=(0.0, 0.0),
        upper=(1.0, 1.0),
        exact=exact,
        conditions=(boundary,),
        operator={(2, 0): -1.0, (0, 2): -1.0},
        source=source,
        latex=r"-\Delta u",
        size=91.0,
        interior=halton(400, 2),
    )


def _helmholtz() -> Problem:
    k = WAVE_NUMBER
    return _square(
        "helmholtz",
        "Helmholtz, k = 4 pi",
        inside=600,
        edge=26,
        k=k,
        operator={(2, 0): 1.0, (0, 2): 1.0, (0, 0): k**2},
        source=lambda p: -(k**2) * np.sin(k * p[:, 0]) * np.sin(k * p[:, 1]),
        latex=r"\Delta u + 16 \pi^2 u = -16 \pi^2 \sin(4 \pi x) \sin(4 \pi y)",
        size=k**2,
    )


def _wave() -> Problem:
    def start(p: Array) -> Array:
        return np.sin(PI * p[:, 0]) + 0.5 * np.sin(4 * PI * p[:, 0])

    def exact(p: Array) -> Array:
        x, t = p.T
        return np.sin(PI * x) * np.cos(2 * PI * t) + 0.5 * np.sin(4 * PI * x) * np.cos(8 * PI * t)

    def ends(count: int) -> Array:
        return np.concatenate([face(0, at, count)[1:] for at in (0.0, 1.0)])  # t = 0 belongs to the start

    return Problem(
        name="wave",
        title="Wave, speed 2",
        coordinates=("x", "t"),
        lower=(0.0, 0.0),
        upper=(1.0, 1.0),
        exact=exact,
        conditions=(
            Condition("ends", (0, 0), make_zero, ends(31), ends(201), "u = 0"),
            Condition("start", (0, 0), start, face(1, 0, 31), face(1, 0, 201), r"u = \sin(\pi x) + 0.5 \sin(4 \pi x)"),
            Condition("velocity", (0, 1), make_zero, face(1, 0, 29, ends=False), face(1, 0, 201), r"\partial_t u = 0"),
        ),
        operator={(0, 2): 1.0, (2, 0): -4.0},
        source=make_zero,
        latex=r"\partial_t^2 u - 4 \partial_x^2 u = 0",
        size=36 * PI**2,
        interior=halton(800, 2),
    )


def _advection() -> Problem:
    """The paper's problem as it stands: no inflow is given, so x < 0.1 t is left to how a method continues a field."""

    def start(p: Array) -> Array:
        return np.sin(2 * PI * p[:, 0])

    latex = r"u = \sin(2 \pi x)"
    return Problem(
        name="advection",
        title="Advection, speed 0.1",
        coordinates=("x", "t"),
        lower=(0.0, 0.0),
        upper=(1.0, 1.0),
        exact=lambda p: np.sin(2 * PI * (p[:, 0] - SPEED * p[:, 1])),
        conditions=(Condition("start", (0, 0), start, face(1, 0, 32), face(1, 0, 201), latex),),
        operator={(0, 1): 1.0, (1, 0): SPEED},
        source=make_zero,
        latex=r"\partial_t u + 0.1 \partial_x u = 0",
        size=2 * PI * SPEED,
        interior=halton(500, 2),
    )


def evaluate_franke(points: Array) -> Array:
    """Franke's test function for scattered data."""
    x, y = 9 * points[:, 0], 9 * points[:, 1]
    return (
        0.75 * np.exp(-((x - 2) ** 2 + (y - 2) ** 2) / 4)
        + 0.75 * np.exp(-((x + 1) ** 2) / 49 - (y + 1) / 10)
        + 0.5 * np.exp(-((x - 7) ** 2 + (y - 3) ** 2) / 4)
        - 0.2 * np.exp(-((x - 4) ** 2) - (y - 7) ** 2)
    )


def _scattered() -> Problem:
    # Values are known only at the points, so there is nothing to measure between them but the error itself.
    points = halton(400, 2)
    return Problem(
        name="scattered",
        title="Scattered values (Franke)",
        coordinates=("x", "y"),
        lower=(0.0, 0.0),
        upper=(1.0, 1.0),
        exact=evaluate_franke,
        conditions=(Condition("values", (0, 0), evaluate_franke, points, points, "u"),),
    )


PROBLEMS: dict[str, Problem] = {
    p.name: p for p in (_poisson1d(), _poisson2d(), _peak(), _helmholtz(), _wave(), _advection(), _scattered())
}
METHODS = ("cnf", "deepxde", "tfc", "siren", "scipy-thin-plate", "scipy-gaussian")

VALUES_ONLY = "RBFInterpolator takes values only, no derivatives"
DOES_NOT_APPLY: dict[tuple[str, str], str] = {
    ("deepxde", "scattered"): "its hard constraint is a formula for a boundary, not for scattered points",
    ("tfc", "scattered"): "its constrained expressions hold on faces of a box, not at scattered points",
    **{(m, name): VALUES_ONLY for m in METHODS if m.startswith("scipy") for name in PROBLEMS if name != "scattered"},
}
