"""Coverage: how many conditions the boundary has, and where it has too few or too many for the equations inside."""

from __future__ import annotations

import torch
from scipy.spatial import cKDTree
from torch import Tensor

from cnf.constraints import Constraint
from cnf.pde.domains import Timed
from cnf.pde.problems.places import TOUCH, Place
from cnf.pde.problems.problem import Problem

BOUNDARY_SAMPLE = 400


def orders_of_channel(problem: Problem, channel: str) -> tuple[int, int]:
    """The highest derivatives of a channel in space and in time among the equations of the interior."""
    space_order = time_order = 0
    for place, constraint in zip(problem._placing.places, problem.constraints, strict=True):
        if place.kind != "interior" or not is_closed(constraint, channel):
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


def is_closed(constraint: Constraint, channel: str) -> bool:
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


def conditions_outside(problem: Problem, channel: str) -> list[tuple[float, str, Place, Tensor]]:
    """Where conditions outside the interior look at the channel: how many, name, place, points (P, D).

    A condition that ties two places together, such as u(0, t) = u(1, t), counts half at each.
    """
    found = []
    for place, constraint in zip(problem._placing.places, problem.constraints, strict=True):
        if place.kind not in ("boundary", "shape", "slice", "file"):
            continue
        rows = [any(term.channel == channel for term in row) for row in constraint.operator.rows]
        local = [probe.points for probe in constraint.expanded() if probe.nodes == 1]
        if any(rows):
            found += [(sum(rows) / len(local), constraint.name, place, points) for points in local]
    return found


def ends_of_time(problem: Problem) -> tuple[float, float] | None:
    domain = problem.domain
    return (domain.lower[-1], domain.upper[-1]) if isinstance(domain, Timed) else None


def is_instant(problem: Problem, points: Tensor) -> bool:
    """True for points that all lie at the first or at the last instant."""
    ends = ends_of_time(problem)
    return ends is not None and any(bool((points[:, -1] == end).all()) for end in ends)


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
    return [gap for channel in problem.space.channels if (gap := boundary_gap(problem, channel)[0])]


def boundary_gap(problem: Problem, channel: str) -> tuple[str, str]:
    """What the boundary lacks, and where it has too much."""
    order = orders_of_channel(problem, channel)[0]
    if problem.domain.dimension == 1:
        return _ordinary_gap(problem, channel, order), ""
    if order < 2 or order % 2:
        return "", ""
    wanted = order // 2
    sample, counts, _ = _counted(problem, channel)
    bare = (counts < wanted - 0.1).nonzero()[:, 0]
    gap = excess = ""
    if len(bare) > 0.02 * len(sample):
        gap = (
            f"the equation for {channel} is of order {order} in space, which takes {wanted} "
            f"condition{'s' if wanted > 1 else ''} on all of the boundary; {100 * len(bare) / len(sample):.0f} % of "
            f"it has fewer, near ({_shown(sample[bare[len(bare) // 2]])}) for instance"
        )
    rich = _too_many(counts, wanted)
    if len(rich) > 0.5 * len(sample):
        excess = (
            f"{100 * len(rich) / len(sample):.0f} % of the boundary has more than {wanted} condition"
            f"{'s' if wanted > 1 else ''} on {channel}; they may contradict the equation"
        )
    return gap, excess


def crowded(problem: Problem) -> str:
    """Which conditions stand in the same place of the boundary, one too many of them; empty if none do."""
    for channel in problem.space.channels:
        wanted = orders_of_channel(problem, channel)[0] // 2
        sample, counts, by_name = _counted(problem, channel)
        rich = _too_many(counts, wanted)
        if wanted and len(rich):
            at = rich[len(rich) // 2]
            names = [repr(name) for name, count in by_name.items() if count[at] > 0]
            return f"near ({_shown(sample[at])}) {channel} has to meet {' and '.join(names)}"
    return ""


def _too_many(counts: Tensor, wanted: int) -> Tensor:
    """Where more than the `wanted` conditions were counted, as numbers of points of the boundary."""
    return (counts > wanted + 0.1).nonzero()[:, 0]


def _counted(problem: Problem, channel: str) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Points (S, D) of the boundary, and how often conditions speak of a channel there, (S,): all, and each by name."""
    edge = problem.domain.boundary_points(BOUNDARY_SAMPLE, problem.seed)
    sample = edge.points
    found: dict[str, Tensor] = {}
    for weight, name, place, points in conditions_outside(problem, channel):
        if not is_instant(problem, points):
            covered = _covered(problem, sample, place, points)
            if problem.regions is not None and place.region is not None:
                covered *= torch.from_numpy(problem.regions.touching(edge) == place.region)
            found[name] = found.get(name, 0) + covered * weight
    return sample, sum(found.values(), sample.new_zeros(sample.shape[0])), found


def _shown(point: Tensor) -> str:
    return ", ".join(f"{v:.3g}" for v in point.tolist())


def _covered(problem: Problem, sample: Tensor, place: Place, points: Tensor) -> Tensor:
    """One for the samples (S, D) of the boundary that a condition at these points is meant for, (S,)."""
    domain = problem.domain
    extent = points.new_tensor([b - a for a, b in zip(domain.lower, domain.upper, strict=True)])
    flat = points.amax(dim=0) - points.amin(dim=0) <= TOUCH * extent
    if bool(flat.any()):  # a face, or the other end of a periodic pair
        return ((sample - points[0]).abs() <= 1e-6 * extent)[:, flat].all(dim=1).to(sample)
    if place.kind == "boundary":
        return sample.new_ones(sample.shape[0])
    if place.kind == "shape":  # at all times: points of it are evenly apart in space, not beside time
        space = domain.space if isinstance(domain, Timed) else domain
        known = space.boundary_points(10 * BOUNDARY_SAMPLE, problem.seed, place.shape).points
        sample, extent = sample[:, : space.dimension], extent[: space.dimension]
    else:  # of a file, only what lies on the boundary
        known = points[~domain.contains(points, 1e-6 * float(extent.max()))]
    if not len(known):
        return sample.new_zeros(sample.shape[0])
    scaled, asked = (known / extent).numpy(), (sample / extent).numpy()
    near = cKDTree(scaled).query(scaled, k=min(2, len(scaled)))[0]
    limit = 2 * float(near.max()) if near.ndim > 1 else 1e-9
    return sample.new_tensor((cKDTree(scaled).query(asked)[0] <= limit).astype(float))
