"""Adapting: solve, look between the points, cut the cells that are off, until the answer is good enough."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cnf.bases.cells import Cells
from cnf.bases.piecewise import Piecewise
from cnf.errors import CnfWarning
from cnf.field import ConstrainedField
from cnf.pde.domains.domain import Sample
from cnf.pde.patches.building import Mesh, build_field, holds_on, orders_of
from cnf.pde.patches.formulas import Formula, follow, known_formulas
from cnf.pde.patches.layout import cut_together
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.question import Question
from cnf.solution import Solution

DEGREES = {1: 16, 2: 12, 3: 8, 4: 6}  # by dimension
FINER = 2  # degrees that the second opinion has more
PER_CELL = {1: 8, 2: 16, 3: 24, 4: 32}  # points at which the equations are looked at between their own
MARKED = 0.03  # cells that are off by more than that share of the worst are cut
TAIL = 0.5  # a coordinate is cut if its last coefficients are that large beside those of the others
LOW = 2  # degrees along the others: products of high degrees say nothing about directions
MOST_CONDITIONS = 400_000
BEST = 1e-11  # without a target, what is good enough
SECONDS = 120.0  # without a target, what it may take
ROUNDS = 40
MANY = 20_000  # conditions from which on patience is short


@dataclass(frozen=True)
class Round:
    """One mesh and how the field on it did: `off` (cells,) is an amplitude relative to that of the field."""

    mesh: Mesh
    field: ConstrainedField
    solution: Solution
    off: np.ndarray
    seconds: float

    @property
    def worst(self) -> float:
        return float(self.off.max())

    @property
    def channels(self) -> int:
        return len(self.field.basis.space.channels)


@dataclass(frozen=True)
class Adapted:
    """All rounds, and the difference of the last one to a field of higher degree on the same cells."""

    rounds: tuple[Round, ...]
    estimate: float
    interrupted: bool

    @property
    def last(self) -> Round:
        return self.rounds[-1]


def adapt(question: Question, target: float | None, probes: Tensor, report: Callable[[Round], object]) -> Adapted:
    """Refine until the estimate is below the target, or nothing more is to be had; `probes` (P, D) compare fields."""
    started = time.perf_counter()
    orders = orders_of(question)
    domain = question.domain
    degree = (DEGREES[domain.dimension],) * domain.dimension
    goal = BEST if target is None else target
    cells = Cells(domain.lower, domain.upper)
    cells = follow(
        cells,
        [p - 2 for p in degree],
        asked_formulas(question, orders),
        max(0.1 * goal, 1e-9),
        question.seed,
        orders.time,
    )
    rounds: list[Round] = []
    finer, estimate, interrupted = None, math.inf, False
    try:
        while True:
            rounds.append(_round(question, orders, Mesh.of(cells, degree)))
            report(rounds[-1])
            last = rounds[-1]
            stuck = _stuck(rounds, started, target)
            moved = field_difference(last.solution, rounds[-2].solution, probes) if len(rounds) > 1 else math.inf
            if min(last.worst, moved) <= goal or stuck:
                finer = _solved(build_field(question, orders, Mesh.of(cells, [p + FINER for p in degree])))
                estimate = field_difference(last.solution, finer, probes)
                if estimate <= goal or stuck:
                    break
            cells = refine(last, orders)
    except KeyboardInterrupt:
        if not rounds:
            raise
        interrupted, finer = True, None
    if finer is None:
        estimate = field_difference(rounds[-1].solution, rounds[-2].solution, probes) if len(rounds) > 1 else math.nan
    return Adapted(tuple(rounds), estimate, interrupted)


def asked_formulas(question: Question, orders: Orders) -> list[Formula]:
    """Of the equations inside, and of those on the faces of the box."""
    found = [formula for equation in orders.equations for formula in known_formulas(equation)]
    for face in Cells(question.domain.lower, question.domain.upper).faces():
        for place, condition in zip(question.places, question.constraints, strict=True):
            if place.kind != "interior" and holds_on(place, face, orders):
                found += known_formulas(condition, face.axis, face.position)
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
        return field.eval().solution


def _round(question: Question, orders: Orders, mesh: Mesh) -> Round:
    started = time.perf_counter()
    field = build_field(question, orders, mesh)
    solution = _solved(field)
    off = between(question, orders, mesh, solution)
    return Round(mesh, field, solution, off, time.perf_counter() - started)


def between(question: Question, orders: Orders, mesh: Mesh, solution: Solution) -> np.ndarray:
    """What the equations miss in every cell between their points, as an amplitude relative to the field's, (cells,)."""
    cells, dimension = mesh.cells, mesh.cells.dimension
    rng = np.random.default_rng(question.seed + 1)
    unit = rng.uniform(-1, 1, (cells.count, PER_CELL[dimension], dimension))
    half = (cells.upper - cells.lower) / 2
    points = ((cells.upper + cells.lower) / 2)[:, None] + half[:, None] * unit
    x = torch.from_numpy(points.reshape(-1, dimension))
    with torch.no_grad():
        amplitude = float(solution(x).abs().max()) or 1.0
        worst = np.zeros(cells.count)
        for k in question.inside:
            condition = question.at(k, Sample(x, None))
            shape = (condition.values.shape[0], condition.values.shape[1])
            off = (solution.applied(condition.expanded(), shape) - condition.values).abs()
            sizes = _cell_sizes(condition, shape, half, PER_CELL[dimension])
            relative = (off / sizes).amax(dim=1).reshape(cells.count, -1).amax(dim=1)
            worst = np.maximum(worst, relative.numpy() / amplitude)
    return worst


def _cell_sizes(condition, shape: tuple[int, int], half: np.ndarray, per_cell: int) -> Tensor:
    """What the operator makes of an amplitude of 1 that varies over half a cell, (P, R)."""
    total = torch.zeros(shape, dtype=torch.float64)
    lengths = torch.from_numpy(np.repeat(half, per_cell, axis=0))  # (P, D)
    for probe in condition.expanded():
        for r, request in zip(probe.rows, probe.requests, strict=True):
            for index, weight in request.weights.items():
                size = weight.abs().expand(shape[0]).clone()
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
    marked = off > MARKED * off.max()
    tails = coefficient_tails(last)  # (cells, D)
    cut = marked[:, None] & (tails >= TAIL * tails.max(axis=1, keepdims=True))
    cut = _coarser_first(last.mesh, marked, cut, time)
    return cut_together(cells, cut, time)


def _coarser_first(mesh: Mesh, marked: np.ndarray, cut: np.ndarray, time: int | None) -> np.ndarray:
    """Marked cells with a coarser neighbour are left alone, and the neighbour is cut along their common face."""
    width = mesh.cells.upper - mesh.cells.lower
    found = cut.copy()
    for face in mesh.faces:
        if face.second < 0 or face.axis == time:
            continue
        for cell, other in ((face.first, face.second), (face.second, face.first)):
            wider = width[other] > 1.5 * width[cell]
            wider[face.axis] = False
            if marked[cell] and wider.any():
                found[cell] = False
                found[other] |= wider
    return found


def coefficient_tails(last: Round) -> np.ndarray:
    """The largest of the last two coefficients along every coordinate, low in the others, (cells, D)."""
    weights = np.abs(last.solution.weights.detach().numpy())
    weights = weights.reshape(last.mesh.cells.count, -1, last.channels).max(axis=2)
    assert isinstance(last.field.basis, Piecewise)
    exponents = last.field.basis.snapshot().exponents  # (n, D)
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
    found = float((off / sizes.clamp_min(1e-3 * float(sizes.max()) or 1.0)).max())
    return found if math.isfinite(found) else math.inf
