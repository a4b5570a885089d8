"""Exact: the known solution of a problem, from LaTeX or callables, as functions of points; region by region."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp
import torch
from torch import Tensor

from cnf.constraints import Space
from cnf.constraints.constraint import RightHandSide
from cnf.errors import ProblemError
from cnf.pde.domains.regions import Regions
from cnf.pde.problems import options
from cnf.pde.problems.entries import check_table, shown

if TYPE_CHECKING:
    from cnf.pde.problems.problem import Problem

Function = Callable[[Tensor], Tensor]


def read_exact(problem: Problem, given: object) -> dict[str, Function] | None:
    """Channel -> points (P, D) to values (P,); None if nothing is known."""
    channels, regions = problem.space.channels, problem.regions
    if regions is not None and len(channels) == 1 and isinstance(given, Mapping) and set(given) <= set(regions.names):
        given = {channels[0]: given}
    found: dict[str, Function] = {}
    for channel, value in options.read_exact(given, channels).items():
        where = ("exact", channel)
        if regions is None:
            found[channel] = _read(problem, value, None, where)
            continue
        several = check_table(value, regions.names, where) if isinstance(value, Mapping) else None
        if several is not None and (missing := [name for name in regions.names if name not in several]):
            raise ProblemError(f"there is no expression for the region {missing[0]!r}", where)
        parts = [_read(problem, value if several is None else several[r], r, where) for r in regions.names]
        found[channel] = _by_region(regions, parts)
    for channel, function in found.items():
        _try(problem, channel, function)
    return found or None


def _read(problem: Problem, value: object, region: str | None, where: tuple) -> Function:
    if callable(value) and not isinstance(value, sp.Basic):
        return value
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise ProblemError(f"expected an expression in LaTeX, got {shown(value)}", where)
    return _evaluator(problem.expression(str(value), where, region), problem.space)


def _by_region(regions: Regions, parts: list[Function]) -> Function:
    """Each in its own region."""

    def evaluate(points: Tensor) -> Tensor:
        number = regions.number(points.detach().to(torch.float64).cpu().numpy())
        found = points.new_full((points.shape[0],), float("nan"))
        for k in np.unique(number):
            own = torch.from_numpy(np.flatnonzero(number == k)).to(points.device)
            found[own] = torch.as_tensor(parts[k](points[own])).to(found).reshape(-1)
        return found

    return evaluate


def _try(problem: Problem, channel: str, function: Function) -> None:
    """Mistakes in an exact solution show before the work, not after."""
    where = ("exact", channel)
    points = problem.domain.fill(50, "halton", problem.seed)
    try:
        values = torch.as_tensor(function(points)).reshape(-1)
    except Exception as error:  # a callable of the user may raise anything
        raise ProblemError(f"the exact solution fails: {type(error).__name__}: {error}", where) from None
    if values.shape[0] != points.shape[0]:
        raise ProblemError(f"the exact solution gives {values.shape[0]} values for {points.shape[0]} points", where)
    bad = int((~torch.isfinite(values)).sum())
    if 2 * bad > len(values):
        raise ProblemError(f"the exact solution is NaN or infinite at {bad} of {len(values)} points", where)


def _evaluator(expression: sp.Expr, space: Space) -> Function:
    side = RightHandSide((expression,), space.frame)

    def evaluate(points: Tensor) -> Tensor:
        with torch.no_grad():
            return side.at(points, 1, "exact")[:, 0]

    return evaluate
