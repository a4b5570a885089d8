"""Local functions: what a cell of `Piecewise` has for functions, on the reference cell from -1 to 1.

Products of Chebyshev polynomials, or any basis that is shared by the channels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from numpy.polynomial import chebyshev
from torch import Tensor

from cnf.bases.basis import Evaluator
from cnf.bases.corner_functions import chebyshev_table
from cnf.operators.expansion import Request

Index = tuple[int, ...]


class LocalFunctions(Protocol):
    """Functions of the reference cell."""

    @property
    def exponents(self) -> np.ndarray:
        """The degrees of every function along the coordinates, (n, D); 0 for what is no polynomial."""
        ...

    def derivatives(self, z: Tensor, half: Tensor, indices: Iterable[Index]) -> dict[Index, Tensor]:
        """Those of all functions at points z (P, D) of the reference cell, in cells of half sides (P, D): (P, n)."""
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
    def _columns(self) -> Tensor | None:
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

    def derivatives(self, z: Tensor, half: Tensor, indices: Iterable[Index]) -> dict[Index, Tensor]:
        asked = list(indices)
        tables = [self._table(z[:, k], k, {i[k] for i in asked}, half[:, k]) for k in range(z.shape[1])]
        found = {index: _product([t[n] for t, n in zip(tables, index, strict=True)]) for index in asked}
        if self._columns is None:
            return found
        return {index: value[:, self._columns] for index, value in found.items()}

    def _table(self, z: Tensor, axis: int, orders: set[int], half: Tensor) -> dict[int, Tensor]:
        """Derivatives of T_0 .. T_p along one coordinate, each (P, p + 1)."""
        matrix = chebyshev_table(z, self.degree[axis])
        slope = self._slopes[axis].to(z)
        return {
            n: matrix if n == 0 else matrix @ torch.linalg.matrix_power(slope, n) / half[:, None] ** n for n in orders
        }


@dataclass(frozen=True)
class Given:
    """The `count` functions of a basis on the reference cell."""

    basis: Evaluator
    count: int
    dimension: int

    @property
    def exponents(self) -> np.ndarray:
        return np.zeros((self.count, self.dimension), dtype=np.int64)

    def derivatives(self, z: Tensor, half: Tensor, indices: Iterable[Index]) -> dict[Index, Tensor]:
        one, asked = torch.ones((), dtype=z.dtype), list(indices)
        rows = self.basis.rows(z, [Request(0, {index: one}) for index in asked])  # (P, K, n)
        scale = torch.stack([half.pow(half.new_tensor(index)).prod(dim=1) for index in asked], dim=1)  # (P, K)
        return dict(zip(asked, (rows / scale[:, :, None]).unbind(dim=1), strict=True))


def _product(factors: Sequence[Tensor]) -> Tensor:
    """(P, p + 1) per coordinate -> (P, n), the last coordinate fastest."""
    found = factors[0]
    for factor in factors[1:]:
        found = (found[:, :, None] * factor[:, None, :]).flatten(1)
    return found
