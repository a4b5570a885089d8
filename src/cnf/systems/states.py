"""States: fields around which conditions are linearised, where an iteration begins and what it passes through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from cnf.errors import CnfError
from cnf.operators.forward import MultiIndex
from cnf.operators.nonlinear import State
from cnf.systems.assembly import derived


@dataclass(frozen=True, eq=False)
class Mixed:
    """The field sum_k share_k field_k; the shares add up to 1."""

    states: tuple[State, ...]
    shares: tuple[float, ...]

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        known = [state.derivatives(x, indices) for state in self.states]
        pairs = list(zip(self.shares, known, strict=True))
        return {index: torch.stack([share * one[index] for share, one in pairs]).sum(dim=0) for index in indices}


@dataclass(frozen=True, eq=False)
class Between:
    """The field (1 - share) of one state and `share` of another."""

    first: State
    second: State
    share: float

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        one, other = (state.derivatives(x, indices) for state in (self.first, self.second))
        return {index: torch.lerp(one[index], other[index], self.share) for index in indices}


@dataclass(frozen=True, eq=False)
class Known:
    """A state that is evaluated once wherever it is asked for: conditions look at it again and again."""

    state: State
    seen: list[tuple[Tensor, dict[MultiIndex, Tensor]]] = field(default_factory=list)

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        found = next((kept for points, kept in self.seen if points.shape == x.shape and torch.equal(points, x)), None)
        if found is None:
            found = {}
            self.seen.append((x, found))
        missing = [index for index in indices if index not in found]
        if missing:
            found.update(self.state.derivatives(x, missing))
        return found

    @property
    def places(self) -> list[tuple[Tensor, tuple[MultiIndex, ...]]]:
        """Where it was looked at, and which derivatives."""
        return [(x, tuple(sorted(found))) for x, found in self.seen]


def start_of(given: object) -> State | None:
    """A field or any function of points, as the start of an iteration."""
    if given is None or hasattr(given, "derivatives"):
        return given
    if callable(given):
        return Differentiated(given)
    raise CnfError(
        f"start is a field or a function of points (P, D) -> (P, C), such as a solution; got a {type(given).__name__}"
    )


@dataclass(frozen=True, eq=False)
class Differentiated:
    """Any function of points as a state."""

    function: Callable[[Tensor], Tensor]

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        return derived(self.function, x, indices)
