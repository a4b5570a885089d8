"""Solving a problem: the plan for the tuner, the second opinion, the answer."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from cnf.bases import Concat, Hermite, Kernel, RandomFourier, SkewedRBF
from cnf.bases.basis import Basis
from cnf.bases.kernels import Gaussian, Pole
from cnf.constraints import Constraint, Space
from cnf.errors import CnfError, CnfWarning, UnderdeterminedError
from cnf.field import ConstrainedField
from cnf.problems.answer import Answer, measure_errors
from cnf.problems.check import check_problem
from cnf.problems.problem import Problem
from cnf.problems.uniqueness import lost_share
from cnf.systems.judgement import judge
from cnf.tuning import HeldOutEquations, Plan, Settings, Trial, Tuning, make_objective, tune
from cnf.tuning.trial import Report, as_mapping

REHEARSE = 900  # conditions from which on tuning rehearses with fewer
REHEARSAL = 500
FIRST = 2.0  # bandwidth over spacing where the search begins
NARROWEST = 0.25  # and below which it never goes: functions that do not see each other
WIDEST = 8.0  # bandwidth over the extent of the domain that it never exceeds
PROBES = 300
OPEN = 0.5  # share of a known field that may be lost when it is found again from its conditions


def solve_problem(problem: Problem, report: Report | None = None) -> Answer:
    """Tune, solve, certify."""
    started = time.perf_counter()
    plan = make_plan(problem)
    tuning = tune(plan, report)
    field = tuning.solved
    assert field is not None
    with torch.no_grad():
        solution = field.solution
        second = second_trial(plan, tuning)
        disagreement = None if second is None else difference(tuning.best.values, second.values)
        held_out = measure_held_out(plan, solution)
    judge(solution.certificate, "warn")
    answer = Answer(
        problem,
        field,
        solution,
        replace(tuning, solved=None),
        held_out,
        disagreement,
        measure_errors(problem, solution),
        time.perf_counter() - started,
    )
    if problem.solving.underdetermined == "refuse":
        refuse_open(answer)
    return answer


def make_plan(problem: Problem) -> Plan:
    """What the tuner needs to know."""
    domain, options = problem.domain, problem.basis
    checks = problem.checks()
    inside: Tensor = domain.fill(PROBES, "halton", problem.seed + 104729)
    objective = problem.tuning.objective or ("held-out" if checks else "leave-one-out")
    held_out = HeldOutEquations(checks) if checks else None
    loss = (
        held_out
        if objective in ("held-out", "none") and held_out
        else make_objective("leave-one-out" if objective == "none" else objective, checks, inside)
    )
    free = set()
    if objective != "none":
        free |= {"bandwidth"} if options.bandwidth is None else set()
        free |= {"size"} if options.type == "random-fourier" and options.size is None else set()
        free |= {"poles"} if len(problem.poles) else set()
        free |= {"spread"} if options.type == "skewed-rbf" else set()
    rows = problem.conditions
    share = REHEARSAL / rows
    return Plan(
        build=lambda settings: build_field(problem, problem.constraints, settings),
        objective=objective,
        loss=loss,
        start=Settings(
            options.bandwidth or first_bandwidth(problem),
            (options.size or 2.0) if options.type == "random-fourier" else 1.0,
            poles=len(problem.poles) > 0,
        ),
        rehearse=(lambda settings: build_field(problem, rehearsal, settings))
        if rows > REHEARSE and free and (rehearsal := problem.rehearsal(share))
        else None,
        checks=held_out,
        probes=inside,
        free=frozenset(free),
        factors=(NARROWEST / FIRST, WIDEST * most_points(problem) ** (1 / domain.dimension) / FIRST),
        steps=problem.tuning.steps if "spread" in free else 0,
        seed=problem.seed,
    )


def most_points(problem: Problem) -> int:
    return max(c.points.shape[0] for c in problem.constraints)


def first_bandwidth(problem: Problem) -> tuple[float, ...]:
    """A small multiple of the spacing of the points, in proportion to the extent of the domain."""
    domain = problem.domain
    share = FIRST * most_points(problem) ** (-1 / domain.dimension)
    return tuple(share * (b - a) for a, b in zip(domain.lower, domain.upper, strict=True))


def build_field(problem: Problem, constraints: Sequence[Constraint], settings: Settings) -> ConstrainedField:
    """The field for one choice of settings."""
    basis = build_basis(problem, constraints, settings)
    return ConstrainedField(basis, list(constraints), tolerance=problem.solving.tolerance, on_violation="warn")


def build_basis(problem: Problem, constraints: Sequence[Constraint], settings: Settings) -> Basis:
    space, kind, width = problem.space, problem.basis.type, list(settings.bandwidth)
    if kind == "random-fourier":
        waves = RandomFourier(space, count_functions(space, constraints, settings.size), width, seed=problem.seed)
        return Concat([waves, Kernel(space, problem.poles, Pole())]) if settings.poles else waves
    if kind == "rbf":
        return Kernel(space, list(constraints), Gaussian(width))
    if kind == "hermite":
        return Hermite(space, list(constraints), Gaussian(width))
    basis = SkewedRBF(space, list(constraints), bandwidth=width)
    if settings.spread:
        generator = torch.Generator().manual_seed(problem.seed + 1)
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


def measure_held_out(plan: Plan, solution) -> dict[str, float]:
    found = {c.name: math.nan for c in solution.constraints}
    if plan.checks is not None:
        found |= {name: float(value) for name, value in plan.checks.by_equation(solution).items()}
    return found


def second_trial(plan: Plan, tuning: Tuning) -> Trial | None:
    """The next best field that meets the conditions too; one more is solved if there is none."""
    best = tuning.best
    others = [t for t in tuning.trials if t is not best and t.exact and t.values is not None]
    full = [t for t in others if t.conditions == best.conditions]
    if full or others:
        return min(full or others, key=lambda t: t.score)
    return None if best.values is None else second_opinion(plan, tuning)


def second_opinion(plan: Plan, tuning: Tuning) -> Trial | None:
    """The same conditions met with smaller bandwidths."""
    chosen = Settings(**tuning.best.settings)  # type: ignore[arg-type]
    other = replace(chosen.widened(0.8), steps=0)
    assert plan.probes is not None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CnfWarning)
            solution = plan.build(other).eval().solution
    except CnfError:
        return None
    residual = math.nan if plan.checks is None else math.exp(float(plan.checks(solution)) / 2)
    return Trial(as_mapping(other), math.nan, residual, values=solution(plan.probes))


def difference(a: Tensor | None, b: Tensor | None) -> float:
    """The largest relative difference of a channel, (P, C); channels that are almost zero count by the others."""
    assert a is not None and b is not None
    sizes = a.square().mean(dim=0).sqrt()
    floor = 1e-3 * float(sizes.max())
    off = (a - b).square().mean(dim=0).sqrt()
    return float((off / sizes.clamp_min(floor or 1.0)).max())


def refuse_open(answer: Answer) -> None:
    """Refuse a field that is one of many."""
    problem = answer.problem
    if not answer.certificate.exact:
        return
    constraints = (
        problem.constraints if answer.conditions <= REHEARSE else problem.rehearsal(REHEARSAL / answer.conditions)
    )
    probes = problem.domain.fill(PROBES, "halton", problem.seed)
    lost = lost_share(problem, constraints, lambda given: count_functions(problem.space, given, 2.0), probes)
    if not lost > OPEN:
        return
    hints = check_problem(answer.problem).missing
    missing = f" Missing: {'; '.join(hints)}." if hints else ""
    raise UnderdeterminedError(
        "the conditions do not determine the field: of another field, made up as a test, "
        f"{min(lost, 1):.0%} is lost when it is found again from its conditions.{missing} Add conditions or points, or "
        "ask for the smoothest field with underdetermined = 'minimum-norm' in [solve]"
    )
