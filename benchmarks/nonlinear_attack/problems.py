"""Problems: random nonlinear conditions at random points, with a known solution or with any right-hand sides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import sympy as sp
import torch

import cnf
from benchmarks.attack.bases import Wishes, draw_basis
from benchmarks.attack.networks import draw_base
from benchmarks.attack.setting import Setting, draw_setting
from benchmarks.nonlinear_attack.expressions import Writer, Written, channels_of, coordinates_of
from benchmarks.nonlinear_attack.looking import Jets, values_of

KINDS = (
    *("made", "any", "edges", "square", "based", "degenerate", "made", "integral", "any", "square"),
    *("made", "edges", "degenerate", "based", "made", "square", "any", "degenerate", "edges", "problem"),
)
BASES = (
    *("RandomFourier", "RandomFourier", "RandomFourier", "Kernel-Gaussian", "Kernel-Matern", "Polynomial", "SkewedRBF"),
    *("Hermite", "Kernel-encoded", "ConstraintLayer", "Concat"),
)
HARD = (  # conditions with no solution, several, singular ones, or no numbers: latex, expression in u, right-hand side
    ("u^2", lambda u: u**2, -1.0),
    ("u^2", lambda u: u**2, 0.0),
    ("u^2 - 2 u + 1", lambda u: u**2 - 2 * u + 1, 0.0),
    ("u^3 - 3 u + 2", lambda u: u**3 - 3 * u + 2, 0.0),
    ("u^3 - u", lambda u: u**3 - u, 0.0),
    (r"\sqrt{u}", sp.sqrt, -1.0),
    (r"\ln(u)", sp.log, -50.0),
    (r"\frac{1}{u}", lambda u: 1 / u, 0.0),
    ("e^u", sp.exp, -1.0),
    ("e^u", sp.exp, 0.0),
    ("|u|", sp.Abs, -1.0),
    ("|u|", sp.Abs, 1.0),
    (r"\sin(u)", sp.sin, 1.0),
    (r"\sin(u)", sp.sin, 1.5),
    (r"\tanh(u)", sp.tanh, 1.0),
    ("u^4 + u^2", lambda u: u**4 + u**2, 0.0),
)


@dataclass(frozen=True)
class Part:
    """One constraint: what is asked, where (P, D), and the values (P, R)."""

    written: Written
    points: np.ndarray
    values: np.ndarray


@dataclass
class Drawn:
    """A problem; `start` is a function of points or None."""

    number: int
    kind: str
    setting: Setting
    rng: np.random.Generator
    parts: list[Part]
    basis: str = ""
    wishes: Wishes = field(default_factory=Wishes)
    base: torch.nn.Module | None = None
    start: Callable[[torch.Tensor], torch.Tensor] | None = None
    started: str = "by itself"

    @property
    def description(self) -> str:
        conditions = "; ".join(f"{p.written.latex} at {p.values.shape[0]} points" for p in self.parts)
        return f"{conditions} | {self.basis}, {self.wishes.wide:.2f} per condition, start {self.started}"

    def constraints(self) -> list[cnf.Constraint]:
        space, made = self.setting.space, []
        for k, part in enumerate(self.parts):
            points = torch.tensor(part.points)
            made.append(space.constraint(part.written.latex, at=points, equals=torch.tensor(part.values), name=f"c{k}"))
        return made

    def build(self) -> cnf.ConstrainedField:
        constraints = self.constraints()
        self.wishes.order = max(c.operator.order for c in constraints)
        basis = draw_basis(self.rng, self.basis, self.setting, constraints, self.wishes)
        return cnf.ConstrainedField(basis, constraints, base=self.base, start=self.start)


def kind_of(number: int) -> str:
    return KINDS[number % len(KINDS)]


def draw_problem(seed: int, number: int) -> Drawn:
    """The problem with this number, the same whenever it is asked for."""
    rng = np.random.default_rng([seed, number, 14])
    kind = kind_of(number)
    channels = tuple(str(rng.choice(["u", "u v", "u v w"], p=[0.75, 0.2, 0.05])).split())
    setting = draw_setting(rng, channels=channels)
    if kind == "integral":  # along a line: in the plane, rules for what may vary anywhere take a million nodes
        setting = draw_setting(rng, channels=channels, coordinates=("x",), lower=np.zeros(1), length=np.ones(1))
    writer = Writer(rng, setting)
    known = writer.known()
    agrees = kind != "any" and rng.random() < 0.8
    drawn = Drawn(number, kind, setting, rng, [], str(rng.choice(BASES)))
    if kind == "integral":
        drawn.basis = str(rng.choice(["RandomFourier", "Polynomial", "Kernel-Gaussian"]))
    drawn.wishes = Wishes(width=float(rng.uniform(0.2, 0.8)), wide=float(rng.choice([1.0, 1.3, 2.0, 4.0])))
    count = int(rng.integers(2, {1: 16, 2: 14, 3: 10}[setting.dimension]))
    if kind == "degenerate":
        _degenerate(drawn, count)
    else:
        flowing = len(setting.channels) >= len(writer.space) > 1 and rng.random() < 0.4
        equations = [writer.flow()] if flowing else [writer.equation(c) for c in range(len(setting.channels))]
        places = setting.random_points(rng, count)
        drawn.parts += [part(setting, w, places, known if agrees else None, rng) for w in equations]
        _surround(drawn, writer, known if agrees else None)
    if kind == "square":
        drawn.basis = str(rng.choice(["Polynomial", "Kernel-Gaussian", "Kernel-Matern"]))
        drawn.wishes.wide, drawn.wishes.square = 1.0, drawn.basis != "Polynomial" and len(drawn.parts) == 1
        if setting.dimension == 1 or drawn.basis != "Polynomial":
            drawn.wishes.wide = 1.0 / len(setting.channels)
    if kind == "based":
        drawn.base, _ = draw_base(rng, setting, 0.5)
        drawn.base.double()
    _start(drawn, known)
    return drawn


def part(
    setting: Setting,
    written: Written,
    points: np.ndarray,
    known: tuple[sp.Expr, ...] | None,
    rng: np.random.Generator,
) -> Part:
    """With the values that known functions have there; any values without."""
    shape = (1 if written.over else len(points), len(written.rows))
    points = points[:1] if written.over else points
    if known is None:
        size = 10 ** rng.uniform(-1, 1)
        return Part(written, points, np.broadcast_to(size * rng.normal(size=(1, shape[1])), shape) + 0.0)
    values = np.empty(shape)
    for r, row in enumerate(written.rows):
        values[:, r] = _values(setting, row, known, points, written.over)
    values[~np.isfinite(values)] = 1.0
    return Part(written, points, values)


def _values(
    setting: Setting, row: sp.Expr, known: tuple[sp.Expr, ...], points: np.ndarray, over: bool
) -> np.ndarray | float:
    """What known functions make of a row at the points, (P,), or of its integral."""
    if not over:
        return _at(setting, row, known, points)
    nodes, weights = (a / 2 for a in np.polynomial.legendre.leggauss(30))
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*[nodes + 0.5] * setting.dimension, indexing="ij")], axis=1)
    total = _at(setting, row, known, grid).reshape([30] * setting.dimension)
    for _ in range(setting.dimension):
        total = total @ weights
    return float(total)


def _at(setting: Setting, row: sp.Expr, known: tuple[sp.Expr, ...], points: np.ndarray) -> np.ndarray:
    jets, x = Jets(setting, row), coordinates_of(setting)
    made = []
    for _, channel, index in jets.found.values():
        orders = [(v, n) for v, n in zip(x, index, strict=True) if n]
        made.append(sp.diff(known[channel], *orders) if orders else known[channel])
    (found,) = jets.evaluated([jets.plain], points, values_of(setting, made, points))
    return found


def _surround(drawn: Drawn, writer: Writer, known: tuple[sp.Expr, ...] | None) -> None:
    """Values on the boundary, nonlinear conditions there, integrals."""
    rng, setting = drawn.rng, drawn.setting
    places = setting.random_points(rng, int(rng.integers(1, 7)))
    places[:, int(rng.integers(setting.dimension))] = float(rng.integers(2))
    for c in range(len(setting.channels)):
        if drawn.kind != "square" and rng.random() < 0.7:
            drawn.parts.append(part(setting, Written(*_only(writer.value(c))), places, known, rng))
    if drawn.kind == "edges":
        edge = setting.random_points(rng, int(rng.integers(1, 5)))
        edge[:, 0] = 1.0
        drawn.parts.append(part(setting, writer.edge(), edge, known, rng))
    if drawn.kind == "integral":
        drawn.parts.append(part(setting, writer.integral(), places, known, rng))


def _only(pair: tuple[str, sp.Expr]) -> tuple[str, tuple[sp.Expr, ...]]:
    return pair[0], (pair[1],)


def _degenerate(drawn: Drawn, count: int) -> None:
    rng, setting = drawn.rng, drawn.setting
    latex, made, side = HARD[int(rng.integers(len(HARD)))]
    u = channels_of(setting)[0]
    expr = made(u)
    if rng.random() < 0.4:
        name = setting.coordinates[0]
        latex, expr = f"u_{{{name}{name}}} + {latex}", expr + sp.diff(u, coordinates_of(setting)[0], 2)
    points = setting.random_points(rng, count)
    drawn.parts.append(Part(Written(latex, (expr,)), points, np.full((count, 1), side)))
    if rng.random() < 0.4:  # maybe at a point of the equation, and against it
        drawn.parts.append(Part(Written("u", (u,)), points[:1], np.full((1, 1), float(rng.integers(-2, 3)))))
    for c in range(1, len(setting.channels)):
        drawn.parts.append(Part(Written(setting.channels[c], (channels_of(setting)[c],)), points, np.ones((count, 1))))


def _start(drawn: Drawn, known: tuple[sp.Expr, ...]) -> None:
    rng, chosen = drawn.rng, drawn.rng.random()
    if chosen < 0.6:
        return
    near = chosen < 0.85
    size, drawn.started = (0.1, "near") if near else (3.0, "far")
    functions = [sp.lambdify(coordinates_of(drawn.setting), e if near else sp.S.Zero, "torch") for e in known]
    shifts = size * rng.normal(size=len(known))

    def start(x: torch.Tensor) -> torch.Tensor:
        columns = [f(*x.T) + shift + 0 * x[:, 0] for f, shift in zip(functions, shifts, strict=True)]
        return torch.stack(columns, dim=1)

    drawn.start = start
