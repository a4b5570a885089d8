"""Timed: a domain of space during an interval of time; time is the last coordinate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cnf.errors import DomainError
from cnf.pde.domains.boundary import Piece
from cnf.pde.domains.box import Interval
from cnf.pde.domains.domain import Domain, Sample, as_number, check_count, check_seed, settle
from cnf.pde.domains.layouts import shift


@dataclass(frozen=True)
class Timed(Domain):
    """`space` (D - 1 coordinates) from `start` to `end`; its boundary is that of space at all times.

    Normals have D - 1 components: a normal derivative knows only space. Start and end are slices of the last axis.

    >>> domain = cnf.domains.Timed(cnf.domains.Interval(0, 1), 0, 2)
    >>> cnf.domains.to_text(domain), round(domain.volume, 6)
    ('interval [0, 1], t in [0, 2]', 2.0)
    """

    space: Domain
    start: float
    end: float

    def __init__(self, space: Domain, start: float, end: float):
        if not isinstance(space, Domain):
            raise DomainError(f"Timed takes a domain of space such as Box or Disk, got a {type(space).__name__}")
        if isinstance(space, Timed):
            raise DomainError("this domain has a time interval already; give Timed the domain of space")
        first, last = as_number(start, "the start of time"), as_number(end, "the end of time")
        if not first < last:
            raise DomainError(f"the start of time {first:g} must lie before its end {last:g}")
        settle(self, space=space, start=first, end=last, name=space.name)
        settle(self, lower=(*space.lower, first), upper=(*space.upper, last))

    @property
    def volume(self) -> float:
        return self.space.volume * (self.end - self.start)

    def boundary_points(self, count: int, seed: int = 0, part: str | None = None) -> Sample:
        """About `count` points on the boundary of space at all times (P, D), and normals (P, D - 1)."""
        check_count(count)
        check_seed(seed)
        time, measure = self.end - self.start, self.space.boundary_measure(part)
        if self.space.dimension == 1:
            moments = max(1, round(count / measure))
        else:
            spacing = (measure * time / count) ** (1 / self.space.dimension)
            moments = min(max(1, round(time / spacing)), count)
        around = self.space.boundary_points(max(1, round(count / moments)), seed, part)
        offset = shift(np.random.default_rng([seed, 1]), seed, 1)[0]
        times = torch.from_numpy(self.start + time * (np.arange(moments) + offset) / moments)
        points = torch.cat([around.points.repeat(moments, 1), times.repeat_interleave(len(around))[:, None]], dim=1)
        assert around.normals is not None
        return Sample(points, around.normals.repeat(moments, 1))

    def boundary_measure(self, part: str | None = None) -> float:
        """Measure of the boundary of space times the duration."""
        return self.space.boundary_measure(part) * (self.end - self.start)

    @property
    def _pieces(self) -> list[Piece]:
        return list(self.space._pieces)  # for the names; points and measures come from above

    def _bound(self, points: np.ndarray) -> np.ndarray:
        return np.minimum(self.space._bound(points[:, :-1]), self._time_left(points))

    def _depth(self, points: np.ndarray) -> np.ndarray:
        return np.minimum(self.space._depth(points[:, :-1]), self._time_left(points))

    def _inside(self, points: np.ndarray) -> np.ndarray:
        return self.space._inside(points[:, :-1]) & (self._time_left(points) >= 0)

    def _time_left(self, points: np.ndarray) -> np.ndarray:
        return np.minimum(points[:, -1] - self.start, self.end - points[:, -1])

    def _section(self, axis: int, value: float) -> Domain | None:
        if axis == self.dimension - 1:
            return self.space
        if self.space.dimension == 1:
            here = self.space.contains([[value]], -1e-12 * self.space._size).item()
            return Interval(self.start, self.end) if here else None
        section = self.space._section(axis, value)
        return None if section is None else Timed(section, self.start, self.end)

    def _slice_normals(self, axis: int, value: float, count: int) -> Tensor | None:
        if axis == self.dimension - 1:
            return None
        return self.space._slice_normals(axis, value, count)

    @property
    def _is_box(self) -> bool:
        return self.space._is_box

    @property
    def _unit_dimension(self) -> int:
        return self.space._unit_dimension + 1

    def _propose(self, unit: np.ndarray) -> np.ndarray:
        times = self.start + (self.end - self.start) * unit[:, -1:]
        return np.concatenate([self.space._propose(unit[:, :-1]), times], axis=1)
