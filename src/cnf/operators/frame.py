"""Names: the coordinates a field is a function of and the channels it returns."""

from __future__ import annotations

import re
from dataclasses import dataclass

import sympy as sp

from cnf.errors import OperatorError, nearest

NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)?\Z")


@dataclass(frozen=True)
class Frame:
    """Ordered coordinate and channel names; `time` are the coordinates that nabla leaves out."""

    coordinates: tuple[str, ...]
    channels: tuple[str, ...]
    time: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = self.coordinates + self.channels
        if not self.coordinates or not self.channels:
            raise OperatorError("a space needs at least one coordinate and one channel, such as Space('x t', 'u')")
        for name in names:
            if not NAME.match(name):
                raise OperatorError(f"{name!r} cannot be a name; use letters, digits and one underscore, such as u_1")
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise OperatorError(f"the names {sorted(twice)} are used twice; every coordinate and channel needs its own")
        for name in self.time:
            self.axis(name)

    @property
    def spatial(self) -> tuple[str, ...]:
        """The coordinates that nabla runs over."""
        return tuple(name for name in self.coordinates if name not in self.time)

    def axis(self, coordinate: str) -> int:
        """Column of `coordinate` in an array of points."""
        if coordinate not in self.coordinates:
            raise OperatorError(
                f"there is no coordinate {coordinate!r}; the space has {', '.join(self.coordinates)}."
                + nearest(coordinate, self.coordinates)
            )
        return self.coordinates.index(coordinate)

    def channel(self, name: str) -> int:
        """Column of channel `name` in the field's values."""
        if name not in self.channels:
            raise OperatorError(
                f"there is no channel {name!r}; the field has {', '.join(self.channels)}."
                + nearest(name, self.channels)
            )
        return self.channels.index(name)

    def multi_index(self, derivatives: tuple[tuple[str, int], ...]) -> tuple[int, ...]:
        """Derivative orders by name -> one order per coordinate."""
        orders = dict(derivatives)
        return tuple(orders.get(name, 0) for name in self.coordinates)


def symbol(name: str) -> sp.Symbol:
    """The SymPy symbol that stands for a coordinate or a named number everywhere in the library."""
    return sp.Symbol(name, real=True)
