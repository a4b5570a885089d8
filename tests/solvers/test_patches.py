"""Patches: small systems blended into one field that meets its conditions, or solved anew for every query."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cnf
from cnf import kernels, losses
from cnf.bases import Hermite, Hybrid, Kernel, Polynomial
from cnf.errors import BasisError, CnfError, SingularSystemError, SmoothnessError, ViolationError, ViolationWarning
from cnf.operators import jets
from cnf.solvers import LU, Auto, Cholesky, Patches
from cnf.solvers.balls import Balls
from cnf.systems import blended
from cnf.systems.blending import blend_weights
from cnf.systems.cover import cover_points

SPACE = cnf.Space("x y", "u")
FLOW = cnf.Space("x y", "u v")
RADIUS = 0.5


def halton(count: int, seed: int = 3) -> Tensor:
    return cnf.Box((0, 0), (1, 1)).halton(count, seed=seed)


def field_values(x: Tensor) -> Tensor:
    return torch.sin(3 * x[:, 0]) * torch.cos(2 * x[:, 1])


def field_slopes(x: Tensor) -> Tensor:
    """The gradient of `field_values`, (P, 2)."""
    a, b = 3 * x[:, 0], 2 * x[:, 1]
    return torch.stack([3 * torch.cos(a) * torch.cos(b), -2 * torch.sin(a) * torch.sin(b)], dim=1)


def value_constraint(x: Tensor, space: cnf.Space = SPACE, factor: float = 1.0) -> cnf.Constraint:
    return space.constraint("u", at=x, equals=factor * field_values(x), name="values")


def slope_constraint(x: Tensor) -> cnf.Constraint:
    return SPACE.constraint(r"\nabla u", at=x, equals=field_slopes(x), name="slopes")


def solved(constraints: list[cnf.Constraint], solver=None, smoothness: int = 3, **options) -> cnf.ConstrainedField:
    basis = Hermite(SPACE, constraints, kernels.Wendland(smoothness, RADIUS))
    return cnf.ConstrainedField(basis, constraints, solver=solver or Patches(size=12), **options)


def hermite_data(count: int = 120, **options) -> cnf.ConstrainedField:
    x = halton(count)
    return solved([value_constraint(x), slope_constraint(x)], **options)


def autograd_slopes(function, x: Tensor) -> Tensor:
    """(P, D) by reverse mode through the whole evaluation."""
    at = x.clone().requires_grad_()
    return torch.autograd.grad(function(at).sum(), at)[0]


def wendland(r: np.ndarray) -> np.ndarray:
    """Wendland's C^4 function for up to three dimensions, from its formula: (1 - r)^6 (35 r^2 + 18 r + 3) / 3."""
    return np.maximum(1 - r, 0) ** 6 * (35 * r**2 + 18 * r + 3) / 3


def distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.linalg.norm(a[:, None] - b[None], axis=2)


# -- blend -------------------------------------------------------------------------------------------------------


def test_values_and_slopes_are_exact():
    """Values and gradients at 120 points in dozens of patches, re-evaluated by autograd and by finite differences."""
    field = hermite_data()
    solution, x = field.solve(), halton(120)
    assert solution.expansion.cover.count >= 8
    assert (solution(x)[:, 0] - field_values(x)).abs().max() <= 1e-9
    assert (autograd_slopes(solution, x) - field_slopes(x)).abs().max() <= 1e-9
    assert (solution.apply(r"\nabla u", x) - field_slopes(x)).abs().max() <= 1e-9
    step = 1e-5
    for axis in range(2):
        move = step * torch.eye(2, dtype=torch.float64)[axis]
        slope = (solution(x + move) - solution(x - move))[:, 0] / (2 * step)
        assert (slope - field_slopes(x)[:, axis]).abs().max() <= 1e-7
    between = halton(50, seed=8)
    expected = torch.cat([solution(between), autograd_slopes(solution, between)], dim=1).detach()
    with torch.no_grad():  # the same in blocks
        found = torch.cat([solution(between), solution.apply(r"\nabla u", between)], dim=1)
        assert (solution.apply(r"\nabla u", x) - field_slopes(x)).abs().max() <= 1e-9
    assert (found - expected).abs().max() <= 1e-9 * expected.abs().max()
    assert solution.certificate.exact
    assert "Patches blended" in str(solution.certificate)


