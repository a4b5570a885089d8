"""Patched: many small systems instead of one large one, blended into one field or made anew for every query."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cnf.bases.basis import Basis
from cnf.bases.local import LocalEvaluator, SourceEvaluator, reach_of
from cnf.constraints import Constraint
from cnf.errors import BasisError
from cnf.fetching import array_of
from cnf.solvers.balls import Balls
from cnf.solvers.patches import Patches
from cnf.systems.blended import BlendedExpansion, Members, find_members, member_name, solve_cover
from cnf.systems.cover import cover_points
from cnf.systems.formulation import Account, Expansion, Formulation, KnownAccount, Plan, stack_targets, state_entry
from cnf.systems.nearest import NearestExpansion
from cnf.systems.patch_systems import PatchBlock, find_stations

BEYOND_ROUNDING = 1e3  # times the tolerance: more than rounding does


@dataclass(frozen=True)
class Patched(Formulation):
    """`patches` says how the points are cut up."""

    patches: Patches

    def plan(self, basis: Basis, constraints: Sequence[Constraint]) -> PatchedPlan:
        evaluator = basis.snapshot()
        if not isinstance(evaluator, LocalEvaluator):
            raise BasisError(
                "Patches needs a basis whose functions sit at points: Kernel, SkewedRBF, Hybrid or Hermite"
            )
        reach_of(evaluator)
        cells = tuple(find_stations(evaluator, basis, constraints, self.layout))
        cover = None
        if self.patches.mode == "blend":
            patches = self.patches
            if patches.follow_density and not isinstance(evaluator, SourceEvaluator):
                raise BasisError("follow_density needs functions of one kernel of the coordinates: Kernel or Hermite")
            cover = patches.balls or _laid_out(cells, patches)
        channels, rows = len(basis.space.channels), sum(c.rows for c in constraints)
        return PatchedPlan(self, evaluator, cells, cover, basis.is_symmetric_for(constraints), channels, rows)

    def restored(self, basis: Basis, constraints: Sequence[Constraint], state: Mapping[str, Tensor]) -> Expansion:
        return self.plan(basis, constraints).restored(state)


def _laid_out(cells: Sequence[PatchBlock], patches: Patches) -> Balls:
    """Balls around the points of all conditions."""
    every = torch.unique(torch.cat([s.points for cell in cells for s in cell.stations]), dim=0)
    return cover_points(array_of(every), patches.size, patches.overlap, patches.follow_density)


@dataclass(frozen=True)
class PatchAccount(Account):
    """What is known of all small systems together."""

    name: str
    rows: int
    pivots: float  # smallest over largest pivot, the worst of all systems; NaN if none was kept

    def rank(self) -> int:
        return self.rows

    def condition(self) -> float:
        """From the pivots of the worst small system: an estimate from below."""
        return math.nan if math.isnan(self.pivots) else 1 / max(self.pivots, 1e-300)

    def reason_for(self, violated: Sequence[Constraint], times: float) -> str:
        slopes = [repr(c.name) for c in violated if c.operator.order]
        if not slopes or times <= BEYOND_ROUNDING:
            return ""
        return (
            f"{', '.join(slopes)}: patches keep a derivative exact only where all lower orders are given at the same "
            "points; add conditions on the values there, or solve with Auto() instead of Patches"
        )


@dataclass(frozen=True, eq=False)
class PatchedPlan(Plan):
    """Conditions and functions cut up; `cover` is None if every query has a system of its own."""

    formulation: Patched
    evaluator: LocalEvaluator
    cells: tuple[PatchBlock, ...]
    cover: Balls | None
    definite: bool
    channels: int
    rows: int

    def solve(self, targets: Sequence[Tensor]) -> Expansion:
        sides = tuple(stack_targets(targets, block) for block in self.formulation.layout)
        if self.cover is None:
            return self._nearest(sides)
        members, ratio, largest = solve_cover(self.evaluator, self.cells, sides, self.cover, self.definite)
        name = f"Patches blended, {self.cover.count} systems of up to {largest}"
        return self._blended(self.cover, members, PatchAccount(name, self.rows, ratio))

    def restored(self, state: Mapping[str, Tensor]) -> Expansion:
        """The expansion of saved weights."""
        if self.cover is None:
            shapes = [(sum(s.rows.size for s in c.stations), len(c.layout.copies)) for c in self.cells]
            return self._nearest(tuple(state_entry(state, f"targets.{b}", shape) for b, shape in enumerate(shapes)))
        members = []
        for b, (block, held) in enumerate(zip(self.cells, find_members(self.cells, self.cover), strict=True)):
            row = []
            for s, (station, (starts, points)) in enumerate(zip(block.stations, held, strict=True)):
                shape = (points.shape[0], len(station.functions), len(block.layout.copies))
                row.append(Members(station, starts, points, state_entry(state, member_name(b, s), shape)))
            members.append(tuple(row))
        return self._blended(self.cover, tuple(members), KnownAccount("Patches blended, from a file", (), 1, self.rows))

    def _blended(self, cover: Balls, members: tuple[tuple[Members, ...], ...], account: Account) -> Expansion:
        return BlendedExpansion(self.evaluator, cover, self.cells, members, self.channels, account)

    def _nearest(self, sides: tuple[Tensor, ...]) -> Expansion:
        count = sum(s.points.shape[0] for cell in self.cells for s in cell.stations)
        patches = self.formulation.patches
        name = f"Patches per query, {count} systems of up to {min(patches.neighbours, count)}"
        account = PatchAccount(name, self.rows, math.nan)
        return NearestExpansion(self.evaluator, patches, self.cells, sides, self.channels, self.definite, account)
