"""Local functions: what a cell of `Piecewise` has for functions, on the reference cell from -1 to 1.

Products of Chebyshev polynomials, or any basis that is shared by the channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from numpy.polynomial import chebyshev
from torch import Tensor

from cnf.bases.basis import Evaluator
from cnf.bases.corner_functions import chebyshev_table
from cnf.operators.expansion import Request, combine, wanted

Index = tuple[int, ...]


class LocalFunctions(Protocol):
    """Functions of the reference cell."""

    @property
    def exponents(self) -> np.ndarray:
        """The degrees of every function along the coordinates, (n, D); 0 for what is no polynomial."""
        ...

    def rows(self, z: Tensor, half: Tensor, requests: Sequence[Request]) -> Tensor:
        """What requests ask for of all functions, (P, K, n).

        At points z (P, D) of the reference cell, in cells of half sides (P, D).
        """
        ...

    def sums(self, z: Tensor, half: Tensor, cells: Tensor, requests: Sequence[Request], weights: Tensor) -> Tensor:
        """The same times weights (cells, n, C) of the cells of the points (P,), (P, K)."""
        ...


@dataclass(frozen=True)
class Products:
    """Chebyshev polynomials of `degree` along every coordinate, multiplied.

    Those of the `depth` highest degrees in two of the coordinates `without_corner` at once are left out.
    """

    degree: tuple[int, ...]
    without_corner: tuple[int, ...] = ()
    depth: int = 1

    @cached_property
    def exponents(self) -> np.ndarray:
        grids = np.meshgrid(*[np.arange(p + 1) for p in self.degree], indexing="ij")
        every = np.stack([g.ravel() for g in grids], axis=1)
        top = (every > np.array(self.degree) - self.depth)[:, list(self.without_corner)].sum(axis=1)
        return every[top < 2]

    @cached_property
    def columns(self) -> Tensor | None:
        """Which of all products are functions, None if all are."""
        if self.exponents.shape[0] == int(np.prod([p + 1 for p in self.degree])):
            return None
        return torch.from_numpy(np.ravel_multi_index(self.exponents.T, [p + 1 for p in self.degree]))

    @cached_property
    def _slopes(self) -> list[Tensor]:
        """Per coordinate, the matrix (p + 1, p + 1) from coefficients to those of the derivative."""
        found = []
        for p in self.degree:
            matrix = np.zeros((p + 1, p + 1))
            for k in range(1, p + 1):
                slope = chebyshev.chebder(np.eye(p + 1)[k][: k + 1])
                matrix[: len(slope), k] = slope
            found.append(torch.from_numpy(matrix))
        return found

    def rows(self, z: Tensor, half: Tensor, requests: Sequence[Request]) -> Tensor:
        """What requests ask for of all functions, (P, K, n): every sum of products is worked out and written once."""
        asked = [index for request in requests for index in request.weights]
        tables = [self._table(z[:, k], k, {i[k] for i in asked}, half[:, k]) for k in range(z.shape[1])]
        found = []
        for request in requests:
            total: Tensor | None = None
            for index, weight in request.weights.items():  # the same rounding at every point: a matrix product has not
                *before, end = [t[n] for t, n in zip(tables, index, strict=True)]
                scaled = end * (weight if weight.dim() == 0 else weight[:, None])
                first = _product(before)[:, :, None] if before else scaled.new_ones(())
                part = (first, scaled[:, None, :])
                total = part[0] * part[1] if total is None else torch.addcmul(total, *part)
            assert total is not None
            found.append(total.flatten(1))
        rows = torch.stack(found, dim=1) if len(found) > 1 else found[0][:, None]
        return rows if self.columns is None else rows[:, :, self.columns.to(z.device)]

    def sums(self, z: Tensor, half: Tensor, cells: Tensor, requests: Sequence[Request], weights: Tensor) -> Tensor:
        """What requests ask for of the functions times weights (cells, n, C) of the cells of the points (P,), (P, K).

        One coordinate after the other, the first for all points of a cell at once: no function is ever worked out at
        a point as a whole.
        """
        asked = [index for request in requests for index in request.weights]
        order = torch.argsort(cells, stable=True)
        tables = [self._table(z[order, k], k, {i[k] for i in asked}, half[order, k]) for k in range(z.shape[1])]
        blocks = _blocks(cells[order])
        whole = self.as_products(weights)  # (cells, C, p_1 + 1, rest)
        first: dict[tuple[int, int], Tensor] = {}
        each: dict[tuple[int, Index], Tensor] = {}
        for request in requests:
            for index in request.weights:
                known, key = (request.channel, index[0]), (request.channel, index)
                if known not in first:
                    first[known] = _in_blocks(tables[0][index[0]], whole[:, request.channel], blocks)
                if key not in each:
                    each[key] = _contracted(first[known], [t[n] for t, n in zip(tables[1:], index[1:], strict=True)])
        found = []
        for request in requests:
            parts = [
                each[request.channel, index] * (weight if weight.dim() == 0 else weight[order])
                for index, weight in request.weights.items()
            ]
            found.append(sum(parts[1:], start=parts[0]))
        return torch.empty_like(z[:, :1].expand(-1, len(found))).index_copy(0, order, torch.stack(found, dim=1))

    def as_products(self, weights: Tensor) -> Tensor:
        """Weights (cells, n, C) with those of the products that are left out, (cells, C, p_1 + 1, rest)."""
        by_channel = weights.transpose(1, 2)
        if self.columns is not None:
            every = int(np.prod([p + 1 for p in self.degree]))
            none = weights.new_zeros(weights.shape[0], weights.shape[2], every)
            by_channel = none.index_copy(2, self.columns.to(weights.device), by_channel)
        return by_channel.unflatten(2, (self.degree[0] + 1, -1))

    def _table(self, z: Tensor, axis: int, orders: set[int], half: Tensor) -> dict[int, Tensor]:
        """Derivatives of T_0 .. T_p along one coordinate, each (P, p + 1)."""
        matrix = chebyshev_table(z, self.degree[axis])
        found = {0: matrix}
        for n in orders - {0}:
            slope = torch.linalg.matrix_power(self._slopes[axis].to(z), n)
            found[n] = matrix @ slope / half[:, None] ** n
        return found


def _blocks(cells: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Points of sorted cells (P,) in blocks of cells with as many each: the cells (B,), and their points (B, q)."""
    numbers, counts = torch.unique_consecutive(cells, return_counts=True)
    starts = counts.cumsum(0) - counts
    found = []
    for count in torch.unique(counts).tolist():
        own = counts == count
        found.append((numbers[own], starts[own][:, None] + torch.arange(count, device=cells.device)))
    return found


