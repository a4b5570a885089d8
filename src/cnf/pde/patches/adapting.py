"""Adapting: solve, look between the points, cut the cells that are off, until the answer is good enough."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from cnf.bases.cells import Cells
from cnf.bases.corner_functions import CornerFunctions
from cnf.bases.piecewise import Piecewise
from cnf.constraints import Constraint
from cnf.errors import CnfWarning
from cnf.field import ConstrainedField
from cnf.pde.domains import Domain, Timed
from cnf.pde.domains.boundary import Curve
from cnf.pde.domains.domain import Sample
from cnf.pde.patches.building import Mesh, build_field, holds_on, orders_of, points_inside
from cnf.pde.patches.corners import corners_of, functions_at
from cnf.pde.patches.formulas import Formula, follow, known_formulas
from cnf.pde.patches.interfaces import stiffness_of
from cnf.pde.patches.jumps import breaks, cut_at, diffused_jumps
from cnf.pde.patches.layout import Counts, cut_together
from cnf.pde.patches.meeting import meets_curves, meets_domain
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.outline import curves_of
from cnf.pde.patches.question import Question
from cnf.pde.patches.shaped import first_cells
from cnf.pde.patches.solid import first_solid_cells, meets_surface, shapes_of
from cnf.solution import Solution

DEGREES = {1: 16, 2: 12, 3: 8, 4: 6}  # by dimension
DURING = {2: 4, 3: 3}  # in time, by the dimension of space: more slabs are cheaper there than more degrees
FINER = 2  # degrees that the second opinion has more
PER_CELL = {1: 8, 2: 16, 3: 24, 4: 32}  # points at which the equations are looked at between their own
MARKED = 0.03  # cells that are off by more than that share of the worst are cut
TAIL = 0.5  # a coordinate is cut if its last coefficients are that large beside those of the others
LOW = 2  # degrees along the others: products of high degrees say nothing about directions
MOST_CONDITIONS = 400_000
BEST = 1e-11  # without a target, what is good enough
SECONDS = 120.0  # without a target, what it may take
ROUNDS = 40
INNER = np.array([0.3, 0.7])  # where a curve is asked whether a condition holds on it
SMALLEST = 1e-9  # cells, of a domain that is no box
INEXACT = 2  # rounds more for a field that is good enough but misses a condition
SMALL_CHANNEL = 1e-3  # of the largest: smaller channels are measured by that
MANY = 20_000  # conditions from which on patience is short


@dataclass(frozen=True)
class Round:
    """One mesh and how the field on it did: `off` (patches,) is an amplitude relative to that of the field."""

    mesh: Mesh
    field: ConstrainedField
    solution: Solution
    off: np.ndarray
    seconds: float

    @property
    def worst(self) -> float:
        return float(self.off.max())

    @property
    def exact(self) -> bool:
        return self.solution.certificate.exact

    @property
    def channels(self) -> int:
        return len(self.field.basis.space.channels)


@dataclass(frozen=True)
class Adapted:
    """All rounds; `estimate` is the difference of round `best` to a field of higher degree on the same cells."""

    rounds: tuple[Round, ...]
    best: int
    estimate: float
    interrupted: bool

    @property
    def chosen(self) -> Round:
        return self.rounds[self.best]


def adapt(
    question: Question,
    target: float | None,
    probes: Tensor,
    report: Callable[[Round], object],
    missed: Callable[[Solution], float] = lambda solution: 0.0,
) -> Adapted:
    """Refine until the estimate is below the target, or nothing more is to be had.

    `probes` (P, D) compare fields; the estimate is never below what `missed` says that a field misses of its boundary.
    """
    started = time.perf_counter()
    orders = orders_of(question)
    domain = question.domain
    degree = degrees_on(domain)
    corners = corner_functions(question, orders)
    goal = BEST if target is None else target
    stiffness = stiffness_of(question)
    base = diffused_jumps(question, orders)
    solid = domain.dimension == 3 and orders.time is None and not domain._is_box
    corners_at = [c.centre for c in corners]
    cells = first_solid_cells(domain) if solid else first_cells(domain, corners_at, question.regions)
    cells = follow(
        cut_at(cells, breaks(question)) if domain._is_box else cells,
        [p - 2 for p in degree],
        asked_formulas(question, orders),
        max(0.1 * goal, 1e-9),
        question.seed,
        orders.time,
    )
    rounds: list[Round] = []
    estimates: dict[int, float] = {}  # by round
    interrupted = False
    try:
        while True:
            mesh = Mesh.of(cells, degree, domain, corners, base, question.regions, stiffness)
            rounds.append(_round(question, orders, mesh))
            report(rounds[-1])
            last = rounds[-1]
            stuck = _stuck(rounds, started, target)
            moved = field_difference(last.solution, rounds[-2].solution, probes) if len(rounds) > 1 else math.inf
            if min(last.worst, moved) <= goal or stuck or len(rounds) == 1:
                finer = _solved(build_field(question, orders, last.mesh.raised(finer_on(domain))))
                off = field_difference(last.solution, finer, probes)
                contradiction = contradicted(question, orders, last.mesh, last.solution)
                estimates[len(rounds) - 1] = max(off, missed(last.solution), contradiction)
                good = sum(estimate <= goal for estimate in estimates.values())
                if stuck or (good and (last.exact or good > INEXACT)):
                    break
            cells = refine(last, orders)
    except KeyboardInterrupt:
        if not rounds:
            raise
        interrupted = True
        if len(rounds) > 1:
            moved = field_difference(rounds[-1].solution, rounds[-2].solution, probes)
            estimates.setdefault(len(rounds) - 1, moved)
    best = min(
        estimates, key=lambda k: (not (rounds[k].exact and estimates[k] <= goal), estimates[k]), default=len(rounds) - 1
    )
    return Adapted(tuple(rounds), best, estimates.get(best, math.nan), interrupted)


def degrees_on(domain: Domain) -> tuple[int, ...]:
    """Along every coordinate."""
    found = [DEGREES[domain.dimension]] * domain.dimension
    if isinstance(domain, Timed):
        found[-1] = min(found[-1], DURING.get(domain.dimension - 1, found[-1]))
    return tuple(found)


def finer_on(domain: Domain) -> int:
    """Degrees that the second opinion has more: one where there are many functions, in the plane and time or beyond."""
    return 1 if isinstance(domain, Timed) and domain.dimension > 2 else FINER


def corner_functions(question: Question, orders: Orders) -> list[CornerFunctions]:
    """Of all corners of a planar domain, for equations of second order."""
    if question.domain.dimension != 2 or orders.time is not None or not orders.second:
        return []
    found = (functions_at(question, corner) for corner in corners_of(question.domain))
    return [functions for functions in found if functions is not None]


def asked_formulas(question: Question, orders: Orders) -> list[Formula]:
    """Of the equations inside, of those on the faces of the box or on the boundary, and of those on interfaces."""
    domain, regions = question.domain, question.regions
    found: list[Formula] = []
    for k in question.inside:
        area = question.places[k].region
        meets = partial(meets_domain, domain if regions is None or area is None else regions.part(area))
        found += known_formulas(question.constraints[k], meets=meets)
    if domain.dimension == 3 and orders.time is None and not domain._is_box:
        for place, condition in zip(question.places, question.constraints, strict=True):
            if place.kind != "interior":
                shapes = shapes_of(domain, place.shape if place.kind == "shape" else None)
                found += known_formulas(condition, meets=partial(meets_surface, shapes), sides_only=True)
        return found
    if not domain._is_box or regions is not None:
        for k, condition in enumerate(question.constraints):
            if orders.time is not None and orders.time in (question.places[k].fixed or {}):
                found += known_formulas(condition, orders.time, domain.lower[orders.time])
                continue
            own = [c for c in curves_of(domain) if question.holds(k, c, *c.at(c.start + c.measure * INNER))]
            found += known_formulas(condition, meets=partial(meets_curves, own), sides_only=True) if own else []
        return found + interface_formulas(question)
    for face in Cells(domain.lower, domain.upper).faces():
        for place, condition in zip(question.places, question.constraints, strict=True):
            if place.kind != "interior" and holds_on(place, face, orders):
                found += known_formulas(condition, face.axis, face.position)
    return found


def interface_formulas(question: Question) -> list[Formula]:
    """Of the conditions given on interfaces."""
    found: list[Formula] = []
    for number, face in enumerate(question.regions.interfaces if question.regions is not None else ()):
        curves = [piece for piece in face.pieces if isinstance(piece, Curve)]
        points, normals = (torch.from_numpy(a) for a in face.sample(4, 0))
        for jump in (j for j in question.jumps if number in j.interfaces):
            for condition in jump.at(number, points, normals):
                found += known_formulas(condition, meets=partial(meets_curves, curves), sides_only=True)
    return found


def _stuck(rounds: list[Round], started: float, target: float | None) -> bool:
    """Whether more rounds are of no use, or take too long."""
    last, spent = rounds[-1], time.perf_counter() - started
    growing = last.field.certificate.conditions * 2 > MOST_CONDITIONS or len(rounds) >= ROUNDS
    long = target is None and spent + 3 * last.seconds > SECONDS
    worst = [r.worst for r in rounds]
    conditions = last.field.certificate.conditions
    patience = 4 if conditions > MANY else 10
    flat = len(worst) > patience and min(worst[-patience:]) > 0.5 * min(worst[:-patience])
    return growing or long or flat


def _solved(field: ConstrainedField) -> Solution:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)
        found = field.eval().solution
    field.release()
    return found


def _round(question: Question, orders: Orders, mesh: Mesh) -> Round:
    started = time.perf_counter()
    field = build_field(question, orders, mesh)
    solution = _solved(field)
    off = between(question, orders, mesh, solution)
    return Round(mesh, field, solution, off, time.perf_counter() - started)


def between(question: Question, orders: Orders, mesh: Mesh, solution: Solution) -> np.ndarray:
    """What equations miss in every patch between their points, as an amplitude relative to the field's, (patches,)."""
    owner, points = points_between(mesh, question.seed + 1)
    half = (mesh.patches.upper - mesh.patches.lower)[owner] / 2
    for k, corner in enumerate(mesh.corners):  # where fields vary over the distance to the corner
        near = mesh.at_corner[owner] == k
        half[near] = np.minimum(half[near], np.linalg.norm(points[near] - corner.centre, axis=1)[:, None])
    x = torch.from_numpy(points)
    worst = np.zeros(mesh.patches.count)
    with torch.no_grad():
        amplitudes = channel_amplitudes(solution, x)
        for k in question.inside:
            own = np.flatnonzero(mesh.region[owner] == (question.places[k].region or 0))
            condition = question.at(k, Sample(x[torch.from_numpy(own)], None))
            shape = (condition.values.shape[0], condition.values.shape[1])
            off = (solution.applied(condition.expanded(), shape) - condition.values).abs()
            relative = (off / _cell_sizes(condition, shape, half[own], amplitudes)).amax(dim=1)
            np.maximum.at(worst, owner[own], relative.numpy())
    return worst