@pytest.mark.parametrize("base", [False, True])
@pytest.mark.parametrize("kind", ["Kernel", "Hermite", "Hybrid", "encoder"])
def test_values_of_every_basis(kind: str, base: bool):
    """u(x_i) = values for every basis whose functions sit at the points, with and without a base network."""
    x = halton(100)
    constraints = [value_constraint(x)]
    kernel = kernels.Wendland(2, RADIUS)
    encoder = cnf.encoders.MLP(2, 5, hidden=(8,), seed=0)
    basis = {
        "Kernel": lambda: Kernel(SPACE, x, kernel),
        "Hermite": lambda: Hermite(SPACE, constraints, kernel),
        "Hybrid": lambda: Hybrid(Kernel(SPACE, x, kernels.Gaussian(0.3)), kernel),
        "encoder": lambda: Hybrid(Kernel(SPACE, x, kernels.Gaussian(2.0), encoder), kernel),
    }[kind]()
    network = cnf.encoders.MLP(2, 1, hidden=(6,), seed=1).double() if base else None
    solution = cnf.ConstrainedField(basis, constraints, base=network, solver=Patches(size=10)).solve()
    assert (solution(x)[:, 0] - field_values(x)).abs().max() <= 1e-9
    y = halton(40, seed=8)
    nested = autograd_slopes(solution, y)
    assert (solution.apply(r"\nabla u", y) - nested).abs().max() <= 1e-9 * nested.abs().max()


def test_operators_between_the_points():
    """Gradient and Laplacian of the blended field anywhere, by the product rule, against nested autograd."""
    solution, y = hermite_data().solve(), halton(50, seed=8)
    at = y.clone().requires_grad_()
    (slopes,) = torch.autograd.grad(solution(at).sum(), at, create_graph=True)
    curvature = [torch.autograd.grad(slopes[:, k].sum(), at, retain_graph=True)[0][:, k] for k in range(2)]
    expected = sum(curvature)
    assert (solution.apply(r"\Delta u", y)[:, 0] - expected).abs().max() <= 1e-9 * expected.abs().max()
    mixed = solution.apply(r"x \partial_y u - u", y)[:, 0]
    assert (mixed - (y[:, 0] * slopes[:, 1] - solution(y)[:, 0])).abs().max() <= 1e-9 * mixed.abs().max()


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("entries", [40, 2**15])
def test_blended_field_by_hand(monkeypatch, follow: bool, entries: int):
    """sum_t w_t(x) k(x, X_t) K_t^-1 g_t, written with NumPy from the balls of the cover and Wendland's formula.

    With gradients it is evaluated pair by pair, without in blocks of several balls, few entries or many at once; slopes
    of the blocks are those of autograd. Where the kernel follows the density its radius is narrower by `stretch`, which
    is the mean distance of the 20th neighbour, by logarithms, over that of the ball's own centre.
    """
    monkeypatch.setattr("cnf.systems.ball_fields.ENTRIES", entries)
    x = halton(100)
    x = torch.cat([x, 0.3 * x[:40] + 0.01])  # a corner is more densely sampled
    constraints = [value_constraint(x)]
    basis = Kernel(SPACE, x, kernels.Wendland(2, RADIUS))
    patches = Patches(size=10, overlap=1.5, follow_density=follow)
    solution = cnf.ConstrainedField(basis, constraints, solver=patches).solve()
    y, points, g = halton(60, seed=8).numpy(), x.numpy(), field_values(x).numpy()
    cover = solution.expansion.cover
    shares = wendland(distances(y, cover.centres) / cover.radii)  # Wendland's C^4 function, as for the weights
    shares[distances(y, cover.centres) >= cover.radii] = 0
    expected = np.zeros(y.shape[0])
    reach = np.sort(distances(cover.centres, points), axis=1)[:, 19]
    stretch = np.exp(np.log(reach).mean()) / reach if follow else np.ones(cover.count)
    assert stretch.max() / stretch.min() > 2 or not follow
    for t in range(cover.count):
        inside = np.linalg.norm(points - cover.centres[t], axis=1) < cover.radii[t]
        own, radius = points[inside], RADIUS / stretch[t]
        weights = np.linalg.solve(wendland(distances(own, own) / radius), g[inside])
        expected += shares[:, t] / shares.sum(axis=1) * (wendland(distances(y, own) / radius) @ weights)
    at = torch.from_numpy(y)
    slopes = autograd_slopes(solution, at)
    assert np.abs(solution(at)[:, 0].detach().numpy() - expected).max() <= 1e-9 * np.abs(expected).max()
    with torch.no_grad():
        assert np.abs(solution(at)[:, 0].numpy() - expected).max() <= 1e-9 * np.abs(expected).max()
        assert (solution.apply(r"\nabla u", at) - slopes).abs().max() <= 1e-9 * slopes.abs().max()
        assert (solution(x)[:, 0] - field_values(x)).abs().max() <= 1e-9


