"""Corners: where the boundary bends or regions meet, solutions behave like r^lambda phi(theta); the equations say how.

With u = r^lambda phi(theta), the highest derivatives of the equations inside and on the two edges give a quadratic
eigenvalue problem for lambda on the interval of angles. This holds for any number of channels and any conditions. A
channel of lower order, like a pressure, goes with r^(lambda - 1); its profile has a degree lower by two, and its
equation as many points less. Where several regions meet, the angle has a sector for each, with a profile of its own;
what is tied on their interface is tied between them, and inside the domain the last one meets the first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
import torch

from cnf.bases.corner_functions import AngularMaps, CornerFunctions
from cnf.constraints import Constraint
from cnf.pde.domains.domain import Sample
from cnf.pde.patches.driven import driven_rows
from cnf.pde.patches.interfaces import interface_ties
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.question import Question
from cnf.pde.patches.sectors import Corner, Ray
from cnf.pde.patches.shaped_layout import Border

NODES = 28, 36  # two resolutions; eigenvalues that both have are kept
HIGHEST = 4.0  # exponents above are smooth enough: nearly polynomials of degree 12, and then weights are anything
MOST = 10  # functions of a corner
SEEN = 64  # points of an interface by which the size of its data is judged
JUMP = 1e-4  # of the data: what jumps less is taken for rounding of where edges are looked at
LEAST = 1e-4  # exponents: constants, with exponent 0, come twice where no values are given, and split by rounding


def functions_at(question: Question, corner: Corner) -> list[CornerFunctions]:
    """What solutions look like there, apart from polynomials, sector by sector.

    Nothing if polynomials do, or conditions are missing.
    """
    by_area = {s.area: question.inside_of(s.area) for s in corner.sectors}
    if not all(by_area.values()):
        return []
    orders = {a: Orders.of([question.constraints[k] for k in own], question.time) for a, own in by_area.items()}
    coarse, fine = NODES
    angular = Angular.of(question, orders, corner, fine)
    if angular is None:
        return []
    exponents: list[complex] = []
    profiles: list[np.ndarray] = []
    parts: list[int] = []
    first = orders[corner.sectors[0].area]
    for degree in (0, 1):
        jumps = angular.data_jump(degree, data_size(question, first, degree))
        for profile in angular.from_data(degree) if jumps else ():
            exponents.append(degree)
            profiles.append(profile)
            parts.append(0)
        for driven, profile in angular.driven(question, first, corner) if jumps and degree == 0 else ():
            exponents.append(driven)
            profiles.append(profile)
            parts.append(0)
    found = [pair for pair in zip(*angular.eigenpairs(), strict=True) if not _is_polynomial(pair[0])]
    other = Angular.of(question, orders, corner, coarse) if found else None
    known = np.zeros(0) if other is None else other.eigenpairs()[0]
    for value, profile in found:
        if np.abs(known - value).min(initial=np.inf) >= 1e-7 or value.imag < -1e-9 or len(exponents) >= MOST:
            continue
        for part in (0,) if abs(value.imag) < 1e-9 else (0, 1):
            exponents.append(value)
            profiles.append(np.stack([profile, np.zeros_like(profile)]))
            parts.append(part)
    if not exponents:
        return []
    centre = (float(corner.centre[0]), float(corner.centre[1]))
    lower = first.lower if any(first.lower) else ()
    shapes = np.stack(profiles)  # (K, 2, S, C, N)
    return [
        CornerFunctions(centre, s.start, s.end, np.array(exponents), shapes[:, :, k], np.array(parts), lower)
        for k, s in enumerate(corner.sectors)
    ]


def _is_polynomial(exponent: complex) -> bool:
    """Whether r^exponent phi may be one: whole numbers, as all exponents of right angles between values are."""
    return abs(exponent.imag) < 1e-9 and abs(exponent.real - round(exponent.real)) < 1e-7


def data_size(question: Question, orders: Orders, degree: int) -> float:
    """How large conditions on the boundary and on interfaces are, those of order `degree` and slopes of lower ones."""
    size = max(b - a for a, b in zip(question.domain.lower, question.domain.upper, strict=True))
    given = [c for place, c in zip(question.places, question.constraints, strict=True) if place.kind != "interior"]
    for jump in question.jumps:
        assert question.regions is not None
        for number in jump.interfaces:
            points, normals = question.regions.interfaces[number].sample(SEEN, question.seed)
            given.append(jump.at(number, torch.from_numpy(points), torch.from_numpy(normals))[0])
    found = 0.0
    for condition in given:
        lost = degree - max(_order(condition, r, orders) for r in range(condition.values.shape[1]))
        if lost >= 0:
            found = max(found, float(condition.values.abs().max()) / size**lost)
    return found


@dataclass(frozen=True)
class Row:
    """A condition on an edge: its row in the problem of the angle, its order, its values at two distances."""

    number: int
    order: int
    values: np.ndarray  # (2,)
    distances: np.ndarray  # (2,)

    @property
    def slope(self) -> float:
        return float(np.diff(self.values)[0] / np.diff(self.distances)[0])


@dataclass(frozen=True)
class Angular:
    """The problem of the angle: `powers` (3, S C N, S C N) of 1, lambda and lambda^2, and the rows of the edges in it.

    `maps` are those of the S sectors. Unknowns are values at the N points of a sector, channel by channel.
    """

    maps: tuple[AngularMaps, ...]
    channels: int
    powers: np.ndarray
    rows: tuple[Row, ...]
    lower: tuple[int, ...]

    @staticmethod
    def of(question: Question, orders: dict[int, Orders], corner: Corner, count: int) -> Angular | None:
        """Of equations with these `orders` by region; None if they or the edges have not as many rows as it takes."""
        channels, first = len(question.space.channels), orders[corner.sectors[0].area]
        if any(len(o.rows) != channels for o in orders.values()):
            return None
        if len(corner.sectors) > 1 and any(any(o.multipliers) for o in orders.values()):
            return None
        maps = tuple(AngularMaps.of(s.start, s.end, count) for s in corner.sectors)
        size = len(maps) * channels * count
        angular = Angular(maps, channels, np.zeros((3, size, size)), (), first.lower)
        free = [angular._set_inside(question, orders[s.area], corner, k) for k, s in enumerate(corner.sectors)]
        rows: list[Row] = []
        for before, ray in enumerate(corner.rays[1:] if corner.around else corner.rays, 0 if corner.around else -1):
            after = (before + 1) % len(maps) if corner.around else before + 1
            ends = [block * count + count - 1 for block in (free[before] if before >= 0 else ())]
            ends += [block * count for block in (free[after] if after < len(maps) else ())]
            given = _conditions(question, orders, corner, ray, (before, after))
            if sum(sides[0][0].values.shape[1] for sides in given) != len(ends):
                return None
            distances = np.linalg.norm(ray.curve.at(ray.arcs())[0] - corner.centre, axis=1)
            numbered = ((sides, r) for sides in given for r in range(sides[0][0].values.shape[1]))
            for number, (sides, r) in zip(ends, numbered, strict=True):
                angular.powers[:, number] = 0.0
                order = max(_order(condition, r, first) for condition, _, _ in sides)
                for condition, sector, sign in sides:
                    end = 0 if sector == after and before != after else count - 1
                    angular._add(condition, sector, slice(number, number + 1), np.array([end]), order, r, sign)
                rows.append(Row(number, order, sides[0][0].values[:, r].detach().numpy(), distances))
        return replace(angular, rows=tuple(rows))

    def _set_inside(self, question: Question, orders: Orders, corner: Corner, sector: int) -> list[int]:
        """The equations inside a sector; which blocks of its rows have conditions at its ends."""
        count = len(self.maps[sector].angles)
        at = torch.tensor(corner.centre[None], dtype=torch.float64)
        multipliers = iter(np.flatnonzero(orders.multipliers))
        free, block = [], 0
        inside = question.inside_of(corner.sectors[sector].area)
        for k, equation in zip(inside, orders.equations, strict=True):
            condition = question.at(k, Sample(at, None))
            for r, restrains in enumerate(orders.restrains(equation)):
                order = 2 + orders.weights.rows[block] if restrains and orders.weights else 2
                number = sector * self.channels + block
                own = slice(number * count, (number + 1) * count)
                self._add(condition, sector, own, np.arange(count), order, r)
                if restrains:  # at its ends, the highest degrees of the multiplier are zero instead
                    column = (sector * self.channels + int(next(multipliers))) * count
                    for row, degree in ((own.start, count - 1), (own.stop - 1, count - 2)):
                        self.powers[:, row] = 0.0
                        self.powers[0, row, column : column + count] = self.maps[sector].coefficients[degree]
                else:
                    free.append(number)
                block += 1
        return free

    def _add(
        self,
        condition: Constraint,
        sector: int,
        rows: slice,
        nodes: np.ndarray,
        order: int,
        row: int,
        sign: float = 1.0,
    ) -> None:
        """The derivatives of the highest order of a row of a condition, at nodes of a sector, added to rows of this."""
        maps = self.maps[sector]
        count = len(maps.angles)
        for probe in condition.expanded():
            for r, request in zip(probe.rows, probe.requests, strict=True):
                if r != row:
                    continue
                start, lower = (sector * self.channels + request.channel) * count, self.lower[request.channel]
                for index, weight in request.weights.items():
                    if sum(index) + lower != order:
                        continue
                    flat = weight.reshape(-1)
                    factor = sign * float(flat[0] if len(flat) == 1 else 2 * flat[0] - flat[1])  # in the corner
                    for power, matrix in enumerate(_derivative(maps, index, lower)):
                        self.powers[power, rows, start : start + count] += factor * matrix[nodes]

    def data_jump(self, degree: int, usual: float) -> bool:
        """Whether what the edges ask for, at this degree in r, is more than a polynomial does, measured by `usual`."""
        right = self._asked(degree)
        return usual > 0 and len(self._beyond_polynomials(right[:, None] / usual, degree, JUMP)) > 0

    def _asked(self, degree: int) -> np.ndarray:
        """What the edges ask for at this degree in r, (S C N,)."""
        right = np.zeros(self.powers.shape[1])
        for row in self.rows:
            if row.order == degree:
                right[row.number] = row.values[0] - row.distances[0] * row.slope  # in the corner itself
            elif row.order == degree - 1:
                right[row.number] = row.slope
        return right

    def driven(self, question: Question, orders: Orders, corner: Corner) -> list[tuple[int, np.ndarray]]:
        """Degrees and profiles (2, S, C, N) of what nonlinear terms make of the values that the edges ask for."""
        count = len(self.maps[0].angles)
        chi, phi = self._solved_for(self._asked(0)[:, None], 0)
        whole = np.stack([phi, chi]).reshape(2, self.channels, -1) if len(self.maps) == 1 else np.zeros((2, 1, 1))
        found = driven_rows(question, orders, corner, self.maps[0].angles, whole)
        if found is None:
            return []
        degree, made = found
        right, edges = np.zeros(self.powers.shape[1]), [row.number for row in self.rows]
        restrains = [own for equation in orders.equations for own in orders.restrains(equation)]
        for block, (row, is_restraint) in enumerate(zip(made, restrains, strict=True)):
            right[block * count : (block + 1) * count] = 0.0 if is_restraint else row
        right[edges] = 0.0
        size = np.abs(right).max()
        if size == 0:
            return []
        return [(degree, profile) for profile in self._beyond_polynomials(right[:, None] / size, degree, 1e-6)]

    def from_data(self, degree: int) -> list[np.ndarray]:
        """Profiles (2, S, C, N) of what values on the edges may cause at this degree, apart from polynomials."""
        rows = [row.number for row in self.rows if row.order in (degree, degree - 1)]
        return self._beyond_polynomials(np.eye(self.powers.shape[1])[:, rows], degree, 1e-6)

    def _solved_for(self, right: np.ndarray, degree: int) -> tuple[np.ndarray, np.ndarray]:
        """chi and phi of r^degree (phi + log(r) chi) for right-hand sides (S C N, R), in the same shape each."""
        size = self.powers.shape[1]
        scale = np.abs(self.powers).max(axis=(0, 2))
        a0, a1, a2 = self.powers / np.where(scale > 0, scale, 1.0)[None, :, None]
        a, slope = a0 + degree * a1 + degree**2 * a2, a1 + 2 * degree * a2
        block = np.block([[a, np.zeros((size, size))], [slope, a]])
        wanted = np.concatenate([np.zeros_like(right), right / np.where(scale > 0, scale, 1.0)[:, None]])
        found = np.linalg.lstsq(block, wanted, rcond=1e-11)[0]
        return found[:size], found[size:]

    def _beyond_polynomials(self, right: np.ndarray, degree: int, small: float) -> list[np.ndarray]:
        """r^degree (phi + log(r) chi) for right-hand sides (C N, R), independent of each other and of polynomials."""
        size, count = self.powers.shape[1], len(self.maps[0].angles)
        chi, phi = self._solved_for(right, degree)
        blocks = []
        for cos, sin in (maps.along for maps in self.maps):
            for own in (degree - lower for lower in self.lower):  # none if negative
                blocks.append(np.array([cos**k * sin ** (own - k) for k in range(own + 1)]).reshape(-1, count).T)
        polynomials = scipy.linalg.block_diag(*blocks)
        largest = max(1.0, float(np.abs(phi).max()), float(np.abs(chi).max()))
        phi = phi - polynomials @ np.linalg.lstsq(polynomials, phi, rcond=None)[0]
        u, values, _ = np.linalg.svd(np.concatenate([phi, chi]), full_matrices=False)
        kept = u[:, values > small * largest]
        profiles = [np.stack([v[:size], v[size:]]).reshape(2, -1, self.channels, count) for v in kept.T]
        return [p / np.abs(p).max() for p in profiles]

    def eigenpairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Exponents (K,) between 0 and HIGHEST without data, and profiles (K, S, C, N)."""
        values, flat = _solved(self.powers)
        return values, flat.reshape(len(values), len(self.maps), self.channels, len(self.maps[0].angles))