def channel_amplitudes(solution: Solution, x: Tensor) -> Tensor:
    """The largest values of the channels, (C,), none of them much smaller than the others."""
    found = solution(x).abs().amax(dim=0)
    return found.clamp_min(SMALL_CHANNEL * float(found.max()) or 1.0)


def contradicted(question: Question, orders: Orders, mesh: Mesh, solution: Solution) -> float:
    """How much of the field is due to what equations miss where they follow from the others and were left out.

    Next to nothing if the data agree with each other; if not (heat is produced, and all walls are closed), it is as if
    there were a source at that point.
    """
    worst = 0.0
    for k, (points, left_out) in zip(
        question.inside, points_inside(question, mesh, Counts(orders, mesh.degree)), strict=True
    ):
        if not left_out.any():
            continue
        x = torch.from_numpy(points[left_out])
        amplitudes = channel_amplitudes(solution, torch.from_numpy(points))
        half = np.tile(np.subtract(question.domain.upper, question.domain.lower) / 2, (len(x), 1))
        number = mesh.patches.locate(points)
        patch = number[left_out][0]
        share = ((mesh.patches.upper - mesh.patches.lower)[patch] / (2 * half[0])).prod() / (number == patch).sum()
        with torch.no_grad():
            condition = question.at(k, Sample(x, None))
            shape = (condition.values.shape[0], condition.values.shape[1])
            off = (solution.applied(condition.expanded(), shape) - condition.values).abs()
            worst = max(worst, share * float((off / _cell_sizes(condition, shape, half, amplitudes)).max()))
    return worst