def test_one_patch_is_the_global_solve():
    """A patch that holds everything is the dense solution, at the points, between them and far away."""
    y = torch.cat([halton(50, seed=8), torch.tensor([[3.0, 3.0], [1.2, 0.5]], dtype=torch.float64)])
    for options in ({}, {"smoothness": 4}):
        one, dense = (hermite_data(40, solver=solver, **options).solve() for solver in (Patches(size=1000), Cholesky()))
        assert one.expansion.cover.count == 1
        assert (one(y) - dense(y)).abs().max() <= 1e-10
        assert (one.apply(r"\Delta u", y) - dense.apply(r"\Delta u", y)).abs().max() <= 1e-8
    assert one(y)[50].item() == 0


def test_linear_in_the_conditions():
    """Twice the values minus thrice others give twice the field minus thrice the other, to rounding."""
    x, y = halton(100), halton(60, seed=8)
    others = torch.cos(4 * x[:, 1])

    def of(values: Tensor) -> Tensor:
        constraints = [SPACE.constraint("u", at=x, equals=values, name="values")]
        return solved(constraints).solve()(y)

    combined = of(2 * field_values(x) - 3 * others)
    assert (combined - 2 * of(field_values(x)) + 3 * of(others)).abs().max() <= 1e-10


def test_channels():
    """Two channels, one with two kinds of conditions: each solved apart, both exact."""
    x = halton(80)
    constraints = [
        FLOW.constraint("u", at=x, equals=field_values(x), name="u"),
        FLOW.constraint("v", at=x, equals=2 - field_values(x), name="v"),
        FLOW.constraint(r"\partial_x v", at=x, equals=-field_slopes(x)[:, 0], name="vx"),
    ]
    basis = Hermite(FLOW, constraints, kernels.Wendland(3, RADIUS))
    solution = cnf.ConstrainedField(basis, constraints, solver=Patches(size=10)).solve()
    found = solution(x)
    assert (found[:, 0] - field_values(x)).abs().max() <= 1e-9
    assert (found[:, 1] - 2 + field_values(x)).abs().max() <= 1e-9
    assert (autograd_slopes(lambda at: solution(at)[:, 1], x)[:, 0] + field_slopes(x)[:, 0]).abs().max() <= 1e-9
    both = [FLOW.constraint(c, at=x, equals=k * field_values(x), name=c) for k, c in ((1.0, "u"), (5.0, "v"))]
    shared = cnf.ConstrainedField(Kernel(FLOW, x, kernels.Wendland(2, RADIUS)), both, solver=Patches(size=10)).solve()
    y = halton(30, seed=8)
    assert (5 * shared(y)[:, 0] - shared(y)[:, 1]).abs().max() <= 1e-10


