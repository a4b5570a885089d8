"""Beginning: where the iteration for a nonlinear problem starts: formulas, a field, or the same problem made easier."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sympy as sp
from torch import Tensor

from cnf.errors import NotANumberError, ProblemError, UnfollowedError, nearest
from cnf.operators.evaluation import evaluate_all
from cnf.operators.forward import MultiIndex
from cnf.operators.frame import Frame, symbol
from cnf.operators.nonlinear import Called, State
from cnf.pde.problems.entries import check_any_table, check_number, listed, shown
from cnf.systems.states import start_of
from cnf.telling import during

if TYPE_CHECKING:
    from cnf.pde.problems.answer import Answer
    from cnf.pde.problems.problem import Problem
    from cnf.pde.tuning.trial import Report

LOOKED_AT = 400  # points of the domain where a start must be a number
STEPS = 24  # problems that a continuation may solve on its way
ON_THE_WAY = 1e-2  # target of these
TINY = 1e-300
NARROWEST = 1e-3  # of the way between two values: steps are not made shorter


@dataclass(frozen=True)
class Passed:
    """Values of parameters on the way of a continuation, and what they took; `found`: whether there was a solution."""

    values: dict[str, float]
    found: bool
    steps: int  # of Newton's iteration, the last one
    seconds: float

    def describe(self) -> str:
        steps = f"{self.steps} Newton step{'' if self.steps == 1 else 's'}, " if self.steps else ""
        return f"{listed(self.values)}: {'' if self.found else 'no solution found, '}{steps}{self.seconds:.1f} s"


@dataclass(frozen=True)
class Formulas:
    """A state that is given by one expression per channel."""

    expressions: tuple[sp.Expr, ...]
    frame: Frame
    called: str = "the start of the file"

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        coordinates = [symbol(name) for name in self.frame.coordinates]
        values = {s: x[:, k] for k, s in enumerate(coordinates)}
        found = {}
        for index in indices:
            orders = [(s, n) for s, n in zip(coordinates, index, strict=True) if n]
            wanted = [e.diff(*orders) if orders else e for e in self.expressions]
            columns = evaluate_all(wanted, values, {}, x[:, 0])
            found[index] = x.new_empty(x.shape[0], len(columns))
            for k, column in enumerate(columns):
                found[index][:, k] = column
        return found


def read_start(problem: Problem, given: object) -> State | None:
    """{channel: LaTeX}, others are zero; one expression for one channel; in Python a field or a function of points."""
    where, channels = ("solve", "start"), problem.space.channels
    if given is None or (
        not isinstance(given, str | int | float | Mapping) and (callable(given) or hasattr(given, "derivatives"))
    ):
        return start_of(given)
    if not isinstance(given, Mapping):
        if len(channels) > 1:
            raise ProblemError(f"expected a table with an expression for some of {', '.join(channels)}", where)
        given = {channels[0]: given}
    table = check_any_table(given, where)
    for name, value in table.items():
        if name not in channels:
            raise ProblemError(
                f"there is no channel {name!r}; {_are(channels)}.{nearest(name, channels)}", (*where, name)
            )
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise ProblemError(f"expected an expression in LaTeX, got {shown(value)}", (*where, name))
    read = {name: problem.expression(str(value), (*where, name)) for name, value in table.items()}
    found = Formulas(tuple(read.get(name, sp.S.Zero) for name in channels), problem.space.frame)
    _refuse_no_numbers(problem, found, list(table))
    return found


def _refuse_no_numbers(problem: Problem, start: Formulas, given: Sequence[str]) -> None:
    """An iteration that begins with roots of negative numbers ends there, with a reason that does not say so."""
    points, space = problem.domain.fill(LOOKED_AT, "halton", problem.seed), problem.space
    values = start.derivatives(points, [(0,) * points.shape[1]]).popitem()[1]
    for name in given:
        bad = (~values[:, space.channels.index(name)].isfinite()).nonzero()[:, 0]
        if len(bad):
            at = listed(dict(zip(space.coordinates, points[bad[0]].tolist(), strict=True)))
            raise ProblemError(
                f"the start of {name} is not a number at {at}, nor at {len(bad) - 1} others of {len(points)} points of "
                "the domain; give one that is a number everywhere",
                ("solve", "start"),
            )


def _are(channels: Sequence[str]) -> str:
    return f"the only one is {channels[0]}" if len(channels) == 1 else f"they are {', '.join(channels)}"


def read_continuation(problem: Problem, given: object) -> dict[str, tuple[float, ...]]:
    """{parameter: values to pass through}, before the value that it has; all lists are passed through together."""
    where = ("solve", "continuation")
    table = check_any_table(given or {}, where)
    numbers = [name for name, value in problem.parameters.items() if isinstance(value, int | float | sp.Number)]
    found = {}
    for name, values in table.items():
        if name not in numbers:
            kind = "not a number" if name in problem.regional.any else "no parameter"
            can = f"numbers that can be changed: {', '.join(numbers)}" if numbers else "there are no numbers to change"
            raise ProblemError(f"{name!r} is {kind}; {can}.{nearest(name, numbers)}", (*where, name))
        if not isinstance(values, list | tuple) or not values:
            raise ProblemError("expected a list of values to pass through, easiest first", (*where, name))
        found[name] = tuple(check_number(value, (*where, name), positive=False) for value in values)
    if len({len(values) for values in found.values()}) > 1:
        raise ProblemError("the lists of a continuation are passed through together; make them equally long", where)
    return found


def solve_by_continuation(problem: Problem, report: Report | None) -> Answer:
    """The problem from its easiest parameters to those asked for, each beginning with the field before."""
    lists = problem.continuation
    asked = {name: float(problem.parameters[name]) for name in lists}
    waiting = [{name: values[k] for name, values in lists.items()} for k in range(len(next(iter(lists.values()))))]
    waiting = [*waiting, asked] if waiting[-1] != asked else waiting
    scales = {name: max(map(abs, (*values, asked[name]))) for name, values in lists.items()}
    state, reached = problem.start, None
    passed: list[Passed] = []
    for number in range(1, STEPS + 1):
        last, started, steps = len(waiting) == 1, time.perf_counter(), 0
        try:
            with during(f"value {number}: {listed(waiting[0])}"):
                answer = problem.with_parameters(waiting[0], state, None if last else ON_THE_WAY)._solved(report)
            found = answer.convergence is None or not answer.convergence.stopped
            steps = 0 if answer.convergence is None else answer.convergence.steps
        except (NotANumberError, UnfollowedError):
            found = False
        passed.append(Passed(waiting[0], found, steps, time.perf_counter() - started))
        if found:
            if last:
                return replace(answer, problem=problem, passed=tuple(passed))
            if answer.tuning.interrupted:  # what there is answers another question
                raise KeyboardInterrupt
            state, reached = Called(answer.solution, f"the field for {listed(waiting[0])}"), waiting.pop(0)
            continue
        if reached is None or _gap(reached, waiting[0], scales) < NARROWEST:
            return _stuck(waiting[0])
        waiting.insert(0, {name: _between(reached[name], value) for name, value in waiting[0].items()})
    return _stuck(waiting[0])


def _between(first: float, second: float) -> float:
    """The geometric mean, for parameters range over decades; where zero lies between them, the arithmetic one."""
    return math.copysign(math.sqrt(first * second), first) if first * second > 0 else (first + second) / 2


def _gap(first: Mapping[str, float], second: Mapping[str, float], scales: Mapping[str, float]) -> float:
    """The largest change of a parameter over its size; beside zero, which has none, over the largest of its values."""
    found = []
    for name, scale in scales.items():
        a, b = first[name], second[name]
        found.append(abs(a - b) / (max(abs(a), abs(b)) if a * b > 0 else max(scale, TINY)))
    return max(found)


def _stuck(values: Mapping[str, float]) -> Any:
    raise ProblemError(
        f"the continuation does not get past {listed(values)}: there may be no solution beyond, or it turns back there "
        "(a fold); begin on another branch with start, or with other values",
        ("solve", "continuation"),
    )
