"""Check: what a problem says, as it was read, and hints about what may be missing or too much; nothing is solved.

The hints come from the orders of the operators: a time derivative of order q wants q conditions at the first instant,
a spatial operator of even order 2m wants m conditions at every piece of the boundary, and a channel that appears only
through its derivatives is known only up to a constant. Conditions are counted over all channels that equations couple.
They are hints: an advection equation wants fewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import sympy as sp

from cnf.bases.ties import Tie
from cnf.constraints import Constraint
from cnf.errors import UnderdeterminedError
from cnf.operators.printing import CoefficientPrinter, latex_name
from cnf.pde.domains.connected import connected_parts
from cnf.pde.problems.balance import changes_of_sign, contradictions
from cnf.pde.problems.coupling import Coupling
from cnf.pde.problems.coverage import (
    boundary_excess,
    boundary_gaps,
    conditions_outside,
    ends_of_time,
    is_instant,
)
from cnf.pde.problems.jumps import Jump
from cnf.pde.problems.problem import Problem


@dataclass(frozen=True)
class Reading:
    """One equation as it was read."""

    name: str
    where: str
    written: str
    read: str  # the normal form, in LaTeX
    points: int | None  # None if patches place them
    rows: int | None
    nonlinear: bool = False


@dataclass(frozen=True)
class Check:
    """What was read; `missing` and `surplus` are hints about well-posedness, `notes` are not.

    >>> domain = cnf.domains.Interval(0, 1)
    >>> check = cnf.Problem("x", domain=domain, equations={"interior": "u'' = -2", "x = 0": "u = 0"}, points=9).check()
    >>> check.conditions, len(check.missing)
    (10, 1)
    """

    title: str
    domain: str
    readings: tuple[Reading, ...]
    conditions: int
    missing: tuple[str, ...]
    surplus: tuple[str, ...]
    notes: tuple[str, ...] = ()  # what is good to know: how nonlinear equations are solved, data that jump
    fitted: tuple[Reading, ...] = ()  # by the unknowns, not exact
    unknowns: dict[str, float] = field(default_factory=dict)  # and where they begin

    @property
    def hints(self) -> tuple[str, ...]:
        """`missing` and `surplus` together."""
        return (*self.missing, *self.surplus)


def check_problem(problem: Problem) -> Check:
    """Read everything, count, and look for gaps."""
    constraints = problem.constraints
    places = problem._placing.places
    readings = tuple(
        Reading(e.name, p.text, e.latex, read_back(c), c.points.shape[0], c.rows, c.nonlinear is not None)
        for e, p, c in zip(problem.equations, places, constraints, strict=True)
    ) + tuple(_read_jump(jump) for jump in problem.jumps)
    fitted = tuple(
        Reading(e.name, p.text, e.latex, read_back(c), c.points.shape[0], c.rows)
        for e, p, c in zip(problem.fitted, problem._sensors.places, problem.sensors, strict=True)
    )
    missing = [*_initial_gaps(problem), *boundary_gaps(problem)]
    for channel in problem.space.channels:
        missing += [hint for hint in (_constant_gap(problem, channel), _absent(problem, channel)) if hint]
    return Check(
        problem.title,
        problem.domain_text,
        readings,
        sum(c.rows for c in constraints),
        tuple(missing),
        (*boundary_excess(problem), *contradictions(problem), *changes_of_sign(problem)),
        fitted=fitted,
        unknowns={name: float(value) for name, value in problem.unknowns.items()},
    )


def _read_jump(jump: Jump) -> Reading:
    """A condition on interfaces; how many points it has is for the solver to say."""
    read = "; ".join(dict.fromkeys(jump_read_back(jump, number) for number in jump.interfaces))
    return Reading(jump.equation.name, jump.equation.on or "", jump.equation.latex, read, None, None)


def jump_read_back(jump: Jump, interface: int) -> str:
    """A condition on an interface as it was understood, row by row."""
    whole, sides = jump.in_parts(interface)
    printer = CoefficientPrinter(whole.operator.frame, {})
    alone = [_expressions(side) for side in sides.values()]  # minus the terms without the field
    given = [printer.doprint(e - k) for e, k in zip(_expressions(whole), alone[0], strict=True)]
    rows = [
        [f"{row} - ({printer.doprint(k)})" if k else row for row, k in zip(_rows(side), own, strict=True)]
        for side, own in zip(sides.values(), alone, strict=True)
    ]
    return across(rows, given, [f"_{{{latex_name(name)}}}" for name in sides])


def tie_read_back(tie: Tie) -> str:
    """What is tied on an interface without being asked for."""
    rows = [_rows(tie.condition), _rows(tie.beyond or tie.condition)]
    return across(rows, ["0"] * len(rows[0]), ["", ""])


def across(rows: Sequence[Sequence[str]], given: Sequence[str], names: Sequence[str]) -> str:
    """Brackets where both sides have the same coefficients, else what either side has, with its name below it."""
    return "; ".join(
        f"{f'[{there}]' if there == here else f'({there}){names[0]} - ({here}){names[1]}'} = {side}"
        for there, here, side in zip(*rows, given, strict=True)
    )


def _expressions(constraint: Constraint) -> tuple[sp.Expr, ...]:
    """The right-hand side, of equations in LaTeX."""
    source = constraint.right_hand_side.source
    assert isinstance(source, tuple)
    return source


def _rows(constraint: Constraint) -> list[str]:
    return constraint.to_latex().split("; ")


def read_back(constraint: Constraint) -> str:
    """The equation as the library understood it: the operator in normal form and its right-hand side, row by row."""
    rows = _rows(constraint)
    source, frame = constraint.right_hand_side.source, constraint.operator.frame
    if isinstance(source, tuple):
        sides = [CoefficientPrinter(frame, {}).doprint(e) for e in source]
    elif isinstance(source, int | float):
        sides = [f"{source:g}"] * len(rows)
    else:
        sides = [r"\mathrm{data}"] * len(rows)
    if len(sides) != len(rows):
        return constraint.to_latex()
    return "; ".join(f"{row} = {side}" for row, side in zip(rows, sides, strict=True))


def _initial_gaps(problem: Problem) -> list[str]:
    """Time derivatives that want more conditions at the ends of time; a channel may have those of another."""
    ends = ends_of_time(problem)
    if ends is None:
        return []
    coupling = Coupling.of(problem)
    wanted = {c: coupling.orders(c)[1] for c in problem.space.channels}
    found = {
        c: round(sum(w for w, _, _, points in conditions_outside(problem, [c]) if is_instant(problem, points)))
        for c in problem.space.channels
    }
    if sum(found.values()) >= sum(wanted.values()):
        return []
    return [
        f"the equation for {c} has a time derivative of order {order}, which takes {order} "
        f"condition{'s' if order > 1 else ''} at t = {ends[0]:g}; there {'is' if found[c] == 1 else 'are'} "
        f"{found[c] or 'none'}"
        for c, order in wanted.items()
        if found[c] < order
    ]


def _terms(problem: Problem, channel: str):
    return [t for c in problem.constraints for row in c.operator.rows for t in row if t.channel == channel]


def _constant_gap(problem: Problem, channel: str) -> str:
    terms = _terms(problem, channel)
    if not terms:
        return ""
    if any(not t.derivatives for t in terms):
        return _constant_gap_in_a_part(problem, channel)
    return (
        f"{channel} appears only through its derivatives, so it is known only up to a constant; give a value "
        "somewhere, or its mean by an integral"
    )


def _constant_gap_in_a_part(problem: Problem, channel: str) -> str:
    """A domain in pieces that do not touch wants a value in each of them; conditions without a place serve one."""
    parts = connected_parts(problem.domain)
    if parts.count == 1:
        return ""
    known: set[int] = set()
    elsewhere = 0
    for place, constraint in zip(problem._placing.places, problem.constraints, strict=True):
        rows = [[term for term in row if term.channel == channel] for row in constraint.operator.rows]
        if not any(not term.derivatives for row in rows for term in row):
            continue
        if place.kind == "nowhere":
            elsewhere += 1
        else:
            known |= set(parts.of(constraint.points.detach().cpu().numpy()).tolist())
    bare = [k for k in range(parts.count) if k not in known]
    if len(bare) <= elsewhere:
        return ""
    return (
        f"the domain lies in {parts.count} parts that do not touch, and in the one around {parts.middle(bare[0])} "
        f"{channel} appears only through its derivatives, so it is known only up to a constant; give a value there"
    )


def refuse_bare_parts(problem: Problem) -> None:
    """Refuse a problem that leaves a constant open in a part of the domain that touches no other, unless told so."""
    if problem.solving.underdetermined != "refuse":
        return
    for channel in problem.space.channels:
        if gap := _constant_gap_in_a_part(problem, channel):
            raise UnderdeterminedError(
                f"the conditions do not determine the field: {gap}, or ask for the smoothest field with "
                "underdetermined = 'minimum-norm' in [solve]"
            )


def refuse_missing_starts(problem: Problem) -> None:
    """Refuse derivatives in time that too few conditions start, unless told so or something else may make up for it."""
    time = problem.domain.dimension - 1
    ends = (problem.domain.lower[time], problem.domain.upper[time])
    for place in problem._placing.places:
        if place.kind in ("file", "nowhere") or (place.fixed or {}).get(time, ends[0]) not in ends:
            return
    if problem.solving.underdetermined == "refuse" and (gaps := _initial_gaps(problem)):
        raise UnderdeterminedError(f"the conditions do not determine the field: {gaps[0]}")


def _absent(problem: Problem, channel: str) -> str:
    return "" if _terms(problem, channel) else f"no equation has {channel}"
