"""Losses: exact answers from calculus, brute force and finite differences.

Fields with a known formula are made by interpolating polynomials with a polynomial basis: the solution is then the
polynomial itself, up to rounding.
"""

from __future__ import annotations

import math

import pytest
import torch

import cnf
from cnf import losses
from cnf.errors import CnfError, TrainingError
from cnf.operators import identity, laplacian, partial
from cnf.training.held_out import is_paired, leave_one_out_errors, natural_scales
from cnf.training.points import fills_space, points_between

PLANE = cnf.Space("x y", "u")
UNIT = cnf.Box((0.0, 0.0), (1.0, 1.0))


def number(value: torch.Tensor) -> float:
    return value.detach().item()


def midpoints(count: int) -> torch.Tensor:
    """Midpoints of count^2 cells of the unit square: their mean is an integral with error O(1 / count^2)."""
    half = 0.5 / count
    return cnf.Box((half, half), (1 - half, 1 - half)).grid(count)


def polynomial(formula, space=PLANE, degree=3):
    """The solution that is the given polynomial."""
    basis = cnf.bases.Polynomial(space, degree)
    points = cnf.Box([0.0] * basis.dimension, [1.0] * basis.dimension).halton(basis.size, seed=1)
    return cnf.ConstrainedField(basis, space.constraint(identity(), at=points, equals=formula, name="data")).solve()


def mixed_constraints(count=14, seed=0):
    """Values on one edge and Poisson's equation inside, of u = sin(2x) exp(y)."""
    edge = torch.stack([torch.linspace(0, 1, 6, dtype=torch.float64), torch.zeros(6, dtype=torch.float64)], dim=1)
    inside = cnf.Box((0, 0.05), (1, 1)).halton(count, seed=seed)

    def u(p):
        return torch.sin(2 * p[:, 0]) * torch.exp(p[:, 1])

    edge_values = PLANE.constraint(identity(), at=edge, equals=u, name="edge")
    return [edge_values, PLANE.constraint(laplacian(), at=inside, equals=lambda p: -3 * u(p), name="poisson")]


BASES = {
    "wide": lambda c, h: cnf.bases.RandomFourier(PLANE, size=45, bandwidth=h),
    "kernel": lambda c, h: cnf.bases.Kernel(PLANE, c, cnf.kernels.Gaussian(h)),
    "hermite": lambda c, h: cnf.bases.Hermite(PLANE, c, cnf.kernels.Gaussian(h)),
}


def field_of(kind: str, bandwidth: float = 0.27, constraints=None) -> cnf.ConstrainedField:
    constraints = mixed_constraints() if constraints is None else constraints
    return cnf.ConstrainedField(BASES[kind](constraints, bandwidth), constraints)


# -- integrals of known fields ---------------------------------------------------------------------------------------


def test_total_variation_of_a_cone():
    """|grad (x^2 + y^2) / 2| = r, and the integral of r over the unit square is (sqrt 2 + asinh 1) / 3."""
    solution = polynomial(lambda p: p.square().sum(dim=1) / 2)
    expected = (math.sqrt(2) + math.asinh(1)) / 3
    assert number(losses.TotalVariation(midpoints(200))(solution)) == pytest.approx(expected, rel=1e-5)


def test_total_variation_counts_time_channels_and_volume():
    """u = 3x + 4t, v = 12x has a gradient of Frobenius norm 13 everywhere; the box has volume 3."""
    space = cnf.Space("x t", "u v")
    solution = polynomial(lambda p: torch.stack([3 * p[:, 0] + 4 * p[:, 1], 12 * p[:, 0]], dim=1), space, degree=1)
    term = losses.TotalVariation(cnf.Box((0, 0), (3, 1)), count=50, weight=2.0)
    assert number(term(solution)) == pytest.approx(2 * 13 * 3, rel=1e-12)


@pytest.mark.parametrize(
    ("order", "expected"),
    [(1, 9 / 5 + 10 / 9 + 1 / 5), (2, 16.0), (3, 48.0), (4, 0.0)],
    ids=["slope", "thin plate", "third", "fourth"],
)
def test_smoothness_of_a_cubic(order, expected):
    """u = x^3 + x y^2: u_xx = 6x, u_xy = 2y (twice), u_yy = 2x, mean of 40 x^2 + 8 y^2 = 16; |D^3 u|^2 = 36 + 3 * 4."""
    solution = polynomial(lambda p: p[:, 0] ** 3 + p[:, 0] * p[:, 1] ** 2)
    term = losses.Smoothness(midpoints(150), order=order)
    assert number(term(solution)) == pytest.approx(expected, rel=1e-4, abs=1e-10)


