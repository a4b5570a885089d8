"""Sparse assembly: the entries of A that are not zero, from pairs of a point and a centre within reach.

The structure (pairs, pattern, order of elimination) is worked out once, from points and supports alone; a step then
evaluates the basis at the pairs only. No dense matrix is formed at any size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from cnf.bases.basis import Basis
from cnf.bases.local import Centres, LocalEvaluator, neighbours
from cnf.constraints import Constraint
from cnf.operators.expansion import Probe, Request
from cnf.solvers.sparse_matrix import Family, Pattern, Scatter, SparseMatrix, make_scatter, repeat_pattern
from cnf.systems.layout import BlockLayout, Copy

PAIRS = 2**18  # pairs evaluated at once
KEEP = 2**20  # pairs above which a piece is recomputed in the backward pass rather than kept
SLACK = 1.1  # a learnable support may grow so much before the structure is made anew


@dataclass(frozen=True)
class Site:
    """Conditions at the same points: `owners[k]` is the (constraint, row) that request k belongs to."""

    points: Tensor  # (P * nodes, D)
    nodes: int
    owners: tuple[tuple[int, int], ...]
    requests: tuple[Request, ...]


@dataclass(frozen=True)
class Meeting:
    """The pairs (p, q) of one site and one group of centres."""

    site: int
    group: int
    p: Tensor
    q: Tensor


@dataclass(frozen=True, eq=False)
class Structure:
    """All that depends on the points and supports only."""

    meetings: tuple[Meeting, ...]
    scatters: tuple[Scatter, ...]  # one per block
    reach: Tensor  # the support it was made for

    def serves(self, support: Tensor) -> bool:
        """True while the support is neither larger than planned nor so small that most entries are zero."""
        now = support.detach().to(self.reach)
        return bool((now <= self.reach).all()) and bool((now >= 0.7 * self.reach).all())


def gather_sites(constraints: Sequence[Constraint]) -> list[Site]:
    """The probes of all constraints, those at the same points put together."""
    found: list[tuple[Probe, list[tuple[int, int]], list[Request]]] = []
    for i, constraint in enumerate(constraints):
        for probe in constraint.expanded():
            known = next((f for f in found if f[0].nodes == probe.nodes and _same(f[0].points, probe.points)), None)
            if known is None:
                known = (probe, [], [])
                found.append(known)
            known[1].extend((i, r) for r in probe.rows)
            known[2].extend(probe.requests)
    return [Site(probe.points, probe.nodes, tuple(o), tuple(r)) for probe, o, r in found]


def plan_structure(
    evaluator: LocalEvaluator, basis: Basis, constraints: Sequence[Constraint], layout: Sequence[BlockLayout]
) -> Structure:
    """Pairs and patterns of every block."""
    support = evaluator.support
    assert support is not None
    reach = support.detach() * (SLACK if support.requires_grad else 1.0)
    sites = gather_sites(constraints)
    meetings = tuple(
        Meeting(s, g, *neighbours(site.points, centres.points, reach))
        for s, site in enumerate(sites)
        for g, centres in enumerate(evaluator.centres)
    )
    scatters = tuple(_scatter(sites, evaluator.centres, meetings, constraints, block.first, basis) for block in layout)
    return Structure(meetings, scatters, reach)


def assemble_sparse(
    evaluator: LocalEvaluator,
    basis: Basis,
    constraints: Sequence[Constraint],
    layout: Sequence[BlockLayout],
    structure: Structure,
) -> list[SparseMatrix]:
    """The matrix of every block, its values differentiable."""
    sites = gather_sites(constraints)
    found = []
    for block, scatter in zip(layout, structure.scatters, strict=True):
        parts = []
        for meeting in structure.meetings:
            site, centres = sites[meeting.site], evaluator.centres[meeting.group]
            asked, chosen = _members(site, centres, block.first, basis)
            if not asked or not chosen:
                continue
            requests = [site.requests[k] for k in asked]
            values = pairs_in_pieces(evaluator, site.points, meeting.p, meeting.q, requests, meeting.group)
            for j, k in enumerate(asked):
                parts += [values[:, j, r] for r in chosen if _meet(site.requests[k], centres, r, basis)]
        found.append(scatter(torch.cat(parts)))
    return found


def pairs_in_pieces(
    evaluator: LocalEvaluator, x: Tensor, p: Tensor, q: Tensor, requests: Sequence[Request], group: int
) -> Tensor:
    """evaluator.paired (E, K, R), never more than PAIRS pairs at once; only the points of a piece are passed on."""
    if p.shape[0] <= PAIRS:
        return evaluator.paired(x, p, q, requests, group)
    remember = p.shape[0] <= KEEP or not torch.is_grad_enabled()
    parts = []
    for piece, local in pieces(p, PAIRS):
        own = slice(int(p[piece.start]), int(p[piece.stop - 1]) + 1)
        given = (x[own], local, q[piece], [r.at(own) for r in requests], group)
        parts.append(
            evaluator.paired(*given) if remember else checkpoint(evaluator.paired, *given, use_reentrant=False)
        )
    return torch.cat(parts)


def pieces(p: Tensor, size: int) -> Iterator[tuple[slice, Tensor]]:
    """Consecutive stretches of ascending p and their points, numbered from the first of each stretch."""
    for start in range(0, p.shape[0], size):
        piece = slice(start, min(start + size, p.shape[0]))
        yield piece, p[piece] - p[start]


def _members(site: Site, centres: Centres, copy: Copy, basis: Basis) -> tuple[list[int], list[int]]:
    """The requests of a site and the functions of a group that belong to a block."""
    rows, channels = set(copy.rows), set(copy.channels)
    asked = [k for k, owner in enumerate(site.owners) if owner in rows and site.requests[k].channel in channels]
    if not basis.joint:
        return asked, list(range(len(centres.channels)))
    return asked, [r for r, channel in enumerate(centres.channels) if channel in channels]


def _meet(request: Request, centres: Centres, r: int, basis: Basis) -> bool:
    return not basis.joint or centres.channels[r] == request.channel


def _scatter(
    sites: Sequence[Site],
    groups: Sequence[Centres],
    meetings: Sequence[Meeting],
    constraints: Sequence[Constraint],
    copy: Copy,
    basis: Basis,
) -> Scatter:
    """The way of every entry, in the order in which `assemble_sparse` computes them, into the block's pattern."""
    first_row, total = {}, 0
    for i, r in copy.rows:
        first_row[i, r] = total
        total += constraints[i].points.shape[0]
    renumbered, width = _columns(groups, copy, basis)
    sites_of = _sites(groups, renumbered, width) if width == basis.size or basis.joint else None
    rows, columns = [], []
    families: list[Family] = []
    for meeting in meetings:
        site, centres = sites[meeting.site], groups[meeting.group]
        asked, chosen = _members(site, centres, copy, basis)
        p, q = meeting.p.cpu().numpy() // site.nodes, meeting.q.cpu().numpy()
        met = [(k, r) for k in asked for r in chosen if _meet(site.requests[k], centres, r, basis)]
        if met and len(met) == len(asked) * len(chosen) and site.nodes == 1:
            own = [renumbered[centres.columns[r].cpu().numpy()] for r in chosen]
            families.append(Family([first_row[site.owners[k]] for k in asked], own, p, q))
        for k, r in met:
            shift = 0 if basis.joint else copy.channels.index(site.requests[k].channel) * basis.size
            rows.append((p, first_row[site.owners[k]]))
            columns.append((renumbered[centres.columns[r].cpu().numpy()], q, shift))
    if (
        len(families) == 1
        and len(rows) == len(families[0].rows) * len(families[0].columns)
        and not any(shift for _, _, shift in columns)
    ):
        found = repeat_pattern(families[0], (total, width), sites_of)
        if found is not None:
            return found
    every_row = np.concatenate([p + start for p, start in rows])
    every_column = np.concatenate([own[q] + shift for own, q, shift in columns])
    return make_scatter(every_row, every_column, (total, width), sites_of)


