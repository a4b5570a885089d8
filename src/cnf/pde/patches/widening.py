"""Widening: a question with more channels than were asked for, in which its equations are of lower order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from cnf.constraints import Constraint, Space
from cnf.constraints.constraint import RightHandSide, make_constraint
from cnf.operators.operator import Operator, Row, Term
from cnf.pde.domains.domain import Sample
from cnf.pde.patches.question import InterfaceCondition, Question


@dataclass(frozen=True)
class Interior:
    """The whole of it, as a `Part`."""

    kind: str = "interior"
    shape: str | None = None
    fixed: Mapping[int, float] | None = None
    region: int | None = None


@dataclass(frozen=True)
class TurnedJump:
    """A condition on interfaces whose operators are turned into those of more channels."""

    jump: InterfaceCondition
    turned_operator: Callable[[Operator], Operator]
    turned: Callable[[Constraint], Constraint]

    @property
    def interfaces(self) -> Mapping[int, int]:
        return self.jump.interfaces

    @property
    def is_linear(self) -> bool:
        return self.jump.is_linear

    def operator(self, interface: int) -> Operator:
        return self.turned_operator(self.jump.operator(interface))

    def at(self, interface: int, points: Tensor, normals: Tensor) -> tuple[Constraint, Constraint]:
        there, here = self.jump.at(interface, points, normals)
        return self.turned(there), self.turned(here)


def widened(
    question: Question, meanings: Mapping[str, tuple[str, Sequence[Term]]], rewritten: Callable[[Row], Sequence[Term]]
) -> Question:
    """The question with more channels: every row rewritten in them, and what they mean as equations of the interior.

    `meanings` has, for every new channel, the name of its equation and the terms that add up to zero.
    """
    space = question.space
    wider = Space(space.coordinates, (*space.channels, *meanings), time=space.frame.time, vectors=space.vectors)
    points, side = question.constraints[question.inside[0]].points, RightHandSide(0.0, wider.frame)
    added = [
        make_constraint(name, Operator.of([terms], wider.frame), points, side) for name, terms in meanings.values()
    ]

    def turned_operator(operator: Operator) -> Operator:
        return Operator.of([rewritten(row) for row in operator.rows], wider.frame, dict(operator.data))

    def turned(constraint: Constraint) -> Constraint:
        side = replace(constraint.right_hand_side, frame=wider.frame)  # a file has the channels of a condition from it
        if constraint.nonlinear is None:
            return replace(constraint, operator=turned_operator(constraint.operator), right_hand_side=side)
        operator = constraint.nonlinear.rewritten(rewritten, wider.frame)
        return make_constraint(constraint.name, operator, constraint.points, side)

    known = [turned(constraint) for constraint in question.constraints]

    def at(k: int, sample: Sample) -> Constraint:
        return turned(question.at(k, sample)) if k < len(known) else added[k - len(known)].at(sample.points)

    return replace(
        question,
        space=wider,
        constraints=[*known, *added],
        places=[*question.places, *[Interior()] * len(added)],
        at=at,
        jumps=[TurnedJump(jump, turned_operator, turned) for jump in question.jumps],
        asked=question.asked or len(space.channels),
        state=None,  # it has not these channels
    )


def new_name(prefix: str, channel: str, space: Space) -> str:
    """A name that no channel and no coordinate has."""
    found = f"{prefix}_{channel.replace('_', '')}"
    while found in (*space.channels, *space.coordinates):
        found += "x"
    return found
