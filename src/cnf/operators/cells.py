"""Cells: the ranges of an integral divided so finely that nothing in the integrand can hide between the nodes.

A cell is halved while the coefficient or the functions may go through more than a few natural units inside it (see
`ranges` and `detail`). What remains is smooth on the scale of its cells, so that two different rules which agree are
right. Where that cannot be reached within the nodes there are, or is not known, the rule carries a doubt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product

import numpy as np
import sympy as sp
import torch
from torch import Tensor

from cnf.operators.detail import Detail
from cnf.operators.evaluation import evaluate
from cnf.operators.expansion import by_place
from cnf.operators.frame import symbol
from cnf.operators.kinks import Layout, Surroundings, lay_along_kinks
from cnf.operators.operator import Operator
from cnf.operators.place import Place
from cnf.operators.place import replace as replaced
from cnf.operators.ranges import NEGLIGIBLE, ROUNDING, Bounds
from cnf.operators.rules import Rule, cell_nodes, most_nodes

UNITS = 16.0  # natural units that a cell may span
FINEST = 2.0**-46  # share of the range below which cells are not halved
FINEST_FUNCTIONS = 2.0**-20  # the same where functions have kinks: a hidden part is of the second order there
MOST_POINTS = 2**22  # points times nodes of a constraint
HIDDEN = 1e-11  # share of the integral that may hide in cells that are not resolved


NO_KINKS = Layout((), (), (), frozenset())


@dataclass(frozen=True, eq=False)
class Partition:
    """Cells `lower`, `upper` (B, V) of one place of an operator, and all that tells how finely they must divide."""

    place: Place
    coefficients: tuple[sp.Expr, ...]
    coordinates: tuple[str, ...]
    detail: Detail
    near: Surroundings
    layout: Layout
    lower: np.ndarray
    upper: np.ndarray
    doubt: str = ""

    @staticmethod
    def _bare(
        operator: Operator, place: Place, points: Tensor, detail: Detail, layout: Layout, beside: Operator | None = None
    ) -> Partition:
        frame, points = operator._needs_frame(), points.detach()
        values = {symbol(name): points[:, k : k + 1] for k, name in enumerate(frame.coordinates)}
        near = Surroundings(values, dict(operator.data), points[:, :1])
        terms = [term for _, term in by_place(operator)[place]]
        if beside is not None:
            terms += [term for row in beside.rows for term in row if term.place.integrals == place.integrals]
        coefficients = tuple(dict.fromkeys(term.coefficient for term in terms))
        none = np.empty((0, len(place.integrals)))
        return Partition(place, coefficients, frame.coordinates, detail, near, layout, none, none)

    @staticmethod
    def in_use(
        operator: Operator, place: Place, points: Tensor, detail: Detail, rule: Rule, beside: Operator | None = None
    ) -> Partition:
        """The cells of a rule, with coefficients and functions as they are now."""
        layout = Layout(rule.cuts, (), rule.relative or (False,) * rule.lower.shape[1], rule.settled)
        bare = Partition._bare(operator, place, points, detail, layout, beside)
        return replace(bare, lower=rule.lower, upper=rule.upper)

    @staticmethod
    def of(
        operator: Operator, place: Place, points: Tensor, detail: Detail, beside: Operator | None = None
    ) -> Partition:
        """Divided until every cell is resolved, as far as that can be told and afforded.

        The cells also serve the same integrals in the operator `beside`, whose terms have jets in their coefficients.
        """
        bare = Partition._bare(operator, place, points, detail, NO_KINKS, beside)
        spans = _spans(place, bare.near)
        layout = lay_along_kinks(place, bare.coefficients, bare.near, spans)
        axes = []
        laid = replace(bare, layout=layout, lower=np.empty((0, len(spans))))
        for v, ((low, high), breaks, relative) in enumerate(zip(spans, layout.breaks, layout.relative, strict=True)):
            low, high = (0.0, 1.0) if relative else (low, high)
            breaks = np.union1d(breaks, laid.kinks[v])
            axes.append(np.array([low, *breaks[(breaks > low) & (breaks < high)], high]))
        lower, upper = np.array(list(product(*map(_pairs, axes)))).transpose(2, 0, 1)  # each (B, V)
        return replace(bare, layout=layout, lower=lower, upper=upper)._resolved()

    @property
    def rule(self) -> Rule:
        cuts, relative, settled = self.layout.cuts, self.layout.relative, self.layout.settled
        nodes = cell_nodes(self.lower.shape[1])
        return Rule(self.lower, self.upper, nodes, cuts, relative, settled, self.needs(), doubt=self.doubt)

    @property
    def most_cells(self) -> int:
        """What memory and time allow, the checking rule having twice as many."""
        variables, points = self.lower.shape[1], self.near.like.shape[0]
        per_cell = 2 ** (1 + len(self.layout.cuts)) * cell_nodes(variables) ** variables
        return max(1, min(most_nodes(variables), MOST_POINTS // points) // per_cell)

    @cached_property
    def kinks(self) -> list[np.ndarray]:
        """Where the functions have kinks or jumps along every variable, which cells are to end at.

        One at the very edge of a cell lies between its outermost nodes and the edge: no rule would ever see it. Along
        lines only: in the plane of two variables kinks are curves, which cells cannot follow.
        """
        found = [np.empty(0) for _ in self.place.integrals]
        if len(found) > 1 or self.layout.relative[0]:
            return found
        variable = self.place.integrals[0].variable
        moving = [self.place.at(name) for name in self.coordinates]
        if any(variable in e.free_symbols for e in moving if e != variable):
            return found
        values = {**self.near.values, variable: self.near.like[:, :1]}
        columns = [evaluate(e, values, self.near.data, self.near.like).expand(self.near.like.shape) for e in moving]
        lines = np.unique(torch.cat(columns, dim=1).detach().to(torch.float64).cpu().numpy(), axis=0)
        known = [self.detail.kinks(k, lines) for k, e in enumerate(moving) if e == variable]
        found[0] = np.unique(np.concatenate([np.empty(0), *known]))
        return found if found[0].size <= self.most_cells // 2 else [np.empty(0)]

    def halved(self, chosen: np.ndarray, needs: np.ndarray | None = None) -> Partition:
        """The chosen cells (B,) in two, along the variable that needs it most."""
        length = self.upper - self.lower
        extent = self.upper.max(axis=0) - self.lower.min(axis=0)
        shares = length / np.where(extent > 0, extent, 1.0)
        needs = self.needs() if needs is None else needs
        side = np.where(np.isfinite(needs), needs, 1e300 * shares)[chosen]
        side = np.where(side.max(axis=1, keepdims=True) > 0, side + 1e-3 * shares[chosen], shares[chosen]).argmax(
            axis=1
        )
        rows = np.arange(side.shape[0])
        low, high = self.lower[chosen], self.upper[chosen]
        first, second = high.copy(), low.copy()
        first[rows, side] = second[rows, side] = self._between(low[rows, side], high[rows, side], side)
        return replace(
            self,
            lower=np.concatenate([self.lower[~chosen], low, second]),
            upper=np.concatenate([self.upper[~chosen], first, high]),
        )

    def _between(self, low: np.ndarray, high: np.ndarray, side: np.ndarray) -> np.ndarray:
        """Where to divide: at a kink of the functions if one is near the middle, else in the middle."""
        found = (low + high) / 2
        for v, known in enumerate(self.kinks):
            if not known.size:
                continue
            place = (
                np.clip(np.searchsorted(known, found), 1, known.size - 1)
                if known.size > 1
                else np.zeros(found.shape, int)
            )
            before, after = known[place - 1], known[place]
            nearest = np.where(np.abs(before - found) < np.abs(after - found), before, after)
            central = (side == v) & (np.abs(nearest - found) < 0.45 * (high - low))
            found = np.where(central, nearest, found)
        return found

    def needs(self) -> np.ndarray:
        """Natural units that each cell spans along every variable, (B, V)."""
        return self._examined()[0]

    def outgrew(self, then: np.ndarray) -> bool:
        """Whether any cell has to resolve much more than it did `then`, (B, V), or has a kink inside by now."""
        return self._holds_kinks() or bool((self.needs() > np.maximum(1.5 * then, UNITS / 4)).any())

    def _holds_kinks(self) -> bool:
        if len(self.kinks) > 1 or not self.kinks[0].size:
            return False
        edges = np.unique([self.lower[:, 0], self.upper[:, 0]])
        inside = self.kinks[0][(self.kinks[0] > edges[0]) & (self.kinks[0] < edges[-1])]
        after = np.clip(np.searchsorted(edges, inside), 1, edges.size - 1)
        gaps = np.minimum(np.abs(edges[after] - inside), np.abs(inside - edges[after - 1]))
        return bool((gaps > ROUNDING * (edges[-1] - edges[0])).any())

    def _resolved(self) -> Partition:
        found, doubts = self, set()
        while True:
            needs, hidden, unknown = found._examined()
            doubts |= unknown
            wanting = np.asarray((needs > UNITS).any(axis=1))
            if not wanting.any():
                break
            if found.lower.shape[0] + wanting.sum() > self.most_cells:
                if hidden > HIDDEN:
                    doubts.add(
                        f"the integral is not resolved: field or coefficient may vary faster than {self.most_cells} "
                        "cells can follow. Use a smoother basis (a larger bandwidth), or split the integral at kinks"
                    )
                break
            found = found.halved(wanting, needs)
        doubts |= {self.detail.doubt} - {""}
        return replace(found, doubt="; ".join(sorted(doubts)))

    def _examined(self) -> tuple[np.ndarray, float, set[str]]:
        """Needs (B, V), the share of the integral that unresolved cells may hide, and what is not known."""
        length = self.upper - self.lower
        shares = length / np.maximum((self.upper.max(axis=0) - self.lower.min(axis=0)), 1e-300)
        needs, doubts, hidden = np.zeros(length.shape), set[str](), 0.0
        for cell_variables, change in self._pieces():
            cut = frozenset(replaced(argument, change) for argument in self.layout.settled)
            known = {"cut": cut, "doubts": doubts, "detail": self.detail}
            ranges = self.near.ranges(cell_variables, self.lower, self.upper, **known)
            slopes = [ranges.of(replaced(self.place.at(name), change)) for name in self.coordinates]
            boxes = (np.stack([b.lower for b in slopes], axis=1), np.stack([b.upper for b in slopes], axis=1))
            functions = _along(self.detail.pace(*boxes), slopes) * length
            functions[~np.isfinite(functions) & (shares <= FINEST_FUNCTIONS)] = 0.0
            edges = [e for i in self.place.integrals for e in (i.lower, i.upper)]
            for edge in edges:
                functions = np.maximum(functions, _spanned(ranges.of(replaced(edge, change)), length))
            for coefficient in self.coefficients:
                b = ranges.of(replaced(coefficient, change))
                weight = b.size * length.prod(axis=1)
                largest = weight[np.isfinite(weight)].max(initial=0.0)
                spanned = np.maximum(functions, _spanned(b, length))
                spanned[weight <= NEGLIGIBLE * largest] = 0.0
                spanned[np.isnan(spanned)] = np.inf
                spanned[shares <= FINEST] = 0.0
                open_cells = (spanned > UNITS).any(axis=1)
                spread = np.where(
                    np.isfinite(functions).all(axis=1) & (functions <= UNITS).all(axis=1), b.upper - b.lower, b.size
                )
                total = weight[np.isfinite(weight)].sum()
                share = float((spread * length.prod(axis=1))[open_cells].sum() / total) if total > 0 else 0.0
                hidden, needs = max(hidden, share), np.maximum(needs, spanned)
        return needs, np.inf if np.isnan(hidden) else hidden, doubts

    def _pieces(self) -> Sequence[tuple[list[sp.Symbol], dict[sp.Symbol, sp.Expr]]]:
        """The variables that cells are in, and the integration variables in terms of them; for each side of cuts."""
        variables = [i.variable for i in self.place.integrals]
        own = [sp.Dummy(real=True) if r else s for s, r in zip(variables, self.layout.relative, strict=True)]
        options = []
        for v, integral in enumerate(self.place.integrals):
            ends = [integral.lower, *(c.where for c in self.layout.cuts if c.variable == v), integral.upper]
            if self.layout.relative[v]:
                options.append([a + (b - a) * own[v] for a, b in pairwise(ends)])
            else:
                options.append([variables[v]])
        found = []
        for choice in product(*options):
            change: dict[sp.Symbol, sp.Expr] = {}
            for s, expression in zip(variables, choice, strict=True):  # outer ones first: inner ones refer to them
                change[s] = replaced(expression, change)
            found.append((own, change))
        return found


def divided(operator: Operator, points: Tensor, detail: Detail) -> dict[Place, Rule]:
    """The rule of every integral of an operator, as fine as functions with this detail need."""
    return {place: p.rule for place, p in partitions(operator, points, detail).items()}


def partitions(
    operator: Operator, points: Tensor, detail: Detail, beside: Operator | None = None
) -> dict[Place, Partition]:
    places = [place for place in by_place(operator) if place.integrals]
    return {place: Partition.of(operator, place, points, detail, beside) for place in places}


def _spans(place: Place, near: Surroundings) -> list[tuple[float, float]]:
    """The least and the largest value of every variable, whatever the point."""
    found: list[tuple[float, float]] = []
    for v, integral in enumerate(place.integrals):
        outer = [i.variable for i in place.integrals[:v]]
        cells = (np.array([[s[k] for s in found]]) for k in (0, 1))
        ranges = near.ranges(outer, *(c.reshape(1, v) for c in cells))
        start, end = ranges.of(integral.lower), ranges.of(integral.upper)
        found.append((float(min(start.lower[0], end.lower[0])), float(max(start.upper[0], end.upper[0]))))
    return found


def _pairs(edges: np.ndarray) -> list[tuple[float, float]]:
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def _along(pace: np.ndarray, slopes: Sequence[Bounds]) -> np.ndarray:
    """Paces along the coordinates (B, D) -> along the variables (B, V)."""
    with np.errstate(invalid="ignore"):
        parts = [np.where(b.slope == 0, 0.0, pace[:, k, None] * b.slope) for k, b in enumerate(slopes)]
    return np.sum(parts, axis=0)


def _spanned(b: Bounds, length: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return np.where(length == 0, 0.0, b.pace * length)
