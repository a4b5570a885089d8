"""Corner functions: r^lambda (phi(theta) + log(r) chi(theta)) around a corner, which no polynomial follows.

Every derivative of such a function is one of the same kind: d/dx of r^m psi(theta) is r^(m - 1) times
m cos(theta) psi - sin(theta) psi', and alike for y; a logarithm adds cos(theta) chi to that. Profiles are polynomials
in the angle.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from numpy.polynomial import chebyshev
from torch import Tensor

from cnf.errors import BasisError

MOST_NODES = 200  # of a profile
MOST_FUNCTIONS = 50  # of a corner
OUTSIDE = 1.02  # of half the angle: profiles are not continued any further, where the domain is not
ROUNDING = 1e-14  # of the largest coefficient of a profile
TINY = 1e-14  # of the unit length: closer to the corner, what grows there is that of this distance
NOTHING = 1e-300  # and what does not grow that of this one


@dataclass(frozen=True)
class CornerFunctions:
    """K functions per channel around `centre` (2,), inside the angles from `start` to `end` (counterclockwise).

    `exponents` (K,) may be complex, `profiles` (K, 2, C, N) are values of phi and chi at the N Chebyshev points of the
    angle. Of a complex function, real and imaginary part count: `parts` (K,) is 0 for the one, 1 for the other. A
    `unit` of length is that of a patch: functions are of order one at that distance. Exponents are those of velocities;
    a channel that is a derivative of them, like a pressure, has `lower` (C,) ones by so many.

    >>> flat = np.ones((1, 2, 1, 5))  # (K, phi and chi, C, N)
    >>> corner = cnf.bases.CornerFunctions((0.0, 0.0), 0.0, 1.5 * np.pi, np.array([2 / 3]), flat, np.array([0]))
    >>> corner.count, corner.channels
    (1, 1)
    """

    centre: tuple[float, float]
    start: float
    end: float
    exponents: np.ndarray
    profiles: np.ndarray
    parts: np.ndarray
    lower: tuple[int, ...] = ()  # none: all channels have the same exponents

    def __post_init__(self) -> None:
        object.__setattr__(self, "centre", tuple(map(float, self.centre)))  # plain numbers, which compilers can read
        object.__setattr__(self, "start", float(self.start))
        object.__setattr__(self, "end", float(self.end))
        count = len(self.exponents)
        if self.profiles.ndim != 4 or self.profiles.shape[:2] != (count, 2) or self.parts.shape != (count,):
            raise BasisError("corner functions have one exponent, one profile and one part each")
        if self.lower and (len(self.lower) != self.profiles.shape[2] or not all(0 <= n <= 4 for n in self.lower)):
            raise BasisError("exponents of corner functions are lower by 0 to 4, for every channel")
        numbers = (np.array(self.centre), self.exponents, self.profiles, np.array([self.start, self.end]))
        if not all(np.isfinite(a).all() for a in numbers) or not 0 < self.end - self.start <= 2 * math.pi + 1e-9:
            raise BasisError("corner functions need finite numbers and an angle between 0 and 360 degrees")

    def as_parts(self) -> tuple[list[float], Tensor, Tensor, Tensor, list[int]]:
        """As it is saved: centre and angles, exponents (K, 2), profiles (K, 2, C, N, 2), parts (K,), lower ones."""
        numbers = (self.exponents, self.profiles)
        exponents, profiles = (torch.view_as_real(torch.from_numpy(a.astype(complex))) for a in numbers)
        place = [*self.centre, self.start, self.end]
        return place, exponents, profiles, torch.from_numpy(self.parts), list(self.lower)

    @staticmethod
    def from_parts(given: Sequence[Any]) -> CornerFunctions:
        """The functions that `as_parts` describes; files come from anywhere, so everything is checked."""
        if len(given) not in (4, 5):  # the first ones had no lower exponents
            raise BasisError(f"corner functions are saved as four or five parts, got {len(given)}")
        place, *tensors = given[:4]
        lower = list(given[4]) if len(given) == 5 else []
        numbers = isinstance(place, list) and len(place) == 4 and all(isinstance(v, int | float) for v in place)
        if not numbers or not all(isinstance(t, Tensor) for t in tensors) or not all(type(n) is int for n in lower):
            raise BasisError("corner functions are saved as four numbers, exponents, profiles and parts")
        exponents, profiles, parts = tensors
        if exponents.dim() != 2 or profiles.dim() != 5 or not 0 < len(exponents) <= MOST_FUNCTIONS:
            raise BasisError(f"a corner has up to {MOST_FUNCTIONS} functions, each with its exponent and its profiles")
        if exponents.shape[-1] != 2 or profiles.shape[-1] != 2 or not 2 <= profiles.shape[3] <= MOST_NODES:
            raise BasisError("exponents and profiles of corner functions are saved as pairs of numbers")
        pairs = (t.detach().to(torch.float64).cpu().contiguous() for t in (exponents, profiles))
        values, shapes = (torch.view_as_complex(t).numpy() for t in pairs)
        centre, numbers_of = (place[0], place[1]), parts.cpu().numpy()
        return CornerFunctions(centre, place[2], place[3], values, shapes, numbers_of, tuple(lower))

    @property
    def count(self) -> int:
        """Number of functions per channel, K."""
        return len(self.exponents)

    @property
    def channels(self) -> int:
        """Number of channels, C."""
        return self.profiles.shape[2]

    def distances(self, points: np.ndarray) -> np.ndarray:
        """Of points (P, 2) from the corner, (P,)."""
        return np.hypot(*(points - self.centre).T)

    def lower_by(self, channel: int) -> int:
        """By how much the exponents of a channel are lower."""
        return self.lower[channel] if self.lower else 0

    def around(self, x: Tensor, unit: Tensor) -> Around:
        """Points (P, 2) as the functions see them, with units (P,)."""
        offset = x - x.new_tensor(self.centre)
        distance = offset.square().sum(dim=1).sqrt()
        gap = 2 * math.pi - (self.end - self.start)
        raw = torch.atan2(offset[:, 1], offset[:, 0])
        low = self.start - gap / 2  # the cut lies outside
        angle = raw + 2 * math.pi * torch.ceil((low - raw) / (2 * math.pi))
        angle = torch.where(offset.abs().amax(dim=1) > 0, angle, (self.start + self.end) / 2)  # the corner has none
        z = ((2 * angle - self.start - self.end) / (self.end - self.start)).clamp(-OUTSIDE, OUTSIDE)
        table = chebyshev_table(z, self.profiles.shape[3] - 1)
        return Around(table, torch.log((distance / unit).clamp_min(NOTHING))[:, None], unit)

    def values(self, x: Tensor, z: Tensor, half: Tensor, given: CornerDerivative) -> Tensor:
        """A derivative of all functions at points (P, 2), in cells of half sides (P, 2): (P, K)."""
        return self.columns(self.around(x, half.amax(dim=1)), given)

    def columns(self, at: Around, given: CornerDerivative) -> Tensor:
        """A derivative of all functions of a channel at these points: (P, K)."""
        log = at.log.maximum(given.least.to(at.log))  # (P, K)
        plain, with_log, (power, turn) = (t.to(at.table) for t in (given.plain, given.with_log, given.exponents))
        real, imaginary = at.table @ plain + log * (at.table @ with_log)  # (P, K)
        cosine, sine = torch.cos(log * turn), torch.sin(log * turn)
        whole, other = real * cosine - imaginary * sine, real * sine + imaginary * cosine
        return torch.where(given.real, whole, other) * torch.exp(log * power) / at.unit[:, None] ** given.order

    def derivative(self, index: tuple[int, ...], channel: int) -> CornerDerivative:
        """The derivative `index` of all functions of a channel."""
        maps = AngularMaps.of(self.start, self.end, self.profiles.shape[3])
        profile = maps.chopped(self.profiles[:, :, channel].astype(complex))
        power = self.exponents.astype(complex) - self.lower_by(channel)
        for axis, times in enumerate(index):
            for _ in range(times):
                chi = profile[:, 1] * maps.along[axis]
                profile = (
                    power[:, None, None] * profile * maps.along[axis] + (profile @ maps.slope.T) * maps.across[axis]
                )
                profile[:, 0] += chi
                profile, power = maps.chopped(profile), power - 1
        plain, with_log = (_in_parts((profile[:, k] @ maps.coefficients.T).T) for k in (0, 1))
        least = torch.from_numpy(np.log(np.where(power.real > 0, NOTHING, TINY)))
        order = sum(index) + self.lower_by(channel)
        return CornerDerivative(plain, with_log, _in_parts(power), least, torch.from_numpy(self.parts == 0), order)


@dataclass(frozen=True)
class Around:
    """Points around a corner: polynomials of the angle `table` (P, N), `log` of the distance (P, 1), `unit` (P,)."""

    table: Tensor
    log: Tensor
    unit: Tensor


@dataclass(frozen=True)
class CornerDerivative:
    """Chebyshev coefficients (2, N, K) of the profiles without and with a logarithm, exponents (2, K), and the order.

    Two are the real and the imaginary part; `real` (K,) says which of them counts. `least` (K,) is the smallest
    logarithm of a distance that is told apart from the corner.
    """

    plain: Tensor
    with_log: Tensor
    exponents: Tensor
    least: Tensor
    real: Tensor
    order: int


def _in_parts(values: np.ndarray) -> Tensor:
    """Complex numbers as real parts and imaginary ones, (2, ...): torch takes real matrices with those of points."""
    return torch.from_numpy(np.stack([values.real, values.imag]))


def chebyshev_table(z: Tensor, degree: int) -> Tensor:
    """T_0 .. T_degree at points (P,), (P, degree + 1), by T_(k + j) = 2 T_k T_j - T_(k - j): few steps for many."""
    table = torch.stack([torch.ones_like(z), z], dim=1)
    while table.shape[1] <= degree:
        table = torch.cat([table, 2 * table[:, -1:] * table[:, 1:] - table[:, :-1].flip(1)], dim=1)
    return table[:, : degree + 1]


@dataclass(frozen=True)
class AngularMaps:
    """On the Chebyshev points of an interval of angles: d/dtheta, cos and sin, and the way to coefficients."""

    angles: np.ndarray  # (N,)
    slope: np.ndarray  # (N, N)
    coefficients: np.ndarray  # (N, N)

    @staticmethod
    @lru_cache(maxsize=64)
    def of(start: float, end: float, count: int) -> AngularMaps:
        """Points include both ends."""
        z = np.cos(np.pi * np.arange(count) / (count - 1))[::-1].copy()
        inverse = np.linalg.inv(chebyshev.chebvander(z, count - 1))
        slope = chebyshev.chebvander(z, count - 2) @ chebyshev.chebder(np.eye(count)) @ inverse * 2 / (end - start)
        return AngularMaps((start + end) / 2 + (end - start) / 2 * z, slope, inverse)

    def chopped(self, profiles: np.ndarray) -> np.ndarray:
        """Profiles (..., N) without the coefficients that are rounding, which derivatives would blow up."""
        found = profiles @ self.coefficients.T
        small = np.abs(found) <= ROUNDING * np.abs(found).max(axis=-1, keepdims=True)
        return np.where(small, 0.0, found) @ self._values.T

    @cached_property
    def _values(self) -> np.ndarray:
        """From coefficients back to values, (N, N)."""
        return np.linalg.inv(self.coefficients)

    @property
    def along(self) -> tuple[np.ndarray, np.ndarray]:
        """What d/dx and d/dy make of the exponent."""
        return np.cos(self.angles), np.sin(self.angles)

    @property
    def across(self) -> tuple[np.ndarray, np.ndarray]:
        """And of the slope of the profile."""
        return -np.sin(self.angles), np.cos(self.angles)
