"""The derivative engine: forward mode, Faa di Bruno's monomials, quadrature, and the silent traps of torch 2.13."""

from __future__ import annotations

import math
import pathlib
from itertools import product

import numpy as np
import pytest
import scipy.integrate
import sympy as sp
import torch
from sympy.functions.combinatorial.numbers import stirling
from torch import Tensor, nn

import cnf
from cnf import kernels
from cnf.bases import Kernel, SkewedRBF
from cnf.operators import integral, jets, laplacian, partial, rules, value_at
from cnf.operators.expansion import Request, expand
from cnf.operators.forward import derivative, derivatives
from cnf.solvers import LU
from cnf.solvers.adjoint import solve
from tests.bases.contract import nested_autograd

PLANE = cnf.Space("x y", "u")


# -- forward mode ---------------------------------------------------------------------------------------------------


def wavy(x: Tensor) -> Tensor:
    """Three outputs of two coordinates, one of them constant."""
    first = torch.sin(2 * x[:, 0]) * torch.exp(x[:, 1])
    second = 1 / (1 + x[:, 0] ** 2 * x[:, 1] ** 2)
    return torch.stack([first, second, torch.full_like(first, 3.0)], dim=1)


def test_forward_mode_by_sympy():
    """Every partial derivative up to order 5 in two coordinates, by SymPy at 30 digits."""
    x, y = sp.symbols("x y", real=True)
    formulas = [sp.sin(2 * x) * sp.exp(y), 1 / (1 + x**2 * y**2), sp.Integer(3)]
    at = torch.tensor([[0.3, -0.7], [1.1, 0.4]], dtype=torch.float64)
    indices = [i for i in product(range(6), repeat=2) if sum(i) <= 5]
    found = derivatives(wavy, at, indices)
    assert set(found) == set(indices)
    for index in indices:
        for k, formula in enumerate(formulas):
            slope = formula.diff(x, index[0], y, index[1]) if sum(index) else formula
            expected = [
                float(slope.evalf(30, subs={x: sp.Float(p[0], 40), y: sp.Float(p[1], 40)})) for p in at.tolist()
            ]
            assert found[index][:, k].tolist() == pytest.approx(expected, rel=1e-10, abs=1e-12), (index, k)
        if sum(index) <= 2 or index in ((5, 0), (2, 3)):  # alone: every kind
            assert torch.allclose(derivative(wavy, at, index), found[index], rtol=1e-12, atol=1e-12)


def test_forward_mode_evaluates_shared_paths_once():
    """u, u_x, u_xx, u_xxx are on one path: one nested pass yields them all."""
    calls = []

    def counted(x: Tensor) -> Tensor:
        calls.append(1)
        return wavy(x)

    derivatives(counted, torch.zeros(1, 2, dtype=torch.float64), [(k, 0) for k in range(4)])
    assert len(calls) == 1


def test_gradients_flow_through_forward_mode():
    """d/dw of d^2/dx^2 sin(w x) = -2 w sin(w x) - w^2 x cos(w x)."""
    w = torch.tensor(1.7, dtype=torch.float64, requires_grad=True)
    x = torch.linspace(0.1, 1, 4, dtype=torch.float64)[:, None]
    second = derivative(lambda p: torch.sin(w * p), x, (2,))
    second.sum().backward()
    v = w.item()
    expected = (-2 * v * torch.sin(v * x) - v * v * x * torch.cos(v * x)).sum()
    assert w.grad.item() == pytest.approx(expected.item(), rel=1e-12)


# -- Faa di Bruno ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", range(1, 8))
def test_monomials_count_set_partitions(order: int):
    """In one variable the counts of B_{n,m} add up to Stirling numbers, and over m to the Bell number."""
    counts = [sum(count for count, _ in jets.monomials((order,), m)) for m in range(1, order + 1)]
    assert counts == [int(stirling(order, m)) for m in range(1, order + 1)]
    assert sum(counts) == int(sp.bell(order))


