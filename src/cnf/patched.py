"""Solutions made of patches: many small solves, blended into one field or made anew for every query."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import nan

import numpy as np
import torch
from torch import Tensor, nn

from cnf.bases.basis import Basis, values_request
from cnf.bases.local import LocalEvaluator, SourceEvaluator, reach_of
from cnf.constraints import Constraint
from cnf.errors import BasisError, CnfError, SmoothnessError
from cnf.operators import jets
from cnf.operators.expansion import Probe, Request, wanted
from cnf.operators.jets import MultiIndex
from cnf.solution import Solution
from cnf.solvers.patches import Patches, PatchFactors
from cnf.systems.assembly import FieldFunction, applied, assemble_targets
from cnf.systems.blending import SMOOTHNESS, blend_weights
from cnf.systems.certificate import Certificate
from cnf.systems.cover import Cover, cover_points
from cnf.systems.judgement import judge, measure
from cnf.systems.layout import BlockLayout
from cnf.systems.local_evaluation import derived, finite_only, sum_segments, weigh
from cnf.systems.nearest import solve_for_queries
from cnf.systems.patch_systems import PatchBlock, Station, find_stations, solve_systems

PAIRS = 2**16  # pairs of a query and a function evaluated at once
QUERIES = 2**17  # queries looked at together

Derivatives = dict[tuple[int, MultiIndex], Tensor]  # (channel, multi-index) -> (P,)


@dataclass(frozen=True, eq=False)
class Members:
    """The points of one station in every ball, ball by ball: those of ball t are starts[t] to starts[t + 1].

    `weights` (members, R, k): of the functions there, for every copy of the block.
    """

    station: Station
    starts: np.ndarray  # (T + 1,)
    points: np.ndarray  # (members,)
    weights: Tensor


@dataclass(frozen=True, eq=False)
class PatchedSolution(Solution):
    """A field of patches; `solver.mode` tells which way it is evaluated."""

    solver: Patches = field(default_factory=Patches)
    cells: tuple[PatchBlock, ...] = ()
    definite: bool = False
    cover: Cover | None = None
    members: tuple[tuple[Members, ...], ...] = ()  # per block and station

    def _evaluated(self, points: Tensor) -> Tensor:
        channels = range(len(self.space.channels))
        requests = tuple(values_request(points.shape[1], points, c) for c in channels)
        return self._applied([Probe(points, 1, tuple(channels), requests)], (points.shape[0], len(channels)))

    def _applied(self, probes: Sequence[Probe], shape: tuple[int, int]) -> Tensor:
        total = self.weights.new_zeros(shape)
        for probe in probes:
            sound = torch.isfinite(probe.points.detach()).all(dim=1)
            found = torch.cat([self._queried(piece) for piece in _pieces(finite_only(probe, sound))])
            found = torch.where(sound[:, None], found, torch.nan)
            if probe.nodes > 1:
                found = found.reshape(-1, probe.nodes, found.shape[1]).sum(dim=1)
            total = total.index_add(1, torch.tensor(probe.rows), found)
        return total if self.base is None else total + applied(self._base, probes, shape)

    def _queried(self, probe: Probe) -> Tensor:
        return self._blended(probe) if self.cover is not None else self._local(probe)

    # -- blend ---------------------------------------------------------------------------------------------------

    def _blended(self, probe: Probe) -> Tensor:
        """The fields of all balls that hold a query, added with weights that sum to one; (P, K)."""
        assert self.cover is not None
        x, indices = probe.points, jets.closure(wanted(probe.requests))
        if sum(indices[-1]) > SMOOTHNESS:
            raise SmoothnessError(
                f"the weights that blend patches have {SMOOTHNESS} derivatives, not {sum(indices[-1])}; use another "
                "solver"
            )
        where = x.detach().to(torch.float64).numpy()
        ball, point = self.cover.meetings(where)
        alone = np.setdiff1d(np.arange(x.shape[0]), point)  # outside of every ball: the nearest one speaks
        ball = np.concatenate([ball, self.cover.nearest(where[alone])])
        owner = torch.from_numpy(np.concatenate([point, alone]).astype(np.int64))
        inside = torch.arange(owner.shape[0]) < point.shape[0]
        offsets = x[owner] - torch.from_numpy(self.cover.centres[ball]).to(x)
        radii = torch.from_numpy(self.cover.radii[ball]).to(x)
        shares = blend_weights(offsets[inside], radii[inside], owner[inside], x.shape[0], indices)
        rest = owner.shape[0] - point.shape[0]
        weights = {a: torch.cat([w, w.new_full((rest,), float(not sum(a)))]) for a, w in shares.items()}
        found: Derivatives = {}
        asked = sorted({(r.channel, a) for r in probe.requests for a in r.weights})
        for channel in sorted({c for c, _ in asked}):
            local = self._local_fields(x, owner, ball, channel, indices)
            for index in [a for c, a in asked if c == channel]:
                product = jets.total(
                    jets.binomial(index, lower) * weights[lower] * local[jets.subtract(index, lower)]
                    for lower in jets.below(index)
                )
                assert product is not None
                found[channel, index] = x.new_zeros(x.shape[0]).index_add(0, owner, product)
        return weigh(found, probe.requests)

    def _local_fields(
        self, x: Tensor, owner: Tensor, ball: np.ndarray, channel: int, indices: Sequence[MultiIndex]
    ) -> dict[MultiIndex, Tensor]:
        """Derivatives of every ball's own field at its queries, each (pairs,)."""
        assert isinstance(self.evaluator, LocalEvaluator)
        total = x.new_zeros(len(indices), ball.shape[0])
        for block, stations in zip(self.cells, self.members, strict=True):
            copies = [k for k, copy in enumerate(block.layout.copies) if channel in copy.channels]
            for members in stations if copies else ():
                contribution = _contribution(self.evaluator, members, copies[0], x, indices)
                counts = np.diff(members.starts)[ball]
                parts = [total[:, :0]]
                for pairs, pair, member in _expanded(counts, members.starts[ball]):
                    parts.append(sum_segments(contribution(owner[pairs][pair], member), counts[pairs]))
                total = total + torch.cat(parts, dim=1)
        return dict(zip(indices, total.unbind(), strict=True))

    # -- local ---------------------------------------------------------------------------------------------------

    def _local(self, probe: Probe) -> Tensor:
        """A small system for every query, of the nearest conditions within reach; (P, K)."""
        assert isinstance(self.evaluator, LocalEvaluator)
        asked = sorted({(r.channel, a) for r in probe.requests for a in r.weights})
        found: Derivatives = {}
        for channel in sorted({c for c, _ in asked}):
            indices = [a for c, a in asked if c == channel]
            values = self.weights.new_zeros(probe.points.shape[0], len(indices))
            for block in self.cells:
                copies = [k for k, copy in enumerate(block.layout.copies) if channel in copy.channels]
                if copies:
                    values = solve_for_queries(
                        self.evaluator, block, copies[0], probe.points, indices, self.solver, self.definite
                    )
            found |= {(channel, a): values[:, k] for k, a in enumerate(indices)}
        return weigh(found, probe.requests)


