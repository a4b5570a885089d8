"""Learning: parameters of a problem that are torch numbers with a gradient, or callables.

The problem is solved with the values that they have: everything that looks at formulas sees numbers. The field of the
answer then gets its conditions once more, with the parameters themselves in them, on the same patches or waves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sympy as sp
import torch
from torch import Tensor

from cnf.constraints import Constraint
from cnf.errors import ProblemError
from cnf.field import ConstrainedField
from cnf.operators.nonlinear import Called

if TYPE_CHECKING:
    from cnf.pde.problems.answer import Answer
    from cnf.pde.problems.problem import Problem

ANSWER = "the answer"  # what an iteration that goes on from it says


@dataclass(frozen=True)
class Present:
    """A callable as it is now, points (P, D) -> values, without a graph that leads to its parameters."""

    function: Any

    def __call__(self, points: Tensor) -> Tensor:
        with torch.no_grad():  # derivatives in the points are taken by forward mode, which that does not reach
            return self.function(points)


def is_learnable(value: object) -> bool:
    """Whether a parameter, or any entry of it, is a tensor with a gradient or a callable."""
    if isinstance(value, Mapping | list | tuple):
        return any(map(is_learnable, value.values() if isinstance(value, Mapping) else value))
    if isinstance(value, Tensor):
        return value.requires_grad
    return callable(value) and not isinstance(value, sp.Basic | Present)


def at_present(value: object) -> object:
    """The same with the values that tensors have now, as numbers."""
    if isinstance(value, Mapping):
        return {name: at_present(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [at_present(part) for part in value]
    if isinstance(value, Tensor):
        return float(value.detach()) if value.numel() == 1 else value.detach()
    return Present(value) if is_learnable(value) else value


def with_learnable(problem: Problem, answer: Answer) -> Answer:
    """The answer with a field that is differentiable in the parameters of the problem."""
    with torch.no_grad():  # values are worked out again at every solve
        field = _on_patches(problem, answer) if answer.mesh is not None else _of_waves(problem, answer)
    return replace(answer, field=field.eval())


def _on_patches(problem: Problem, answer: Answer) -> ConstrainedField:
    from cnf.pde.patches.building import build_field, orders_of
    from cnf.pde.problems.asking_patches import lowered, question_of

    question = lowered(question_of(problem))
    assert answer.mesh is not None
    return build_field(question.after(answer.solution, ANSWER), orders_of(question), answer.mesh)


def _of_waves(problem: Problem, answer: Answer) -> ConstrainedField:
    own = {c.name: c for c in problem.constraints}

    def found(condition: Constraint) -> Constraint:
        new = own.get(condition.name)
        if new is None:
            raise ProblemError(f"the condition {condition.name!r} of the answer is none of the problem")
        return new if torch.equal(new.points, condition.points) else new.at(condition.points)

    field = answer.field.transfer([found(c) for c in answer.field.constraints])
    field.start = Called(answer.solution, ANSWER)  # where the iteration for nonlinear conditions begins
    return field