def test_eikonal_leaves_time_out_and_takes_the_channel_named():
    """|grad d| = 3 for d = 3x + 7t, so the loss is 4; the other channel is a distance already."""
    space = cnf.Space("x t", "d e")
    solution = polynomial(lambda p: torch.stack([3 * p[:, 0] + 7 * p[:, 1], p[:, 0] - p[:, 1]], dim=1), space, degree=1)
    assert number(losses.Eikonal(UNIT, count=20, channel="d")(solution)) == pytest.approx(4.0, rel=1e-12)
    assert number(losses.Eikonal(UNIT, count=20, channel="e")(solution)) == pytest.approx(0.0, abs=1e-20)
    with pytest.raises(TrainingError, match="channel="):
        losses.Eikonal(UNIT)(solution)


def test_slopes_of_a_flat_field_have_a_gradient():
    """Where grad f = 0 the norm has no derivative; the losses answer 0, not NaN."""
    zero = PLANE.constraint(identity(), at=UNIT.halton(8), equals=0.0, name="zero")
    for term, value in ((losses.TotalVariation(UNIT), 0.0), (losses.Eikonal(UNIT), 1.0)):
        field = cnf.ConstrainedField(cnf.bases.RandomFourier(PLANE, size=20, bandwidth=0.5), zero)
        loss = term(field.solve())
        loss.backward()
        assert number(loss) == value
        assert number(field.basis.log_bandwidth.grad) == 0.0


def test_regression_kinds_against_their_formulas():
    """u = x at x = 0.1, 0.5, 2 against 0: mean square, mean absolute value and Huber (delta 1) by hand."""
    solution = polynomial(lambda p: p[:, 0])
    points = torch.tensor([[0.1, 0.0], [0.5, 0.3], [2.0, 0.0]], dtype=torch.float64)
    by_hand = {"l2": (0.01 + 0.25 + 4) / 3, "l1": 2.6 / 3, "huber": (0.005 + 0.125 + 1.5) / 3}
    for kind, expected in by_hand.items():
        assert number(losses.Regression(points, 0.0, kind)(solution)) == pytest.approx(expected, rel=1e-12)
    exact = losses.Regression(points, lambda p: p[:, 0])
    assert number(exact(solution)) == pytest.approx(0.0, abs=1e-20)
    assert number(losses.Regression(points, [1.1, 0.5, 2.0])(solution)) == pytest.approx(1 / 3, rel=1e-12)
    slope = losses.Regression(points, 3.0, operator=partial("x"))
    assert number(slope(solution)) == pytest.approx(4.0, rel=1e-10)


def test_regression_batches_are_drawn_by_the_generator():
    """Each batch of one of the squares 1, 4, 9, 16 is one of them; equal generators draw equal batches."""
    solution = polynomial(lambda p: p[:, 0])
    points = torch.stack([torch.arange(1.0, 5.0, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)], dim=1)
    term = losses.Regression(points, torch.zeros(4, 1), batch=1)
    drawn = {round(number(term(solution))) for _ in range(40)}
    assert drawn == {1, 4, 9, 16}
    first, second = (number(term(solution, torch.Generator().manual_seed(5))) for _ in range(2))
    assert first == second


# -- gradients -------------------------------------------------------------------------------------------------------

TERMS = {
    "condition": lambda: losses.Condition(),
    "condition, raw": lambda: losses.Condition(0.5, log=False),
    "total variation": lambda: losses.TotalVariation(UNIT, 30),
    "smoothness": lambda: losses.Smoothness(UNIT, 30, order=2),
    "eikonal": lambda: losses.Eikonal(UNIT, 30),
    "regression": lambda: losses.Regression(UNIT.halton(40), lambda p: p[:, 0], "huber", batch=20, delta=0.1),
    "held out": lambda: losses.HeldOutResidual(count=40),
    "held out, two constraints": lambda: losses.HeldOutResidual(UNIT, ["edge", "poisson"], count=40, log=False),
    "leave one out": lambda: losses.LeaveOneOut(),
}


