"""Climbing: fields in a curved solid, one degree after the other on the same cells, and smaller cells where that ends.

In space a degree more costs two to three times as much, and all lower ones together cost half of the last one. So
every field comes with those below it, and how they approach it says how far it is off: a field of higher degree, as
elsewhere, would cost several times the one that it is to judge.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch

from cnf.bases.cells import Cells
from cnf.errors import ProblemError
from cnf.memory import memory_there_is
from cnf.pde.patches.mesh import Mesh
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.probes import Probes
from cnf.pde.patches.question import ROUND_BEFORE, Question
from cnf.pde.patches.rounds import Adapted, Round, clocks, contradicted, field_difference, solve_round, worked_since
from cnf.pde.patches.sizing import memory_needed
from cnf.pde.patches.solid import Solid
from cnf.solution import Solution
from cnf.solvers.stages import MOST_STAGES

LOWEST, HIGHEST = 3, 10  # degrees
HIGHEST_DURING = 1 + MOST_STAGES  # the same beside time, where that in time is one less
OPINIONS = 3  # fields on the same cells that an estimate takes
STEEPEST, SLOWEST = 0.1, 0.8  # of the difference before: what the next one is taken to be, at least and at most
DOUBT = 3.0  # times what differences that shrink evenly add up to
WORTH = 0.4  # of the difference before: degrees that leave no more than that are worth more than smaller cells
INEXACT = 2  # fields more if one is good enough but misses a condition
PATIENCE = 2  # meshes that are no better
LONGER = 3.0  # times as long: the next degree
SCOUTS = 2  # fields of the lowest degree that tell guides across interfaces how much the field varies on either side
GIGA = 1e9


@dataclass
class Climb:
    """What is asked, and the rounds so far; `mesh_on` makes a mesh of cells and a degree.

    `cut` makes smaller cells where a field is off which differs so much from the one before, relative to its size.
    """

    question: Question
    orders: Orders
    mesh_on: Callable[[Cells, int], Mesh]
    cut: Callable[[Round, float], Cells]
    goal: float
    probes: Probes
    missed: Callable[[Solution, Probes], float]
    rounds: list[Round] = field(default_factory=list)
    estimates: dict[int, float] = field(default_factory=dict)  # by round
    interrupted: bool = False

    def run(self, cells: Cells, report: Callable[[Round], object], most: int, seconds: float = math.inf) -> Adapted:
        """Degrees from the lowest on, on `cells` and on smaller ones, until the estimate is good enough.

        At `most` so many meshes, a single one only until there is an estimate, 0 for a single field; and no field that
        is likely to end after so many `seconds`. Ends with the best so far where the next field would take more memory
        than there is; if there is none yet, that is an error.
        """
        mesh: Mesh | None = self.mesh_on(cells, LOWEST)
        assert mesh is not None
        self.refuse_if_too_large(mesh)
        started, end_of_mesh = clocks(), [math.inf]  # the estimate that every mesh ended with
        try:
            mesh = self._scouted(mesh)
            while mesh is not None:
                found = solve_round(self.question, self.orders, mesh)
                self.rounds.append(found)
                report(found)
                self.question = self.question.after(found.solution, ROUND_BEFORE)
                estimate, ratio = self._estimate()
                good = sum(known <= self.goal for known in self.estimates.values())
                if (good and (found.exact or good > INEXACT)) or most < 1 or (most == 1 and self.estimates):
                    break
                if worked_since(started) + LONGER * found.seconds > seconds:
                    break
                mesh = self._higher(ratio)
                if mesh is None and len(end_of_mesh) <= most:
                    end_of_mesh.append(estimate)
                    mesh = None if stalled(end_of_mesh) or len(end_of_mesh) > most else self._smaller()
                mesh = None if mesh is None else self._informed(mesh, found)
        except KeyboardInterrupt:
            if not self.rounds:
                raise
            self.interrupted = True
        return self._adapted()

    def can_be_judged(self, cells: Cells) -> bool:
        """Whether there is memory for as many degrees on these cells as an estimate takes."""
        return self._fits(self.mesh_on(cells, LOWEST + OPINIONS - 1))

    def _scouted(self, mesh: Mesh) -> Mesh:
        """The first mesh, told by fields on it how much they vary in its regions if guides have to know."""
        across = isinstance(mesh.shaped, Solid) and len(mesh.shaped.shapes) > 1
        for _ in range(SCOUTS if across else 0):
            mesh = self._informed(mesh, solve_round(self.question, self.orders, mesh))
        return mesh

    def _informed(self, mesh: Mesh, found: Round) -> Mesh:
        """A mesh with how much the field of a round varies in every region."""
        if self.question.regions is None:
            return mesh
        probes = self._probes_on(found)
        region = found.mesh.region[found.mesh.patches.locate(probes.points.numpy())]
        with torch.no_grad():
            values = found.solution(probes.points)
        amplitudes = []
        for k in range(self.question.areas):
            own = torch.from_numpy(region == k)
            shares = probes.shares[own, None] / probes.shares[own].sum()
            off = values[own] - (shares * values[own]).sum(dim=0)
            amplitudes.append(float((shares * off.square()).sum().sqrt()))
        return replace(mesh, amplitudes=tuple(amplitudes))

    def _higher(self, ratio: float) -> Mesh | None:
        """The same cells with one degree more, if that is worth it and can be had."""
        last = self.rounds[-1].mesh
        highest = HIGHEST if self.orders.time is None else HIGHEST_DURING
        if (self._climbed() >= OPINIONS and ratio > WORTH) or max(last.degree) >= highest:
            return None
        higher = last.raised(1)
        return higher if self._fits(higher) else None

    def _smaller(self) -> Mesh | None:
        """Smaller cells where the last field is off, with a lower degree, if the same one can be had later."""
        last = self.rounds[-1]
        degree = max(last.mesh.degree)
        off = self._apart(self.rounds[-2], last)  # a mesh ends with more than one field
        mesh = self.mesh_on(self.cut(last, off), max(LOWEST, degree + 1 - OPINIONS))
        return mesh if self._fits(mesh.raised(degree - max(mesh.degree))) else None

    def _climbed(self) -> int:
        """How many of the last rounds have the same cells."""
        cells = self.rounds[-1].mesh.cells
        return next(
            (k for k, found in enumerate(reversed(self.rounds)) if found.mesh.cells is not cells), len(self.rounds)
        )

    def _estimate(self) -> tuple[float, float]:
        """How far the last field may be off, and the share that its degree left of the difference before.

        Infinite as long as fewer than three have the same cells.
        """
        last = self.rounds[-1]
        if self._climbed() < OPINIONS:
            return math.inf, 0.0
        before, difference = (self._apart(self.rounds[-k - 1], self.rounds[-k]) for k in (2, 1))
        ratio = difference / before if before > 0 else 0.0
        contradiction = contradicted(self.question, self.orders, last.mesh, last.solution)
        found = max(to_come(difference, ratio), self.missed(last.solution, self._probes_on(last)), contradiction)
        found = found if found > self.goal else max(found, last.violation)
        self.estimates[len(self.rounds) - 1] = found
        return found, ratio

    def _apart(self, first: Round, second: Round) -> float:
        probes = self._probes_on(second)
        return field_difference(first.solution, second.solution, probes, self.question.asked)

    def _probes_on(self, found: Round) -> Probes:
        return self.probes.within(found.mesh.cells, self.question.domain)

    def _needed(self, mesh: Mesh) -> float:
        return memory_needed(mesh, len(self.question.space.channels), sum(self.orders.multipliers))

    def _fits(self, mesh: Mesh) -> bool:
        return self._needed(mesh) <= memory_there_is()

    def refuse_if_too_large(self, mesh: Mesh) -> None:
        needed, there = self._needed(mesh), memory_there_is()
        if needed > there:
            advice = "use method = 'waves', or a simpler domain"
            if self.question.regions is not None:  # which waves do not know, and which may be too small for their cells
                advice = "make the domain simpler, or regions that are very small beside it larger"
            raise ProblemError(
                f"the coarsest patches that follow this domain and its formulas are {mesh.patches.count}, which take "
                f"about {needed / GIGA:.1f} GB where {there / GIGA:.1f} GB can be had; {advice}"
            )

    def _adapted(self) -> Adapted:
        """The best of all rounds: one that is good enough and exact, else the one with the smallest estimate."""
        rounds, known = self.rounds, self.estimates
        if not known and len(rounds) > 1:
            known = {len(rounds) - 1: self._apart(rounds[-2], rounds[-1])}
        best = min(
            known, key=lambda k: (not (known[k] <= self.goal and rounds[k].exact), known[k]), default=len(rounds) - 1
        )
        estimate = max(known[best], rounds[best].violation) if best in known else math.inf
        return Adapted(tuple(rounds), best, estimate, self.interrupted, self._probes_on(rounds[best]))


def to_come(difference: float, ratio: float) -> float:
    """What the differences to come add up to, if each is `ratio` of the one before, and some doubt about that."""
    shrinking = min(max(ratio, STEEPEST), SLOWEST)
    return DOUBT * difference * shrinking / (1 - shrinking)


def stalled(estimates: list[float]) -> bool:
    """Whether the last meshes were hardly better than those before."""
    return len(estimates) > PATIENCE + 1 and min(estimates[-PATIENCE:]) > 0.5 * min(estimates[:-PATIENCE])
