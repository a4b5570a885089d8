"""Domain: what every shape offers. Points go in and out as float64 tensors; the shapes themselves work on arrays.

A shape says how deep a point lies (`_bound`, `_depth`), what its boundary consists of (`_pieces`), and what is left of
it where one coordinate is fixed (`_section`); everything else is built here from these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np
import torch
from torch import Tensor

from cnf.errors import DomainError, nearest
from cnf.pde.domains.boundary import Piece, spread
from cnf.pde.domains.layouts import fill, propose_until
from cnf.pde.domains.part_names import EXCEPT, PARTS


@dataclass(frozen=True)
class Sample:
    """Points (P, D) and, on a boundary, outward unit normals (P, D); with time, normals (P, D - 1): space only.

    >>> sample = cnf.domains.Disk([0, 0], 1).boundary_points(4)
    >>> sample.points.shape, bool(torch.allclose(sample.points, sample.normals))  # equal on the unit circle
    (torch.Size([4, 2]), True)
    """

    points: Tensor
    normals: Tensor | None = None

    def __len__(self) -> int:
        return self.points.shape[0]


class Domain:
    """A bounded region of D coordinates: `Box`, `Ball`, `Polygon`, `Union`, `Difference`, `Intersection`, `Timed`.

    >>> square = cnf.Box([0, 0], [1, 1])
    >>> isinstance(square, cnf.domains.Domain), square.dimension, square.random(5).shape
    (True, 2, torch.Size([5, 2]))
    """

    name: str | None
    lower: tuple[float, ...]
    upper: tuple[float, ...]

    @property
    def dimension(self) -> int:
        """Number of coordinates D, time included."""
        return len(self.lower)

    @property
    def volume(self) -> float:
        """Length, area, volume."""
        raise NotImplementedError

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the shapes whose boundary belongs to the boundary of this domain."""
        return tuple(dict.fromkeys(name for piece in self._pieces for name in piece.names))

    def contains(self, points: object, margin: float = 0.0) -> Tensor:
        """Which of `points` (P, D) lie inside by at least `margin`, (P,) bool; negative: outside by at most -margin.

        The boundary counts as inside. Near a re-entrant corner of a combination, a negative margin may let in points
        that are a little further away.
        """
        array = self._checked(points)
        tiny = 1e-12 * (self._size + float(np.abs([self.lower, self.upper]).max()))
        depth = self._depth(array) if margin > 0 else self._bound(array)  # they agree in sign
        return torch.from_numpy(depth >= margin - tiny).to(points.device if isinstance(points, Tensor) else "cpu")

    def random(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Independent uniform points of the inside (count, D)."""
        check_count(count)

        def draw(number: int) -> np.ndarray:
            unit = torch.rand(number, self._unit_dimension, dtype=torch.float64, generator=generator)
            return self._propose(unit.numpy())

        return torch.from_numpy(propose_until(count, draw, lambda points: self._bound(points) > 0))

    def fill(self, count: int, layout: str = "halton", seed: int = 0) -> Tensor:
        """Points of the inside (P, D), a little away from the boundary; the same for the same seed.

        `layout`: "halton" and "poisson" (evenly irregular; poisson keeps the largest distances), "random", all with
        exactly `count` points; "grid" and "jittered" (a grid with noise) with about `count`. A grid of a seed other
        than 0 is shifted within its cells.
        """
        check_count(count)
        check_seed(seed)
        return torch.from_numpy(fill(self, count, layout, seed))

    def boundary_points(self, count: int, seed: int = 0, part: str | None = None) -> Sample:
        """About `count` points evenly spread over the boundary, at least one on every smooth piece, none on a corner.

        Every seed but 0 shifts them along the boundary. In one dimension: the end points, whatever `count`.
        `part`: only the boundary of the shape or the edge with that name; "a, b" for several, "boundary except a, b"
        for all others.
        """
        check_count(count)
        check_seed(seed)
        points, normals = spread(self._chosen(part), count, seed)
        return Sample(torch.from_numpy(points), torch.from_numpy(normals))

    def boundary_measure(self, part: str | None = None) -> float:
        """Length or area of the boundary or of one part; in one dimension the number of end points."""
        return float(sum(piece.measure for piece in self._chosen(part)))

    def slice_points(self, axis: int, value: float, count: int, layout: str = "grid", seed: int = 0) -> Sample:
        """Points of the domain whose coordinate `axis` is `value`; layouts and seeds as in `fill`.

        The normals are None inside; on the lowest or highest value that the coordinate takes they point outward.
        """
        check_count(count)
        check_seed(seed)
        value = self._checked_value(axis, value)
        section = self._existing_section(axis, value)
        rest = np.zeros((1, 0)) if section is None else section.fill(count, layout, seed).numpy()
        points = torch.from_numpy(np.insert(rest, axis, value, axis=1))
        return Sample(points, self._slice_normals(axis, value, len(points)))

    def slice_measure(self, axis: int, value: float) -> float:
        """Length, area, volume of the slice; 1 for a single point."""
        section = self._existing_section(axis, self._checked_value(axis, value))
        return 1.0 if section is None else section.volume

    # What a shape says about itself, on arrays (P, D).

    def _inside(self, points: np.ndarray) -> np.ndarray:
        """Membership (P,), the cheapest way; points on the boundary may go either way."""
        return self._bound(points) >= 0

    def _bound(self, points: np.ndarray) -> np.ndarray:
        """Signed distance to the boundary (P,), positive inside, or something closer to zero of the same sign."""
        raise NotImplementedError

    def _depth(self, points: np.ndarray) -> np.ndarray:
        """As `_bound`, but close to the distance inside."""
        return self._bound(points)

    @property
    def _pieces(self) -> Sequence[Piece]:
        """The boundary as pieces."""
        raise NotImplementedError

    def _section(self, axis: int, value: float) -> Domain | None:
        """The slice as a domain of one dimension less, None if empty; asked only of two dimensions and more."""
        raise NotImplementedError

    def _outline(self) -> list[Piece]:
        """The boundary of a simple shape, before it is cut at corners or by other shapes."""
        raise NotImplementedError

    def _leaves(self, names: tuple[str, ...] = ()) -> Iterator[tuple[Domain, tuple[str, ...]]]:
        """The simple shapes this is made of, each with its names and those of all it is part of."""
        yield self, names + ((self.name,) if self.name is not None else ())

    @property
    def _is_box(self) -> bool:
        """Whether this fills its bounding box."""
        return False

    @property
    def _unit_dimension(self) -> int:
        """How many unit numbers make one proposal."""
        return self.dimension

    def _propose(self, unit: np.ndarray) -> np.ndarray:
        """Unit numbers as points uniform over a region around this domain."""
        low, high = np.array(self.lower), np.array(self.upper)
        return low + (high - low) * unit

    # Checks and sharing.

    @property
    def _size(self) -> float:
        """The shortest side of the bounding box."""
        return min(b - a for a, b in zip(self.lower, self.upper, strict=True))

    def _chosen(self, part: str | None) -> list[Piece]:
        if part is None:
            return list(self._pieces)
        parts = self.parts
        _, names = named_parts(part)
        for name in names:
            if name not in parts:
                known = (
                    f"it has {', '.join(map(repr, parts))}" if parts else "no shape has a name, give one by name='...'"
                )
                raise DomainError(f"no part of the boundary is called {name!r}: {known}.{nearest(str(name), parts)}")
        found = [piece for piece in self._pieces if belongs_to(part, piece.names)]
        if not found:
            raise DomainError(f"nothing is left of the boundary: {part!r} leaves out all of it")
        return found

    def _checked(self, points: object) -> np.ndarray:
        try:
            raw = points.detach().cpu().numpy() if isinstance(points, Tensor) else points
            array = np.asarray(raw, dtype=np.float64)
        except (TypeError, ValueError):
            raise DomainError(f"points are an array (P, {self.dimension}), got a {type(points).__name__}") from None
        if array.ndim != 2 or array.shape[1] != self.dimension:
            raise DomainError(f"points have shape {tuple(array.shape)}, expected (P, {self.dimension})")
        return array

    def _checked_value(self, axis: int, value: float) -> float:
        """The value of a slice, moved onto the end of the range if it misses it by rounding only."""
        if isinstance(axis, bool) or not isinstance(axis, Integral) or not 0 <= axis < self.dimension:
            raise DomainError(f"the axis of a slice is one of 0 to {self.dimension - 1}, got {axis!r}")
        number = as_number(value, "the value of a slice")
        low, high = self.lower[axis], self.upper[axis]
        slack = 1e-12 * (high - low + abs(low) + abs(high))
        if not low - slack <= number <= high + slack:
            raise DomainError(
                f"no slice at {number:g}: coordinate {axis} of the domain goes from {low:g} to {high:g}; "
                "choose a value between"
            )
        for end in (low, high):
            if abs(number - end) <= slack:
                return end
        return number

    def _existing_section(self, axis: int, value: float) -> Domain | None:
        """The slice; None stands for the single point of a one-dimensional domain."""
        if self.dimension == 1:
            if self.contains([[value]], -1e-12 * self._size).item():
                return None
        elif (section := self._section(axis, value)) is not None:
            return section
        raise DomainError(
            f"the slice at {value:g} of coordinate {axis} holds no part of the domain (a hole, a gap, or a single "
            "point of contact); choose another value"
        )

    def _slice_normals(self, axis: int, value: float, count: int) -> Tensor | None:
        side = {self.lower[axis]: -1.0, self.upper[axis]: 1.0}.get(value)
        if side is None:
            return None
        normals = torch.zeros(count, self.dimension, dtype=torch.float64)
        normals[:, axis] = side
        return normals

    def __getstate__(self) -> dict[str, object]:
        """Copies find out for themselves what is only remembered here."""
        return {key: value for key, value in self.__dict__.items() if not key.startswith("_")}


def named_parts(text: str) -> tuple[bool, list[str]]:
    """What "hole1, hole2" or "boundary except hole1, hole2" names, and whether it is all but these."""
    words = " ".join(text.split())
    but = words.startswith(EXCEPT)
    return but, [name.strip() for name in words.removeprefix(EXCEPT).split(",")]


def belongs_to(part: str, names: Sequence[str]) -> bool:
    """Whether a piece of the boundary with these names belongs to a part, such as "boundary except hole1"."""
    but, listed = named_parts(part)
    return but != any(name in names for name in listed)


def settle(domain: Domain, **values: object) -> None:
    """Set the fields of a frozen domain, once, from its constructor."""
    for key, value in values.items():
        object.__setattr__(domain, key, value)


def check_name(name: object) -> None:
    """A name is None or a text that a condition can refer to."""
    if name is None:
        return
    if not isinstance(name, str) or not name.strip() or name != name.strip():
        raise DomainError(f"the name of a shape is a text without spaces around it, got {name!r}")
    if name in PARTS or "=" in name or name.startswith(EXCEPT):
        raise DomainError(f"a shape cannot be called {name!r}: 'interior', 'boundary' and 'x = ...' name other places")


def check_count(count: object) -> None:
    """A number of points is whole and positive."""
    if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
        raise DomainError(f"the number of points is a whole number from 1 on, got {count!r}")


def check_seed(seed: object) -> None:
    """A seed is whole and not negative."""
    if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
        raise DomainError(f"the seed is a whole number from 0 on, got {seed!r}")


def as_number(value: object, what: str) -> float:
    """A finite float; truth values and texts are not numbers."""
    if isinstance(value, bool | str | bytes):
        raise DomainError(f"{what} must be a number, got {value!r}")
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):
        raise DomainError(f"{what} must be a number, got {value!r}") from None
    if not math.isfinite(number):
        raise DomainError(f"{what} is {number}; it must be finite")
    return number


def as_point(values: object, what: str, number: Callable[[object, str], float] = as_number) -> tuple[float, ...]:
    """A tuple of finite floats from a sequence, an array or a tensor of numbers."""
    try:
        if isinstance(values, str | bytes | dict):
            raise TypeError
        entries = list(values)  # type: ignore[call-overload]
    except TypeError:
        raise DomainError(f"{what} must be a list of numbers, got {values!r}") from None
    point = tuple(number(v, f"every coordinate of {what}") for v in entries)
    if not point:
        raise DomainError(f"{what} must be a list of numbers, got an empty one")
    return point