def test_gradients_by_finite_differences():
    """d(loss)/d(radius) and d(loss)/d(values), through every small solve and the blending, by central differences."""
    x, y = halton(60), halton(30, seed=8)
    values = nn.Parameter(field_values(x))
    constraints = [SPACE.constraint("u = k", at=x, k=values, name="values")]
    basis = Hermite(SPACE, constraints, kernels.Wendland(3, RADIUS))
    field = cnf.ConstrainedField(basis, constraints, solver=Patches(size=10))

    def loss() -> Tensor:
        solution = field.solve()
        return solution(y).square().sum() + solution.apply(r"\partial_x u", y).square().mean()

    radius = basis.kernel.log_length
    slopes = torch.autograd.grad(loss(), [radius, values])
    direction = torch.randn(60, dtype=torch.float64)
    for parameter, move, expected in (
        (radius, torch.ones((), dtype=torch.float64), slopes[0]),
        (values, direction, (slopes[1] * direction).sum()),
    ):
        sides, step = [], 1e-5
        for factor in (step, -2 * step):
            with torch.no_grad():
                parameter += factor * move
            sides.append(loss().item())
        with torch.no_grad():
            parameter += step * move
        assert expected.item() == pytest.approx((sides[0] - sides[1]) / (2 * step), rel=1e-6)


def test_certificate_tells_the_truth():
    """Gradients where no values are given do not survive blending: the certificate says by how much, and warns."""
    x, z = halton(60), halton(60, seed=9)
    constraints = [value_constraint(x), slope_constraint(z)]
    with pytest.warns(ViolationWarning, match="slopes"):
        solution = solved(constraints, smoothness=4).solve()
    missed = (autograd_slopes(solution, z) - field_slopes(z)).abs().max().item()
    said = solution.certificate.residuals
    assert not solution.certificate.exact
    assert missed > 1e-6
    assert said["slopes"].absolute == pytest.approx(missed, rel=1e-6)
    assert said["values"].absolute <= 1e-10
    with pytest.raises(ViolationError, match="slopes"):
        solved(constraints, smoothness=4, on_violation="raise").solve()


def test_wrong_certificates_are_noticed(monkeypatch):
    """That the certificate is measured: a solution whose balls give other weights is not called exact."""
    honest = blended.solve_systems

    def spoiled(*given):
        weights, ratio, width = honest(*given)
        return [1.001 * w for w in weights], ratio, width

    monkeypatch.setattr(blended, "solve_systems", spoiled)
    with pytest.warns(ViolationWarning):
        assert not hermite_data(40).solve().certificate.exact


def test_outside_of_all_balls():
    """Far from all points the field of the nearest ball goes on: zero for compact kernels, finite always."""
    solution = hermite_data(60).solve()
    far = torch.tensor([[40.0, -3.0], [-9.0, 9.0]], dtype=torch.float64)
    assert solution(far).abs().max().item() == 0
    assert solution.apply(r"\nabla u", far).abs().max().item() == 0
    wide = cnf.ConstrainedField(
        Kernel(SPACE, halton(60), kernels.Matern(1.5, 0.3)), [value_constraint(halton(60))], solver=Patches(size=10)
    ).solve()
    assert bool(torch.isfinite(wide(far)).all())
    assert (wide(halton(60))[:, 0] - field_values(halton(60))).abs().max() <= 1e-9


