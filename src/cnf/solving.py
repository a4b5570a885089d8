"""Solving: the parts of a field, as they are at one moment, to their measured solution."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from cnf.bases.basis import Basis
from cnf.bases.precision import without_autocast
from cnf.certificate import certify, judge
from cnf.constraints import Constraint
from cnf.operators.detail import Detail
from cnf.operators.expansion import has_integrals
from cnf.settling import resolved
from cnf.solution import Solution
from cnf.systems.assembly import applied
from cnf.systems.base_function import BaseFunction
from cnf.systems.formulation import Expansion
from cnf.systems.holding import Parts
from cnf.systems.quadrature import Judge, basis_judge, function_judge, resolve

SAMPLE = 32  # points of each constraint measured on the field at a step of training


def solve_and_measure(
    held: Parts,
    solve: Callable[[Sequence[Tensor]], Expansion],
    tolerance: float,
    on_violation: str,
    training: bool,
    measure: bool = True,
) -> Solution:
    """`solve` takes what the functions have to make up, g - L[base] (P, R) of every constraint and of every guide.

    Without `measure` the certificate waits until somebody asks for it.
    """
    started = time.perf_counter()
    with without_autocast(held.constraints[0].points.device):
        constraints = tuple(c.renewed() for c in held.constraints)
        base = None if held.base is None else base_function(held.basis, held.base, constraints)
        made_up, guiding = (
            [c.values if base is None else c.values - applied(base, c.expanded(), c.values.shape) for c in asked]
            for asked in (constraints, [c.renewed() for c in held.basis.guiding])
        )
        expansion = solve([*made_up, *guiding])
        solution = Solution(
            held.basis.space,
            held.basis,
            expansion,
            base,
            constraints,
            tolerance,
            on_violation,
            held.seconds + time.perf_counter() - started,
            tuple(g.detach() for g in made_up),
            surroundings=held.surroundings,
        )
        solution = resolved(solution)
        if not measure:
            held.return_statistics()
            return solution
        sampled = training and expansion.like.requires_grad and torch.is_grad_enabled()
        found = certify(solution, tolerance, solution.seconds, made_up, SAMPLE if sampled else None)
    held.return_statistics()
    judge(found, on_violation)
    return replace(solution, spot_check=found)


def base_function(basis: Basis, base: nn.Module, constraints: Sequence[Constraint]) -> BaseFunction:
    """The base as a function in the precision of the field."""
    return BaseFunction(base, len(basis.space.channels), constraints[0].points[:1])


def with_rules(
    basis: Basis, base: nn.Module | None, constraints: tuple[Constraint, ...], detail: Callable[[], Detail]
) -> tuple[Constraint, ...]:
    """Rules for the integrals in the conditions: first ones, or finer ones if the field varies faster by now."""
    if not any(has_integrals(c.operator) for c in constraints):
        return constraints
    function = None if base is None else base_function(basis, base, constraints)

    def judges() -> list[tuple[Judge, int]]:
        evaluator = basis.snapshot()
        known = [(basis_judge(evaluator), int(getattr(evaluator, "work", basis.size)))]
        return known if function is None else [*known, (function_judge(function), len(basis.space.channels))]

    return resolve(constraints, detail(), judges)
