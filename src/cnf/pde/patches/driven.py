"""Driven corners: what nonlinear terms make, next to a corner, of the function that the data of its edges ask for.

Velocities that jump from one edge to the next are r^0 phi(theta), known from the data; (u . grad) u makes r^-1 of them,
and the field answers with r^1 psi(theta), which no polynomial follows either. In general B[r^0 phi] = r^m F(theta), and
with highest derivatives of second order the answer is r^(m + 2) psi(theta).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cnf.bases.corner_functions import CornerFunctions
from cnf.operators.forward import MultiIndex
from cnf.pde.domains.domain import Sample
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.question import Question
from cnf.pde.patches.sectors import Corner

NEAR = 1e-4  # of the domain: the distance at which terms are looked at, and half of it
CLEAN = 1e-3  # powers of the distance further from whole numbers are sums of several
SECOND = 2  # the order of the equations
DEGREES = (1, 2)  # of what is driven: others are bounded by none, or smooth enough


@dataclass(frozen=True)
class AtCorner:
    """One function of a corner as a state, with the weights 1."""

    functions: CornerFunctions

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        at, channels = self.functions.around(x, torch.ones_like(x[:, 0])), range(self.functions.channels)
        return {
            i: torch.cat([self.functions.columns(at, self.functions.derivative(i, c)) for c in channels], dim=1)
            for i in indices
        }


def driven_rows(
    question: Question, orders: Orders, corner: Corner, angles: np.ndarray, profile: np.ndarray
) -> tuple[int, np.ndarray] | None:
    """The degree m + 2 and -F at the angles (N,), (rows of the equations inside, N), for the function r^0 `profile`.

    `profile` (2, C, N) may have no logarithm. None if nothing is driven there, or not by one power of the distance.
    """
    if question.is_linear or len(corner.sectors) > 1 or np.abs(profile[1]).max() > CLEAN * np.abs(profile[0]).max():
        return None
    sector, centre = corner.sectors[0], (float(corner.centre[0]), float(corner.centre[1]))
    lower = orders.lower if any(orders.lower) else ()
    function = CornerFunctions(
        centre, sector.start, sector.end, np.zeros(1), profile[None] * [[[1.0]], [[0.0]]], np.zeros(1, dtype=int), lower
    )
    distance = NEAR * max(b - a for a, b in zip(question.domain.lower, question.domain.upper, strict=True))
    around = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    far, near = (
        _made_of(question, sector.area, function, corner.centre + r * around) for r in (distance, distance / 2)
    )
    size, smaller = (np.abs(made).max() for made in (far, near))
    if not (np.isfinite(far).all() and np.isfinite(near).all()) or size == 0 or smaller == 0:
        return None
    power = round(math.log2(size / smaller))
    apart = np.abs(far - near * 2.0**power).max()
    if apart > CLEAN * size or power + SECOND not in DEGREES:
        return None
    return power + SECOND, -far / distance**power


def _made_of(question: Question, area: int, function: CornerFunctions, points: np.ndarray) -> np.ndarray:
    """What the nonlinear terms of the equations inside make of a function at points (P, 2), (rows, P)."""
    sample = Sample(torch.from_numpy(points), None)
    with torch.no_grad():
        made = [question.at(k, sample).beyond(AtCorner(function))[0] for k in question.inside_of(area)]
    return torch.cat(made, dim=1).T.numpy()
