"""Sides: how a state looks from either side of a face, for conditions between regions that are not linear."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from cnf.bases.basis import Basis
from cnf.operators.forward import MultiIndex
from cnf.operators.nonlinear import Called, State
from cnf.systems.states import Between, Known, Mixed
from cnf.systems.tied import CellExpansion

Sides = Callable[[Tensor], State]  # cells (P,) of points on faces -> the state that they have there


@dataclass(frozen=True, eq=False)
class Within:
    """Any state, looked at a little inside of cells (P,): what an iteration begins with."""

    state: State
    basis: Basis
    cells: Tensor

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        return self.state.derivatives(self.basis.inwards(x, self.cells), indices)


def sides_of(state: State, basis: Basis) -> Sides:
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
    if isinstance(expansion, CellExpansion) and expansion.has_cells_of(basis):
        return expansion.beside
    return lambda cells: Within(state, basis, cells)
