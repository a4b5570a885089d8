"""Nonlinear problems that every package is given, each defined once: equation, conditions, solution. NumPy only.

The five that fastlsq ships, the one that tfc tests itself with, and four that are harder: two scales, a layer that
forms by itself, a minimal surface, a flow. An equation is a list of expressions in the coordinates and in derivatives
of the field that should vanish; it takes the module that knows sin (numpy, torch or jax.numpy). Every package chooses
its own points; all are measured at the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.peer_scripts.problems import Array, Condition, Function, Index, even_grid, face, square_boundary

Jet = Callable[[Index], Any]  # alpha -> d^alpha of all channels at the points of the columns, (P, C)
Columns = Sequence[Any]  # the coordinates, each (P, 1)
PI = np.pi
NU = 0.01 / PI
RATE = 20 - np.sqrt(400 + 4 * PI**2)  # of Kovasznay's flow at Re = 40
NONLINEAR_METHODS = (
    "cnf",
    "fastlsq",
    "fastlsq-tests",
    "fastlsq-quick",
    "tfc",
    "skfem-coarse",
    "skfem-middle",
    "skfem-fine",
    "skfem-quartic",
    "deepxde",
)


@dataclass(frozen=True, eq=False)
class NonlinearProblem:
    """A nonlinear problem on a box with its solution, and the error that cnf is asked for."""

    name: str
    title: str
    exact: Function  # (P, D) -> (P, C)
    equation: Callable[[Columns, Jet, Any], list[Any]]
    conditions: tuple[Condition, ...]
    size: float  # the largest term of the equation; its residuals are divided by it
    entries: Mapping[str, Any]  # of cnf.Problem, without `solve`; conditions have the names of `conditions`
    lower: tuple[float, ...] = (0.0, 0.0)
    upper: tuple[float, ...] = (1.0, 1.0)
    asked: float = 1e-9
    near: Array | None = None  # (P, D): where else it is measured

    has_equation = True

    @property
    def dimension(self) -> int:
        return len(self.lower)

    @property
    def coordinates(self) -> tuple[str, ...]:
        return tuple(self.entries["coordinates"].split())

    @property
    def channels(self) -> tuple[str, ...]:
        return tuple(self.entries.get("channels", "u").split())

    def grid(self) -> Array:
        """Where the error is measured: an even grid, and where it is hard."""
        even = even_grid(self.lower, self.upper, 1001 if self.dimension == 1 else 101)
        return even if self.near is None else np.concatenate([even, self.near])

    def residual(self, points: Array, derivative: Callable[[Array, Index], Array]) -> Array:
        """What the equation misses at points, in parts of its largest term, (P, rows)."""
        columns = [points[:, k : k + 1] for k in range(self.dimension)]
        return np.concatenate(self.equation(columns, lambda index: derivative(points, index), np), axis=1) / self.size


def state(coordinates: str, equation: str, around: str, **more: Any) -> dict[str, Any]:
    """Entries of an equation on the unit box with one condition on all of its boundary."""
    count = len(coordinates.split())
    return {
        "coordinates": coordinates,
        "domain": {"type": "box", "lower": [0] * count, "upper": [1] * count},
        "equations": [
            {"on": "interior", "name": "equation", "equation": equation},
            {"on": "boundary", "name": "boundary", "equation": around},
        ],
        **more,
    }


def values_around(exact: Function, lower: Sequence[float], upper: Sequence[float]) -> Condition:
    """The values of a function on the whole boundary of an interval or a rectangle."""
    if len(lower) == 1:
        ends = np.array([lower, upper])
        return Condition("boundary", (0,), exact, ends, ends)
    extent = np.subtract(upper, lower)
    given, between = (np.asarray(lower) + extent * square_boundary(count) for count in (41, 301))
    return Condition("boundary", (0, 0), exact, given, between)


def laplacian(d: Jet) -> Any:
    return d((2, 0)) + d((0, 2))


def sines(x: Any, y: Any, m: Any, k: float = PI) -> Any:
    return m.sin(k * x) * m.sin(k * y)


def two_scales(x: Any, y: Any, m: Any) -> Any:
    return sines(x, y, m) + 2 * sines(x, y, m, 4 * PI)


def _on_square(name: str, title: str, exact: Callable[..., Any], size: float, **more: Any) -> NonlinearProblem:
    def values(p: Array) -> Array:
        return exact(p[:, :1], p[:, 1:], np)

    lower, upper = more.get("lower", (0.0, 0.0)), more.get("upper", (1.0, 1.0))
    return NonlinearProblem(name, title, values, conditions=(values_around(values, lower, upper),), size=size, **more)


def _poisson() -> NonlinearProblem:
    u = r"\sin(\pi x) \sin(\pi y)"
    return _on_square(
        "nl-poisson",
        "Poisson with u^3",
        sines,
        21.0,
        equation=lambda x, d, m: [-laplacian(d) + d((0, 0)) ** 3 - 2 * PI**2 * sines(*x, m) - sines(*x, m) ** 3],
        entries=state("x y", rf"-\Delta u + u^3 = 2 \pi^2 {u} + ({u})^3", "u = 0"),
    )


def _bratu() -> NonlinearProblem:
    u = r"\sin(\pi x) \sin(\pi y)"
    return _on_square(
        "bratu",
        "Bratu, 2D",
        sines,
        20.0,
        equation=lambda x, d, m: [-laplacian(d) - m.exp(d((0, 0))) - 2 * PI**2 * sines(*x, m) + m.exp(sines(*x, m))],
        entries=state("x y", rf"-\Delta u - e^u = 2 \pi^2 {u} - e^{{{u}}}", "u = 0"),
    )


def _helmholtz() -> NonlinearProblem:
    u = r"\sin(3 x) \sin(3 y)"
    return _on_square(
        "nl-helmholtz",
        "Helmholtz with u^3",
        lambda x, y, m: sines(x, y, m, 3.0),
        18.0,
        equation=lambda x, d, m: [
            laplacian(d) + 9 * d((0, 0)) + 0.5 * d((0, 0)) ** 3 + 9 * sines(*x, m, 3.0) - 0.5 * sines(*x, m, 3.0) ** 3
        ],
        entries=state("x y", rf"\Delta u + 9 u + 0.5 u^3 = -9 {u} + 0.5 ({u})^3", f"u = {u}"),
    )


def _line(name: str, title: str, k: float, **more: Any) -> NonlinearProblem:
    def values(p: Array) -> Array:
        return np.sin(k * p)

    around = values_around(lambda p: np.zeros((len(p), 1)), (0.0,), (1.0,))
    return NonlinearProblem(name, title, values, conditions=(around,), lower=(0.0,), upper=(1.0,), **more)


def _steady_burgers() -> NonlinearProblem:
    k = 2 * PI

    def equation(x: Columns, d: Jet, m: Any) -> list[Any]:
        right = k * m.sin(k * x[0]) * m.cos(k * x[0]) + 0.1 * k**2 * m.sin(k * x[0])
        return [d((0,)) * d((1,)) - 0.1 * d((2,)) - right]

    latex = r"u u_x - 0.1 u_{xx} = 2 \pi \sin(2 \pi x) \cos(2 \pi x) + 0.4 \pi^2 \sin(2 \pi x)"
    return _line(
        "steady-burgers", "Burgers, steady", k, size=4.0, equation=equation, entries=state("x", latex, "u = 0")
    )


def _allen_cahn() -> NonlinearProblem:
    def equation(x: Columns, d: Jet, m: Any) -> list[Any]:
        u = m.sin(PI * x[0])
        return [0.1 * d((2,)) + d((0,)) - d((0,)) ** 3 - (1 - 0.1 * PI**2) * u + u**3]

    latex = r"0.1 u_{xx} + u - u^3 = (1 - 0.1 \pi^2) \sin(\pi x) - \sin(\pi x)^3"
    return _line(
        "allen-cahn", "Allen-Cahn, steady", PI, size=1.0, equation=equation, entries=state("x", latex, "u = 0")
    )


def _convection() -> NonlinearProblem:
    def exact(p: Array) -> Array:
        return p[:, 1:] ** 2 * np.sin(PI * p[:, :1])

    def slope(p: Array) -> Array:
        return 2 * p[:, 1:] * np.sin(PI * p[:, :1])

    def equation(x: Columns, d: Jet, m: Any) -> list[Any]:
        wave, y = m.sin(PI * x[0]), x[1]
        return [laplacian(d) + d((0, 0)) * d((0, 1)) - wave * (2 - PI**2 * y**2 + 2 * y**3 * wave)]

    given = {"left": (0, 0.0), "right": (0, 1.0), "bottom": (1, 0.0)}
    conditions = [Condition(n, (0, 0), exact, face(*at, 41), face(*at, 301)) for n, at in given.items()]
    conditions.append(Condition("top", (0, 1), slope, face(1, 1.0, 41), face(1, 1.0, 301)))
    latex = r"u_{xx} + u_{yy} + u u_y = \sin(\pi x) (2 - \pi^2 y^2 + 2 y^3 \sin(\pi x))"
    entries = state("x y", latex, "u = 0")
    entries["equations"][1:] = [
        {"on": "x = 0", "name": "left", "equation": "u = 0"},
        {"on": "x = 1", "name": "right", "equation": "u = 0"},
        {"on": "y = 0", "name": "bottom", "equation": "u = 0"},
        {"on": "y = 1", "name": "top", "equation": r"u_y = 2 \sin(\pi x)"},
    ]
    return NonlinearProblem(
        "tfc-test", "tfc's own test", exact, equation, tuple(conditions), size=10.0, entries=entries, asked=1e-11
    )


def _cubic() -> NonlinearProblem:
    first, second = r"\sin(\pi x) \sin(\pi y)", r"\sin(4 \pi x) \sin(4 \pi y)"
    right = rf"2 \pi^2 {first} + 64 \pi^2 {second} + ({first} + 2 {second})^3"
    return _on_square(
        "cubic",
        "Poisson with u^3, two scales",
        two_scales,
        650.0,
        equation=lambda x, d, m: [-laplacian(d) + d((0, 0)) ** 3 - cubic_source(*x, m)],
        entries=state("x y", rf"-\Delta u + u^3 = {right}", "u = 0"),
        asked=1e-11,
    )


def cubic_source(x: Any, y: Any, m: Any) -> Any:
    waves = 2 * PI**2 * sines(x, y, m) + 64 * PI**2 * sines(x, y, m, 4 * PI)
    return waves + two_scales(x, y, m) ** 3


def cole_hopf(points: Array, nu: float = NU, nodes: int = 200) -> Array:
    """Burgers' equation from -sin(pi x) on [-1, 1] at points (x, t), (P, 1), by nodes of the heat kernel."""
    z, weights = np.polynomial.hermite.hermgauss(nodes)
    x, t = points[:, :1], points[:, 1:]
    y = x - 2 * np.sqrt(nu * t) * z  # (P, nodes)
    heat = weights * np.exp(-(np.cos(PI * y) + 1) / (2 * PI * nu))
    return -(heat * np.sin(PI * y)).sum(axis=1, keepdims=True) / heat.sum(axis=1, keepdims=True)


