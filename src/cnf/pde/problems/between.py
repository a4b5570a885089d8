"""Between the points: what a field misses where nothing was imposed, and how far off it may be.

In: a problem and its solved field. Out: figures from points drawn uniformly that took no part in choosing anything, and
for waves the difference to a second field, solved from other points with other waves. Errors that come from the points,
the waves and the bandwidth are different in the two, so that their difference is as large as either; what both of them
miss is looked for on the boundary, and in the formulas by interval arithmetic.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from cnf.certificate.sizes import natural_sizes
from cnf.constraints import Constraint
from cnf.errors import CnfError, CnfWarning
from cnf.field import ConstrainedField
from cnf.operators.nonlinear import Called
from cnf.pde.patches.formulas import Formula, known_formulas, largest
from cnf.pde.patches.probes import ELSEWHERE
from cnf.pde.problems.guiding import guided, make_guides
from cnf.pde.problems.planning import build_field
from cnf.pde.problems.problem import Problem
from cnf.pde.tuning import HeldOutEquations, Settings
from cnf.solution import Solution

PROBES = 1000
OTHER = 32452843  # added to the seed for points and waves of the second field
RADII = 2.0 ** -np.arange(1, 21)  # of the domain: how wide a peak is
AROUND = 256  # points that say so
FACTORS = (1.0, 0.8, 0.64, 1.25)  # on the bandwidth of the second field
MUCH_WORSE = math.log(100.0)  # a residual ten times as large, squared
HALF = 0.5  # of its height, within its width
TALL = 2.0  # times all that points have seen: a peak


@dataclass(frozen=True)
class Between:
    """Of every equation, over its natural size: the mean and the largest residual; NaN if it has no other points.

    `boundary`: what given values miss, as a part of the field's size.
    """

    mean: dict[str, float]
    largest: dict[str, float]
    boundary: float


@dataclass(frozen=True)
class Opinion:
    """A second field: itself, how far it is away from the first, relative, and its values (P, C) at points (P, D)."""

    solution: Solution

    apart: float
    points: Tensor
    values: Tensor


def draw_probes(problem: Problem) -> Tensor:
    """Points drawn uniformly, (P, D), where fields are compared."""
    return problem.domain.fill(PROBES, "random", problem.seed + ELSEWHERE)


def look_between(problem: Problem, solution: Solution, field_size: float | None = None) -> Between:
    """What every equation misses at points drawn uniformly from its part; the size of the field where it is known."""
    names = [c.name for c in solution.constraints]
    sizes = dict(zip(names, natural_sizes(solution.constraints), strict=True))
    mean, most = dict.fromkeys(names, math.nan), dict.fromkeys(names, math.nan)
    boundary = 0.0
    with torch.no_grad():
        if field_size is None:
            field_size = float(problem.asked_of(solution(draw_probes(problem))).square().mean().sqrt()) or 1.0
        for check in problem.drawn():
            off = solution.residual(check).abs()
            if check.name in sizes:
                mean[check.name] = float(off.mean()) / sizes[check.name]
                most[check.name] = float(off.max()) / sizes[check.name]
            if check.operator.order == 0:
                boundary = max(boundary, float(off.square().mean().sqrt()) / field_size)
    return Between(mean, most, boundary)


def differ_from_second(problem: Problem, settings: Settings, solution: Solution) -> Opinion | None:
    """A field from other points and other waves, and the difference to it; None if there is no such field.

    The bandwidth was chosen for the first field and may not suit the second: if that is much worse by what it misses
    at the points of the tuning, others are tried, and the best of them is taken.
    """
    probes, checks = draw_probes(problem), problem.checks()
    missed = HeldOutEquations(checks) if checks else None
    found: tuple[float, Opinion] | None = None  # what the second field misses comes first
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore", CnfWarning)
        asked = problem.elsewhere(problem.seed + OTHER)

        def around(other: ConstrainedField) -> list[Constraint]:
            functions = other.basis.size * len(problem.space.channels)
            return make_guides(problem, functions, problem.seed + OTHER)

        own = math.inf if missed is None else float(missed(solution))
        for factor in FACTORS:
            try:
                other = build_field(problem, asked, replace(settings, steps=0).widened(factor), problem.seed + OTHER)
                if solution.convergence is not None:
                    other.start = Called(solution, "the answer")  # of several solutions, the one that is judged
                second = other.eval().solve(measure=False) if not settings.guided else guided(other, around(other))
            except CnfError:
                continue
            off = 0.0 if missed is None else float(missed(second))
            if found is None or off < found[0]:
                found = off, opinion_on(solution, second, probes)
            if off <= own + MUCH_WORSE:
                break
    return None if found is None else found[1]


def opinion_on(solution: Solution, second: Solution, points: Tensor) -> Opinion:
    """What a second field says of the first at points (P, D)."""
    with torch.no_grad():
        values = second(points)
        apart = difference(solution(points), values)
    return Opinion(second, apart if math.isfinite(apart) else math.inf, points, values)


def difference(a: Tensor, b: Tensor) -> float:
    """The largest relative difference of a channel, (P, C); channels that are almost zero count by the others."""
    sizes = a.square().mean(dim=0).sqrt()
    floor = 1e-3 * float(sizes.max())
    off = (a - b).square().mean(dim=0).sqrt()
    return float((off / sizes.clamp_min(floor or 1.0)).max())


def hidden_share(problem: Problem) -> float:
    """The part of a formula's mass in a peak that no point has seen, of the formula where that is most."""
    domain = problem.domain
    low, high = (np.array([side], dtype=float) for side in (domain.lower, domain.upper))
    worst = 0.0
    for place, condition in zip(problem._placing.places, problem.constraints, strict=True):
        formulas: list[Formula] = []
        if place.kind == "interior":
            formulas = known_formulas(condition)
        elif domain._is_box and place.kind in ("slice", "boundary"):
            faces = {(k, at) for k in range(domain.dimension) for at in (domain.lower[k], domain.upper[k])}
            fixed = place.fixed or {}
            formulas = [
                formula
                for k, at in sorted(faces)
                if place.kind == "boundary" or (len(fixed) == 1 and fixed.get(k) == at)
                for formula in known_formulas(condition, k, at)
            ]
        for formula in formulas:
            worst = max(worst, _hidden(formula, condition.points, low, high, problem))
    return worst


