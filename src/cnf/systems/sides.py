"""Sides: a state as the cells on either side of a face have it, for conditions across faces that are not linear."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

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
class Mixed:
    """(1 - share) of one state and `share` of another."""

    first: State
    second: State
    share: float

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        one, other = (state.derivatives(x, indices) for state in (self.first, self.second))
        return {index: torch.lerp(one[index], other[index], self.share) for index in indices}


def sides_of(state: State, basis: Piecewise) -> Sides:
    """How a state looks from the cells of a basis; an expansion over these very cells is that of each of them."""
    while hasattr(state, "seen") and hasattr(state, "state"):  # only remembers what another one says
        state = state.state
    between: Any = state
    if hasattr(between, "share"):
        first, second, share = sides_of(between.first, basis), sides_of(between.second, basis), between.share
        return lambda cells: Mixed(first(cells), second(cells), share)
    expansion = getattr(state, "expansion", None)
    if isinstance(expansion, CellExpansion) and _same_cells(expansion, basis):
        return expansion.beside
    return lambda cells: Within(state, basis, cells)


def _same_cells(expansion: CellExpansion, basis: Piecewise) -> bool:
    pairs = ((expansion.evaluator.cells.lower, basis.cells.lower), (expansion.evaluator.cells.upper, basis.cells.upper))
    return all(one.shape == other.shape and bool(np.array_equal(one, other)) for one, other in pairs)
