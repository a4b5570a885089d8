"""Blended patches: the small systems of overlapping balls, and the field that their sum with smooth weights is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from cnf.bases.kernels import KernelProfile
from cnf.bases.local import LocalEvaluator, SourceEvaluator, Strengths
from cnf.errors import SmoothnessError
from cnf.fetching import array_of, is_here, sent
from cnf.operators import jets
from cnf.operators.expansion import Probe, Request, wanted
from cnf.operators.jets import MultiIndex
from cnf.solvers.balls import Balls
from cnf.systems.ball_fields import BallSources, first_order_weights, gather_sources
from cnf.systems.blending import SMOOTHNESS, blend_weights
from cnf.systems.formulation import Account, Expansion, last_bits_off
from cnf.systems.local_evaluation import derived, sum_segments, weigh
from cnf.systems.patch_systems import PatchBlock, QueriedExpansion, Station, solve_systems
from cnf.threads import map_pieces, one_thread_each

PAIRS = 2**16  # pairs of a query and a function evaluated at once

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
class BlendedExpansion(QueriedExpansion):
    """The fields of all balls that hold a query, added up with weights that sum to one."""

    evaluator: LocalEvaluator
    cover: Balls
    cells: tuple[PatchBlock, ...]
    members: tuple[tuple[Members, ...], ...]  # per block and station
    channels: int
    account: Account

    @property
    def weights(self) -> Tensor:  # type: ignore[override]
        return torch.cat([m.weights.reshape(-1) for block in self.members for m in block])

    @property
    def like(self) -> Tensor:
        return self.members[0][0].weights

    def state(self) -> dict[str, Tensor]:
        return {
            member_name(b, s): m.weights.detach() for b, block in enumerate(self.members) for s, m in enumerate(block)
        }

    def with_last_bits_off(self) -> Expansion:
        members = tuple(tuple(replace(m, weights=last_bits_off(m.weights)) for m in block) for block in self.members)
        return replace(self, members=members)

    def queried(self, probe: Probe) -> Tensor:
        x, indices = probe.points, jets.closure(wanted(probe.requests))
        if sum(indices[-1]) > SMOOTHNESS:
            raise SmoothnessError(
                f"the weights that blend patches have {SMOOTHNESS} derivatives, not {sum(indices[-1])}; use another "
                "solver"
            )
        ball, owner, inside = self._meetings(x)
        weights = self._shares(x, ball, owner, inside, indices)
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

    def arranged(self, points: Tensor) -> Tensor:
        """By the nearest ball: those that follow one another are parts of one larger part of the points."""
        return sent(np.argsort(self.cover.nearest(array_of(points)), kind="stable"), points)

    def _meetings(self, x: Tensor) -> tuple[np.ndarray, Tensor, Tensor]:
        """Pairs (E,) of a ball, ascending, and a query, and whether it lies inside: else the nearest ball speaks."""
        where = array_of(x)
        ball, point = self.cover.meetings(where)
        outside = np.ones(x.shape[0], dtype=bool)
        outside[point] = False
        alone = np.flatnonzero(outside)
        if not len(alone):
            return ball, sent(point.astype(np.int64), x), sent(np.ones(len(point), dtype=bool), x)
        ball = np.concatenate([ball, self.cover.nearest(where[alone])])
        owner = np.concatenate([point, alone]).astype(np.int64)
        order = np.argsort(ball, kind="stable")
        return ball[order], sent(owner[order], x), sent(order < point.shape[0], x)

    def _learning(self, x: Tensor) -> bool:
        """Whether a graph is to be built: where not, all queries take the same way, whatever the mode they are in."""
        known = [x, self.like, *getattr(getattr(self.evaluator, "kernel", None), "parameters", list)()]
        return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in known)

    def _shares(
        self, x: Tensor, ball: np.ndarray, owner: Tensor, inside: Tensor, indices: Sequence[MultiIndex]
    ) -> dict[MultiIndex, Tensor]:
        """Derivatives of the weights of the balls at their queries, each (pairs,); one ball alone has the weight 1."""
        offsets = x[owner] - torch.from_numpy(self.cover.centres[ball]).to(x)
        radii = torch.from_numpy(self.cover.radii[ball]).to(x)
        plain = is_here(x) and not self._learning(x) and max(map(sum, indices)) <= 1
        make = first_order_weights if plain else blend_weights
        if bool(inside.all()):
            return make(offsets, radii, owner, x.shape[0], indices)
        shares = make(offsets[inside], radii[inside], owner[inside], x.shape[0], indices)
        rows = torch.nonzero(inside)[:, 0]
        return {a: x.new_full(inside.shape, float(not sum(a))).index_copy(0, rows, w) for a, w in shares.items()}

    def _local_fields(
        self, x: Tensor, owner: Tensor, ball: np.ndarray, channel: int, indices: Sequence[MultiIndex]
    ) -> dict[MultiIndex, Tensor]:
        """Derivatives of every ball's own field at its queries, each (pairs,)."""
        total = x.new_zeros(len(indices), ball.shape[0])
        for block, stations in zip(self.cells, self.members, strict=True):
            copies = [k for k, copy in enumerate(block.layout.copies) if channel in copy.channels]
            for members in stations if copies else ():
                total = total + self._station_fields(members, copies[0], x, owner, ball, indices)
        return dict(zip(indices, total.unbind(), strict=True))

    @cached_property
    def _sources(self) -> dict[tuple[int, int], BallSources | None]:
        """What `sources_of` made, by station and copy: weights and places of an expansion do not change."""
        return {}

    def sources_of(self, members: Members, copy: int) -> BallSources | None:
        """The functions of a station as sources of order 0 and 1 in balls, if that is what they are."""
        key = id(members), copy
        if key not in self._sources:  # two threads may gather the same at once, which does no harm
            self._sources.setdefault(key, self._gather(members, copy))
        return self._sources[key]

    @torch.no_grad()
    def _gather(self, members: Members, copy: int) -> BallSources | None:
        if not isinstance(self.evaluator, SourceEvaluator):
            return None
        station, points = members.station, sent(members.points, members.weights)
        strengths = self.evaluator.strengths(
            members.weights[:, :, copy], station.centres[points], station.functions, station.group
        )
        if max(map(sum, strengths), default=0) > 1:
            return None
        places = station.points[points]
        centres, stretch = (torch.from_numpy(a).to(places) for a in (self.cover.centres, self.cover.stretch))
        return gather_sources(self.evaluator.kernel, members.starts, places, strengths, centres, stretch)

    def _station_fields(
        self, members: Members, copy: int, x: Tensor, owner: Tensor, ball: np.ndarray, indices: Sequence[MultiIndex]
    ) -> Tensor:
        """What the functions of one station add to them, (J, pairs)."""
        # Blocks lose digits beside a source, which single precision cannot spare.
        if is_here(x) and not self._learning(x) and max(map(sum, indices)) <= 1 and x.dtype == torch.float64:
            sources = self.sources_of(members, copy)
            if sources is not None and sources.rows.dtype == np.float64:
                return sources.fields(x, owner, ball, indices)
        station = members.station
        points = sent(members.points, x)
        numbers = station.centres[points]
        weights, stretch = members.weights[:, :, copy], torch.from_numpy(self.cover.stretch).to(x)
        if isinstance(self.evaluator, SourceEvaluator):
            strengths = self.evaluator.strengths(weights, numbers, station.functions, station.group)
            places = station.points[points]
            contribution = _of_sources(self.evaluator.kernel, strengths, x, places, stretch, indices)
        else:
            contribution = _of_functions(self.evaluator, station, numbers, weights, x, indices)
        counts = np.diff(members.starts)[ball]
        parts = [x.new_zeros(len(indices), 0)]
        for pairs, pair, member in _expanded(counts, members.starts[ball]):
            pair, member = pair.to(x.device), member.to(x.device)
            holder = sent(ball[pairs], x)[pair]
            parts.append(sum_segments(contribution(owner[pairs][pair], member, holder), counts[pairs]))
        return torch.cat(parts, dim=1)


