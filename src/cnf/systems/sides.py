"""Sides: how a state looks from either side of a face, for conditions between regions that are not linear."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cnf.bases.piecewise import Piecewise
from cnf.operators.forward import MultiIndex
from cnf.operators.nonlinear import Called, State
from cnf.systems.states import Between, Known, Mixed
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


def sides_of(state: State, basis: Piecewise) -> Sides:
    """How a state looks from the cells of a basis; an expansion over these very cells is that of each of them."""
    if isinstance(state, Known | Called):
        return sides_of(state.state, basis)
    if isinstance(state, Between):
        first, second, share = sides_of(state.first, basis), sides_of(state.second, basis), state.share
        return lambda cells: Between(first(cells), second(cells), share)
    if isinstance(state, Mixed):
        parts, shares = [sides_of(part, basis) for part in state.states], state.shares
        return lambda cells: Mixed(tuple(part(cells) for part in parts), shares)
    expansion = getattr(state, "expansion", None)
    if isinstance(expansion, CellExpansion) and _same_cells(expansion, basis):
        return expansion.beside
    return lambda cells: Within(state, basis, cells)


def _same_cells(expansion: CellExpansion, basis: Piecewise) -> bool:
    pairs = ((expansion.evaluator.cells.lower, basis.cells.lower), (expansion.evaluator.cells.upper, basis.cells.upper))
    return all(one.shape == other.shape and bool(np.array_equal(one, other)) for one, other in pairs)