@pytest.mark.parametrize("kind", BASES)
@pytest.mark.parametrize("name", TERMS)
def test_gradient_in_the_bandwidth(name, kind):
    """d loss / d log bandwidth against a central difference of the whole chain: basis, system, solve, loss."""
    term = TERMS[name]()

    def value(log_bandwidth: float) -> float:
        with torch.no_grad():
            solution = field_of(kind, math.exp(log_bandwidth)).solve()
            return number(term(solution, torch.Generator().manual_seed(3)))

    where, step = math.log(0.27), 1e-5
    field = field_of(kind)
    term(field.solve(), torch.Generator().manual_seed(3)).backward()
    (parameter,) = field.parameters()
    expected = (value(where + step) - value(where - step)) / (2 * step)
    assert number(parameter.grad) == pytest.approx(expected, rel=2e-5, abs=1e-6)


def test_gradient_of_an_ill_conditioned_wide_system():
    """Advection with a condition number of 4e11: the pseudo-inverse's gradient has a term that cancels unless the
    projection is made with the singular vectors; tuning a bandwidth then walks uphill."""
    space = cnf.Space("x t", "u")
    edge = torch.linspace(0, 1, 12, dtype=torch.float64)
    start = space.constraint(
        identity(),
        at=torch.stack([edge, 0 * edge], dim=1),
        equals=lambda p: torch.sin(2 * math.pi * p[:, 0]),
        name="start",
    )
    pde = space.constraint(partial("t") + 0.1 * partial("x"), at=UNIT.halton(132), equals=0, name="pde")
    term = losses.HeldOutResidual()

    def solved(log_bandwidth: float) -> cnf.ConstrainedField:
        basis = cnf.bases.RandomFourier(space, size=300, bandwidth=math.exp(log_bandwidth))
        return cnf.ConstrainedField(basis, [start, pde])

    where, step = math.log(0.2), 1e-4
    field = solved(where)
    solution = field.solve()
    assert 1e11 < solution.certificate.condition < 1e12
    term(solution).backward()
    low, high = (number(term(solved(where + d).solve())) for d in (-step, step))
    assert number(field.basis.log_bandwidth.grad) == pytest.approx((high - low) / (2 * step), rel=0.05)


@pytest.mark.parametrize("kind", BASES)
def test_condition_against_a_full_svd(kind):
    """The estimate from the factor, and its gradient in the matrix, against torch's SVD of the equilibrated matrix."""
    solution = field_of(kind).solve()
    (block,), (factor,) = solution.blocks, solution.factors
    matrix = block.matrix.detach().clone().requires_grad_()
    values = torch.linalg.svdvals(factor.scale_rows[:, None] * matrix * factor.scale_columns)
    expected = values[0] / values[-1]
    assert number(losses.Condition(log=False)(solution)) == pytest.approx(number(expected), rel=1e-8)
    log_value = losses.Condition()(solution)
    assert number(log_value) == pytest.approx(math.log(number(expected)), rel=1e-9)
    (found,) = torch.autograd.grad(log_value, block.matrix)
    (wanted,) = torch.autograd.grad(expected.log(), matrix)
    assert torch.allclose(found, wanted, rtol=1e-5, atol=1e-5 * number(wanted.abs().max()))


def test_condition_takes_the_worst_block():
    """Channel u is asked at 3 points and v at 9 close ones: the condition of v's matrix counts."""
    space = cnf.Space("x", "u v")
    few, many = cnf.Box(0.0, 1.0).grid(3), cnf.Box(0.0, 1.0).grid(9)
    constraints = [
        space.constraint(identity("u"), at=few, equals=0.0, name="u"),
        space.constraint(identity("v"), at=many, equals=1.0, name="v"),
    ]
    solution = cnf.ConstrainedField(cnf.bases.RandomFourier(space, 30, 0.3), constraints).solve()
    conditions = [f.condition() for f in solution.factors]
    assert len(conditions) == 2
    assert number(losses.Condition(log=False)(solution)) == pytest.approx(max(conditions), rel=1e-12)


# -- held out --------------------------------------------------------------------------------------------------------


