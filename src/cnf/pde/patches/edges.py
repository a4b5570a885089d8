"""Edges: where two faces of a box meet with values given on both, and what the source makes there is known.

The equation inside and the values on two faces contradict each other along their common edge, unless the second
derivatives of the values happen to add up to the source: -Laplace u = 1 with u = 0 is such a contradiction. Solutions
are then r^2 log r times what is left over, which no polynomial follows. What is left over is looked at along every
edge, and potentials of it are the base of the field: patches make up the rest, which is smooth.

At a vertex with values on its three faces, the potential of the octant goes along all of its edges; near the other end
of an edge, its singular part is that of a wedge without ends. So with octants at both ends, a wedge is taken off.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.polynomial import Polynomial, chebyshev

from cnf.bases.edge_potentials import (
    ANGLE,
    ASINH,
    ATAN,
    LOG,
    PLAIN,
    EdgePotentials,
    Sum,
    differentiated,
    evaluated,
)
from cnf.constraints import Constraint
from cnf.pde.domains.boundary import Piece
from cnf.pde.domains.domain import Sample
from cnf.pde.patches.layout import gauss
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.question import Question

HIGHEST = 8  # power of the coordinate along an edge
ACROSS = 7  # points across a face, from an edge on
LOOKS = (13, 0.1), (17, 0.05)  # points along an edge, and how far across faces values are looked at, as a share
AGREE = 1e-2  # of what is left over: as much may the two looks differ
NOTHING = 1e-6  # of the source and the values: less left over is rounding
SMALL = 1e-7  # of what is left over: coefficients below do not count
SAME = 1e-9  # coefficients that differ by less are the same

Edge = tuple[int, int, int]  # the coordinate along it, and at which ends of the next two it lies


def edge_potentials(question: Question, orders: Orders) -> EdgePotentials | None:
    """The known part of the field; None if nothing is left over, or the equation is not of that kind."""
    scalar = orders.highest == ((2, 2, 2),) and len(question.inside) == 1 and question.regions is None
    scalar &= question.is_linear  # else it is not known what is left over
    box = next((leaf for leaf, _ in question.domain._leaves() if leaf._is_box), None)
    if not scalar or box is None or (box.lower, box.upper) != (question.domain.lower, question.domain.upper):
        return None
    around = Around(question, np.array(box.lower), np.array(box.upper))
    diffusion = around.diffusion()
    if diffusion is None:
        return None
    edges = ((k, i, j) for k in range(3) for i, j in itertools.product((0, 1), repeat=2))
    found = {edge: own for edge in edges if (own := around.left_over(edge)) is not None}
    usual = max([around.source, *(size for _, size in found.values())])
    left_over = {edge: np.where(np.abs(own).max() > NOTHING * usual, own, 0.0) for edge, (own, _) in found.items()}
    largest = max((np.abs(own).max() for own in left_over.values()), default=0.0)
    if not largest:
        return None
    length = (around.size / np.sqrt(diffusion)).max()
    series = {edge: _chopped(own, SMALL * largest) for edge, own in left_over.items()}
    return _summed(series, around, 1 / (np.sqrt(diffusion) * length), length**2)


def _chopped(given: np.ndarray, small: float) -> Polynomial:
    """A polynomial of the share of the edge, from a series of Chebyshev's (N,)."""
    found = given[: HIGHEST + 1]
    kept = np.flatnonzero(np.abs(found) > small)
    series = chebyshev.Chebyshev(found[: kept[-1] + 1] if len(kept) else [0.0], domain=[0, 1])
    return series.convert(kind=Polynomial, domain=[0, 1], window=[0, 1])


