"""Pursuit: a nonlinear problem that starts somewhere is followed from there, one window of time after the other.

Newton's iteration over a long time begins too far from what it looks for. So each window is solved on its own, from the
end of the one before, as long as the iteration converges there and on cells as small as the field asks for. What comes
of it is where the problem as a whole begins: the cells of all windows, and a field that nearly meets its conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cnf.bases.cells import Cells
from cnf.operators.forward import MultiIndex
from cnf.operators.nonlinear import State
from cnf.pde.patches.known_cells import following_formulas
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.question import Question
from cnf.pde.patches.refining import refine
from cnf.pde.patches.rounds import Round
from cnf.pde.patches.windows import continued, solve_window, starts
from cnf.solution import Solution

FIRST = 1 / 8  # of the whole time: the first window
SHORTEST = 1e-5
CLOSELY = 1e-5  # how far windows may be off: they serve as a start
LONGER = 2.0  # times as long: the next window, where this one was easy
EASY = 1  # meshes that an easy window takes
MESHES = 12  # that a window may take
PATIENCE, FALLS = 2, 0.5  # meshes that leave more than so much of what is off: data contradict each other there
SHARE = 0.3  # of the field: windows that are off by more are not resolved


@dataclass(frozen=True, eq=False)
class InTurn:
    """A state that is one field after the other along a coordinate; `ends` (n,) of all but the last."""

    axis: int
    ends: Tensor
    states: tuple[State, ...]

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        number = torch.bucketize(x[:, self.axis].contiguous(), self.ends)
        found: dict[MultiIndex, Tensor] = {}
        for k in torch.unique(number).tolist():
            (own,) = torch.nonzero(number == k, as_tuple=True)
            for index, values in self.states[k].derivatives(x[own], indices).items():
                known = found.setdefault(index, values.new_zeros(x.shape[0], values.shape[1]))
                found[index] = known.index_copy(0, own, values)
        return found


@dataclass(frozen=True, eq=False)
class Held:
    """A state that stays as it was at some moment."""

    axis: int
    moment: float
    state: State

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        then = x.clone()
        then[:, self.axis] = self.moment
        still = [index for index in indices if not index[self.axis]]
        known = self.state.derivatives(then, still or [(0,) * x.shape[1]])
        like = next(iter(known.values()))
        return {index: known[index] if index in still else torch.zeros_like(like) for index in indices}


def axis_of(question: Question) -> int | None:
    """The coordinate along which a nonlinear problem on a box is followed, the last one; None if there is none."""
    domain = question.domain
    if question.is_linear or not domain._is_box or question.regions is not None:
        return None
    if question.time is None and domain.dimension > 1:
        return None
    others = [place for place in question.places if not starts(question, place)]
    during = ("interior",) if question.time is None else ("interior", "boundary", "shape", "slice")
    elsewhere = any(place.kind not in during or domain.dimension - 1 in (place.fixed or {}) for place in others)
    return None if elsewhere or len(others) == len(question.places) else domain.dimension - 1


def pursued(
    question: Question, orders: Orders, cells: Cells, degree: tuple[int, ...], goal: float
) -> tuple[Cells, Question]:
    """Cells of a question and the question around a field that nearly answers it; what is given if nothing is known.

    `cells`: as formulas ask for; every window has those that there are when it begins.
    """
    axis = axis_of(question)
    if axis is None:
        return cells, question
    first, last = question.domain.lower[axis], question.domain.upper[axis]
    length, moment, before = FIRST * (last - first), first, None
    kept: list[tuple[float, Cells, Solution]] = []  # ends, cells and fields of windows
    while moment < last - 1e-12 * (last - first):
        end = last if moment + 1.25 * length >= last else moment + length
        window = continued(question, moment, end, before)
        window = window if before is None else window.after(Held(axis, moment, before))
        begun = section_during(cells if before is None else kept[-1][1], axis, moment if before is None else None)
        found, meshes = resolved(window, orders, begun(moment, end), degree, max(goal, CLOSELY))
        if found is None:
            length /= 2
            if length < SHORTEST * (last - first):
                break
            continue
        kept.append((end, found.mesh.cells, found.solution))
        moment, before = end, found.solution
        length = (end - (kept[-2][0] if len(kept) > 1 else first)) * (LONGER if meshes <= EASY else 1.0)
    if not kept:
        return cells, question
    ends = torch.tensor([end for end, _, _ in kept[:-1]], dtype=torch.float64)
    state = InTurn(axis, ends, tuple(field for _, _, field in kept))
    if moment >= last - 1e-12 * (last - first):
        cells = following_formulas(question, orders, Cells.stacked([own for _, own, _ in kept], axis), degree, goal)
    return cells, question.after(state)


def resolved(
    window: Question, orders: Orders, cells: Cells, degree: tuple[int, ...], goal: float
) -> tuple[Round | None, int]:
    """The field of a window on cells that follow it, and how many meshes that took; None if it is not found."""
    off: list[float] = []
    for number in range(1, MESHES + 1):
        found = solve_window(window, orders, cells, degree)
        convergence = found.solution.convergence
        if convergence is not None and convergence.stopped:
            return None, number
        flat = len(off) >= PATIENCE and found.missed > FALLS * off[-PATIENCE]
        if found.worst <= goal or (flat and found.worst <= SHARE):  # whether it will do is found out with the whole
            return found, number
        off.append(found.missed)
        window, cells = window.after(found.solution), refine(found, orders)
    return None, MESHES


def section_during(cells: Cells, axis: int, moment: float | None) -> Callable[[float, float], Cells]:
    """The cells that there are at a moment, or at the end, as long as a window lasts; time is the last coordinate."""
    if cells.dimension == 1:
        return lambda start, end: Cells([start], [end])
    at = float(cells.upper[:, axis].max()) if moment is None else moment
    space, _ = cells.section(axis, at)
    return lambda start, end: space.extended(start, end)
