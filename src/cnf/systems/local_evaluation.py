"""Local evaluation of a solved field: every query looks only at the functions whose support it lies in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from cnf.bases.kernels import KernelProfile
from cnf.bases.local import EDGE, LocalEvaluator, SourceEvaluator, Strengths
from cnf.bases.plain_kernel import PlainKernel
from cnf.fetching import array_of, is_here, sent
from cnf.operators.expansion import Probe, Request, combine
from cnf.operators.jets import MultiIndex, add
from cnf.systems.source_sums import strengths_of

PAIRS = 2**16  # pairs evaluated at once: few enough for their arrays to stay in the cache
POINTS = 2**15  # points whose neighbours are looked for at once

Contribution = Callable[[Tensor, Tensor, Tensor, Sequence[Request]], Tensor]  # x, p, q, requests -> (J, E)
Finish = Callable[[Tensor, Sequence[Request]], Tensor]  # sums (J, P), requests -> (P, K)


def sum_over_neighbours(
    evaluator: LocalEvaluator, weights: Tensor, probes: Sequence[Probe], shape: tuple[int, int]
) -> Tensor:
    """L f for the operator that the probes (of P points) stand for: (P, R); weights (N, C), or joint (N,)."""
    support = evaluator.support
    assert support is not None
    scale = array_of(support)
    trees = [cKDTree(_scaled(g.points, scale)) for g in evaluator.centres]
    way = _of_sources if isinstance(evaluator, SourceEvaluator) else _of_functions

    def look(probe: Probe) -> Tensor:
        return total([way(evaluator, weights, probe, g, tree, scale) for g, tree in enumerate(trees)])  # type: ignore[arg-type]

    return sum_probes(look, probes, weights.new_zeros(shape))


def sum_probes(look: Callable[[Probe], Tensor], probes: Sequence[Probe], found: Tensor) -> Tensor:
    """What `look` finds at the points of every probe, (P * nodes, K), summed over nodes and added to `found` (P, R).

    Points that are not finite are looked at as zero, for a search for neighbours cannot bear them, and give NaN.
    """
    for probe in probes:
        sound = torch.isfinite(probe.points.detach()).all(dim=1)[:, None]
        if not bool(sound.all()):
            probe = replace(probe, points=torch.where(sound, probe.points, torch.zeros_like(probe.points)))
        part = torch.where(sound, look(probe), torch.nan)  # as a dense evaluation has it
        if probe.nodes > 1:
            part = part.reshape(-1, probe.nodes, part.shape[1]).sum(dim=1)
        found = found.index_add(1, torch.tensor(probe.rows, device=found.device), part)
    return found


def _scaled(points: Tensor, scale: np.ndarray) -> np.ndarray:
    return array_of(points) / scale


def _of_functions(
    evaluator: LocalEvaluator, weights: Tensor, probe: Probe, group: int, tree: cKDTree, scale: np.ndarray
) -> Tensor:
    """Any local basis: its functions at the pairs, times their weights; (P, K)."""
    columns = evaluator.centres[group].columns

    def contribution(x: Tensor, p: Tensor, q: Tensor, requests: Sequence[Request]) -> Tensor:
        values = evaluator.paired(x, p, q, requests, group)  # (E, K, R)
        own = columns[:, q].T  # (E, R)
        if weights.dim() == 1:
            return (values * weights[own][:, None]).sum(dim=2).T
        channels = torch.tensor([r.channel for r in requests], device=weights.device)
        return (values * weights[own[:, None], channels[:, None]]).sum(dim=2).T

    return _summed(contribution, len(probe.requests), probe, tree, scale, lambda sums, requests: sums.T)


def _of_sources(
    evaluator: SourceEvaluator, weights: Tensor, probe: Probe, group: int, tree: cKDTree, scale: np.ndarray
) -> Tensor:
    """Derivatives of one kernel: every channel's derivatives are summed first and weighted afterwards; (P, K)."""
    asked = sorted({(r.channel, index) for r in probe.requests for index in r.weights})
    channels = sorted({c for c, _ in asked})
    centres = evaluator.centres[group]
    strengths = {channel: strengths_of(evaluator, weights, group, channel) for channel in channels}

    def contribution(x: Tensor, p: Tensor, q: Tensor, requests: Sequence[Request]) -> Tensor:
        z = x.T[:, p] - centres.points.T[:, q]
        columns = []
        for channel in channels:
            indices = [index for c, index in asked if c == channel]
            columns += derived(evaluator.kernel, z, {b: v[q] for b, v in strengths[channel].items()}, indices)
        return torch.stack(columns)

    def finish(sums: Tensor, requests: Sequence[Request]) -> Tensor:
        return weigh(dict(zip(asked, sums.unbind(), strict=True)), requests)

    return _summed(contribution, len(asked), probe, tree, scale, finish)