def _hidden(formula: Formula, points: Tensor, low: np.ndarray, high: np.ndarray, problem: Problem) -> float:
    box = formula.region(low, high)
    generator = np.random.default_rng(problem.seed)
    spread = box[0] + (box[1] - box[0]) * generator.uniform(size=(PROBES, low.shape[1]))
    seen = torch.cat([formula.at(points), formula.at(torch.from_numpy(spread))]).abs().nan_to_num(0.0, 0.0, 0.0)
    known = TALL * float(seen.max())
    (value,), (peak,) = largest(formula, *box, np.array([known]), 1e-300)
    height = abs(float(value))
    inside = bool(problem.domain.contains(torch.from_numpy(peak[None]), -1e-9 * problem.domain._size)[0])
    if not (math.isfinite(height) and height > known and inside):
        return 0.0
    free = (box[1] - box[0])[0] > 0
    for radius in RADII:  # from the outside in: the first box that the peak fills is as wide as it is
        around = generator.uniform(-1, 1, (AROUND, low.shape[1])) * radius * (box[1] - box[0])
        near = formula.at(torch.from_numpy(np.clip(peak + around, *box))).abs().nan_to_num(0.0, 0.0, 0.0)
        if float(near.mean()) > HALF * height:
            mass = height * (2 * radius) ** int(free.sum())
            return mass / (mass + float(seen.mean()))
    return 0.0
