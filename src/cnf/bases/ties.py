"""Ties and guides: what holds across the faces of cells, and what decides what conditions leave open inside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from cnf.constraints import Constraint
from cnf.constraints.constraint import RightHandSide
from cnf.errors import BasisError
from cnf.operators.nonlinear import State


@dataclass(frozen=True, eq=False)
class Tie:
    """The operator of `condition` must give the same in the cells `first` and `second` (P,) of its points.

    Across an interface, the side of `second` has the operator of `beyond`, and what `first` has more than `second` is
    the right-hand side of `condition`.

    >>> space = cnf.Space("x", "u")
    >>> across = space.constraint("u = 0", at=[[0.5]], name="u across x = 0.5")
    >>> tie = cnf.bases.Tie(across, torch.tensor([0]), torch.tensor([1]))
    >>> tie.is_linear
    True
    """

    condition: Constraint
    first: Tensor
    second: Tensor
    beyond: Constraint | None = None

    def sides(self) -> list[tuple[Constraint, Tensor, float]]:
        """What adds up to the values of the condition: operators, in which cells, with which sign."""
        return [(self.condition, self.first, 1.0), (self.beyond or self.condition, self.second, -1.0)]

    @property
    def is_linear(self) -> bool:
        """Whether both sides are linear in the field."""
        return all(condition.nonlinear is None for condition, _, _ in self.sides())

    def renewed(self) -> Tie:
        """With the right-hand sides evaluated anew if anything learnable is in them."""
        return replace(
            self,
            condition=self.condition.renewed(),
            beyond=None if self.beyond is None else self.beyond.renewed(),
        )

    def around(self, beside: Callable[[Tensor], State]) -> Tie:
        """Linearised, as it is now, around the states that `beside` gives for cells (P,), each side around its own."""
        if self.is_linear:
            return self
        sides = self.renewed().sides()
        here, there = (condition.linearised(beside(cells)) for condition, cells, _ in sides)
        values = here.values - (there.values - sides[1][0].values)  # what linearising adds to the values, of both sides
        side = RightHandSide(values, here.right_hand_side.frame)
        return replace(self, condition=replace(here, values=values, right_hand_side=side), beyond=there)

    def missed(self, beside: Callable[[Tensor], State]) -> tuple[Tensor, Tensor]:
        """N of one side minus N of the other minus what is asked, and the sizes of the terms together, (P, R) each."""
        asked = self.condition.values if self.condition.asked is None else self.condition.asked
        total, size = -asked, asked.abs()
        for condition, cells, sign in self.sides():
            state = beside(cells)
            found, terms = condition.beyond(state)
            total, size = total + sign * found, size + terms
            for probe in condition.linear_part:
                for r, request in zip(probe.rows, probe.requests, strict=True):
                    jets = state.derivatives(probe.points, tuple(request.weights))
                    for index, weight in request.weights.items():
                        part = (weight * jets[index][:, request.channel])[:, None]
                        row = torch.tensor([r], device=part.device)
                        total, size = total.index_add(1, row, sign * part), size.index_add(1, row, part.abs())
        return total, size


@dataclass(frozen=True, eq=False)
class Guide:
    """A condition to come close to, at points (P, D) of the cells (P,): in least squares, where exact ones leave room.

    Exact conditions are never traded against it.

    >>> space = cnf.Space("x", "u")
    >>> wish = space.constraint("u = 1", at=[[0.2], [0.4]], name="wish")
    >>> cnf.bases.Guide(wish, torch.tensor([0, 0])).cells.tolist()
    [0, 0]
    """

    condition: Constraint
    cells: Tensor


def checked_tie(given: Tie | Sequence, cells: int) -> Tie:
    tie = given if isinstance(given, Tie) else Tie(*given)
    count = tie.condition.points.shape[0]
    for side in (tie.first, tie.second):
        _check_cells(side, count, cells, "a tie names two")
    if tie.beyond is not None and (
        tie.beyond.values.shape != tie.condition.values.shape
        or not torch.equal(tie.beyond.points, tie.condition.points)
    ):
        raise BasisError("both sides of a tie have the same points and as many rows")
    return tie


def checked_guide(given: Guide | Sequence, cells: int) -> Guide:
    guide = given if isinstance(given, Guide) else Guide(*given)
    _check_cells(guide.cells, guide.condition.points.shape[0], cells, "a guide names one")
    return guide


def checked_strengths(given: Tensor | np.ndarray | None, cells: int) -> np.ndarray | None:
    if given is None:
        return None
    found = np.asarray(given.detach().cpu() if isinstance(given, Tensor) else given, dtype=np.float64)
    if found.shape != (cells,) or not (np.isfinite(found).all() and (found > 0).all()):
        raise BasisError(f"strengths of guides are a positive number for each of the {cells} cells")
    return found


def _check_cells(given: Tensor, count: int, cells: int, what: str) -> None:
    if given.shape != (count,) or given.is_floating_point() or bool(((given < 0) | (given >= cells)).any()):
        raise BasisError(f"{what} of the {cells} cells for each of its {count} points")
