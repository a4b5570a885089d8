"""Histories: the ways by which a user comes to hold a solution and its certificate."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch

import cnf

if TYPE_CHECKING:
    from benchmarks.attack.problems import Problem

COMMON = ("solve", "solve", "solve", "eval", "no grad", "raise")


def lived(problem: Problem, field: cnf.ConstrainedField) -> tuple[cnf.Solution, cnf.Certificate]:
    """The solution after the problem's history; the problem's numbers are those it was solved with."""
    solution = WAYS[problem.history](problem, field)
    return solution, solution.certificate


def _solve(problem: Problem, field: cnf.ConstrainedField) -> cnf.Solution:
    return field.solve()


def _eval(problem: Problem, field: cnf.ConstrainedField) -> cnf.Solution:
    return field.eval().solution


def _no_grad(problem: Problem, field: cnf.ConstrainedField) -> cnf.Solution:
    with torch.no_grad():
        return field.solve()


def _update(problem: Problem, field: cnf.ConstrainedField) -> cnf.Solution:
    """New right-hand sides, solved with the factorisation that is there."""
    field.eval()
    assert field.solution is not None
    changes = {}
    for k, part in enumerate(problem.parts):
        if problem.rng.random() < 0.7:
            part.values = part.values * problem.rng.uniform(-3, 3) + problem.rng.standard_normal(part.values.shape)
            changes[f"c{k}"] = torch.tensor(part.values)
    return field.update(changes)


def _disturb(problem: Problem, field: cnf.ConstrainedField) -> None:
    """Every parameter a little different, by a way that leaves no trace in version counters."""
    for parameter in field.parameters():
        parameter.data.add_(0.05 * parameter.data.abs().mean() * torch.randn_like(parameter))


def _kept(problem: Problem, field: cnf.ConstrainedField) -> cnf.Solution:
    """A solution looked at after the field it came from has moved on."""
    solution = field.solve()
    _disturb(problem, field)
    return solution


def _changed(problem: Problem, field: cnf.ConstrainedField) -> cnf.Solution:
    """Solved, changed, asked again in eval mode."""
    field.eval()
    assert field.solution is not None
    _disturb(problem, field)
    problem.read_parameters()
    return field.solution


def _trained(problem: Problem, field: cnf.ConstrainedField) -> cnf.Solution:
    """Three steps of training, then the solution of the last parameters."""
    learnable = [p for p in field.parameters() if p.requires_grad]
    if learnable:
        optimiser = torch.optim.Adam(learnable, lr=1e-2)
        x = torch.tensor(problem.setting.random_points(problem.rng, 20), dtype=field.dtype)
        for _ in range(3):
            optimiser.zero_grad()
            field(x).square().mean().backward()
            optimiser.step()
        problem.read_parameters()
    return field.solve()


def _coarse(problem: Problem, field: cnf.ConstrainedField) -> cnf.Solution:
    return field.eval().solution.in_precision(torch.float32)


def _copied(problem: Problem, field: cnf.ConstrainedField) -> cnf.Solution:
    field.eval()
    assert field.solution is not None
    return copy.deepcopy(field).solution


def _filed(problem: Problem, field: cnf.ConstrainedField) -> cnf.Solution:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "field.pt"
        field.eval().save(path)
        return cnf.load(path).eval().solution


def _there_and_back(problem: Problem, field: cnf.ConstrainedField) -> cnf.Solution:
    """Through the other precision and back; the points are those of float32 then, the right-hand sides as given.

    A constraint keeps the digits of its right-hand sides, so a field that is widened again asks for what it was given.
    """
    other = torch.float32 if field.dtype == torch.float64 else torch.float64
    field.to(other)
    assert field.eval().solution is not None
    for part in problem.parts:
        part.points = torch.tensor(part.points).float().double().numpy()
    return field.to(torch.float64 if other == torch.float32 else torch.float32).eval().solution


WAYS: dict[str, Callable[[Problem, cnf.ConstrainedField], cnf.Solution]] = {
    "solve": _solve,
    "raise": _solve,
    "eval": _eval,
    "no grad": _no_grad,
    "update": _update,
    "kept": _kept,
    "changed": _changed,
    "trained": _trained,
    "in float32": _coarse,
    "copied": _copied,
    "filed": _filed,
    "there and back": _there_and_back,
}
HISTORIES = tuple(WAYS)
