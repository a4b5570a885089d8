"""Edge potentials: what a source makes along the edges and at the vertices of a box, which no polynomial follows.

In the octant x, y, z > 0 with u = 0 on its faces, -Laplace u = 1 has the solution 2 / pi times the sum, over the three
coordinates k and the other two i, j, of

    x_i x_j asinh(x_k / rho_k) - x_k^2 / 2 atan(x_i x_j / (x_k r)),    rho_k^2 = x_i^2 + x_j^2,

the potential of a box in a corner of it. Sources that are powers of a coordinate have potentials that are polynomials
times the same functions and r. In a wedge, along an edge that has no end, there are the logarithm of rho_k and the
angle around the edge instead. Such potentials follow from the data alone, so they are no columns but the known part of
a field: its base. Their derivatives have powers of r and of the rho_k beside polynomials, and are of one kind again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from cnf.bases.part import Part
from cnf.errors import BasisError
from cnf.operators.jets import MultiIndex

PLAIN, ASINH, ATAN, LOG, ANGLE = 0, 1, 4, 7, 10  # kinds of functions; the last four have one for each coordinate
KINDS = 13
MOST_PLACES, MOST_TERMS, MOST_POWER = 100, 100_000, 40
TINY = 1e-150  # distances below are this, in units of the potential: on an edge itself all derivatives stay finite

Powers = tuple[int, int, int]
Factor = tuple[int, int, Powers]  # a kind, the power of r, and those of 1 / rho_k^2
Sum = dict[Factor, dict[Powers, float]]  # polynomials times factors


class EdgePotentials(Part):
    """One channel over three coordinates; a sum of potentials, each in coordinates of its own.

    `places` (J, 6): the origin of a potential, and by what the distances along the coordinates from there are
    multiplied. `terms` (T, 7): the potential that a term belongs to, the kind of its function, the powers of its
    three coordinates and of r, and its weight.

    >>> places = torch.tensor([[0.0, 0, 0, 1, 1, 1]], dtype=torch.float64)
    >>> terms = torch.tensor([[0.0, 0, 1, 1, 0, 0, 3]], dtype=torch.float64)
    >>> cnf.bases.EdgePotentials(places, terms)(torch.ones(2, 3, dtype=torch.float64)).shape
    torch.Size([2, 1])
    """

    def __init__(self, places: Tensor, terms: Tensor):
        super().__init__()
        self.places, self.terms = (t.detach().to(torch.float64).cpu().numpy() for t in (places, terms))
        shapes = self.places.ndim == 2 and self.places.shape[1:] == (6,) and self.terms.shape[1:] == (7,)
        if not shapes or not 0 < len(self.places) <= MOST_PLACES or len(self.terms) > MOST_TERMS:
            raise BasisError("edge potentials have places (J, 6) and terms (T, 7)")
        finite = np.isfinite(self.places).all() and np.isfinite(self.terms).all()
        if not finite or (self.places[:, 3:] == 0).any():
            raise BasisError("edge potentials need finite numbers, and distances multiplied by something")
        whole, most = self.terms[:, :6], np.array([len(self.places) - 1, KINDS - 1, *[MOST_POWER] * 4])
        if (whole != np.round(whole)).any() or (whole < 0).any() or (whole > most).any():
            raise BasisError("terms of edge potentials have whole numbers for place, kind and powers")

    def config(self) -> dict:
        return {"places": torch.from_numpy(self.places), "terms": torch.from_numpy(self.terms)}

    def forward(self, x: Tensor) -> Tensor:
        """(P, 3) -> (P, 1)."""
        return self.derivatives(x, [(0, 0, 0)])[0, 0, 0]

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        """Derivatives by their multi-indices, each (P, 1)."""
        found = {index: x.new_zeros(x.shape[0]) for index in indices}
        for k, place in enumerate(self.places):
            own = sum_of_terms(self.terms[self.terms[:, 0] == k][:, 1:])
            scale = place[3:]
            local = (x - x.new_tensor(place[:3])) * x.new_tensor(scale)
            values = evaluated([differentiated(own, index) for index in indices], local)
            for n, index in enumerate(indices):
                found[index] = found[index] + values[:, n] * float(np.prod(scale ** np.array(index)))
        return {index: value[:, None] for index, value in found.items()}

    def extra_repr(self) -> str:
        return f"{len(self.places)} potentials"


def sum_of_terms(terms: np.ndarray) -> Sum:
    """Of terms (T, 6) as they are saved, without the place."""
    found: Sum = defaultdict(dict)
    for kind, i, j, k, m, weight in terms.tolist():
        own, powers = found[int(kind), int(m), (0, 0, 0)], (int(i), int(j), int(k))
        own[powers] = own.get(powers, 0.0) + weight
    return found


def differentiated(given: Sum, index: MultiIndex) -> Sum:
    """The derivative of a sum, again a sum."""
    for axis, times in enumerate(index):
        for _ in range(times):
            given = _slope(given, axis)
    return given


def _slope(given: Sum, axis: int) -> Sum:
    """The derivative along one coordinate, by the product rule."""
    found: Sum = defaultdict(dict)

    def add(factor: Factor, powers: Powers, weight: float) -> None:
        found[factor][powers] = found[factor].get(powers, 0.0) + weight

    for (kind, m, inverse), polynomial in given.items():
        for powers, weight in polynomial.items():
            if powers[axis]:
                add((kind, m, inverse), _raised(powers, axis, -1), weight * powers[axis])
            if m:
                add((kind, m - 2, inverse), _raised(powers, axis), weight * m)
            for k in range(3):
                if inverse[k] and k != axis:
                    add((kind, m, _raised(inverse, k)), _raised(powers, axis), -2 * weight * inverse[k])
            for numerator, rho, lost, share in _inner_slope(kind, axis):
                higher = powers
                for k in numerator:
                    higher = _raised(higher, k)
                add((PLAIN, m - lost, inverse if rho is None else _raised(inverse, rho)), higher, weight * share)
    return found


def _raised(powers: Powers, k: int, by: int = 1) -> Powers:
    return powers[0] + by * (k == 0), powers[1] + by * (k == 1), powers[2] + by * (k == 2)


def _inner_slope(kind: int, axis: int) -> list[tuple[list[int], int | None, int, float]]:
    """The derivative of a function: coordinates in the numerator, the rho_k^2 in the denominator, lost powers of r, and
    what it is multiplied by."""
    if kind == PLAIN:
        return []
    k = (kind - 1) % 3
    i, j = (k + 1) % 3, (k + 2) % 3
    if ASINH <= kind < ATAN:
        return [([], None, 1, 1.0)] if axis == k else [([axis, k], k, 1, -1.0)]
    if ATAN <= kind < LOG:
        if axis == k:
            return [([i, j], i, 1, -1.0), ([i, j], j, 1, -1.0)]
        other = j if axis == i else i
        return [([other, k], other, 1, 1.0)]
    if axis == k:
        return []
    if LOG <= kind < ANGLE:
        return [([axis], k, 0, 1.0)]
    return [([j], k, 0, -1.0)] if axis == i else [([i], k, 0, 1.0)]


def evaluated(sums: Sequence[Sum], x: Tensor) -> Tensor:
    """The values of sums at points (P, 3) in coordinates of their own, (P, sums)."""
    factors = sorted({factor for own in sums for factor in own})
    powers = sorted({p for own in sums for polynomial in own.values() for p in polynomial})
    number = {p: n for n, p in enumerate(powers)}
    table = x.new_ones(x.shape[0], len(powers))
    for axis in range(3):
        along = x.new_tensor([p[axis] for p in powers])
        table = table * x[:, axis : axis + 1] ** along
    found = x.new_zeros(x.shape[0], len(sums))
    known = _functions(x, {factor[0] for factor in factors})
    square = x.square()
    r = square.sum(dim=1).sqrt().clamp_min(TINY)
    rho = [(square.sum(dim=1) - square[:, k]).clamp_min(TINY) for k in range(3)]
    for factor in factors:
        kind, m, inverse = factor
        weights = x.new_zeros(len(powers), len(sums))
        for n, own in enumerate(sums):
            for p, weight in own.get(factor, {}).items():
                weights[number[p], n] = weight
        value = known[kind] * r**m
        for k in range(3):
            value = value / rho[k] ** inverse[k]
        found = found + value[:, None] * (table @ weights)
    return found


def _functions(x: Tensor, kinds: set[int]) -> dict[int, Tensor]:
    """The functions at points (P, 3), (P,) each."""
    found = {}
    r = x.square().sum(dim=1).sqrt()
    for kind in kinds:
        if kind == PLAIN:
            found[kind] = torch.ones_like(r)
            continue
        k = (kind - 1) % 3
        i, j = (k + 1) % 3, (k + 2) % 3
        rho = (x[:, i].square() + x[:, j].square()).clamp_min(TINY).sqrt()
        if ASINH <= kind < ATAN:
            found[kind] = torch.asinh(x[:, k] / rho)
        elif ATAN <= kind < LOG:
            found[kind] = torch.atan2(x[:, i] * x[:, j], x[:, k] * r)
        else:
            found[kind] = torch.log(rho) if kind < ANGLE else torch.atan2(x[:, j], x[:, i])
    return found