@pytest.mark.parametrize("mode", ["blend", "local"])
def test_empty_and_float32(mode: str):
    """No points give empty answers; float32 fields meet their values to their precision."""
    x = halton(60)
    solver = Patches(mode=mode, size=10, neighbours=10)
    for dtype, bound in ((torch.float64, 1e-9), (torch.float32, 1e-4)):
        constraints = [SPACE.constraint("u", at=x.to(dtype), equals=field_values(x).to(dtype), name="values")]
        basis = Kernel(SPACE, x.to(dtype), kernels.Wendland(1, RADIUS))
        solution = cnf.ConstrainedField(basis, constraints, solver=solver).solve()
        found = solution(x.to(dtype))
        assert found.dtype == dtype
        assert (found[:, 0] - field_values(x)).abs().max() <= bound
        assert solution(x[:0].to(dtype)).shape == (0, 1)
        assert solution.apply(r"\nabla u", x[:0].to(dtype)).shape == (0, 2)


def test_queries_in_pieces(monkeypatch):
    """Few pairs and few queries at once give the same field as all at once."""
    field, y = hermite_data(60), halton(50, seed=8)
    whole = field.solve()
    expected = torch.cat([whole(y), whole.apply(r"\Delta u", y)], dim=1)
    monkeypatch.setattr("cnf.systems.blended.PAIRS", 50)
    monkeypatch.setattr("cnf.systems.patch_systems.QUERIES", 7)
    monkeypatch.setattr("cnf.systems.patch_systems.ENTRIES", 5000)
    again = field.solve()
    found = torch.cat([again(y), again.apply(r"\Delta u", y)], dim=1)
    assert (found - expected).abs().max() <= 1e-9 * expected.abs().max()


# -- weights and balls -------------------------------------------------------------------------------------------


def test_weights_sum_to_one():
    """Over the balls that hold a point weights sum to 1 and their derivatives to 0; each derivative by autograd."""
    points = halton(80).numpy()
    cover = cover_points(points, 10, 1.5)
    x = halton(50, seed=8).requires_grad_()
    ball, point = cover.meetings(x.detach().numpy())
    assert np.unique(point).shape[0] == 50
    indices = jets.closure([(2, 0), (1, 1), (0, 2)])
    owner = torch.from_numpy(point)
    offsets = x[owner] - torch.from_numpy(cover.centres[ball])
    weights = blend_weights(offsets, torch.from_numpy(cover.radii[ball]), owner, 50, indices)
    for index, value in weights.items():
        sums = torch.zeros(50, dtype=torch.float64).index_add(0, owner, value)
        size = value.abs().max().item()
        assert (sums - float(sum(index) == 0)).abs().max() <= 1e-12 * size
    assert weights[0, 0].min().item() >= 0
    some = torch.randn(ball.shape[0], dtype=torch.float64)
    for lower, axis, upper in (((0, 0), 0, (1, 0)), ((0, 1), 0, (1, 1)), ((0, 1), 1, (0, 2)), ((1, 0), 0, (2, 0))):
        (slope,) = torch.autograd.grad((weights[lower] * some).sum(), x, retain_graph=True)
        expected = torch.zeros(50, dtype=torch.float64).index_add(0, owner, weights[upper] * some)
        assert (slope[:, axis] - expected).abs().max() <= 1e-9 * expected.abs().max()


def test_balls_of_earlier_files():
    """Files hold weights but no balls: on uneven points the radii are what the first version that wrote such files has.

    A kernel that follows the density has smaller balls where points lie close, and no density is known of few points.
    """
    points = np.concatenate([halton(60).numpy(), 0.01 * halton(20, seed=5).numpy()])
    cover = cover_points(points, 5, 1.3)
    assert cover.count == 32
    assert cover.radii.min() == pytest.approx(0.10310408680783889, rel=1e-12)
    assert cover.radii.sum() == pytest.approx(4.481730551697083, rel=1e-12)
    dense = np.concatenate([points[:60], 0.01 * halton(60, seed=5).numpy()])
    assert cover_points(dense, 5, 1.3, follow_density=True).radii.min() < 0.1 * cover.radii.min()
    assert (cover_points(points[:8], 5, 1.3, follow_density=True).stretch == 1).all()  # too few to tell a density


