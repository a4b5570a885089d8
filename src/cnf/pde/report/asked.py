"""What was asked, as the page shows it: parameters, unknowns and where they began, target, start, continuation."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

import sympy as sp
from torch import Tensor

from cnf.operators.printing import latex_name
from cnf.reports.mathml import typeset

if TYPE_CHECKING:
    from cnf.pde.problems.problem import Problem

IN_PYTHON = "given in Python"


def list_asked(problem: Problem) -> dict[str, str]:
    """Label -> markup, of what the problem has; formulas as they were written, numbers as they were given."""
    asked = problem.original
    found = {
        "Parameters": [show_parameter(name, value) for name, value in asked.given_parameters.items()],
        "Looked for": [f"{_equal(name, value)}, to begin with" for name, value in asked.unknowns.items()],
        "Target": [] if asked.solving.target is None else [f"relative error {typeset(f'{asked.solving.target:g}')}"],
        "Start": show_start(asked),
        "Continuation": [
            f"{typeset(latex_name(name))} through {typeset(', '.join(f'{v:.12g}' for v in values))}"
            for name, values in asked.continuation.items()
        ],
    }
    return {label: "".join(f"<div>{line}</div>" for line in lines) for label, lines in found.items() if lines}


def show_parameter(name: str, value: object) -> str:
    """One parameter; with a value for every region, all of them in one line."""
    if not isinstance(value, Mapping):
        return _equal(name, value)
    parts = (f"{_equal(name, part)} in {escape(str(region))}" for region, part in value.items())
    return ", ".join(parts)


def show_start(problem: Problem) -> list[str]:
    """A line for every channel whose start is given."""
    given = problem.given_start
    if given is None:
        return []
    if isinstance(given, str | int | float):
        given = {problem.space.channels[0]: given}
    if isinstance(given, Mapping):
        return [_equal(name, value) for name, value in given.items()]
    return [IN_PYTHON]


def _equal(name: str, value: object) -> str:
    written = as_latex(value)
    left = latex_name(name)
    return f"{typeset(left)} {IN_PYTHON}" if written is None else typeset(f"{left} = {written}")


def as_latex(value: object) -> str | None:
    """A number, LaTeX or a vector of them; None for what only Python knows, a function for instance."""
    if isinstance(value, list | tuple):
        parts = [as_latex(part) for part in value]
        return None if None in parts else rf"\left({', '.join(map(str, parts))}\right)"
    if isinstance(value, Tensor):
        return f"{float(value.detach()):.12g}" if value.numel() == 1 else None
    if isinstance(value, sp.Basic):
        return sp.latex(value)
    if isinstance(value, str):
        return value
    return repr(value) if isinstance(value, int | float) else None
