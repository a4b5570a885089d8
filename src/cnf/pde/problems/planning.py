"""Planning: from the options of a problem to what the tuner needs: how to build a field, what is free, and a start."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from cnf.bases import Concat, Hermite, Kernel, RandomFourier, SkewedRBF
from cnf.bases.basis import Basis
from cnf.bases.kernels import Gaussian, Pole
from cnf.constraints import Constraint, Space
from cnf.errors import ProblemError, RepeatedAnchorError
from cnf.field import ConstrainedField
from cnf.operators.expansion import has_integrals
from cnf.pde.patches.probes import ELSEWHERE
from cnf.pde.problems.guiding import GUIDES, guided, make_guides
from cnf.pde.problems.problem import Problem
from cnf.pde.tuning import Guiding, HeldOutEquations, Plan, Settings, make_objective
from cnf.solution import Solution
from cnf.solvers import Auto
from cnf.training.losses import Loss

REHEARSE = 900  # conditions from which on tuning rehearses with fewer
REHEARSAL = 500
FIRST = 2.0  # bandwidth over spacing where the search begins
NARROWEST = 0.25  # and below which it never goes: functions that do not see each other
WIDEST = 8.0  # bandwidth over the extent of the domain that it never exceeds
PROBES = 300
BEST = 1e-13  # residual between the points: below, there is nothing to gain but rounding
GOOD = 1e-9  # and without a target, from where on fields are guided
GUIDED_SIZES = (2.0, 1.5, 1.25)  # functions per condition of guided fields: the first that is not too much work
MOST_WORK = 2.5e11  # additions and multiplications of one solve, ten seconds of a processor
SAFELY = 0.1  # of the target: a field with that residual between the points is good enough


def make_plan(problem: Problem) -> Plan:
    """What the tuner needs to know."""
    checks = problem.checks()
    held_out = HeldOutEquations(checks) if checks else None
    probes = problem.domain.fill(PROBES, "halton", problem.seed + ELSEWHERE)
    objective, loss = choose_objective(problem, held_out, probes)
    free = free_settings(problem) if objective != "none" else frozenset()
    few = fewer_conditions(problem) if free else None
    return Plan(
        build=lambda settings: build_field(problem, problem.constraints, settings),
        objective=objective,
        loss=loss,
        start=first_settings(problem),
        rehearse=None if few is None else lambda settings: build_field(problem, few, settings),
        checks=held_out,
        free=free,
        factors=(NARROWEST / FIRST, WIDEST / (FIRST * spacing(problem))),
        steps=problem.tuning.steps if "spread" in free else 0,
        seed=problem.seed,
        enough=max(BEST, SAFELY * (problem.solving.target or 0.0)),
        guiding=make_guiding(problem) if objective == "held-out" and {"bandwidth", "size"} <= free else None,
    )


def make_guiding(problem: Problem) -> Guiding | None:
    """How fields are guided by the equations between the points; None where that is not what was asked, or too much.

    A field that is open on purpose is the smoothest one, which guides know nothing of; one that is to be solved again
    with other parameters would be solved without them.
    """
    rows, channels = problem.conditions, len(problem.space.channels)
    sizes = [
        size
        for size in GUIDED_SIZES
        if guided_work(rows, channels * count_functions(problem.space, problem.constraints, size)) <= MOST_WORK
    ]
    asked = problem.tuning.objective is None and problem.solving.underdetermined == "refuse"
    if problem.to_be_learnt or not asked or not sizes or any(has_integrals(c.operator) for c in problem.constraints):
        return None
    known: dict[bool, list[Constraint]] = {}

    def solve(field: ConstrainedField, rehearsal: bool) -> Solution:
        if rehearsal not in known:
            share = REHEARSAL / rows if rehearsal else 1.0
            known[rehearsal] = make_guides(problem, channels * field.basis.size, problem.seed, share)
        return guided(field, known[rehearsal])

    return Guiding(solve, max(GOOD, SAFELY * (problem.solving.target or 0.0)), sizes[0])


def guided_work(m: int, n: int) -> float:
    """Multiplications and additions for m conditions, n functions and their guides."""
    g = GUIDES * n
    return 2 * n * m**2 + 4 * g * n * m - 2 * g * m**2 + 2 * (g + n - m) * (n - m) ** 2


def choose_objective(problem: Problem, held_out: HeldOutEquations | None, probes: Tensor) -> tuple[str, Loss]:
    """As asked, or the residual elsewhere if any equation means something there; without tuning it is only shown."""
    objective = problem.tuning.objective or ("held-out" if held_out else "leave-one-out")
    if held_out is not None and objective in ("held-out", "none"):
        return objective, held_out
    return objective, make_objective("leave-one-out" if objective == "none" else objective, (), probes)


def free_settings(problem: Problem) -> frozenset[str]:
    """What is tuned: all that the problem does not fix."""
    options = problem.basis
    found = {
        "bandwidth": options.bandwidth is None,
        "size": options.type == "random-fourier" and options.size is None,
        "poles": len(problem.poles) > 0,
        "spread": options.type == "skewed-rbf",
    }
    return frozenset(name for name, free in found.items() if free)


def first_settings(problem: Problem) -> Settings:
    """Where the search begins: bandwidths of twice the spacing, in proportion to the extent of the domain."""
    domain, options = problem.domain, problem.basis
    widths = tuple(FIRST * spacing(problem) * (b - a) for a, b in zip(domain.lower, domain.upper, strict=True))
    size = (options.size or 2.0) if options.type == "random-fourier" else 1.0
    return Settings(options.bandwidth or widths, size, poles=len(problem.poles) > 0)


def spacing(problem: Problem) -> float:
    """The distance between neighbouring points over the extent of the domain."""
    return max(c.points.shape[0] for c in problem.constraints) ** (-1 / problem.domain.dimension)


def fewer_conditions(problem: Problem) -> tuple[Constraint, ...] | None:
    """The conditions at fewer points, if there are many of them."""
    return problem.rehearsal(REHEARSAL / problem.conditions) if problem.conditions > REHEARSE else None


def build_field(
    problem: Problem, constraints: Sequence[Constraint], settings: Settings, seed: int | None = None
) -> ConstrainedField:
    """The field for one choice of settings; `seed` of the waves if not that of the problem."""
    basis = build_basis(problem, constraints, settings, problem.seed if seed is None else seed)
    tolerance = problem.solving.tolerance
    solver = Auto(reveal_rank=False)
    return ConstrainedField(basis, list(constraints), solver=solver, tolerance=tolerance, start=problem.start)


def build_basis(problem: Problem, constraints: Sequence[Constraint], settings: Settings, seed: int) -> Basis:
    space, kind, width = problem.space, problem.basis.type, list(settings.bandwidth)
    if kind == "random-fourier":
        waves = RandomFourier(space, count_functions(space, constraints, settings.size), width, seed=seed)
        return Concat([waves, Kernel(space, problem.poles, Pole())]) if settings.poles else waves
    if kind == "hermite":
        return Hermite(space, list(constraints), Gaussian(width))
    try:
        if kind == "rbf":
            return Kernel(space, list(constraints), Gaussian(width))
        basis = SkewedRBF(space, list(constraints), bandwidth=width)
    except RepeatedAnchorError:
        raise ProblemError(
            f"{kind} has one function per point, but several conditions hold at one point here; use type = "
            "'random-fourier' or 'hermite'",
            ("basis", "type"),
        ) from None
    if settings.spread:
        generator = torch.Generator().manual_seed(seed + 1)
        noise = torch.randn(basis.log_bandwidth.shape, dtype=torch.float64, generator=generator)
        with torch.no_grad():
            basis.log_bandwidth.add_(settings.spread * noise.to(basis.log_bandwidth))
    return basis


def count_functions(space: Space, constraints: Sequence[Constraint], size: float) -> int:
    """Functions per channel so that no group of channels has fewer than `size` of them per condition.

    Channels that no equation couples are solved apart, each with the same functions, so that the group with the most
    conditions per channel decides; and so does the channel with the most conditions of its own.
    """
    group = list(range(len(space.channels)))
    rows: list[tuple[set[int], int]] = []
    for constraint in constraints:
        for terms in constraint.operator.rows:
            touched = {space.frame.channel(term.channel) for term in terms if term.channel is not None}
            rows.append((touched, constraint.points.shape[0]))
            target = min(group[c] for c in touched)
            merged = {group[c] for c in touched}
            group = [target if g in merged else g for g in group]
    most = 1.0
    for g in set(group):
        members = {c for c in range(len(group)) if group[c] == g}
        most = max(most, sum(n for touched, n in rows if touched <= members) / len(members))
    alone = [sum(n for touched, n in rows if touched == {c}) for c in range(len(group))]
    return math.ceil(size * max(most, *alone))