def test_balls_that_speak_in_a_box():
    """Of balls whose radii differ by 15, those that hold a place of the box, and the nearest of all to others in it."""
    balls = Balls(np.array([[-3.5, 0.0], [3.3, 0.0], [9.0, 0.0]]), np.array([3.0, 0.2, 0.2]), np.ones(3))
    place = np.zeros((1, 2))  # half a unit from the first ball, in none; the centre of the second is the nearest
    near = balls.near_box(place[0], place[0], 1.0)
    assert np.array_equal(near.centres[near.nearest(place)], balls.centres[balls.nearest(place)])
    assert near.count == 2


def test_given_balls(tmp_path):
    """Those of all points, given, make the same field; some make it in their part of the square, and there alone.

    Conditions that lie in no ball are not met, and the certificate says so.
    """
    x = halton(200)
    balls = cover_points(torch.unique(x, dim=0).numpy(), 12, 1.3)
    free, given = (hermite_data(200, solver=Patches(size=12, balls=b)).eval() for b in (None, balls))
    places = halton(300, seed=8)
    assert torch.equal(free.solve()(places), given.solve()(places))
    lower, upper = np.array([0.0, 0.0]), np.array([0.4, 0.4])
    near = balls.near_box(lower, upper, 0.2)
    assert near.count < balls.count
    held = torch.from_numpy(np.unique(near.meetings(x.numpy())[1]))
    own = x[held]
    part = solved([value_constraint(own), slope_constraint(own)], solver=Patches(size=12, balls=near)).eval().solve()
    assert part.certificate.exact
    inside = places[(places < 0.4).all(dim=1)]
    assert (part(inside) - free.solve()(inside)).abs().max() <= 1e-12
    assert (part(places) - free.solve()(places)).abs().max() >= 1e-3
    with pytest.warns(ViolationWarning):
        assert not hermite_data(200, solver=Patches(size=12, balls=near)).eval().solve().certificate.exact
    with pytest.raises(CnfError, match="balls are for mode 'blend'"):
        Patches(mode="local", balls=near)
    with pytest.raises(CnfError, match="given balls cannot be saved"):
        given.save(tmp_path / "field.pt")
    assert not (tmp_path / "field.pt").exists()


@pytest.mark.parametrize("layout", ["even", "two clusters", "on a line", "one point", "same point twice"])
def test_covers(layout: str):
    """Every point lies inside a ball, no ball is crowded, and what lies in which ball is what NumPy finds."""
    points = {
        "even": halton(300).numpy(),
        "two clusters": np.concatenate([halton(150).numpy(), 1e-3 * halton(150).numpy() + 7]),
        "on a line": np.stack([np.linspace(0, 1, 200) ** 3, np.zeros(200)], axis=1),
        "one point": np.array([[0.3, 0.4]]),
        "same point twice": np.array([[0.3, 0.4], [0.3, 0.4]]),
    }[layout]
    cover = cover_points(points, 20, 1.5)
    inside = distances(cover.centres, points) < cover.radii[:, None]
    assert inside.any(axis=0).all()
    assert inside.sum(axis=1).max() <= 80
    ball, point = cover.meetings(points)
    assert np.array_equal(np.stack([ball, point]), np.stack(np.nonzero(inside)))
    assert np.array_equal(cover.nearest(points), distances(points, cover.centres).argmin(axis=1))


# -- local -------------------------------------------------------------------------------------------------------


