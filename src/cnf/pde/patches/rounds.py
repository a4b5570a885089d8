"""Rounds: a field on one mesh, and how far it is off: between the points of its equations, and from another field."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cnf.certificate import Certificate
from cnf.constraints import Constraint
from cnf.errors import CnfWarning
from cnf.field import ConstrainedField
from cnf.newton import residual
from cnf.pde.domains.domain import Sample
from cnf.pde.patches.building import build_field, points_inside
from cnf.pde.patches.layout import Counts
from cnf.pde.patches.mesh import Mesh
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.probes import Probes
from cnf.pde.patches.question import Question
from cnf.pde.patches.slabs import Slabs
from cnf.solution import Solution
from cnf.systems.tied_account import TiedAccount

DRAWN = 4096  # points at which nonlinear equations are looked at all over the domain
UNMET = 1e-3  # the mean share of their terms from which on equations are not met
FAINT = 0.01  # of the mean: terms that are smaller count as that
PLAINLY = 0.1  # of its terms: an equation that is missed by more is not met there at all
PER_CELL = {1: 8, 2: 16, 3: 24, 4: 32}  # points at which the equations are looked at between their own
SMALL_CHANNEL = 1e-3  # of the largest: smaller channels are measured by that


@dataclass(frozen=True)
class Round:
    """One mesh and how the field on it did: `off` (patches,) is an amplitude relative to that of the field."""

    mesh: Mesh
    field: ConstrainedField
    solution: Solution
    off: np.ndarray
    seconds: float
    unmet: float = 0.0  # the mean share of their terms by which nonlinear equations are missed all over the domain

    @property
    def worst(self) -> float:
        return float(self.off.max())

    @property
    def shares(self) -> np.ndarray:
        """What patches count, (patches,): alike, and during time on planar shapes by the time and space they fill.

        Short slabs of narrow cells where data contradict each other are off for good, and that hardly matters later.
        """
        if not isinstance(self.mesh.shaped, Slabs):
            return np.ones(self.mesh.patches.count)
        volume = (self.mesh.patches.upper - self.mesh.patches.lower).prod(axis=1)
        return np.sqrt(volume / volume.max())

    @property
    def missed(self) -> float:
        """The worst patch by what it counts."""
        return float((self.off * self.shares).max())

    @property
    def converged(self) -> bool:
        """Whether the iteration ended with a solution, where equations are not linear."""
        return self.solution.convergence is None or not self.solution.convergence.stopped

    @property
    def certificate(self) -> Certificate:
        """Measured when it is first asked for, without a word: who keeps the field says what it misses."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CnfWarning)
            return self.solution.certificate

    @property
    def exact(self) -> bool:
        return self.certificate.exact

    @property
    def violation(self) -> float:
        """What a field misses of its conditions if it is more than they ask for: it blew up."""
        return self.certificate.worst if self.certificate.worst > 1 else 0.0

    @property
    def conditions(self) -> int:
        """How many there are, those of ties included: known without a measurement."""
        return sum(c.rows for c in self.solution.constraints) + self.field.basis.brought_conditions

    @property
    def at_once(self) -> float:
        """Of these conditions, those of the largest slab where slabs are solved one after the other; else all."""
        account = self.solution.expansion.account
        return self.conditions * (account.at_once if isinstance(account, TiedAccount) else 1.0)

    @property
    def channels(self) -> int:
        return len(self.field.basis.space.channels)


@dataclass(frozen=True)
class Followed:
    """A window in which a problem was followed: how many meshes it took, and Newton's steps on the last of them."""

    start: float
    end: float
    meshes: int
    steps: int


@dataclass(frozen=True)
class Adapted:
    """All rounds; `estimate` says how far the field of round `best` may be off, by fields of other degrees."""

    rounds: tuple[Round, ...]
    best: int
    estimate: float
    interrupted: bool
    probes: Probes  # at which fields were compared
    second: Solution | None = None  # the field of higher degree that the one of round `best` was compared with
    windows: tuple[Followed, ...] = ()  # in which a nonlinear problem was followed before

    @property
    def chosen(self) -> Round:
        return self.rounds[self.best]


