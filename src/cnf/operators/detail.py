"""Detail: how fast a function may vary, and where; what an integral over it must resolve.

Bases, base networks and fields say it of themselves (`detail()`). The pace of a function is the number of natural units
(radians of a wave, widths of a peak) it may go through per unit of length along each coordinate, bounded over whole
boxes: nothing narrower than a unit of the pace can hide between nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

PAIRS = 2**22  # boxes times centres looked at at once
AT_CENTRE = 1e-2  # squared distance, in lengths, at which a line passes a kink so closely that it has one


@runtime_checkable
class Detail(Protocol):
    """`doubt` says why the pace is not known; empty if it is."""

    @property
    def doubt(self) -> str: ...

    def pace(self, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        """Boxes (B, D) -> (B, D); infinite where there is a kink, zero where the functions vanish to rounding."""
        ...

    def kinks(self, axis: int, lines: np.ndarray) -> np.ndarray:
        """Where along a coordinate the functions have kinks or jumps, on lines through the points (P, D); sorted."""
        ...


@dataclass(frozen=True)
class Even:
    """The same pace everywhere: waves, kernels of the coordinates that may sit anywhere."""

    paces: np.ndarray  # (D,)
    doubt: str = ""

    def pace(self, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        return np.broadcast_to(self.paces, lower.shape)

    def kinks(self, axis: int, lines: np.ndarray) -> np.ndarray:
        return np.empty(0)


def unknown(dimension: int, why: str) -> Even:
    """Nothing is known."""
    return Even(np.zeros(dimension), why)


def of_lengths(lengths: np.ndarray) -> Even:
    """Functions that vary over no shorter distance than `lengths` (D,)."""
    return Even(2 / lengths)


@dataclass(frozen=True)
class Peaks:
    """Functions that sit at centres (N, D), with lengths (N, D), and vanish `reach` lengths away; `units` per length.

    `edges`: distances from the centre, in lengths, where a function has kinks. `paces` (N, D) if a function varies
    faster than its extent tells, being skewed.
    """

    centres: np.ndarray
    lengths: np.ndarray
    units: float
    reach: float
    edges: tuple[float, ...] = ()
    paces: np.ndarray | None = None
    doubt: str = ""

    def pace(self, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        found = np.zeros(lower.shape)
        step = max(1, PAIRS // max(1, self.centres.size))
        fastest = self.units / self.lengths if self.paces is None else self.units * self.paces
        for start in range(0, lower.shape[0], step):
            low, high = (edge[start : start + step, None] for edge in (lower, upper))
            gaps = np.maximum(0.0, np.maximum(low - self.centres, self.centres - high)) / self.lengths  # (b, N, D)
            near = (gaps**2).sum(axis=2) <= self.reach**2
            found[start : start + step] = np.where(near[..., None], fastest, 0.0).max(axis=1)
        return found

    def kinks(self, axis: int, lines: np.ndarray) -> np.ndarray:
        if not self.edges or lines.shape[0] * self.centres.size > PAIRS:
            return np.empty(0)
        beside = [k for k in range(self.centres.shape[1]) if k != axis]
        passing = (((lines[:, None] - self.centres) / self.lengths)[..., beside] ** 2).sum(axis=2)  # (P, N)
        found = []
        for edge in self.edges:
            left = np.sqrt(np.maximum(edge**2 - passing, 0.0))
            met = passing <= max(edge**2, AT_CENTRE)
            found += [(self.centres[:, axis] + sign * left * self.lengths[:, axis])[met] for sign in (-1, 1)]
        return np.unique(np.concatenate(found))


@dataclass(frozen=True)
class Poles:
    """Functions that are singular at centres (N, D): the nearer, the faster."""

    centres: np.ndarray
    doubt: str = ""

    def pace(self, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        gaps = np.maximum(0.0, np.maximum(lower[:, None] - self.centres, self.centres - upper[:, None]))
        with np.errstate(divide="ignore"):
            fastest = 4 / np.sqrt((gaps**2).sum(axis=2)).min(axis=1)
        return np.repeat(fastest[:, None], lower.shape[1], axis=1)

    def kinks(self, axis: int, lines: np.ndarray) -> np.ndarray:
        return np.empty(0)


@dataclass(frozen=True)
class Together:
    """Functions side by side, or multiplied."""

    parts: Sequence[Detail]

    @property
    def doubt(self) -> str:
        return "; ".join(dict.fromkeys(part.doubt for part in self.parts if part.doubt))

    def pace(self, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        return np.maximum.reduce([part.pace(lower, upper) for part in self.parts])

    def kinks(self, axis: int, lines: np.ndarray) -> np.ndarray:
        return np.unique(np.concatenate([part.kinks(axis, lines) for part in self.parts]))


@dataclass(frozen=True)
class Windowed:
    """Functions times windows, outside which they vanish."""

    functions: Detail
    windows: Detail

    @property
    def doubt(self) -> str:
        return self.functions.doubt

    def pace(self, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        windows = self.windows.pace(lower, upper)
        seen = (windows > 0).any(axis=1)
        found = np.zeros(lower.shape)
        if seen.any():
            found[seen] = windows[seen] + self.functions.pace(lower[seen], upper[seen])
        return found

    def kinks(self, axis: int, lines: np.ndarray) -> np.ndarray:
        return np.union1d(self.functions.kinks(axis, lines), self.windows.kinks(axis, lines))