def test_local_mode_by_hand():
    """For every query the 7 nearest conditions within the radius, solved with NumPy; the constant where there are none.

    Values of the answer and, for the first derivatives, those of the same sum of kernels.
    """
    x, y = halton(60), torch.cat([halton(40, seed=8), torch.tensor([[1.9, 1.9], [1.2, 1.0]], dtype=torch.float64)])
    basis = Kernel(SPACE, x, kernels.Wendland(2, 0.3))
    solver = Patches(mode="local", neighbours=7, outside=123.0)
    solution = cnf.ConstrainedField(basis, [value_constraint(x)], solver=solver).solve()
    points, g = x.numpy(), field_values(x).numpy()
    expected, slopes = [], []
    for query in y.numpy():
        away = np.linalg.norm(points - query, axis=1)
        nearest = np.argsort(away)[:7]
        nearest = nearest[away[nearest] <= 0.3]
        if not nearest.size:
            expected.append(123.0)
            slopes.append(0.0)
            continue
        own = points[nearest]
        weights = np.linalg.solve(wendland(distances(own, own) / 0.3), g[nearest])
        both = [wendland(distances(query[None] + [[s, 0.0]], own) / 0.3)[0] @ weights for s in (0, 1e-5, -1e-5)]
        expected.append(both[0])
        slopes.append((both[1] - both[2]) / 2e-5)
    assert expected[40] == 123.0
    assert (solution(y)[:, 0].detach() - torch.tensor(expected)).abs().max() <= 1e-10
    found = solution.apply(r"\partial_x u", y)[:, 0].detach()
    assert (found - torch.tensor(slopes)).abs().max() <= 1e-6
    assert (solution(x)[:, 0] - field_values(x)).abs().max() <= 1e-10
    assert "Patches per query" in str(solution.certificate)


def test_local_mode_of_two_channels():
    """Channels with conditions of one kind each have their own answers."""
    x, y = halton(60), halton(20, seed=8)
    constraints = [FLOW.constraint(c, at=x, equals=k * field_values(x), name=c) for k, c in ((1.0, "u"), (-4.0, "v"))]
    basis = Kernel(FLOW, x, kernels.Wendland(2, RADIUS))
    solver = Patches(mode="local", neighbours=8, outside=0.0)
    solution = cnf.ConstrainedField(basis, constraints, solver=solver).solve()
    assert (solution(x)[:, 1] + 4 * field_values(x)).abs().max() <= 1e-9
    assert (4 * solution(y)[:, 0] + solution(y)[:, 1]).abs().max() <= 1e-10


# -- as users have them ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["blend", "local"])
def test_saved_loaded_updated(mode: str, tmp_path):
    """The field comes back with its settings and values; new right-hand sides are met."""
    x = halton(60)
    solver = Patches(mode=mode, size=11, overlap=1.4, neighbours=9, outside=7.0)
    basis = Kernel(SPACE, x, kernels.Wendland(2, RADIUS))
    field = cnf.ConstrainedField(basis, [value_constraint(x)], solver=solver).eval()
    y = halton(30, seed=8)
    before = field(y)
    field.save(tmp_path / "field.cnf")
    again = cnf.load(tmp_path / "field.cnf")
    assert again.solver == solver
    assert (again(y) - before).abs().max() <= 1e-12
    solution = field.update({"values": 3 * field_values(x)})
    assert (solution(x)[:, 0] - 3 * field_values(x)).abs().max() <= 1e-9
    assert (solution(y) - 3 * before).abs().max() <= 1e-9 or mode == "local"
    assert "60 conditions" in str(solution.certificate)


