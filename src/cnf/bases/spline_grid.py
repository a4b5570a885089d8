"""Spline grid: a network without layers, a sum of cubic B-splines on a grid with learnable coefficients.

Every point sees the 4^D functions around it and no others, so a grid of many thousand coefficients is evaluated at the
cost of a few dozen products, and fitted by sparse least squares (`places` gives the matrix). Coordinates that close
upon themselves are periodic; at a pole of polar coordinates, where an azimuth loses its meaning, functions that differ
by the azimuth alone share one coefficient, so the field does not depend on it there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor, nn

from cnf.bases.encoders import Encoder
from cnf.errors import BasisError

DEGREE = 3
MOST = 2**26  # functions of a grid: a file may ask for any number


class SplineGrid(Encoder):
    """(P, D) in the unit cube -> (P, outputs); twice continuously differentiable, constant beyond the cube.

    `cells` per coordinate; `periodic` coordinates repeat after 1; `poles` are pairs (coordinate, azimuth): where the
    coordinate is 0, the field does not depend on the azimuth.

    >>> grid = cnf.encoders.SplineGrid([4, 6], outputs=3, periodic=[False, True])
    >>> grid(cnf.Box([0, 0], [1, 1]).random(5)).shape
    torch.Size([5, 3])
    """

    columns: Tensor  # (functions of the whole tensor product,) -> row of `coefficients`

    def __init__(
        self,
        cells: Sequence[int],
        outputs: int,
        periodic: Sequence[bool] | None = None,
        poles: Sequence[Sequence[int]] = (),
    ):
        super().__init__()
        self.cells = tuple(int(n) for n in cells)
        self.periodic = tuple(bool(p) for p in periodic) if periodic is not None else (False,) * len(self.cells)
        self.poles = tuple((int(a), int(b)) for a, b in poles)
        self._check(outputs)
        self.arguments = {
            **{"cells": list(self.cells), "outputs": outputs, "periodic": list(self.periodic)},
            **{"poles": [list(pole) for pole in self.poles]},
        }
        columns, count = self._columns()
        self.register_buffer("columns", columns, persistent=False)
        self.coefficients = nn.Parameter(torch.zeros(count, outputs, dtype=torch.float64))

    def _check(self, outputs: int) -> None:
        if not self.cells or outputs < 1 or len(self.periodic) != len(self.cells):
            raise BasisError(
                f"a spline grid has cells, and whether it repeats, for each coordinate, and at least one output; got "
                f"cells {list(self.cells)}, periodic {list(self.periodic)}, {outputs} outputs"
            )
        for n, closed in zip(self.cells, self.periodic, strict=True):
            if n < (DEGREE + 1 if closed else 1):
                raise BasisError(f"a spline grid needs a cell, four along a periodic coordinate; got {n}")
        if any(a == b or not (0 <= a < len(self.cells) and 0 <= b < len(self.cells)) for a, b in self.poles):
            raise BasisError(f"poles are pairs of two coordinates, numbered from 0; got {list(self.poles)}")
        if self.functions[0] * reduce(lambda a, b: a * b, self.functions[1:], 1) > MOST:
            raise BasisError(f"a spline grid has at most {MOST} functions; got cells {list(self.cells)}")

    @property
    def functions(self) -> tuple[int, ...]:
        """How many functions of one coordinate there are, per coordinate."""
        return tuple(n if closed else n + DEGREE for n, closed in zip(self.cells, self.periodic, strict=True))

    def _columns(self) -> tuple[Tensor, int]:
        """The coefficient of each product of functions, and how many coefficients there are."""
        numbers = torch.arange(reduce(lambda a, b: a * b, self.functions)).reshape(self.functions)
        for axis, azimuth in self.poles:
            first = numbers.select(axis, 0)  # a view: at the pole all share the coefficient of azimuth 0
            along = azimuth - (azimuth > axis)
            first.copy_(first.select(along, 0).unsqueeze(along).expand_as(first).clone())
        kept, columns = torch.unique(numbers, return_inverse=True)
        return columns.reshape(-1), len(kept)

    def places(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Points (P, D) -> which coefficients they see, (P, 4^D) whole numbers, and with what weights, (P, 4^D)."""
        index, weight = self._products(x)
        return (self.columns[index.long()] if self.poles else index.long()), weight

    def _products(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Which products of functions do not vanish at the points, counted in the whole tensor product, and values."""
        index, weight = None, None
        for k, (cells, closed) in enumerate(zip(self.cells, self.periodic, strict=True)):
            own, values = _cyclic(x[:, k], cells) if closed else _clamped(x[:, k], cells)  # (4, P) each
            if index is None or weight is None:
                index, weight = own, values
                continue
            index = ((index * self.functions[k])[:, None] + own).flatten(0, 1)
            weight = (weight[:, None] * values).flatten(0, 1)
        assert index is not None and weight is not None
        return index.T.contiguous(), weight.T.contiguous()  # products of long rows take a fifth of the time

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled() and (x.requires_grad or self.coefficients.requires_grad):
            index, weight = self.places(x)
            return torch.einsum("pk,pkc->pc", weight, self.coefficients[index].to(weight.dtype))
        index, weight = self._products(x)
        coefficients = self.coefficients.to(weight.dtype)
        if self.poles and index.numel() < len(self.columns):
            index = self.columns[index.long()]
        elif self.poles:  # the same numbers, looked up once per function instead of once per function and point
            coefficients = coefficients.index_select(0, self.columns)
        return nn.functional.embedding_bag(index, coefficients, per_sample_weights=weight, mode="sum")


def _cyclic(u: Tensor, cells: int) -> tuple[Tensor, Tensor]:
    """Functions around points of a coordinate that repeats after 1, and their values, (4, P); k is centred on k."""
    z = torch.remainder(u, 1.0) * cells
    cell = z.detach().floor()
    f = z - cell
    weights = [(1 - f) ** 3, 3 * f**3 - 6 * f**2 + 4, -3 * f**3 + 3 * f**2 + 3 * f + 1, f**3]
    steps = torch.arange(-1, 3, dtype=torch.int32, device=u.device)
    return torch.remainder(cell.int() + steps[:, None], cells), torch.stack(weights) / 6


def _clamped(u: Tensor, cells: int) -> tuple[Tensor, Tensor]:
    """As `_cyclic`, on [0, 1] with knots repeated at the ends: there, one function is 1 and the others 0."""
    z = u.clamp(0, 1) * cells
    cell = z.detach().floor().clamp_max(cells - 1)
    values = [torch.ones_like(z)]
    for degree in range(1, DEGREE + 1):  # Cox and de Boor
        left = [z - (cell + 1 - d).clamp_min(0) for d in range(1, degree + 1)]
        right = [(cell + d).clamp_max(cells) - z for d in range(1, degree + 1)]
        saved, found = torch.zeros_like(z), []
        for r in range(degree):
            share = values[r] / (right[r] + left[degree - r - 1])
            found.append(saved + right[r] * share)
            saved = left[degree - r - 1] * share
        values = [*found, saved]
    steps = torch.arange(DEGREE + 1, dtype=torch.int32, device=u.device)
    return cell.int() + steps[:, None], torch.stack(values)
