"""Local evaluation of a solved field: every query looks only at the functions whose support it lies in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from cnf.bases.local import EDGE, LocalEvaluator
from cnf.operators.expansion import Probe, Request

PAIRS = 2**18  # pairs evaluated at once
POINTS = 2**14  # points whose neighbours are looked for at once


def sum_over_neighbours(
    evaluator: LocalEvaluator, weights: Tensor, probes: Sequence[Probe], shape: tuple[int, int]
) -> Tensor:
    """L f for the operator that the probes (of P points) stand for: (P, R); weights (N, C), or joint (N,)."""
    support = evaluator.support
    assert support is not None
    scale = support.detach().to(torch.float64).cpu().numpy()
    trees = [cKDTree(_scaled(g.points, scale)) for g in evaluator.centres]
    total = weights.new_zeros(shape)
    for probe in probes:
        found = torch.cat([_piece(evaluator, weights, probe, rows, trees, scale) for rows in _stretches(probe)])
        if probe.nodes > 1:
            found = found.reshape(-1, probe.nodes, found.shape[1]).sum(dim=1)
        total = total.index_add(1, torch.tensor(probe.rows, device=total.device), found)
    return total


def _scaled(points: Tensor, scale: np.ndarray) -> np.ndarray:
    return points.detach().to(torch.float64).cpu().numpy() / scale


def _stretches(probe: Probe) -> list[slice]:
    count = probe.points.shape[0]
    return [slice(start, min(start + POINTS, count)) for start in range(0, count, POINTS)]


def _piece(
    evaluator: LocalEvaluator, weights: Tensor, probe: Probe, rows: slice, trees: Sequence[cKDTree], scale: np.ndarray
) -> Tensor:
    """(P', K) for a stretch of the points."""
    x, requests = probe.points[rows], [r.at(rows) for r in probe.requests]
    tree = cKDTree(_scaled(x, scale))
    found = weights.new_zeros(x.shape[0], len(requests))
    for group, centres in enumerate(trees):
        pairs = tree.sparse_distance_matrix(centres, EDGE, output_type="ndarray")
        for start in range(0, pairs.shape[0], PAIRS):
            part = pairs[start : start + PAIRS]
            p, q = (torch.from_numpy(part[name].astype(np.int64)).to(x.device) for name in ("i", "j"))
            given = (evaluator, weights, x, p, q, requests, group)
            kept = torch.is_grad_enabled() and pairs.shape[0] > PAIRS
            values = checkpoint(_weighted, *given, use_reentrant=False) if kept else _weighted(*given)
            found = found.index_add(0, p, values)
    return found


def _weighted(
    evaluator: LocalEvaluator,
    weights: Tensor,
    x: Tensor,
    p: Tensor,
    q: Tensor,
    requests: Sequence[Request],
    group: int,
) -> Tensor:
    """What every pair contributes, summed over the functions of its centre: (E, K)."""
    values = evaluator.paired(x, p, q, requests, group)  # (E, K, R)
    own = evaluator.centres[group].columns[:, q].T  # (E, R)
    if weights.dim() == 1:
        return (values * weights[own][:, None]).sum(dim=2)
    channels = torch.tensor([r.channel for r in requests], device=weights.device)
    return (values * weights[own[:, None], channels[:, None]]).sum(dim=2)
