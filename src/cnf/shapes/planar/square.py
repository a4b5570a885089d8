"""The square in which planar fields live: points drawn from it at random, evenly spread, or on a grid."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Square:
    """All (x, y) with both coordinates from `low` to `high`; losses draw their points from it."""

    low: float
    high: float

    @property
    def volume(self) -> float:
        return (self.high - self.low) ** 2

    def random(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Independent uniform points (count, 2)."""
        return self._scaled(torch.rand(count, 2, dtype=torch.float64, generator=generator))

    def halton(self, count: int, seed: int = 0) -> Tensor:
        """Evenly spread scrambled Halton points (count, 2), the same for the same seed."""
        from scipy.stats import qmc  # slow to import

        return self._scaled(torch.from_numpy(qmc.Halton(2, scramble=True, rng=seed).random(count)))

    def grid(self, side: int) -> Tensor:
        """(side * side, 2), both ends included; x slow, y fast."""
        along = torch.linspace(self.low, self.high, side, dtype=torch.float64)
        return torch.cartesian_prod(along, along)

    def _scaled(self, unit: Tensor) -> Tensor:
        return self.low + (self.high - self.low) * unit
