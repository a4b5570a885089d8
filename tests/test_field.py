"""The field: a cache never stale, new data on the old factor, any network corrected, channels, certificate."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cnf
from cnf.bases import Concat, Hermite, Independent, Kernel, Polynomial, RandomFourier, SkewedRBF
from cnf.errors import ConstraintError, OverdeterminedError, ViolationError, ViolationWarning
from cnf.operators import divergence, identity, laplacian, partial
from cnf.solvers import LU, Auto, Cholesky, MinimumNorm
from tests.bases.contract import nested_autograd

BOX = cnf.Box((0, 0), (1, 1))
PLANE = cnf.Space("x y", "u")
AT = BOX.halton(8, seed=1)
QUERY = BOX.halton(20, seed=2)


class Base(nn.Module):
    """A network to be corrected, with a buffer of its own."""

    def __init__(self, channels: int = 1, dtype: torch.dtype = torch.float64):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 16, dtype=dtype), nn.Tanh(), nn.Linear(16, channels, dtype=dtype))
        self.register_buffer("shift", torch.zeros(channels, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x) + self.shift


def conditions(space: cnf.Space = PLANE) -> list[cnf.Constraint]:
    sides = torch.linspace(-1, 1, 8, dtype=torch.float64)
    return [
        space.constraint(identity("u"), at=AT, equals=sides, name="value"),
        space.constraint(partial("x", channel="u"), at=AT[:4] + 0.05, equals=0.3, name="slope"),
    ]


def counted(monkeypatch: pytest.MonkeyPatch, kinds: tuple[type, ...] = (LU, Cholesky, MinimumNorm)) -> list[tuple]:
    """Every factorisation from here on leaves the shape of its matrix in the list."""
    calls: list[tuple] = []
    for kind in kinds:
        original = kind.begin

        def begin(self, matrices, symmetric, original=original):
            calls.extend(tuple(matrix.shape) for matrix in matrices)
            return original(self, matrices, symmetric)

        monkeypatch.setattr(kind, "begin", begin)
    return calls


# -- caching --------------------------------------------------------------------------------------------------------


def _step(field: cnf.ConstrainedField) -> None:
    optimiser = torch.optim.SGD(field.parameters(), lr=1e-2)
    field.train()
    field(QUERY).square().mean().backward()
    optimiser.step()
    field.eval()


def _data(field: cnf.ConstrainedField) -> None:
    field.basis.log_bandwidth.data.mul_(1.3)


def _no_grad(field: cnf.ConstrainedField) -> None:
    with torch.no_grad():
        field.basis.log_bandwidth[0, 0] += 0.2


def _swap(field: cnf.ConstrainedField) -> None:
    """The same numbers in another order."""
    field.basis.log_bandwidth.data = field.basis.log_bandwidth.data.flip(0)


def _load(field: cnf.ConstrainedField) -> None:
    state = {name: tensor.clone() for name, tensor in field.state_dict().items()}
    state["basis.log_bandwidth"] += 0.1
    field.load_state_dict(state)


def _buffer(field: cnf.ConstrainedField) -> None:
    field.basis.anchors.add_(0.03)


def _numpy(field: cnf.ConstrainedField) -> None:
    field.basis.log_bandwidth.detach().numpy()[2] += 0.2


def _base_weight(field: cnf.ConstrainedField) -> None:
    field.base.layers[0].weight.data.mul_(1.5)


def _base_buffer(field: cnf.ConstrainedField) -> None:
    field.base.shift.add_(0.5 * torch.ones(1, dtype=torch.float64))
    field.base.layers[0].bias.data.add_(0.1)


def _base_replaced(field: cnf.ConstrainedField) -> None:
    torch.manual_seed(99)
    field.base = Base()


def _values(field: cnf.ConstrainedField) -> None:
    field.constraints[0].values.mul_(2)


def _update(field: cnf.ConstrainedField) -> None:
    field.update(values={"slope": 2.0})


def _points(field: cnf.ConstrainedField) -> None:
    field.constraints[1].points.add_(0.01)


CHANGES: list[Callable] = [
    _step, _data, _no_grad, _swap, _load, _buffer, _numpy,
    _base_weight, _base_buffer, _base_replaced, _values, _update, _points,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.__name__.strip("_"))
def test_the_cache_is_never_stale(change: Callable):
    """Whatever changes what the weights depend on, and however: eval mode then equals a fresh solve."""
    torch.manual_seed(1)
    basis = SkewedRBF(PLANE, BOX.halton(20, seed=3), 0.3)
    with torch.no_grad():
        basis.log_bandwidth += 0.2 * torch.randn_like(basis.log_bandwidth)
    field = cnf.ConstrainedField(basis, conditions(), base=Base()).eval()
    before = field(QUERY)
    change(field)
    after = field(QUERY)
    fresh = field.solve()(QUERY).detach()
    assert (after - fresh).abs().max() <= 1e-9 * fresh.abs().max()
    assert (after - before).abs().max() > 1e-6  # otherwise the change was none


def test_the_cache_is_used(monkeypatch):
    """In eval mode one factorisation serves any number of calls, also after switching modes with nothing changed."""
    calls = counted(monkeypatch)
    field = cnf.ConstrainedField(RandomFourier(PLANE, 40, 0.3), conditions()).eval()
    first = field(QUERY)
    for _ in range(3):
        assert torch.equal(field(QUERY), first)
    assert len(calls) == 1
    assert not first.requires_grad
    field.train()
    assert field(QUERY).requires_grad
    assert len(calls) == 2
    field.eval()
    assert torch.equal(field(QUERY), first)


def test_a_mode_of_the_base_alone(monkeypatch):
    """A base that behaves differently in training mode is noticed even if only the base is switched."""

    class Moody(Base):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * (2 if self.training else 1)

    field = cnf.ConstrainedField(RandomFourier(PLANE, 40, 0.3), conditions(), base=Moody()).eval()
    field(QUERY)
    field.base.train()
    value = field.constraints[0]
    assert (field(value.points) - value.values).abs().max() <= 1e-10


def test_buffers_of_any_type():
    """A base with complex, boolean and integer buffers is watched like any other."""
    base = Base()
    base.register_buffer("spectrum", torch.ones(3, dtype=torch.complex128))
    base.register_buffer("mask", torch.tensor([True, False]))
    base.register_buffer("count", torch.tensor(3))
    field = cnf.ConstrainedField(RandomFourier(PLANE, 40, 0.3), conditions(), base=base).eval()
    field(QUERY)
    first = field.solution
    assert field.solution is first
    base.spectrum[1] = 2j
    assert field.solution is not first


# -- new values -----------------------------------------------------------------------------------------------------


def test_update_reuses_the_factorisation(monkeypatch):
    """New right-hand sides: no new factorisation, and the same field as one built from scratch with those values."""
    calls = counted(monkeypatch)
    field = cnf.ConstrainedField(RandomFourier(PLANE, 40, 0.3), conditions()).eval()
    field(QUERY)
    assert len(calls) == 1
    for k in range(3):
        solution = field.update(values={"value": lambda p, k=k: torch.sin(p[:, 0] + k), "slope": float(k)})
        assert len(calls) == 1
        fresh = [
            PLANE.constraint("u", at=AT, equals=torch.sin(AT[:, 0] + k), name="value"),
            PLANE.constraint("u_x", at=AT[:4] + 0.05, equals=float(k), name="slope"),
        ]
        expected = cnf.ConstrainedField(RandomFourier(PLANE, 40, 0.3), fresh).solve()(QUERY).detach()
        calls.pop()
        assert (solution(QUERY) - expected).abs().max() <= 1e-11
        assert torch.equal(field(QUERY), solution(QUERY))
        assert solution.certificate.exact


def test_update_after_a_change_of_parameters_factors_anew(monkeypatch):
    """The kept factor belongs to old parameters: it must not be used."""
    field = cnf.ConstrainedField(RandomFourier(PLANE, 40, 0.3), conditions()).eval()
    field(QUERY)
    field.basis.log_bandwidth.data.add_(0.2)
    calls = counted(monkeypatch)
    solution = field.update(values={"slope": 1.0})
    assert len(calls) == 1
    assert (solution(QUERY) - field.solve()(QUERY)).abs().max() <= 1e-10


def test_update_of_a_field_with_one_constraint():
    """A single value is enough; for several the name is needed, and a wrong one is answered with the right."""
    field = cnf.ConstrainedField(RandomFourier(PLANE, 40, 0.3), conditions()[0]).eval()
    assert (field.update(2.5)(AT) - 2.5).abs().max() <= 1e-10
    two = cnf.ConstrainedField(RandomFourier(PLANE, 40, 0.3), conditions())
    with pytest.raises(ConstraintError, match="say which constraint"):
        two.update(2.5)
    with pytest.raises(ConstraintError, match=r"no constraint 'slop'.*Did you mean 'slope'"):
        two.update({"slop": 1.0})
    with pytest.raises(ConstraintError, match=r"'slope': values of shape \(7,\)"):
        two.update({"slope": torch.zeros(7)})
    with pytest.raises(ConstraintError, match="'slope': 4 of 4 values are NaN"):
        two.update({"slope": float("nan")})
    assert (two.eval()(AT)[:, 0] - conditions()[0].values[:, 0]).abs().max() <= 1e-10  # as if nothing had been tried


# -- the corrector --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_any_network_is_corrected(dtype: torch.dtype):
    """base + correction meets value, slope and Laplacian conditions; the base's own precision does not matter."""
    torch.manual_seed(2)
    base = Base(dtype=dtype)
    constraints = [*conditions(), PLANE.constraint(laplacian(), at=QUERY[:5], equals=1.0, name="laplace")]
    solution = cnf.ConstrainedField(
        RandomFourier(PLANE, 100, 0.3), constraints, base=base, on_violation="raise"
    ).solve()
    assert solution(AT).dtype == torch.float64
    assert (solution(AT)[:, 0] - constraints[0].values[:, 0]).abs().max() <= 1e-10
    if dtype == torch.float64:
        slopes = nested_autograd(solution, constraints[1].points, [(1, 0)])[1, 0]
        assert (slopes - 0.3).abs().max() <= 1e-10
        second = nested_autograd(solution, QUERY[:5], [(2, 0), (0, 2)])
        assert (second[2, 0] + second[0, 2] - 1).abs().max() <= 1e-9
    assert (solution.apply(laplacian(), QUERY[:5]) - 1).abs().max() <= 1e-9