@pytest.mark.parametrize("index", [(2, 1), (1, 1, 1), (2, 2), (3, 1), (0, 4), (2, 1, 1), (4, 2)])
def test_monomials_of_several_variables_count_the_same(index: tuple[int, ...]):
    """Splitting derivatives into blocks does not depend on their names: Bell number of the order; orders add up."""
    total = 0
    for parts in range(1, sum(index) + 1):
        for count, factors in jets.monomials(index, parts):
            assert len(factors) == parts
            assert all(sum(f) > 0 for f in factors)
            assert tuple(map(sum, zip(*factors, strict=True))) == index
            total += count
    assert total == int(sp.bell(sum(index)))
    assert jets.monomials(index, 0) == ()
    assert jets.monomials(index, sum(index) + 1) == ()
    assert jets.monomials((0,) * len(index), 0) == ((1, ()),)


@pytest.mark.parametrize("index", [(3,), (4,), (2, 1), (1, 3), (2, 2), (1, 1, 2)])
def test_chain_rule_by_sympy(index: tuple[int, ...]):
    """d^alpha exp(sin-like s(x)): the bundle of s pushed through exp, against SymPy's derivative of the composition."""
    symbols = sp.symbols("x y z", real=True)[: len(index)]
    inner = sum((k + 1) * v**2 for k, v in enumerate(symbols)) / 3 + sp.prod(symbols) + sp.sin(symbols[0])
    at = dict(zip(symbols, [0.3, -0.4, 0.8], strict=False))

    def number(expression: sp.Expr) -> Tensor:
        return torch.tensor([[float(expression.subs(at).evalf(30))]], dtype=torch.float64)

    def diff(expression: sp.Expr, orders: tuple[int, ...]) -> sp.Expr:
        for v, order in zip(symbols, orders, strict=True):
            expression = expression.diff(v, order) if order else expression
        return expression

    bundle = {i: number(diff(inner, i)) for i in jets.closure([index])}
    found = jets.elementwise(bundle, lambda z, n: [torch.exp(z)] * (n + 1))
    for i in jets.closure([index]):
        assert float(found[i]) == pytest.approx(float(number(diff(sp.exp(inner), i))), rel=1e-12), i


def test_closure_and_product_rule_weights():
    """closure is downward closed and starts with the value; binomials are the weights of Leibniz' rule."""
    assert jets.closure([(2, 1)]) == ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1))
    assert sorted(jets.below((1, 2))) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert sum(jets.binomial((3, 2), b) for b in jets.below((3, 2))) == 2**5


# -- quadrature -----------------------------------------------------------------------------------------------------


def applied(operator: object, function, at: Tensor) -> Tensor:
    """An operator on a plain function, through the probes of the expansion alone."""
    total = torch.zeros(at.shape[0], dtype=torch.float64)
    for probe in expand(PLANE.operator(operator), at):
        for request in probe.requests:
            found = derivatives(lambda p: function(p)[:, None], probe.points, request.weights)
            part = sum(w * found[i][:, 0] for i, w in request.weights.items())
            total = total + part.reshape(-1, probe.nodes).sum(dim=1)
    return total


def bell(p: Tensor) -> Tensor:
    return torch.exp(-3 * (p[:, 0] - 0.3) ** 2) * torch.cos(4 * p[:, 1] + p[:, 0])


def bell_numpy(x: float, y: float) -> float:
    return math.exp(-3 * (x - 0.3) ** 2) * math.cos(4 * y + x)


AT = torch.tensor([[0.2, 0.5], [0.9, -0.3]], dtype=torch.float64)


def test_single_integrals_by_scipy():
    """int_{-1}^{2} f(s, y) ds at every y."""
    found = applied(integral("x", -1, 2), bell, AT)
    for value, (_, y) in zip(found.tolist(), AT.tolist(), strict=True):
        assert value == pytest.approx(scipy.integrate.quad(bell_numpy, -1, 2, args=(y,), epsabs=1e-13)[0], abs=1e-11)


def test_limits_may_be_expressions_and_weights_may_be_inside():
    r"""\int_0^{x} s^2 f(s, y) ds: the limit moves with the point, the weight sits under the integral."""
    found = applied(r"\int_0^{x} s^2 u(s, y) \, ds", bell, AT)
    for value, (x, y) in zip(found.tolist(), AT.tolist(), strict=True):
        expected = scipy.integrate.quad(lambda s, y=y: s * s * bell_numpy(s, y), 0, x, epsabs=1e-13)[0]
        assert value == pytest.approx(expected, abs=1e-12)


