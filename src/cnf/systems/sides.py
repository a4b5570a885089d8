"""States that are made of others, and how they look from either side of a face: for conditions that are not linear."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from cnf.bases.piecewise import Piecewise
from cnf.operators.forward import MultiIndex
from cnf.operators.nonlinear import State
from cnf.systems.tied import CellExpansion

INWARDS = 1e-7  # of the way to the middle of a cell: on which side a field with other cells is looked at

Sides = Callable[[Tensor], State]  # cells (P,) of points on faces -> the state that they have there


@dataclass(frozen=True, eq=False)
class Within:
    """Any state, looked at a little inside of cells (P,): what an iteration begins with."""

    state: State
    basis: Piecewise
    cells: Tensor

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        middle = torch.from_numpy((self.basis.cells.lower + self.basis.cells.upper) / 2).to(x)[self.cells]
        return self.state.derivatives(torch.lerp(x, middle, INWARDS), indices)


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


def sides_of(state: State, basis: Piecewise) -> Sides:
    """How a state looks from the cells of a basis; an expansion over these very cells is that of each of them."""
    if isinstance(state, Known):
        return sides_of(state.state, basis)
    if isinstance(state, Between):
        first, second, share = sides_of(state.first, basis), sides_of(state.second, basis), state.share
        return lambda cells: Between(first(cells), second(cells), share)
    expansion = getattr(state, "expansion", None)
    if isinstance(expansion, CellExpansion) and _same_cells(expansion, basis):
        return expansion.beside
    return lambda cells: Within(state, basis, cells)


def _same_cells(expansion: CellExpansion, basis: Piecewise) -> bool:
    pairs = ((expansion.evaluator.cells.lower, basis.cells.lower), (expansion.evaluator.cells.upper, basis.cells.upper))
    return all(one.shape == other.shape and bool(np.array_equal(one, other)) for one, other in pairs)
