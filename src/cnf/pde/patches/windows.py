"""Windows: a problem during time solved one slab after the other, each refined before the next one starts from it.

Where a field is carried along and no formula says where it goes (u_t + b u_x = a Laplace u with a small a), cells that
are too wide do not only miss it: what they make of it grows from slab to slab, and of all slabs together only the last
ones show. So every slab is solved on its own, from the field that the one before ended with; its cells follow that
field, fine where it is now and coarse where it has been, and are cut until a field of higher degree agrees with it.
What comes out are cells for the whole of time: the field on all of them, and its estimate, are found as always.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from cnf.bases.cells import Cells
from cnf.constraints import Constraint
from cnf.constraints.constraint import RightHandSide, make_constraint
from cnf.operators.coefficients import data_function
from cnf.operators.frame import symbol
from cnf.pde.domains import Box, Timed
from cnf.pde.domains.domain import Sample
from cnf.pde.patches.evening import PARTS
from cnf.pde.patches.formulas import Formula, follow
from cnf.pde.patches.mesh import Mesh
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.question import Part, Question
from cnf.pde.patches.refining import marked_cells, refine
from cnf.pde.patches.rounds import Round, channel_amplitudes, points_between, solve_round
from cnf.solution import Solution

STARTED = 0.01  # of the goal: how closely the cells of a window follow what it starts from, for that adds up
SHARE = 0.3  # of the goal: how far a window may be off at any point
TRIES = 12  # meshes of a window
SHORTEST = 2.0**-12  # of all the time: windows
LOOKED_AT = 500  # points at which the size of a field is looked at


@dataclass(frozen=True)
class Beginning:
    """The part of a question on which a window starts."""

    fixed: Mapping[int, float]
    region: int | None = None
    kind: str = "slice"
    shape: str | None = None


def can_be_continued(question: Question, orders: Orders) -> bool:
    """Whether a box of one or two coordinates during time can be solved window by window.

    All that is asked is asked at one place, at every moment or at the start.
    """
    if not isinstance(question.domain, Timed) or not question.domain._is_box or question.domain.dimension > 3:
        return False
    if question.regions is not None or question.local is not None or orders.time is None:
        return False
    if not question.is_linear:  # these are followed otherwise, from the first
        return False
    here = all(term.place.is_here for c in question.constraints for row in c.operator.rows for term in row)
    return here and all(
        place.kind in PARTS
        and (place.kind != "slice" or len(place.fixed or {}) == 1)
        and (orders.time not in (place.fixed or {}) or starts(question, place))
        for place in question.places
    )


def continued(question: Question, start: float, end: float, before: Solution | None) -> Question:
    """The same question from `start` to `end`, which begins as the field `before` ended; None: as asked.

    Time is the last coordinate, or the only one.
    """
    given, axis = question.domain, question.domain.dimension - 1
    domain = Timed(given.space, start, end) if isinstance(given, Timed) else Box([start], [end])
    if before is None:
        return replace(question, domain=domain)
    begins = [starts(question, place) for place in question.places]
    places = [Beginning({axis: start}) if own else p for p, own in zip(question.places, begins, strict=True)]

    def at(k: int, sample: Sample) -> Constraint:
        found = question.at(k, sample)
        if not begins[k]:
            return found
        side = RightHandSide(partial(reached, before, question, k), found.operator._needs_frame())
        return make_constraint(found.name, found.operator, sample.points, side)

    constraints = [
        at(k, Sample(_at_moment(c.points, start), None)) if own else c
        for k, (c, own) in enumerate(zip(question.constraints, begins, strict=True))
    ]
    return replace(question, domain=domain, places=places, at=at, constraints=constraints)


def solve_window(question: Question, orders: Orders, cells: Cells, degree: tuple[int, ...]) -> Round:
    """The field of a window (see `continued`) on cells of it, and how far it is off between the points."""
    return solve_round(question, orders, Mesh.of(cells, degree, question.domain))


def reached(field: Solution, question: Question, k: int, points: Tensor) -> Tensor:
    """What equation k makes of a field at points (P, D), (P, R)."""
    with torch.no_grad():
        condition = question.at(k, Sample(points, None))
        return field.applied(condition.expanded(), (condition.values.shape[0], condition.values.shape[1]))


def cells_by_windows(
    question: Question,
    orders: Orders,
    known: Cells,
    degree: tuple[int, ...],
    goal: float,
    enough: Callable[[int], bool],
) -> Cells | None:
    """Cells on which every slab is off by a share of `goal` at most, from those `known` for formulas.

    None if there is no end to it: a window that no mesh resolves, or so many cells in all that it is `enough`.
    """
    assert isinstance(question.domain, Timed) and orders.time is not None
    time, first, last = orders.time, question.domain.start, question.domain.end
    ends = np.unique(known.upper[:, time])
    done: list[Cells] = []
    before: Solution | None = None
    start, length, size = first, np.inf, 0.0
    while start < last:
        end = float(ends[ends > start][0])
        if start + 1.5 * length < end:  # a rest that is shorter than half a window is none
            end = float(start + length)
        window = continued(question, start, end, before)
        across, _ = known.section(time, (start + end) / 2)
        cells = followed(window, orders, across.extended(start, end), degree, goal, before)
        found: Round | None = None
        for _ in range(TRIES):
            if enough(cells.count + sum(own.count for own in done)):
                return None
            found = judged(window, orders, cells, degree)
            own = amplitude(found.solution, window)
            off = found.worst * own / max(size, own)
            if off <= SHARE * goal or changes_in_time(found, orders):
                break
            cells = refine(found, orders, across_time=False)
        assert found is not None
        if off > SHARE * goal:
            length = (end - start) / 2
            if length < SHORTEST * (last - first):
                return None
            continue
        done.append(cells)
        before, start, size = found.solution, end, max(size, own)
        spare = off * 2.0 ** degree[time] <= SHARE * goal
        length = (2 if spare else 1) * min(length, end - cells.lower[0, time])
    return Cells.stacked(done, time)


def judged(window: Question, orders: Orders, cells: Cells, degree: tuple[int, ...]) -> Round:
    """The field of a window, with how far it is from one of a higher degree in every cell.

    What equations miss between the points says less here: a window starts from a field that is a little off on smaller
    scales than its own, and derivatives show that out of proportion.
    """
    found, finer = (solve_window(window, orders, cells, tuple(p + more for p in degree)) for more in (0, 1))
    owner, points = points_between(found.mesh, window.seed + 1)
    x = torch.from_numpy(points)
    with torch.no_grad():
        apart = (found.solution(x) - finer.solution(x)).abs() / channel_amplitudes(found.solution, x)
    off = np.zeros(found.mesh.patches.count)
    np.maximum.at(off, owner, np.nan_to_num(apart.amax(dim=1).numpy(), nan=np.inf))
    return replace(found, off=off)


def followed(
    window: Question, orders: Orders, cells: Cells, degree: tuple[int, ...], goal: float, before: Solution | None
) -> Cells:
    """Cells of a window that follow the field it starts from."""
    if before is None or orders.time is None:
        return cells
    names, moment, formulas = window.space.coordinates, window.domain.lower[orders.time], []
    for number, channel in enumerate(window.space.channels):
        start = data_function(f"{channel} before", (0,) * len(names))(*map(symbol, names))
        data = {f"{channel} before": partial(_channel, before, number)}
        formulas.append(Formula(start, names, data, orders.time, moment, hidden=False))
    return follow(cells, degree, formulas, STARTED * goal, window.seed, orders.time)


def changes_in_time(found: Round, orders: Orders) -> bool:
    """Whether cells that are off ask for shorter slabs rather than for smaller cells."""
    return bool(marked_cells(found, orders)[:, orders.time].any())


def amplitude(solution: Solution, window: Question) -> float:
    points = window.domain.fill(LOOKED_AT, "halton", window.seed)
    with torch.no_grad():
        return float(channel_amplitudes(solution, points).max())


def starts(question: Question, place: Part) -> bool:
    """Whether a place is where time begins."""
    return place.kind == "slice" and dict(place.fixed or {}) == {
        question.domain.dimension - 1: question.domain.lower[-1]
    }


def _at_moment(points: Tensor, moment: float) -> Tensor:
    found = points.detach().clone()
    found[:, -1] = moment
    return found


def _channel(field: Solution, channel: int, points: Tensor) -> Tensor:
    return field(points)[:, channel]
