"""Formulas: right-hand sides and coefficients are known everywhere, so cells follow them before anything is solved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from numpy.polynomial import chebyshev
from torch import Tensor

from cnf.bases.cells import Cells
from cnf.constraints import Constraint
from cnf.pde.patches.layout import gauss, tensor_grid

Formula = Callable[[Tensor], Tensor]  # (P, D) -> (P, J)

DENSE = 2**18  # points at which formulas are looked at in all, at first
LEAST = 64  # and in every cell later
MOST_CELLS = 3000
FINEST = 2.0**-14  # of the domain: jumps are not followed any further


def known_formulas(equations: Sequence[Constraint]) -> list[Formula]:
    """Right-hand sides and coefficients of the equations."""
    found: list[Formula] = []
    for equation in equations:
        if equation.right_hand_side.known_everywhere:
            found.append(partial(_right_hand_side, equation))
        if _varies(equation):
            found.append(partial(_coefficients, equation))
    return found


def _right_hand_side(equation: Constraint, x: Tensor) -> Tensor:
    return equation.right_hand_side.at(x, equation.values.shape[1], equation.name)


def _varies(equation: Constraint) -> bool:
    return any(w.dim() for probe in equation.expanded() for r in probe.requests for w in r.weights.values())


def _coefficients(equation: Constraint, x: Tensor) -> Tensor:
    probes = equation.at(x).expanded()
    columns = [w.expand(x.shape[0]) for p in probes if p.nodes == 1 for r in p.requests for w in r.weights.values()]
    return torch.stack(columns, dim=1) if columns else x.new_zeros(x.shape[0], 1)


def follow(cells: Cells, degree: Sequence[int], formulas: Sequence[Formula], accuracy: float, seed: int) -> Cells:
    """Cells cut until polynomials of the degree follow every formula to `accuracy` of its size, as far as that goes."""
    rng = np.random.default_rng(seed)
    whole = (cells.upper.max(axis=0) - cells.lower.min(axis=0)) * FINEST
    for formula in formulas:
        fresh = np.arange(cells.count)
        size = 0.0
        while len(fresh) and cells.count < MOST_CELLS:
            per_cell = max(LEAST, DENSE // cells.count)
            off, scale = _missed(cells, fresh, degree, formula, per_cell, rng)
            size = max(size, scale)
            wrong = fresh[off > accuracy * size] if size else fresh[:0]
            before = cells.count
            for axis in range(cells.dimension):
                thick = wrong[(cells.upper - cells.lower)[wrong, axis] > whole[axis]]
                count = cells.count
                cells = cells.cut(thick, axis)
                wrong = np.concatenate([wrong, np.arange(count, cells.count)])
            fresh = wrong if cells.count > before else wrong[:0]
    return cells


def _missed(
    cells: Cells, chosen: np.ndarray, degree: Sequence[int], formula: Formula, per_cell: int, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """How far the interpolant of each cell is off at random points of it, (n,), and how large the formula is."""
    nodes = tensor_grid(cells.lower[chosen], cells.upper[chosen], [p + 1 for p in degree])  # (n, P, D)
    unit = rng.uniform(-1, 1, (per_cell, cells.dimension))
    centre, half = ((cells.upper + s * cells.lower)[chosen] / 2 for s in (1, -1))
    checks = centre[:, None] + half[:, None] * unit
    through = np.ones((per_cell, 1))
    for k, p in enumerate(degree):
        step = chebyshev.chebvander(unit[:, k], p) @ np.linalg.inv(chebyshev.chebvander(gauss(p + 1), p))
        through = (through[:, :, None] * step[:, None, :]).reshape(per_cell, -1)
    at_nodes, at_checks = (_values(formula, x) for x in (nodes, checks))  # (n, P, J)
    with np.errstate(invalid="ignore", over="ignore"):
        off = np.abs(np.einsum("qp,npj->nqj", through, at_nodes) - at_checks).max(axis=(1, 2))
        size = float(max(np.nanmax(np.abs(at_nodes), initial=0.0), np.nanmax(np.abs(at_checks), initial=0.0)))
    return np.where(np.isfinite(off), off, 0.0), size if np.isfinite(size) else 0.0


def _values(formula: Formula, points: np.ndarray) -> np.ndarray:
    flat = torch.from_numpy(np.ascontiguousarray(points.reshape(-1, points.shape[2])))
    with torch.no_grad():
        found = formula(flat).to(torch.float64).numpy()
    return found.reshape(*points.shape[:2], -1)
