"""Places: which cell, or which patch of a cover, a point belongs to, by tensors alone."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from cnf.bases.cells import Cells
from cnf.bases.cover import OUTSIDE, Cover
from cnf.bases.looked_into import is_looked_into


class CellOf(nn.Module):
    """The cell of every point, as `Cells.locate` has it: down the tree of cuts as often as it is deep."""

    axis: Tensor  # of the cut of every node, -1 for a leaf
    position: Tensor
    child: Tensor  # (nodes, 2)

    def __init__(self, cells: Cells):
        super().__init__()
        axis, position, child = cells.tree
        self.depth = _depth_of(axis, child)
        self.register_buffer("axis", torch.from_numpy(axis))
        self.register_buffer("position", torch.from_numpy(position))
        self.register_buffer("child", torch.from_numpy(child))

    def forward(self, points: Tensor) -> Tensor:
        node = torch.zeros_like(points[:, 0], dtype=torch.int64)
        for _ in range(self.depth):
            axis = self.axis[node]
            along = points.gather(1, axis.clamp_min(0)[:, None])[:, 0]
            below = self.child[node]
            onward = torch.where(along >= self.position[node], below[:, 1], below[:, 0])
            node = torch.where(axis < 0, node, onward)
        return self.child[node, 0]


def _depth_of(axis: np.ndarray, child: np.ndarray) -> int:
    level, depth = np.array([0]), 0
    while (cut := level[axis[level] >= 0]).size:
        level, depth = child[cut].ravel(), depth + 1
    return depth


class PatchOf(nn.Module):
    """The patch of every point, as `Cover.locate` has it."""

    patch: Tensor  # (cells, regions)
    last: Tensor  # (regions,): the region that points of a region belong to; there may be no rest
    fills: Tensor  # (patches,)
    lower: Tensor  # (patches, D), their frames
    upper: Tensor
    cell_lower: Tensor  # (cells, D)
    cell_upper: Tensor

    def __init__(self, cover: Cover):
        super().__init__()
        self.cell, self.partition, self.dimension = CellOf(cover.cells), cover.partition, cover.dimension
        used = (cover.patch != OUTSIDE).any(axis=0)
        last = np.where(used, np.arange(len(used)), np.flatnonzero(used)[-1])
        given = {"patch": cover.patch, "last": last, "fills": cover.fills, "lower": cover.lower, "upper": cover.upper}
        for name, array in given.items():
            self.register_buffer(name, torch.from_numpy(array))
        self.register_buffer("cell_lower", torch.from_numpy(cover.cells.lower))
        self.register_buffer("cell_upper", torch.from_numpy(cover.cells.upper))

    def forward(self, points: Tensor) -> Tensor:
        own = torch.zeros_like(points[:, 0], dtype=torch.int64)
        if self.partition is not None:
            own = self.last[self.partition.number_of(points)]
        cell = self.cell(points)
        found = self.patch[cell, own]
        on_cut = points == self.cell_lower[cell]  # (P, D)
        if is_looked_into() or bool(on_cut.any()):
            for axis in range(self.dimension):
                found = self._settled(points, own, found, axis, on_cut[:, axis] & (found != OUTSIDE))
        if is_looked_into():
            return torch.where(found == OUTSIDE, self._nearest(points, own), found)
        lost = torch.nonzero(found == OUTSIDE)[:, 0]
        return found.index_copy(0, lost, self._nearest(points[lost], own[lost])) if lost.numel() else found

    def _settled(self, points: Tensor, own: Tensor, found: Tensor, axis: int, on_cut: Tensor) -> Tensor:
        """Points on a cut across an axis, in the patch below where that one knows more; see `Cover`."""
        limits = torch.finfo(points.dtype)
        along = points[:, axis]
        step = torch.zeros_like(points)
        step[:, axis] = limits.eps * along.abs() + limits.tiny
        other = self.patch[self.cell(points - step), own]
        beside, upper = self._beside(points, other), self._beside(points, found)
        surer = (beside == upper) & self.fills[other.clamp_min(0)] & ~self.fills[found.clamp_min(0)]
        return torch.where(on_cut & (other != OUTSIDE) & ((beside < upper) | surer), other, found)

    def _beside(self, points: Tensor, patch: Tensor) -> Tensor:
        """How far points lie beside the frames of patches, squared."""
        low, high = self.lower[patch.clamp_min(0)], self.upper[patch.clamp_min(0)]
        return torch.maximum(low - points, points - high).clamp_min(0.0).square().sum(dim=1)

    def _nearest(self, points: Tensor, own: Tensor) -> Tensor:
        """The patch of the nearest cell that has one in the region of the point."""
        x = points[:, None]
        away = torch.maximum(self.cell_lower - x, x - self.cell_upper).clamp_min(0.0).square().sum(dim=2)  # (P, cells)
        there = self.patch.T[own]
        away = torch.where(there == OUTSIDE, torch.inf, away)
        return there.gather(1, away.argmin(dim=1)[:, None])[:, 0]


def place_of(cells: Cells | Cover) -> nn.Module:
    """Points (P, D) -> cells or patches (P,)."""
    return PatchOf(cells) if isinstance(cells, Cover) else CellOf(cells)
