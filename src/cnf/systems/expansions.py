"""Expansions over the whole basis: weights (N, C), or (N,) for joint ones, summed globally or over neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from cnf.bases.basis import Basis, Evaluator, values_request
from cnf.bases.local import LocalEvaluator, SourceEvaluator
from cnf.constraints import Constraint
from cnf.fetching import is_here
from cnf.operators.expansion import Probe, Request
from cnf.solvers.solver import Factor
from cnf.systems.assembly import Block, Piece, add_rows, sum_in_pieces
from cnf.systems.formulation import Account, Expansion, last_bits_off
from cnf.systems.local_evaluation import sum_over_neighbours
from cnf.systems.source_sums import SourceSums

ROWS = 2**22  # matrix entries evaluated at once for an operator
VALUES = 2**18  # the same for plain values without gradients: larger matrices leave the cache, 2 to 5 times as slow
ALIKE = 64  # rows of a piece are a multiple: products round the rows at their end in another way than all others
KEEP = 2**23  # entries from which on they are evaluated again in the backward pass, not kept
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

    def missed(self, constraints: Sequence[Constraint], rounding: bool = False) -> dict[tuple[int, int], Tensor]:
        found: dict[tuple[int, int], Tensor] = {}
        with torch.no_grad():
            for block, part in zip(self.blocks, self.parts, strict=True):
                off = (block.matrix @ part - block.targets).abs()
                if rounding:
                    squares = [_summed_squares(block.dense, column) for column in part.unbind(dim=1)]
                    off = off.maximum(torch.finfo(part.dtype).eps * torch.stack(squares, dim=1).sqrt().to(off))
                for k, copy in enumerate(block.layout.copies):
                    pieces = off[:, k].split([constraints[i].points.shape[0] for i, _ in copy.rows])
                    found |= dict(zip(copy.rows, pieces, strict=True))
        return found

    def with_last_bits_off(self) -> Expansion:
        return replace(self, weights=last_bits_off(self.weights))

    def settled(self) -> Expansion:
        return replace(self, account=self.account.settled(), blocks=(), factors=(), parts=())

    def in_precision(self, precision: torch.dtype, name: str, throughout: bool = False) -> Expansion:
        change = getattr(self.evaluator, "in_precision", None)
        if change is None:
            return super().in_precision(precision, name)
        if not throughout:
            return replace(self, evaluator=change(precision))
        weights = self.weights.to(precision)
        if weights.dim() == 2:
            weights = weights.T.contiguous().T  # a product with few columns takes a third of the time
        return replace(self, evaluator=change(precision), weights=weights, blocks=(), factors=(), parts=())


@dataclass(frozen=True, eq=False)
class GlobalExpansion(BasisExpansion):
    """Every function looked at from every point."""

    def values(self, points: Tensor) -> Tensor:
        if not self.shared or self._sources is not None:
            return super().values(points)
        parts = [self._shared_values(piece) for piece in self._pieces(points)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def values_at_once(self, points: Tensor) -> Tensor:
        """`values` without pieces and without a look at the numbers, for what is recorded or transformed."""
        if self.shared:
            return self._shared_values(points)
        requests = [values_request(points.shape[1], points, c) for c in range(self.channels)]
        return self._summed(points, requests)

    def _shared_values(self, points: Tensor) -> Tensor:
        matrix = self.evaluator.rows(points, [values_request(points.shape[1], points)])[:, 0]  # (P, N)
        return matrix @ (self.weights if self.weights.dim() == 2 else self.weights[:, None])

    def applied(self, probes: Sequence[Probe], shape: tuple[int, int]) -> Tensor:
        parts = ((probe, self._in_pieces(self._sums(probe, False), probe)) for probe in probes)
        return add_rows(parts, shape, self.weights.new_zeros(()))

    def measured(self, probes: Sequence[Probe], shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
        both = ((probe, self._in_pieces(self._sums(probe, True), probe)) for probe in probes)  # (P, 2, K) each
        sums, squares = add_rows(both, shape, self.weights.new_zeros(2, dtype=torch.float64)).unbind(dim=1)  # (P, R)
        return sums, torch.finfo(self.weights.dtype).eps * squares.sqrt()

    def _in_pieces(self, piece: Piece, probe: Probe) -> Tensor:
        entries = len(probe.requests) * max(self._width, 1)
        return sum_in_pieces(piece, probe, max(1, ROWS // entries), KEEP // entries)

    def _sums(self, probe: Probe, squares: bool) -> Piece:
        """What sums at some points: (P, K); with `squares`, (P, 2, K), the squares of the terms beside the sums."""
        if self._sources is not None:
            sources = SourceSums.of(self._sources, self.weights, {r.channel for r in probe.requests})
            return lambda points, requests: sources.sums(points, requests, squares)
        return self._summed_and_rounded if squares else self._summed

    @property
    def _width(self) -> int:
        """Functions, or the nodes of the integrals that they come from if these are more."""
        if self._sources is None:
            return self.size
        return max(centres.points.shape[0] for centres in self._sources.centres)

    @cached_property
    def _sources(self) -> SourceEvaluator | None:
        """The evaluator, if its functions are derivatives of one kernel of the coordinates."""
        return self.evaluator if isinstance(self.evaluator, SourceEvaluator) else None

    def _summed(self, points: Tensor, requests: Sequence[Request]) -> Tensor:
        """(P, K)."""
        matrices = self.evaluator.rows(points, requests)  # (P, K, N)
        return torch.stack([matrices[:, k] @ self._weights(r.channel) for k, r in enumerate(requests)], dim=1)

    def _summed_and_rounded(self, points: Tensor, requests: Sequence[Request]) -> Tensor:
        """(P, 2, K): the sums, and the squares of their terms added up."""
        matrices = self.evaluator.rows(points, requests)  # (P, K, N)
        channels = [(matrices[:, k], self._weights(r.channel)) for k, r in enumerate(requests)]
        sums = torch.stack([matrix @ weights for matrix, weights in channels], dim=1)
        squares = torch.stack([_summed_squares(matrix, weights) for matrix, weights in channels], dim=1)
        return torch.stack([sums.to(torch.float64), squares], dim=1)

    def _weights(self, channel: int) -> Tensor:
        return self.weights if self.weights.dim() == 1 else self.weights[:, channel]

    def _pieces(self, points: Tensor) -> Sequence[Tensor]:
        if torch.is_grad_enabled() and (self.weights.requires_grad or points.requires_grad):
            return [points]
        rows = VALUES // max(1, self.size) // ALIKE * ALIKE
        return points.split(max(ALIKE, rows))


def _summed_squares(matrix: Tensor, weights: Tensor) -> Tensor:
    """sum_j (m_pj w_j)^2 in one product; huge coefficients, which make for tiny weights, must not overflow."""
    matrix, weights = matrix.to(torch.float64), weights.to(torch.float64)
    size = weights.abs().max()
    usual = (size == 0) | ((size > 1e-50) & (size < 1e50))
    if not is_here(size) or not bool(usual):
        size = torch.where(usual, 1.0, size)
        matrix, weights = matrix * size, weights / size
    return matrix.square() @ weights.square()


@dataclass(frozen=True, eq=False)
class LocalExpansion(BasisExpansion):
    """Most functions vanish at any one point, so it pays to look for those that do not."""

    def applied(self, probes: Sequence[Probe], shape: tuple[int, int]) -> Tensor:
        assert isinstance(self.evaluator, LocalEvaluator)
        return sum_over_neighbours(self.evaluator, self.weights, probes, shape)


def expand_over(basis: Basis, evaluator: Evaluator, weights: Tensor, account: Account, **kept: Any) -> BasisExpansion:
    """The expansion of these weights, evaluated the way that suits the basis."""
    local = basis.size > MANY and isinstance(evaluator, LocalEvaluator) and evaluator.support is not None
    local = local and is_here(weights)  # the search for neighbours is the host's: elsewhere all functions are looked at
    kind = LocalExpansion if local else GlobalExpansion
    return kind(evaluator, weights, basis.size, len(basis.space.channels), basis.shared, account, **kept)
