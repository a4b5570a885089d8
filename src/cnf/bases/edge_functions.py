"""Edge functions: r^lambda phi(theta) across a straight edge of a solid, times polynomials along it.

The edge runs along a coordinate; in the plane of the two others the functions are those of a corner. A patch at a
vertex has the functions of all its edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.polynomial import chebyshev
from torch import Tensor

from cnf.bases.corner_functions import CornerDerivative, CornerFunctions, chebyshev_table
from cnf.errors import BasisError

MOST_POWERS = 41
PER_POWER = 1 / 3  # a polynomial along the edge counts as a larger exponent, by this per degree


@dataclass(frozen=True, eq=False)
class Edge:
    """`across` the edge along coordinate `axis`, from `low` to `high`: `powers` polynomials along it for each."""

    axis: int
    powers: int
    low: float
    high: float
    across: CornerFunctions

    def __post_init__(self) -> None:
        whole = type(self.axis) is int and type(self.powers) is int
        if not whole or self.axis not in (0, 1, 2) or not 1 <= self.powers <= MOST_POWERS or not self.low < self.high:
            raise BasisError("an edge runs along one of three coordinates, from its lower end to its upper one")

    @property
    def place(self) -> tuple[float, ...]:
        """Where it is: edges with as many functions there are the same."""
        return (self.axis, self.low, self.high, *self.across.centre, self.across.start)

    @property
    def plane(self) -> list[int]:
        return [k for k in range(3) if k != self.axis]

    @property
    def exponents(self) -> np.ndarray:
        """(K powers,), those of higher degrees along the edge counted as larger."""
        return (self.across.exponents[:, None] + PER_POWER * np.arange(self.powers)).ravel()

    def touches(self, lower: np.ndarray, upper: np.ndarray, near: float) -> np.ndarray:
        """Which boxes with corners (n, 3) have a part of it as an edge of theirs, (n,)."""
        found = (lower[:, self.axis] >= self.low - near) & (upper[:, self.axis] <= self.high + near)
        for k, position in zip(self.plane, self.across.centre, strict=True):
            found &= (np.abs(lower[:, k] - position) <= near) | (np.abs(upper[:, k] - position) <= near)
        return found

    def distances(self, points: np.ndarray) -> np.ndarray:
        """(P, 3) -> (P,)."""
        return np.hypot(*(points[:, self.plane] - self.across.centre).T)

    def values(self, x: Tensor, z: Tensor, half: Tensor, given: EdgeDerivative) -> Tensor:
        """A derivative at points (P, 3) with places z (P, 3) in their cells of half sides (P, 3): (P, K powers)."""
        at = self.across.around(x[:, self.plane], half[:, self.plane].amax(dim=1))
        own = self.across.columns(at, given.across)  # (P, K)
        along = chebyshev_table(z[:, self.axis], self.powers - 1) @ given.slope.to(z)
        along = along / half[:, self.axis, None] ** given.order
        return (own[:, :, None] * along[:, None, :]).flatten(1)

    def derivative(self, index: tuple[int, ...], channel: int) -> EdgeDerivative:
        """The derivative `index` of all functions of a channel."""
        across = self.across.derivative(tuple(index[k] for k in self.plane), channel)
        return EdgeDerivative(across, self._slope(index[self.axis]), index[self.axis])

    def _slope(self, order: int) -> Tensor:
        """From coefficients along the edge to those of a derivative, (powers, powers)."""
        found = np.eye(self.powers)
        for _ in range(order):
            lower = chebyshev.chebder(found) if self.powers > 1 else np.zeros((1, 1))
            found = np.zeros_like(found)
            found[: len(lower)] = lower
        return torch.from_numpy(found)


@dataclass(frozen=True)
class EdgeDerivative:
    """The derivative across an edge, and from coefficients along it to those of its derivative of this order."""

    across: CornerDerivative
    slope: Tensor  # (powers, powers)
    order: int


@dataclass(frozen=True)
class EdgeFunctions:
    """Those of all edges that a patch has, one edge after the other."""

    edges: tuple[Edge, ...]

    def as_parts(self) -> list[list[Any]]:
        """As it is saved."""
        return [[e.axis, e.powers, float(e.low), float(e.high), *e.across.as_parts()] for e in self.edges]

    @staticmethod
    def from_parts(given: Sequence[Sequence[Any]]) -> EdgeFunctions:
        """What `as_parts` describes; files come from anywhere, so everything is checked."""
        if not all(len(own) == 9 and all(type(own[k]) is float for k in (2, 3)) for own in given):
            raise BasisError("an edge is saved as its coordinate, its functions along it, both ends and its corner")
        return EdgeFunctions(
            tuple(
                Edge(axis, powers, low, high, CornerFunctions.from_parts(across))
                for axis, powers, low, high, *across in given
            )
        )

    @property
    def count(self) -> int:
        return len(self.exponents)

    @cached_property
    def exponents(self) -> np.ndarray:
        return np.concatenate([e.exponents for e in self.edges])

    @property
    def channels(self) -> int:
        return self.edges[0].across.profiles.shape[2]

    def raised(self, by: int) -> EdgeFunctions:
        """The same with so many more functions along the edges."""
        return EdgeFunctions(tuple(replace(e, powers=max(1, min(e.powers + by, MOST_POWERS))) for e in self.edges))

    def distances(self, points: np.ndarray) -> np.ndarray:
        """Of points (P, 3) from the nearest of the edges, (P,)."""
        return np.min([e.distances(points) for e in self.edges], axis=0)

    def values(self, x: Tensor, z: Tensor, half: Tensor, given: list[EdgeDerivative]) -> Tensor:
        """As of `Edge`, (P, count)."""
        return torch.cat([e.values(x, z, half, d) for e, d in zip(self.edges, given, strict=True)], dim=1)

    def derivative(self, index: tuple[int, ...], channel: int) -> list[EdgeDerivative]:
        """As of `Edge`, edge by edge."""
        return [e.derivative(index, channel) for e in self.edges]


def read_corner(given: CornerFunctions | EdgeFunctions | Sequence) -> CornerFunctions | EdgeFunctions:
    """As it is, or as it is saved: a corner in the plane, or a list of edges in space."""
    if isinstance(given, CornerFunctions | EdgeFunctions):
        return given
    edges = len(given) > 0 and isinstance(given[0], list | tuple) and len(given[0]) == 9
    return EdgeFunctions.from_parts(given) if edges else CornerFunctions.from_parts(given)


def centre_of(given: CornerFunctions | EdgeFunctions) -> tuple[float, float] | None:
    """Where a corner is; edges are everywhere along a line."""
    return given.centre if isinstance(given, CornerFunctions) else None
