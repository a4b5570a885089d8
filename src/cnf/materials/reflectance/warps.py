"""Reflectance, functions on the unit square: bilinear interpolation, and the warp that makes a density uniform.

Stacks of grids come in, one grid per value of a parameter; values and warped places come out. Axes follow Dupuy and
Jakob's measurements (An Adaptive Parameterization for Efficient Material Acquisition and Rendering, 2018): a place is
(x, y) in the unit square, grids are (rows along y, columns along x) with nodes on the border, and between the values of
the parameter everything, densities and cumulative sums alike, is interpolated linearly.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Slices:
    """Where each query lies between the values of the parameter: `low` (P,), and the `weight` (P,) of `low + 1`."""

    low: Tensor
    weight: Tensor

    @staticmethod
    def at(parameter: Tensor, nodes: Tensor) -> Slices:
        """The two neighbours of `parameter` (P,) among the ascending `nodes` (S,); constant beyond the ends."""
        if len(nodes) == 1:
            return Slices(torch.zeros_like(parameter, dtype=torch.long), torch.zeros_like(parameter))
        low = (torch.searchsorted(nodes, parameter.contiguous()) - 1).clamp(0, len(nodes) - 2)
        weight = (parameter - nodes[low]) / (nodes[low + 1] - nodes[low])
        return Slices(low, weight.clamp(0, 1))


@dataclass(frozen=True)
class Cells:
    """The cell of an (H, W) grid in which each place lies: its `row` and `column` (P,), and the place (x, y) within."""

    row: Tensor
    column: Tensor
    x: Tensor
    y: Tensor

    @staticmethod
    def at(x: Tensor, y: Tensor, rows: int, columns: int) -> Cells:
        """Places (x, y) in the unit square, clamped to it."""
        x, y = x.clamp(0, 1) * (columns - 1), y.clamp(0, 1) * (rows - 1)
        column, row = x.long().clamp(max=columns - 2), y.long().clamp(max=rows - 2)
        return Cells(row, column, x - column, y - row)


class GridStack:
    """Functions of (parameter, x, y) with C channels, linear in each: `values` (S, H, W, C) or (S, H, W)."""

    def __init__(self, values: Tensor):
        self.several = values.ndim == 4
        self.slices, self.rows, self.columns = values.shape[:3]
        self.flat = values.reshape(self.slices * self.rows * self.columns, -1).contiguous()  # (S H W, C)

    def gather(self, slices: Slices, row: Tensor, column: Tensor) -> Tensor:
        """Values at nodes (P,), interpolated in the parameter: (P, C), or (P,) if there is but one channel."""
        index = (slices.low * self.rows + row) * self.columns + column
        found = self.flat[index]  # (P, C)
        if self.slices > 1:
            found = torch.lerp(found, self.flat[index + self.rows * self.columns], slices.weight[:, None])
        return found if self.several else found[:, 0]

    def __call__(self, x: Tensor, y: Tensor, slices: Slices) -> Tensor:
        """Values at (x, y): (P, C) or (P,)."""
        cell = Cells.at(x, y, self.rows, self.columns)
        across, along = (cell.x[:, None], cell.y[:, None]) if self.several else (cell.x, cell.y)
        upper = torch.lerp(
            self.gather(slices, cell.row, cell.column), self.gather(slices, cell.row, cell.column + 1), across
        )
        lower = torch.lerp(
            self.gather(slices, cell.row + 1, cell.column), self.gather(slices, cell.row + 1, cell.column + 1), across
        )
        return torch.lerp(upper, lower, along)


class MarginalWarp:
    """The map of the unit square that makes a bilinear density uniform, one for each value of the parameter.

    For the density p(x, y): y goes to the share of p in the rows below y, then x to the share of p(., y) left of x.
    """

    def __init__(self, density: Tensor):
        """`density` (S, H, W), at least 0 and with a positive integral in every slice; its scale does not matter."""
        across = torch.cumulative_trapezoid(density, dim=2)
        across = torch.nn.functional.pad(across, (1, 0))  # (S, H, W): integral over x up to each node, in cells
        below = torch.nn.functional.pad(torch.cumulative_trapezoid(across[:, :, -1], dim=1), (1, 0))  # (S, H)
        whole = below[:, -1]
        self.rows, self.columns = density.shape[1:]
        self.density = GridStack(density / whole[:, None, None])
        self.across = GridStack(across / whole[:, None, None])
        self.below = GridStack((below / whole[:, None])[:, :, None])

    def __call__(self, x: Tensor, y: Tensor, slices: Slices) -> tuple[Tensor, Tensor]:
        """Where the places (x, y) go, each (P,); 0 where a row has no density at all."""
        cell = Cells.at(x, y, self.rows, self.columns)
        row, column, zero = cell.row, cell.column, torch.zeros_like(cell.row)

        def between_rows(stack: GridStack, place: Tensor) -> Tensor:
            return torch.lerp(stack.gather(slices, row, place), stack.gather(slices, row + 1, place), cell.y)

        left, right = between_rows(self.density, column), between_rows(self.density, column + 1)
        part = between_rows(self.across, column) + cell.x * (left + 0.5 * cell.x * (right - left))
        first = self.across.gather(slices, row, zero + self.columns - 1)
        second = self.across.gather(slices, row + 1, zero + self.columns - 1)
        whole = torch.lerp(first, second, cell.y)
        warped_x = torch.where(whole > 0, part / whole.clamp(min=torch.finfo(whole.dtype).tiny), zero.to(whole.dtype))
        warped_y = self.below.gather(slices, row, zero) + cell.y * (first + 0.5 * cell.y * (second - first))
        return warped_x, warped_y
