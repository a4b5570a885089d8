"""Problems: one random problem for every case number, of one of the kinds below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import nn

import cnf
from benchmarks.attack.bases import EVERY, LOCAL, SMOOTH, Wishes, draw_basis
from benchmarks.attack.conditions import FAMILIES, Asked, Maker
from benchmarks.attack.histories import COMMON, HISTORIES
from benchmarks.attack.networks import draw_base
from benchmarks.attack.setting import Setting, draw_setting

CHEAP = ("RandomFourier", "Concat", "Polynomial", "Kernel-Gaussian", "SkewedRBF")  # under double integrals
PLAIN = ("values", "derivatives", "calculus", "composition", "nonlocal")


@dataclass
class Part:
    """One constraint: what it asks, at which points (P, D), and the values asked for (P, R)."""

    asked: Asked
    points: np.ndarray
    values: np.ndarray
    equals: object
    dtype: torch.dtype

    def read_parameters(self) -> None:
        """Learnable numbers as they are now."""
        self.asked.read_parameters()
        if isinstance(self.equals, nn.Parameter):
            self.values = self.equals.detach().double().numpy().copy()

    def constraint(self, space: cnf.Space, name: str) -> cnf.Constraint:
        points = torch.tensor(self.points, dtype=self.dtype)
        return space.constraint(self.asked.latex, at=points, equals=self.equals, name=name, **self.asked.given)


@dataclass
class Plan:
    """What a kind of problem decides; the rest is drawn."""

    families: tuple[str, ...] = FAMILIES
    most: int = 3  # constraints
    points: int = 8  # of a constraint, at most
    bases: tuple[str, ...] = EVERY
    wishes: Wishes = field(default_factory=Wishes)
    setting: dict[str, object] = field(default_factory=dict)
    gap: float | None = None  # points get a neighbour at this distance, relative to the box
    conflict: float = 0.0  # chance that a repeated point gets another value
    base: float | None = None  # amplitude of the base
    learnable: float = 0.0
    histories: tuple[str, ...] = COMMON
    solvers: tuple[str, ...] = ("auto",) * 6 + ("minimum norm",) * 2 + ("by shape",) * 2
    tolerance: float | None = None
    doubled: bool = False  # every function twice


@dataclass
class Problem:
    """Everything that is needed to build the field, and to look at it independently."""

    setting: Setting
    parts: list[Part]
    build: Callable[[], cnf.ConstrainedField]
    history: str
    rng: np.random.Generator
    description: list[str]

    def read_parameters(self) -> None:
        for part in self.parts:
            part.read_parameters()


def draw_problem(seed: int, number: int) -> Problem:
    """The problem with this number: the same whenever it is asked for."""
    rng = np.random.default_rng([seed, number])
    torch.manual_seed(int(rng.integers(2**62)))
    plan = KINDS[kind_of(number)](rng)
    changes = dict(plan.setting)
    setting = draw_setting(rng)
    box = changes.pop("box", None)
    if box is not None:
        lower, length = box(rng, setting.dimension)
        changes |= {"lower": lower, "length": length}
    setting = replace(setting, **changes)
    parts = [_draw_part(rng, setting, plan) for _ in range(int(rng.integers(1, plan.most + 1)))]
    order = max(part.asked.order for part in parts)
    wishes = replace(plan.wishes, order=order)
    name, history = str(rng.choice(plan.bases)), str(rng.choice(plan.histories))
    axes = max(len(term.over) for part in parts for row in part.asked.rows for term in row)
    costly = (axes > 0 and name.startswith("Hermite")) or (axes > 1 and name not in CHEAP)
    if (costly and rng.random() < 0.9) or (order > 0 and name == "Kernel-Truncated" and rng.random() < 0.9):
        name = "RandomFourier"  # what takes minutes, or is refused, comes rarely
    solver = str(rng.choice(plan.solvers))
    base, base_name = draw_base(rng, setting, plan.base) if plan.base is not None else (None, "")
    description = [
        f"{' '.join(setting.coordinates)} -> {' '.join(setting.channels)}",
        str(setting.dtype).removeprefix("torch."),
        *([f"from {setting.lower.tolist()}, length {setting.length.tolist()}"] if _is_odd(setting) else []),
        *([f"gap {plan.gap:.0e}"] if plan.gap is not None else []),
        f"{name} (width {wishes.width:.1e}, {wishes.wide:.1f} per condition{', on the points' * wishes.square})",
        solver,
        *([f"base {base_name}"] if base_name else []),
        *(f"{part.asked.latex} at {part.points.shape[0]}" for part in parts),
        history,
    ]

    def build() -> cnf.ConstrainedField:
        space = setting.space
        constraints = [part.constraint(space, f"c{k}") for k, part in enumerate(parts)]
        basis = draw_basis(rng, name, setting, constraints, wishes)
        if plan.doubled:
            basis = cnf.bases.Concat([basis, basis])
        violation = "raise" if history == "raise" else "warn"
        method = _solver(rng, solver, name, constraints, basis)
        return cnf.ConstrainedField(basis, constraints, base, method, plan.tolerance, violation)

    return Problem(setting, parts, build, history, rng, description)


def _is_odd(setting: Setting) -> bool:
    return bool((setting.lower != 0).any() or (setting.length != 1).any())


def kind_of(number: int) -> str:
    return list(KINDS)[number % len(KINDS)]


# -- parts ----------------------------------------------------------------------------------------------------------


def _draw_part(rng: np.random.Generator, setting: Setting, plan: Plan) -> Part:
    points = setting.random_points(rng, int(rng.integers(1, plan.points + 1)))
    repeated = 0
    if plan.gap is not None:
        repeated = int(rng.integers(1, points.shape[0] + 1))
        step = rng.standard_normal((repeated, setting.dimension))
        step *= plan.gap * setting.length / np.linalg.norm(step, axis=1, keepdims=True)
        points = setting.rounded(np.concatenate([points, points[:repeated] + step]))
    maker = Maker(rng, setting, points, plan.learnable)
    asked = maker.make(str(rng.choice(plan.families)))
    values = _draw_values(rng, setting, points, len(asked.rows))
    if repeated and rng.random() >= plan.conflict:
        values[-repeated:] = values[:repeated]
    dtype = setting.dtype
    if dtype == torch.float32 and rng.random() < 0.1:
        dtype = torch.float64
    return Part(asked, points, values, _as_given(rng, setting, values, plan), dtype)


def _draw_values(rng: np.random.Generator, setting: Setting, points: np.ndarray, rows: int) -> np.ndarray:
    size, shape, style = setting.magnitude(rng, setting.value_spread), (points.shape[0], rows), rng.random()
    if style < 0.1:
        return np.zeros(shape)
    if style < 0.25:
        return np.full(shape, size)
    if style < 0.5:  # smooth
        z = (points - setting.lower) / setting.length
        return size * np.sin(z @ rng.uniform(-3, 3, (setting.dimension, rows)) + rng.uniform(0, 6, rows))
    if style < 0.6:  # of very different sizes
        return size * 10 ** rng.uniform(-setting.value_spread, setting.value_spread, shape)
    return size * rng.standard_normal(shape)


def _as_given(rng: np.random.Generator, setting: Setting, values: np.ndarray, plan: Plan) -> object:
    """As a number, a tensor, or a callable that knows the value at each point."""
    if plan.learnable and rng.random() < 0.2:
        return nn.Parameter(torch.tensor(values))
    if (values == values[0, 0]).all() and rng.random() < 0.5:
        return float(values[0, 0])
    if rng.random() < 0.2:
        table = torch.tensor(values)
        return lambda p: table.to(p.dtype)
    return torch.tensor(values)


def _solver(rng: np.random.Generator, wanted: str, basis_name: str, constraints, basis) -> object:
    solvers = cnf.solvers
    if wanted == "auto":
        return None
    if wanted == "by shape":
        if basis_name.startswith("Hermite"):
            return solvers.Cholesky()
        shared = len({term.channel for c in constraints for row in c.operator.rows for term in row}) == 1
        return solvers.LU() if shared and sum(c.rows for c in constraints) == basis.size else solvers.Auto()
    made = {
        "minimum norm": lambda: solvers.MinimumNorm(),
        "cut off": lambda: solvers.MinimumNorm(cutoff=float(10 ** rng.uniform(-12, -3))),
        "fit": lambda: solvers.Auto(least_squares=True),
        "LU": lambda: solvers.LU(),
        "Cholesky": lambda: solvers.Cholesky(),
        "sparse LU": lambda: solvers.SparseLU(),
        "sparse Cholesky": lambda: solvers.SparseCholesky(),
        "Krylov": lambda: solvers.Krylov(size=int(rng.integers(5, 40))),
        "blend": lambda: solvers.Patches(mode="blend", size=int(rng.integers(5, 25))),
        "local": lambda: solvers.Patches(mode="local", neighbours=int(rng.integers(3, 20))),
    }
    return made[wanted]()


# -- kinds ----------------------------------------------------------------------------------------------------------


def _ordinary(family: str) -> Callable[[np.random.Generator], Plan]:
    def plan(rng: np.random.Generator) -> Plan:
        families = (family, family, family, "values")
        bases = SMOOTH if family in ("integrals", "double") and rng.random() < 0.7 else EVERY
        return Plan(families, bases=bases, wishes=_wishes(rng))

    return plan


def _wishes(rng: np.random.Generator) -> Wishes:
    square = bool(rng.random() < 0.2)
    return Wishes(width=float(10 ** rng.uniform(-1, 0.2)), wide=float(rng.choice([1.0, 1.2, 2.0, 3.0])), square=square)


def _mixed(rng: np.random.Generator) -> Plan:
    return Plan(most=5, points=6, wishes=_wishes(rng))


def _close(rng: np.random.Generator) -> Plan:
    gap = float(10 ** rng.uniform(-15, -3))
    return Plan(PLAIN, points=5, gap=gap, conflict=0.6, wishes=_wishes(rng))


def _twice(rng: np.random.Generator) -> Plan:
    return Plan(FAMILIES, points=4, gap=0.0, conflict=0.5, wishes=_wishes(rng))


def _scales(rng: np.random.Generator) -> Plan:
    def box(generator: np.random.Generator, dimension: int) -> tuple[np.ndarray, np.ndarray]:
        length = 10 ** generator.uniform(-12, 12, dimension)
        if generator.random() < 0.5:
            length = np.full(dimension, length[0])
        offset = 10 ** generator.uniform(0, 12) if generator.random() < 0.4 else 0.0
        return np.array([float(f"{v:.4g}") for v in -offset * length]), np.array([float(f"{v:.3g}") for v in length])

    def unit(generator: np.random.Generator, dimension: int) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(dimension), np.ones(dimension)

    which = rng.random(3) < 0.6
    setting = {
        "box": box if which[0] else unit,
        "value_spread": 12.0 if which[1] else 0.3,
        "coefficient_spread": 12.0 if which[2] else 0.3,
    }
    return Plan(setting=setting, wishes=_wishes(rng), points=5)


def _single(rng: np.random.Generator) -> Plan:
    setting = {"dtype": torch.float32, "highest_order": 2, "value_spread": float(rng.choice([0.3, 4.0]))}
    gap = float(10 ** rng.uniform(-8, -1)) if rng.random() < 0.3 else None
    return Plan(setting=setting, wishes=_wishes(rng), gap=gap)


def _base(rng: np.random.Generator) -> Plan:
    setting = {"dtype": torch.float32, "highest_order": 2} if rng.random() < 0.2 else {"highest_order": 3}
    return Plan(base=float(10 ** rng.uniform(0, 9)), setting=setting, wishes=_wishes(rng))


def _rank(rng: np.random.Generator) -> Plan:
    wishes = replace(_wishes(rng), wide=float(rng.choice([0.3, 0.7, 1.0, 2.0])), square=False)
    solvers = ("fit", "fit", "auto", "minimum norm", "cut off")
    return Plan(wishes=wishes, solvers=solvers, doubled=bool(rng.random() < 0.4), bases=tuple(set(EVERY) - {"Hermite"}))


def _smooth(rng: np.random.Generator) -> Plan:
    wishes = replace(_wishes(rng), width=float(10 ** rng.uniform(0.5, 10)))
    kernels = ("RandomFourier", "Kernel-Gaussian", "SkewedRBF", "Hermite", "Concat", "Kernel-Matern", "Polynomial")
    return Plan(bases=kernels, wishes=wishes)


def _peaks(rng: np.random.Generator) -> Plan:
    wishes = replace(_wishes(rng), width=float(10 ** rng.uniform(-4, -0.5)))
    kernels = ("RandomFourier", "Kernel-Gaussian", "SkewedRBF", "Kernel-Matern", "Kernel-Wendland", "Hermite", "Concat")
    families = ("integrals",) * 5 + ("double", "values", "composition")
    bases = (*kernels, "Kernel-Truncated", "Kernel-encoded")
    setting = {"narrowest": 1e-6, "peaked": 0.6}
    return Plan(families, bases=bases, wishes=wishes, most=2, points=4, setting=setting)


def _learnable(rng: np.random.Generator) -> Plan:
    histories = ("solve", "trained", "changed", "kept", "eval", "solve")
    return Plan(PLAIN, learnable=1.0, histories=histories, points=50, most=1, wishes=_wishes(rng))


def _history(rng: np.random.Generator) -> Plan:
    tolerance = float(rng.choice([1e-6, 1e-11])) if rng.random() < 0.3 else None
    base = float(10 ** rng.uniform(0, 3)) if rng.random() < 0.3 else None
    return Plan(histories=HISTORIES, tolerance=tolerance, base=base, wishes=_wishes(rng), setting={"highest_order": 2})


def _solvers(rng: np.random.Generator) -> Plan:
    wishes = replace(_wishes(rng), square=True, width=float(10 ** rng.uniform(-1.3, -0.3)))
    gap = float(10 ** rng.uniform(-10, -2)) if rng.random() < 0.2 else None
    style, families = rng.random(), ("values", "values", "values", "calculus", "derivatives")
    if style < 0.2:  # so many functions of bounded reach that queries look only at neighbours
        wishes, solvers, bases = replace(wishes, square=False, wide=8.0), ("auto",), LOCAL
    elif style < 0.6:
        solvers, bases = ("sparse LU", "sparse LU", "Krylov", "Krylov", "sparse Cholesky", "auto"), LOCAL
        families = ("values",) if rng.random() < 0.6 else families
    elif style < 0.8:
        solvers, bases = ("blend", "blend", "local"), (*LOCAL, "Kernel-Gaussian", "SkewedRBF", "Hermite")
    else:
        solvers, bases = ("LU", "Cholesky", "auto"), ("Hermite", "Hermite-Matern", "Hermite-Wendland")
    return Plan(
        families,
        bases=bases,
        most=2 if style > 0.6 else 1,
        points=30,
        **{"wishes": wishes, "solvers": solvers, "gap": gap, "setting": {"highest_order": 2, "channels": ("u",)}},
    )


def _encoded(rng: np.random.Generator) -> Plan:
    """Networks in front of kernels, rough ones among them: distances there are differences of large numbers."""
    wishes = replace(_wishes(rng), square=bool(rng.random() < 0.8))
    bases = ("Kernel-encoded",) * 4 + ("Kernel-DotProduct", "HypernetKernel", "Hybrid")
    families = ("values",) * 4 + ("derivatives", "calculus")
    return Plan(families, bases=bases, wishes=wishes, points=40, most=1, setting={"highest_order": 2})


KINDS: dict[str, Callable[[np.random.Generator], Plan]] = {
    **{family: _ordinary(family) for family in FAMILIES},
    "mixed": _mixed,
    "close": _close,
    "twice": _twice,
    "scales": _scales,
    "single": _single,
    "base": _base,
    "rank": _rank,
    "smooth": _smooth,
    "peaks": _peaks,
    "learnable": _learnable,
    "history": _history,
    "solvers": _solvers,
    "encoded": _encoded,
}
