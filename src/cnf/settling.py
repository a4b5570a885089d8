"""Settling: integrals of nonlinear expressions, resolved around the field that the iteration found.

How finely such an integrand must be divided is known only once there is a field. So the iteration runs with rules that
follow the functions; around its result every integral is resolved anew, and the iteration goes on from there, until
the rules follow the field that it ends with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch

from cnf.bases.basis import Basis
from cnf.certificate.convergence import Convergence
from cnf.constraints import Constraint
from cnf.operators.expansion import has_integrals
from cnf.operators.nonlinear import State
from cnf.solution import Solution
from cnf.systems.quadrature import Judge, basis_judge, function_judge, resolve_around, still_resolved

MOST_ROUNDS = 8
NEARER = 0.5  # of what was missed when the rules were made before
NO_NUMBER = (
    "with as many nodes as its integral needs, a condition or its slope is not a number at the field that was found (a "
    "root or a quotient at zero?); give a start from which that is avoided, or another form of the integrand"
)


@dataclass(frozen=True, eq=False)
class Run:
    """What an iteration came to: the field, how, and the state from which one step leads to it."""

    solution: Solution
    convergence: Convergence
    before: State

    @property
    def reached(self) -> float:
        return min(self.convergence.missed)


class Iteration(Protocol):
    """Newton's iteration, as far as its integrals go."""

    constraints: tuple[Constraint, ...]

    def run(self, start: State, named: str) -> Run | None: ...


def settled(iteration: Iteration, found: Run) -> Run:
    """The same once the integrals follow the field; as it is if there are none, or no field."""
    if not any(map(_integrates, iteration.constraints)):
        return found
    before, missed = math.inf, math.inf if found.convergence.stopped else 0.0
    for _ in range(MOST_ROUNDS):
        solution, convergence = found.solution, found.convergence
        # A kink that moves with the field stops the iteration on the way, each time nearer to its place.
        if convergence.stopped and not missed < NEARER * before:
            break
        with torch.no_grad():
            renewed = resolved_around(solution, iteration.constraints)
        if all(new is old for new, old in zip(renewed, iteration.constraints, strict=True)):
            break
        iteration.constraints = renewed
        again = iteration.run(solution, convergence.start)
        if again is None:
            return replace(found, convergence=replace(convergence, stopped=NO_NUMBER))
        before, missed = missed or math.inf, again.reached
        found = replace(again, convergence=_joined(convergence, again.convergence))
    return found


def resolved(solution: Solution) -> Solution:
    """A field that was not found by iteration, its weights being those of a file, with integrals that follow it."""
    if not any(map(_integrates, solution.constraints)):
        return solution
    with torch.no_grad():
        return replace(solution, constraints=resolved_around(solution, solution.constraints))


def resolved_around(solution: Solution, constraints: Sequence[Constraint]) -> tuple[Constraint, ...]:
    """The conditions with rules that follow a field; those that do already stay what they are."""
    detail = solution.detail()
    judges = _judges(solution.basis, solution)
    made = []
    for c in constraints:
        follows = not _integrates(c) or still_resolved(solution, c, detail)
        made.append(c if follows else resolve_around(c, solution, detail, judges))
    return tuple(made)


def _integrates(constraint: Constraint) -> bool:
    return constraint.nonlinear is not None and has_integrals(constraint.operator)


def _judges(basis: Basis, solution: Solution) -> list[tuple[Judge, int]]:
    evaluator = basis.snapshot()
    known = [(basis_judge(evaluator), int(getattr(evaluator, "work", basis.size)))]
    return [*known, (function_judge(solution), len(basis.space.channels))]


def _joined(first: Convergence, second: Convergence) -> Convergence:
    return replace(
        second,
        start=first.start,
        missed=(*first.missed, *second.missed[1:]),
        changes=(*first.changes, *second.changes),
        shortened=first.shortened + second.shortened,
    )
