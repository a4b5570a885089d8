"""Measured data: what the equations that are fitted say about the values of a channel, beside what the field has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp
import torch

from cnf.operators.operator import HERE

if TYPE_CHECKING:
    from cnf.operators.operator import Row
    from cnf.pde.problems.answer import Answer


@dataclass(frozen=True)
class Measured:
    """Measurements of one channel by one equation that is fitted."""

    name: str  # of the equation
    channel: int
    points: np.ndarray  # (P, D)
    values: np.ndarray  # (P,)
    misfit: np.ndarray  # (P,) field minus measurement


def list_measured(answer: Answer) -> list[Measured]:
    """All that is measured as the value of a channel; fluxes, sums and integrals have no place on its curve or map."""
    if answer.recovered is None:
        return []
    found = []
    channels = answer.problem.space.channels
    for condition in answer.problem.sensors:
        with torch.no_grad():
            off = answer.solution.residual(condition).to(torch.float64).cpu().numpy()  # (P, R)
        values = condition.values.detach().to(torch.float64).cpu().numpy()
        points = condition.points.detach().to(torch.float64).cpu().numpy()
        for k, row in enumerate(condition.operator.rows):
            name = measured_channel(row)
            if name in channels:
                found.append(Measured(condition.name, channels.index(name), points, values[:, k], off[:, k]))
    return found


def measured_channel(row: Row) -> str | None:
    """The channel whose bare value a row is; None if it is anything else."""
    if len(row) != 1:
        return None
    (term,) = row
    bare = term.coefficient == sp.S.One and not term.derivatives and term.place == HERE
    return term.channel if bare else None