def test_a_base_that_meets_the_conditions_stays_as_it_is():
    """base = the exact answer: the correction is rounding, also for dependent conditions, and exact."""

    class Exact(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.sin(3 * x[:, :1]) * torch.exp(x[:, 1:])

    def exact(x: Tensor) -> Tensor:
        return torch.sin(3 * x[:, 0]) * torch.exp(x[:, 1])

    constraints = [
        PLANE.constraint("u", at=torch.cat([AT, AT[:2]]), equals=exact, name="value"),
        PLANE.constraint("3 u", at=AT[:3], equals=lambda p: 3 * exact(p), name="again"),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solution = cnf.ConstrainedField(RandomFourier(PLANE, 60, 0.3), constraints, base=Exact()).solve()
    assert solution.certificate.exact
    assert (solution(QUERY)[:, 0] - exact(QUERY)).abs().max() <= 1e-13


def test_the_base_is_trained_through_the_solve():
    """Gradients reach the base's parameters: against central differences."""
    base = Base()
    field = cnf.ConstrainedField(RandomFourier(PLANE, 40, 0.3), conditions(), base=base)
    field(QUERY).square().sum().backward()
    weight = base.layers[0].weight
    slope, step = float(weight.grad[3, 1]), 1e-6
    values = []
    for sign in (1, -1):
        with torch.no_grad():
            weight[3, 1] += sign * step
            values.append(float(field(QUERY).square().sum()))
            weight[3, 1] -= sign * step
    assert slope == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-5)


def test_a_base_of_the_wrong_shape():
    """Two channels from a base of a field with one."""
    field = cnf.ConstrainedField(RandomFourier(PLANE, 40, 0.3), conditions(), base=Base(channels=2))
    with pytest.raises(ConstraintError, match=r"base network returned shape \(8, 2\).*expected \(8, 1\)"):
        field.solve()


# -- any operator, anywhere -----------------------------------------------------------------------------------------


def test_apply_on_a_manufactured_field():
    """A cubic is represented exactly by Polynomial(3): every operator of it, anywhere, is known by hand."""
    field = cnf.ConstrainedField(
        Polynomial(PLANE, 3, center=0.5, scale=0.5),
        PLANE.constraint(
            "u", at=BOX.halton(10, seed=4), equals=lambda p: p[:, 0] ** 3 - 2 * p[:, 0] * p[:, 1] ** 2 + p[:, 1]
        ),
    )
    solution = field.solve()
    x, y = (3 * QUERY - 1).unbind(dim=1)  # outside the unit square too
    at = torch.stack([x, y], dim=1)
    for asked, expected in {
        "u": x**3 - 2 * x * y**2 + y,
        "u_x": 3 * x**2 - 2 * y**2,
        r"\Delta u": 6 * x - 4 * x,
        "u_{xyy}": -4 * torch.ones_like(x),
        "x u_x + y u_y - 3 u": -2 * y,
        r"\int_0^1 u \, dx": 1 / 4 - y**2 + y,
        "u(0,y) - u(1,y)": -1 + 2 * y**2,
        r"\Delta^2 u": torch.zeros_like(x),
    }.items():
        found = solution.apply(asked, at)
        assert found.shape == (20, 1)
        assert (found[:, 0] - expected).abs().max() <= 1e-11, asked
    gradient = solution.apply(r"\nabla u", at)
    assert (gradient - torch.stack([3 * x**2 - 2 * y**2, 1 - 4 * x * y], dim=1)).abs().max() <= 1e-11
    weighted = solution.apply("w u", at, w=x)
    assert (weighted[:, 0] - x * (x**3 - 2 * x * y**2 + y)).abs().max() <= 1e-11


def test_residual_of_a_constraint_that_is_not_the_fields():
    """solution.residual measures any constraint of the space: L f - g."""
    solution = cnf.ConstrainedField(RandomFourier(PLANE, 60, 0.3), conditions()).solve()
    other = PLANE.constraint(r"\Delta u = x", at=QUERY, name="held out")
    expected = solution.apply(r"\Delta u", QUERY) - QUERY[:, :1]
    assert (solution.residual(other) - expected).abs().max() <= 1e-12 * expected.abs().max()
    for constraint in solution.constraints:
        assert solution.residual(constraint).abs().max() <= 1e-10


# -- several channels -----------------------------------------------------------------------------------------------

FLOW = cnf.Space("x y", "u v p")


@pytest.mark.parametrize("joint", [False, True])
def test_stokes_like_rows_couple_channels(joint: bool):
    """Momentum and continuity at points, velocities at others: met together, by nested autograd."""
    momentum = FLOW.constraint(r"-\Delta u + p_x = 1 \\ -\Delta v + p_y = y", at=AT, name="momentum")
    mass = FLOW.constraint(divergence(), at=AT, equals=0, name="mass")
    wall = FLOW.constraint(r"u \\ v", at=BOX.face(0, 0, 4), equals=torch.tensor([0.0, 1.0]), name="wall")
    constraints = [momentum, mass, wall]
    basis = Hermite(FLOW, constraints, cnf.kernels.Gaussian(0.25)) if joint else RandomFourier(FLOW, 60, 0.3)
    solution = cnf.ConstrainedField(basis, constraints, on_violation="raise").solve()
    first, d = nested_autograd(solution, AT, [(1, 0), (0, 1)]), nested_autograd(solution, AT, [(2, 0), (0, 2)])
    second = d[2, 0] + d[0, 2]
    assert (-second[:, 0] + first[1, 0][:, 2] - 1).abs().max() <= 1e-9
    assert (-second[:, 1] + first[0, 1][:, 2] - AT[:, 1]).abs().max() <= 1e-9
    assert (first[1, 0][:, 0] + first[0, 1][:, 1]).abs().max() <= 1e-9
    assert (solution(wall.points)[:, :2] - torch.tensor([0.0, 1.0])).abs().max() <= 1e-10
    assert len(solution.blocks) == 1
    assert solution.certificate.conditions == 8 * 3 + 4 * 2


@pytest.mark.parametrize("kind", ["RandomFourier", "Kernel", "Hermite"])
def test_channels_that_see_one_matrix_share_a_factorisation(kind: str, monkeypatch):
    """Three channels, the same conditions: one factorisation, three right-hand sides; equal to three fields of one."""
    sides = torch.randn(8, 3, dtype=torch.float64)
    constraint = FLOW.constraint(identity(), at=AT, equals=sides, name="value")
    single = PLANE.constraint("u", at=AT, equals=0, name="value")

    def basis(space: cnf.Space, constraint: cnf.Constraint):
        if kind == "RandomFourier":
            return RandomFourier(space, 40, 0.3)
        if kind == "Kernel":
            return Kernel(space, AT, cnf.kernels.Gaussian(0.3))
        return Hermite(space, [constraint], cnf.kernels.Gaussian(0.3))

    calls = counted(monkeypatch)
    solution = cnf.ConstrainedField(basis(FLOW, constraint), constraint).solve()
    assert calls == [(8, 40 if kind == "RandomFourier" else 8)]
    assert solution.certificate.rank == 24
    assert solution(AT).shape == (8, 3)
    assert (solution(AT) - sides).abs().max() <= 1e-10
    for c in range(3):
        alone = single.with_values(sides[:, c])
        expected = cnf.ConstrainedField(basis(PLANE, alone), alone).solve()(QUERY)[:, 0]
        assert (solution(QUERY)[:, c] - expected).abs().max() <= 1e-9


def test_channels_with_different_conditions_are_solved_apart(monkeypatch):
    """u by values, v by slopes, p not at all: two small systems, and p is zero (or the base)."""
    constraints = [
        FLOW.constraint("u", at=AT, equals=1.0, name="u"),
        FLOW.constraint("v_x", at=AT[:5], equals=2.0, name="v"),
    ]
    calls = counted(monkeypatch)
    solution = cnf.ConstrainedField(RandomFourier(FLOW, 40, 0.3), constraints).solve()
    assert sorted(calls) == [(5, 40), (8, 40)]
    assert float(solution(QUERY)[:, 2].abs().max()) == 0
    assert (solution.apply("v_x", AT[:5]) - 2).abs().max() <= 1e-10


@pytest.mark.parametrize(
    ("first", "second"),
    [("u", "v_x"), ("u", "2 v"), ("u_x", "v_y"), ("u", "v(0, y)"), ("a u", "b v")],
)
def test_channels_that_only_look_alike_are_not_merged(first: str, second: str):
    """Same points, same number of terms, but another derivative, factor, place or coefficient: both hold."""
    space = cnf.Space("x y", "u v")
    data = {"a": 1 + AT[:, 0], "b": 2 - AT[:, 1]}
    constraints = [
        space.constraint(latex, at=AT, equals=1.0, name=latex, **{k: w for k, w in data.items() if latex.startswith(k)})
        for latex in (first, second)
    ]
    if second == "v(0, y)":  # the eight points have eight different y
        assert len(set(AT[:, 1].tolist())) == 8
    solution = cnf.ConstrainedField(RandomFourier(space, 60, 0.3), constraints, on_violation="raise").solve()
    for constraint in constraints:
        assert solution.residual(constraint).abs().max() <= 1e-9


TABLES = [1 + AT[:, 0], 2 - AT[:, 1]]
LOOK_ALIKES = {  # what u and v are asked, each with its points and its coefficient called a
    "the same": [("a u", AT, TABLES[0]), ("a v", AT, TABLES[0])],
    "tables of one name": [("a u", AT, TABLES[0]), ("a v", AT, TABLES[1])],
    "callables of one name": [("a u", AT, lambda p: 1 + p[:, 0]), ("a v", AT, lambda p: 2 - p[:, 1])],
    "parameters of one name": [
        (f"{c} + a {c}_x", AT, nn.Parameter(torch.tensor(k).double())) for c, k in (("u", 1.0), ("v", 2.0))
    ],
    "expressions": [("(1 + x) u", AT, None), ("(1 + y) v", AT, None)],
    "points": [("u_x", AT, None), ("v_x", 1 - AT, None)],
    "order of the points": [("u", AT, None), ("v", AT.flip(0), None)],
    "limits": [(r"\int_0^1 u \, dx", AT, None), (r"\int_0^{1/2} v \, dx", AT, None)],
    "weights under an integral": [(r"\int_0^1 x u \, dx", AT, None), (r"\int_0^1 e^{-x} v \, dx", AT, None)],
}


@pytest.mark.parametrize("case", LOOK_ALIKES)
def test_channels_share_a_matrix_only_if_it_is_the_same(case: str):
    """One matrix serves two channels if all is equal, and only then: each is solved as it would be alone."""
    space, solutions = cnf.Space("x y", "u v"), []
    asked = LOOK_ALIKES[case]
    both = [
        space.constraint(latex, at=at, equals=at[:, 0], name=latex, **({} if a is None else {"a": a}))
        for latex, at, a in asked
    ]
    for constraints in (both, both[:1], both[1:]):
        solutions.append(cnf.ConstrainedField(RandomFourier(space, 60, 0.3), constraints).solve())
    assert solutions[0].certificate.exact
    assert solutions[0].certificate.shared == (2 if case == "the same" else 1)
    for c in range(2):
        assert (solutions[0](QUERY)[:, c] - solutions[1 + c](QUERY)[:, c]).abs().max() <= 1e-9


def test_bases_of_their_own_per_channel(monkeypatch):
    """Independent networks R^2 -> R^2: f_c = sum_j beta_jc Psi_jc, another matrix for every channel."""
    space = cnf.Space("x y", "u v")
    networks = [cnf.encoders.SIREN(2, 2, (12,), omega=8.0, seed=k) for k in range(20)]
    basis = Independent(space, networks)
    constraint = space.constraint(identity(), at=AT, equals=torch.randn(8, 2, dtype=torch.float64), name="value")
    calls = counted(monkeypatch)
    solution = cnf.ConstrainedField(basis, constraint, on_violation="raise").solve()
    assert calls == [(8, 20), (8, 20)]
    values = torch.stack([network(QUERY) for network in networks], dim=1)  # (P, N, C)
    expected = torch.einsum("pnc,nc->pc", values, solution.weights)
    assert (solution(QUERY) - expected).abs().max() <= 1e-12 * expected.abs().max()
    assert (solution(AT) - constraint.values).abs().max() <= 1e-9


# -- learnable coefficients -----------------------------------------------------------------------------------------


def test_a_learnable_coefficient():
    r"""u_t + c u_x = 0 with c a parameter: it is among field.parameters() and its gradient is that of differences."""
    space = cnf.Space("x t", "u")
    speed = nn.Parameter(torch.tensor(0.4))  # float32, as torch makes them
    start = space.constraint("u", at=torch.cat([AT[:, :1], 0 * AT[:, :1]], dim=1), equals=1.0, name="start")
    pde = space.constraint(r"u_t + c u_x = x", at=AT, c=speed, name="pde")
    field = cnf.ConstrainedField(RandomFourier(space, 60, 0.3), [start, pde])
    assert any(p is speed for p in field.parameters())
    field(QUERY).square().sum().backward()
    values = []
    for c in (0.4 + 1e-5, 0.4 - 1e-5):
        fixed = space.constraint(r"u_t + c u_x = x", at=AT, c=c, name="pde")
        other = cnf.ConstrainedField(RandomFourier(space, 60, 0.3), [start, fixed])
        values.append(float(other(QUERY).detach().square().sum()))
    assert float(speed.grad) == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-4)
    field.eval()
    before = field(QUERY)
    speed.data.add_(0.3)
    assert (field(QUERY) - before).abs().max() > 1e-4


