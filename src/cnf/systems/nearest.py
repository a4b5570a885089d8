"""Nearest conditions: one small system per query, of the conditions closest to it and within reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import nan

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from cnf.bases.local import LocalEvaluator
from cnf.errors import BasisError
from cnf.fetching import array_of, sent
from cnf.operators.expansion import Probe, Request
from cnf.operators.jets import MultiIndex
from cnf.solvers.patches import Patches
from cnf.systems.formulation import Account, Expansion, last_bits_off
from cnf.systems.local_evaluation import weigh
from cnf.systems.patch_systems import PatchBlock, QueriedExpansion, solve_systems

QUERIES = 2**13  # queries solved for at once


@dataclass(frozen=True, eq=False)
class NearestExpansion(QueriedExpansion):
    """A small system for every query, of the nearest conditions within reach; `targets` (m, k) of every block."""

    evaluator: LocalEvaluator
    patches: Patches
    cells: tuple[PatchBlock, ...]
    targets: tuple[Tensor, ...]
    channels: int
    definite: bool
    account: Account

    @property
    def weights(self) -> Tensor:  # type: ignore[override]
        """None are kept: the right-hand sides stand for them."""
        return torch.cat([t.reshape(-1) for t in self.targets])

    @property
    def like(self) -> Tensor:
        return self.targets[0]

    @property
    def weight_norm(self) -> Tensor:
        return torch.tensor(nan)

    def state(self) -> dict[str, Tensor]:
        return {f"targets.{b}": t.detach() for b, t in enumerate(self.targets)}

    def with_last_bits_off(self) -> Expansion:
        return replace(self, targets=tuple(last_bits_off(t) for t in self.targets))

    def queried(self, probe: Probe) -> Tensor:
        asked = sorted({(r.channel, a) for r in probe.requests for a in r.weights})
        found: dict[tuple[int, MultiIndex], Tensor] = {}
        for channel in sorted({c for c, _ in asked}):
            indices = [a for c, a in asked if c == channel]
            values = probe.points.new_zeros(probe.points.shape[0], len(indices))
            for block, side in zip(self.cells, self.targets, strict=True):
                copies = [k for k, copy in enumerate(block.layout.copies) if channel in copy.channels]
                if copies:
                    values = solve_for_queries(
                        self.evaluator, block, side, copies[0], probe.points, indices, self.patches, self.definite
                    )
            found |= {(channel, a): values[:, k] for k, a in enumerate(indices)}
        return weigh(found, probe.requests)


def solve_for_queries(
    evaluator: LocalEvaluator,
    block: PatchBlock,
    targets: Tensor,
    copy: int,
    x: Tensor,
    indices: Sequence[MultiIndex],
    solver: Patches,
    definite: bool,
) -> Tensor:
    """Derivatives (P, J) at queries x (P, D); the constant `outside` where no condition is within reach."""
    if len(block.stations) != 1:
        raise BasisError("Patches(mode='local') takes conditions of one kind, at one set of points; use mode='blend'")
    station = block.stations[0]
    where, places = array_of(x), array_of(station.points)
    reach = evaluator.support
    scale = np.ones(()) if reach is None else array_of(reach)
    most = min(solver.neighbours, places.shape[0])
    limit = np.inf if reach is None else 1.0
    found = cKDTree(places / scale).query(where / scale, k=[*range(1, most + 1)], distance_upper_bound=limit)[1]
    table = np.where(found < places.shape[0], found, -1)  # (P, M), nearest first
    counts = (table >= 0).sum(axis=1)
    constant = [solver.outside if not sum(a) else 0.0 for a in indices]
    values = x.new_tensor(constant).expand(x.shape[0], -1).clone()
    order = np.argsort(counts, kind="stable")
    order = order[counts[order] > 0]
    one = torch.ones((), dtype=x.dtype)
    channel = block.layout.copies[0].channels[0]
    requests = [Request(channel, {a: one}) for a in indices]
    for start in range(0, order.shape[0], QUERIES):
        rows = order[start : start + QUERIES]
        chosen = table[rows][:, : counts[rows].max()]
        weights = solve_systems(evaluator, block, targets, [chosen], definite)[0][0][..., copy]  # (B, R, M)
        p = sent(np.repeat(rows, chosen.shape[1]), x)
        q = station.centres[sent(np.maximum(chosen, 0).reshape(-1), x)]
        functions = evaluator.paired(x, p, q, requests, station.group)[:, :, list(station.functions)]  # (E, J, R)
        functions = functions.reshape(rows.shape[0], chosen.shape[1], len(indices), -1)
        answer = torch.einsum("bmjr,brm->bj", functions, weights)
        values = values.index_copy(0, sent(rows, x), answer)
    return values