def _pieces(probe: Probe) -> Iterator[Probe]:
    for start in range(0, max(1, probe.points.shape[0]), QUERIES):
        rows = slice(start, start + QUERIES)
        yield Probe(probe.points[rows], probe.nodes, probe.rows, tuple(r.at(rows) for r in probe.requests))


Contribution = Callable[[Tensor, Tensor], Tensor]  # queries p, members m (E,) -> (J, E)


def _contribution(
    evaluator: LocalEvaluator, members: Members, copy: int, x: Tensor, indices: Sequence[MultiIndex]
) -> Contribution:
    """What every member adds to the derivatives of the field of its ball at a query."""
    station = members.station
    numbers = station.centres[torch.from_numpy(members.points)]
    weights = members.weights[:, :, copy]
    if isinstance(evaluator, SourceEvaluator):
        strengths = evaluator.strengths(weights, numbers, station.functions, station.group)
        # By coordinate, and ball by ball as they are asked for: gathering is most of the work.
        queries, places = x.T.contiguous(), station.points[torch.from_numpy(members.points)].T.contiguous()

        def of_sources(p: Tensor, m: Tensor) -> Tensor:
            z = queries[:, p] - places[:, m]
            return torch.stack(derived(evaluator.kernel, z, {b: v[m] for b, v in strengths.items()}, indices))

        return of_sources
    one = torch.ones((), dtype=x.dtype)
    requests = [Request(station.requests[0].channel, {a: one}) for a in indices]

    def of_functions(p: Tensor, m: Tensor) -> Tensor:
        values = evaluator.paired(x, p, numbers[m], requests, station.group)[:, :, list(station.functions)]  # (E, J, R)
        return (values * weights[m][:, None]).sum(dim=2).T

    return of_functions


