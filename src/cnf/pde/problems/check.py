"""Check: what a problem says, as it was read, and hints about what may be missing or too much; nothing is solved.

The hints come from the orders of the operators: a time derivative of order q wants q conditions at the first instant,
a spatial operator of even order 2m wants m conditions at every piece of the boundary, and a channel that appears only
through its derivatives is known only up to a constant. They are hints: an advection equation wants fewer.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy.spatial import cKDTree
from torch import Tensor

from cnf.constraints import Constraint
from cnf.errors import UnderdeterminedError
from cnf.operators.printing import CoefficientPrinter
from cnf.pde.domains import Timed
from cnf.pde.domains.connected import connected_parts
from cnf.pde.problems.balance import changes_of_sign, contradictions
from cnf.pde.problems.jumps import Jump
from cnf.pde.problems.places import TOUCH, Place
from cnf.pde.problems.problem import Problem

BOUNDARY_SAMPLE = 400


@dataclass(frozen=True)
class Reading:
    """One equation as it was read."""

    name: str
    where: str
    written: str
    read: str  # the normal form, in LaTeX
    points: int
    rows: int


@dataclass(frozen=True)
class Check:
    """What was read; `missing` and `surplus` are hints about well-posedness."""

    title: str
    domain: str
    readings: tuple[Reading, ...]
    conditions: int
    missing: tuple[str, ...]
    surplus: tuple[str, ...]

    @property
    def hints(self) -> tuple[str, ...]:
        return (*self.missing, *self.surplus)


def check_problem(problem: Problem) -> Check:
    """Read everything, count, and look for gaps."""
    constraints = problem.constraints
    places = problem._placing.places
    readings = tuple(
        Reading(e.name, p.text, e.latex, read_back(c), c.points.shape[0], c.rows)
        for e, p, c in zip(problem.equations, places, constraints, strict=True)
    ) + tuple(_read_jump(jump) for jump in problem.jumps)
    missing = _initial_gaps(problem)
    surplus: list[str] = []
    for channel in problem.space.channels:
        gap, excess = _boundary_gap(problem, channel)
        found = (gap, _constant_gap(problem, channel), _absent(problem, channel))
        missing += [hint for hint in found if hint]
        surplus += [excess] if excess else []
    return Check(
        problem.title,
        problem.domain_text,
        readings,
        sum(c.rows for c in constraints),
        tuple(missing),
        (*surplus, *contradictions(problem), *changes_of_sign(problem)),
    )


def _read_jump(jump: Jump) -> Reading:
    """A condition on an interface; how many points it has is for the solver to say."""
    operator = jump.operator(next(iter(jump.interfaces)))
    read = f"[{operator.to_latex()}] = {jump.side}"
    return Reading(jump.equation.name, jump.equation.on or "", jump.equation.latex, read, 0, 0)


def read_back(constraint: Constraint) -> str:
    """The equation as the library understood it: the operator in normal form and its right-hand side, row by row."""
    rows = constraint.operator.to_latex().split("; ")
    source, frame = constraint.right_hand_side.source, constraint.operator.frame
    if isinstance(source, tuple):
        sides = [CoefficientPrinter(frame, {}).doprint(e) for e in source]
    elif isinstance(source, int | float):
        sides = [f"{source:g}"] * len(rows)
    else:
        sides = [r"\mathrm{data}"] * len(rows)
    if len(sides) != len(rows):
        return constraint.operator.to_latex()
    return "; ".join(f"{row} = {side}" for row, side in zip(rows, sides, strict=True))


def _orders(problem: Problem, channel: str) -> tuple[int, int]:
    """The highest derivatives of a channel in space and in time among the equations of the interior."""
    space_order = time_order = 0
    for place, constraint in zip(problem._placing.places, problem.constraints, strict=True):
        if place.kind != "interior" or not is_closed(constraint, channel, problem):
            continue
        for row in constraint.operator.rows:
            for term in row:
                if term.channel != channel:
                    continue
                orders = dict(term.derivatives)
                in_time = sum(n for c, n in orders.items() if c in problem.space.frame.time)
                space_order = max(space_order, sum(orders.values()) - in_time)
                time_order = max(time_order, in_time)
    return space_order, time_order


def is_closed(constraint: Constraint, channel: str, problem: Problem) -> bool:
    """True if a row has this channel at a higher order than any other.

    Others do not say how many conditions the channel wants: the divergence of a velocity, for instance.
    """
    for row in constraint.operator.rows:
        orders = {t.channel: 0 for t in row}
        for term in row:
            orders[term.channel] = max(orders[term.channel], sum(n for _, n in term.derivatives))
        if orders.get(channel, -1) == max(orders.values()) and list(orders.values()).count(max(orders.values())) == 1:
            return True
    return False


def _touching(problem: Problem, channel: str) -> list[tuple[float, Place, Tensor]]:
    """Where conditions outside the interior look at the channel: place, points (P, D), and how many conditions.

    A condition that ties two places together, such as u(0, t) = u(1, t), counts half at each.
    """
    found = []
    for place, constraint in zip(problem._placing.places, problem.constraints, strict=True):
        if place.kind not in ("boundary", "shape", "slice", "file"):
            continue
        rows = [any(term.channel == channel for term in row) for row in constraint.operator.rows]
        local = [probe.points for probe in constraint.expanded() if probe.nodes == 1]
        if any(rows):
            found += [(sum(rows) / len(local), place, points) for points in local]
    return found


def _ends(problem: Problem) -> tuple[float, float] | None:
    domain = problem.domain
    return (domain.lower[-1], domain.upper[-1]) if isinstance(domain, Timed) else None


def _is_instant(problem: Problem, points: Tensor) -> bool:
    """True for points that all lie at the first or at the last instant."""
    ends = _ends(problem)
    return ends is not None and any(bool((points[:, -1] == end).all()) for end in ends)


def _initial_gaps(problem: Problem) -> list[str]:
    """Time derivatives that want more conditions at the ends of time; a channel may have those of another."""
    ends = _ends(problem)
    if ends is None:
        return []
    wanted = {c: _orders(problem, c)[1] for c in problem.space.channels}
    found = {
        c: round(sum(w for w, _, points in _touching(problem, c) if _is_instant(problem, points)))
        for c in problem.space.channels
    }
    if sum(found.values()) >= sum(wanted.values()):
        return []
    return [
        f"the equation for {c} has a time derivative of order {order}, which takes {order} "
        f"condition{'s' if order > 1 else ''} at t = {ends[0]:g}; there {'is' if found[c] == 1 else 'are'} "
        f"{found[c] or 'none'}"
        for c, order in wanted.items()
        if found[c] < order
    ]


def _ordinary_gap(problem: Problem, channel: str, order: int) -> str:
    """In one dimension an equation of order n takes n conditions, wherever they are."""
    found = 0
    for place, constraint in zip(problem._placing.places, problem.constraints, strict=True):
        if place.kind != "interior":
            rows = sum(any(term.channel == channel for term in row) for row in constraint.operator.rows)
            found += rows * constraint.points.shape[0]
    if found >= order:
        return ""
    return (
        f"the equation for {channel} is of order {order}, which takes {order} condition{'s' if order > 1 else ''} "
        f"besides it; there {'is' if found == 1 else 'are'} {found or 'none'}"
    )


def boundary_gaps(problem: Problem) -> list[str]:
    """What the boundary lacks, channel by channel."""
    return [gap for channel in problem.space.channels if (gap := _boundary_gap(problem, channel)[0])]


def _boundary_gap(problem: Problem, channel: str) -> tuple[str, str]:
    """What the boundary lacks, and where it has too much."""
    order = _orders(problem, channel)[0]
    if problem.domain.dimension == 1:
        return _ordinary_gap(problem, channel, order), ""
    if order < 2 or order % 2:
        return "", ""
    wanted = order // 2
    edge = problem.domain.boundary_points(BOUNDARY_SAMPLE, problem.seed)
    sample = edge.points
    counts = sample.new_zeros(sample.shape[0])
    for weight, place, points in _touching(problem, channel):
        if not _is_instant(problem, points):
            covered = _covered(problem, sample, place, points)
            if problem.regions is not None and place.region is not None:
                covered *= torch.from_numpy(problem.regions.touching(edge) == place.region)
            counts += covered * weight
    bare = (counts < wanted - 0.1).nonzero()[:, 0]
    gap = excess = ""
    if len(bare) > 0.02 * len(sample):
        at = ", ".join(f"{v:.3g}" for v in sample[bare[len(bare) // 2]].tolist())
        gap = (
            f"the equation for {channel} is of order {order} in space, which takes {wanted} "
            f"condition{'s' if wanted > 1 else ''} on all of the boundary; {100 * len(bare) / len(sample):.0f} % of "
            f"it has fewer, near ({at}) for instance"
        )
    rich = (counts > wanted + 0.1).nonzero()[:, 0]
    if len(rich) > 0.5 * len(sample):
        excess = (
            f"{100 * len(rich) / len(sample):.0f} % of the boundary has more than {wanted} condition"
            f"{'s' if wanted > 1 else ''} on {channel}; they may contradict the equation"
        )
    return gap, excess


def _covered(problem: Problem, sample: Tensor, place: Place, points: Tensor) -> Tensor:
    """One for the samples (S, D) of the boundary that a condition at these points is meant for, (S,)."""
    domain = problem.domain
    extent = points.new_tensor([b - a for a, b in zip(domain.lower, domain.upper, strict=True)])
    flat = points.amax(dim=0) - points.amin(dim=0) <= TOUCH * extent
    if bool(flat.any()):  # a face, or the other end of a periodic pair
        return ((sample - points[0]).abs() <= 1e-6 * extent)[:, flat].all(dim=1).to(sample)
    if place.kind == "boundary":
        return sample.new_ones(sample.shape[0])
    if place.kind == "shape":
        known = domain.boundary_points(10 * BOUNDARY_SAMPLE, problem.seed, place.shape).points
    else:  # of a file, only what lies on the boundary
        known = points[~domain.contains(points, 1e-6 * float(extent.max()))]
    if not len(known):
        return sample.new_zeros(sample.shape[0])
    scaled, asked = (known / extent).numpy(), (sample / extent).numpy()
    near = cKDTree(scaled).query(scaled, k=min(2, len(scaled)))[0]
    limit = 2 * float(near.max()) if near.ndim > 1 else 1e-9
    return sample.new_tensor((cKDTree(scaled).query(asked)[0] <= limit).astype(float))


def _terms(problem: Problem, channel: str):
    return [t for c in problem.constraints for row in c.operator.rows for t in row if t.channel == channel]


def _constant_gap(problem: Problem, channel: str) -> str:
    terms = _terms(problem, channel)
    if not terms:
        return ""
    if any(not t.derivatives for t in terms):
        return _constant_gap_in_a_part(problem, channel)
    return (
        f"{channel} appears only through its derivatives, so it is known only up to a constant; give a value "
        "somewhere, or its mean by an integral"
    )


def _constant_gap_in_a_part(problem: Problem, channel: str) -> str:
    """A domain in pieces that do not touch wants a value in each of them; conditions without a place serve one."""
    parts = connected_parts(problem.domain)
    if parts.count == 1:
        return ""
    known: set[int] = set()
    elsewhere = 0
    for place, constraint in zip(problem._placing.places, problem.constraints, strict=True):
        rows = [[term for term in row if term.channel == channel] for row in constraint.operator.rows]
        if not any(not term.derivatives for row in rows for term in row):
            continue
        if place.kind == "nowhere":
            elsewhere += 1
        else:
            known |= set(parts.of(constraint.points.detach().cpu().numpy()).tolist())
    bare = [k for k in range(parts.count) if k not in known]
    if len(bare) <= elsewhere:
        return ""
    return (
        f"the domain lies in {parts.count} parts that do not touch, and in the one around {parts.middle(bare[0])} "
        f"{channel} appears only through its derivatives, so it is known only up to a constant; give a value there"
    )


def refuse_bare_parts(problem: Problem) -> None:
    """Refuse a problem that leaves a constant open in a part of the domain that touches no other, unless told so."""
    if problem.solving.underdetermined != "refuse":
        return
    for channel in problem.space.channels:
        if gap := _constant_gap_in_a_part(problem, channel):
            raise UnderdeterminedError(
                f"the conditions do not determine the field: {gap}, or ask for the smoothest field with "
                "underdetermined = 'minimum-norm' in [solve]"
            )


def refuse_missing_starts(problem: Problem) -> None:
    """Refuse derivatives in time that too few conditions start, unless told so or something else may make up for it."""
    time = problem.domain.dimension - 1
    ends = (problem.domain.lower[time], problem.domain.upper[time])
    for place in problem._placing.places:
        if place.kind in ("file", "nowhere") or (place.fixed or {}).get(time, ends[0]) not in ends:
            return
    if problem.solving.underdetermined == "refuse" and (gaps := _initial_gaps(problem)):
        raise UnderdeterminedError(f"the conditions do not determine the field: {gaps[0]}")


def _absent(problem: Problem, channel: str) -> str:
    return "" if _terms(problem, channel) else f"no equation has {channel}"