def test_held_out_residual_of_values_is_the_interpolation_error():
    """With u = g imposed at 20 points, the held-out residual at others is mean (f - g)^2 there."""
    data = PLANE.constraint(identity(), at=UNIT.halton(20), equals=lambda p: torch.sin(3 * p[:, 0]), name="data")
    solution = cnf.ConstrainedField(cnf.bases.RandomFourier(PLANE, 40, 0.5), data).solve()
    points = UNIT.halton(60, seed=7)
    expected = (solution(points)[:, 0] - torch.sin(3 * points[:, 0])).square().mean()
    assert number(losses.HeldOutResidual(points, log=False)(solution)) == pytest.approx(number(expected), rel=1e-12)
    assert number(losses.HeldOutResidual(points)(solution)) == pytest.approx(math.log(number(expected)), rel=1e-12)
    moved = cnf.ConstrainedField(cnf.bases.RandomFourier(PLANE, 40, 0.5), data.with_values(torch.zeros(20, 1)))
    with pytest.raises(TrainingError, match="LeaveOneOut"):
        losses.HeldOutResidual()(moved.solve())


def test_held_out_residual_takes_the_equation_not_the_edge():
    """Only points that fill the space are moved off; on the edge the field is not asked for anything elsewhere."""
    solution = field_of("wide").solve()
    edge, poisson = solution.constraints
    assert not fills_space(edge.points)
    assert fills_space(poisson.points)
    points = points_between(poisson, 512, 0)
    expected = solution.residual(poisson.at(points)).square().mean()
    assert number(losses.HeldOutResidual(log=False)(solution)) == pytest.approx(number(expected), rel=1e-12)
    on_edge = losses.HeldOutResidual(constraint="edge", log=False)(solution)  # along the edge, when asked for
    along = points_between(edge, 512, 0)
    assert number(along[:, 1].abs().max()) == 0.0
    assert number(on_edge) == pytest.approx(number(solution.residual(edge.at(along)).square().mean()), rel=1e-12)
    with pytest.raises(TrainingError, match=r"poison.*Did you mean 'poisson'"):
        losses.HeldOutResidual(constraint="poison")(solution)


def test_points_on_a_slanted_line_do_not_fill_the_space():
    line = torch.linspace(0, 1, 30, dtype=torch.float64)[:, None] * torch.tensor([[1.0, 2.0]], dtype=torch.float64)
    assert not fills_space(line + 1)
    assert not fills_space(UNIT.halton(2))
    assert fills_space(UNIT.halton(3))


def test_points_between_stay_inside_the_hull_and_off_the_points():
    """Halfspace test in a triangle: all convex combinations satisfy x, y >= 0 and x + y <= 1."""
    corners = UNIT.halton(200)
    corners = corners[corners.sum(dim=1) <= 1]
    constraint = PLANE.constraint(identity(), at=corners, equals=0.0, name="triangle")
    found = points_between(constraint, 300, seed=1)
    assert torch.equal(found, points_between(constraint, 300, seed=1))
    assert not torch.equal(found, points_between(constraint, 300, seed=2))
    assert bool((found >= corners.amin(dim=0)).all())
    assert bool((found.sum(dim=1) <= corners.sum(dim=1).max() + 1e-15).all())
    assert number(torch.cdist(found, corners).min()) > 0


def test_scales_do_not_see_units():
    """Writing the equation in other units (x 1000) or the field in others (x 7) changes no relative error."""
    edge, poisson = mixed_constraints()
    heavy = PLANE.constraint(
        laplacian() * 1000, at=poisson.points, equals=lambda p: 1000 * poisson.at(p).values[:, 0], name="poisson"
    )
    scaled = [c.with_values(lambda p, c=c: 7 * c.at(p).values[:, 0]) for c in (edge, poisson)]
    for term in (losses.LeaveOneOut(), losses.HeldOutResidual(UNIT.halton(50), ["edge", "poisson"])):
        plain, weighted, larger = (
            number(term(field_of("wide", constraints=list(pair)).solve()))
            for pair in ((edge, poisson), (edge, heavy), scaled)
        )
        assert weighted == pytest.approx(plain, rel=1e-9)
        assert larger == pytest.approx(plain, rel=1e-9)


def test_natural_scale_by_hand():
    """On the box [0, 2] x [0, 1]: size of u is 1, of 5 u_xx is 5 / 4; the amplitude asked for is 3."""
    corners = torch.tensor([[0.0, 0.0], [2.0, 1.0]], dtype=torch.float64)
    value = PLANE.constraint(identity(), at=corners, equals=3.0, name="value")
    bend = PLANE.constraint(5.0 * partial("x", 2), at=corners, equals=0.0, name="bend")
    assert natural_scales([value, bend]) == pytest.approx([3.0, 3.75])
    assert natural_scales([bend]) == [1.0]