def _order(condition: Constraint, row: int, orders: Orders) -> int:
    """The highest order in a row of a condition, where derivatives of lower channels count as much more."""
    terms = condition.operator.rows[row]
    return max((t.order + orders.lower[orders.channels.index(t.channel or "")] for t in terms), default=0)


Sides = list[tuple[Constraint, int, float]]  # what adds up to the values of the first: operators, in which sectors


def _conditions(
    question: Question, orders: dict[int, Orders], corner: Corner, ray: Ray, sectors: tuple[int, int]
) -> list[Sides]:
    """What holds on a ray between two sectors, at its two points near the corner; on the boundary one is not there."""
    points, normals = ray.curve.at(ray.arcs())
    if ray.interface < 0:
        (own,) = (k for k in sectors if 0 <= k < len(corner.sectors))
        sample = Sample(torch.from_numpy(points), torch.from_numpy(normals))
        numbers = range(len(question.places))
        return [[(question.at(k, sample), own, 1.0)] for k in numbers if question.holds(k, ray.curve, points, normals)]
    assert question.regions is not None
    face = question.regions.interfaces[ray.interface]
    if corner.sectors[sectors[0]].area != face.first:
        sectors = sectors[1], sectors[0]
    border = Border(points, normals, *(np.full(len(points), k) for k in sectors))
    by_area = [orders.get(area, next(iter(orders.values()))) for area in range(question.areas)]
    ties = [
        tie for kind in ("values", "fluxes") for tie in interface_ties(question, by_area, ray.interface, kind, border)
    ]
    return [[(condition, int(sector[0]), sign) for condition, sector, sign in tie.sides()] for tie in ties]


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


def _solved(powers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(A0 + lambda A1 + lambda^2 A2) v = 0."""
    size = powers.shape[1]
    scale = np.abs(powers).max(axis=(0, 2))
    a0, a1, a2 = powers / np.where(scale > 0, scale, 1.0)[None, :, None]
    eye, zero = np.eye(size), np.zeros((size, size))
    values, vectors = scipy.linalg.eig(np.block([[zero, eye], [-a0, -a1]]), np.block([[eye, zero], [zero, a2]]))
    with np.errstate(invalid="ignore"):
        good = np.isfinite(values) & (values.real > LEAST) & (values.real < HIGHEST) & (np.abs(values.imag) < HIGHEST)
    order = np.flatnonzero(good)[np.argsort(values[good].real, kind="stable")]
    flat = vectors[:size, order].T  # (K, C N)
    largest = np.abs(flat).argmax(axis=1)
    flat = flat / flat[np.arange(len(order)), largest][:, None]
    return values[order], flat