def _burgers() -> NonlinearProblem:
    lower, upper = (-1.0, 0.0), (1.0, 1.0)

    def start(p: Array) -> Array:
        return -np.sin(PI * p[:, :1])

    def walls(count: int) -> Array:
        return np.concatenate([face(0, at, count) * [2, 1] - [1, 0] for at in (0.0, 1.0)])

    def line(count: int) -> Array:
        return face(1, 0.0, count) * [2, 1] - [1, 0]

    entries = {
        "coordinates": "x t",
        "domain": {"type": "box", "lower": [-1], "upper": [1], "time": [0, 1]},
        "parameters": {"nu": r"\frac{0.01}{\pi}"},
        "equations": [
            {"on": "interior", "name": "equation", "equation": r"u_t + u u_x = \nu u_{xx}"},
            {"on": "t = 0", "name": "start", "equation": r"u = -\sin(\pi x)"},
            {"on": "boundary", "name": "walls", "equation": "u = 0"},
        ],
    }
    return NonlinearProblem(
        "burgers",
        "Burgers, nu = 0.01 / pi",
        cole_hopf,
        lambda x, d, m: [d((0, 1)) + d((0, 0)) * d((1, 0)) - NU * d((2, 0))],
        (
            Condition("start", (0, 0), start, line(41), line(301)),
            Condition("walls", (0, 0), lambda p: np.zeros((len(p), 1)), walls(41), walls(301)),
        ),
        size=58.0,
        entries=entries,
        lower=lower,
        upper=upper,
        asked=1e-8,
        near=even_grid((-0.05, 0.2), (0.05, 1.0), 61),  # the layer
    )


