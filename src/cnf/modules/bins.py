"""Bins: which of many things may reach a point, looked up by tensors alone.

A grid of boxes lies over all that the things reach; every box knows the numbers of those that reach into it, in a table
that is filled up to the longest row. Trees find no more than is needed, but nothing that records operations can follow
them.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import torch
from torch import Tensor, nn

FINENESS = (4, 3, 2, 1)  # boxes per reach, the finest first
FINER = (16, 12, 8, 6, *FINENESS)  # where looking at a thing that does not reach a point costs much
MOST = 2**23  # numbers in the table, boxes of the grid
PAIRS = 2**24  # of a thing and a box that are looked at


class Bins(nn.Module):
    """Things at `centres` (n, D), each with its reach `radii` (n,): numbers of those that may reach points.

    Distances are those of the coordinates over `scale` (D,).
    """

    origin: Tensor  # (D,)
    inverse: Tensor  # (D,): one over the sides of a box
    row: Tensor  # of the table, (boxes,)
    table: Tensor  # (rows, most): numbers of things, n where there is none; the last row is empty

    def __init__(self, centres: np.ndarray, radii: np.ndarray, scale: np.ndarray, fine: tuple[int, ...] = FINENESS):
        super().__init__()
        places, self.count = centres / scale, len(centres)
        found = _arranged(places, radii, fine)
        sides = scale * found.side
        self.shape = found.shape
        self.register_buffer("origin", torch.from_numpy(found.origin * scale))
        self.register_buffer("inverse", torch.from_numpy(1 / sides))
        self.register_buffer("row", torch.from_numpy(found.row))
        self.register_buffer("table", torch.from_numpy(found.table))

    @property
    def width(self) -> int:
        """How many there are for every point."""
        return self.table.shape[1]

    def forward(self, points: Tensor) -> Tensor:
        """(P, D) -> (P, width), `count` where there is none."""
        place = torch.floor((points - self.origin) * self.inverse)
        number = torch.zeros_like(place[:, 0], dtype=torch.int64)
        inside = torch.ones_like(number, dtype=torch.bool)
        for k, size in enumerate(self.shape):
            inside = inside & (place[:, k] >= 0) & (place[:, k] < size)
            along = torch.nan_to_num(place[:, k]).clamp(0, size - 1)
            number = number * size + along.to(torch.int64)
        empty = self.table.shape[0] - 1
        return self.table[torch.where(inside, self.row[number], empty)]


class _Arranged:
    """The grid as arrays."""

    def __init__(self, places: np.ndarray, radii: np.ndarray, boxes: float):
        self.side = float(np.median(radii)) / boxes
        low, high = (places - radii[:, None]).min(axis=0), (places + radii[:, None]).max(axis=0)
        self.origin = low - self.side / 2
        self.sizes = np.floor((high - self.origin) / self.side).astype(np.int64) + 1
        self.shape = tuple(int(n) for n in self.sizes)

    def fits(self, radii: np.ndarray) -> bool:
        """Whether it is small enough to be filled."""
        pairs = ((2 * radii / self.side + 2) ** len(self.shape)).sum()
        return bool(np.prod(self.sizes.astype(float)) <= MOST and pairs <= PAIRS)

    def fill(self, places: np.ndarray, radii: np.ndarray) -> bool:
        """Row and table; False if they are too large."""
        owner, box = self._pairs(places, radii)
        order = np.lexsort((owner, box))
        owner, box = owner[order], box[order]
        filled, starts, counts = np.unique(box, return_index=True, return_counts=True)
        most = int(counts.max())
        if (len(filled) + 1) * most > MOST:
            return False
        self.row = np.full(int(np.prod(self.sizes)), len(filled), dtype=np.int64)
        self.row[filled] = np.arange(len(filled))
        self.table = np.full((len(filled) + 1, most), len(places), dtype=np.int64)
        rows = np.repeat(np.arange(len(filled)), counts)
        self.table[rows, np.arange(len(owner)) - np.repeat(starts, counts)] = owner
        return True

    def _pairs(self, places: np.ndarray, radii: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Things and the boxes that they reach into, each (E,)."""
        first = np.floor((places - radii[:, None] - self.origin) / self.side).astype(np.int64)
        last = np.floor((places + radii[:, None] - self.origin) / self.side).astype(np.int64)
        strides = np.append(np.cumprod(self.sizes[:0:-1])[::-1], 1)
        owners, boxes = [], []
        for step in product(*(range(n) for n in (last - first).max(axis=0) + 1)):
            at = first + np.array(step)
            low = self.origin + at * self.side
            away = np.maximum(np.maximum(low - places, places - low - self.side), 0.0)
            near = (at <= last).all(axis=1) & (np.square(away).sum(axis=1) <= np.square(radii * (1 + 1e-9)))
            owners.append(np.flatnonzero(near))
            boxes.append((at[near] * strides).sum(axis=1))
        return np.concatenate(owners), np.concatenate(boxes)


def _arranged(places: np.ndarray, radii: np.ndarray, fine: tuple[int, ...]) -> _Arranged:
    """The finest grid that is small enough."""

    for boxes in (*fine, *(2.0**-k for k in range(1, 40))):
        found = _Arranged(places, radii, boxes)
        if found.fits(radii) and found.fill(places, radii):
            return found
    raise AssertionError("one box holds everything")