def test_double_integrals_by_scipy():
    """Over a rectangle, the same from every point."""
    found = applied(integral("x", 0, 1) @ integral("y", -1, 1), bell, AT)
    expected = scipy.integrate.dblquad(lambda y, x: bell_numpy(x, y), 0, 1, -1, 1, epsabs=1e-12)[0]
    assert found.tolist() == pytest.approx([expected] * 2, abs=1e-11)


def test_integral_of_a_derivative_is_a_difference():
    """int_0^1 f_x dx = f(1, y) - f(0, y), and d/dx int_0^x f = f: Leibniz' rule for the limits."""
    found = applied(integral("x", 0, 1) @ partial("x"), bell, AT)
    expected = applied(value_at(x=1) - value_at(x=0), bell, AT)
    assert found.tolist() == pytest.approx(expected.tolist(), abs=1e-12)
    back = applied(partial("x") @ integral("x", 0, sp.Symbol("x", real=True)), bell, AT)
    assert back.tolist() == pytest.approx(bell(AT).tolist(), abs=1e-12)


def test_quadrature_converges_spectrally(monkeypatch):
    """Twice the nodes square the error of an analytic integrand (a rate, not a number); the default is at rounding."""
    expected = scipy.integrate.quad(lambda x: math.cos(40 * x), 0, 1, epsabs=1e-14)[0]
    errors = []
    for nodes in (12, 18, 24):
        monkeypatch.setitem(rules.NODES, 1, nodes)
        errors.append(abs(float(applied(integral("x", 0, 1), lambda p: torch.cos(40 * p[:, 0]), AT[:1])) - expected))
    assert errors[0] > 1e-4
    assert errors[2] < 1e-3 * errors[1] < 1e-3 * errors[0]
    monkeypatch.undo()
    assert abs(float(applied(integral("x", 0, 1), lambda p: torch.cos(40 * p[:, 0]), AT[:1])) - expected) < 1e-14


def test_the_plane_has_as_many_nodes_as_it_needs():
    """A steep analytic front, tanh(12 (x + y - 1)) squared, over the unit square: SciPy's answer to 1e-10."""

    def front(x: float, y: float) -> float:
        return math.tanh(12 * (x + y - 1)) ** 2

    expected = scipy.integrate.dblquad(lambda y, x: front(x, y), 0, 1, 0, 1, epsabs=1e-12, epsrel=1e-12)[0]
    found = applied(
        integral("x", 0, 1) @ integral("y", 0, 1), lambda p: torch.tanh(12 * (p[:, 0] + p[:, 1] - 1)) ** 2, AT[:1]
    )
    assert abs(float(found) - expected) <= 1e-10  # 40 nodes miss it by 2.5e-9, 56 by 7e-13


# -- traps of torch 2.13 (design, section 6): each is silent ----------------------------------------------------------


def spd(theta: Tensor) -> Tensor:
    """A matrix that depends on a number, smoothly and not linearly."""
    base = torch.tensor([[4.0, 1.0, 0.5], [0.2, 3.0, 1.0], [0.3, 0.1, 2.0]], dtype=torch.float64)
    bend = torch.tensor([[0.1, 0.7, 0.2], [0.5, 0.3, 0.9], [0.8, 0.4, 0.6]], dtype=torch.float64)
    return base + torch.sin(theta * bend)


def test_second_derivatives_through_our_solve():
    """x(theta) = A(theta)^-1 b: first and second derivative, against central differences of numpy.linalg.solve."""
    b = torch.tensor([[1.0], [2.0], [-1.0]], dtype=torch.float64)
    theta = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    matrix = spd(theta)
    x = solve(matrix, b, LU().factor(matrix)).sum()
    (first,) = torch.autograd.grad(x, theta, create_graph=True)
    (second,) = torch.autograd.grad(first, theta)

    def value(t: float) -> float:
        return float(np.linalg.solve(spd(torch.tensor(t, dtype=torch.float64)).numpy(), b.numpy()).sum())

    h = 1e-3
    samples = [value(0.4 + k * h) for k in (-2, -1, 0, 1, 2)]
    assert first.item() == pytest.approx(np.dot([1, -8, 0, 8, -1], samples) / (12 * h), rel=1e-9)
    assert second.item() == pytest.approx(np.dot([-1, 16, -30, 16, -1], samples) / (12 * h * h), rel=1e-6)


