"""The contract between conditions and weights.

A `Formulation` says how a basis and its constraints become systems of equations. `plan` does everything that does not
depend on right-hand sides (assembly, factorisation); `Plan.solve` takes what the functions have to make up, g - L[base]
per constraint, and returns an `Expansion`: the weights and how they are evaluated. Whatever the formulation, a field is
measured through its expansion, by the way a query takes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from cnf.bases.basis import Basis, values_request
from cnf.constraints import Constraint
from cnf.errors import CnfError, ConstraintError
from cnf.operators.expansion import Probe
from cnf.solvers.solver import Factor
from cnf.systems.assembly import Block
from cnf.systems.layout import BlockLayout

REMEDY = "a smaller bandwidth or more functions"
SPREAD = 256  # points whose rounding is looked at, where that takes another evaluation


class Account(ABC):
    """What is known of the systems behind an expansion, for its certificate; rank and condition when asked for."""

    name: str
    notes: tuple[str, ...] = ()
    shared: int = 1  # channels served by one matrix
    remedy: ClassVar[str] = REMEDY  # what makes weights smaller

    @abstractmethod
    def rank(self) -> int:
        """Independent conditions."""

    @abstractmethod
    def condition(self) -> float:
        """Condition number of the worst system, equilibrated; NaN if it is not known."""

    def settled(self) -> Account:
        """The same as plain data, without the systems."""
        return KnownAccount(self.name, self.notes, self.shared, self.rank(), self.condition())

    def reason_for(self, violated: Sequence[Constraint], times: float) -> str:
        """Why these constraints miss the tolerance, `times` over, as far as the formulation knows."""
        return ""


@dataclass(frozen=True, eq=False)
class Jump:
    """What is missed of conditions that functions bring along: one condition, or two whose difference counts.

    Those that are not linear are linearised around the field.
    """

    conditions: tuple[Constraint, ...]  # the first has the right-hand side
    off: Tensor  # (P, R)
    sides: Tensor  # (P, R), the larger of what the two sides are; all terms together if it is not linear
    shown: float = math.nan  # the largest value of the field on the two sides, if it is not linear

    @property
    def is_linear(self) -> bool:
        return all(condition.nonlinear is None for condition in self.conditions)


class Expansion(ABC):
    """sum_j weights_j Psi_j: `blocks` and `factors` are the systems it came from, empty if none is kept."""

    account: Account
    blocks: tuple[Block, ...] = ()
    factors: tuple[Factor, ...] = ()
    weights: Tensor
    channels: int

    def values(self, points: Tensor) -> Tensor:
        """(P, D) -> (P, C)."""
        channels = range(self.channels)
        requests = tuple(values_request(points.shape[1], points, c) for c in channels)
        return self.applied([Probe(points, 1, tuple(channels), requests)], (points.shape[0], self.channels))

    @abstractmethod
    def applied(self, probes: Sequence[Probe], shape: tuple[int, int]) -> Tensor:
        """L f of the operator that the probes stand for, (P, R) = `shape`."""

    def measured(self, probes: Sequence[Probe], shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """L f as `applied` gives it, and the part of it that is rounding, both (P, R).

        The sum is rounded by about eps |w Psi|_2: another order of its terms, another number of points in a query,
        and it comes out different by that much. Here it shows in weights that are off by their last bit, looked at
        for a spread of the points.
        """
        found = self.applied(probes, shape)
        chosen = torch.linspace(0, shape[0] - 1, min(shape[0], SPREAD), device=found.device).round().long()
        some = [probe.at(chosen) for probe in probes]
        off = self.with_last_bits_off().applied(some, (chosen.shape[0], shape[1])) - found[chosen]
        return found, torch.zeros_like(found).index_copy(0, chosen, off.abs())

    def tied_as(self, basis: Basis) -> Expansion:
        """The same, measured by the ties of a basis as they are, not as they were linearised to solve for it."""
        return self

    @abstractmethod
    def with_last_bits_off(self) -> Expansion:
        """The same with every weight off by its last bit, up or down."""

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """The weights as they are saved."""

    def settled(self) -> Expansion:
        """The same without the systems it came from."""
        return replace(self, account=self.account.settled())  # type: ignore[type-var]

    def missed(self, constraints: Sequence[Constraint], rounding: bool = False) -> dict[tuple[int, int], Tensor]:
        """|A w - b| of every (constraint, row), each (P,): what the solver says; empty if no system is kept.

        With `rounding`, not less than what the sum over the functions is rounded by.
        """
        return {}

    def jumps(self) -> Mapping[str, Jump]:
        """Conditions that the functions themselves bring along, by name."""
        return {}

    @property
    def like(self) -> Tensor:
        """Any tensor with the precision and the device of the field."""
        return self.weights

    @property
    def weight_norm(self) -> Tensor:
        """The Euclidean length of all weights, a number (); where they are."""
        weights = self.weights.detach()
        largest = weights.abs().max()
        largest = torch.where(largest == 0, 1.0, largest)  # squares of tiny weights would vanish
        return largest * torch.linalg.vector_norm(weights / largest)

    def in_precision(self, precision: torch.dtype, name: str, throughout: bool = False) -> Expansion:
        """The same with the functions of the basis `name` evaluated in another precision; `throughout`: and summed."""
        raise ConstraintError(
            f"{name} is evaluated in the precision of the field only (Kernel with an encoder, ConstraintLayer, "
            "Hypernet and HypernetKernel have a choice)"
        )


class Plan(ABC):
    """All that does not depend on right-hand sides; `formulation` is what to plan the next step with."""

    formulation: Formulation

    @abstractmethod
    def solve(self, targets: Sequence[Tensor]) -> Expansion:
        """Targets (P, R) -> the expansion, differentiable in everything learnable.

        One per constraint, then one for each of what the basis has as `guiding`.
        """


@dataclass(frozen=True)
class Formulation(ABC):
    """`layout` tells which conditions and unknowns belong together."""

    layout: tuple[BlockLayout, ...]

    @abstractmethod
    def plan(self, basis: Basis, constraints: Sequence[Constraint]) -> Plan:
        """Assemble and factor."""

    @abstractmethod
    def restored(self, basis: Basis, constraints: Sequence[Constraint], state: Mapping[str, Tensor]) -> Expansion:
        """The expansion whose `state` was saved; nothing is solved."""


def last_bits_off(weights: Tensor) -> Tensor:
    """Every weight off by its last bit, up or down by a fixed draw."""
    draw = torch.rand(weights.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return weights.detach() * (1 + torch.finfo(weights.dtype).eps * torch.where(draw < 0.5, -1.0, 1.0)).to(weights)


def stack_targets(sides: Sequence[Tensor], block: BlockLayout) -> Tensor:
    """Right-hand sides (P, R) of the constraints -> those of a block, (m, k)."""
    return torch.stack([torch.cat([sides[i][:, r] for i, r in copy.rows]) for copy in block.copies], dim=1)


@dataclass(frozen=True)
class KnownAccount(Account):
    """An account that was saved."""

    name: str
    notes: tuple[str, ...] = ()
    shared: int = 1
    known_rank: int = 0
    known_condition: float = float("nan")

    def rank(self) -> int:
        return self.known_rank

    def condition(self) -> float:
        return self.known_condition


@dataclass(frozen=True, eq=False)
class SavedWeights:
    """The state of an expansion as it was saved, and what is known of the systems it came from.

    `beyond`: what else decided on the weights, if solving anew would not give them again.
    """

    state: Mapping[str, Tensor]
    account: KnownAccount
    beyond: str = ""

    def expansion(self, formulation: Formulation, basis: Basis, constraints: Sequence[Constraint]) -> Expansion:
        """The expansion, without solving anything."""
        found = formulation.restored(basis, constraints, self.state)
        return replace(found, account=self.account)  # type: ignore[type-var]


def state_entry(state: Mapping[str, Tensor], name: str, shape: Sequence[int]) -> Tensor:
    """A tensor of a saved state, refused if it does not fit."""
    found = state.get(name)
    if not isinstance(found, Tensor) or tuple(found.shape) != tuple(shape):
        raise CnfError(f"the saved weights {name!r} do not fit this field; expected shape {tuple(shape)}")
    return found