def _columns(groups: Sequence[Centres], copy: Copy, basis: Basis) -> tuple[np.ndarray, int]:
    """The number of every function within the block, and how many columns the block has."""
    if not basis.joint:
        return np.arange(basis.size), basis.size * len(copy.channels)
    mine = np.zeros(basis.size, dtype=bool)
    for centres in groups:
        for r, channel in enumerate(centres.channels):
            if channel in copy.channels:
                mine[centres.columns[r].cpu().numpy()] = True
    return np.where(mine, np.cumsum(mine) - 1, -1), int(mine.sum())


def _sites(groups: Sequence[Centres], renumbered: np.ndarray, width: int) -> np.ndarray:
    """A number for the point each column of the block sits at; groups are apart."""
    found, start = np.zeros(width, dtype=np.int64), 0
    for centres in groups:
        for columns in centres.columns.cpu().numpy():
            own = renumbered[columns]
            found[own[own >= 0]] = start + np.arange(columns.shape[0])[own >= 0]
        start += centres.points.shape[0]
    return found


def _same(a: Tensor, b: Tensor) -> bool:
    return a is b or (a.shape == b.shape and torch.equal(a, b))


def density(pattern: Pattern) -> float:
    """Share of the entries that are stored."""
    return pattern.count / max(1, pattern.shape[0] * pattern.shape[1])
