"""Reference: every condition evaluated on `solution(x)` as a black box, with nothing of the library's machinery.

Values come from queries, asked in three ways: all points at once, each alone, and in another order within a crowd of
others, with gradients wanted. Derivatives come from nested reverse-mode differentiation of `solution(x)`, and besides
from what the solution itself says of them at single points and in a crowd. Integrals are adaptive quadratures of
queries. Coefficients are the formulas of the problem, in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

import cnf
from benchmarks.attack.conditions import Asked, Index, Term, moved
from benchmarks.attack.extended import Extended
from benchmarks.attack.extended_networks import UnknownPartError
from benchmarks.attack.quadrature import integrate
from benchmarks.attack.setting import Setting

LANES = ("batch", "alone", "crowd")
ALONE = 40  # points of a constraint that are asked one by one
ROUNDINGS = 64  # of nested differentiation, in units of sum_j |weight_j d^alpha Psi_j|


@dataclass
class Found:
    """What the left-hand side (P, R) is found to be by every lane, and how far the reference itself may be off."""

    lanes: dict[str, np.ndarray]
    doubt: dict[str, np.ndarray]
    unresolved: np.ndarray  # the part of the doubt that comes from quadrature


class Reference:
    """Queries of one solution."""

    def __init__(self, solution: cnf.Solution, setting: Setting, rng: np.random.Generator, base_eps: float):
        """`base_eps`: rounding of the base, which may work in a coarser precision than the field."""
        self.solution, self.setting = solution, setting
        self.crowd = torch.tensor(setting.random_points(rng, int(rng.choice([1, 2, 7, 37, 37, 500]))))
        self.dtype = solution.constraints[0].points.dtype
        self.base_eps, self.extended = base_eps, None

    # -- values -----------------------------------------------------------------------------------------------------

    def query(self, points: np.ndarray, graph: bool = False) -> np.ndarray:
        """(P, C); `graph`: as a user asks who wants gradients."""
        with torch.set_grad_enabled(graph):
            return self.solution(self.tensor(points).requires_grad_(graph)).detach().double().numpy()

    def tensor(self, points: np.ndarray) -> Tensor:
        return torch.tensor(points).to(self.dtype)

    def values(self, points: np.ndarray, lane: str) -> np.ndarray:
        """(P, C) by one way of asking; NaN where the lane does not look."""
        if lane == "batch":
            return self.query(points)
        if lane == "crowd":
            mixed = np.concatenate([self.crowd.numpy(), points[::-1]])
            return self.query(mixed, graph=True)[self.crowd.shape[0] :][::-1]
        found = np.full((points.shape[0], len(self.setting.channels)), np.nan)
        for p in chosen(points.shape[0]):
            found[p] = self.query(points[p : p + 1])[0]
        return found

    # -- derivatives ------------------------------------------------------------------------------------------------

    def derivative(self, points: np.ndarray, channel: int, index: Index, lane: str) -> np.ndarray:
        """(P,)"""
        if lane == "batch":
            return nested(self.solution, self.tensor(points), channel, index)
        if lane == "crowd":
            mixed = torch.cat([self.crowd, torch.tensor(points)]).to(self.dtype)
            return self._own(mixed, channel, index)[self.crowd.shape[0] :]
        found = np.full(points.shape[0], np.nan)
        for p in chosen(points.shape[0]):
            found[p] = self._own(self.tensor(points[p : p + 1]), channel, index)[0]
        return found

    def _own(self, points: Tensor, channel: int, index: Index) -> np.ndarray:
        with torch.no_grad():
            return self.solution.derivatives(points, [index])[index][:, channel].double().numpy()

    # -- integrals --------------------------------------------------------------------------------------------------

    def integral(self, term: Term, point: np.ndarray, asked: Asked) -> tuple[float, float]:
        axes = [axis for axis, _, _ in term.over]

        def integrand(nodes: np.ndarray) -> np.ndarray:
            moved = np.repeat(point[None], nodes.shape[0], axis=0)
            moved[:, axes] = nodes
            rounded = self.tensor(moved).double().numpy()
            return term.coefficient(rounded) * self.query(rounded)[:, term.channel]

        upper = [point[a] if high is None else high for a, _, high in term.over]
        breaks = [[*asked.breaks.get(a, []), *self.kinks(point, a, axes)] for a in axes]
        return integrate(integrand, [low for _, low, _ in term.over], upper, breaks, 0.0)

    def kinks(self, point: np.ndarray, axis: int, axes: Sequence[int]) -> list[float]:
        """Where functions along a line have their centres or end: rough ones have kinks there, narrow ones peaks."""
        found: list[float] = []
        for basis in self.solution.basis.modules():
            anchors = getattr(basis, "anchors", None)
            if not isinstance(anchors, Tensor):
                continue
            centres = anchors.detach().double().numpy()
            found += centres[:, axis].tolist()
            kernel = getattr(basis, "window", getattr(basis, "kernel", None))
            reach = getattr(kernel, "support", None)
            if reach is None or len(axes) > 1:
                continue
            radius = np.broadcast_to(reach.detach().double().numpy(), (centres.shape[1],))
            off = ((point - centres) / radius) ** 2
            left = 1 - (off.sum(axis=1) - off[:, axis])
            half = radius[axis] * np.sqrt(np.clip(left, 0, None))
            found += [*(centres[:, axis] - half), *(centres[:, axis] + half)]
        return found if len(axes) == 1 else found[:4]

    # -- conditions -------------------------------------------------------------------------------------------------

    def evaluate(self, asked: Asked, points: np.ndarray) -> Found:
        """The left-hand side of a constraint, (P, R), by every lane."""
        shape = (points.shape[0], len(asked.rows))
        lanes = {lane: np.zeros(shape) for lane in LANES}
        doubt, unresolved = {lane: np.zeros(shape) for lane in LANES}, np.zeros(shape)
        eps = np.finfo(np.float64).eps
        for r, row in enumerate(asked.rows):
            for term in row:
                if term.over:
                    pairs = np.array([self.integral(term, point, asked) for point in points])
                    unresolved[:, r] += pairs[:, 1]
                    for lane in LANES:
                        lanes[lane][:, r] += pairs[:, 0]
                        doubt[lane][:, r] += pairs[:, 1]
                    continue
                place = moved(points, term)
                weight = term.coefficient(points)
                for lane in LANES:
                    if sum(term.index):
                        value = self.derivative(place, term.channel, term.index, lane)
                        off = self.rounding(place, term.channel, term.index) if lane == "batch" else 0.0
                    else:
                        value, off = self.values(place, lane)[:, term.channel], 0.0
                    lanes[lane][:, r] += weight * value
                    doubt[lane][:, r] += np.abs(weight) * (off + 4 * eps * np.abs(value))
        return Found(lanes, doubt, unresolved)

    def settle(self, parts: Sequence[tuple[Asked, np.ndarray]], k: int, p: int, r: int) -> float | None:
        """The left-hand side of condition (p, r) of part k in many digits; None if it has integrals or no formula."""
        asked, points = parts[k]
        row = asked.rows[r]
        if any(term.over for term in row):
            return None
        try:
            self.extended = self.extended or Extended(self.solution, parts)
            weights = [float(term.coefficient(points)[p]) for term in row]
            return float(self.extended.row(row, weights, [moved(points, term)[p] for term in row]))
        except UnknownPartError:
            return None

    def rounding(self, points: np.ndarray, channel: int, index: Index) -> np.ndarray:
        """How far nested differentiation may be off: roundings of the sum over all functions, (P,)."""
        found = ROUNDINGS * float(torch.finfo(self.dtype).eps) * self.absolute(points, channel, index)
        if self.solution.base is None:
            return found
        size = np.abs(nested(self.solution.base, self.tensor(points), channel, index))
        return found + ROUNDINGS * self.base_eps * size

    def absolute(self, points: np.ndarray, channel: int, index: Index) -> np.ndarray:
        """sum_j |weight_j d^index Psi_j|, (P,): sizes only, so the library's own derivatives will do."""
        from cnf.operators.expansion import Request

        weights = getattr(self.solution.expansion, "weights", None)
        if weights is None or weights.shape[0] != self.solution.basis.size:  # patches
            return np.zeros(points.shape[0])
        weights = weights.detach().double()
        own = weights if weights.dim() == 1 else weights[:, channel]
        one = torch.ones((), dtype=self.dtype)
        with torch.no_grad():
            rows = self.solution.basis.rows(self.tensor(points), [Request(channel, {index: one})])[:, 0]
        return (rows.double().abs() @ own.abs()).numpy()


def chosen(count: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, min(count, ALONE)).astype(int))


def nested(function, points: Tensor, channel: int, index: Index) -> np.ndarray:
    """d^index of one output by reverse mode applied again and again, (P,)."""
    with torch.enable_grad():
        x = points.detach().clone().requires_grad_()
        column = function(x)[:, channel]
        for axis, order in enumerate(index):
            for _ in range(order):
                if not column.requires_grad:
                    return np.zeros(points.shape[0])
                (slope,) = torch.autograd.grad(column.sum(), x, create_graph=True, allow_unused=True)
                if slope is None:
                    return np.zeros(points.shape[0])
                column = slope[:, axis]
    return column.detach().double().numpy()