def _expanded(counts: np.ndarray, starts: np.ndarray) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Stretches of pairs; for each, its pairs repeated once per member of their ball, numbered within the stretch."""
    ends = np.cumsum(counts)
    first = 0
    while first < counts.shape[0]:
        done = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, done + PAIRS, side="right")))
        own = counts[first:last]
        pair = np.repeat(np.arange(last - first), own)
        within = np.arange(own.sum()) - np.repeat(np.cumsum(own) - own, own)
        member = np.repeat(starts[first:last], own) + within
        yield slice(first, last), torch.from_numpy(pair), torch.from_numpy(member.astype(np.int64))
        first = last


def solve_in_patches(
    basis: Basis,
    constraints: tuple[Constraint, ...],
    layout: Sequence[BlockLayout],
    solver: Patches,
    base: nn.Module | None,
    base_values: FieldFunction | None,
    definite: bool,
    tolerance: float,
    on_violation: str,
) -> PatchedSolution:
    """Cut up, solve, and measure every condition on the field that comes out."""
    started = time.perf_counter()
    evaluator = basis.snapshot()
    if not isinstance(evaluator, LocalEvaluator):
        raise BasisError("Patches needs a basis whose functions sit at points: Kernel, SkewedRBF, Hybrid or Hermite")
    if constraints[0].points.device.type != "cpu":
        raise CnfError("Patches works on the CPU: its search for neighbours does. Use field.cpu(), or solver=Auto()")
    reach_of(evaluator)
    targets = assemble_targets(constraints, layout, base_values)
    cells = tuple(find_stations(evaluator, basis, constraints, layout, targets))
    certificate: Certificate = None  # type: ignore[assignment]  # measured below, on the solution itself
    solution = PatchedSolution(
        basis.space, basis, evaluator, targets[0].new_zeros(0), base, certificate, constraints, (),
        solver=solver, cells=cells, definite=definite,
    )  # fmt: skip
    if solver.mode == "blend":
        every = torch.unique(torch.cat([s.points for cell in cells for s in cell.stations]), dim=0)
        cover = cover_points(every.detach().to(torch.float64).numpy(), solver.size, solver.overlap)
        members, ratio, largest = _solve_cover(evaluator, cells, cover, definite)
        solution = replace(solution, cover=cover, members=members)
        count, label = cover.count, "Patches blended"
        weight_norm = sum(float(m.weights.detach().square().sum()) for block in members for m in block) ** 0.5
    else:
        count = sum(s.points.shape[0] for cell in cells for s in cell.stations)
        largest, ratio, label, weight_norm = min(solver.neighbours, count), nan, "Patches per query", nan
    factors = PatchFactors(
        shape=(sum(c.rows for c in constraints), basis.size),
        scale_rows=torch.ones(0),
        scale_columns=torch.ones(0),
        count=count,
        largest=largest,
        pivots=ratio,
        label=label,
    )
    seconds = time.perf_counter() - started
    certificate = measure(solution, (factors,), tolerance, seconds, weight_norm)
    judge(certificate, on_violation)
    return replace(solution, certificate=certificate)


def _solve_cover(
    evaluator: LocalEvaluator, cells: Sequence[PatchBlock], cover: Cover, definite: bool
) -> tuple[tuple[tuple[Members, ...], ...], float, int]:
    """The small system of every ball; balls of similar size in one batch."""
    found, worst, largest = [], np.inf, 0
    for block in cells:
        held = [cover.meetings(s.points.detach().to(torch.float64).numpy()) for s in block.stations]
        starts = [np.searchsorted(ball, np.arange(cover.count + 1)) for ball, _ in held]
        size = np.sum([np.diff(s) for s in starts], axis=0)
        order = np.argsort(size, kind="stable")
        weights = [
            block.targets.new_zeros(point.shape[0], len(s.functions), block.targets.shape[1])
            for (_, point), s in zip(held, block.stations, strict=True)
        ]
        for group in np.array_split(order, max(1, cover.count // 64)):
            tables = [_table(point, s, group) for (_, point), s in zip(held, starts, strict=True)]
            parts, ratio, width = solve_systems(evaluator, block, tables, definite)
            worst, largest = min(worst, ratio), max(largest, width)
            for k, (table, part) in enumerate(zip(tables, parts, strict=True)):
                slots = torch.from_numpy(starts[k][group][:, None] + np.arange(table.shape[1]))[
                    torch.from_numpy(table >= 0)
                ]
                own = part.permute(0, 2, 1, 3)[torch.from_numpy(table >= 0)]  # (members, R, k)
                weights[k] = (
                    weights[k].index_copy(0, slots, own) if own.requires_grad else weights[k].index_copy_(0, slots, own)
                )
        found.append(
            tuple(
                Members(s, start, point, w)
                for s, start, (_, point), w in zip(block.stations, starts, held, weights, strict=True)
            )
        )
    return tuple(found), float(worst), largest


def _table(points: np.ndarray, starts: np.ndarray, group: np.ndarray) -> np.ndarray:
    """The members of the balls of a group, (B, M), -1 behind the last of each."""
    counts = np.diff(starts)[group]
    columns = np.arange(max(1, int(counts.max(initial=0))))
    places = np.minimum(starts[group][:, None] + columns, points.shape[0] - 1)
    return np.where(columns < counts[:, None], points[places], -1)