Contribution = Callable[[Tensor, Tensor, Tensor], Tensor]  # queries p, members m and their balls t (E,) -> (J, E)


def _of_sources(
    kernel: KernelProfile,
    strengths: Strengths,
    x: Tensor,
    places: Tensor,
    stretch: Tensor,
    indices: Sequence[MultiIndex],
) -> Contribution:
    """Derivatives of a kernel: d^b k(s (x - y)) has the factor s^|b|."""
    # By coordinate, and ball by ball as they are asked for: gathering is most of the work.
    queries, columns = x.T.contiguous(), places.T.contiguous()

    def contribution(p: Tensor, m: Tensor, t: Tensor) -> Tensor:
        factor = stretch[t]
        z = (queries[:, p] - columns[:, m]) * factor
        found = derived(kernel, z, {b: v[m] * factor ** sum(b) for b, v in strengths.items()}, indices)
        return torch.stack([value * factor ** sum(a) for a, value in zip(indices, found, strict=True)])

    return contribution


def _of_functions(
    evaluator: LocalEvaluator,
    station: Station,
    numbers: Tensor,
    weights: Tensor,
    x: Tensor,
    indices: Sequence[MultiIndex],
) -> Contribution:
    """Any functions that can be evaluated at pairs."""
    one = torch.ones((), dtype=x.dtype)
    requests = [Request(station.requests[0].channel, {a: one}) for a in indices]

    def contribution(p: Tensor, m: Tensor, t: Tensor) -> Tensor:
        values = evaluator.paired(x, p, numbers[m], requests, station.group)[:, :, list(station.functions)]  # (E, J, R)
        return (values * weights[m][:, None]).sum(dim=2).T

    return contribution


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