class TestErrors:
    @pytest.mark.parametrize(
        ("settings", "word"),
        [
            *[({"mode": "soft"}, "mode"), ({"overlap": 1.0}, "overlap"), ({"size": 0}, "size")],
            *[
                ({"follow_density": "no"}, "follow_density"),
                ({"mode": "local", "follow_density": True}, "'blend'"),
            ],
        ],
    )
    def test_settings_that_make_no_sense(self, settings, word):
        with pytest.raises(CnfError, match=word):
            Patches(**settings)

    def test_functions_without_a_place(self):
        with pytest.raises(BasisError, match="sit at points: Kernel"):
            cnf.ConstrainedField(Polynomial(SPACE, 4), [value_constraint(halton(10))], solver=Patches()).solve()

    def test_functions_elsewhere(self):
        """Anchors that are not the points of the conditions."""
        basis = Kernel(SPACE, halton(30, seed=5), kernels.Wendland(2, RADIUS))
        with pytest.raises(BasisError, match="have no functions to themselves; Patches needs"):
            cnf.ConstrainedField(basis, [value_constraint(halton(30))], solver=Patches()).solve()

    def test_two_conditions_at_each_point_of_a_kernel(self):
        x = halton(30)
        basis = Kernel(SPACE, x, kernels.Wendland(2, RADIUS))
        other = SPACE.constraint(r"\partial_x u", at=x, equals=0.0, name="slope")
        with pytest.raises(CnfError, match=r"Hermite|functions"):
            cnf.ConstrainedField(basis, [value_constraint(x), other], solver=Patches()).solve()

    def test_conditions_of_many_points(self):
        x = halton(3)
        flux = SPACE.constraint(r"\int_0^1 u \, dx", at=x, equals=0.0, name="flux")
        basis = Hermite(SPACE, [flux], kernels.Wendland(2, RADIUS))
        with pytest.raises(BasisError, match="integrals"):
            cnf.ConstrainedField(basis, [flux], solver=Patches()).solve()
        apart = SPACE.constraint("u(0, y) - u(1, y)", at=x, equals=0.0, name="periodic")
        with pytest.raises(BasisError, match="Patches needs"):
            cnf.ConstrainedField(
                Hermite(SPACE, [apart], kernels.Wendland(2, RADIUS)), [apart], solver=Patches()
            ).solve()

    def test_coupled_channels(self):
        x = halton(20)
        flux = FLOW.constraint(r"\partial_x u + \partial_y v", at=x, equals=0.0, name="divergence")
        with pytest.raises(BasisError, match="couple the channels"):
            cnf.ConstrainedField(Hermite(FLOW, [flux], kernels.Wendland(3, RADIUS)), [flux], solver=Patches()).solve()

    def test_local_mode_of_two_kinds(self):
        x, z = halton(20), halton(20, seed=9)
        with pytest.raises(BasisError, match="mode='blend'"):
            solved([value_constraint(x), slope_constraint(z)], Patches(mode="local")).solve()

    def test_too_many_derivatives(self):
        """The weights of the patches are C^4: a fifth derivative is refused."""
        x = halton(20)
        basis = Kernel(SPACE, x, kernels.Gaussian(0.2))
        solution = cnf.ConstrainedField(basis, [value_constraint(x)], solver=Patches(size=5)).solve()
        with pytest.raises(SmoothnessError, match="4 derivatives, not 5"):
            solution.apply(r"\partial_x^5 u", x)

    def test_duplicate_points(self):
        x = torch.cat([halton(30), halton(30)[:1]])
        with pytest.raises(SingularSystemError, match="duplicate"):
            solved([value_constraint(x)]).solve()

    def test_condition_numbers(self):
        """Known as an estimate only; training on it says what to use instead."""
        solution = hermite_data(30).solve()
        assert solution.certificate.condition > 1
        with pytest.raises(CnfError, match="Auto"):
            losses.Condition()(solution)


def test_kernel_on_the_points_of_two_constraints():
    """A kernel with one function on every point, conditions of two kinds at different points: one condition each.

    In one patch, the field is that of the dense solver.
    """
    x = halton(60)
    constraints = [
        value_constraint(x[:40]),
        SPACE.constraint(r"u + \partial_x u", at=x[40:], equals=0.0, name="slopes"),
    ]
    basis = Kernel(SPACE, x, kernels.Wendland(2, RADIUS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ViolationWarning)
        one = cnf.ConstrainedField(basis, constraints, solver=Patches(size=100)).solve()
        dense = cnf.ConstrainedField(basis, constraints, solver=LU()).solve()
    y = halton(30, seed=8)
    assert (one(y) - dense(y)).abs().max() <= 1e-9


def test_auto_does_not_choose_patches():
    """Patches change the field between the points; they are taken on request only."""
    assert not isinstance(Auto().choose(100, 100), Patches)
