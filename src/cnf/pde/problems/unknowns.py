"""Unknowns: numbers of a problem that are looked for, where to begin, and which equations are fitted to find them.

The equations of a problem hold exactly, whatever its unknowns are. Measurements do not: one number cannot make a field
pass through twenty sensors. So some equations are fitted, in the sense of least squares: those at the points of a file,
unless they have fitted = false, and those that have fitted = true.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from cnf.errors import ProblemError
from cnf.pde.problems.entries import check_number
from cnf.pde.problems.equation import Equation

if TYPE_CHECKING:
    from cnf.pde.problems.jumps import Jump
    from cnf.pde.problems.problem import Problem

MOST = 50


def read_unknowns(given: Mapping[str, object], parameters: Mapping[str, object]) -> dict[str, float | Tensor]:
    """{name: the number to begin with}; a torch number, where the solve is to be differentiable in it."""
    if len(given) > MOST:
        raise ProblemError(f"{len(given)} unknowns are given; at most {MOST} numbers are looked for", ("unknowns",))
    for name in given:
        if name in parameters:
            raise ProblemError(f"{name!r} is a parameter as well; keep one of them", ("unknowns", name))
    return {name: _number(value, ("unknowns", name)) for name, value in given.items()}


def _number(value: object, where: tuple) -> float | Tensor:
    if isinstance(value, Tensor) and value.numel() == 1 and value.requires_grad:
        return value
    try:
        return check_number(value, where, positive=False)
    except ProblemError as error:
        raise ProblemError(
            f"{error.message}: an unknown is a number to begin with, such as 1.0; an unknown field is one more of the "
            "channels",
            where,
        ) from None


def split_fitted(
    equations: Sequence[Equation], unknowns: Mapping[str, object], jumps: Sequence[Jump]
) -> tuple[tuple[Equation, ...], tuple[Equation, ...]]:
    """Equations that hold exactly, and those that are fitted."""
    for equation in (*equations, *(jump.equation for jump in jumps)):
        where = ("equations", equation.number, "fitted")
        if equation.fitted and not unknowns:
            raise ProblemError(
                "there is no number to fit it with; give [unknowns], or leave this out: then it holds exactly", where
            )
        if equation.fitted and equation not in equations:
            raise ProblemError("conditions on interfaces hold exactly; leave this out", where)
    fitted = tuple(e for e in equations if unknowns and (e.file is not None if e.fitted is None else e.fitted))
    if unknowns and not fitted:
        raise ProblemError(
            f"nothing says what {' and '.join(unknowns)} should be: give measurements (file = 'sensors.csv', equation "
            "= 'u = d'), or fitted = true to an equation",
            ("unknowns",),
        )
    return tuple(e for e in equations if e not in fitted), fitted


def known_values(problem: Problem, exact: object) -> tuple[dict[str, float], object]:
    """The values of unknowns among what is known of the solution, and the rest of that."""
    if not isinstance(exact, Mapping):
        return {}, exact
    own = {name: value for name, value in exact.items() if name in problem.unknowns}
    rest = {name: value for name, value in exact.items() if name not in own}
    return {name: problem.number(value, ("exact", name)) for name, value in own.items()}, rest or None