def member_name(block: int, station: int) -> str:
    """Where the weights of a station are saved."""
    return f"patches.{block}.{station}"


def find_members(cells: Sequence[PatchBlock], cover: Balls) -> list[list[tuple[np.ndarray, np.ndarray]]]:
    """For every block and station: starts (T + 1,) and points (members,), ball by ball."""
    found = []
    for block in cells:
        held = [cover.meetings(array_of(s.points)) for s in block.stations]
        found.append([(np.searchsorted(ball, np.arange(cover.count + 1)), point) for ball, point in held])
    return found


def solve_cover(
    evaluator: LocalEvaluator, cells: Sequence[PatchBlock], targets: Sequence[Tensor], cover: Balls, definite: bool
) -> tuple[tuple[tuple[Members, ...], ...], float, int]:
    """The small system of every ball, balls of similar size in one batch; the worst ratio of pivots, the largest."""
    found, worst, largest = [], np.inf, 0
    for block, side, held in zip(cells, targets, find_members(cells, cover), strict=True):
        size = np.sum([np.diff(starts) for starts, _ in held], axis=0)
        order = np.argsort(size, kind="stable")
        weights = [
            side.new_zeros(points.shape[0], len(s.functions), side.shape[1])
            for (_, points), s in zip(held, block.stations, strict=True)
        ]
        groups = np.array_split(order, max(1, cover.count // 64))
        for group, tables, (parts, ratio, width) in _solve_groups(
            evaluator, block, side, held, groups, cover, definite
        ):
            worst, largest = min(worst, ratio), max(largest, width)
            for k, (table, part) in enumerate(zip(tables, parts, strict=True)):
                there = sent(table >= 0, part)
                slots = sent(held[k][0][group][:, None] + np.arange(table.shape[1]), part)[there]
                own = part.permute(0, 2, 1, 3)[there]  # (members, R, k)
                put = weights[k].index_copy if own.requires_grad else weights[k].index_copy_
                weights[k] = put(0, slots, own)
        found.append(
            tuple(
                Members(s, starts, points, w)
                for s, (starts, points), w in zip(block.stations, held, weights, strict=True)
            )
        )
    return tuple(found), float(worst), largest


Held = Sequence[tuple[np.ndarray, np.ndarray]]  # per station: starts (T + 1,) and points (members,)
Solved = tuple[list[Tensor], float, int]  # see `solve_systems`


def _solve_groups(
    evaluator: LocalEvaluator,
    block: PatchBlock,
    side: Tensor,
    held: Held,
    groups: Sequence[np.ndarray],
    cover: Balls,
    definite: bool,
) -> list[tuple[np.ndarray, list[np.ndarray], Solved]]:
    """The systems of groups of balls, a thread for each group; one after the other if a graph is to be built."""
    learning = torch.is_grad_enabled()

    def solve(group: np.ndarray) -> tuple[np.ndarray, list[np.ndarray], Solved]:
        tables = [_table(points, starts, group) for starts, points in held]
        with torch.set_grad_enabled(learning):  # a matter of each thread
            return group, tables, solve_systems(evaluator, block, side, tables, definite, cover.stretch[group])

    with one_thread_each() as threads:
        return map_pieces(solve, groups, 1 if learning else threads)


def _table(points: np.ndarray, starts: np.ndarray, group: np.ndarray) -> np.ndarray:
    """The members of the balls of a group, (B, M), -1 behind the last of each."""
    counts = np.diff(starts)[group]
    columns = np.arange(max(1, int(counts.max(initial=0))))
    places = np.minimum(starts[group][:, None] + columns, points.shape[0] - 1)
    return np.where(columns < counts[:, None], points[places], -1)
