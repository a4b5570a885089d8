"""Parameters: numbers, vectors and expressions in LaTeX, in any order, each of which may use the others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import sympy as sp
from torch import Tensor

from cnf.constraints import Space
from cnf.errors import LatexError, ProblemError
from cnf.operators.frame import NAME, Frame
from cnf.operators.latex import read_expression
from cnf.pde.problems.entries import check_number, shown

Parameter = Any  # a SymPy expression, a learnable number, a callable, or a list of them for a vector
MOST = 200
SOME_NUMBER = sp.Float("1.2345")  # for parameters that others use, while these are looked at
NORMALS = r"n_x, n_y, \mathbf{n} and \partial_n are there only in equations on the boundary or on interfaces"


def read_parameters(given: Mapping[str, object], space: Space) -> dict[str, Parameter]:
    """Every parameter as an expression in the coordinates, or a list of them for a vector."""
    if len(given) > MOST:
        raise ProblemError(f"{len(given)} parameters are given; at most {MOST} are read", ("parameters",))
    for name in given:
        _check_name(name, space)
    found: dict[str, Parameter] = {}
    waiting = dict(given)
    before = len(waiting)
    while waiting:
        failed: dict[str, LatexError] = {}
        for name, value in list(waiting.items()):
            try:
                found[name] = _read(value, space.frame, found, ("parameters", name))
                del waiting[name]
            except LatexError as problem:
                failed[name] = problem
        if len(failed) == before:
            raise _explained(waiting, space.frame, found)
        before = len(failed)
    return found


def _explained(waiting: Mapping[str, object], frame: Frame, found: Mapping[str, Parameter]) -> ProblemError:
    """Why none of these can be read: one of them is wrong even if the others stand for numbers, or they go round."""
    stand_ins = {n: [SOME_NUMBER] * len(v) if isinstance(v, list | tuple) else SOME_NUMBER for n, v in waiting.items()}
    for name, value in waiting.items():
        others = {other: number for other, number in stand_ins.items() if other != name}
        try:
            _read(value, frame, {**found, **others}, ("parameters", name))
        except LatexError as error:
            return ProblemError(in_file(error), ("parameters", name))
    return ProblemError(
        f"the parameters {', '.join(waiting)} need each other; give one of them without the others",
        ("parameters", next(iter(waiting))),
    )


def in_file(error: Exception) -> str:
    """The message, with the advice that holds for a problem: coefficients are parameters, not keywords."""
    keyword = r"If it is a coefficient, give it as a keyword: (\w+)=(\.\.\.|\[\.\.\.\])"
    return re.sub(keyword, _advised, str(error))


def _advised(match: re.Match[str]) -> str:
    if match[1] == "n":
        return f"If it is the normal: {NORMALS}."
    return f"Give it in [parameters]: {match[1]} = {match[2]}"


def read_number(value: object, frame: Frame, parameters: Mapping[str, Parameter], where: tuple) -> float:
    """A number, or LaTeX that stands for one, such as '2\\pi'."""
    if not isinstance(value, str):
        return check_number(value, where, positive=False)
    try:
        expression = read_expression(value, frame, dict(parameters))
    except LatexError as error:
        raise ProblemError(in_file(error), where) from None
    number = sp.N(expression, 30)
    if not (number.is_number and number.is_finite and number.is_real):
        raise ProblemError(f"expected a number, got {shown(value)}", where)
    return float(number)


def _read(value: object, frame: Frame, known: Mapping[str, Parameter], where: tuple) -> Parameter:
    if isinstance(value, list | tuple):
        if not value:
            raise ProblemError("a vector needs at least one entry", where)
        entries = [_read(part, frame, known, where) for part in value]
        if any(isinstance(part, list) for part in entries):
            raise ProblemError("a vector has numbers or expressions as entries, not vectors", where)
        return entries
    if isinstance(value, sp.Expr) or (callable(value) and not isinstance(value, Tensor)):
        return value
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise ProblemError(
                f"a tensor of shape {tuple(value.shape)} given; expected one number: give a vector as a list of them, "
                "and what varies as an expression or a callable, points (P, D) -> values (P,)",
                where,
            )
        if value.requires_grad:
            check_number(float(value.detach()), where, positive=False)
            return value
        return sp.Float(check_number(float(value.detach()), where, positive=False))
    if isinstance(value, str):
        return read_expression(value, frame, dict(known), with_field=True)
    if isinstance(value, int) and not isinstance(value, bool):
        return sp.Integer(value)
    return sp.Float(check_number(value, where, positive=False))


def _check_name(name: object, space: Space) -> None:
    where = ("parameters", str(name))
    if not isinstance(name, str) or not NAME.match(name):
        raise ProblemError(f"{name!r} cannot name a parameter; use letters, digits and one underscore", where)
    if name in space.coordinates:
        raise ProblemError(f"{name!r} is a coordinate already; rename the parameter", where)
    if name in space.channels:
        raise ProblemError(f"{name!r} is a channel already; rename the parameter", where)
    first, _, last = name.partition("_")
    if last in space.coordinates and first in (*space.channels, "n"):
        raise ProblemError(f"{name!r} reads as a derivative or as a component of the normal; rename it", where)
    if name in ("pi", "e"):
        raise ProblemError(f"{name!r} has a value already; rename the parameter", where)
