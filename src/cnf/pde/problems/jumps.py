"""Jumps: conditions on the interfaces of regions as written, "[u] = 0" or "[k \\partial_n u] = g".

The normal points out of the region that is named first (the rest comes last), and [w] is what w has more on the side
the normal points to. Both sides take the parameters of their own regions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from cnf.constraints import Constraint, Space
from cnf.errors import CnfError, ProblemError, nearest
from cnf.operators.operator import Operator
from cnf.pde.domains.part_names import INTERFACE
from cnf.pde.domains.regions import Regions
from cnf.pde.problems.equation import Equation
from cnf.pde.problems.parameters import Parameter, in_file

NOTHING = "0"
OPENING = {"[": "]", r"\left[": r"\right]", r"\llbracket": r"\rrbracket"}


@dataclass(frozen=True, eq=False)
class Jump:
    """`inner` (LaTeX) jumps by `side` (LaTeX) on the interfaces with these numbers, turned where that is -1."""

    equation: Equation
    inner: str
    side: str
    interfaces: Mapping[int, int]
    space: Space
    regions: Regions
    parameters: Mapping[str, Mapping[str, Parameter]]  # by region
    names: frozenset[str]  # what the equation uses
    inner_names: frozenset[str]  # what stands between the brackets uses

    @property
    def where(self) -> tuple[str | int, ...]:
        return ("equations", self.equation.number, "equation")

    def name(self, interface: int) -> str:
        if len(self.interfaces) == 1:
            return self.equation.name
        face = self.regions.interfaces[interface]
        return f"{self.equation.name} ({self.regions.names[face.first]} to {self.regions.names[face.second]})"

    def operator(self, interface: int) -> Operator:
        """What stands between the brackets, of the first side, at some points."""
        face, turned = self.regions.interfaces[interface], self.interfaces[interface]
        points, normals = map(torch.from_numpy, face.sample(2, 0))
        return self._constraint(NOTHING, face.first, interface, points, turned * normals).operator

    @cached_property
    def is_linear(self) -> bool:
        """Whether it is linear in the field, on all of its interfaces."""
        found: list[Constraint] = []
        for number in self.interfaces:
            points, normals = map(torch.from_numpy, self.regions.interfaces[number].sample(2, 0))
            found += self.at(number, points, normals)
        return all(condition.nonlinear is None for condition in found)

    def in_parts(self, interface: int) -> tuple[Constraint, dict[str, Constraint]]:
        """At some points: the condition with its right-hand side, and what stands between the brackets in both regions.

        That of the region which the normal points to comes first: the other one is taken from it.
        """
        face, turned = self.regions.interfaces[interface], self.interfaces[interface]
        points, normals = map(torch.from_numpy, face.sample(2, 0))
        order = (face.second, face.first)[::turned]
        known = (interface, points, turned * normals)
        sides = {self.regions.names[n]: self._constraint(NOTHING, n, *known) for n in order}
        return self._constraint(self.side, order[0], *known), sides

    def at(self, interface: int, points: Tensor, normals: Tensor) -> tuple[Constraint, Constraint]:
        """At points (P, D) with normals from first to second: what the second side has, and the first one.

        What the one gives in its region minus what the other gives in its own is the right-hand side of the one.
        """
        face, turned = self.regions.interfaces[interface], self.interfaces[interface]
        both, out = (face.second, face.first), turned * normals
        if interface in self.with_field_beside:
            return self._with_field_beside(interface, points, normals)
        second, first = (self._constraint(self.side, n, interface, points, out) for n in both)
        lone = [self._constraint(NOTHING, n, interface, points, out) for n in both]
        sides = [second.values - lone[0].values, first.values - lone[1].values]
        if not torch.allclose(sides[0], sides[1], rtol=1e-12, atol=1e-12 * float(sides[0].detach().abs().max())):
            raise ProblemError(
                "the right-hand side of a jump belongs to both regions; it cannot have parameters with a value for "
                "each of them",
                self.where,
            )
        if not any(side.right_hand_side.learnable or bool(side.values.any()) for side in lone):
            return with_side_of(second, second, turned), first
        if any(side.right_hand_side.learnable for side in (second, *lone)):
            raise ProblemError(
                "there is a term without the field between the brackets; with learnable parameters, take it to the "
                "right of the equation",
                self.where,
            )
        inside = lone[0].values - lone[1].values  # known parts between the brackets jump as well
        return second.with_values(turned * sides[0] + inside), first

    @cached_property
    def with_field_beside(self) -> frozenset[int]:
        """On which interfaces the field stands on the right-hand side as well, as in [k \\partial_n u] = h u.

        Parameters may leave it there in one of the regions only.
        """
        found = []
        for number in self.interfaces:
            face = self.regions.interfaces[number]
            points, normals = map(torch.from_numpy, face.sample(2, 0))
            for region in (face.first, face.second):
                whole, alone = (self._constraint(s, region, number, points, normals) for s in (self.side, NOTHING))
                if _terms(whole) != _terms(alone):
                    found.append(number)
        return frozenset(found)

    def _with_field_beside(self, interface: int, points: Tensor, normals: Tensor) -> tuple[Constraint, Constraint]:
        """The field on the right-hand side is that of the side which the normal of the equation points to."""
        face, turned = self.regions.interfaces[interface], self.interfaces[interface]
        known = (interface, points, turned * normals)
        ahead, behind = (face.second, face.first)[::turned]
        pointed_to, other = self._constraint(self.side, ahead, *known), self._constraint(NOTHING, behind, *known)
        alone = self._constraint(NOTHING, ahead, *known)
        if any(bool(side.values.any()) or side.right_hand_side.learnable for side in (other, alone)):
            raise ProblemError(
                "there is a term without the field between the brackets, and the field on the right; take that term to "
                "the right of the equation",
                self.where,
            )
        if turned == 1:
            return pointed_to, other
        return with_side_of(other, pointed_to, turned), pointed_to

    def _constraint(self, side: str, region: int, interface: int, points: Tensor, normals: Tensor) -> Constraint:
        known = self.parameters[self.regions.names[region]]
        names = self.inner_names if side == NOTHING else self.names
        given: dict[str, object] = {name: v for name, v in known.items() if name in names}
        if "n" in names and "n" not in known:
            given["n"] = normals
        try:
            made = self.space.constraint(f"{self.inner} = {side}", at=points, name=self.name(interface), **given)
        except CnfError as error:
            raise ProblemError(in_file(error), self.where) from None
        if made.nonlinear is not None and not all(term.place.is_here for row in made.operator.rows for term in row):
            raise ProblemError(
                "a condition between regions that is not linear speaks of the field on both sides of the interface, "
                "not at other points or in integrals",
                self.where,
            )
        return made


def with_side_of(condition: Constraint, given: Constraint, factor: int) -> Constraint:
    """The condition with the right-hand side of another one at the same points, times a factor: still learnable."""
    side = given.right_hand_side
    assert isinstance(side.source, tuple)  # equations have expressions there
    side = replace(side, source=tuple(factor * e for e in side.source))
    return replace(condition, values=factor * given.values, right_hand_side=side)


def _terms(condition: Constraint) -> tuple[object, ...]:
    """The terms with the field, to be compared with those of the same equation with another right-hand side."""
    if condition.nonlinear is None:
        return condition.operator.rows, ()
    return condition.nonlinear.linear.rows, condition.nonlinear.beyond


def read_places(equation: Equation, regions: Regions | None) -> dict[int, int]:
    """The interfaces that "interface a" or "interface a, b" means, 1 if the normal points out of a, -1 if into it."""
    where = ("equations", equation.number, "on")
    assert equation.on is not None
    if regions is None:
        raise ProblemError("there are no regions, so there is no interface; give [regions]", where)
    listed = [name.strip() for name in equation.on.removeprefix(INTERFACE).split(",")]
    if listed == [""]:
        return dict.fromkeys(range(len(regions.interfaces)), 1)
    for name in listed:
        if name not in regions.names:
            raise ProblemError(
                f"there is no region {name!r}; they are {', '.join(regions.names)}.{nearest(name, regions.names)}",
                where,
            )
    found = {}
    if len(listed) <= 2 and len(set(listed)) == len(listed):
        chosen = regions.between(listed)
        first = regions.names.index(listed[0])
        found = {regions.interfaces.index(face): 1 if face.first == first else -1 for face in chosen}
    if not found:
        raise ProblemError(f"{' and '.join(listed)} have no interface in common", where)
    return found


def split_jump(equation: Equation) -> tuple[str, str]:
    """What stands between the brackets, and the right-hand side."""
    text = equation.latex.strip()
    opening = next((o for o in OPENING if text.startswith(o)), None)
    end = None if opening is None else _closing(text, opening, OPENING[opening])
    if opening is None or end is None or not text[end:].lstrip().startswith("="):
        raise ProblemError(
            "on an interface, say what jumps between brackets: '[u] = 0' or '[k \\partial_n u] = g'",
            ("equations", equation.number, "equation"),
        )
    inner = text[len(opening) : end - len(OPENING[opening])].strip()
    return inner, text[end:].lstrip()[1:].strip()


def _closing(text: str, opening: str, closing: str) -> int | None:
    """Where the bracket that opens the text is closed, behind it."""
    level, place = 0, 0
    while place < len(text):
        if text.startswith(opening, place):
            level, place = level + 1, place + len(opening)
        elif text.startswith(closing, place):
            level, place = level - 1, place + len(closing)
            if not level:
                return place
        else:
            place += 1
    return None


def check_jumps(jumps: Sequence[Jump], space: Space, regions: Regions) -> None:
    """Every interface has at most one condition for the values of a channel, and all fluxes or none."""
    for number, face in enumerate(regions.interfaces):
        values: set[str | None] = set()
        fluxes = rows = 0
        own = [jump for jump in jumps if number in jump.interfaces]
        for jump in own:
            operator = jump.operator(number)
            channels = {term.channel for row in operator.rows for term in row}
            if operator.order:
                fluxes += len(operator.rows)
                continue
            if channels & values:
                raise ProblemError(f"the jump of {', '.join(sorted(map(str, channels)))} is given twice", jump.where)
            values |= channels
            rows += len(operator.rows)
        both = f"{regions.names[face.first]!r} and {regions.names[face.second]!r}"
        if own and (rows != len(values) or fluxes not in (0, len(space.channels))):
            raise ProblemError(
                f"between {both} there are {rows} conditions for the values of {len(values)} channels and {fluxes} for "
                f"fluxes; give one for every channel, or none: then nothing jumps",
                own[0].where,
            )