def _minimal_surface() -> NonlinearProblem:
    def scherk(x: Any, y: Any, m: Any) -> Any:
        return m.log(m.cos(y)) - m.log(m.cos(x))

    def equation(x: Columns, d: Jet, m: Any) -> list[Any]:
        along, up = d((1, 0)), d((0, 1))
        return [(1 + up**2) * d((2, 0)) - 2 * along * up * d((1, 1)) + (1 + along**2) * d((0, 2))]

    latex = "(1 + u_y^2) u_{xx} - 2 u_x u_y u_{xy} + (1 + u_x^2) u_{yy} = 0"
    domain = {"type": "box", "lower": [-1, -1], "upper": [1, 1]}
    return _on_square(
        "minimal-surface",
        "minimal surface (Scherk)",
        scherk,
        12.0,
        equation=equation,
        entries={**state("x y", latex, r"u = \ln(\cos(y) / \cos(x))"), "domain": domain},
        lower=(-1.0, -1.0),
        upper=(1.0, 1.0),
        asked=1e-8,
    )


def flow(p: Array) -> Array:
    """Kovasznay's velocity and pressure, (P, 3)."""
    x, y = p[:, :1], p[:, 1:]
    decay = np.exp(RATE * x)
    u, v = 1 - decay * np.cos(2 * PI * y), RATE / (2 * PI) * decay * np.sin(2 * PI * y)
    return np.concatenate([u, v, (1 - decay**2) / 2], axis=1)


