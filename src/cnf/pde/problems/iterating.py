"""Iterating: what there is to know of a nonlinear problem before it is solved; nothing of it is wrong.

Which equations are nonlinear, where the iteration for them will begin, whether it goes along time in windows; and, of
any problem in time, where its start and its boundary do not agree: the field jumps there.
"""

from __future__ import annotations

import math

from torch import Tensor

from cnf.constraints import Constraint
from cnf.errors import CnfError
from cnf.pde.patches.pursuit import axis_of
from cnf.pde.problems.asking_patches import question_of
from cnf.pde.problems.entries import listed
from cnf.pde.problems.places import Place
from cnf.pde.problems.problem import Problem

AGREE = 1e-6  # of the largest value: those that differ by less are the same


def notes_on(problem: Problem) -> tuple[str, ...]:
    """In sentences; none for a linear problem whose data agree."""
    return (*iteration_notes(problem), *idle_notes(problem), *disagreements(problem))


def idle_notes(problem: Problem) -> list[str]:
    """What was given and plays no part: beginnings of linear problems, columns of files that no equation uses."""
    notes = []
    if is_linear(problem):
        given = {"start": problem.start is not None, "continuation": bool(problem.continuation)}
        for name in (name for name, there in given.items() if there):
            notes.append(f"{name} plays no part in the answer: all equations are linear in the field")
    files: dict[str, set[str]] = {}
    for placing in (problem._placing, problem._sensors):
        for place, names in zip(placing.places, placing.names, strict=True):
            if place.file is not None:
                files.setdefault(place.text, set(place.file.columns)).difference_update(names)
    for file, unused in files.items():
        notes += [f"no equation uses the column {name!r} of {file}" for name in sorted(unused)]
    return notes


def is_linear(problem: Problem) -> bool:
    return all(c.nonlinear is None for c in (*problem.constraints, *problem.sensors)) and all(
        jump.is_linear for jump in problem.jumps
    )


def iteration_notes(problem: Problem) -> list[str]:
    """How the iteration will go."""
    beyond = [c.name for c in problem.constraints if c.nonlinear is not None]
    if not beyond:
        return []
    begins = "at zero, or, if that leads nowhere, at the linear terms alone or at one"
    if problem.start is not None:
        begins = f"at {getattr(problem.start, 'called', 'the field given')}"
    notes = [f"nonlinear in {', '.join(beyond)}: solved by Newton's iteration, which begins {begins}"]
    if problem.continuation:
        rows = [
            dict(zip(problem.continuation, row, strict=True))
            for row in zip(*problem.continuation.values(), strict=True)
        ]
        asked = {name: float(problem.parameters[name]) for name in problem.continuation}
        notes.append(f"by continuation: {'; '.join(map(listed, [*rows, asked]))}, each from the field before")
    if (name := followed_along(problem)) is not None:
        low, high = problem.domain.lower[-1], problem.domain.upper[-1]
        windows = f"in windows of {name}, from {low:g} to {high:g}"
        notes.append(f"followed on patches {windows}: each begins where the one before ended")
    return notes


def followed_along(problem: Problem) -> str | None:
    """The coordinate along which a nonlinear problem is followed in windows; None if it is not, or by waves."""
    from cnf.pde.problems.patch_refusals import refuse_unsuitable  # which asks for checks itself

    if problem.solving.method == "waves" or (problem.solving.method == "auto" and problem.about_waves):
        return None
    try:
        refuse_unsuitable(problem)
        axis = axis_of(question_of(problem))
    except CnfError:
        return None
    return None if axis is None else problem.space.coordinates[axis]


def disagreements(problem: Problem) -> list[str]:
    """Where values that are given at the start are others than those on the boundary at that moment; the worst ones."""
    if problem.space.coordinates[-1] not in problem.space.frame.time or problem.domain.dimension < 2:
        return []
    placing, found = problem._placing, []
    for channel in problem.space.channels:
        known = [
            (place, c)
            for place, c in zip(placing.places, problem.constraints, strict=True)
            if place.region is None and gives_value(c, channel)
        ]
        begin = [c for place, c in known if is_start(problem, place)]
        sides = [
            c for place, c in known if not is_start(problem, place) and place.kind in ("boundary", "shape", "slice")
        ]
        for start, side in ((a, b) for a in begin for b in sides):
            points = side.points.detach().clone()
            points[:, -1] = problem.domain.lower[-1]
            try:
                one, other = value_of(start.at(points)), value_of(side.at(points))
            except CnfError:
                continue
            gap = (one - other).abs().nan_to_num(0.0)
            worst = int(gap.argmax())
            size = max(float(value_of(c).abs().nan_to_num(0.0).max()) for c in (start, side))
            if float(gap[worst]) > AGREE * size:
                where = zip(problem.space.coordinates, points[worst].tolist(), strict=True)
                found.append(
                    f"start and boundary do not agree: at {', '.join(f'{c} = {v:.3g}' for c, v in where)}, "
                    f"{start.name!r} gives {channel} = {float(one[worst]):.4g} and {side.name!r} "
                    f"{float(other[worst]):.4g}; the field jumps there, and small targets may not be reached"
                )
    return found


def is_start(problem: Problem, place: Place) -> bool:
    return place.kind == "slice" and dict(place.fixed or {}) == {problem.domain.dimension - 1: problem.domain.lower[-1]}


def gives_value(condition: Constraint, channel: str) -> bool:
    """Whether a condition is a value of this channel alone, times a coefficient."""
    rows = condition.operator.rows
    if condition.nonlinear is not None or len(rows) != 1 or len(rows[0]) != 1:
        return False
    (term,) = rows[0]
    known = condition.right_hand_side.known_everywhere
    return term.channel == channel and not term.derivatives and term.place.is_here and known


def value_of(condition: Constraint) -> Tensor:
    """The value (P,) that such a condition gives."""
    (probe,) = condition.expanded()
    ((weight,),) = (tuple(request.weights.values()) for request in probe.requests)
    found = condition.values[:, 0].detach() / weight.detach()
    return found.masked_fill(weight.detach() == 0, math.nan)
