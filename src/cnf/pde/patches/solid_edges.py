"""Edges of solids: along re-entrant ones that run along a coordinate, solutions behave like r^lambda phi(theta) across.

For one equation whose second derivatives are those of the Laplacian, up to a factor in the direction of the edge,
lambda = k pi / omega between two faces of the same kind, half a step less between values and slopes. What varies along
the edge brings in r^(lambda + 2) with the same phi.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import torch

from cnf.bases.corner_functions import AngularMaps, CornerFunctions
from cnf.bases.edge_functions import Edge
from cnf.pde.domains.boundary import by_shape
from cnf.pde.domains.domain import Sample
from cnf.pde.patches.edges import Around, taken_apart
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.question import Question
from cnf.pde.patches.solid_cells import flat_sides
from cnf.pde.patches.solid_surface import STEP

NODES = 28  # of profiles
HIGHEST = 4.0  # exponents above are smooth enough
SHADOWS = 2.0  # exponents below have functions r^(lambda + 2) beside them
NEAR = 1e-4  # of the domain: how far from an edge one looks around
VALUES, SLOPES = 0, 1  # orders of conditions on a face


def straight_edges(question: Question, orders: Orders) -> list[Edge]:
    """Re-entrant edges between flat faces along the coordinates that meet no other, with one function along them."""
    domain = question.domain
    scalar = orders.highest == ((2, 2, 2),) and len(question.inside) == 1 and question.regions is None
    if domain.dimension != 3 or orders.time is not None or domain._is_box or not scalar:
        return []
    diffusion = Around(question, np.array(domain.lower), np.array(domain.upper)).diffusion()
    if diffusion is None:
        return []
    found = []
    for axis in range(3):
        i, j = (k for k in range(3) if k != axis)
        if abs(diffusion[i] - diffusion[j]) > 1e-9 * diffusion[i]:
            continue
        ends = [domain.lower[axis], *flat_sides(domain, axis), domain.upper[axis]]
        for a in flat_sides(domain, i):
            for b in flat_sides(domain, j):
                for low, high in itertools.pairwise(ends):
                    across = _across(question, axis, (a, b), (low + high) / 2)
                    if across is not None:
                        found.append(Edge(axis, 1, low, high, across))
    return [edge for edge in found if not any(_meet(edge, other) for other in found)]


def _meet(one: Edge, other: Edge) -> bool:
    """Whether edges along different coordinates have an end in common: a vertex has exponents of its own."""
    return one.axis != other.axis and bool({*_ends(one)} & {*_ends(other)})


def _ends(edge: Edge) -> list[tuple[float, ...]]:
    found = []
    for end in (edge.low, edge.high):
        place = np.zeros(3)
        place[[*edge.plane, edge.axis]] = *edge.across.centre, end
        found.append(tuple(place.tolist()))
    return found


def _across(question: Question, axis: int, centre: tuple[float, float], height: float) -> CornerFunctions | None:
    """The functions of the plane across an edge, None if it is not re-entrant or its faces have other conditions."""
    domain = question.domain
    size = float(max(np.subtract(domain.upper, domain.lower)))
    i, j = (k for k in range(3) if k != axis)
    place = np.zeros(3)
    place[[i, j, axis]] = *centre, height

    def towards(angle: float) -> np.ndarray:
        found = np.zeros(3)
        found[[i, j]] = math.cos(angle), math.sin(angle)
        return np.round(found, 12)

    middles = [math.pi / 4 + k * math.pi / 2 for k in range(4)]
    inside = domain._inside(np.array([place + NEAR * size * towards(angle) for angle in middles]))
    if inside.sum() != 3:
        return None
    start = (int(np.flatnonzero(~inside)[0]) + 1) * math.pi / 2
    end = start + 1.5 * math.pi
    kinds = []
    for angle, turn in ((start, -math.pi / 2), (end, math.pi / 2)):
        points = place + NEAR * size * np.array([[1.0], [2.0]]) * towards(angle)
        kinds.append(_kind(question, points, np.tile(towards(angle + turn), (2, 1)), size))
    return None if None in kinds else _functions(centre, start, end, kinds)


def _kind(question: Question, points: np.ndarray, normals: np.ndarray, size: float) -> int | None:
    """Whether values or slopes along the normals (P, 3) are given at points (P, 3) of a face."""
    pieces = by_shape(question.domain, points, 2 * STEP * size)
    if len(pieces) != 1 or not pieces[0][1].all():
        return None
    own = [k for k in range(len(question.places)) if question.holds(k, pieces[0][0], points, normals)]
    if len(own) != 1:
        return None
    weights = taken_apart(question.at(own[0], Sample(torch.from_numpy(points), torch.from_numpy(normals))))[1]
    given = {index for index, weight in weights.items() if np.abs(weight).max() > 0}
    if given == {(0, 0, 0)}:
        return VALUES
    normal = tuple(int(abs(n) > 0.5) for n in normals[0])
    return SLOPES if normal in given and given <= {normal, (0, 0, 0)} else None


def _functions(
    centre: tuple[float, float], start: float, end: float, kinds: Sequence[int | None]
) -> CornerFunctions | None:
    """r^lambda phi and, for small lambda, r^(lambda + 2) phi, but for those that are polynomials."""
    omega = end - start
    angles = AngularMaps.of(start, end, NODES).angles - start
    step = 0.0 if kinds[0] == kinds[1] else 0.5
    wave = np.sin if kinds[0] == VALUES else np.cos
    exponents, profiles = [], []
    for k in range(1, 20):
        own = (k - step) * math.pi / omega
        if own >= HIGHEST or abs(own - round(own)) < 1e-9:
            continue
        for exponent in (own, own + 2) if own < SHADOWS else (own,):
            exponents.append(exponent)
            profiles.append(np.stack([wave(own * angles), np.zeros_like(angles)])[:, None])
    if not exponents:
        return None
    parts = np.zeros(len(exponents), dtype=np.int64)
    return CornerFunctions(centre, start, end, np.array(exponents), np.stack(profiles), parts)
