"""Corners: where the boundary bends, solutions behave like r^lambda phi(theta); which ones, the equations say.

With u = r^lambda phi(theta), the highest derivatives of the equations inside and on the two edges give a quadratic
eigenvalue problem for lambda on the interval of angles. This holds for any number of channels and any conditions. A
channel of lower order, like a pressure, goes with r^(lambda - 1); its profile has a degree lower by two, and its
equation as many points less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import torch

from cnf.bases.corner_functions import AngularMaps, CornerFunctions
from cnf.constraints import Constraint
from cnf.pde.domains import Domain
from cnf.pde.domains.boundary import Curve
from cnf.pde.domains.domain import Sample
from cnf.pde.domains.regions import Regions
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.outline import MEETING, curves_of
from cnf.pde.patches.question import Question

NODES = 28, 36  # two resolutions; eigenvalues that both have are kept
HIGHEST = 4.0  # exponents above are smooth enough: nearly polynomials of degree 12, and then weights are anything
MOST = 10  # functions of a corner
JUMP = 1e-4  # of the data: what jumps less is taken for rounding of where edges are looked at
NEAR = 1e-7  # of the domain: where edges are looked at


@dataclass(frozen=True)
class Corner:
    """Where two curves meet at `centre`; the inside lies between the angles `start` and `end`, counterclockwise.

    `edges` are the curves at `start` and `end`, with points very near the corner.
    """

    centre: np.ndarray
    start: float
    end: float
    edges: tuple[tuple[Curve, float], tuple[Curve, float]]


End = tuple[Curve, float, float]  # where it ends, as an arc length, and a small step away from there


def corners_of(domain: Domain) -> list[Corner]:
    """All places where two pieces of the boundary meet."""
    size = max(b - a for a, b in zip(domain.lower, domain.upper, strict=True))
    curves = [c for c in curves_of(domain) if not c.closed]
    ends = [(c, c.start, NEAR * c.measure) for c in curves] + [(c, c.end, -NEAR * c.measure) for c in curves]
    places = np.array([c.at(np.array([arc]))[0][0] for c, arc, _ in ends]).reshape(-1, 2)
    found = []
    for k in range(len(curves)):
        for j in range(len(curves), len(ends)):
            if np.abs(places[k] - places[j]).max() <= MEETING * size:
                first, second = _meeting(ends[k], ends[j])
                centre = first[0].at(np.array([first[1]]))[0][0]
                found.append(_corner(domain, centre, first, second, size))
    return [corner for corner in found if corner is not None]


def _meeting(first: End, second: End) -> tuple[End, End]:
    """Two ends of curves, moved to where the curves meet: boundaries of combined shapes stop a little before."""
    given = np.array([first[1], second[1]])
    at = given.copy()
    for _ in range(4):
        places, slopes = [], []
        for (curve, _, step), arc in zip((first, second), at, strict=True):
            points, _ = curve.at(np.array([arc, arc - step, arc + step]))
            places.append(points[0])
            slopes.append((points[2] - points[1]) / (2 * step))
        matrix = np.stack([slopes[0], -slopes[1]], axis=1)
        if abs(np.linalg.det(matrix)) < 1e-3:  # straight on: where they end is where they meet
            return first, second
        at = at + np.linalg.solve(matrix, places[1] - places[0])
    if np.abs(at - given).max() > 10 * MEETING * max(first[0].measure, second[0].measure):
        return first, second
    return (first[0], float(at[0]), first[2]), (second[0], float(at[1]), second[2])


def _corner(domain: Domain, centre: np.ndarray, first: End, second: End, size: float) -> Corner | None:
    angles = []
    for curve, arc, step in (first, second):
        away = curve.at(np.array([arc + step]))[0][0] - centre
        angles.append(math.atan2(away[1], away[0]))
    for (a, b), edges in ((angles, (first, second)), (angles[::-1], (second, first))):
        opening = (b - a) % (2 * math.pi)
        middle = a + opening / 2
        probe = centre + 1e-7 * size * np.array([math.cos(middle), math.sin(middle)])
        if opening > 1e-3 and domain._inside(probe[None])[0]:
            return Corner(centre, a, a + opening, tuple((c, arc + step) for c, arc, step in edges))  # type: ignore[arg-type]
    return None


def functions_at(question: Question, corner: Corner) -> CornerFunctions | None:
    """What solutions look like there, apart from polynomials; None if polynomials do, or conditions are missing."""
    area = 0 if question.regions is None else _area(question.regions, corner)
    inside = [] if area is None else question.inside_of(area)
    if not inside:
        return None
    orders = Orders.of([question.constraints[k] for k in inside], question.time)
    coarse, fine = (Angular.of(question, inside, orders, corner, n) for n in NODES)
    if coarse is None or fine is None:
        return None
    exponents: list[complex] = []
    profiles: list[np.ndarray] = []
    parts: list[int] = []
    for degree in (0, 1):
        for profile in fine.from_data(degree) if fine.data_jump(degree, data_size(question, orders, degree)) else ():
            exponents.append(degree)
            profiles.append(profile)
            parts.append(0)
    known_before = coarse.eigenpairs()[0]
    for value, profile in zip(*fine.eigenpairs(), strict=True):
        known = np.abs(known_before - value).min(initial=np.inf) < 1e-7
        integer = abs(value.imag) < 1e-9 and abs(value.real - round(value.real)) < 1e-7
        if not known or integer or value.imag < -1e-9 or len(exponents) >= MOST:
            continue
        for part in (0,) if abs(value.imag) < 1e-9 else (0, 1):
            exponents.append(value)
            profiles.append(np.stack([profile, np.zeros_like(profile)]))
            parts.append(part)
    if not exponents:
        return None
    centre = (float(corner.centre[0]), float(corner.centre[1]))
    shapes = np.array(exponents), np.stack(profiles), np.array(parts)
    return CornerFunctions(centre, corner.start, corner.end, *shapes, orders.lower if any(orders.lower) else ())


def _area(regions: Regions, corner: Corner) -> int | None:
    """The region that a corner lies in; None if several meet there."""
    angles = corner.start + (corner.end - corner.start) * (np.arange(64) + 0.5) / 64
    size = max(b - a for a, b in zip(regions.space.lower, regions.space.upper, strict=True))
    around = corner.centre + NEAR * size * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    found = np.unique(regions.number(around))
    return int(found[0]) if len(found) == 1 else None


def data_size(question: Question, orders: Orders, degree: int) -> float:
    """How large the conditions on the boundary are, those of order `degree` and slopes of lower ones."""
    size = max(b - a for a, b in zip(question.domain.lower, question.domain.upper, strict=True))
    found = 0.0
    for place, condition in zip(question.places, question.constraints, strict=True):
        lost = degree - max(_order(condition, r, orders) for r in range(condition.values.shape[1]))
        if place.kind != "interior" and lost >= 0:
            found = max(found, float(condition.values.abs().max()) / size**lost)
    return found


@dataclass(frozen=True)
class Row:
    """A condition on an edge: its row in the problem of the angle, its order, its values at two distances."""

    number: int
    order: int
    values: np.ndarray  # (2,)
    distances: np.ndarray  # (2,)


@dataclass(frozen=True)
class Angular:
    """The problem of the angle: `powers` (3, C N, C N) of 1, lambda and lambda^2, and the rows of the edges in it."""

    maps: AngularMaps
    channels: int
    powers: np.ndarray
    rows: tuple[Row, ...]
    lower: tuple[int, ...]

    @staticmethod
    def of(question: Question, inside: Sequence[int], orders: Orders, corner: Corner, count: int) -> Angular | None:
        """Of the equations `inside` around the corner; None if they or the edges have not as many rows as it takes."""
        channels = len(question.space.channels)
        maps = AngularMaps.of(corner.start, corner.end, count)
        size = channels * count
        powers = np.zeros((3, size, size))
        if len(orders.rows) != channels:
            return None
        at = torch.tensor(corner.centre[None], dtype=torch.float64)
        free: list[int] = []  # rows that have conditions on the edges
        multipliers = iter(np.flatnonzero(orders.multipliers))
        block = 0
        for k, equation in zip(inside, orders.equations, strict=True):
            condition = question.at(k, Sample(at, None))
            for r, restrains in enumerate(orders.restrains(equation)):
                order = 2 + orders.weights.rows[block] if restrains and orders.weights else 2
                own = slice(block * count, (block + 1) * count)
                _add(powers, condition, maps, own, np.arange(count), order, r, orders.lower)
                if restrains:  # at its ends, the highest degrees of the multiplier are zero instead
                    column = int(next(multipliers)) * count
                    for row, degree in ((own.start, count - 1), (own.stop - 1, count - 2)):
                        powers[:, row] = 0.0
                        powers[0, row, column : column + count] = maps.coefficients[degree]
                else:
                    free.append(block)
                block += 1
        edge_rows: list[Row] = []
        for end, (curve, arc) in zip((0, count - 1), corner.edges, strict=True):
            step = math.copysign(NEAR * curve.measure, (curve.start + curve.end) / 2 - arc)
            arcs, corner_arc = np.array([arc, arc + step]), arc - step
            points, normals = curve.at(arcs)
            given = [
                question.at(k, Sample(torch.from_numpy(points), torch.from_numpy(normals)))
                for k in range(len(question.places))
                if question.holds(k, curve, points, normals)
            ]
            rows = [(c, r) for c in given for r in range(c.values.shape[1])]
            if len(rows) != len(free):
                return None
            for block, (condition, r) in zip(free, rows, strict=True):
                number = block * count + end
                powers[:, number] = 0.0
                order = _order(condition, r, orders)
                _add(powers, condition, maps, slice(number, number + 1), np.array([end]), order, r, orders.lower)
                values = condition.values[:, r].detach().numpy()
                edge_rows.append(Row(number, order, values, np.abs(arcs - corner_arc)))
        return Angular(maps, channels, powers, tuple(edge_rows), orders.lower)

    def data_jump(self, degree: int, usual: float) -> bool:
        """Whether what the edges ask for, at this degree in r, is more than a polynomial does, measured by `usual`."""
        right = np.zeros(self.powers.shape[1])
        for row in self.rows:
            if row.order == degree:
                right[row.number] = 2 * row.values[0] - row.values[1]  # in the corner itself
            elif row.order == degree - 1:
                right[row.number] = np.diff(row.values)[0] / np.diff(row.distances)[0]
        return usual > 0 and len(self._beyond_polynomials(right[:, None] / usual, degree, JUMP)) > 0

    def from_data(self, degree: int) -> list[np.ndarray]:
        """Profiles (2, C, N) of what values on the edges may cause at this degree, apart from polynomials."""
        rows = [row.number for row in self.rows if row.order in (degree, degree - 1)]
        return self._beyond_polynomials(np.eye(self.powers.shape[1])[:, rows], degree, 1e-6)

    def _beyond_polynomials(self, right: np.ndarray, degree: int, small: float) -> list[np.ndarray]:
        """r^degree (phi + log(r) chi) for right-hand sides (C N, R), independent of each other and of polynomials."""
        size, count = self.powers.shape[1], len(self.maps.angles)
        scale = np.abs(self.powers).max(axis=(0, 2))
        a0, a1, a2 = self.powers / np.where(scale > 0, scale, 1.0)[None, :, None]
        a, slope = a0 + degree * a1 + degree**2 * a2, a1 + 2 * degree * a2
        block = np.block([[a, np.zeros((size, size))], [slope, a]])
        wanted = np.concatenate([np.zeros_like(right), right / np.where(scale > 0, scale, 1.0)[:, None]])
        found = np.linalg.lstsq(block, wanted, rcond=1e-11)[0]  # chi, then phi
        cos, sin = self.maps.along
        blocks = []
        for own in (degree - lower for lower in self.lower):  # none if negative
            blocks.append(np.array([cos**k * sin ** (own - k) for k in range(own + 1)]).reshape(-1, count).T)
        polynomials = scipy.linalg.block_diag(*blocks)
        chi, phi = found[:size], found[size:]
        phi = phi - polynomials @ np.linalg.lstsq(polynomials, phi, rcond=None)[0]
        u, values, _ = np.linalg.svd(np.concatenate([phi, chi]), full_matrices=False)
        kept = u[:, values > small * max(1.0, float(np.abs(found).max()))]
        profiles = [np.stack([v[:size], v[size:]]).reshape(2, self.channels, count) for v in kept.T]
        return [p / np.abs(p).max() for p in profiles]

    def eigenpairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Exponents (K,) between 0 and HIGHEST without data, and profiles (K, C, N)."""
        return _solved(self.powers, len(self.maps.angles), self.channels)