def _summed(series: dict[Edge, Polynomial], around: Around, scale: np.ndarray, unit: float) -> EdgePotentials:
    """Octants at vertices and wedges along edges, `scale` (3,) per distance, `unit` for every source."""
    places, terms = [], []
    shares = around.size * scale  # the edges of the box in coordinates of the potentials
    for number, vertex in enumerate(itertools.product((0, 1), repeat=3)):
        places.append([*np.where(vertex, around.upper, around.lower), *np.where(vertex, -scale, scale)])
        own = {k: (k, vertex[(k + 1) % 3], vertex[(k + 2) % 3]) for k in range(3)}
        full, first = _is_full(series, vertex), True
        for k, edge in own.items():
            if edge not in series:
                continue
            away = Polynomial([1.0, -1.0]) if vertex[k] else Polynomial([0.0, 1.0])
            powers = series[edge](away).coef / shares[k] ** np.arange(len(series[edge].coef))
            ends = sum(_is_full(series, tuple(end if a == k else v for a, v in enumerate(vertex))) for end in (0, 1))
            for power, weight in enumerate(powers * unit):
                if full and (power or first):  # the constant is common to the three edges
                    terms += _weighted(number, octant(power, k), weight)
                if not vertex[k]:
                    terms += _weighted(number, wedge(power, k), weight * (1 - ends))
            first = False
    return EdgePotentials(torch.tensor(np.array(places)), torch.tensor(np.array(terms)))


def _is_full(series: dict[Edge, Polynomial], vertex: tuple[int, ...]) -> bool:
    """Whether something is known along all three edges of a vertex."""
    return all((k, vertex[(k + 1) % 3], vertex[(k + 2) % 3]) in series for k in range(3))


def _weighted(place: int, potential: Sum, weight: float) -> list[list[float]]:
    return [
        [place, kind, *powers, m, weight * own]
        for (kind, m, _), polynomial in potential.items()
        for powers, own in polynomial.items()
        if own * weight
    ]