def test_an_operator_on_a_base_that_solves_inside():
    """A base that calls lu_factor + lu_solve (the right pair): its second derivative, against central differences.

    torch.linalg.solve gives wrong second derivatives there; our generic path must not touch what the user wrote.
    """

    class Solving(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            matrix = torch.eye(2, dtype=x.dtype) * (2 + x[:, :1, None] ** 2) + 0.3 * torch.sin(x[:, 1:, None])
            lu, pivots = torch.linalg.lu_factor(matrix)
            right = torch.stack([x[:, 0], torch.ones_like(x[:, 0])], dim=1)[..., None]
            return torch.linalg.lu_solve(lu, pivots, right).sum(dim=1)

    base, at, h = Solving(), torch.tensor([[0.3, 0.6]], dtype=torch.float64), 1e-3
    second = derivatives(base, at, [(2, 0)])[2, 0]
    shift = torch.tensor([[h, 0.0]], dtype=torch.float64)
    samples = [float(base(at + k * shift)) for k in (-2, -1, 0, 1, 2)]
    assert float(second) == pytest.approx(np.dot([-1, 16, -30, 16, -1], samples) / (12 * h * h), rel=1e-6)


def test_a_solution_under_forward_mode_is_not_zero():
    """A custom autograd.Function under nested jacfwd returns 0. Evaluation never meets ours, as weights do not depend
    on x: forward mode through a solution agrees with reverse mode."""
    at = cnf.Box((0, 0), (1, 1)).halton(8)
    field = cnf.ConstrainedField(SkewedRBF(PLANE, at, 0.3), PLANE.constraint("u", at=at, equals=lambda p: p[:, 0] ** 2))
    solution = field.solve()
    x = at[:3] + 0.05
    forward = derivatives(solution, x, [(2, 0), (1, 1)])
    reverse = nested_autograd(solution, x, [(2, 0), (1, 1)])
    for index in forward:
        assert float(reverse[index].abs().max()) > 1e-3
        assert (forward[index] - reverse[index]).abs().max() <= 1e-9 * reverse[index].abs().max()


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (kernels.Gaussian(0.2), -2 / 0.2**2),  # Laplacian of exp(-r^2 / 2b^2) at 0 in the plane: -2 / b^2
        (kernels.Matern(2.5, 0.2), -2 * (5 / 3) / 0.2**2),  # k = 1 - (5/6) r^2 + ...
        (kernels.Matern(1.5, 0.2), -2 * 3 / 0.2**2),  # k = 1 - (3/2) r^2 + ...
        (kernels.Wendland(1, 0.5), -2 * 20 / 0.5**2),  # k = 1 - 10 r^2 + ...
    ],
    ids=["Gaussian", "Matern-2.5", "Matern-1.5", "Wendland-1"],
)
def test_the_diagonal_of_laplacian_rows(kernel, expected: float):
    """norm()**2 has a NaN or zero Hessian at 0, where the diagonal sits: ours is finite and right, with gradient."""
    at = cnf.Box((0, 0), (1, 1)).halton(6, seed=3)
    basis = Kernel(PLANE, at, kernel)
    constraint = PLANE.constraint(laplacian(), at=at, equals=1.0)
    matrix = cnf.ConstrainedField(basis, constraint).solve().blocks[0].matrix
    assert matrix.diagonal().tolist() == pytest.approx([expected] * 6, rel=1e-11)
    matrix.diagonal().sum().backward()
    assert float(kernel.log_length.grad) == pytest.approx(-2 * 6 * expected, rel=1e-9)  # proportional to length^-2


def test_no_norm_is_squared_in_the_source():
    """The trap itself: no derivative path of the bases takes a norm."""
    root = pathlib.Path(cnf.__file__).parent / "bases"
    for path in root.glob("*.py"):
        text = path.read_text()
        assert ".norm(" not in text and "vector_norm" not in text and "cdist" not in text, path.name


def test_gradients_do_not_need_a_dense_sparse_product():
    """Rows of a basis and their gradient never make a sparse tensor: CSR @ v would build a dense one backward."""
    at = cnf.Box((0, 0), (1, 1)).halton(6, seed=3)
    rows = Kernel(PLANE, at, kernels.Wendland(1, 0.3)).rows(at, [Request(0, {(0, 0): torch.ones((), dtype=at.dtype)})])
    assert rows.layout == torch.strided
