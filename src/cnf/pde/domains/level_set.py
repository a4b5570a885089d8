"""LevelSet: the region of plane or space in which a level function is negative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import sympy as sp
from torch import Tensor

from cnf.errors import DomainError
from cnf.pde.domains.boundary import Piece
from cnf.pde.domains.domain import Domain, as_point, check_name, settle
from cnf.pde.domains.level import Level
from cnf.pde.domains.loops import Loops
from cnf.pde.domains.tracing import trace_level
from cnf.pde.domains.zero_surface import ZeroSurface

COORDINATES = ("x", "y", "z")


@dataclass(frozen=True)
class LevelSet(Domain):
    """Where `level` is negative, within the box from `low` to `high`, whose edge it must not reach.

    `level` is an expression in LaTeX, such as "x^2 + 4 y^2 - 1", in the coordinates `coordinates` ("x y z" unless told
    otherwise), a SymPy expression in them, or a function of points (P, D), a float64 tensor, that gives (P,): a signed
    distance, or anything else that goes through zero with a slope. Functions should be differentiable by torch.

    >>> ellipse = cnf.domains.LevelSet("x^2 + 4 y^2 - 1", [-1.5, -1.5], [1.5, 1.5])
    >>> ellipse.contains(torch.tensor([[0.9, 0.0], [0.0, 0.9]], dtype=torch.float64)).tolist()
    [True, False]
    """

    level: Level
    low: tuple[float, ...]
    high: tuple[float, ...]
    name: str | None = None

    def __init__(
        self,
        level: str | sp.Expr | Level | Callable[[Tensor], Tensor],
        lower: Sequence[float],
        upper: Sequence[float],
        name: str | None = None,
        coordinates: str | Sequence[str] | None = None,
    ):
        check_name(name)
        low = as_point(lower, "the lower corner of the box of a level set")
        high = as_point(upper, "the upper corner of the box of a level set")
        if len(low) != len(high) or len(low) not in (2, 3):
            raise DomainError(f"the box of a level set has corners of two or three numbers, got {low} and {high}")
        if not all(a < b for a, b in zip(low, high, strict=True)):
            raise DomainError(f"the lower corner {low} of the box of a level set must lie below the upper one {high}")
        size = max(b - a for a, b in zip(low, high, strict=True))
        settle(self, level=_as_level(level, coordinates, len(low), size), low=low, high=high, name=name)
        bounds = self._body.bounds
        settle(self, lower=tuple(map(float, bounds[0])), upper=tuple(map(float, bounds[1])))

    @property
    def volume(self) -> float:
        return self._body.content

    @cached_property
    def _body(self) -> Loops | ZeroSurface:
        names = (self.name,) if self.name is not None else ()
        if len(self.low) == 3:
            return ZeroSurface.of(self.level, self.low, self.high, names)
        return Loops(tuple(trace_level(self.level, self.low, self.high, names)))

    def _inside(self, points: np.ndarray) -> np.ndarray:
        inside = np.asarray(((points >= self.low) & (points <= self.high)).all(axis=1))
        inside[inside] = self.level.values(points[inside]) <= 0
        return inside

    def _bound(self, points: np.ndarray) -> np.ndarray:
        distance = self._body.distance(points)
        return np.where(self._inside(points), distance, -distance)

    def _outline(self) -> list[Piece]:
        return list(self._body.outline)

    @property
    def _pieces(self) -> list[Piece]:
        return list(self._body.pieces)

    def _section(self, axis: int, value: float) -> Domain | None:
        if isinstance(self._body, Loops):
            return self._body.section(axis, value)
        tiny = 1e-9 * (self.upper[axis] - self.lower[axis])  # flat ends are looked at from within
        inner = min(max(value, self.lower[axis] + tiny), self.upper[axis] - tiny)
        low, high = (box[:axis] + box[axis + 1 :] for box in (self.low, self.high))
        level = self.level.fixed(axis, inner)
        values = level.values(np.stack([g.ravel() for g in np.meshgrid(*map(_steps, low, high))], axis=1))
        return LevelSet(level, low, high) if (values < 0).any() else None


def _steps(low: float, high: float) -> np.ndarray:
    return np.linspace(low, high, 65)


def _as_level(given: object, coordinates: str | Sequence[str] | None, dimension: int, size: float) -> Level:
    names = (
        tuple(coordinates.split()) if isinstance(coordinates, str) else tuple(coordinates or COORDINATES[:dimension])
    )
    if isinstance(given, Level):
        return Level(given.formula, given.names, size)
    if len(names) != dimension:
        raise DomainError(f"a level set of {dimension} dimensions has as many coordinates, got {', '.join(names)}")
    if isinstance(given, str):
        return Level.read(given, names, size)
    if isinstance(given, sp.Expr):
        return Level(given, names, size)
    if callable(given):
        return Level(given, (), size)
    raise DomainError(f"the level of a level set is LaTeX or a function of points, got a {type(given).__name__}")