def points_between(mesh: Mesh, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random points of every patch: its number (P,), and the points (P, D)."""
    patches, per_patch = mesh.patches, PER_CELL[mesh.cells.dimension]
    unit = np.random.default_rng(seed).uniform(-1, 1, (patches.count, per_patch, patches.dimension))
    half = (patches.upper - patches.lower) / 2
    points = (((patches.upper + patches.lower) / 2)[:, None] + half[:, None] * unit).reshape(-1, patches.dimension)
    owner = np.repeat(np.arange(patches.count), per_patch)
    if mesh.shaped is None:
        return owner, points
    kept = (mesh.shaped.cover.locate(points) == owner) & mesh.shaped.inside(points)
    return owner[kept], points[kept]


def _cell_sizes(condition: Constraint, shape: tuple[int, int], half: np.ndarray, amplitudes: Tensor) -> Tensor:
    """What the operator makes of these amplitudes (C,) if they vary over half a patch (P, D), (P, R)."""
    total = torch.zeros(shape, dtype=torch.float64)
    lengths = torch.from_numpy(half)
    for probe in condition.expanded():
        for r, request in zip(probe.rows, probe.requests, strict=True):
            for index, weight in request.weights.items():
                size = amplitudes[request.channel] * weight.abs().expand(shape[0])
                for k, order in enumerate(index):
                    size = size / lengths[:, k] ** order
                total[:, r] = torch.hypot(total[:, r], size)
    return total


def refine(last: Round, orders: Orders) -> Cells:
    """Cells that are off, cut across the coordinates that their coefficients say.

    A cell beside a coarser one takes over what that one gets wrong, however small it is: then the coarser one is cut.
    Across time, all cells of a slab are cut together.
    """
    cells, off, time = last.mesh.cells, last.off, orders.time
    patches = last.mesh.patches_of_cells
    in_cell = np.where(patches >= 0, off[patches], -1.0)  # (cells, regions)
    patch = patches[np.arange(cells.count), in_cell.argmax(axis=1)]  # the worst of every cell
    marked = in_cell.max(axis=1) > MARKED * off.max()  # (cells,)
    tails = coefficient_tails(last)[patch]  # (cells, D)
    cut = marked[:, None] & (tails >= TAIL * tails.max(axis=1, keepdims=True))
    cut = _coarser_first(last.mesh, marked, cut, time)
    at_corner = cut.any(axis=1) & (patch >= 0) & (last.mesh.at_corner[patch] >= 0)
    width = cells.upper - cells.lower
    cut[at_corner] = (width > 0.75 * width.max(axis=1, keepdims=True))[at_corner]  # r^lambda has no direction
    if last.mesh.shaped is not None:
        cut &= width > SMALLEST * np.subtract(cells.upper.max(axis=0), cells.lower.min(axis=0)).max()
    return cut_together(cells, cut, time)


def _coarser_first(mesh: Mesh, marked: np.ndarray, cut: np.ndarray, time: int | None) -> np.ndarray:
    """Marked cells with a coarser neighbour are left alone, and the neighbour is cut along their common face."""
    width = mesh.cells.upper - mesh.cells.lower
    found, used = cut.copy(), mesh.patches_of_cells.max(axis=1) >= 0
    for face in mesh.faces:
        if face.second < 0 or face.axis == time or not (used[face.first] and used[face.second]):
            continue
        for cell, other in ((face.first, face.second), (face.second, face.first)):
            wider = width[other] > 1.5 * width[cell]
            wider[face.axis] = False
            if marked[cell] and wider.any():
                found[cell] = False
                found[other] |= wider
    return found


def coefficient_tails(last: Round) -> np.ndarray:
    """The largest of the last two coefficients along every coordinate, low in the others, (patches, D)."""
    weights = np.abs(last.solution.weights.detach().numpy())
    weights = weights.reshape(last.mesh.patches.count, -1, last.channels).max(axis=2)
    assert isinstance(last.field.basis, Piecewise)
    exponents = last.field.basis.snapshot().exponents  # (n, D)
    weights = weights[:, : len(exponents)]
    found = []
    for k, p in enumerate(last.mesh.degree):
        low = np.delete(exponents, k, axis=1).max(axis=1, initial=0) <= LOW
        found.append(weights[:, (exponents[:, k] >= p - 1) & low].max(axis=1))
    return np.stack(found, axis=1) + 1e-300


def field_difference(a: Solution, b: Solution, probes: Tensor) -> float:
    """The largest relative difference of a channel over the probes."""
    with torch.no_grad():
        left, right = a(probes), b(probes)
    sizes = right.square().mean(dim=0).sqrt()
    off = (left - right).square().mean(dim=0).sqrt()
    found = float((off / sizes.clamp_min(SMALL_CHANNEL * float(sizes.max()) or 1.0)).max())
    return found if math.isfinite(found) else math.inf
