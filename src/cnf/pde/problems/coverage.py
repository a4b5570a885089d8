"""Coverage: how many conditions the boundary has, and where it has too few or too many for the equations inside."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import torch
from scipy.spatial import cKDTree
from torch import Tensor

from cnf.pde.domains import Timed
from cnf.pde.problems.coupling import Coupling, Row
from cnf.pde.problems.places import TOUCH, Place
from cnf.pde.problems.problem import Problem

BOUNDARY_SAMPLE = 400

Counted = tuple[Tensor, Tensor, dict[str, Tensor]]


def conditions_outside(
    problem: Problem, channels: Collection[str], alone: bool = False
) -> list[tuple[float, str, Place, Tensor]]:
    """Where conditions outside the interior look at any of the channels: how many, name, place, points (P, D).

    `alone`: at no others besides. A condition that ties two places together, such as u(0, t) = u(1, t), counts half at
    each.
    """
    found = []
    for place, constraint in zip(problem._placing.places, problem.constraints, strict=True):
        if place.kind not in ("boundary", "shape", "slice", "file"):
            continue
        seen = sum(_looks_at(row, channels, alone) for row in constraint.operator.rows)
        local = [probe.points for probe in constraint.expanded() if probe.nodes == 1]
        if seen:
            found += [(seen / len(local), constraint.name, place, points) for points in local]
    return found


def _looks_at(row: Row, channels: Collection[str], alone: bool = False) -> bool:
    inside = [term.channel in channels for term in row]
    return any(inside) and (all(inside) or not alone)


def ends_of_time(problem: Problem) -> tuple[float, float] | None:
    domain = problem.domain
    return (domain.lower[-1], domain.upper[-1]) if isinstance(domain, Timed) else None


def is_instant(problem: Problem, points: Tensor) -> bool:
    """True for points that all lie at the first or at the last instant."""
    ends = ends_of_time(problem)
    return ends is not None and any(bool((points[:, -1] == end).all()) for end in ends)


@dataclass(frozen=True)
class Gap:
    """Channels that take more conditions than there are for all of them together, and how many more."""

    channels: frozenset[str]
    lacking: float
    hint: str


def boundary_gaps(problem: Problem) -> list[str]:
    """What the conditions lack for the orders in space of equations."""
    coupling = Coupling.of(problem)
    find = _ordinary_gap if problem.domain.dimension == 1 else _boundary_gap
    gaps = [gap for c in coupling.channels if coupling.orders(c)[0] and (gap := find(problem, coupling, c))]
    told: dict[str, None] = {}
    for gap in gaps:  # one that is part of a larger one, or says no more than a part of it, is not told again
        wider = any(gap.channels < other.channels and gap.lacking < other.lacking for other in gaps)
        narrower = any(other.channels < gap.channels and gap.lacking <= other.lacking for other in gaps)
        if not wider and not narrower:
            told[gap.hint] = None
    return list(told)


def _ordinary_gap(problem: Problem, coupling: Coupling, channel: str) -> Gap | None:
    """In one dimension an equation of order n takes n conditions, wherever they are."""
    among = coupling.influenced_by(channel)
    orders = {c: coupling.orders(c)[0] for c in among}
    wanted, found = sum(orders.values()), 0
    for place, constraint in zip(problem._placing.places, problem.constraints, strict=True):
        if place.kind != "interior":
            found += sum(_looks_at(row, among) for row in constraint.operator.rows) * constraint.points.shape[0]
    if found >= wanted:
        return None
    subject, them = _equations_for(orders), "them" if _several(orders) else "it"
    return Gap(
        frozenset(among),
        wanted - found,
        f"{subject} of order {wanted}{_together(orders)}, which takes {wanted} condition{'s' if wanted > 1 else ''} "
        f"besides {them}; there {'is' if found == 1 else 'are'} {found or 'none'}",
    )


def _boundary_gap(problem: Problem, coupling: Coupling, channel: str) -> Gap | None:
    """An equation of even order 2m takes m conditions on all of the boundary; of odd ones nothing is known."""
    if coupling.orders(channel)[0] % 2:
        return None
    among = coupling.influenced_by(channel)
    orders = {c: order for c in among if not (order := coupling.orders(c)[0]) % 2}
    order = sum(orders.values())
    wanted = order // 2
    sample, counts, _ = _counted(problem, among)
    bare = (counts < wanted - 0.1).nonzero()[:, 0]
    if len(bare) <= 0.02 * len(sample):
        return None
    return Gap(
        frozenset(among),
        float((wanted - counts[bare]).sum()),
        f"{_equations_for(orders)} of order {order} in space{_together(orders)}, which takes {wanted} "
        f"condition{'s' if wanted > 1 else ''} on all of the boundary; {100 * len(bare) / len(sample):.0f} % of "
        f"it has fewer, near ({_shown(sample[bare[len(bare) // 2]])}) for instance",
    )


def _several(orders: Mapping[str, int]) -> bool:
    return sum(order > 0 for order in orders.values()) > 1


def _equations_for(orders: Mapping[str, int]) -> str:
    """Of the channels that bring an order, as the subject of a sentence."""
    names = ", ".join(channel for channel, order in orders.items() if order)
    return f"the equations for {names} are" if _several(orders) else f"the equation for {names} is"


def _together(orders: Mapping[str, int]) -> str:
    return " together" if _several(orders) else ""


def boundary_excess(problem: Problem) -> list[str]:
    """Where most of the boundary has more conditions than equations take."""
    if problem.domain.dimension == 1:
        return []
    told: dict[str, None] = {}
    for among, wanted, counts in ((a, w, counted[1]) for a, w, counted in _filled(problem)):
        rich = _too_many(counts, wanted)
        if len(rich) > 0.5 * len(counts):
            told[
                f"{100 * len(rich) / len(counts):.0f} % of the boundary has more than {wanted} condition"
                f"{'s' if wanted > 1 else ''} on {', '.join(among)}; they may contradict the equation"
                f"{'s' if len(among) > 1 else ''}"
            ] = None
    return list(told)


def crowded(problem: Problem) -> str:
    """Which conditions stand in the same place of the boundary, one too many of them; empty if none do."""
    for among, wanted, (sample, counts, by_name) in _filled(problem):
        rich = _too_many(counts, wanted)
        if len(rich):
            at = rich[len(rich) // 2]
            names = [repr(name) for name, count in by_name.items() if count[at] > 0]
            have = "have" if len(among) > 1 else "has"
            return f"near ({_shown(sample[at])}) {', '.join(among)} {have} to meet {' and '.join(names)}"
    return ""


def _filled(problem: Problem) -> Iterator[tuple[tuple[str, ...], int, Counted]]:
    """Channels that depend on no others, how many conditions they take at most, and how many there are for them."""
    coupling = Coupling.of(problem)
    for channel in coupling.channels:
        order = coupling.orders(channel)[0]
        if order and order % 2 == 0:
            among = coupling.behind(channel)
            wanted = sum((coupling.order_anywhere(c) + 1) // 2 for c in among)
            yield among, wanted, _counted(problem, among, alone=True)


def _too_many(counts: Tensor, wanted: int) -> Tensor:
    """Where more than the `wanted` conditions were counted, as numbers of points of the boundary."""
    return (counts > wanted + 0.1).nonzero()[:, 0]


def _counted(problem: Problem, channels: Collection[str], alone: bool = False) -> Counted:
    """Points (S, D) of the boundary, and how often conditions speak of channels there, (S,): all, and each by name."""
    edge = problem.domain.boundary_points(BOUNDARY_SAMPLE, problem.seed)
    sample = edge.points
    found: dict[str, Tensor] = {}
    for weight, name, place, points in conditions_outside(problem, channels, alone):
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
