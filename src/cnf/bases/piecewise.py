"""Piecewise: products of Chebyshev polynomials on every cell, each cell with its own weights.

Across the faces of cells nothing holds by itself: `ties` are the conditions there, L f of one cell equal to L f of the
other. They are met like any condition and measured like any condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.polynomial import chebyshev
from torch import Tensor

from cnf.bases.basis import Basis, check_space, values_request
from cnf.bases.cells import Cells
from cnf.bases.properties import Properties
from cnf.constraints import Constraint, Space
from cnf.errors import BasisError
from cnf.operators.detail import Detail, Even
from cnf.operators.expansion import Request, combine, wanted

HIGHEST = 40  # degree


@dataclass(frozen=True, eq=False)
class Tie:
    """The operator of `condition` must give the same in the cells `first` and `second` (P,) of its points."""

    condition: Constraint
    first: Tensor
    second: Tensor


class Piecewise(Basis):
    """`degree` along every coordinate: (degree + 1)^D functions on each of the cells.

    `without_corner` names coordinates: functions of the highest degree in two of them at once are left out. `time` is
    the coordinate, if any, along which cells come in slabs, each starting from the one before.
    """

    properties = Properties("none", "good", True, True, True, True, "any order inside cells, as tied across them")

    def __init__(
        self,
        space: Space,
        cells: Cells | Tensor,
        degree: int | Sequence[int],
        ties: Sequence[Tie | Sequence] = (),
        without_corner: Sequence[int] = (),
        time: int | None = None,
    ):
        check_space(space)
        dimension = len(space.coordinates)
        given = [degree] * dimension if isinstance(degree, int) else list(degree)
        if len(given) != dimension or not all(isinstance(p, int) and 0 <= p <= HIGHEST for p in given):
            raise BasisError(f"a degree is a whole number from 0 to {HIGHEST}, or one per coordinate; got {degree!r}")
        if isinstance(cells, Tensor):  # as it is saved
            cells = Cells.from_table(cells.detach().to(torch.float64).cpu().numpy(), dimension)
        if cells.dimension != dimension:
            raise BasisError(f"the cells have {cells.dimension} coordinates, the space has {dimension}")
        self.cells, self.degree = cells, tuple(given)
        self.ties = tuple(_checked_tie(tie, cells.count) for tie in ties)
        self.without_corner, self.time = tuple(without_corner), time
        super().__init__(space, cells.count * self.local_size)

    @property
    def local_size(self) -> int:
        """Functions of one cell, n."""
        return self.snapshot().local_size

    @property
    def shared(self) -> bool:
        return True

    @property
    def brought_conditions(self) -> int:
        return sum(tie.condition.rows for tie in self.ties)

    def known_detail(self) -> Detail:
        """As Chebyshev polynomials of that degree on the smallest cell."""
        half = (self.cells.upper - self.cells.lower).min(axis=0) / 2
        return Even(np.array(self.degree) / half)

    def degrees(self) -> np.ndarray:
        """The total degree of every function of a cell, (n,)."""
        return self.snapshot().exponents.sum(axis=1)

    def snapshot(self) -> PiecewiseEvaluator:
        return PiecewiseEvaluator(self.cells, self.degree, self.without_corner)

    def rows(self, x: Tensor, requests: Sequence[Request]) -> Tensor:
        return self.snapshot().rows(x, requests)

    def forward(self, x: Tensor) -> Tensor:
        return self.rows(x, [values_request(self.dimension, x)])[:, 0]

    def config(self) -> dict:
        return {
            "space": self.space,
            "cells": torch.from_numpy(self.cells.table()),
            "degree": list(self.degree),
            "ties": [[tie.condition, tie.first, tie.second] for tie in self.ties],
            "without_corner": list(self.without_corner),
            "time": self.time,
        }


def _checked_tie(given: Tie | Sequence, cells: int) -> Tie:
    tie = given if isinstance(given, Tie) else Tie(*given)
    count = tie.condition.points.shape[0]
    for side in (tie.first, tie.second):
        if side.shape != (count,) or side.is_floating_point() or bool(((side < 0) | (side >= cells)).any()):
            raise BasisError(f"a tie names two of the {cells} cells for each of its {count} points")
    return tie


@dataclass(frozen=True)
class PiecewiseEvaluator:
    """The functions of the cells; `local_rows` looks at those of one cell per point only."""

    cells: Cells
    degree: tuple[int, ...]
    without_corner: tuple[int, ...] = ()

    @cached_property
    def exponents(self) -> np.ndarray:
        """The degrees of every function of a cell, (n, D)."""
        grids = np.meshgrid(*[np.arange(p + 1) for p in self.degree], indexing="ij")
        every = np.stack([g.ravel() for g in grids], axis=1)
        top = (every == np.array(self.degree))[:, list(self.without_corner)].sum(axis=1)
        return every[top < 2]

    @property
    def local_size(self) -> int:
        return self.exponents.shape[0]

    @cached_property
    def _columns(self) -> Tensor | None:
        """Which of all products are functions, None if all are."""
        if self.local_size == int(np.prod([p + 1 for p in self.degree])):
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

    def locate(self, x: Tensor) -> Tensor:
        """The cell of every point, (P,)."""
        return torch.from_numpy(self.cells.locate(x.detach().to(torch.float64).cpu().numpy())).to(x.device)

    def local_rows(self, x: Tensor, cells: Tensor, requests: Sequence[Request]) -> Tensor:
        """Functions of the given cells (P,) at the points (P, D): (P, K, n)."""
        number = cells.cpu().numpy()
        low, high = self.cells.lower[number], self.cells.upper[number]
        centre, half = (torch.from_numpy(a).to(x) for a in ((low + high) / 2, (high - low) / 2))
        z = (x - centre) / half
        indices = wanted(requests)
        tables = [self._table(z[:, k], k, {i[k] for i in indices}, half[:, k]) for k in range(x.shape[1])]
        found = {index: _product([t[n] for t, n in zip(tables, index, strict=True)]) for index in indices}
        if self._columns is not None:
            found = {index: value[:, self._columns] for index, value in found.items()}
        return combine(found, requests)

    def _table(self, z: Tensor, axis: int, orders: set[int], half: Tensor) -> dict[int, Tensor]:
        """Derivatives of T_0 .. T_p along one coordinate, each (P, p + 1)."""
        values = [torch.ones_like(z), z]
        for _ in range(2, self.degree[axis] + 1):
            values.append(2 * z * values[-1] - values[-2])
        matrix = torch.stack(values[: self.degree[axis] + 1], dim=1)
        slope = self._slopes[axis].to(z)
        return {
            n: matrix if n == 0 else matrix @ torch.linalg.matrix_power(slope, n) / half[:, None] ** n for n in orders
        }

    def rows(self, x: Tensor, requests: Sequence[Request]) -> Tensor:
        """(P, K, N), mostly zeros."""
        cells = self.locate(x)
        local = self.local_rows(x, cells, requests)  # (P, K, n)
        n = local.shape[2]
        columns = (cells[:, None] * n + torch.arange(n, device=x.device))[:, None].expand_as(local)
        return x.new_zeros(x.shape[0], local.shape[1], self.cells.count * n).scatter(2, columns, local)


def _product(factors: Sequence[Tensor]) -> Tensor:
    """(P, p + 1) per coordinate -> (P, n), the last coordinate fastest."""
    found = factors[0]
    for factor in factors[1:]:
        found = (found[:, :, None] * factor[:, None, :]).flatten(1)
    return found