# -- leave one out ---------------------------------------------------------------------------------------------------


def brute_force(matrix, targets, drop_function: bool):
    """Delete condition k (and function k), solve what is left, predict condition k."""
    m = matrix.shape[0]
    errors = []
    for k in range(m):
        rest = [i for i in range(m) if i != k]
        columns = rest if drop_function else list(range(matrix.shape[1]))
        weights = torch.linalg.lstsq(matrix[rest][:, columns], targets[rest], driver="gelsd").solution
        errors.append(targets[k] - matrix[k, columns] @ weights)
    return torch.stack(errors)


@pytest.mark.parametrize("kind", BASES)
def test_leave_one_out_against_brute_force(kind):
    solution = field_of(kind).solve()
    (block,), (factor,) = solution.blocks, solution.factors
    paired = is_paired(solution, block)
    assert paired == (kind != "wide")
    found, known = leave_one_out_errors(block, factor, paired)
    assert bool(known.all())
    expected = brute_force(block.matrix.detach(), block.targets, paired)
    assert torch.allclose(found, expected, rtol=1e-6, atol=1e-8)


def test_leave_one_out_of_one_constraint_with_two_channels():
    """Both channels are solved with one matrix; the loss is the plain mean square of all errors."""
    space = cnf.Space("x", "u v")
    points = cnf.Box(0.0, 1.0).halton(10)
    values = torch.cat([torch.sin(4 * points), torch.exp(points)], dim=1)
    data = space.constraint(identity(), at=points, equals=values, name="data")
    solution = cnf.ConstrainedField(cnf.bases.RandomFourier(space, 15, 0.4), data).solve()
    (block,) = solution.blocks
    expected = brute_force(block.matrix.detach(), values, drop_function=False).square().mean()
    assert number(losses.LeaveOneOut(log=False)(solution)) == pytest.approx(number(expected), rel=1e-6)


def test_leave_one_out_of_a_square_system_without_pairs():
    """A square polynomial basis has no function that belongs to a condition: only the condition is left out."""
    solution = polynomial(lambda p: torch.sin(3 * p[:, 0]) + p[:, 1] ** 4, degree=2)
    (block,) = solution.blocks
    expected = brute_force(block.matrix.detach(), block.targets, drop_function=False).square().mean()
    assert number(losses.LeaveOneOut(log=False)(solution)) == pytest.approx(number(expected), rel=1e-8)


def test_leave_one_out_of_least_squares():
    """More conditions than functions: r_k / (1 - H_kk)."""
    points = UNIT.halton(15)
    data = PLANE.constraint(identity(), at=points, equals=lambda p: torch.exp(p[:, 0] - p[:, 1]), name="data")
    solver = cnf.solvers.Auto(least_squares=True)
    field = cnf.ConstrainedField(cnf.bases.Polynomial(PLANE, 2), data, solver=solver, tolerance=1.0)
    solution = field.solve()
    (block,) = solution.blocks
    expected = brute_force(block.matrix.detach(), block.targets, drop_function=False).square().mean()
    assert number(losses.LeaveOneOut(log=False)(solution)) == pytest.approx(number(expected), rel=1e-8)


def test_leave_one_out_of_dependent_conditions_is_finite():
    """A condition given twice makes the system rank deficient; the loss and its gradient stay finite."""
    points = UNIT.halton(8)
    twice = torch.cat([points, points[:1]])
    data = PLANE.constraint(identity(), at=twice, equals=lambda p: p[:, 0] ** 2, name="data")
    field = cnf.ConstrainedField(cnf.bases.RandomFourier(PLANE, 20, 0.4), data)
    loss = losses.LeaveOneOut()(field.solve())
    loss.backward()
    assert math.isfinite(number(loss))
    assert math.isfinite(number(field.basis.log_bandwidth.grad))


# -- use -------------------------------------------------------------------------------------------------------------


def test_hand_written_loop():
    """No fit needed: the terms are plain callables, draw new points at every call, and the loss goes down."""
    field = field_of("wide", 0.15)
    term = losses.Smoothness(UNIT, count=64, order=1)
    optimizer = torch.optim.Adam(field.parameters(), lr=3e-2)
    found = []
    for _ in range(25):
        optimizer.zero_grad()
        solution = field.solve()
        loss = term(solution)
        loss.backward()
        optimizer.step()
        found.append(number(loss))
        assert solution.certificate.worst < 1e-10
    assert found[-1] < 0.8 * found[0]
    solution = field.solve()
    assert number(term(solution)) != number(term(solution))  # other points
    again = losses.Smoothness(UNIT, count=64, order=1)
    assert number(again(field_of("wide", 0.15).solve())) == found[0]  # the same points in every run


