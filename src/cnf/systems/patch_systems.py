"""Patch systems: conditions and functions cut into small dense systems, assembled and solved batch by batch.

Every block of the layout becomes a list of `Station`s: points at which as many functions sit as conditions are asked.
A small system takes some points of every station, all conditions there and all functions there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from cnf.bases.basis import Basis
from cnf.bases.local import LocalEvaluator, SourceEvaluator
from cnf.constraints import Constraint
from cnf.errors import BasisError
from cnf.fetching import array_of, sent
from cnf.operators.expansion import Probe, Request
from cnf.solvers.patches import solve_batch
from cnf.systems.formulation import Expansion
from cnf.systems.layout import BlockLayout
from cnf.systems.local_evaluation import sum_probes
from cnf.systems.sparse_assembly import gather_sites

QUERIES = 2**17  # queries looked at together
ENTRIES = 2**18  # entries of the small matrices assembled at once: few enough to stay in the cache

ADVICE = (
    "Patches needs as many functions at every point as there are conditions: Kernel with its anchors on the points of "
    "the conditions, one condition each, or Hermite built from the constraints of the field"
)


@dataclass(frozen=True, eq=False)
class Station:
    """Points (P, D) with K conditions each, `requests`, and the R = K functions of a group of centres there."""

    points: Tensor
    requests: tuple[Request, ...]
    group: int
    centres: Tensor  # (P,) which centre of the group each point is
    functions: tuple[int, ...]  # which of the functions at a centre
    rows: np.ndarray  # (K, P) row of the block that each condition is


@dataclass(frozen=True, eq=False)
class PatchBlock:
    """A block of the layout, cut up into stations."""

    layout: BlockLayout
    stations: tuple[Station, ...]


class QueriedExpansion(Expansion):
    """An expansion made of small systems, evaluated query by query."""

    @abstractmethod
    def queried(self, probe: Probe) -> Tensor:
        """What the probe asks for at each of its points, (P * nodes, K)."""

    def arranged(self, points: Tensor) -> Tensor:
        """An order (P,) of the points (P, D) in which those that share small systems are near one another."""
        return torch.arange(points.shape[0], device=points.device)

    def applied(self, probes: Sequence[Probe], shape: tuple[int, int]) -> Tensor:
        def look(probe: Probe) -> Tensor:
            if probe.points.shape[0] <= QUERIES:
                return self.queried(probe)
            order = self.arranged(probe.points)
            parts = [self.queried(_piece(probe, rows)) for rows in order.split(QUERIES)]
            back = torch.empty_like(order)
            back[order] = torch.arange(order.shape[0], device=order.device)
            return torch.cat(parts)[back]

        return sum_probes(look, probes, probes[0].points.new_zeros(shape))


def _piece(probe: Probe, rows: Tensor) -> Probe:
    """The same at some of its points and nodes."""
    return Probe(probe.points[rows], probe.nodes, probe.rows, tuple(r.at(rows) for r in probe.requests))


def find_stations(
    evaluator: LocalEvaluator,
    basis: Basis,
    constraints: Sequence[Constraint],
    layout: Sequence[BlockLayout],
) -> list[PatchBlock]:
    """Conditions and functions of every block, matched by their points."""
    sites = gather_sites(constraints)
    if any(site.nodes > 1 for site in sites):
        raise BasisError("Patches solves conditions at points; integrals reach across patches. Use another solver")
    blocks = []
    for block in layout:
        copy = block.first
        if len(copy.channels) > 1:
            raise BasisError(f"conditions couple the channels here; {ADVICE}, channel by channel")
        first_row, total = {}, 0
        for i, r in copy.rows:
            first_row[i, r] = total
            total += constraints[i].points.shape[0]
        stations: list[Station] = []
        taken: set[tuple[int, int]] = set()  # (group, centre): no function serves two conditions
        for site in sites:
            asked = [k for k, owner in enumerate(site.owners) if owner in first_row]
            if not asked:
                continue
            rows = np.array([first_row[site.owners[k]] + np.arange(site.points.shape[0]) for k in asked])
            found = _functions_at(evaluator, site.points, copy.channels[0], basis, len(asked), taken)
            stations.append(Station(site.points, tuple(site.requests[k] for k in asked), *found, rows))
        if sum(s.rows.size for s in stations) != total:
            raise BasisError(f"a condition looks at several points at once; {ADVICE}")
        blocks.append(PatchBlock(block, tuple(stations)))
    return blocks


def _functions_at(
    evaluator: LocalEvaluator, points: Tensor, channel: int, basis: Basis, count: int, taken: set[tuple[int, int]]
) -> tuple[int, Tensor, tuple[int, ...]]:
    """A group with a free centre at each of these points: its number, the centres, its functions for the channel."""
    where = array_of(points)
    for g, centres in enumerate(evaluator.centres):
        own = tuple(r for r, c in enumerate(centres.channels) if not basis.joint or c == channel)
        if len(own) != count:
            continue
        theirs = array_of(centres.points)
        if theirs.shape == where.shape and np.array_equal(theirs, where):
            nearest, apart = np.arange(len(where)), np.zeros(1)  # as listed, should points repeat
        else:
            apart, nearest = cKDTree(theirs).query(where)
        places = {(g, int(q)) for q in nearest}
        if not apart.any() and len(places) == len(where) and not places & taken:
            taken |= places
            return g, sent(nearest.astype(np.int64), points), own
    raise BasisError(f"{count} conditions at each of {len(where)} points have no functions to themselves; {ADVICE}")


def solve_systems(
    evaluator: LocalEvaluator,
    block: PatchBlock,
    targets: Tensor,
    chosen: Sequence[np.ndarray],
    definite: bool,
    stretch: np.ndarray | None = None,
) -> tuple[list[Tensor], float, int]:
    """Targets (m, k) of the block; one system per row of the tables `chosen`.

    Those have for every station (B, M) numbers of points, -1 for none. `stretch` (B,) narrows the kernel of each.

    Returns the weights (B, R, M, k) of every station, the worst ratio of pivots and the largest system.
    """
    widths = [table.shape[1] * len(s.requests) for table, s in zip(chosen, block.stations, strict=True)]
    step = max(1, ENTRIES // max(1, sum(widths)) ** 2)
    parts: list[list[Tensor]] = []
    worst, largest = np.inf, 0
    for start in range(0, chosen[0].shape[0], step):
        tables = [_trimmed(table[start : start + step]) for table in chosen]
        own = None if stretch is None else torch.from_numpy(stretch[start : start + step]).to(targets)
        weights, ratio = _solve_batch(evaluator, block, targets, tables, definite, [t.shape[1] for t in chosen], own)
        parts.append(weights)
        worst, largest = (
            min(worst, ratio),
            max(largest, sum(t.shape[1] * len(s.requests) for t, s in zip(tables, block.stations, strict=True))),
        )
    return [torch.cat([part[s] for part in parts]) for s in range(len(block.stations))], float(worst), largest


def _trimmed(table: np.ndarray) -> np.ndarray:
    """Without the columns that are empty in every row."""
    used = int((table >= 0).sum(axis=1).max(initial=0))
    return table[:, : max(used, 1)]


def _solve_batch(
    evaluator: LocalEvaluator,
    block: PatchBlock,
    targets: Tensor,
    tables: list[np.ndarray],
    definite: bool,
    widths: Sequence[int],
    stretch: Tensor | None,
) -> tuple[list[Tensor], float]:
    places = [sent(np.maximum(t, 0), targets) for t in tables]
    valid = [sent(t >= 0, targets) for t in tables]  # (B, M)
    rows = []
    for station, place in zip(block.stations, places, strict=True):
        row = []
        for other, q in zip(block.stations, places, strict=True):
            values = small_matrices(evaluator, station, place, other, q, stretch)  # (B, K, M, R, M')
            row.append(values.flatten(3).flatten(1, 2))
        rows.append(row[0] if len(row) == 1 else torch.cat(row, dim=2))
    matrices = rows[0] if len(rows) == 1 else torch.cat(rows, dim=1)  # (B, m, m)
    missing = torch.cat(
        [(~v)[:, None].expand(-1, len(s.requests), -1).flatten(1) for s, v in zip(block.stations, valid, strict=True)],
        dim=1,
    )
    if bool(missing.any()):  # few rows and columns, so they are written over: each pass over all matrices costs
        matrices = _put_identity(matrices, missing)
    sides = []
    for station, place, there in zip(block.stations, places, valid, strict=True):
        side = targets[sent(station.rows, targets)[:, place]]  # (K, B, M, k), of these places alone
        sides.append((side * there[None, :, :, None]).permute(1, 0, 2, 3).flatten(1, 2))
    found, worst = solve_batch(matrices, torch.cat(sides, dim=1), definite)
    weights = []
    start = 0
    for station, place, width in zip(block.stations, places, widths, strict=True):
        count = len(station.requests) * place.shape[1]
        part = found[:, start : start + count].unflatten(1, (len(station.requests), place.shape[1]))
        weights.append(torch.nn.functional.pad(part, (0, 0, 0, width - place.shape[1])))
        start += count
    return weights, worst


def _put_identity(matrices: Tensor, missing: Tensor) -> Tensor:
    """Matrices (B, m, m) with rows and columns of the identity where `missing` (B, m)."""
    system, place = torch.nonzero(missing, as_tuple=True)
    if not matrices.requires_grad:
        matrices[system, place] = 0.0
        matrices[system, :, place] = 0.0
        matrices[system, place, place] = 1.0
        return matrices
    here = ~missing
    return matrices * (here[:, :, None] & here[:, None]) + torch.diag_embed(missing.to(matrices))


def small_matrices(
    evaluator: LocalEvaluator,
    station: Station,
    place: Tensor,
    other: Station,
    centres: Tensor,
    stretch: Tensor | None = None,
) -> Tensor:
    """Conditions at points `place` (B, M) of a station under functions at `centres` (B, M') of another.

    (B, K, M, R, M'). `stretch` (B,): the kernel of each system is k(stretch (x - y)).
    """
    batch, count, width = place.shape[0], place.shape[1], centres.shape[1]
    pairs = place[:, :, None], other.centres[centres][:, None]  # (B, M, 1), (B, 1, M')
    if stretch is None or bool((stretch == 1).all()):
        values = evaluator.paired(station.points, *pairs, station.requests, other.group)  # (E, K, R)
    else:
        assert isinstance(evaluator, SourceEvaluator)
        narrowed = stretch[:, None, None].expand(batch, count, width).reshape(-1)
        values = evaluator.paired(station.points, *pairs, station.requests, other.group, narrowed)
    values = values[:, :, list(other.functions)] if values.shape[2] != len(other.functions) else values
    return values.reshape(batch, count, width, *values.shape[1:]).permute(0, 3, 1, 4, 2)
