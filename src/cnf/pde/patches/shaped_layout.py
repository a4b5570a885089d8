"""Layout on a shaped domain: as many conditions as functions for every patch, fewer and guides where it is cut.

Neighbours share their conditions as boxes do: values at points of the finer side, fluxes at those of the coarser one.
What is left of a patch's functions goes to its boundary and its inside: as many points along the boundary as the
missing sides of a box would have, more where it is long, the rest inside, where pivoted QR picks those at which
polynomials differ most.

An interface is the boundary of the patches on either side: each has points along it as if it were alone. Fluxes are
tied at those of the side with the larger coefficients, values at those of the other one: the more they differ, the more
the one side is a problem of its own with given fluxes, the other one with given values, and each has as many conditions
as it takes. Where coefficients are alike, values are tied at the points of the side that has them denser.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cnf.pde.domains.boundary import Piece, divide
from cnf.pde.patches.layout import Seam, gauss, tensor_grid
from cnf.pde.patches.outline import Run
from cnf.pde.patches.point_choice import chosen_inside, grid_inside, points_to_start_from
from cnf.pde.patches.shaped import Segment, Shaped

SHORT = 1e-4  # runs, in sides of a patch
ALIKE = 2.0  # coefficients that differ by less than this factor
EXACT = 0.7  # of as many conditions as functions, in patches that are cut
EXACT_WAVES = 0.5  # the same where waves travel: with more, the longest slabs are not long enough to damp what grows
GUIDES = 1.5  # points inside such a patch per function, at which what is left open is fitted
GUIDING_GRIDS = (1.5, 2, 3, 4, 6)  # points along a coordinate of its frame, per function: the first that has so many


@dataclass(frozen=True)
class Arc:
    """Points (P, D) of a piece of the boundary and outward normals (P, D), in one patch."""

    curve: Piece
    points: np.ndarray
    normals: np.ndarray
    patch: int = -1


@dataclass(frozen=True)
class Border:
    """Points (P, D) of an interface, its normals in space, and the patches (P,) that the normals lead from and to."""

    points: np.ndarray
    normals: np.ndarray
    first: np.ndarray
    second: np.ndarray


@dataclass(frozen=True)
class ShapedLayout:
    """`interior` (P, D); `arcs` on the boundary; `seams` per coordinate and kind; `start` (P, D) of time, if any.

    `restrained` (P, D) are the points of equations with multipliers, like a divergence: as many as those have
    functions. `owners` are the patches (P,) of the one and the other. `borders` are those of every interface, "values"
    and "fluxes". `guides` are points (P, D) inside patches that are cut and `guiding_arcs` those of their boundary, at
    which what exact conditions leave open is fitted, `guiding_borders` the same of interfaces; `room` is how many
    functions per channel that is. `local` are the points (P, D) of equations without derivatives in space, as u_t = v,
    as many as a patch has functions, and their patches (P,). `by_orders`, for systems of first order, has points inside
    and their patches for equations of every kind, by their orders along the coordinates; `guiding_seams` are points of
    ties to come close to.
    """

    interior: np.ndarray
    restrained: np.ndarray
    owners: tuple[np.ndarray, np.ndarray]
    arcs: tuple[Arc, ...]
    seams: dict[tuple[int, str], Seam]
    borders: dict[tuple[int, str], Border]
    start: np.ndarray | None
    guides: np.ndarray
    guiding_arcs: tuple[Arc, ...]
    room: int = 0
    guiding_borders: Mapping[tuple[int, str], Border] = field(default_factory=dict)
    local: tuple[np.ndarray, np.ndarray] | None = None
    by_orders: Mapping[tuple[int, ...], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    guiding_seams: Mapping[tuple[int, str], Seam] = field(default_factory=dict)

    def conditions(self, channels: int, multipliers: int = 0) -> int:
        """As many as the points make for so many channels, some of them multipliers: these have no boundary."""
        tied = sum(len(seam.points) for seam in self.seams.values())
        tied += sum(len(border.points) for border in self.borders.values())
        start = 0 if self.start is None else len(self.start)
        own = len(self.interior) + sum(len(arc.points) for arc in self.arcs) + tied + start
        return (channels - multipliers) * own + multipliers * len(self.restrained)


def lay_out(
    shaped: Shaped, degree: tuple[int, ...], stiffness: Sequence[float] = (), waves: bool = False
) -> ShapedLayout:
    """Points for equations of second order; `stiffness` is the size of their coefficients, region by region.

    During time, `waves` may travel.

    Polynomials on a patch that fills a part of its frame are hardly told apart by as many conditions, and what these
    leave nearly open is anything between the points: such a patch has fewer exact ones, and guides.

    Functions of corners get no points of their own: they make up for what polynomials cannot, and with as many points
    more the field is worse by orders of magnitude.
    """
    functions = (degree[0] + 1) * (degree[1] + 1) - 1
    usual = [p - 1 for p in degree]
    taken = np.zeros(shaped.cover.count, dtype=np.int64)
    seams = _seams(shaped, degree, taken)
    inside, restrained = [], []  # how many points patches have inside: for all equations, for those with multipliers
    arcs, along = [], []  # what they have of the boundary and of interfaces, with its points
    room = 0
    for patch in range(shaped.cover.count):
        left = functions - int(taken[patch])
        runs, lengths = long_runs(shaped, patch)
        cut = not shaped.whole[patch]
        share = (EXACT_WAVES if waves else EXACT) if cut else 1.0
        along_it = [share if run.interface < 0 else 1.0 for run in runs]
        along_it = [part * length * max(degree) for part, length in zip(along_it, lengths, strict=True)]
        around = max(left - usual[0] * usual[1], round(sum(along_it)) - 1, 1) if runs else 0
        counts = [max(1, round(n)) for n in along_it] if cut else divide(around, lengths) if runs else []
        held = round(share * usual[0] * usual[1])
        inner = held if cut else left - around
        room += functions - int(taken[patch]) - inner - sum(counts)
        for run, count in zip(runs, counts, strict=True):
            if run.interface < 0:
                arcs.append(Arc(run.curve, *run.at((gauss(count) + 1) / 2), patch))
            else:
                along.append(_Stretch(run, patch, count))
        inside.append(inner)
        restrained.append(held)
    points = chosen_inside(shaped, inside, usual)
    others = points if restrained == inside else chosen_inside(shaped, restrained, usual)
    owner, restrained_owner = (np.repeat(np.arange(len(own)), [len(x) for x in own]) for own in (points, others))
    return ShapedLayout(
        np.concatenate(points),
        np.concatenate(others),
        (owner, restrained_owner),
        tuple(arcs),
        seams,
        _borders(shaped, along, stiffness),
        None,
        *guiding_points(shaped, degree),
        room,
    )


def guiding_points(shaped: Shaped, degree: tuple[int, ...]) -> tuple[np.ndarray, tuple[Arc, ...]]:
    """Points inside (P, 2) and arcs of the boundary, denser than polynomials of that degree can vary between them."""
    if shaped.whole.all():
        return np.zeros((0, 2)), ()
    low, high = shaped.cover.lower[shaped.whole], shaped.cover.upper[shaped.whole]
    inside = [*tensor_grid(low, high, [p + 1 for p in degree])]
    cut, tried = np.flatnonzero(~shaped.whole), [[round(n * (p + 1)) for p in degree] for n in GUIDING_GRIDS]
    inside += grid_inside(shaped, cut, tried, [GUIDES * (degree[0] + 1) * (degree[1] + 1)] * len(cut))
    arcs = []
    for patch in range(shaped.cover.count):
        for run in long_runs(shaped, patch)[0]:
            if run.interface < 0:
                arcs.append(Arc(run.curve, *run.at((gauss(2 * max(degree)) + 1) / 2), patch))
    return np.concatenate(inside), tuple(arcs)


@dataclass(frozen=True)
class _Stretch:
    """What a patch has of an interface, and with how many points."""

    run: Run
    patch: int
    count: int

    @property
    def density(self) -> float:
        return self.count / self.run.length


def _borders(shaped: Shaped, along: list[_Stretch], stiffness: Sequence[float]) -> dict[tuple[int, str], Border]:
    """The points of both sides, each with the patches there."""
    if shaped.regions is None:
        return {}
    region = shaped.cover.region
    known = {(id(stretch.run), stretch.patch): stretch for stretch in along}
    opposite: dict[tuple[int, int], list[_Stretch]] = {}  # by curve and region, those too short for points included
    for patch, runs in enumerate(shaped.runs):
        for run in runs:
            if run.interface >= 0:
                stretch = known.get((id(run), patch), _Stretch(run, patch, 0))
                opposite.setdefault((id(run.curve), int(region[patch])), []).append(stretch)
    parts: dict[tuple[int, str], list[Border]] = {}
    for own in along:
        interface = shaped.regions.interfaces[own.run.interface]
        leads_away = int(region[own.patch]) == interface.first
        other_region = interface.second if leads_away else interface.first
        arcs = own.run.start + own.run.length * (gauss(own.count) + 1) / 2
        points, normals = own.run.curve.at(arcs)
        others = opposite.get((id(own.run.curve), other_region), [])
        beside = [_opposite(others, arc) for arc in arcs]
        own_size, other_size = (stiffness[k] for k in (int(region[own.patch]), other_region))
        alike = max(own_size, other_size) < ALIKE * min(own_size, other_size)
        for kind in ("values", "fluxes"):
            soft = np.full(own.count, own_size < other_size)
            if alike:
                soft = np.array([(own.density, leads_away) > (other.density, not leads_away) for other in beside])
            kept = np.flatnonzero(soft == (kind == "values"))
            here, there = np.full(len(kept), own.patch), np.array([beside[k].patch for k in kept], dtype=np.int64)
            sides = (here, there) if leads_away else (there, here)
            parts.setdefault((own.run.interface, kind), []).append(Border(points[kept], normals[kept], *sides))
    return {key: joined_borders(own) for key, own in parts.items()}


def joined_borders(parts: Sequence[Border]) -> Border:
    arrays = ([getattr(border, name) for border in parts] for name in ("points", "normals", "first", "second"))
    return Border(*(np.concatenate(own) for own in arrays))


def _opposite(others: list[_Stretch], arc: float) -> _Stretch:
    """The stretch on the other side of a point, by its arc length; the nearest one if ends do not meet."""

    def distance(other: _Stretch) -> float:
        run, whole = other.run, float(other.run.curve.knots[-1])
        laps = (arc - whole, arc, arc + whole) if run.curve.closed else (arc,)
        return min(max(run.start - a, a - run.end) for a in laps)

    return min(others, key=distance)


def start_points(shaped: Shaped, degree: tuple[int, ...], seen: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """As many points of every patch as it has functions of space, (P, 2), and the patch of each, (P,).

    Or as many as are `seen` where it is cut.
    """
    found = points_to_start_from(shaped, degree, seen)
    return np.concatenate(found), np.repeat(np.arange(shaped.cover.count), [len(points) for points in found])


def long_runs(shaped: Shaped, patch: int) -> tuple[list[Run], list[float]]:
    """The boundary of a patch, and how long its runs are in sides of the frame: what counts for polynomials.

    Where shapes meet, their boundaries end a little before or after the corner; what is that short gets no points.
    """
    frame = shaped.cover.upper[patch] - shaped.cover.lower[patch]
    runs, lengths = [], []
    for run in shaped.runs[patch]:
        first, last = run.at(np.array([0.0, 1.0]))[0]
        length = float(np.linalg.norm((last - first) / frame))
        if length > SHORT:
            runs.append(run)
            lengths.append(length)
    return runs, lengths


def _seams(shaped: Shaped, degree: tuple[int, ...], taken: np.ndarray) -> dict[tuple[int, str], Seam]:
    """Ties, and how many conditions every patch takes part in, its share of them, added to `taken` (patches,)."""
    parts: dict[tuple[int, str], list[tuple[np.ndarray, Segment]]] = {}
    for segment in shaped.segments:
        along, p = 1 - segment.axis, degree[1 - segment.axis]
        side = [(shaped.cover.lower[k, along], shaped.cover.upper[k, along]) for k in (segment.first, segment.second)]
        width = [high - low for low, high in side]
        finer_second = width[1] < width[0] * (1 - 1e-9)
        fine, coarse = (1, 0) if finer_second else (0, 1)
        owners = (segment.first, segment.second)
        drop = [segment.axis == 0 and bool(shaped.whole[patch]) for patch in owners]  # four whole sides make a circle
        length = segment.high - segment.low
        n = max(1, round(p * min(1.0, length / width[fine]))) - (drop[fine] and finer_second)
        values = (segment.low + segment.high) / 2 + length / 2 * gauss(n) if n > 0 else np.zeros(0)
        low, high = side[coarse]
        fluxes = (low + high) / 2 + (high - low) / 2 * gauss(p - (drop[coarse] and not finer_second))
        last = abs(segment.high - high) <= 1e-12 * width[coarse]
        fluxes = fluxes[(fluxes >= segment.low) & ((fluxes < segment.high) | last)]
        taken[owners[fine]] += len(values)
        taken[owners[coarse]] += len(fluxes)
        for kind, places in (("fine", values), ("coarse", fluxes)):
            points = np.empty((len(places), 2))
            points[:, segment.axis], points[:, along] = segment.position, places
            parts.setdefault((segment.axis, kind), []).append((points, segment))
    return {
        key: Seam(
            key[0],
            np.concatenate([points for points, _ in own]),
            np.concatenate([np.full(len(points), s.first) for points, s in own]),
            np.concatenate([np.full(len(points), s.second) for points, s in own]),
        )
        for key, own in parts.items()
    }
