"""Box: points in an axis-aligned box, on a grid, at random, or on its faces; Interval: the box of one coordinate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cnf.errors import DomainError
from cnf.pde.domains.boundary import Arrays, Curve, End, Patch, Piece, trace_chain
from cnf.pde.domains.domain import Domain, as_number, check_name, settle
from cnf.pde.domains.layouts import cells, halton, lattice, shift


@dataclass(frozen=True)
class Box(Domain):
    """The box between two corners: `Box((0, 0), (1, 2))`; every method returns float64 points (P, D).

    >>> square = cnf.Box([0, 0], [1, 1])
    >>> square.grid(3).shape, square.halton(10).shape, square.face(axis=0, side=1, counts=4).tolist()[0]
    (torch.Size([9, 2]), torch.Size([10, 2]), [1.0, 0.0])
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    name: str | None = None

    def __init__(self, lower: Sequence[float] | float, upper: Sequence[float] | float, name: str | None = None):
        check_name(name)
        try:
            low = (float(lower),) if isinstance(lower, int | float) else tuple(float(v) for v in lower)
            high = (float(upper),) if isinstance(upper, int | float) else tuple(float(v) for v in upper)
        except (TypeError, ValueError):
            raise DomainError(f"the corners of a box are numbers; got {lower!r} and {upper!r}") from None
        if len(low) != len(high) or not low:
            raise DomainError(f"a box needs two corners of the same width, got {low} and {high}")
        if not all(a < b for a, b in zip(low, high, strict=True)):
            raise DomainError(f"the lower corner {low} of a box must lie below the upper corner {high}")
        if not all(map(math.isfinite, low + high)):
            raise DomainError(f"the corners {low} and {high} of a box must be finite")
        settle(self, lower=low, upper=high, name=name)

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

    @property
    def _is_box(self) -> bool:
        return True

    def _bound(self, points: np.ndarray) -> np.ndarray:
        low, high = np.array(self.lower), np.array(self.upper)
        sides = np.minimum(points - low, high - points)
        outside = np.linalg.norm(np.minimum(sides, 0), axis=1)
        return np.where(outside > 0, -outside, sides.min(axis=1))

    def _inside(self, points: np.ndarray) -> np.ndarray:
        within = (points >= np.array(self.lower)) & (points <= np.array(self.upper))
        return np.logical_and.reduce(within, axis=1)

    def _outline(self) -> list[Piece]:
        names = (self.name,) if self.name is not None else ()
        if self.dimension == 1:
            return [End(names, self.lower[0], -1.0), End(names, self.upper[0], 1.0)]
        if self.dimension == 2:
            (x0, y0), (x1, y1) = self.lower, self.upper
            return [trace_chain(np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]]), names)]
        return [self._face_patch(axis, side, names) for axis in range(self.dimension) for side in (0, 1)]

    @property
    def _pieces(self) -> list[Piece]:
        outline = self._outline()
        return [part for piece in outline for part in (piece.split() if isinstance(piece, Curve) else [piece])]

    def _face_patch(self, axis: int, side: int, names: tuple[str, ...]) -> Patch:
        low, high = (np.delete(np.array(v), axis) for v in (self.lower, self.upper))

        def place(count: int, random: np.random.Generator, seed: int) -> Arrays:
            if len(low) <= 3:
                on_face = lattice(low, high, cells(high - low, count), shift(random, seed, len(low)))
            else:  # a grid of many dimensions has too few points along each
                on_face = low + (high - low) * halton(len(low), [seed, axis, side])(count)
            normals = np.zeros((len(on_face), self.dimension))
            normals[:, axis] = 2 * side - 1
            return np.insert(on_face, axis, (self.lower, self.upper)[side][axis], axis=1), normals

        return Patch(names, float(np.prod(high - low)), place)

    def _section(self, axis: int, value: float) -> Box | None:
        if not self.lower[axis] <= value <= self.upper[axis]:
            return None
        keep = [k for k in range(self.dimension) if k != axis]
        return Box([self.lower[k] for k in keep], [self.upper[k] for k in keep])


@dataclass(frozen=True)
class Interval(Box):
    """The interval from `start` to `end`, a domain of one coordinate.

    >>> domain = cnf.domains.Interval(0, 2)
    >>> cnf.domains.to_text(domain), round(domain.volume, 6)
    ('interval [0, 2]', 2.0)
    """

    def __init__(self, start: float, end: float, name: str | None = None):
        low, high = as_number(start, "the start of an interval"), as_number(end, "the end of an interval")
        if not low < high:
            raise DomainError(f"the start {low:g} of an interval must lie below its end {high:g}")
        super().__init__(low, high, name)