def _order(condition: Constraint, row: int, orders: Orders) -> int:
    """The highest order in a row of a condition, where derivatives of lower channels count as much more."""
    terms = condition.operator.rows[row]
    return max((t.order + orders.lower[orders.channels.index(t.channel or "")] for t in terms), default=0)


def _add(
    powers: np.ndarray,
    condition: Constraint,
    maps: AngularMaps,
    block: slice,
    nodes: np.ndarray,
    order: int,
    row: int,
    lower: Sequence[int],
) -> None:
    """The derivatives of the highest order of a condition, at nodes of the angle, as rows of the eigenvalue problem."""
    count = len(maps.angles)
    for probe in condition.expanded():
        for r, request in zip(probe.rows, probe.requests, strict=True):
            if r != row:
                continue
            columns = slice(request.channel * count, (request.channel + 1) * count)
            for index, weight in request.weights.items():
                if sum(index) + lower[request.channel] != order:
                    continue
                for power, matrix in enumerate(_derivative(maps, index, lower[request.channel])):
                    powers[power, block, columns] += float(weight.reshape(-1)[0]) * matrix[nodes]


def _derivative(maps: AngularMaps, index: tuple[int, ...], lower: int) -> list[np.ndarray]:
    """d^index of r^(lambda - lower) phi as matrices of 1, lambda, lambda^2, without the power of r."""
    count = len(maps.angles)
    found = [np.eye(count), np.zeros((count, count)), np.zeros((count, count))]
    lost = lower  # the exponent is lambda - lost by now
    for axis, times in enumerate(index):
        along, across = np.diag(maps.along[axis]), np.diag(maps.across[axis]) @ maps.slope
        for _ in range(times):
            shifted = [np.zeros_like(found[0]), *[along @ m for m in found[:2]]]  # times lambda
            found = [s - lost * (along @ m) + across @ m for s, m in zip(shifted, found, strict=True)]
            lost += 1
    return found


def _solved(powers: np.ndarray, count: int, channels: int) -> tuple[np.ndarray, np.ndarray]:
    """(A0 + lambda A1 + lambda^2 A2) v = 0."""
    size = powers.shape[1]
    scale = np.abs(powers).max(axis=(0, 2))
    a0, a1, a2 = powers / np.where(scale > 0, scale, 1.0)[None, :, None]
    eye, zero = np.eye(size), np.zeros((size, size))
    values, vectors = scipy.linalg.eig(np.block([[zero, eye], [-a0, -a1]]), np.block([[eye, zero], [zero, a2]]))
    with np.errstate(invalid="ignore"):
        good = np.isfinite(values) & (values.real > 1e-6) & (values.real < HIGHEST) & (np.abs(values.imag) < HIGHEST)
    order = np.flatnonzero(good)[np.argsort(values[good].real, kind="stable")]
    flat = vectors[:size, order].T  # (K, C N)
    largest = np.abs(flat).argmax(axis=1)
    flat = flat / flat[np.arange(len(order)), largest][:, None]
    return values[order], flat.reshape(len(order), channels, count)