def _in_blocks(table: Tensor, matrices: Tensor, blocks: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Rows (P, p) times the matrix (p, r) of their cell, out of (cells, p, r): (P, r)."""
    if len(blocks) == 1:
        ((numbers, rows),) = blocks
        return torch.bmm(table.unflatten(0, rows.shape), matrices[numbers]).flatten(0, 1)
    found = table.new_empty(table.shape[0], matrices.shape[2])
    for numbers, rows in blocks:
        own = torch.bmm(table[rows], matrices[numbers])
        found = found.index_copy(0, rows.flatten(), own.flatten(0, 1))
    return found


def _contracted(found: Tensor, tables: Sequence[Tensor]) -> Tensor:
    """(P, n) with the products of all coordinates but the first, summed up with the tables of these: (P,)."""
    for table in tables:
        found = torch.bmm(table[:, None], found.unflatten(1, (table.shape[1], -1)))[:, 0]
    return found[:, 0]


@dataclass(frozen=True)
class Given:
    """The `count` functions of a basis on the reference cell."""

    basis: Evaluator
    count: int
    dimension: int

    @property
    def exponents(self) -> np.ndarray:
        return np.zeros((self.count, self.dimension), dtype=np.int64)

    def rows(self, z: Tensor, half: Tensor, requests: Sequence[Request]) -> Tensor:
        one, asked = torch.ones((), dtype=z.dtype), wanted(requests)
        rows = self.basis.rows(z, [Request(0, {index: one}) for index in asked])  # (P, K, n)
        scale = torch.stack([half.pow(half.new_tensor(index)).prod(dim=1) for index in asked], dim=1)  # (P, K)
        return combine(dict(zip(asked, (rows / scale[:, :, None]).unbind(dim=1), strict=True)), requests)

    def sums(self, z: Tensor, half: Tensor, cells: Tensor, requests: Sequence[Request], weights: Tensor) -> Tensor:
        return summed(self.rows(z, half, requests), weights[cells], requests)


def summed(rows: Tensor, weights: Tensor, requests: Sequence[Request]) -> Tensor:
    """Rows (P, K, n) times weights (P, n, C) of the channels that are asked for, (P, K)."""
    return torch.stack([(rows[:, k] * weights[:, :, r.channel]).sum(dim=1) for k, r in enumerate(requests)], dim=1)


def _product(factors: Sequence[Tensor]) -> Tensor:
    """(P, p + 1) per coordinate -> (P, n), the last coordinate fastest."""
    found = factors[0]
    for factor in factors[1:]:
        found = (found[:, :, None] * factor[:, None, :]).flatten(1)
    return found