def _kovasznay() -> NonlinearProblem:
    lower, upper = (-0.5, -0.5), (1.0, 1.5)

    def equation(x: Columns, d: Jet, m: Any) -> list[Any]:
        value, dx, dy, bent = d((0, 0)), d((1, 0)), d((0, 1)), laplacian(d)
        u, v = value[:, :1], value[:, 1:2]
        momentum = [
            u * dx[:, k : k + 1] + v * dy[:, k : k + 1] + (dx, dy)[k][:, 2:3] - bent[:, k : k + 1] / 40 for k in (0, 1)
        ]
        return [*momentum, dx[:, :1] + dy[:, 1:2]]

    around = values_around(lambda p: flow(p)[:, :1], lower, upper)
    up = values_around(lambda p: flow(p)[:, 1:2], lower, upper)
    corner = np.zeros((1, 2))
    entries = {
        "coordinates": "x y",
        "channels": "u v p",
        "vectors": {"u": ["u", "v"]},
        "parameters": {"a": float(RATE)},
        "domain": {"type": "box", "lower": list(lower), "upper": list(upper)},
        "equations": [
            {
                "on": "interior",
                "name": "equation",
                "equation": r"(\mathbf{u} \cdot \nabla) \mathbf{u} + \nabla p = \frac{1}{40} \Delta \mathbf{u}",
            },
            {"on": "interior", "name": "mass", "equation": r"\nabla \cdot \mathbf{u} = 0"},
            {"on": "boundary", "name": "along", "equation": r"u = 1 - e^{a x} \cos(2 \pi y)"},
            {"on": "boundary", "name": "up", "equation": r"v = \frac{a}{2 \pi} e^{a x} \sin(2 \pi y)"},
            {"name": "level", "equation": "p(0, 0) = 0"},
        ],
    }
    return NonlinearProblem(
        "kovasznay",
        "Kovasznay's flow, Re = 40",
        flow,
        equation,
        (
            Condition("along", (0, 0), around.values, around.points, around.between, channel=0),
            Condition("up", (0, 0), up.values, up.points, up.between, channel=1),
            Condition("level", (0, 0), lambda p: np.zeros((len(p), 1)), corner, corner, channel=2),
        ),
        size=4.0,
        entries=entries,
        lower=lower,
        upper=upper,
    )


NONLINEAR: dict[str, NonlinearProblem] = {
    p.name: p
    for p in (
        _poisson(),
        _bratu(),
        _steady_burgers(),
        _helmholtz(),
        _allen_cahn(),
        _convection(),
        _cubic(),
        _burgers(),
        _minimal_surface(),
        _kovasznay(),
    )
}
FASTLSQ_OWN = ("nl-poisson", "bratu", "steady-burgers", "nl-helmholtz", "allen-cahn")
HARDER = ("cubic", "burgers", "minimal-surface", "kovasznay")

_NOT_SHIPPED = "fastlsq ships no such problem; its users write the Jacobian"
_ONE_POLYNOMIAL = "one polynomial on the whole box; the layer would need a degree of several hundred"
NONLINEAR_DOES_NOT_APPLY: dict[tuple[str, str], str] = {
    **{(m, n): _NOT_SHIPPED for m in NONLINEAR_METHODS if "fastlsq" in m for n in ("tfc-test", *HARDER[1:])},
    ("fastlsq-tests", "cubic"): "not among the tests of fastlsq",
    **{(m, n): "not among its four" for m in NONLINEAR_METHODS if m[:5] in ("skfem", "deepx") for n in NONLINEAR
       if n not in HARDER},
    ("skfem-quartic", "kovasznay"): "Taylor and Hood's elements are quadratic",
    ("skfem-quartic", "burgers"): "quadratic elements on the line",
    ("tfc", "burgers"): _ONE_POLYNOMIAL,
    ("tfc", "minimal-surface"): "its formula for these edges is the solution already, before anything is solved",
    ("tfc", "kovasznay"): "its formula for a vector and a pressure that is given at a point was not written",
}  # fmt: skip
