"""Box: points in an axis-aligned box, on a grid, at random, or on its faces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cnf.errors import ConstraintError


@dataclass(frozen=True)
class Box:
    """The box between two corners: `Box((0, 0), (1, 2))`; every method returns float64 points (P, D)."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]

    def __init__(self, lower: Sequence[float] | float, upper: Sequence[float] | float):
        try:
            low = (float(lower),) if isinstance(lower, int | float) else tuple(float(v) for v in lower)
            high = (float(upper),) if isinstance(upper, int | float) else tuple(float(v) for v in upper)
        except (TypeError, ValueError):
            raise ConstraintError(f"the corners of a box are numbers; got {lower!r} and {upper!r}") from None
        if len(low) != len(high) or not low:
            raise ConstraintError(f"a box needs two corners of the same width, got {low} and {high}")
        if not all(a < b for a, b in zip(low, high, strict=True)):
            raise ConstraintError(f"the lower corner {low} of a box must lie below the upper corner {high}")
        object.__setattr__(self, "lower", low)
        object.__setattr__(self, "upper", high)

    @property
    def dimension(self) -> int:
        return len(self.lower)

    @property
    def volume(self) -> float:
        result = 1.0
        for a, b in zip(self.lower, self.upper, strict=True):
            result *= b - a
        return result

    def grid(self, counts: int | Sequence[int]) -> Tensor:
        """Regular grid with the given number of points per coordinate, corners included."""
        per_axis = [counts] * self.dimension if isinstance(counts, int) else list(counts)
        axes = [
            torch.linspace(a, b, n, dtype=torch.float64)
            for a, b, n in zip(self.lower, self.upper, per_axis, strict=True)
        ]
        return torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).reshape(-1, self.dimension)

    def random(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Independent uniform points."""
        unit = torch.rand(count, self.dimension, dtype=torch.float64, generator=generator)
        return self._scaled(unit)

    def halton(self, count: int, seed: int = 0) -> Tensor:
        """Evenly spread scrambled Halton points, the same for the same seed."""
        from scipy.stats import qmc

        return self._scaled(torch.from_numpy(qmc.Halton(self.dimension, scramble=True, rng=seed).random(count)))

    def face(self, axis: int, side: int, counts: int | Sequence[int]) -> Tensor:
        """Grid on one face: coordinate `axis` at its lower (side 0) or upper (side 1) end."""
        if self.dimension == 1:
            return torch.tensor([[(self.lower, self.upper)[side][axis]]], dtype=torch.float64)
        keep = [k for k in range(self.dimension) if k != axis]
        grid = Box([self.lower[k] for k in keep], [self.upper[k] for k in keep]).grid(counts)
        column = torch.full((grid.shape[0], 1), (self.lower, self.upper)[side][axis], dtype=torch.float64)
        return torch.cat([grid[:, :axis], column, grid[:, axis:]], dim=1)

    def boundary(self, counts: int) -> Tensor:
        """Grids on all faces, shared edges and corners once."""
        faces = torch.cat([self.face(axis, side, counts) for axis in range(self.dimension) for side in (0, 1)])
        return torch.unique(faces, dim=0)

    def _scaled(self, unit: Tensor) -> Tensor:
        lower, upper = (torch.tensor(v, dtype=torch.float64) for v in (self.lower, self.upper))
        return lower + (upper - lower) * unit
