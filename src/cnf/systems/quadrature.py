"""Quadrature: which nodes stand for the integrals in conditions, and how far they are off all the same.

When a field is made, and again when its parameters have moved, the ranges of an integral are divided until nothing that
is known of coefficients, basis and base can hide inside a cell (`cnf.operators.cells`), then until two different rules
agree on every basis function and on the base. Integrals of nonlinear expressions wait for a field: once the iteration
has found one, they are resolved around it, and it goes on with the new rules. After each solve the second rule is
applied to the field itself, and what it says differently counts as residual. Where something is not known (a callable,
a network of one's own) or cannot be resolved, two rules that agree prove nothing: the constraint is unmeasured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import sympy as sp
import torch
from torch import Tensor

from cnf.bases.basis import Evaluator
from cnf.constraints import Constraint
from cnf.errors import BasisError
from cnf.operators.cells import Partition, partitions
from cnf.operators.detail import Detail
from cnf.operators.expansion import Probe, Request, by_place, combine, has_integrals, probe_at, wanted
from cnf.operators.field_functions import has_jets
from cnf.operators.nonlinear import State
from cnf.operators.operator import Operator
from cnf.operators.place import Place
from cnf.operators.rules import Rule
from cnf.systems.assembly import PIECE, FieldFunction, derived
from cnf.systems.terms import Applied, term_sizes

AGREEMENT = {torch.float64: 2e-14, torch.float32: 1e-6}  # of two rules on a cell, over what all cells add up
LOOKED_AT = 8  # points of a constraint at which the rules are compared
ROUNDS = 40  # of halving
MOST_VALUES = 2**38  # of all functions at all nodes of an integral: hours
MINUTES = 2**34  # values up to which cells are halved
MOST_WORK = 2**29  # values of functions looked at while halving: what two rules still say differently is measured later

STILL = 1e-12  # of the terms of a nonlinear condition that two rules may say differently after another step
NOT_FOLLOWED = "the integral of a nonlinear expression is resolved once the iteration has converged, which it has not"

Judge = Callable[[Tensor, Sequence[Request]], Tensor]  # points (P, D), K requests -> (P, K, N): what must agree


def basis_judge(evaluator: Evaluator) -> Judge:
    """All functions of a basis; of one with functions in cells, those of the cell that a point lies in."""
    return getattr(evaluator, "judged", evaluator.rows)


def function_judge(function: FieldFunction) -> Judge:
    """Any function of points (P, D) -> (P, C), or a field."""

    def rows(points: Tensor, requests: Sequence[Request]) -> Tensor:
        found = derived(function, points, wanted(requests))
        return combine({index: v[:, None, :] for index, v in found.items()}, requests)

    return rows


def one_judge(points: Tensor, requests: Sequence[Request]) -> Tensor:
    """The function that is 1 everywhere, of which only values are asked for."""
    weights = [next(iter(request.weights.values())).expand(points.shape[0]) for request in requests]
    return torch.stack(weights, dim=1)[..., None]


def resolve(
    constraints: Sequence[Constraint], detail: Detail, judges: Callable[[], Sequence[tuple[Judge, int]]]
) -> tuple[Constraint, ...]:
    """The constraints with rules for their integrals where they have none or outgrew them; as they are otherwise.

    `judges` gives what the rules must agree on, each with its work at a point; asked for only if needed.
    """
    with torch.no_grad():
        stale = [has_integrals(c.operator) and _is_stale(c, detail) for c in constraints]
        known = judges() if any(stale) else ()
        renewed = []
        for c, renew in zip(constraints, stale, strict=True):
            if renew and c.nonlinear is not None:
                c = c.ruled(first_rules(c, detail))
            elif renew:
                c = c.ruled(find_rules(c.operator, c.points, detail, known))
            renewed.append(c)
        return tuple(renewed)


def first_rules(constraint: Constraint, detail: Detail) -> dict[Place, Rule]:
    """Rules that follow the functions and what is written out, for a nonlinear condition before a field is known.

    What depends on the field is looked at when there is one; until then the condition is in doubt.
    """
    operator = constraint.operator
    rows = [
        [term.replaced(coefficient=sp.S.One) if has_jets(term.coefficient) else term for term in row]
        for row in operator.rows
    ]
    known = Operator.of(rows, operator.frame, dict(operator.data))
    found = {place: partition.rule for place, partition in partitions(known, constraint.points, detail).items()}
    return {place: replace(rule, needs=None, doubt=rule.doubt or NOT_FOLLOWED) for place, rule in found.items()}


def _is_stale(constraint: Constraint, detail: Detail) -> bool:
    if not constraint.rules:
        return True
    if constraint.nonlinear is not None:
        return False  # these are looked at again around every field that is found
    operator, points = constraint.operator, constraint.points
    return any(
        rule.needs is None or Partition.in_use(operator, place, points, detail, rule).outgrew(rule.needs)
        for place, rule in constraint.rules.items()
    )


def find_rules(
    operator: Operator,
    points: Tensor,
    detail: Detail,
    judges: Iterable[tuple[Judge, int]],
    beside: Operator | None = None,
) -> dict[Place, Rule]:
    """Rules on which two different sets of nodes agree, as far as they can be refined.

    They also serve the same integrals `beside`, in an operator on the function that is 1 everywhere.
    """
    spread = torch.linspace(0, points.shape[0] - 1, min(points.shape[0], LOOKED_AT)).round().long()
    found, known = {}, list(judges)
    with torch.no_grad():
        for place, partition in partitions(operator, points, detail, beside).items():
            most = _affordable(partition.rule, points.shape[0], max((size for _, size in known), default=1))
            some = points[spread.to(points.device)]
            for judge, size in known:
                partition = _agreed(operator, place, partition, some, judge, size, most)
            for there in by_place(beside) if beside is not None else ():
                if there.integrals == place.integrals:
                    partition = _agreed(beside, there, partition, some, one_judge, 1, most)  # type: ignore[arg-type]
            found[place] = partition.rule
    return found


def _affordable(rule: Rule, points: int, work: int) -> int:
    """Cells that can be evaluated at all the points in minutes; an error if there are more already."""
    cells = rule.lower.shape[0]
    values = points * rule.count * max(1, work)
    if values > MOST_VALUES:
        raise BasisError(
            f"the integrals at {points} points take {values:.0e} values of kernels or basis functions, hours of work; "
            "use a basis without integrals of its own (RandomFourier, Kernel), a smoother one, or fewer points"
        )
    return cells * MINUTES // values


def _agreed(
    operator: Operator, place: Place, partition: Partition, points: Tensor, judge: Judge, size: int, most_cells: int
) -> Partition:
    """Halve the cells on which the rule and the checking rule differ, as long as there are any and nodes last."""
    agreement = AGREEMENT.get(points.dtype, 1e-6)
    fresh, scale, work, most = partition.lower.shape[0], torch.zeros(()), 0, 0
    for _ in range(ROUNDS):
        rule = partition.rule
        count = rule.lower.shape[0]
        work += points.shape[0] * (rule.count // count) * fresh * max(1, size)
        most = most or max(MOST_WORK, 4 * work)
        if work > most:
            break
        apart, total = _apart(operator, place, rule.only(slice(count - fresh, count)), points, judge, size)
        scale = torch.maximum(scale, total)
        off = np.zeros(count, dtype=bool)
        off[count - fresh :] = (apart > agreement * scale[:, None]).flatten(2).any(dim=2).any(dim=0).cpu().numpy()
        if not off.any() or count + off.sum() > min(partition.most_cells, most_cells):
            break
        partition, fresh = partition.halved(off), 2 * int(off.sum())
    return partition


def _apart(
    operator: Operator, place: Place, rule: Rule, points: Tensor, judge: Judge, size: int
) -> tuple[Tensor, Tensor]:
    """What the rule and the checking rule say differently of every cell, (P, B, K), and what all add up to, (P, K)."""
    terms = by_place(operator)[place]
    count = rule.lower.shape[0]
    entries = points.shape[0] * max(1, rule.count // count) * max(1, size) * len(terms)
    step = max(1, PIECE // entries)
    apart, totals = [], torch.zeros(())
    for start in range(0, count, step):
        part = rule.only(slice(start, start + step))
        cells = part.lower.shape[0]
        first, total = _summed(probe_at(operator, place, terms, points, part), cells, judge)
        second, _ = _summed(probe_at(operator, place, terms, points, part.checking()), 2 * cells, judge)
        apart.append((first - second[:, :cells] - second[:, cells:]).abs().amax(dim=3))
        totals = totals + total
    return torch.cat(apart, dim=1), totals.amax(dim=2)


def _summed(probe: Probe, cells: int, judge: Judge) -> tuple[Tensor, Tensor]:
    """The integrals over every cell, (P, B, K, N), and the sums of the absolute values under them, (P, K, N)."""
    found = judge(probe.points, probe.requests)
    found = found.reshape(-1, cells, probe.nodes // cells, *found.shape[1:])
    return found.sum(dim=2), found.abs().sum(dim=(1, 2))


def quadrature_errors(solution: Applied, constraints: Sequence[Constraint]) -> dict[str, Tensor]:
    """|checking rule - rule| of the solved field, (P, R), for every constraint with integrals."""
    found = {}
    with torch.no_grad():
        for c in constraints:
            if has_integrals(c.operator):
                places = {p for p in by_place(c.operator) if p.integrals}
                rules = {p: c.rules[p] if p in c.rules else Rule.plain(len(p.integrals)) for p in places}
                other = c.ruled({place: rule.checking() for place, rule in rules.items()})
                found[c.name] = (asked_of(solution, other) - asked_of(solution, c.ruled(rules))).abs()
    return found


def asked_of(solution: Applied, constraint: Constraint) -> Tensor:
    """What a condition makes of a field, all but its right-hand side, (P, R)."""
    shape = (constraint.values.shape[0], constraint.values.shape[1])
    probes = constraint.linear_part
    found = solution.applied(probes, shape) if probes else torch.zeros_like(constraint.values)
    return found if constraint.nonlinear is None else found + constraint.beyond(solution)[0]


def resolve_around(
    constraint: Constraint, state: State, detail: Detail, judges: Iterable[tuple[Judge, int]]
) -> Constraint:
    """A nonlinear condition with rules for its integrals that follow the field `state` and the functions around it."""
    assert constraint.nonlinear is not None
    around, values = constraint.nonlinear.around(state), constraint.nonlinear.values_around(state)
    with torch.no_grad():
        return constraint.ruled(find_rules(around, constraint.points, detail, judges, values))


def still_resolved(solution: Applied, constraint: Constraint, detail: Detail) -> bool:
    """Whether the rules of a nonlinear condition, found around a field nearby, follow this one as well."""
    assert constraint.nonlinear is not None
    around, values = constraint.nonlinear.around(solution), constraint.nonlinear.values_around(solution)
    for place, rule in constraint.rules.items():
        if rule.needs is None:
            return False
        if Partition.in_use(around, place, constraint.points, detail, rule, values).outgrew(rule.needs):
            return False
    off = quadrature_errors(solution, [constraint])[constraint.name]
    return bool((off <= STILL * term_sizes(solution, constraint).clamp_min(1e-300)).all())  # a balance adds up to zero


def doubts(constraints: Sequence[Constraint]) -> dict[str, str]:
    """Constraints whose integrals nobody can vouch for, and why."""
    found = {}
    for c in constraints:
        why = list(dict.fromkeys(rule.doubt for rule in c.rules.values() if rule.doubt))
        if why:
            found[c.name] = "; ".join(why)
    return found
