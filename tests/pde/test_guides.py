"""Guides: what exact conditions leave open in patches that are cut is fitted to the equations between their points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
import torch

import cnf
from cnf.bases.suitability import refuse_stale
from cnf.domains import Box, Difference, Disk
from cnf.errors import BasisError, ConstraintError
from cnf.pde.patches.building import Mesh, build_field, orders_of
from cnf.pde.patches.shaped import first_cells
from cnf.pde.problems.on_patches import question_of
from cnf.solvers.metric import Metric
from cnf.solvers.null_space import TiedFactor, Ties
from cnf.systems import tied
from cnf.systems.tied import refined

DISK = Disk((0.1, 0.2), 1)
EQUATIONS = {"interior": r"\Delta u - u = 0", "boundary": r"u = \exp(0.6 x + 0.8 y)"}


def guided_field(degree: int = 6, **changes: object) -> cnf.ConstrainedField:
    question = question_of(cnf.Problem("x y", domain=DISK, equations={**EQUATIONS, **changes}))
    return build_field(question, orders_of(question), Mesh.of(first_cells(DISK), (degree, degree), DISK)).eval()


def test_smallest_off_guides_with_exact_rows():
    """Random cells, rows, ties and guides: the minimum of |K w - k|^2 + |F w|^2 with B w = b, from its KKT system."""
    rng = np.random.default_rng(0)
    cells, n, own, count = 4, 9, 3, 6
    table, starts = rng.standard_normal((cells * own, n)), np.arange(cells + 1) * own
    pairs = np.array([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (1, 3)])
    vectors = rng.standard_normal((2 * count, n))
    ties = Ties(count, np.repeat(np.arange(count), 2), pairs.ravel(), vectors)
    guides, wanted = rng.standard_normal((cells, 12, n)), rng.standard_normal((cells, 12))
    faint = 1e-3
    triangles = {k: np.linalg.qr(np.concatenate([guides[k], faint * np.eye(n)]), mode="r") for k in range(cells)}
    metric = Metric(np.ones(n), np.ones((cells, n), dtype=bool), triangles)
    factor = TiedFactor(table, starts, ties, rng.random((cells, 2)), None, metric.active, metric)
    right, tied_right = rng.standard_normal(cells * own), rng.standard_normal(count)
    weights, _ = refined(factor, table, right, tied_right, np.einsum("kgn,kg->kn", guides, wanted))

    rows = np.zeros((cells * own + count, cells * n))
    for k in range(cells):
        rows[k * own : (k + 1) * own, k * n : (k + 1) * n] = table[k * own : (k + 1) * own]
    for e in range(2 * count):
        cell = ties.cells[e]
        rows[cells * own + ties.rows[e], cell * n : (cell + 1) * n] += vectors[e]
    square = scipy.linalg.block_diag(*(g.T @ g + faint**2 * np.eye(n) for g in guides))
    zero = np.zeros((len(rows), len(rows)))
    pull = np.einsum("kgn,kg->kn", guides, wanted).ravel()
    found = np.linalg.solve(np.block([[square, rows.T], [rows, zero]]), np.concatenate([pull, right, tied_right]))
    assert np.allclose(weights.ravel(), found[: cells * n], rtol=1e-9, atol=1e-9)
    assert len(factor._seen) > 0  # more room than ties can see: reduced to what they do see


def test_cut_patches_have_room_and_are_right_between_the_points():
    """Fewer conditions than functions, all exact; without guides the same conditions leave the field anywhere."""
    field = guided_field(8)
    x = DISK.random(400, torch.Generator().manual_seed(0))
    wanted = torch.exp(0.6 * x[:, 0] + 0.8 * x[:, 1])
    assert field.certificate.exact and field.certificate.conditions < 0.9 * int(field.basis.active().sum())
    assert float((field(x)[:, 0] - wanted).abs().max()) < 1e-8
    bare = cnf.bases.Piecewise(**{**field.basis.config(), "guides": []})
    left = cnf.ConstrainedField(bare, field.constraints, on_violation="warn").eval()
    assert left.certificate.exact and float((left(x)[:, 0] - wanted).abs().max()) > 1e-4


def test_small_holes():
    """-Laplace u = 0 around two small holes, u = log|z - a| + log|z - b|: exact, and the estimate covers the error.

    Half of the patches around them are cut; with as many conditions as functions their errors grew without bound.
    """
    exact = r"\log((x - 0.36)^2 + y^2) + \log((x + 0.3)^2 + (y - 0.1)^2)"
    problem = cnf.Problem(
        "x y",
        domain=Difference(Box((-1, -1), (1, 1)), [Disk((0.36, 0), 0.06), Disk((-0.3, 0.1), 0.09)]),
        equations={"interior": r"-\Delta u = 0", "boundary": f"u = {exact}"},
        exact={"u": exact},
        solve={"method": "patches", "target": 1e-6},
    )
    answer = problem.solve()
    error = max(answer.errors.values())
    assert answer.certificate.exact and answer.estimate <= 1e-6 and error < 3 * answer.estimate


def test_gradients_with_guides(monkeypatch):
    """d/dk of a loss on -k Laplace u + u = 1, by the adjoint, guides included, and by central differences."""
    monkeypatch.setattr(tied, "FAINT", 1e-3)  # so that what is fitted depends on k beyond rounding
    disk = guided_field(5)
    x = DISK.random(50, torch.Generator().manual_seed(1))

    def loss(k: torch.Tensor) -> torch.Tensor:
        def renewed(constraint: cnf.Constraint) -> cnf.Constraint:
            equation = r"-k \Delta u + u = 1" if constraint.name == "interior" else "u = x^2"
            given = {"k": k} if constraint.name == "interior" else {}
            return disk.basis.space.constraint(equation, at=constraint.points, name=constraint.name, **given)

        guides = [replace(g, condition=renewed(g.condition)) for g in disk.basis.guides]
        basis = cnf.bases.Piecewise(**{**disk.basis.config(), "guides": guides})
        field = cnf.ConstrainedField(basis, [renewed(c) for c in disk.constraints], on_violation="warn")
        return field.solve()(x).square().sum()

    k = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(loss(k), k)
    step = 1e-4
    with torch.no_grad():
        slope = (loss(k.detach() + step) - loss(k.detach() - step)) / (2 * step)
    assert abs(float(gradient - slope)) < 1e-6 * abs(float(slope))


def test_new_right_hand_sides_are_refused_where_old_ones_would_stay():
    field = guided_field(4)
    with pytest.raises(ConstraintError, match="solve the problem with the new one"):
        field.update({"interior": 1.0})
    with pytest.raises(ConstraintError, match="between the points"):
        field.transfer(field.constraints)
    refuse_stale(cnf.bases.Polynomial(cnf.Space("x y", "u"), 2), ["interior"])


def test_guides_name_cells_that_are_there():
    field = guided_field(4)
    guide = field.basis.guides[0]
    with pytest.raises(BasisError, match="a guide names one of the"):
        cnf.bases.Piecewise(**{**field.basis.config(), "guides": [cnf.bases.Guide(guide.condition, guide.cells + 99)]})
