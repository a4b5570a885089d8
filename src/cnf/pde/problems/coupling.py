"""Coupling: which channels the equations of the interior tie together, and of which order they are.

A condition on a channel also speaks of those that its equation depends on: u_x = w, w_x = -u takes two conditions, and
both may be on u. So conditions are counted over channels together. What a channel lacks is counted over all that it
influences, for no other condition can see it; what is too much, over all that it depends on, for nothing else can make
up for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from cnf.operators.operator import Term
from cnf.pde.problems.problem import Problem

Row = tuple[Term, ...]


@dataclass(frozen=True)
class Coupling:
    """The rows of the equations of the interior."""

    rows: tuple[Row, ...]
    channels: tuple[str, ...]
    time: frozenset[str]  # names of the coordinates of time

    @classmethod
    def of(cls, problem: Problem) -> Coupling:
        pairs = zip(problem._placing.places, problem.constraints, strict=True)
        rows = tuple(row for place, c in pairs if place.kind == "interior" for row in c.operator.rows if row)
        return cls(rows, problem.space.channels, frozenset(problem.space.frame.time))

    def orders(self, channel: str) -> tuple[int, int]:
        """The highest derivatives of a channel in space and in time, among the equations for it."""
        return self._highest(channel, [row for row in self.rows if leading(row) == [channel]])

    def order_anywhere(self, channel: str) -> int:
        """The same in space, among all equations."""
        return self._highest(channel, self.rows)[0]

    def influenced_by(self, channel: str) -> tuple[str, ...]:
        """The channels whose equations depend on a channel, directly or through others, and itself."""
        return self._reached(channel, self._influences())

    def behind(self, channel: str) -> tuple[str, ...]:
        """The channels that the equation for a channel depends on, directly or through others, and itself."""
        return self._reached(channel, {(to, of) for of, to in self._influences()})

    def _highest(self, channel: str, rows: tuple[Row, ...] | list[Row]) -> tuple[int, int]:
        terms = [term for row in rows for term in row if term.channel == channel]
        in_time = [sum(n for name, n in term.derivatives if name in self.time) for term in terms]
        in_space = [term.order - n for term, n in zip(terms, in_time, strict=True)]
        return max(in_space, default=0), max(in_time, default=0)

    def _influences(self) -> set[tuple[str, str]]:
        """(a, b): the equation for b depends on a. Where a row is nobody's equation, all of it depend on each other."""
        led = [(row, leading(row)) for row in self.rows]
        have_one = {first[0] for _, first in led if len(first) == 1}
        found = set()
        for row, first in led:
            names = {str(term.channel) for term in row}
            for of, to in ((a, b) for a in names for b in names if a != b):
                if len(first) > 1 or to == first[0] or to not in have_one:
                    found.add((of, to))
        return found

    def _reached(self, channel: str, steps: set[tuple[str, str]]) -> tuple[str, ...]:
        found, new = {channel}, {channel}
        while new:
            new = {to for of, to in steps if of in new} - found
            found |= new
        return tuple(name for name in self.channels if name in found)


def leading(row: Row) -> list[str]:
    """The channels of the highest order in a row; it is the equation for one if that is the only one.

    Others do not say how many conditions a channel takes: the divergence of a velocity, for instance.
    """
    most = max(term.order for term in row)
    return sorted({str(term.channel) for term in row if term.order == most})
