"""Question: what is to be solved on patches, whoever asks: equations, where they hold, and how to place them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from cnf.bases.basis import Basis
from cnf.constraints import Constraint, Space
from cnf.errors import NotANumberError
from cnf.operators.nonlinear import Alike, Called, State
from cnf.operators.operator import Operator
from cnf.pde.domains import Domain, Timed
from cnf.pde.domains.boundary import Piece
from cnf.pde.domains.domain import Sample, belongs_to
from cnf.pde.domains.regions import Regions
from cnf.solution import Solution

# what jets are taken to be where no field is known: the first that gives numbers
SHOWN = (0.7, 1.7, 7.0, -0.7, -1.7, 0.07)
ROUND_BEFORE = "the field of the round before"


class Part(Protocol):
    """Where an equation holds: "interior", "boundary", "shape" or "slice" with fixed coordinates, or somewhere else."""

    @property
    def kind(self) -> str: ...

    @property
    def shape(self) -> str | None: ...

    @property
    def fixed(self) -> Mapping[int, float] | None: ...

    @property
    def region(self) -> int | None:
        """The number of the region it is restricted to."""
        ...


class InterfaceCondition(Protocol):
    """What is given on interfaces of regions."""

    @property
    def interfaces(self) -> Mapping[int, int]:
        """The numbers of those it holds on."""
        ...

    @property
    def is_linear(self) -> bool: ...

    def operator(self, interface: int) -> Operator: ...

    def at(self, interface: int, points: Tensor, normals: Tensor) -> tuple[Constraint, Constraint]:
        """The operator of the side the normals (P, D) point to, with the right-hand side, and that of the other."""
        ...


@dataclass(frozen=True, eq=False)
class Question:
    """`constraints[k]` is equation k at some points of its part `places[k]`, `at(k, sample)` the same at others."""

    space: Space
    domain: Domain
    constraints: Sequence[Constraint]
    places: Sequence[Part]
    at: Callable[[int, Sample], Constraint]
    tolerance: float
    seed: int
    regions: Regions | None = None
    jumps: Sequence[InterfaceCondition] = ()
    local: Callable[[Space, int], Basis] | None = None  # makes the functions of patches; None: polynomials
    asked: int | None = None  # channels that somebody asked for; those after them serve to find these; None: all
    state: State | None = None  # the field that nonlinear equations begin with; None: zero
    begun: str = ""  # what that is called

    @property
    def is_linear(self) -> bool:
        return all(c.nonlinear is None for c in self.constraints) and all(jump.is_linear for jump in self.jumps)

    def after(self, state: State, called: str) -> Question:
        """The same question where a field is known that nearly answers it; a linear one is what it is.

        What that field was asked itself is left out: else every field would hold on to all those before it.
        """
        kept = bare(state) if isinstance(state, Solution) else state
        return replace(self.around(kept), state=kept, begun=called)

    @property
    def start(self) -> State | None:
        """The field that nonlinear equations begin with, by its name."""
        return Called(self.state, self.begun) if self.state is not None and self.begun else self.state

    def around(self, state: State) -> Question:
        """The same with its equations linearised around a state."""
        if self.is_linear:
            return self
        at = self.at
        return replace(
            self,
            constraints=[c.around(state) for c in self.constraints],
            at=lambda k, sample: at(k, sample).around(state),
        )

    def shown(self) -> Question:
        """The same around no field in particular: what its equations look like in general, before one is known."""
        seen = (self.around(Alike(len(self.space.channels), value)) for value in SHOWN)
        found = next((shown for shown in seen if shown.is_linear or all(map(is_finite, shown.constraints))), None)
        if found is None:
            raise NotANumberError(
                "the nonlinear equations are not numbers for any of the values that were tried for the field and its "
                "derivatives (a division by zero, a root or logarithm of a negative number?); check them, or use "
                "method = 'waves' and give a start at which they are"
            )
        return found

    @property
    def areas(self) -> int:
        """Number of regions; the domain without any is one."""
        return 1 if self.regions is None else len(self.regions.names)

    def inside_of(self, area: int) -> list[int]:
        """Numbers of the equations of the interior of a region."""
        return [k for k in self.inside if self.places[k].region in (None, area)]

    def holds(self, k: int, curve: Piece, points: np.ndarray, normals: np.ndarray) -> bool:
        """Whether equation k holds at points (P, D) of a curve of the boundary with outward normals."""
        place = self.places[k]
        if place.kind == "interior" or not holds_along(place, curve, points):
            return False
        if self.regions is None or place.region is None or not len(points):
            return True
        sample = Sample(torch.from_numpy(points), torch.from_numpy(normals))
        return bool((self.regions.touching(sample) == place.region).all())

    @property
    def time(self) -> int | None:
        """The number of the time coordinate."""
        return self.domain.dimension - 1 if isinstance(self.domain, Timed) else None

    @property
    def inside(self) -> list[int]:
        """Numbers of the equations of the interior."""
        return [k for k, place in enumerate(self.places) if place.kind == "interior"]


def is_finite(condition: Constraint) -> bool:
    """Whether all coefficients and values of a linear condition are numbers."""
    weights = [w for probe in condition.expanded() for request in probe.requests for w in request.weights.values()]
    return all(bool(torch.isfinite(part.detach()).all()) for part in (condition.values, *weights))


def bare(solution: Solution) -> Solution:
    """A field without the conditions that it was solved for."""
    return replace(solution, constraints=(), made_up=None, spot_check=None)


def holds_along(place: Part, curve: Piece, points: np.ndarray) -> bool:
    """Whether an equation of this place holds at points (P, D) of a piece of the boundary."""
    if place.kind == "boundary":
        return True
    if place.kind == "shape":
        return belongs_to(place.shape or "", curve.names)
    fixed = place.fixed or {}
    if place.kind != "slice" or len(fixed) != 1 or not len(points):
        return False
    ((axis, value),) = fixed.items()
    return bool((np.abs(points[:, axis] - value) <= 1e-9 * max(1.0, abs(value))).all())
