"""Sums over functions that are derivatives of one kernel of the coordinates, sum_q v_bq d^b k(x - y_q).

A derivative a of such a sum is one product of the matrix d^(a + b) k with the strengths v_b per b that occurs, so the
rows of the single functions are never formed: a query costs the kernel's derivatives and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cnf.bases.local import SourceEvaluator, Strengths
from cnf.bases.looked_into import is_recorded
from cnf.bases.plain_kernel import PlainKernel
from cnf.operators.expansion import Request
from cnf.operators.jets import MultiIndex, add

CACHED = 2**16  # pairs of a point and a source evaluated at once without gradients: their matrices stay in the cache


def strengths_of(evaluator: SourceEvaluator, weights: Tensor, group: int, channel: int) -> Strengths:
    """v_b (Q,) of the sources of a group in one channel; weights (N, C), or joint (N,)."""
    centres = evaluator.centres[group]
    own = [r for r, c in enumerate(centres.channels) if c is None or c == channel]
    if not own:
        return {}
    columns = torch.stack([centres.columns[r] for r in own], dim=1)  # (Q, R)
    table = weights[columns]  # (Q, R) or (Q, R, C)
    table = table if table.dim() == 2 else table[..., channel]
    everywhere = torch.arange(centres.points.shape[0], device=weights.device)
    return evaluator.strengths(table, everywhere, own, group)


@dataclass(frozen=True)
class Group:
    """Sources at one set of points: a column of `table` (Q, J) per channel and derivative b in `names`."""

    kernel: PlainKernel
    names: list[tuple[int, MultiIndex]]
    table: Tensor


@dataclass(frozen=True)
class SourceSums:
    """The sources with their strengths worked out."""

    groups: list[Group]

    @staticmethod
    def of(evaluator: SourceEvaluator, weights: Tensor, channels: set[int]) -> SourceSums:
        """For queries of the given channels."""
        groups: list[Group] = []
        for g, centres in enumerate(evaluator.centres):
            known = [(c, strengths_of(evaluator, weights, g, c)) for c in sorted(channels)]
            named = {(c, b): v for c, found in known for b, v in found.items()}
            if named:
                table = torch.stack(list(named.values()), dim=1)
                groups.append(Group(PlainKernel(evaluator.kernel, centres.points), list(named), table))
        return SourceSums(groups)

    @property
    def widest(self) -> int:
        return max((g.table.shape[0] for g in self.groups), default=1)

    def sums(self, x: Tensor, requests: Sequence[Request], squares: bool = False) -> Tensor:
        """(P, D) -> (P, K); with `squares`, (P, 2, K): beside the sums, the squares of their terms added up."""
        if is_recorded():
            return self._piece(x, requests, squares)
        step = x.shape[0] if torch.is_grad_enabled() else max(1, CACHED // self.widest)
        pieces = (slice(start, start + step) for start in range(0, x.shape[0], max(1, step)))
        parts = [self._piece(x[rows], [r.at(rows) for r in requests], squares) for rows in pieces]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _piece(self, x: Tensor, requests: Sequence[Request], squares: bool) -> Tensor:
        zero = x.new_zeros(x.shape[0])
        sums = [zero] * len(requests)
        rounded = [zero.to(torch.float64)] * len(requests)
        for group in self.groups:
            uses: dict[MultiIndex, list[tuple[int, Tensor, int]]] = {}  # (request, its weight, column of the table)
            for k, request in enumerate(requests):
                for a, weight in request.weights.items():
                    for j, (channel, b) in enumerate(group.names):
                        if channel == request.channel:
                            uses.setdefault(add(a, b), []).append((k, weight, j))
            for index, matrix in group.kernel.derivatives(x, sorted(uses)) if uses else ():
                found = matrix @ group.table  # (P, J)
                terms = _squared_terms(matrix, group.table) if squares else found
                for k, weight, j in uses[index]:
                    sums[k] = sums[k] + weight * found[:, j]
                    if squares:
                        rounded[k] = rounded[k] + (weight.to(torch.float64) * terms[:, j]).square()
        total = torch.stack(sums, dim=1)
        return torch.stack([total.to(torch.float64), torch.stack(rounded, dim=1)], dim=1) if squares else total


def _squared_terms(matrix: Tensor, table: Tensor) -> Tensor:
    """The root of sum_q (m_pq v_qj)^2, (P, J)."""
    size = table.detach().abs().max()
    size = torch.where(size == 0, 1.0, size)  # squares of huge or tiny strengths must not overflow
    wide = (table.to(torch.float64) / size).square()
    return size * (matrix.to(torch.float64).square() @ wide).sqrt()
