"""Opinions: a second field that differs in whatever may be wrong with the first, and what their difference says."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch

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
BETWEEN = 1  # and a third field, where there is one
FALLING = 0.1  # of what is off: a field of higher degree that leaves more is at the level of rounding
WEAKER, STRONGER = 1 / 3, 3.0  # strength of its guides, and of those of a field that is hardly held by its weights
HARDLY = 1e-4  # of what conditions make of other fields
ROUNDED = 1e-8  # residuals below may be rounding alone (seen: 3e-11, where 1e-5 did not fall with the degree)
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
        return off * slowly(found, finer, orders.time is None)
    domain = question.domain
    held = least_restrained(question.constraints, domain.lower, domain.upper)
    loose = found.worst / held if held < HARDLY else 0.0  # a level that next to nothing holds is moved by what
    off = max(off, loose)  # equations miss between the points
    if off > goal or finer.mesh.cells is not found.mesh.cells:
        return off
    falls = finer.worst / found.worst if found.worst > 0 else math.inf
    said = [loose]
    if falls <= 1:
        coarser = coarser_of(found, rounds, question, orders)
        said.append(farther(found.solution, finer.solution, coarser, probes, question.asked))
    if falls > FALLING:
        said.append(unsteady(found, question, orders, probes))
    return max(said)


def unsteady(found: Round, question: Question, orders: Orders, probes: Probes) -> float:
    """How far a field is off where a higher degree does little better, or worse, by its own equations.

    What is left then is rounding, and how much weights themselves count beside guides. All of it may go into one global
    shape, by an amount that two fields share by chance: two others, of another degree and with guides of another
    strength, say how much it changes. The field of higher degree may have rounded far worse, and is left out.
    """
    others = found.mesh.raised(BETWEEN), replace(found.mesh, strength=STRONGER * found.mesh.strength)
    fields = (solved(build_field(question, orders, mesh)) for mesh in others)
    return max(field_difference(found.solution, field, probes, question.asked) for field in fields)


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
    with torch.no_grad():
        fields = [solution(probes.points)[:, :asked] for solution in (found, finer, coarser)]  # (P, C) each
    sizes = channel_sizes(fields[0], fields[1], probes)
    last, before = (fields[0] - fields[1]) / sizes, (fields[2] - fields[0]) / sizes
    known = probes.mean(before.square())
    rate = torch.where(known > 0, probes.mean(before * last) / known, 0.0)  # (C,)
    rate = torch.where(rate < 1, rate.clamp(0.0, SLOWEST), 0.0)  # differences that grow are no series
    worst = float((probes.size(last) / (1 - rate)).max())
    return worst if math.isfinite(worst) else math.inf


def slowly(found: Round, finer: Round, steady: bool) -> float:
    """How much more than its difference to a finer field one may be off, by what both miss of their equations.

    A finer field that misses more is no nearer to the solution, unless what is left is rounding, or belongs to a start
    that contradicts the boundary and is forgotten.
    """
    grows = finer.missed >= found.missed
    falls = 0.0 if grows and (found.missed < ROUNDED or not steady) else finer.missed / found.missed
    return 1 / (1 - min(falls, SLOWEST))