@dataclass(frozen=True, eq=False)
class Around:
    """What is asked of a problem along the edges of a box."""

    question: Question
    lower: np.ndarray
    upper: np.ndarray

    @property
    def size(self) -> np.ndarray:
        return self.upper - self.lower

    def diffusion(self) -> np.ndarray | None:
        """The weights of the second derivatives, relative to the first one; None if they vary or are mixed."""
        shares = np.random.default_rng(0).uniform(size=(20, 3))
        table = self.inside(self.lower + self.size * shares)[1]
        twice = {index: weight for index, weight in table.items() if sum(index) == 2}
        found = [twice.pop(index, None) for index in ((2, 0, 0), (0, 2, 0), (0, 0, 2))]
        if twice or any(weight is None for weight in found):
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.stack([np.asarray(weight) / found[0] for weight in found])  # (3, P)
        constant = np.abs(relative - relative[:, :1]).max() <= SAME * np.abs(relative).max()
        return relative[:, 0] if constant and (relative > 0).all() else None

    def inside(self, points: np.ndarray) -> tuple[np.ndarray, dict[tuple[int, ...], np.ndarray]]:
        """The source at points (P, 3), and the weights of all derivatives, (P,) each."""
        (equation,) = self.question.inside
        return taken_apart(self.question.at(equation, Sample(torch.from_numpy(points), None)))

    @property
    def source(self) -> float:
        """How large it is, per weight of the first derivative."""
        source, weights = self.inside(self.lower + self.size * np.random.default_rng(1).uniform(size=(500, 3)))
        return float(np.abs(source / weights[2, 0, 0]).max())

    def left_over(self, edge: Edge) -> tuple[np.ndarray, float] | None:
        """What the equation misses along an edge if the values on both faces hold, as a series of Chebyshev's (N,).

        It is what -u_xx - .. of the potential must be; with it, how large the terms are that add up to it. None if
        there are no values on both faces, if they do not fit each other, if the edge is not one of the domain, or if
        two looks do not agree: then the data vary too fast.
        """
        rough, fine = (self._left_over(edge, *look) for look in LOOKS)
        if rough is None or fine is None:
            return None
        off = fine[0].copy()
        off[: len(rough[0])] -= rough[0]
        limit = max(AGREE * np.abs(fine[0]).max(), NOTHING * fine[1])
        return fine if np.abs(off).sum() <= limit else None

    def _left_over(self, edge: Edge, count: int, reach: float) -> tuple[np.ndarray, float] | None:
        """The same as one look sees it."""
        along, *ends = edge
        i, j = (along + 1) % 3, (along + 2) % 3
        at = np.where([k == along or not ends[k != i] for k in range(3)], self.lower, self.upper)
        points = np.tile(at, (count, 1))
        points[:, along] += self.size[along] * (1 + gauss(count)) / 2
        inward = np.where(np.arange(3) == i, 1 - 2 * ends[0], np.where(np.arange(3) == j, 1 - 2 * ends[1], 0))
        if not self.question.domain._inside(points + 1e-6 * self.size * inward).all():
            return None
        slopes: dict[tuple[int, ...], np.ndarray] = {}
        values = []
        for across, face, end in ((i, j, ends[1]), (j, i, ends[0])):
            grid = np.repeat(points[:, None], ACROSS, axis=1)  # (count, ACROSS, 3)
            grid[:, :, across] += inward[across] * reach * self.size[across] * (1 + _ends(ACROSS)) / 2
            given = self._values(grid.reshape(-1, 3), face, end)
            if given is None:
                return None
            table = given.reshape(count, ACROSS)
            values.append(table[:, 0])
            unit = inward[across] * reach * self.size[across] / 2
            for order in (1, 2):
                slopes[_index(across, order)] = table @ _derivative(_ends(ACROSS), order)[0] / unit**order
        value = values[0]
        for order in (1, 2):
            slopes[_index(along, order)] = _derivative(gauss(count), order) @ value / (self.size[along] / 2) ** order
        slopes[0, 0, 0] = value
        source, weights = self.inside(points)
        terms = [weight * slopes[index] for index, weight in weights.items()]
        if np.abs(values[0] - values[1]).max() > NOTHING * np.abs(values).max() or not all(
            np.isfinite(t).all() for t in (source, *terms)
        ):
            return None
        first = weights[2, 0, 0]
        usual = max(float(np.abs(t / first).max()) for t in (source, *terms))
        left_over = (sum(terms) - source) / first
        return np.linalg.solve(chebyshev.chebvander(gauss(count), count - 1), left_over), usual

    def _values(self, points: np.ndarray, axis: int, end: int) -> np.ndarray | None:
        """Values given at points (P, 3) of a face; None if it has another condition."""
        question = self.question
        normals = np.zeros_like(points)
        normals[:, axis] = 2 * end - 1
        names = next(names for leaf, names in question.domain._leaves() if leaf._is_box)
        own = [k for k in range(len(question.places)) if question.holds(k, Piece(names), points, normals)]
        if len(own) != 1:
            return None
        given, weights = taken_apart(question.at(own[0], Sample(torch.from_numpy(points), torch.from_numpy(normals))))
        if set(weights) != {(0, 0, 0)} or not weights[0, 0, 0].all():
            return None
        return given / weights[0, 0, 0]


def taken_apart(condition: Constraint) -> tuple[np.ndarray, dict[tuple[int, ...], np.ndarray]]:
    """Right-hand sides (P,), and the weights of all derivatives, (P,) each; none if it looks anywhere else."""
    values = condition.values.detach().numpy()
    probes = condition.expanded()
    here = values.shape[1] == 1 and len(probes) == 1 and probes[0].nodes == 1 and len(probes[0].requests) == 1
    if not here or not torch.equal(probes[0].points, condition.points):
        return values[:, 0], {}
    weights = probes[0].requests[0].weights
    return values[:, 0], {i: np.broadcast_to(w.detach().numpy(), len(values)) for i, w in weights.items()}


def _index(axis: int, order: int) -> tuple[int, ...]:
    return tuple(order if k == axis else 0 for k in range(3))


def _ends(count: int) -> np.ndarray:
    """Chebyshev points of [-1, 1] from the lower end on, both ends included."""
    return -np.cos(np.pi * np.arange(count) / (count - 1))


