"""Expansions over the whole basis: weights (N, C), or (N,) for joint ones, summed globally or over neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from cnf.bases.basis import Basis, Evaluator, values_request
from cnf.bases.local import LocalEvaluator
from cnf.constraints import Constraint
from cnf.operators.expansion import Probe
from cnf.solvers.solver import Factor
from cnf.systems.assembly import Block, in_pieces
from cnf.systems.formulation import Account, Expansion
from cnf.systems.local_evaluation import sum_over_neighbours

ROWS = 2**22  # matrix entries evaluated at once when no gradient is kept
MANY = 256  # functions from which on a compactly supported basis is evaluated neighbour by neighbour


@dataclass(frozen=True)
class FactorAccount(Account):
    """The factors of all blocks; `served` counts the right-hand sides solved with each."""

    factors: tuple[Factor, ...]
    served: tuple[int, ...]

    @property
    def name(self) -> str:  # type: ignore[override]
        return " + ".join(dict.fromkeys(f.name for f in self.factors))

    @property
    def notes(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(dict.fromkeys(note for f in self.factors for note in f.notes))

    @property
    def shared(self) -> int:  # type: ignore[override]
        return max(self.served, default=1)

    def rank(self) -> int:
        return sum(f.rank * k for f, k in zip(self.factors, self.served, strict=True))

    def condition(self) -> float:
        return max((f.condition() for f in self.factors), default=1.0)


@dataclass(frozen=True, eq=False)
class BasisExpansion(Expansion):
    """One weight per function and channel. `shared`: all channels use the same functions."""

    evaluator: Evaluator
    weights: Tensor
    size: int
    channels: int
    shared: bool
    account: Account
    blocks: tuple[Block, ...] = ()
    factors: tuple[Factor, ...] = ()
    parts: tuple[Tensor, ...] = ()  # of every block, (n, k)

    def state(self) -> dict[str, Tensor]:
        return {"weights": self.weights.detach()}

    def missed(self, constraints: Sequence[Constraint]) -> dict[tuple[int, int], Tensor]:
        found = {}
        with torch.no_grad():
            for block, part in zip(self.blocks, self.parts, strict=True):
                off = (block.matrix @ part - block.targets).abs()
                for k, copy in enumerate(block.layout.copies):
                    pieces = off[:, k].split([constraints[i].points.shape[0] for i, _ in copy.rows])
                    found |= dict(zip(copy.rows, pieces, strict=True))
        return found

    def settled(self) -> Expansion:
        return replace(self, account=self.account.settled(), blocks=(), factors=(), parts=())

    def in_precision(self, precision: torch.dtype, name: str) -> Expansion:
        change = getattr(self.evaluator, "in_precision", None)
        return super().in_precision(precision, name) if change is None else replace(self, evaluator=change(precision))


@dataclass(frozen=True, eq=False)
class GlobalExpansion(BasisExpansion):
    """Every function looked at from every point."""

    def values(self, points: Tensor) -> Tensor:
        if not points.shape[0]:
            return self.weights.new_zeros(0, self.channels)
        if self.shared:
            parts = [self._shared_values(piece) for piece in self._pieces(points, 1)]
        else:
            requests = [values_request(points.shape[1], points, c) for c in range(self.channels)]
            parts = [
                torch.stack([row[:, c] @ self._weights(c) for c in range(self.channels)], dim=1)
                for piece in self._pieces(points, len(requests))
                for row in [self.evaluator.rows(piece, requests)]
            ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _shared_values(self, points: Tensor) -> Tensor:
        matrix = self.evaluator.rows(points, [values_request(points.shape[1], points)])[:, 0]  # (P, N)
        return matrix @ (self.weights if self.weights.dim() == 2 else self.weights[:, None])

    def applied(self, probes: Sequence[Probe], shape: tuple[int, int]) -> Tensor:
        count, rows = shape
        found: dict[int, Tensor] = {}
        for probe in probes:
            matrices = in_pieces(self.evaluator, probe.points, probe.requests, probe.nodes, self.size)  # (P, K, N)
            for k, r in enumerate(probe.rows):
                part = matrices[:, k] @ self._weights(probe.requests[k].channel)
                found[r] = found[r] + part if r in found else part
        zero = self.weights.new_zeros(count)
        return torch.stack([found.get(r, zero) for r in range(rows)], dim=1)

    def _weights(self, channel: int) -> Tensor:
        return self.weights if self.weights.dim() == 1 else self.weights[:, channel]

    def _pieces(self, points: Tensor, requests: int) -> Sequence[Tensor]:
        if torch.is_grad_enabled() and (self.weights.requires_grad or points.requires_grad):
            return [points]
        return points.split(max(1, ROWS // max(1, self.size * requests)))


@dataclass(frozen=True, eq=False)
class LocalExpansion(BasisExpansion):
    """Most functions vanish at any one point, so it pays to look for those that do not."""

    def values(self, points: Tensor) -> Tensor:
        channels = range(self.channels)
        requests = tuple(values_request(points.shape[1], points, c) for c in channels)
        return self.applied([Probe(points, 1, tuple(channels), requests)], (points.shape[0], self.channels))

    def applied(self, probes: Sequence[Probe], shape: tuple[int, int]) -> Tensor:
        assert isinstance(self.evaluator, LocalEvaluator)
        return sum_over_neighbours(self.evaluator, self.weights, probes, shape)


def expand_over(basis: Basis, evaluator: Evaluator, weights: Tensor, account: Account, **kept: Any) -> BasisExpansion:
    """The expansion of these weights, evaluated the way that suits the basis."""
    local = basis.size > MANY and isinstance(evaluator, LocalEvaluator) and evaluator.support is not None
    kind = LocalExpansion if local else GlobalExpansion
    return kind(evaluator, weights, basis.size, len(basis.space.channels), basis.shared, account, **kept)
