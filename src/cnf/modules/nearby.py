"""Sums over functions with compact support: only those that may reach a point are looked at."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from cnf.bases.hybrid import Windowed
from cnf.bases.kernels import KernelProfile
from cnf.bases.local import EDGE, LocalEvaluator, SourceEvaluator, reach_of
from cnf.bases.looked_into import is_looked_into
from cnf.modules.bins import Bins
from cnf.modules.everywhere import requests_of
from cnf.modules.frozen import Frozen, copy_of
from cnf.systems.expansions import LocalExpansion
from cnf.systems.local_evaluation import derived, total
from cnf.systems.source_sums import Group, SourceSums

PAIRS = 2**16  # of a point and a function that may reach it, at once


class SumsOfNearSources(nn.Module):
    """Derivatives of one kernel with compact support, (P, D) -> (P, C)."""

    kernel: KernelProfile

    def __init__(self, expansion: LocalExpansion):
        super().__init__()
        evaluator, self.channels = expansion.evaluator, expansion.channels
        assert isinstance(evaluator, SourceEvaluator)
        groups = SourceSums.of(evaluator, expansion.weights, set(range(self.channels))).groups
        self.kernel = copy_of(evaluator.kernel).requires_grad_(False)
        near = [NearSources(evaluator, group) for group in groups]
        self.groups, self.width = nn.ModuleList(near), max(1, sum(group.bins.width for group in near))

    def forward(self, points: Tensor) -> Tensor:
        return in_pieces(self._piece, points, self.width)

    def _piece(self, points: Tensor) -> Tensor:
        near: list[NearSources] = list(self.groups)  # type: ignore[arg-type]
        parts = [group.sums(self.kernel, points, self.channels) for group in near]
        return total(parts) if parts else points.new_zeros(points.shape[0], self.channels)


class NearSources(nn.Module):
    """Sources of one group, coordinate by coordinate, and one of no strength where bins hold none."""

    places: Tensor  # (D, Q + 1)
    strengths: Tensor  # (J, Q + 1)

    def __init__(self, evaluator: SourceEvaluator, group: Group):
        super().__init__()
        self.names, self.bins = group.names, bins_of(evaluator, group.kernel.anchors)
        anchors = torch.cat([group.kernel.anchors, group.kernel.anchors[:1]])
        self.register_buffer("places", anchors.detach().T.contiguous())
        self.register_buffer("strengths", nn.functional.pad(group.table.detach().T, (0, 1)).contiguous())

    def sums(self, kernel: KernelProfile, points: Tensor, channels: int) -> Tensor:
        """(P, D) -> (P, C)."""
        number = self.bins(points)  # (P, K)
        own = number.flatten()
        z = (points.T[:, :, None] - self.places.index_select(1, own).unflatten(1, number.shape)).flatten(1)  # (D, P K)
        known = self.strengths.index_select(1, own)  # (J, P K)
        value = [(0,) * z.shape[0]]
        found = []
        for channel in range(channels):
            strengths = {b: known[j] for j, (c, b) in enumerate(self.names) if c == channel}
            found += derived(kernel, z, strengths, value)
        return torch.stack([part.unflatten(0, number.shape).sum(dim=1) for part in found], dim=1)


class SumsOfNearFunctions(nn.Module):
    """Any functions with compact support that can be looked at pair by pair, (P, D) -> (P, C)."""

    places: Tensor  # (Q + 1, D), the last for no function at all
    weights: Tensor  # (Q + 1, C)
    inverse: Tensor  # (D,): one over the support

    def __init__(self, expansion: LocalExpansion):
        super().__init__()
        evaluator = expansion.evaluator
        assert isinstance(evaluator, LocalEvaluator)
        (centres,) = evaluator.centres
        self.channels = expansion.channels
        self.evaluator, self.bins = Frozen(evaluator), bins_of(evaluator, centres.points)
        weights = expansion.weights[centres.columns[0]]
        weights = weights[:, None].expand(-1, self.channels) if weights.dim() == 1 else weights
        support = evaluator.support
        assert support is not None
        self.register_buffer("places", nn.functional.pad(centres.points.detach(), (0, 0, 0, 1)))
        self.register_buffer("inverse", 1 / support.detach().expand(centres.points.shape[1]))
        self.register_buffer("weights", nn.functional.pad(weights.detach(), (0, 0, 0, 1)))

    def forward(self, points: Tensor) -> Tensor:
        evaluator = self.evaluator.thing()
        return in_pieces(lambda x: self._piece(x, evaluator), points, self.bins.width)

    def _piece(self, points: Tensor, evaluator: LocalEvaluator) -> Tensor:
        number = self.bins(points)  # (P, K)
        none = number == self.bins.count
        requests = requests_of(points, self.channels)
        if not is_looked_into():  # pairs that are too far apart need not be looked at
            apart = (points[:, None] - self.places[number]) * self.inverse
            p, slot = torch.nonzero(~none & (apart.square().sum(dim=2) <= EDGE), as_tuple=True)
            own = number[p, slot]
            values = evaluator.paired(points, p, own, requests)[:, :, 0] * self.weights[own]
            return points.new_zeros(points.shape[0], self.channels).index_add(0, p, values)
        own = torch.where(none, 0, number)
        p = torch.arange(points.shape[0], device=points.device)[:, None].expand_as(own)
        values = evaluator.paired(points, p.flatten(), own.flatten(), requests)[:, :, 0]  # (E, C)
        values = torch.where(none[:, :, None], 0.0, values.unflatten(0, own.shape))
        return (values * self.weights[number]).sum(dim=1)


def has_pairs(evaluator: object) -> bool:
    """Whether it is looked at pair by pair without whole rows, which the numbers of pairs would decide on."""
    inner = evaluator.inner if isinstance(evaluator, Windowed) else evaluator
    return isinstance(inner, LocalEvaluator) and len(evaluator.centres) == 1  # type: ignore[attr-defined]


def bins_of(evaluator: LocalEvaluator, centres: Tensor) -> Bins:
    """Bins for functions at centres (Q, D) that vanish beyond the support."""
    support = reach_of(evaluator)
    assert support is not None
    where, scale = (t.detach().to(torch.float64).cpu().numpy() for t in (centres, support.expand(centres.shape[1])))
    return Bins(where, torch.ones(len(where), dtype=torch.float64).numpy(), scale)


def in_pieces(piece: Callable[[Tensor], Tensor], points: Tensor, width: int, pairs: int = PAIRS) -> Tensor:
    """`piece` (P, D) -> (P, C), a few points at a time; NaN where a point is not finite, as the field has it."""
    if is_looked_into() or (torch.is_grad_enabled() and points.requires_grad):
        found = piece(points)
    else:
        parts = [piece(part) for part in points.split(max(1, pairs // width))]
        found = parts[0] if len(parts) == 1 else torch.cat(parts)
    return torch.where(torch.isfinite(points).all(dim=1)[:, None], found, torch.nan)
