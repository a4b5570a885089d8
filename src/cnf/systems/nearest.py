"""Nearest conditions: one small system per query, of the conditions closest to it and within reach."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from cnf.bases.local import LocalEvaluator
from cnf.errors import BasisError
from cnf.operators.expansion import Request
from cnf.operators.jets import MultiIndex
from cnf.solvers.patches import Patches
from cnf.systems.patch_systems import PatchBlock, solve_systems

QUERIES = 2**13  # queries solved for at once


def solve_for_queries(
    evaluator: LocalEvaluator,
    block: PatchBlock,
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
    where, places = (t.detach().to(torch.float64).cpu().numpy() for t in (x, station.points))
    reach = evaluator.support
    scale = np.ones(()) if reach is None else reach.detach().to(torch.float64).cpu().numpy()
    most = min(solver.neighbours, places.shape[0])
    limit = np.inf if reach is None else 1.0
    found = cKDTree(places / scale).query(where / scale, k=[*range(1, most + 1)], distance_upper_bound=limit)[1]
    table = np.where(found < places.shape[0], found, -1)  # (P, M), nearest first
    counts = (table >= 0).sum(axis=1)
    constant = [solver.outside if not sum(a) else 0.0 for a in indices]
    values = x.new_tensor(constant).expand(x.shape[0], -1).clone()
    order = np.argsort(counts, kind="stable")
    order = order[counts[order] > 0]
    one = torch.ones((), dtype=x.dtype, device=x.device)
    channel = block.layout.copies[0].channels[0]
    requests = [Request(channel, {a: one}) for a in indices]
    for start in range(0, order.shape[0], QUERIES):
        rows = order[start : start + QUERIES]
        chosen = table[rows][:, : counts[rows].max()]
        weights = solve_systems(evaluator, block, [chosen], definite)[0][0][..., copy]  # (B, R, M)
        p = torch.from_numpy(np.repeat(rows, chosen.shape[1]))
        q = station.centres[torch.from_numpy(np.maximum(chosen, 0).reshape(-1))]
        functions = evaluator.paired(x, p, q, requests, station.group)[:, :, list(station.functions)]  # (E, J, R)
        functions = functions.reshape(rows.shape[0], chosen.shape[1], len(indices), -1)
        answer = torch.einsum("bmjr,brm->bj", functions, weights)
        values = values.index_copy(0, torch.from_numpy(rows), answer)
    return values
