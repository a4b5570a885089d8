"""From operator and points to what must be evaluated: where to look, which derivatives, with which weights.

A `Probe` is one place of an operator at P points: the P * Q points where the field is looked at (Q quadrature nodes,
1 without an integral) and, for each row and channel, the weight of every derivative there. Assembly, evaluation of a
solution and Hermite bases all start from probes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cnf.errors import OperatorError
from cnf.operators.evaluation import evaluate, evaluate_all
from cnf.operators.forward import MultiIndex
from cnf.operators.frame import symbol
from cnf.operators.operator import Operator, Term
from cnf.operators.place import Place
from cnf.operators.rules import Rule, unit_nodes

Rules = Mapping[Place, Rule]

MOST_AT_ONCE = 2**25  # points times nodes: 256 MB for each number that is kept of them


@dataclass(frozen=True)
class Request:
    """Asks a basis for sum_alpha weights[alpha] d^alpha of its functions' channel; weights are (P,) or numbers.

    Numbers that nothing is learnt of are on the host, also for points elsewhere.
    """

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


def by_place(operator: Operator) -> dict[Place, list[tuple[int, Term]]]:
    """The terms of the operator, each with its row, by where they look at the field."""
    found: dict[Place, list[tuple[int, Term]]] = {}
    for r, row in enumerate(operator.rows):
        for term in row:
            found.setdefault(term.place, []).append((r, term))
    return found


def expand(operator: Operator, points: Tensor, rules: Rules | None = None) -> list[Probe]:
    """Every place the operator looks at, from the points (P, D); `rules` for its integrals, a plain one by default."""
    known = rules or {}
    return [probe_at(operator, place, terms, points, known.get(place)) for place, terms in by_place(operator).items()]


def probe_at(
    operator: Operator, place: Place, terms: Sequence[tuple[int, Term]], points: Tensor, rule: Rule | None
) -> Probe:
    """The terms, all at one place and each with its row, looked at from the points (P, D)."""
    frame = operator._needs_frame()
    values, weights = _nodes(place, operator, points, rule)
    nodes = 1 if weights is None else weights.shape[1]
    target = points if place.is_here else _moved(place, operator, points, values, nodes)
    gathered: dict[tuple[int, int], dict[MultiIndex, Tensor]] = {}
    like = points[:, :1].expand(-1, nodes)
    factors = evaluate_all([t.coefficient for _, t in terms], values, dict(operator.data), like, numbers_here=True)
    for (r, term), factor in zip(terms, factors, strict=True):
        if weights is not None:
            factor = factor * weights
        if factor.dim():
            factor = factor.expand(points.shape[0], nodes).reshape(-1)
        assert term.channel is not None
        key = (r, frame.channel(term.channel))
        gathered.setdefault(key, {})[frame.multi_index(term.derivatives)] = factor
    requests = tuple(Request(channel, w) for (_, channel), w in gathered.items())
    return Probe(target, nodes, tuple(r for r, _ in gathered), requests)


def same_rules(first: Rules, second: Rules) -> bool:
    """True if all integrals have the same nodes."""
    return first.keys() == second.keys() and all(rule.same_as(second[place]) for place, rule in first.items())


def has_integrals(operator: Operator) -> bool:
    return any(term.place.integrals for row in operator.rows for term in row)


def _nodes(place: Place, operator: Operator, points: Tensor, rule: Rule | None) -> tuple[dict, Tensor | None]:
    """Values of coordinates and integration variables (broadcasting as (P, Q)), and the quadrature weights (P, Q)."""
    frame = operator._needs_frame()
    values = {symbol(name): points[:, k : k + 1] for k, name in enumerate(frame.coordinates)}
    if not place.integrals:
        return values, None
    variables, data = len(place.integrals), dict(operator.data)
    rule = Rule.plain(variables) if rule is None else rule
    if points.shape[0] * rule.count > MOST_AT_ONCE:
        raise OperatorError(
            f"an integral with {rule.count} nodes at {points.shape[0]} points is more than can be kept in memory; ask "
            "it at fewer points, or of a smoother basis"
        )
    unit, unit_weights, lower, upper = (
        torch.as_tensor(a, dtype=points.dtype, device=points.device) for a in (*unit_nodes(rule.nodes), *rule.reaching)
    )
    sizes = [lower.shape[0], *[2] * len(rule.cuts), *[rule.nodes] * variables]
    grids = torch.meshgrid(*[torch.arange(n, device=points.device) for n in sizes], indexing="ij")
    cell, *choices = (grid.reshape(-1) for grid in grids)  # each (Q,)
    sides, nodes = choices[: len(rule.cuts)], choices[len(rule.cuts) :]
    like = weights = points.new_ones(points.shape[0], rule.count)
    for v, integral in enumerate(place.integrals):
        start, end = (evaluate(e, values, data, like) for e in (integral.lower, integral.upper))
        low, high = torch.minimum(start, end), torch.maximum(start, end)
        for cut, side in zip(rule.cuts, sides, strict=True):
            if cut.variable == v:
                where = _between(evaluate(cut.where, values, data, like), low, high)
                low, high = torch.where(side == 0, low, where), torch.where(side == 0, where, high)
        if rule.relative and rule.relative[v]:
            first, last = (low + (high - low) * edge[cell, v].clamp(0, 1) for edge in (lower, upper))
        else:
            first, last = (_between(edge[cell, v], low, high) for edge in (lower, upper))
        length = last - first
        values[integral.variable] = first + length * unit[nodes[v]]
        weights = weights * torch.where(end < start, -length, length) * unit_weights[nodes[v]]
    return values, weights


def _between(value: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return torch.minimum(torch.maximum(value, low), high)


def _moved(place: Place, operator: Operator, points: Tensor, values: dict, nodes: int) -> Tensor:
    frame = operator._needs_frame()
    like = points[:, :1].expand(-1, nodes)
    columns = [
        evaluate(place.at(name), values, dict(operator.data), like).expand(like.shape) for name in frame.coordinates
    ]
    return torch.stack(columns, dim=-1).reshape(-1, len(frame.coordinates))  # (P * Q, D)


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
