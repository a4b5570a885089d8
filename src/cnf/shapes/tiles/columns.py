"""Tables on disk: one file for each column of numbers, read and written by ranges of rows.

No file is mapped for that: what a process holds is what it asked for. Only the sums of the winding number, which jump
from place to place in a tree, look at a map (`map_rows`), page by page.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cnf.errors import FileError
from cnf.shapes.tiles.folder import damaged, reading


@dataclass(frozen=True)
class Column:
    """`count` rows of `width` numbers; 0 for a plain row of numbers."""

    path: str
    count: int
    width: int = 0
    kind: str = "<f8"

    @property
    def row_bytes(self) -> int:
        return np.dtype(self.kind).itemsize * max(1, self.width)

    def make(self) -> Column:
        """The file, at its full size."""
        try:
            with Path(self.path).open("wb") as file:
                file.truncate(self.count * self.row_bytes)
        except OSError as error:
            raise FileError(f"cannot write {self.path}: {error.strerror or error}") from None
        return self

    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows from `start` to `stop`, (n,) or (n, width)."""
        with reading(self.path), Path(self.path).open("rb") as file:
            file.seek(start * self.row_bytes)
            found = np.fromfile(file, self.kind, (stop - start) * max(1, self.width))
        if len(found) != (stop - start) * max(1, self.width):
            raise damaged(self.path)
        return found.reshape(-1, self.width) if self.width else found

    def write(self, start: int, rows: np.ndarray) -> None:
        """Put rows from `start` on; others may write other rows meanwhile."""
        try:
            with Path(self.path).open("r+b") as file:
                file.seek(start * self.row_bytes)
                np.ascontiguousarray(rows, dtype=self.kind).tofile(file)
        except FileNotFoundError:
            raise damaged(self.path) from None
        except OSError as error:
            raise FileError(f"cannot write {self.path}: {error.strerror or error}") from None

    def map_rows(self) -> np.ndarray:
        """All rows as an array that is read as it is looked at, without reading ahead."""
        shape = (self.count, self.width) if self.width else (self.count,)
        with reading(self.path):
            found = np.memmap(self.path, self.kind, "r", shape=shape)
        inner = getattr(found, "_mmap", None)
        if inner is not None and hasattr(mmap, "MADV_RANDOM"):
            inner.madvise(mmap.MADV_RANDOM)
        return found.view(np.ndarray)


def quantile_of(column: Column, share: float, at_once: int) -> float:
    """As `np.quantile` of all rows, by counting twice into bins and sorting what is in one of them."""
    place = share * (column.count - 1)
    below = int(np.floor(place))
    low, high = (find_rank(column, min(k, column.count - 1), at_once) for k in (below, below + 1))
    return float(low + (high - low) * (place - below))


BINS = 4096  # into which numbers are counted to find one of a rank


def find_rank(column: Column, rank: int, at_once: int, axis: int = 0) -> float:
    """The number that so many of a column's, or of one of its columns, come before when they are sorted."""

    def pieces() -> Iterator[np.ndarray]:
        for first in range(0, column.count, at_once):
            found = column.read(first, min(first + at_once, column.count))
            yield found[:, axis] if column.width else found

    low, high = np.inf, -np.inf
    for values in pieces():
        low, high = min(low, float(values.min())), max(high, float(values.max()))
    while True:
        below, lowest = 0, 0
        inside, counts, edges = list[np.ndarray](), np.zeros(BINS, dtype=np.int64), np.linspace(low, high, BINS + 1)
        for values in pieces():
            below += int(np.sum(values < low))
            own = values[(values >= low) & (values <= high)]
            lowest += int(np.sum(own == low))
            counts += np.bincount(np.clip(np.searchsorted(edges, own, "right") - 1, 0, BINS - 1), minlength=BINS)
            if counts.sum() <= at_once:
                inside.append(own)
        left = rank - below
        if counts.sum() <= at_once:
            return float(np.partition(np.concatenate(inside), left)[left])
        if np.nextafter(low, np.inf) >= high:  # there is nothing between them: many numbers are the same
            return low if left < lowest else high
        bin_ = int(np.searchsorted(np.cumsum(counts), left, "right"))
        low, high = float(edges[bin_]), float(edges[bin_ + 1])