def solved(field: ConstrainedField) -> Solution:
    """The solution of a field, not measured yet: fields that only serve as a second opinion never are.

    Factors are let go, they are large.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)
        found = field.eval().settle(measure=False)
    field.release()
    return found


def clocks() -> tuple[float, float]:
    """Seconds of the wall and of the processor."""
    return time.perf_counter(), time.process_time()


def worked_since(started: tuple[float, float]) -> float:
    """Seconds of work: of the processor where it is busy with others, of the wall where several threads share it."""
    return min(now - before for now, before in zip(clocks(), started, strict=True))


def solve_round(question: Question, orders: Orders, mesh: Mesh) -> Round:
    """The field on this mesh, and how far it is off."""
    started = clocks()
    field = build_field(question, orders, mesh)
    solution = solved(field)
    off = between(question, mesh, solution)
    owner, share = unmet_shares(question, mesh, solution)
    unmet = float(share.mean()) if len(share) else 0.0
    if unmet > UNMET:  # else a few points would say where cells are cut
        np.maximum.at(off, owner[share > PLAINLY], share[share > PLAINLY])
    return Round(mesh, field, solution, off, worked_since(started), unmet)


def unmet_shares(question: Question, mesh: Mesh, solution: Solution) -> tuple[np.ndarray, np.ndarray]:
    """By what share of their terms nonlinear equations are missed at points drawn evenly, and their patches, (P,) each.

    What a nonlinear term does for few values of the field may be at none of the points that fields of all degrees are
    asked at; these agree, and are wrong together. Sizes by the linearisation do not show it: it is steep there.
    Nothing where corners are singular: terms are infinite there, and their mean says nothing of the rest.
    """
    if question.is_linear or mesh.corners or not solution.convergence or solution.convergence.stopped:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    points = question.domain.fill(DRAWN, "random", question.seed + 3)
    owner = mesh.patches.locate(points.numpy())
    share = np.zeros(len(points))
    with torch.no_grad(), np.errstate(all="ignore"):
        for k in question.inside:
            own = np.flatnonzero(mesh.region[owner] == (question.places[k].region or 0))
            off, size = residual(solution, question.at(k, Sample(points[torch.from_numpy(own)], None)))
            least = FAINT * size.mean(dim=0).clamp_min(1e-300)  # where next to nothing is balanced, nothing is missed
            found = (off.abs() / size.maximum(least)).nan_to_num(nan=1.0).amax(dim=1).numpy()
            share[own] = np.maximum(share[own], np.minimum(found, 1.0))
    return owner, share


def between(question: Question, mesh: Mesh, solution: Solution) -> np.ndarray:
    """What equations miss in every patch between their points, as an amplitude relative to the field's, (patches,)."""
    owner, points = points_between(mesh, question.seed + 1)
    half = (mesh.patches.upper - mesh.patches.lower)[owner] / 2
    for k, corner in enumerate(mesh.corners):  # where fields vary over the distance to the corner
        near = mesh.at_corner[owner] == k
        half[near] = np.minimum(half[near], corner.distances(points[near])[:, None])
    x = torch.from_numpy(points)
    worst = np.zeros(mesh.patches.count)
    with torch.no_grad():
        amplitudes = channel_amplitudes(solution, x)
        for k in question.inside:
            own = np.flatnonzero(mesh.region[owner] == (question.places[k].region or 0))
            condition = question.at(k, Sample(x[torch.from_numpy(own)], None))
            off, condition = solution.residual(condition).abs(), condition.around(solution)
            shape = (condition.values.shape[0], condition.values.shape[1])
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
            off, condition = solution.residual(condition).abs(), condition.around(solution)
            shape = (condition.values.shape[0], condition.values.shape[1])
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


def field_difference(a: Solution, b: Solution, probes: Probes, asked: int | None = None) -> float:
    """The largest relative difference of a channel over the probes, of the first `asked` channels."""
    with torch.no_grad():
        left, right = (solution(probes.points)[:, :asked] for solution in (a, b))
    found = float((probes.size(left - right) / channel_sizes(left, right, probes)).max())
    return found if math.isfinite(found) else math.inf


def channel_sizes(a: Tensor, b: Tensor, probes: Probes) -> Tensor:
    """Of the channels of two fields at the probes (P, C), (C,): the smaller ones, for one field may have blown up.

    None is much smaller than the others.
    """
    sizes = probes.size(a).minimum(probes.size(b))
    return sizes.clamp_min(SMALL_CHANNEL * float(sizes.max()) or 1.0)