def _derivative(nodes: np.ndarray, order: int) -> np.ndarray:
    """From values at nodes to derivatives there, (N, N)."""
    table = chebyshev.chebvander(nodes, len(nodes) - 1)
    slopes = chebyshev.chebder(np.eye(len(nodes)), order)
    return chebyshev.chebvander(nodes, len(nodes) - 1 - order) @ slopes @ np.linalg.inv(table)


@cache
def octant(power: int, axis: int) -> Sum:
    """-Laplace u = x_axis^power where all coordinates are positive, u = 0 where one is zero.

    An odd power is smooth across its face, if it is continued as it is: only its own edge matters.
    """
    if power % 2:
        return wedge(power, axis)
    kinds = [(ASINH + k, 0, [k != 0, k != 1, k != 2]) for k in range(3)]
    kinds += [(ATAN + k, 0, [False] * 3) for k in range(3)]
    return _turned(_potential(power, [*kinds, (PLAIN, 1, [True] * 3)], [0, 1, 2]), axis)


@cache
def wedge(power: int, axis: int) -> Sum:
    """The same where the two other coordinates are positive, with u = 0 where one of them is zero."""
    odd, even = [True, True, power % 2 == 1], [False, False, power % 2 == 1]
    kinds = [(LOG + 2, 0, odd), (ANGLE + 2, 0, even), (PLAIN, 0, odd), (PLAIN, 0, even)]
    return _turned(_potential(power, kinds, [0, 1]), axis)


def _turned(potential: Sum, axis: int) -> Sum:
    """A potential for coordinate 2 as one for another, coordinates turned in a circle."""

    def turned(kind: int) -> int:
        return kind if kind == PLAIN else kind - (kind - 1) % 3 + ((kind - 1) % 3 + axis - 2) % 3

    def moved(powers: tuple[int, ...]) -> tuple[int, int, int]:
        return powers[(2 - axis) % 3], powers[(3 - axis) % 3], powers[(4 - axis) % 3]

    return {
        (turned(kind), m, rest): {moved(powers): weight for powers, weight in polynomial.items()}
        for (kind, m, rest), polynomial in potential.items()
    }


def _potential(power: int, kinds: list[tuple[int, int, list[bool]]], faces: list[int]) -> Sum:
    """-Laplace u = z^power as polynomials times functions of some kinds and powers of r, zero on faces.

    Of the polynomials, those that are odd in the coordinates that `kinds` says, as the whole is odd in those of the
    faces. The weights are the smallest that meet this at random points; the functions are known to suffice.
    """
    functions: list[Sum] = []
    for kind, m, odd in kinds:
        degree = power + 2 - m
        for i, j in itertools.product(range(degree + 1), repeat=2):
            powers = (i, j, degree - i - j)
            if powers[2] >= 0 and all(n % 2 == own for n, own in zip(powers, odd, strict=True)):
                functions.append({(kind, m, (0, 0, 0)): {powers: 1.0}})
    rng = np.random.default_rng(0)
    points = torch.from_numpy(rng.uniform(size=(2 * len(functions), 3)))
    twice = ((2, 0, 0), (0, 2, 0), (0, 0, 2))
    slopes = evaluated([differentiated(f, index) for f in functions for index in twice], points).numpy()
    rows, right = [slopes.reshape(len(points), -1, 3).sum(axis=2)], [-(points[:, 2].numpy() ** power)]
    for face in faces:
        on_face = points[: len(functions)].clone()
        on_face[:, face] = 0.0
        rows.append(evaluated(functions, on_face).numpy())
        right.append(np.zeros(len(on_face)))
    weights = np.linalg.lstsq(np.concatenate(rows), np.concatenate(right), rcond=1e-11)[0]
    found: Sum = {}
    for function, weight in zip(functions, weights, strict=True):
        if abs(weight) > 1e-13:
            ((factor, polynomial),) = function.items()
            found.setdefault(factor, {}).update(dict.fromkeys(polynomial, float(weight)))
    return found
