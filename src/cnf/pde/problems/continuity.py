"""Continuity: coefficients of the highest derivatives that jump, found by looking, however they are written.

Of k in div(k grad u), only k and its slopes are known to an equation, and where k jumps its slopes are those on either
side: nothing would say that the flux goes through. So such a coefficient is looked at along lines; where it still
changes between neighbouring points when their distance is halved down to rounding, it jumps. What is made of continuous
functions only needs no look.
"""

from __future__ import annotations

import numpy as np
import sympy as sp
import torch

from cnf.errors import ProblemError
from cnf.operators.frame import symbol
from cnf.operators.operator import Row
from cnf.pde.patches.formulas import Formula, known_formulas
from cnf.pde.problems.problem import Problem

LINES, POINTS = 12, 513  # per coordinate
CLOSEST, HALVINGS = 6, 33  # pairs of neighbours that change most, and how often they are brought closer: to 1e-13
JUMP = 1e-6  # of what a coefficient varies by
ENTIRE = (sp.sin, sp.cos, sp.exp, sp.sinh, sp.cosh)
CONTINUOUS = (*ENTIRE, sp.tanh, sp.atan, sp.erf, sp.Abs, sp.Max, sp.Min, sp.Add, sp.Mul)  # for all real numbers


def refuse_jumping_coefficients(problem: Problem) -> None:
    """Refuse equations of the interior whose highest derivatives have coefficients that jump."""
    coordinates = {symbol(name) for name in problem.space.coordinates}
    for k, (place, constraint) in enumerate(zip(problem._placing.places, problem.constraints, strict=True)):
        if place.kind != "interior" or place.region is not None:
            continue
        highest = set().union(*(_of_highest_order(row, coordinates) for row in constraint.operator.rows))
        for formula in known_formulas(constraint):
            if formula.expression not in highest or is_continuous(formula.expression):
                continue
            if (at := jump_of(formula, problem)) is not None:
                where = ", ".join(f"{v:.3g}" for v in at)
                raise ProblemError(
                    f"the coefficient of the highest derivatives jumps near ({where}), which does not say what flows "
                    "through there: give each side a region of its own, by [regions] and a value of the coefficient "
                    "for each; or divide the equation by it, if nothing differentiates it",
                    ("equations", k),
                )


def _of_highest_order(row: Row, coordinates: set) -> set:
    """Coefficients of the highest derivatives of every channel, if they vary."""
    found = set()
    for channel in {term.channel for term in row}:
        own = [term for term in row if term.channel == channel and term.place.is_here]
        orders = [sum(order for _, order in term.derivatives) for term in own]
        highest = [term.coefficient for term, order in zip(own, orders, strict=True) if 0 < order == max(orders)]
        found |= {coefficient for coefficient in highest if coefficient.free_symbols & coordinates}
    return found


def is_continuous(expression: sp.Expr) -> bool:
    """Whether all that it is made of is known to be continuous: nothing with a pole, nor a callable."""
    return all(
        node.is_Symbol
        or node.is_number
        or isinstance(node, CONTINUOUS)
        or (node.is_Pow and node.exp.is_Integer and node.exp > 0)
        or (node.is_Pow and node.base == sp.E)
        for node in sp.preorder_traversal(expression)
    )


def jump_of(formula: Formula, problem: Problem) -> np.ndarray | None:
    """A point of the domain at which a formula jumps across a coordinate, (D,)."""
    domain, rng = problem.domain, np.random.default_rng(problem.seed)
    low, high = np.array(domain.lower, dtype=float), np.array(domain.upper, dtype=float)
    for axis in range(domain.dimension):
        lines = np.repeat(rng.uniform(low, high, (LINES, domain.dimension))[:, None], POINTS, axis=1)
        lines[:, :, axis] = np.linspace(low[axis], high[axis], POINTS)
        inside = domain._inside(lines.reshape(-1, domain.dimension)).reshape(LINES, POINTS)
        values = _values(formula, lines.reshape(-1, domain.dimension)).reshape(LINES, POINTS)
        change = np.where(inside[:, 1:] & inside[:, :-1], np.abs(np.diff(values, axis=1)), 0.0)
        known = values[inside & np.isfinite(values)]
        if not known.size or not np.nanmax(change, initial=0.0) > 0:
            continue
        worst = np.unravel_index(np.argsort(-np.nan_to_num(change), axis=None)[:CLOSEST], change.shape)
        first, second = lines[worst], lines[worst[0], worst[1] + 1]
        for _ in range(HALVINGS):
            middle = first + 0.49 * (second - first)  # not in the very middle, where |x| / x may be no number
            a, m, b = (_values(formula, x) for x in (first, middle, second))
            lower = (np.abs(m - a) >= np.abs(b - m))[:, None]
            first, second = np.where(lower, first, middle), np.where(lower, middle, second)
        left = np.abs(_values(formula, second) - _values(formula, first))
        left = np.where(np.isfinite(left), left, 0.0)
        if left.max() > JUMP * max(np.ptp(known), 1e-300):
            return first[int(left.argmax())]
    return None


def _values(formula: Formula, points: np.ndarray) -> np.ndarray:
    with torch.no_grad(), np.errstate(all="ignore"):
        return formula.at(torch.from_numpy(points)).numpy()