def test_a_learnable_limit():
    r"""\int_0^1 \int_0^a u dx dy = 1 with a learnable: no points needed, and the gradient is that of differences."""
    limit = nn.Parameter(torch.tensor(0.5, dtype=torch.float64))
    value = PLANE.constraint("u", at=AT, equals=1.0, name="value")

    def loss(a: object) -> Tensor:
        mass = PLANE.constraint(r"\int_0^1 \int_0^a u \, dx \, dy = 1", a=a, name="mass")
        return cnf.ConstrainedField(RandomFourier(PLANE, 40, 0.3), [value, mass])(QUERY).square().sum()

    loss(limit).backward()
    above, below = (float(loss(0.5 + h).detach()) for h in (1e-5, -1e-5))
    assert float(limit.grad) == pytest.approx((above - below) / 2e-5, rel=1e-5)


def test_two_learnable_coefficients_of_one_name():
    """Two constraints, each with its own parameter called a: both are trained."""
    first, second = (nn.Parameter(torch.tensor(v, dtype=torch.float64)) for v in (0.5, 2.0))
    constraints = [
        PLANE.constraint("a u + u_x = 1", at=AT[:4], a=first, name="one"),
        PLANE.constraint("a u + u_y = 1", at=AT[4:], a=second, name="two"),
    ]
    field = cnf.ConstrainedField(RandomFourier(PLANE, 40, 0.3), constraints)
    found = list(field.parameters())
    assert any(p is first for p in found)
    assert any(p is second for p in found)


