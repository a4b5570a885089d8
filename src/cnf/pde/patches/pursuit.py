"""Pursuit: a nonlinear problem that starts somewhere is followed from there, one window of time after the other.

Newton's iteration over a long time begins too far from what it looks for. So each window is solved on its own, from the
end of the one before, as long as the iteration converges there and on cells as small as the field asks for. What comes
of it is where the problem as a whole begins: the cells of all windows, and a field that nearly meets its conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cnf.bases.cells import Cells
from cnf.errors import NotANumberError, UnfollowedError
from cnf.operators.forward import MultiIndex
from cnf.operators.nonlinear import State
from cnf.pde.patches.known_cells import following_formulas
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.question import ROUND_BEFORE, Question, bare
from cnf.pde.patches.refining import refine
from cnf.pde.patches.rounds import Followed, Round, points_between
from cnf.pde.patches.windows import continued, solve_window, starts
from cnf.solution import Solution
from cnf.telling import during

FIRST = 1 / 8  # of the whole time: the first window
SHORTEST = 1e-5
CLOSELY = 1e-5  # how far windows may be off: they serve as a start
LONGER = 2.0  # times as long: the next window, where this one was easy
EASY = 1  # meshes that an easy window takes
MESHES = 12  # that a window may take
PATIENCE, FALLS = 2, 0.5  # meshes that leave more than so much of what is off: data contradict each other there
SHARE = 0.3  # of the field: windows that are off by more are not resolved
GROWN = 30.0  # times its size in the first window: a field that cannot be followed any further blows up
NOT_CONVERGED = "the iteration does not converge"
NOT_RESOLVED = "no cells resolve the field"


@dataclass(frozen=True, eq=False)
class InTurn:
    """A state that is one field after the other along a coordinate; `ends` (n,) of all but the last."""

    axis: int
    ends: Tensor
    states: tuple[State, ...]
    called: str = "the field followed in windows"

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
) -> tuple[Cells, Question, tuple[Followed, ...]]:
    """Cells of a question, the question around a field that nearly answers it, and the windows that led there.

    What is given, and no windows, if a question is not followed, or has no first window that is resolved. `cells`: as
    formulas ask for; every window has those that there are when it begins.
    """
    axis = axis_of(question)
    if axis is None:
        return cells, question, ()
    first, last = question.domain.lower[axis], question.domain.upper[axis]
    length, moment = FIRST * (last - first), first
    before: Solution | None = None
    kept: list[tuple[Followed, Round]] = []
    tried = 0  # lengths of this window
    while moment < last - 1e-12 * (last - first):
        end = last if moment + 1.25 * length >= last else moment + length
        window = continued(question, moment, end, before)
        window = window if before is None else window.after(Held(axis, moment, before), "the end of the window before")
        begun = section_during(cells if not kept else kept[-1][1].mesh.cells, axis, None if kept else moment)
        with during(f"{question.space.coordinates[axis]} from {moment:.4g} to {end:.4g} of {last:g}"):
            lenient = not kept and tried > 0  # a contradiction at the start is one for windows of any length
            found, meshes, why = resolved(window, orders, begun(moment, end), degree, max(goal, CLOSELY), lenient)
        if found is None:
            length, tried = length / 2, tried + 1
            if length < SHORTEST * (last - first):
                refuse_lost_way(question, axis, [own for _, own in kept], moment, why)
                return cells, question, ()
            continue
        kept.append((Followed(moment, end, meshes, steps_of(found)), found))
        length = (end - moment) * (LONGER if meshes <= EASY else 1.0)
        moment, before, tried = end, bare(found.solution), 0
    ends = torch.tensor([window.end for window, _ in kept[:-1]], dtype=torch.float64)
    state = InTurn(axis, ends, tuple(bare(own.solution) for _, own in kept))
    stacked = Cells.stacked([own.mesh.cells for _, own in kept], axis)
    cells = following_formulas(question, orders, stacked, degree, goal)
    return cells, question.after(state, "the fields of its windows"), tuple(window for window, _ in kept)


def resolved(
    window: Question, orders: Orders, cells: Cells, degree: tuple[int, ...], goal: float, lenient: bool = False
) -> tuple[Round | None, int, str]:
    """The field of a window on cells that follow it, and how many meshes that took; None and why if it is not found.

    `lenient`: fields that smaller cells do not improve are taken, however far they are off.
    """
    off: list[float] = []
    for number in range(1, MESHES + 1):
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # iterates that blow up say so themselves
                found = solve_window(window, orders, cells, degree)
        except NotANumberError as error:
            return None, number, str(error)
        if not found.converged:
            return None, number, NOT_CONVERGED
        flat = len(off) >= PATIENCE and found.missed > FALLS * off[-PATIENCE]
        if found.worst <= goal or (flat and (lenient or found.worst <= SHARE)):  # the whole shows whether it will do
            return found, number, ""
        if flat:
            break
        off.append(found.missed)
        window, cells = window.after(found.solution, ROUND_BEFORE), refine(found, orders)
    return None, number, NOT_RESOLVED


def steps_of(found: Round) -> int:
    """Of Newton's iteration."""
    return 0 if found.solution.convergence is None else found.solution.convergence.steps


def refuse_lost_way(question: Question, axis: int, kept: Sequence[Round], moment: float, why: str) -> None:
    """Say where a problem can be followed no further; nothing if cells do not resolve its start: all time may do."""
    name, last = question.space.coordinates[axis], question.domain.upper[axis]
    if not kept:
        if why == NOT_RESOLVED:
            return
        advice = (
            f"{why} however short the window; start, boundary and equation may contradict each other there, or no real "
            "field solves them"
        )
        raise UnfollowedError(f"it cannot start at {name} = {moment:g}: {advice if why == NOT_CONVERGED else why}")
    sizes = []
    for found in (kept[0], kept[-1]):
        _, points = points_between(found.mesh, question.seed)
        with torch.no_grad():
            values = found.solution(torch.from_numpy(points))[:, : question.asked].abs()
        sizes.append(float(values.max()))
    largest, where = (part.tolist() for part in values.amax(dim=1).max(dim=0))
    channel = question.space.channels[int(values[where].argmax())]
    place = [f"{c} = {v:.4g}" for c, v in zip(question.space.coordinates, points[where], strict=True) if c != name]
    grows = sizes[1] > GROWN * sizes[0]
    reason = (
        f"the solution seems to end there (blow-up): |{channel}| has grown from {sizes[0]:.1g} to {largest:.1g}"
        f"{' at ' + ', '.join(place) if place else ''}"
        if grows
        else "the solution may end there, or become steeper than patches can follow"
    )
    reached = f"followed up to {name} = {moment:.6g} of {last:g}"
    advice = f"end before, at {name} = {shorter(question.domain.lower[axis], moment):g} for instance"
    raise UnfollowedError(f"{reached}; there {why} however short the window: {reason}; {advice}", grows=grows)


def shorter(first: float, moment: float) -> float:
    """A little before a moment, in two digits."""
    return float(f"{first + 0.95 * (moment - first):.2g}")


def section_during(cells: Cells, axis: int, moment: float | None) -> Callable[[float, float], Cells]:
    """The cells that there are at a moment, or at the end, as long as a window lasts; time is the last coordinate."""
    if cells.dimension == 1:
        return lambda start, end: Cells([start], [end])
    at = float(cells.upper[:, axis].max()) if moment is None else moment
    space, _ = cells.section(axis, at)
    return lambda start, end: space.extended(start, end)