def weigh(derivatives: dict[tuple[int, MultiIndex], Tensor], requests: Sequence[Request]) -> Tensor:
    """Derivatives (P,) of the channels -> the weighted sums asked for, (P, K)."""
    parts = []
    for request in requests:
        known = {index: derivatives[request.channel, index][:, None] for index in request.weights}
        parts.append(combine(known, [Request(0, request.weights)])[:, 0, 0])
    return torch.stack(parts, dim=1)


def derived(kernel: KernelProfile, z: Tensor, strengths: Strengths, indices: Sequence[MultiIndex]) -> list[Tensor]:
    """sum_b v_b d^(a + b) k(z) for every a of the indices, each (E,); z (D, E)."""
    if not strengths:
        return [torch.zeros_like(z[0]) for _ in indices]
    highest = max(map(sum, indices)), max(map(sum, strengths))
    if max(highest) <= 1:
        return _first_order(kernel, z, strengths, indices, sum(highest))
    one = torch.ones((), dtype=z.dtype)
    needed = sorted({add(a, b) for a in indices for b in strengths})
    plain = PlainKernel(kernel, z[:, :0].T)
    found = plain._of_differences([d[:, None] for d in z], [Request(0, {i: one}) for i in needed])
    lookup = {index: found[:, k, 0] for k, index in enumerate(needed)}
    sums = [[v * lookup[add(a, b)] for b, v in strengths.items()] for a in indices]
    return [total(parts) for parts in sums]


def total(parts: Sequence[Tensor]) -> Tensor:
    """The sum; of one part, that part."""
    return sum(parts[1:], parts[0])


def _first_order(
    kernel: KernelProfile, z: Tensor, strengths: Strengths, indices: Sequence[MultiIndex], order: int
) -> list[Tensor]:
    """Values and gradients of sources of order 0 and 1, in closed form.

    With y = z / length, s = |y|^2, and c the first-order strengths over the lengths:
    F = v k + 2 k' (c . y),   dF/dy = (2 k' v + 4 k'' (c . y)) y + 2 k' c.
    """
    inverse = kernel.scaled(torch.ones(z.shape[0], dtype=z.dtype, device=z.device))
    y = [row * length for row, length in zip(z, inverse, strict=True)]
    slopes = kernel.profile(total([row * row for row in y]), order)
    value, axes = None, {}
    for b, v in strengths.items():
        if sum(b):
            axes[b.index(1)] = v * inverse[b.index(1)]
        else:
            value = v
    dot = total([c * y[k] for k, c in axes.items()]) if axes else y[0]
    along: Tensor | None = None
    found = []
    for a in indices:
        if not sum(a):
            parts = [value * slopes[0]] if value is not None else []
            parts += [2 * slopes[1] * dot] if axes else []
            found.append(total(parts))
            continue
        if along is None:
            parts = [2 * slopes[1] * value] if value is not None else []
            parts += [4 * slopes[2] * dot] if axes else []
            along = total(parts)
        k = a.index(1)
        slope = along * y[k]
        if k in axes:
            slope = slope + 2 * slopes[1] * axes[k]
        found.append(slope * inverse[k])
    return found


def sum_segments(values: Tensor, counts: np.ndarray) -> Tensor:
    """Consecutive stretches of (J, E), `counts` (S,) long, each added up: (J, S)."""
    if not is_here(values) or (torch.is_grad_enabled() and values.requires_grad):
        owner = sent(np.repeat(np.arange(counts.shape[0]), counts), values)
        return values.new_zeros(values.shape[0], counts.shape[0]).index_add(1, owner, values)
    found = np.zeros((values.shape[0], counts.shape[0]))
    held = np.flatnonzero(counts)  # reduceat has no empty stretches
    if held.shape[0]:
        starts = (np.cumsum(counts) - counts)[held]
        found[:, held] = np.add.reduceat(values.detach().numpy(), starts, axis=1)
    return torch.from_numpy(found).to(values)


def _summed(
    contribution: Contribution, width: int, probe: Probe, tree: cKDTree, scale: np.ndarray, finish: Finish
) -> Tensor:
    """Contributions of all pairs within reach added up point by point, (P, K), in pieces."""
    results = []
    for start in range(0, probe.points.shape[0], POINTS):
        rows = slice(start, min(start + POINTS, probe.points.shape[0]))
        x, requests = probe.points[rows], [r.at(rows) for r in probe.requests]
        pairs = cKDTree(_scaled(x, scale)).sparse_distance_matrix(tree, EDGE, output_type="ndarray")
        sums = x.new_zeros(width, x.shape[0])
        for first in range(0, pairs.shape[0], PAIRS):
            part = pairs[first : first + PAIRS]
            p, q = (sent(part[name].astype(np.int64), x) for name in ("i", "j"))
            again = torch.is_grad_enabled() and pairs.shape[0] > PAIRS
            given = (x, p, q, requests)
            values = checkpoint(contribution, *given, use_reentrant=False) if again else contribution(*given)
            sums = sums.index_add(1, p, values) if torch.is_grad_enabled() else sums.index_add_(1, p, values)
        results.append(finish(sums, requests))
    return results[0] if len(results) == 1 else torch.cat(results)
