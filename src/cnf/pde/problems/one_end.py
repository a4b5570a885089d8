"""One end: ordinary equations whose conditions all stand at one end and are too few, known before anything is solved.

Where the highest derivatives have numbers as factors, and all else is smooth in the coordinate and in the field, every
choice of the values that are not given leads to a solution of its own. Nothing is said of other problems: a factor
that vanishes at the end (2/r) gives conditions itself, and so may an expression that is not smooth.
"""

from __future__ import annotations

import sympy as sp

from cnf.errors import UnderdeterminedError
from cnf.operators.field_functions import Jet
from cnf.pde.problems.coupling import leading
from cnf.pde.problems.problem import Problem

SMOOTH = (sp.sin, sp.cos, sp.exp, sp.sinh, sp.cosh, sp.tanh, sp.atan)  # for all real arguments


def refuse_open_end(problem: Problem) -> None:
    """Refuse fewer conditions at the only end that has some than the orders of the equations, unless told so."""
    if problem.solving.underdetermined != "refuse" or (gap := missing_at_end(problem)) is None:
        return
    raise UnderdeterminedError(
        f"the conditions do not determine the field: {gap}, or ask for the smoothest field with "
        "underdetermined = 'minimum-norm' in [solve]"
    )


def missing_at_end(problem: Problem) -> str | None:
    """What is missing, in words; None if nothing is, or that is not certain."""
    if problem.domain.dimension > 1 or problem.regions is not None or problem.unknowns or problem.fitted:
        return None
    pairs = list(zip(problem._placing.places, problem.constraints, strict=True))
    ends = {tuple((place.fixed or {}).values()) for place, _ in pairs if place.kind != "interior"}
    given = [c for place, c in pairs if place.kind != "interior"]
    at = next(iter(ends), ())
    if len(ends) != 1 or at not in (problem.domain.lower, problem.domain.upper):
        return None
    if any(c.nonlinear is not None or not is_local(row) for c in given for row in c.operator.rows):
        return None
    orders = orders_of_smooth(problem)
    wanted, found = sum(orders.values()), sum(c.rows for c in given)
    if found >= wanted:
        return None
    (name,) = problem.space.coordinates
    several = len([order for order in orders.values() if order]) > 1
    equations = f"the equations for {', '.join(orders)} are" if several else f"the equation for {', '.join(orders)} is"
    lacking = wanted - found
    return (
        f"{equations} of order {wanted}{' together' if several else ''}, which takes {wanted} conditions; all of them "
        f"are at {name} = {at[0]:g}, and there {'is' if found == 1 else 'are'} {found}. Give {lacking} more there"
        f"{slopes(problem, orders)}, or at the other end"
    )


def slopes(problem: Problem, orders: dict[str, int]) -> str:
    """Examples of conditions: the lowest derivatives that no condition at the end looks at."""
    seen = {
        (term.channel, term.order)
        for place, c in zip(problem._placing.places, problem.constraints, strict=True)
        if place.kind != "interior"
        for row in c.operator.rows
        for term in row
    }
    free = [f"{c}{chr(39) * k} = ..." for c, order in orders.items() for k in range(order) if (c, k) not in seen]
    return f", such as {free[0]}" if free else ""


def orders_of_smooth(problem: Problem) -> dict[str, int]:
    """The order of the equation for every channel; empty if they are not of this kind, or not one for each."""
    rows, sides = [], []
    for place, constraint in zip(problem._placing.places, problem.constraints, strict=True):
        if place.kind == "interior":
            source = constraint.right_hand_side.source
            rows += list(constraint.operator.rows)
            sides += list(source) if isinstance(source, tuple) else [source]
    known = all(isinstance(side, sp.Expr | int | float) and is_smooth(sp.sympify(side)) for side in sides)
    if not known or any(not row or not is_local(row) for row in rows):
        return {}
    led = {names[0]: row for row in rows if len(names := leading(row)) == 1}
    if len(rows) != len(problem.space.channels) or set(led) != set(problem.space.channels):
        return {}
    orders = {channel: max(term.order for term in led[channel]) for channel in problem.space.channels}
    for channel, row in led.items():
        for term in row:
            highest = term.channel == channel and term.order == orders[channel]
            if highest and not (term.coefficient.is_number and term.coefficient != 0):
                return {}
            if not highest and (term.order >= orders[str(term.channel)] or not is_smooth(term.coefficient)):
                return {}
    return orders


def is_local(row: tuple) -> bool:
    return all(term.place.is_here for term in row)


def is_smooth(expression: sp.Expr) -> bool:
    """Whether an expression is made of what is smooth for all real numbers alone."""
    if isinstance(expression, Jet) or expression.is_Symbol:  # a coordinate: all parameters are put in
        return True
    if expression.is_number:
        return bool(expression.is_finite)
    if expression.is_Pow:
        return bool(expression.exp.is_Integer and expression.exp >= 0) and is_smooth(expression.base)
    return isinstance(expression, (sp.Add, sp.Mul, *SMOOTH)) and all(map(is_smooth, expression.args))
