"""Opinions: a second field that differs in whatever may be wrong with the first, and what their difference says."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from cnf.bases.cells import Cells
from cnf.pde.domains import Domain, Timed
from cnf.pde.patches.building import build_field
from cnf.pde.patches.following import least_restrained
from cnf.pde.patches.layout import cut_together
from cnf.pde.patches.mesh import Mesh
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.probes import Probes
from cnf.pde.patches.question import Question
from cnf.pde.patches.refining import SMALLEST
from cnf.pde.patches.rounds import Round, channel_sizes, field_difference, solved
from cnf.pde.patches.shaped import Shaped
from cnf.solution import Solution

FINER = 2  # degrees that the second opinion has more
BETWEEN = 1  # and the third, where there is one
WEAKER = 1 / 3  # strength of its guides
HARDLY = 1e-4  # of what conditions make of other fields
SLOWEST = 0.8  # what is left from one difference to the next, at most


def finer_on(domain: Domain) -> int:
    """Degrees that the second opinion has more: one where there are many functions, in the plane and time or beyond."""
    return 1 if isinstance(domain, Timed) and domain.dimension > 2 else FINER


def second_mesh(mesh: Mesh, domain: Domain, mesh_of: Callable[[Cells, Sequence[int]], Mesh]) -> Mesh:
    """Of higher degree; where corners are not smooth, with other cells there, and with guides of another strength.

    Elsewhere it may become the next field itself, and is made like the first.
    """
    cells, found = cut_at_corners(mesh), mesh.raised(finer_on(domain))
    return found if cells is None else replace(mesh_of(cells, found.degree), strength=WEAKER)


def cut_at_corners(mesh: Mesh) -> Cells | None:
    """Cells cut in four at corners where fields are not smooth; None if there are none.

    What is wrong there is the same, or nearly, for all degrees: only smaller cells show it.
    """
    singular = [k for k, corner in enumerate(mesh.corners) if corner.exponents.real.min() <= 1]
    patches = np.flatnonzero(np.isin(mesh.at_corner, singular))
    chosen = np.flatnonzero(np.isin(mesh.patches_of_cells, patches).any(axis=1))
    width = mesh.cells.upper - mesh.cells.lower
    chosen = chosen[width[chosen].min(axis=1) > SMALLEST * width.max()]
    if not len(chosen):
        return None
    cut = np.zeros(width.shape, dtype=bool)
    cut[chosen] = True
    return cut_together(mesh.cells, cut, None)


def difference_to(
    finer: Round,
    found: Round,
    rounds: Sequence[Round],
    question: Question,
    orders: Orders,
    probes: Probes,
    goal: float,
) -> float:
    """How far a field is off by a second opinion, as a part of its size over the probes.

    `rounds`: those before, one of which may serve as the coarser field.
    """
    off = field_difference(found.solution, finer.solution, probes, question.asked)
    if not isinstance(found.mesh.shaped, Shaped):
        return off * slowly(found, finer)
    domain = question.domain
    held = least_restrained(question.constraints, domain.lower, domain.upper)
    if held < HARDLY:  # a level that next to nothing holds: what equations miss between the points moves it
        off = max(off, found.worst / held)
    if off > goal or finer.mesh.cells is not found.mesh.cells:
        return off
    if finer.worst > found.worst:
        third = solved(build_field(question, orders, found.mesh.raised(BETWEEN)))
        return rounded(found.solution, finer.solution, third, probes, question.asked)
    coarser = coarser_of(found, rounds, question, orders)
    return farther(found.solution, finer.solution, coarser, probes, question.asked)


def coarser_of(found: Round, rounds: Sequence[Round], question: Question, orders: Orders) -> Solution:
    """The field of a lower degree on the same cells, which may be that of a round before the degree was raised."""
    mesh = found.mesh.raised(-FINER)
    known = (r.solution for r in rounds if r.mesh.cells is mesh.cells and r.mesh.degree == mesh.degree)
    return next(known, None) or solved(build_field(question, orders, mesh))


def farther(found: Solution, finer: Solution, coarser: Solution, probes: Probes, asked: int | None) -> float:
    """How far a field may be off, from the difference to a finer one and that of a coarser one to it.

    Where degrees converge fast, that is the difference to the finer field. At corners of curves they do not, and what
    all of them miss goes the same way: the difference is the first of a series, of which that to the coarser field says
    how slowly it falls. Differences of fields that are rounded go any way.
    """
    last, gone = differences(found, finer, coarser, probes, asked)
    before = -gone  # what was left before
    known = probes.mean(before.square())
    rate = torch.where(known > 0, probes.mean(before * last) / known, 0.0)  # (C,)
    rate = torch.where(rate < 1, rate.clamp(0.0, SLOWEST), 0.0)  # differences that grow are no series
    return finite(probes.size(last) / (1 - rate))


def rounded(found: Solution, finer: Solution, third: Solution, probes: Probes, asked: int | None) -> float:
    """How far a field is off where one of higher degree does worse by its own equations: what was rounded has grown.

    Then the difference is mostly the other field's own. Of three fields whose errors have nothing to do with each other
    <a - b, a - c> is |error of a|^2; as they may, half of the smaller difference is a bound from below.
    """
    last, other = differences(found, finer, third, probes, asked)
    common = probes.mean(last * other).clamp_min(0.0).sqrt()
    return finite(torch.maximum(common, probes.size(last).minimum(probes.size(other)) / 2))


def differences(
    found: Solution, finer: Solution, other: Solution, probes: Probes, asked: int | None
) -> tuple[Tensor, Tensor]:
    """Of a field to two others, relative to its size, (P, C) each."""
    with torch.no_grad():
        fields = [solution(probes.points)[:, :asked] for solution in (found, finer, other)]  # (P, C) each
    sizes = channel_sizes(fields[0], fields[1], probes)
    return (fields[0] - fields[1]) / sizes, (fields[0] - fields[2]) / sizes


def finite(off: Tensor) -> float:
    """The worst channel (C,); what is no number is infinitely far off."""
    worst = float(off.max())
    return worst if math.isfinite(worst) else math.inf


def slowly(found: Round, finer: Round) -> float:
    """How much more than its difference to a finer field one may be off, by what both miss of their equations."""
    falls = finer.worst / found.worst if 0 < finer.worst < found.worst else 0.0
    return 1 / (1 - min(falls, SLOWEST))
