"""Guides: what exact conditions leave open in patches that are cut is fitted to the equations between their points."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch

import cnf
from cnf.domains import Box, Difference, Disk
from cnf.errors import BasisError, ConstraintError
from cnf.pde.patches.building import Mesh, build_field, orders_of
from cnf.pde.patches.shaped import first_cells
from cnf.pde.problems.on_patches import question_of
from cnf.solvers.metric import Metric
from cnf.solvers.null_space import TiedFactor, Ties
from cnf.systems import tied
from cnf.systems.tied import nearest_weights

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
    weights, _ = nearest_weights(factor, table, right, tied_right, np.einsum("kgn,kg->kn", guides, wanted))

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
    assert len(factor.seen) > 0  # more room than ties can see: reduced to what they do see


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


def learnable(field: cnf.ConstrainedField, k: torch.Tensor) -> cnf.ConstrainedField:
    """-k Laplace u + u = 1, u = x^2 on the boundary, on the patches of `field`."""
    space, (inside, boundary) = field.basis.space, field.constraints
    return field.transfer(
        [
            space.constraint(r"-k \Delta u + u = 1", at=inside.points, name="interior", k=k),
            space.constraint("u = x^2", at=boundary.points, name="boundary"),
        ]
    )


def test_gradients_with_guides(monkeypatch):
    """d/dk of a loss on -k Laplace u + u = 1, by the adjoint, guides included, and by differences of eighth order."""
    monkeypatch.setattr(tied, "FAINT", 1e-5)  # so that what is fitted depends on k beyond rounding
    k = torch.nn.Parameter(torch.tensor(0.7, dtype=torch.float64))
    field = learnable(guided_field(5), k).train()
    x = DISK.random(50, torch.Generator().manual_seed(1))
    (gradient,) = torch.autograd.grad(field.solve()(x).square().sum(), k)
    slope, step = 0.0, 0.01
    for times, weight in ((1, 4 / 5), (2, -1 / 5), (3, 4 / 105), (4, -1 / 280)):
        for sign in (1, -1):
            with torch.no_grad():
                k.fill_(0.7 + sign * times * step)
                slope += sign * weight / step * float(field.solve()(x).square().sum())
    assert abs(float(gradient) - slope) < 1e-9 * abs(slope)
    assert [name for name, _ in field.named_parameters()] == ["coefficients.k"]


def test_gradients_are_steady():
    """With k off by its last bits, the gradient moves by rounding: it is taken where guides hardly see anything."""
    k = torch.nn.Parameter(torch.tensor(0.7, dtype=torch.float64))
    field = learnable(guided_field(6), k).train()
    x = DISK.random(50, torch.Generator().manual_seed(1))
    found = []
    for bits in range(4):
        with torch.no_grad():
            k.fill_(0.7 * (1 + 3e-15 * bits))
        found += torch.autograd.grad(field.solve()(x).square().sum(), k)
    assert max(found) - min(found) < 2e-11 * abs(found[0])


def test_new_right_hand_sides_hold_between_the_points_too():
    """An updated and a transferred field are those made with the new equations; numbers, callables, expressions."""
    x = DISK.random(100, torch.Generator().manual_seed(2))
    wanted = guided_field(6, interior=r"\Delta u - u = 1 + x^2", boundary="u = 2")(x)
    for held in (False, True):
        field = guided_field(6)
        before = field(x) if held else None  # with and without a factorisation to keep
        field.update({"interior": lambda p: 1 + p[:, 0] ** 2, "boundary": 2.0})
        assert float((field(x) - wanted).abs().max()) < 1e-11 and field.certificate.exact
    inside, boundary = guided_field(6).constraints
    space = field.basis.space
    changed = [
        space.constraint(r"\Delta u - u = 1 + x^2", at=inside.points, name="interior"),
        space.constraint("u = 2", at=boundary.points, name="boundary"),
    ]
    original = guided_field(6)
    assert float((original.transfer(changed)(x) - wanted).abs().max()) < 1e-11
    assert torch.equal(original(x), before)  # the guides of the first field stay its own


def test_learnable_right_hand_side():
    """-u + Laplace u = q and u = q on the boundary of a disk is linear in q: du/dq is the field for q = 1."""
    field = guided_field(6)
    x = DISK.random(20, torch.Generator().manual_seed(3))
    field.update({"interior": 1.0, "boundary": 1.0})
    once = field(x).sum()
    q = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    field.update({"interior": q, "boundary": q})
    (slope,) = torch.autograd.grad(field.train().solve()(x).sum(), q)
    assert abs(float(slope - once)) < 1e-10 * abs(float(once))


def test_normals_of_guides_are_their_own():
    """A Robin condition on a circle, transferred with another right-hand side: as if made with it."""
    x = DISK.random(100, torch.Generator().manual_seed(2))
    wanted = guided_field(6, boundary=r"\partial_n u + 2 u = y")(x)
    field = guided_field(6, boundary=r"\partial_n u + 2 u = 1")
    inside, boundary = field.constraints
    normals = torch.stack([value for name, value in boundary.operator.data], dim=1)
    equation = r"\partial_n u + 2 u = y"
    changed = field.basis.space.constraint(equation, at=boundary.points, name="boundary", n=normals)
    assert float((field.transfer([inside, changed])(x) - wanted).abs().max()) < 1e-11
    turned = field.basis.space.constraint(equation, at=boundary.points, name="boundary", n=-normals)
    with pytest.raises(ConstraintError, match="given at its points"):
        field.transfer([inside, turned])


def test_new_conditions_that_guides_cannot_follow_are_refused():
    field = guided_field(4)
    inside, boundary = field.constraints
    with pytest.raises(ConstraintError, match="as a number, an expression or a callable"):
        field.update({"interior": torch.ones(len(inside.points), dtype=torch.float64)})
    with pytest.raises(ConstraintError, match="names of the old ones"):
        field.transfer([boundary])


def test_guides_know_the_base():
    """Laplace u - u = 0, u = exp(0.6 x + 0.8 y), beside a known part sin(3 x) cos(2 y) that solves nothing."""

    class Known(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sin(3 * x[:, :1]) * torch.cos(2 * x[:, 1:])

    field = guided_field(6)
    beside = cnf.ConstrainedField(field.basis, field.constraints, base=Known(), on_violation="warn").eval()
    x = DISK.random(200, torch.Generator().manual_seed(4))
    assert float((beside(x)[:, 0] - torch.exp(0.6 * x[:, 0] + 0.8 * x[:, 1])).abs().max()) < 1e-4


def test_coefficients_of_interfaces_are_not_changed_behind_them():
    """Two regions with other conductivities: right-hand sides may be new, conductivities may not."""
    problem = cnf.Problem(
        "x y",
        domain=Box((0, 0), (2, 1)),
        regions={"a": Box((0, 0), (1, 1))},
        parameters={"k": {"a": 5, "rest": 1}},
        equations={"interior": r"-\nabla\cdot(k\nabla u) = 1", "boundary": "u = 0"},
        solve={"method": "patches", "target": 1e-2},
    )
    field = problem.solve().field
    inside, *others = field.constraints
    make = field.basis.space.constraint
    doubled = make(r"-5 \Delta u = 2", at=inside.points, name=inside.name)
    assert field.transfer([doubled, *others]).certificate.exact
    stiffer = make(r"-7 \Delta u = 1", at=inside.points, name=inside.name)
    with pytest.raises(ConstraintError, match="flows across the interfaces"):
        field.transfer([stiffer, *others])


def test_guides_name_cells_that_are_there():
    field = guided_field(4)
    guide = field.basis.guides[0]
    with pytest.raises(BasisError, match="a guide names one of the"):
        cnf.bases.Piecewise(**{**field.basis.config(), "guides": [cnf.bases.Guide(guide.condition, guide.cells + 99)]})
