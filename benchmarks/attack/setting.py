"""Setting: the space of one random problem, the box its points lie in, and how extreme its numbers may be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

import cnf

COORDINATES = {1: ("x",), 2: ("x y", "x y", "x t"), 3: ("x y z", "x y z", "x y t")}
CHANNELS = ("u", "u v", "u v w")


@dataclass(frozen=True)
class Setting:
    """`lower` and `length` (D,) describe the box; coefficients and values have sizes 10^+-spread."""

    coordinates: tuple[str, ...]
    channels: tuple[str, ...]
    lower: np.ndarray
    length: np.ndarray
    dtype: torch.dtype = torch.float64
    coefficient_spread: float = 0.3
    value_spread: float = 0.3
    narrowest: float = 0.3  # width of peaked coefficients, relative to the box
    peaked: float = 1 / 6  # share of peaks among the formulas
    highest_order: int = 4

    @property
    def space(self) -> cnf.Space:
        return cnf.Space(" ".join(self.coordinates), " ".join(self.channels))

    @property
    def dimension(self) -> int:
        return len(self.coordinates)

    @property
    def spatial(self) -> list[int]:
        """Axes that nabla looks at: time is left out, unless there is nothing else."""
        return [k for k, name in enumerate(self.coordinates) if name != "t"]

    def random_points(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """(P, D), representable in the precision of the field."""
        return self.rounded(self.lower + self.length * rng.random((count, self.dimension)))

    def rounded(self, points: np.ndarray) -> np.ndarray:
        return torch.tensor(points, dtype=self.dtype).double().numpy()

    def magnitude(self, rng: np.random.Generator, spread: float) -> float:
        """A number of either sign, its size 10^+-spread."""
        return float(rng.choice([-1.0, 1.0]) * 10 ** rng.uniform(-spread, spread))


def decimal(value: float) -> tuple[str, float]:
    """A number as LaTeX reads it, six digits without exponent, and what it is then."""
    rounded = float(f"{value:.6g}")
    return np.format_float_positional(rounded, trim="-"), rounded


def draw_setting(rng: np.random.Generator, **changes: object) -> Setting:
    """A unit box with up to three coordinates and channels; `changes` override what is drawn."""
    dimension = int(rng.choice([1, 1, 2, 2, 3]))
    coordinates = tuple(str(rng.choice(COORDINATES[dimension])).split())
    channels = tuple(str(rng.choice(CHANNELS, p=[0.6, 0.25, 0.15])).split())
    box = {"lower": np.zeros(dimension), "length": np.ones(dimension)}
    return Setting(**{"coordinates": coordinates, "channels": channels, **box, **changes})  # type: ignore[arg-type]