def test_a_learnable_right_hand_side():
    """u = a x with a a parameter: after a step of any optimiser the condition is the new one, and training goes on."""
    slope = nn.Parameter(torch.tensor(1.0, dtype=torch.float64))
    field = cnf.ConstrainedField(
        RandomFourier(PLANE, 40, 0.3), PLANE.constraint("u = a x", at=AT, a=slope, name="line")
    )
    assert any(p is slope for p in field.parameters())
    optimiser = torch.optim.SGD([slope], lr=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        field(AT).sum().backward()  # d/da of sum a x = sum x
        assert float(slope.grad) == pytest.approx(float(AT[:, 0].sum()), rel=1e-9)
        optimiser.step()
    assert float(slope.detach()) < 0
    assert (field(AT)[:, 0] - slope * AT[:, 0]).abs().max() <= 1e-9
    assert (field.eval()(AT)[:, 0] - slope * AT[:, 0]).abs().max() <= 1e-9


def test_a_network_as_the_right_hand_side():
    """equals=network: the values follow the network while it is trained."""
    network = Base()
    field = cnf.ConstrainedField(
        RandomFourier(PLANE, 40, 0.3), PLANE.constraint("u", at=AT, equals=network, name="net")
    )
    for _ in range(2):
        field(QUERY).square().sum().backward()
        with torch.no_grad():
            for parameter in network.parameters():
                parameter += 0.1
        assert (field(AT) - network(AT)).abs().max() <= 1e-9
    field.eval()
    field(QUERY)
    network.shift.add_(torch.ones(1, dtype=torch.float64))
    assert (field(AT) - network(AT)).abs().max() <= 1e-9


# -- types ----------------------------------------------------------------------------------------------------------


def test_dtype_follows_the_points():
    """float32 points: float32 field; any float64 among them: float64; float32 queries of a float64 field are fine."""
    single = PLANE.constraint("u", at=AT.float(), equals=1.0, name="single")
    double = PLANE.constraint("u_x", at=AT[:3], equals=1.0, name="double")
    assert cnf.ConstrainedField(RandomFourier(PLANE, 40, 0.3), single).solve()(QUERY).dtype == torch.float32
    mixed = cnf.ConstrainedField(RandomFourier(PLANE, 40, 0.3), [single, double]).solve()
    assert mixed(QUERY).dtype == torch.float64
    assert mixed(QUERY.float()).dtype == torch.float64
    assert mixed.apply("u_x", QUERY.float()).dtype == torch.float64
    assert mixed.certificate.exact
    whole = PLANE.constraint(
        "u", at=torch.tensor([[0, 0], [1, 0], [0, 1]]), equals=torch.tensor([1, 2, 3]), name="whole"
    )
    assert (
        cnf.ConstrainedField(RandomFourier(PLANE, 40, 0.3), whole).solve()(torch.tensor([[1, 0]])).dtype
        == torch.float64
    )


@pytest.mark.parametrize("kind", ["RandomFourier", "Kernel", "Hermite"])
def test_a_field_can_change_its_precision(kind: str):
    """field.float() and field.double() move constraints along with the parameters, as for any module."""
    constraints = conditions()
    basis = {
        "RandomFourier": lambda: RandomFourier(PLANE, 40, 0.3),
        "Kernel": lambda: Kernel(PLANE, BOX.halton(16, seed=6), cnf.kernels.Gaussian(0.3)),
        "Hermite": lambda: Hermite(PLANE, constraints, cnf.kernels.Gaussian(0.3)),
    }[kind]()
    field = cnf.ConstrainedField(basis, constraints).float()
    assert field(QUERY).dtype == torch.float32
    field.double()
    assert field(QUERY).dtype == torch.float64
    assert (field(AT)[:, 0] - constraints[0].values[:, 0]).abs().max() <= 1e-5


# -- the certificate ------------------------------------------------------------------------------------------------


def test_what_the_certificate_says():
    """Residuals by name, absolute and relative, rank, condition, solver, time: each as NumPy finds it."""
    solution = cnf.ConstrainedField(RandomFourier(PLANE, 40, 0.3), conditions()).solve()
    certificate = solution.certificate
    matrix, weights = solution.blocks[0].matrix.detach().numpy(), solution.weights.detach().numpy()
    missed = np.abs(matrix @ weights - solution.blocks[0].targets.detach().numpy())
    assert set(certificate.residuals) == {"value", "slope"}
    assert certificate.residuals["value"] == pytest.approx(missed[:8].max(), abs=1e-14)
    assert certificate.residuals["slope"].absolute == pytest.approx(missed[8:].max(), abs=1e-13)
    assert 0 <= certificate.worst <= 1e-12
    assert certificate.exact
    assert certificate.conflicts == ()
    assert certificate.conditions == 12
    assert certificate.functions == 40
    assert certificate.rank == np.linalg.matrix_rank(matrix) == 12
    assert certificate.solver == "MinimumNorm"
    assert certificate.notes == ()
    assert certificate.seconds > 0
    assert certificate.weight_norm == pytest.approx(np.linalg.norm(weights), rel=1e-12)
    scaled = matrix * 2.0 ** -np.round(np.log2(np.linalg.norm(matrix, axis=1)))[:, None]
    assert certificate.condition == pytest.approx(np.linalg.cond(scaled), rel=0.05)
    for word in ("value", "slope", "rank 12", "12 conditions", "exact"):
        assert word in str(certificate)


def test_relative_residuals_do_not_see_units():
    """A condition in other units, or a field in other units: the relative residual keeps its size."""
    worst = []
    for unit, size in ((1.0, 1.0), (1e8, 1.0), (1.0, 1e-7)):
        value, slope = conditions()
        scaled = PLANE.constraint(unit * partial("x"), at=slope.points, equals=slope.values * unit * size, name="slope")
        field = cnf.ConstrainedField(RandomFourier(PLANE, 40, 0.3), [value.with_values(value.values * size), scaled])
        worst.append(field.solve().certificate.worst)
    assert max(worst) <= 1e-13
    assert max(worst) <= 100 * max(min(worst), 1e-16)


def missing() -> tuple[cnf.bases.Polynomial, cnf.Constraint]:
    """A constant cannot take two values: residual 1/2 at either point at best."""
    at = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    return Polynomial(PLANE, 0), PLANE.constraint("u", at=at, equals=torch.tensor([0.0, 1.0]), name="pair")


def test_violation_raises_or_warns():
    """The same miss: an error with the certificate, or a warning, each naming constraint and size."""
    basis, constraint = missing()
    solver = Auto(least_squares=True)
    with pytest.raises(ViolationError, match=r"'pair' is missed by 5\.0e-01") as caught:
        cnf.ConstrainedField(basis, constraint, solver=solver, on_violation="raise").solve()
    assert not caught.value.certificate.exact
    assert caught.value.certificate.residuals["pair"] == pytest.approx(0.5)
    with pytest.warns(ViolationWarning, match=r"'pair' is missed by 5\.0e-01"):
        solution = cnf.ConstrainedField(basis, constraint, solver=solver, on_violation="warn").solve()
    assert float(solution(QUERY[:1])) == pytest.approx(0.5)
    assert solution.certificate.conflicts


def test_tolerance_is_the_line():
    """The same solve is exact or not by the tolerance given."""
    constraints = conditions()
    basis = RandomFourier(PLANE, 40, 0.3)
    worst = cnf.ConstrainedField(basis, constraints).solve().certificate.worst
    assert 0 < worst < 1e-12
    with pytest.warns(ViolationWarning):
        assert not cnf.ConstrainedField(basis, constraints, tolerance=worst / 2).solve().certificate.exact
    assert cnf.ConstrainedField(basis, constraints, tolerance=2 * worst).solve().certificate.exact


# -- conflicts ------------------------------------------------------------------------------------------------------


def test_contradictory_conditions_are_named():
    """Two constraints ask for different values at one point; a third is innocent and is not named."""
    constraints = [
        PLANE.constraint("u", at=AT[:4], equals=1.0, name="first"),
        PLANE.constraint("u", at=AT[3:5], equals=2.0, name="second"),
        PLANE.constraint("u_x", at=AT[5:], equals=0.0, name="innocent"),
    ]
    with pytest.warns(ViolationWarning):
        certificate = cnf.ConstrainedField(RandomFourier(PLANE, 40, 0.3), constraints).solve().certificate
    assert [set(c) for c in certificate.conflicts] == [{"first", "second"}]
    conflict = certificate.conflicts[0]
    assert "different values of the same thing" in conflict.reason
    assert (conflict.points - AT[3]).abs().max() <= 1e-12
    assert "'first' and 'second'" in str(certificate)


def test_contradictions_through_a_combination_are_named():
    """u, u_x and u + u_x at one point cannot be 1, 1 and 3: no two rows are equal, three are dependent."""
    at = AT[:1]
    constraints = [
        PLANE.constraint("u", at=at, equals=1.0, name="value"),
        PLANE.constraint("u_x", at=at, equals=1.0, name="slope"),
        PLANE.constraint("u + u_x", at=at, equals=3.0, name="sum"),
        PLANE.constraint("u", at=AT[4:], equals=0.5, name="innocent"),
    ]
    with pytest.warns(ViolationWarning):
        certificate = cnf.ConstrainedField(RandomFourier(PLANE, 40, 0.3), constraints).solve().certificate
    assert {"value", "slope", "sum"} == set(certificate.conflicts[0])
    assert "contradict each other" in certificate.conflicts[0].reason


def test_redundant_conditions_are_harmless():
    """The same condition twice, and its double: exact, no conflict, rank one per independent condition."""
    constraints = [
        PLANE.constraint("u", at=AT, equals=lambda p: p[:, 0], name="first"),
        PLANE.constraint("u", at=AT[:3], equals=lambda p: p[:, 0], name="again"),
        PLANE.constraint("2 u", at=AT[:2], equals=lambda p: 2 * p[:, 0], name="double"),
    ]
    certificate = (
        cnf.ConstrainedField(RandomFourier(PLANE, 40, 0.3), constraints, on_violation="raise").solve().certificate
    )
    assert certificate.exact
    assert certificate.conflicts == ()
    assert certificate.rank == 8
    assert certificate.conditions == 13


def test_a_condition_the_basis_cannot_meet_is_named():
    """The third derivative of a quadratic is zero, so u_xxx = 1 is out of reach; the values are not to blame."""
    constraints = [
        PLANE.constraint("u", at=AT[:3], equals=1.0, name="value"),
        PLANE.constraint("u_{xxx}", at=AT[:2], equals=1.0, name="third"),
    ]
    with pytest.warns(ViolationWarning):
        certificate = cnf.ConstrainedField(Polynomial(PLANE, 2), constraints).solve().certificate
    assert [tuple(c) for c in certificate.conflicts] == [("third",)]
    assert "every basis function vanishes" in certificate.conflicts[0].reason


def test_more_conditions_than_functions():
    """Refused when the field is built, with the numbers and the way out; least squares on request is NumPy's."""
    constraint = PLANE.constraint("u", at=QUERY, equals=lambda p: torch.sin(4 * p[:, 0]), name="many")
    with pytest.raises(OverdeterminedError, match=r"20 conditions but only 6 .*least_squares=True"):
        cnf.ConstrainedField(Polynomial(PLANE, 2), constraint)
    field = cnf.ConstrainedField(Polynomial(PLANE, 2), constraint, solver=Auto(least_squares=True))
    with pytest.warns(ViolationWarning):
        solution = field.solve()
    x, y = QUERY.numpy().T
    matrix = np.stack([np.ones_like(x), y, x, y**2, x * y, x**2], axis=1)
    expected = np.linalg.lstsq(matrix, np.sin(4 * x), rcond=None)[0]
    assert np.abs(solution(QUERY).detach().numpy()[:, 0] - matrix @ expected).max() <= 1e-12


def test_hermite_is_solved_by_cholesky():
    """Built from the field's own constraints the system is symmetric positive definite; from others it is not."""
    constraints = conditions()
    basis = Hermite(PLANE, constraints, cnf.kernels.Gaussian(0.25))
    solution = cnf.ConstrainedField(basis, constraints).solve()
    matrix = solution.blocks[0].matrix.detach()
    assert solution.certificate.solver == "Cholesky"
    assert (matrix - matrix.T).abs().max() <= 1e-14 * matrix.abs().max()
    assert float(torch.linalg.eigvalsh(matrix).min()) > 0
    moved = [c.at(c.points + 0.02) if c.right_hand_side.known_everywhere else c for c in constraints]
    assert cnf.ConstrainedField(basis, moved).solve().certificate.solver == "LU"


def test_concat_of_trend_and_detail():
    """Polynomial(1) beside kernels far from the query: a linear function is met, and both parts have their weights."""
    space = cnf.Space("x", "u")
    at = torch.linspace(0, 1, 6, dtype=torch.float64)[:, None]
    basis = Concat([Polynomial(space, 1), Kernel(space, at, cnf.kernels.Gaussian(0.1))])
    solution = cnf.ConstrainedField(basis, space.constraint("u", at=at, equals=lambda p: math.pi * p[:, 0])).solve()
    assert solution.weights.shape == (8, 1)
    assert (solution(at)[:, 0] - math.pi * at[:, 0]).abs().max() <= 1e-12


def test_eval_mode_gives_no_partial_gradients(plane, points):
    """In eval mode weights are constants, so parameters get no gradient at all, while points still do, exactly.

    A gradient through the basis functions alone would be wrong by the share that runs through the weights.
    """
    value = plane.constraint("u", at=points, equals=lambda p: p[:, 0] * p[:, 1], name="value")
    basis = cnf.bases.Hermite(plane, [value], cnf.kernels.Gaussian(0.4))
    field = cnf.ConstrainedField(basis, [value], base=nn.Linear(2, 1, dtype=torch.float64)).eval()
    assert not field(points).requires_grad
    x = torch.rand(4, 2, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(field(x).sum(), x)
    assert torch.allclose(slope, field.solve().apply(r"\nabla u", x.detach()), rtol=1e-9)
    assert all(p.requires_grad for p in field.parameters())


def test_a_network_as_right_hand_side_is_trained_with_the_field(plane, points):
    """u = network(x): the network's parameters belong to the field and get the gradient finite differences say."""
    network = nn.Linear(2, 1, dtype=torch.float64)
    value = plane.constraint("u", at=points, equals=network, name="value")
    field = cnf.ConstrainedField(cnf.bases.RandomFourier(plane, 40, 0.6), value)
    assert any(p is network.weight for p in field.parameters())
    x = torch.rand(5, 2, dtype=torch.float64)
    field(x).sum().backward()
    found = network.bias.grad.item()
    with torch.no_grad():
        before = field(x).sum()
        network.bias.add_(1e-4)
        after = field(x).sum()
    assert found == pytest.approx(((after - before) / 1e-4).item(), rel=1e-6)


@pytest.mark.parametrize("name", ["values", "keys", "type", "half"])
def test_coefficients_may_have_any_name(plane, points, name):
    """Learnable coefficients live in torch's containers, whose own methods must not get in the way."""
    for value in (nn.Parameter(torch.tensor(2.0, dtype=torch.float64)), nn.Linear(2, 1, dtype=torch.float64)):
        condition = plane.constraint(rf"\mathrm{{{name}}} u = 1", at=points, name="condition", **{name: value})
        field = cnf.ConstrainedField(cnf.bases.RandomFourier(plane, 40, 0.6), condition)
        assert len(list(field.parameters())) == 1 + (2 if isinstance(value, nn.Module) else 1)


def test_exact_but_wild_solutions_get_a_word_of_caution(plane):
    """Nearly coincident points with different values: met exactly, with huge weights; and reprs stay on one line."""
    pair = torch.tensor([[0.5, 0.5], [0.5 + 1e-7, 0.5]], dtype=torch.float64)
    value = plane.constraint("u", at=pair, equals=torch.tensor([0.0, 1.0], dtype=torch.float64), name="value")
    wild = cnf.ConstrainedField(cnf.bases.RandomFourier(plane, 40, 1.0), value, tolerance=1e-6).solve()
    assert wild.certificate.exact
    assert "cancel" in wild.certificate.advice()
    assert "caution" in str(wild.certificate)
    calm = cnf.ConstrainedField(
        cnf.bases.RandomFourier(plane, 40, 1.0), plane.constraint("u", at=pair[:1], equals=1.0)
    ).solve()
    assert calm.certificate.advice() == ""
    assert len(repr(calm).splitlines()) == len(repr(calm.certificate).splitlines()) == 1