def test_single_precision_and_eval_solutions():
    """A float32 field takes float64 points; a solution without gradients can be measured too."""
    points = UNIT.halton(12).to(torch.float32)
    data = PLANE.constraint(identity(), at=points, equals=lambda p: p[:, 0], name="data")
    field = cnf.ConstrainedField(cnf.bases.RandomFourier(PLANE, 30, 0.5), data)
    for term in (losses.Condition(), losses.TotalVariation(UNIT, 10), losses.LeaveOneOut(), losses.HeldOutResidual()):
        value = term(field.solve())
        assert value.dtype == torch.float32
        assert number(term(field.solution)) == pytest.approx(number(value), rel=0.3)


BAD = {
    "wrong width": (lambda: losses.TotalVariation(torch.zeros(4, 3)), r"expected \(P, 2\), columns x, y"),
    "wrong box": (lambda: losses.Smoothness(cnf.Box(0.0, 1.0)), "columns x, y"),
    "empty": (lambda: losses.TotalVariation(torch.zeros(0, 2)), "at least one point"),
    "not finite": (lambda: losses.Eikonal(torch.full((2, 2), torch.nan)), "NaN"),
    "not points": (lambda: losses.Eikonal("unit square"), "cnf.Box"),
    "count": (lambda: losses.TotalVariation(UNIT, count=0), "at least 1"),
    "order": (lambda: losses.Smoothness(UNIT, order=0), "at least 1"),
    "weight": (lambda: losses.Condition(weight=float("nan")), "finite number"),
    "kind": (lambda: losses.Regression(UNIT, 0.0, "hubre"), "Did you mean 'huber'"),
    "table in a box": (lambda: losses.Regression(UNIT, torch.zeros(5)), "callable"),
    "number of values": (lambda: losses.Regression(torch.zeros(3, 2), torch.zeros(4)), "4 values given for 3 points"),
    "values": (lambda: losses.Regression(torch.zeros(3, 2), torch.full((3,), torch.inf)), "NaN or infinite"),
    "channels": (lambda: losses.Regression(torch.zeros(3, 2), torch.zeros(3, 2)), r"\(3, 2\).*\(3, 1\)"),
    "channel": (lambda: losses.Eikonal(UNIT, channel="w"), "no channel 'w'"),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_explained(name):
    make, message = BAD[name]
    solution = polynomial(lambda p: p[:, 0], degree=1)
    with pytest.raises(CnfError, match=message):
        make()(solution)


def test_a_field_is_not_a_solution():
    with pytest.raises(TrainingError, match=r"field\.solve\(\)"):
        losses.Condition()(field_of("wide"))


def test_too_rough_a_basis_is_refused():
    """A Wendland C2 kernel has two derivatives; asking for the third would give numbers without meaning."""
    data = PLANE.constraint(identity(), at=UNIT.halton(6), equals=1.0, name="data")
    basis = cnf.bases.Kernel(PLANE, [data], cnf.kernels.Wendland(1, 1.0))
    solution = cnf.ConstrainedField(basis, data).solve()
    assert math.isfinite(number(losses.Smoothness(UNIT, order=2)(solution)))
    with pytest.raises(TrainingError, match="up to order 2"):
        losses.Smoothness(UNIT, order=3)(solution)


def test_held_out_points_must_not_be_the_imposed_ones():
    """The residual at imposed points is zero whatever the field does between them."""
    space, box = cnf.Space("x y", "u"), cnf.Box((0, 0), (1, 1))
    pde = space.constraint(r"\Delta u = 1", at=box.halton(60), name="pde")
    solution = cnf.ConstrainedField(cnf.bases.RandomFourier(space, 120, 0.3), pde).solve()
    with pytest.raises(TrainingError, match="points of constraint 'pde' itself"):
        losses.HeldOutResidual(points=box.halton(30), constraint="pde")(solution)
    assert torch.isfinite(losses.HeldOutResidual(points=box.halton(30, seed=1), constraint="pde")(solution))
