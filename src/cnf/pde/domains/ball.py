"""Ball: all points within a radius, in any dimension; Disk: the ball of two coordinates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cnf.errors import DomainError
from cnf.pde.domains.boundary import Arrays, End, Patch, Piece, trace_circle
from cnf.pde.domains.box import Interval
from cnf.pde.domains.domain import Domain, as_number, as_point, check_name, settle
from cnf.pde.domains.layouts import halton

GOLDEN_ANGLE = math.pi * (3 - math.sqrt(5))


@dataclass(frozen=True)
class Ball(Domain):
    """The ball around `center` (D numbers); an interval if D is 1, a disk if D is 2.

    >>> domain = cnf.domains.Ball([0, 0, 0], 1)
    >>> cnf.domains.to_text(domain), round(domain.volume, 6)
    ('ball at (0, 0, 0) of radius 1', 4.18879)
    """

    center: tuple[float, ...]
    radius: float
    name: str | None = None

    def __init__(self, center: Sequence[float], radius: float, name: str | None = None):
        kind = type(self).__name__.lower()
        middle = as_point(center, f"the center of a {kind}")
        size = as_number(radius, f"the radius of a {kind}")
        if size <= 0:
            raise DomainError(f"the radius of a {kind} must be positive, got {size:g}")
        check_name(name)
        settle(self, center=middle, radius=size, name=name)
        settle(self, lower=tuple(c - size for c in middle), upper=tuple(c + size for c in middle))

    @property
    def volume(self) -> float:
        half = self.dimension / 2
        return math.exp(half * math.log(math.pi) + self.dimension * math.log(self.radius) - math.lgamma(half + 1))

    def _bound(self, points: np.ndarray) -> np.ndarray:
        return self.radius - np.sqrt(self._square(points))

    def _inside(self, points: np.ndarray) -> np.ndarray:
        return self._square(points) <= self.radius**2

    def _square(self, points: np.ndarray) -> np.ndarray:
        offset = points - np.array(self.center)
        return np.einsum("pd,pd->p", offset, offset)  # several times faster than a norm: holes may be many

    def _outline(self) -> list[Piece]:
        names = (self.name,) if self.name is not None else ()
        if self.dimension == 1:
            return [End(names, self.lower[0], -1.0), End(names, self.upper[0], 1.0)]
        if self.dimension == 2:
            return [trace_circle(self.center, self.radius, names)]
        return [Patch(names, self.dimension * self.volume / self.radius, self._place)]

    @property
    def _pieces(self) -> list[Piece]:
        return self._outline()

    def _place(self, count: int, random: np.random.Generator, seed: int) -> Arrays:
        """Points on the sphere: along a spiral in three dimensions, quasi-random in more."""
        if self.dimension == 3:
            height = 1 - (2 * np.arange(count) + 1) / count
            angle, width = GOLDEN_ANGLE * np.arange(count), np.sqrt(1 - height**2)
            normals = np.stack([width * np.cos(angle), width * np.sin(angle), height], axis=1)
            if seed:
                turn, upper = np.linalg.qr(random.standard_normal((3, 3)))
                normals = normals @ (turn * np.sign(np.diag(upper))).T
        else:
            normals = _directions(halton(self.dimension, seed)(count))
        return np.array(self.center) + self.radius * normals, normals

    def _section(self, axis: int, value: float) -> Domain | None:
        rest = self.radius**2 - (value - self.center[axis]) ** 2
        if rest <= (1e-9 * self.radius) ** 2:
            return None
        center, radius = self.center[:axis] + self.center[axis + 1 :], math.sqrt(rest)
        return Interval(center[0] - radius, center[0] + radius) if len(center) == 1 else Ball(center, radius)

    # A ball of many dimensions is a tiny part of its bounding box: propose points of the ball itself.

    @property
    def _unit_dimension(self) -> int:
        return self.dimension if self.dimension <= 3 else self.dimension + 1

    def _propose(self, unit: np.ndarray) -> np.ndarray:
        if self.dimension <= 3:
            return super()._propose(unit)
        distance = self.radius * unit[:, -1:] ** (1 / self.dimension)
        return np.array(self.center) + distance * _directions(unit[:, :-1])


@dataclass(frozen=True)
class Disk(Ball):
    """The disk around `center` (two numbers).

    >>> domain = cnf.domains.Disk([0, 0], 1, name="rim")
    >>> cnf.domains.to_text(domain), round(domain.volume, 6)
    ("disk 'rim' at (0, 0) of radius 1", 3.141593)
    """

    def __init__(self, center: Sequence[float], radius: float, name: str | None = None):
        super().__init__(center, radius, name)
        if len(self.center) != 2:
            raise DomainError(f"the center of a disk is two numbers, got {len(self.center)}; a Ball has any number")


def _directions(unit: np.ndarray) -> np.ndarray:
    """Unit numbers (P, D) as unit vectors, uniform over all directions."""
    from scipy.special import ndtri

    normal = ndtri(np.clip(unit, 1e-12, 1 - 1e-12))
    return normal / np.linalg.norm(normal, axis=1, keepdims=True)
