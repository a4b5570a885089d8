"""Algorithms of the paper beside the lines of this library that do the same, taken from the sources as they are."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Step:
    """Lines of the paper's algorithm, in words, and the functions that do them."""

    lines: str
    functions: tuple[Callable[..., Any], ...]


@dataclass(frozen=True)
class Algorithm:
    """One algorithm."""

    number: str
    label: str
    title: str
    steps: tuple[Step, ...]


def list_algorithms() -> tuple[Algorithm, ...]:
    """Both of them; a function, for torch is imported with the sources."""
    from cnf.field import ConstrainedField
    from cnf.solution import Solution
    from cnf.training.evaluation import evaluate
    from cnf.training.run import Run

    return (
        Algorithm(
            *("1", "alg:training", "training"),
            (
                Step("lines 1 to 5, repeat until converged", (Run._train,)),
                Step("line 2, solve for the weights; line 3, the gradient of the loss through them", (evaluate,)),
                Step("line 4, update the parameters", (Run._update,)),
            ),
        ),
        Algorithm(
            *("2", "alg:inference", "inference"),
            (
                Step(
                    "lines 1 to 3, weights are solved for once, without gradients, and kept", (ConstrainedField.settle,)
                ),
                Step("line 4, the weighted sum of the functions", (ConstrainedField.forward, Solution.__call__)),
            ),
        ),
    )


def write_algorithm(algorithm: Algorithm, page: Path) -> str:
    """Markdown: every step with its sources, and a link to their file."""
    blocks = [f"### Algorithm {algorithm.number} (`{algorithm.label}`): {algorithm.title}"]
    for step in algorithm.steps:
        found = [show_source(function) for function in step.functions]
        files = dict.fromkeys(find_file(function) for function in step.functions)
        links = ", ".join(f"[{file}]({link(file, page)})" for file in files)
        blocks.append(f"{step.lines[0].upper()}{step.lines[1:]}: {links}.")
        blocks.append("\n".join(["```python", "\n\n\n".join(found), "```"]))
    return "\n\n".join(blocks)


def show_source(function: Callable[..., Any]) -> str:
    """The lines of a function without its docstring, flush left."""
    lines = textwrap.dedent(inspect.getsource(function)).rstrip("\n").split("\n")
    made = ast.parse("\n".join(lines)).body[0]
    assert isinstance(made, ast.FunctionDef)
    first = made.body[0]
    is_text = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    if is_text and len(made.body) > 1:
        assert first.end_lineno is not None
        lines = _without(lines, first.lineno - 1, first.end_lineno)
    return "\n".join(lines)


def _without(lines: Sequence[str], start: int, stop: int) -> list[str]:
    return [*lines[:start], *lines[stop:]]


def find_file(function: Callable[..., Any]) -> str:
    """Where a function stands, from the root of the repository; sources of an installed package are named alike."""
    parts = function.__module__.split(".")
    return "/".join(["src", *parts]) + ".py"


def link(file: str, page: Path) -> str:
    """A link from the page to a file of the repository."""
    import os

    return Path(os.path.relpath(ROOT / file, page.parent)).as_posix()
