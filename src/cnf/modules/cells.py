"""Sums over the functions of the cell that a point lies in: polynomials, chosen ones, those of corners and edges."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from cnf.bases.basis import values_request
from cnf.bases.corner_functions import CornerFunctions, chebyshev_table
from cnf.bases.edge_functions import EdgeFunctions
from cnf.bases.local_functions import Given, LocalFunctions, Products
from cnf.bases.looked_into import is_looked_into
from cnf.bases.piecewise import Boxes
from cnf.modules.everywhere import requests_of
from cnf.modules.frozen import Frozen
from cnf.modules.nearby import in_pieces
from cnf.modules.places import place_of
from cnf.modules.recorded import recordable
from cnf.systems.tied import CellExpansion

AT_ONCE = 2**20  # weights of points


class SumsOfCells(nn.Module):
    """(P, D) -> (P, C)."""

    centre: Tensor  # (cells, D)
    half_sides: Tensor  # (cells, D)
    weights: Tensor  # (cells, n, C)
    singular: Tensor  # (cells, extra, C)
    at_corner: Tensor  # (cells,): -1 where there is none

    def __init__(self, expansion: CellExpansion):
        super().__init__()
        evaluator, weights = expansion.evaluator, expansion.by_cell.detach()
        known = evaluator.exponents.shape[0]
        self.channels = weights.shape[2]
        assert not isinstance(evaluator.cells, Boxes)  # what workers have of some cells
        self.place = place_of(evaluator.cells)
        self.functions = functions_of(evaluator.functions)
        low, high = torch.from_numpy(evaluator.cells.lower), torch.from_numpy(evaluator.cells.upper)
        self.register_buffer("centre", ((low + high) / 2).to(weights.dtype))
        self.register_buffer("half_sides", ((high - low) / 2).to(weights.dtype))
        self.register_buffer("weights", self.functions.filled_up(weights[:, :known]))
        self.register_buffer("singular", weights[:, known:].clone())
        corner = np.full(evaluator.cells.count, -1) if evaluator.at_corner is None else evaluator.at_corner
        self.register_buffer("at_corner", torch.from_numpy(corner))
        self.corners = nn.ModuleList([Singular(corner, self.channels) for corner in evaluator.corners])

    def forward(self, points: Tensor) -> Tensor:
        return in_pieces(self._piece, points, self.weights.shape[1] * self.channels, AT_ONCE)

    def _piece(self, points: Tensor) -> Tensor:
        cell = self.place(points)
        half = self.half_sides[cell]
        z = (points - self.centre[cell]) / half
        found = self.functions(z, half, cell, self.weights)
        for k, corner in enumerate(self.corners):
            there = self.at_corner[cell] == k
            if is_looked_into():
                away = torch.where(there[:, None], points, points.new_tensor(corner.elsewhere))
                found = found + torch.where(there[:, None], corner(away, z, half, self.singular[cell]), 0.0)
                continue
            rows = torch.nonzero(there)[:, 0]
            if rows.numel():
                own = corner(points[rows], z[rows], half[rows], self.singular[cell[rows]])
                found = found.index_add(0, rows, own)
        return found


class SumsOfProducts(nn.Module):
    """Chebyshev polynomials multiplied, times the weights of the cell."""

    def __init__(self, products: Products):
        super().__init__()
        self.given, self.whole = products, Products(products.degree)
        _ = self.whole.columns  # worked out now, not while something looks into it

    def filled_up(self, weights: Tensor) -> Tensor:
        """Weights (cells, n, C) with zeros for the products that are left out."""
        return self.given.as_products(weights).flatten(2).transpose(1, 2).contiguous()

    def forward(self, z: Tensor, half: Tensor, cell: Tensor, weights: Tensor) -> Tensor:
        channels = weights.shape[2]
        if not is_looked_into():
            return self.whole.sums(z, half, cell, requests_of(z, channels), weights)
        found = weights[cell].transpose(1, 2)  # (P, C, n)
        for k, degree in enumerate(self.whole.degree):  # one coordinate after the other
            table = chebyshev_table(z[:, k], degree)
            found = (table[:, None, :, None] * found.unflatten(2, (degree + 1, -1))).sum(dim=2)
        return found[:, :, 0]


class SumsOfGiven(nn.Module):
    """The functions of a basis on the cell from -1 to 1, times the weights of the cell."""

    def __init__(self, given: Given):
        super().__init__()
        self.evaluator = Frozen(recordable(given.basis, given.dimension))

    def filled_up(self, weights: Tensor) -> Tensor:
        """As they are."""
        return weights.clone()

    def forward(self, z: Tensor, half: Tensor, cell: Tensor, weights: Tensor) -> Tensor:
        rows = self.evaluator.thing().rows(z, [values_request(z.shape[1], z)])[:, 0]  # (P, n)
        return (rows[:, :, None] * weights[cell]).sum(dim=1)


class Singular(nn.Module):
    """The functions of a corner, or of edges, times the weights of the cell."""

    def __init__(self, functions: CornerFunctions | EdgeFunctions, channels: int):
        super().__init__()
        if isinstance(functions, CornerFunctions):
            dimension, centres = 2, [functions.centre]
        else:
            dimension, centres = 3, [edge.across.centre for edge in functions.edges]
        self.functions, self.count = functions, functions.count
        # Away from all of them, where no function bends without limit.
        self.elsewhere = [1.0 + max(abs(v) for centre in centres for v in centre)] * dimension
        self.derivatives = Frozen([functions.derivative((0,) * dimension, c) for c in range(channels)])

    def forward(self, points: Tensor, z: Tensor, half: Tensor, weights: Tensor) -> Tensor:
        """Weights (P, extra, C) -> (P, C)."""
        found = [
            (self.functions.values(points, z, half, given) * weights[:, : self.count, c]).sum(dim=1)
            for c, given in enumerate(self.derivatives.thing())
        ]
        return torch.stack(found, dim=1)


def functions_of(functions: LocalFunctions) -> SumsOfProducts | SumsOfGiven:
    """What a cell has beside functions of corners."""
    if isinstance(functions, Products):
        return SumsOfProducts(functions)
    assert isinstance(functions, Given)
    return SumsOfGiven(functions)
