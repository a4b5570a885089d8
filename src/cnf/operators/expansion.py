"""From operator and points to what must be evaluated: where to look, which derivatives, with which weights.

A `Probe` is one place of an operator at P points: the P * Q points where the field is looked at (Q quadrature nodes,
1 without an integral) and, for each row and channel, the weight of every derivative there. Assembly, evaluation of a
solution and Hermite bases all start from probes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from cnf.errors import OperatorError
from cnf.operators.coefficients import evaluate
from cnf.operators.forward import MultiIndex
from cnf.operators.frame import symbol
from cnf.operators.operator import Operator, Term
from cnf.operators.place import Place

NODES = {1: 64, 2: 56, 3: 32}  # Gauss-Legendre nodes per integration variable, by number of variables
MOST_NODES = 2**20  # of a whole rule, at the finest level
FINEST = 5  # levels of refinement; each doubles the nodes per variable


@dataclass(frozen=True)
class Request:
    """Asks a basis for sum_alpha weights[alpha] d^alpha of its functions' channel; weights are (P,) or numbers."""

    channel: int
    weights: dict[MultiIndex, Tensor]

    def at(self, rows: slice | Tensor) -> Request:
        return Request(self.channel, {a: w if w.dim() == 0 else w[rows] for a, w in self.weights.items()})


@dataclass(frozen=True)
class Probe:
    """`points` (P * nodes, D); `requests[k]` contributes to operator row `rows[k]`."""

    points: Tensor
    nodes: int
    rows: tuple[int, ...]
    requests: tuple[Request, ...]

    def at(self, chosen: Tensor) -> Probe:
        """The same at the chosen ones of its P points."""
        flat = (chosen[:, None] * self.nodes + torch.arange(self.nodes, device=chosen.device)).reshape(-1)
        return Probe(self.points[flat], self.nodes, self.rows, tuple(r.at(flat) for r in self.requests))

    def term_by_term(self) -> Probe:
        """The same with every derivative asked for on its own."""
        apart = [
            (r, Request(request.channel, {index: weight}))
            for r, request in zip(self.rows, self.requests, strict=True)
            for index, weight in request.weights.items()
        ]
        return Probe(self.points, self.nodes, tuple(r for r, _ in apart), tuple(q for _, q in apart))


def expand(operator: Operator, points: Tensor, level: int = 0) -> list[Probe]:
    """Every place the operator looks at, from the points (P, D); `level` doubles the quadrature nodes so many times."""
    frame = operator._needs_frame()
    by_place: dict[Place, list[tuple[int, Term]]] = {}
    for r, row in enumerate(operator.rows):
        for term in row:
            by_place.setdefault(term.place, []).append((r, term))
    probes = []
    for place, terms in by_place.items():
        values, weights = _nodes(place, operator, points, level)
        nodes = 1 if weights is None else weights.shape[1]
        target = points if place.is_here else _moved(place, operator, points, values, nodes)
        gathered: dict[tuple[int, int], dict[MultiIndex, Tensor]] = {}
        like = points[:, :1].expand(-1, nodes)
        for r, term in terms:
            factor = evaluate(term.coefficient, values, dict(operator.data), like)
            if weights is not None:
                factor = factor * weights
            if factor.dim():
                factor = factor.expand(points.shape[0], nodes).reshape(-1)
            assert term.channel is not None
            key = (r, frame.channel(term.channel))
            gathered.setdefault(key, {})[frame.multi_index(term.derivatives)] = factor
        requests = tuple(Request(channel, w) for (_, channel), w in gathered.items())
        probes.append(Probe(target, nodes, tuple(r for r, _ in gathered), requests))
    return probes


def quadrature_nodes(variables: int, level: int) -> int:
    """Nodes per variable at a level of refinement, within what a rule may have in all."""
    most = int(MOST_NODES ** (1 / variables))
    if most < 8:
        raise OperatorError(f"{variables} nested integrals are more than can be worked out; at most 6")
    return min(NODES.get(variables, 16) * 2**level, most)


def has_integrals(operator: Operator) -> bool:
    return any(term.place.integrals for row in operator.rows for term in row)


def has_finer_rule(operator: Operator, level: int) -> bool:
    """True if the operator has integrals and a finer rule than that of `level` exists for them."""
    counts = {len(term.place.integrals) for row in operator.rows for term in row} - {0}
    return level < FINEST and any(quadrature_nodes(n, level + 1) > quadrature_nodes(n, level) for n in counts)


def _nodes(place: Place, operator: Operator, points: Tensor, level: int) -> tuple[dict, Tensor | None]:
    """Values of coordinates and integration variables (broadcasting as (P, Q)), and the quadrature weights (P, Q)."""
    frame = operator._needs_frame()
    values = {symbol(name): points[:, k : k + 1] for k, name in enumerate(frame.coordinates)}
    if not place.integrals:
        return values, None
    count = quadrature_nodes(len(place.integrals), level)
    unit, unit_weights = (torch.as_tensor(a, dtype=points.dtype, device=points.device) for a in _gauss(count))
    grids = torch.meshgrid(*[torch.arange(count, device=points.device)] * len(place.integrals), indexing="ij")
    weights = points.new_ones(points.shape[0], count ** len(place.integrals))
    like = weights
    for integral, grid in zip(place.integrals, grids, strict=True):
        lower = evaluate(integral.lower, values, dict(operator.data), like)
        length = evaluate(integral.upper, values, dict(operator.data), like) - lower
        choice = grid.reshape(-1)
        values[integral.variable] = lower + length * unit[choice]
        weights = weights * length * unit_weights[choice]
    return values, weights


def _moved(place: Place, operator: Operator, points: Tensor, values: dict, nodes: int) -> Tensor:
    frame = operator._needs_frame()
    like = points[:, :1].expand(-1, nodes)
    columns = [
        evaluate(place.at(name), values, dict(operator.data), like).expand(like.shape) for name in frame.coordinates
    ]
    return torch.stack(columns, dim=-1).reshape(-1, len(frame.coordinates))  # (P * Q, D)


@lru_cache(maxsize=16)
def _gauss(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (nodes + 1) / 2, weights / 2


def combine(derivatives: dict[MultiIndex, Tensor], requests: Sequence[Request]) -> Tensor:
    """Weighted sums of known derivatives (P, N) or (P, N, C): (P, K, N), one slice per request."""
    parts = []
    for request in requests:
        part: Tensor | None = None
        for index, weight in request.weights.items():
            value = derivatives[index]
            if value.dim() == 3:
                value = value[..., request.channel if value.shape[2] > 1 else 0]
            scaled = value * (weight if weight.dim() == 0 else weight[:, None])
            part = scaled if part is None else part + scaled
        assert part is not None
        parts.append(part)
    return torch.stack(parts, dim=1)


def wanted(requests: Sequence[Request]) -> list[MultiIndex]:
    """The derivatives that occur in any of the requests."""
    return sorted({index for request in requests for index in request.weights})
