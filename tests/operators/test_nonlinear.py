"""Conditions that are not linear in the field: values against SymPy, slopes against differences, printing, bounds."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
import sympy as sp
import torch

from cnf import Space
from cnf.constraints import Constraint
from cnf.errors import CnfError
from cnf.operators.expansion import Rules, expand
from cnf.operators.latex import read_equation, read_expression, read_operator
from cnf.operators.nonlinear import Constant, NonlinearOperator, State
from cnf.operators.operator import Operator
from tests.operators.oracle import t, x, y

LINE, HEAT, FLOW = Space("x", "u"), Space("x, t", "u, v"), Space("x, y", "u, v, p")
PLANE = Space("x, y", "u")
s = sp.Symbol("s", real=True)
HALF = sp.Rational(1, 2)

# One smooth field per channel, positive where logarithms and roots are taken, and a direction to move it in.
L, DL = 2 + sp.sin(x) + x**2 / 3, sp.cos(2 * x) + x
U, DU = 2 + sp.sin(x) * sp.exp(-t) + x * t, sp.cos(x + t) + x**2
V, DV = 3 + sp.cos(2 * x) * t - x / 2, sp.sin(x * t) + HALF
A, DA = 2 + sp.sin(x) * sp.cos(y) + x * y, sp.cos(x) + y**2
B, DB = 3 + sp.exp(x / 2) * y - x, sp.sin(x + 2 * y)
P, DP = x**2 * y + sp.sin(y), sp.cos(x * y)
FIELDS = {LINE: ((L, DL),), HEAT: ((U, DU), (V, DV)), FLOW: ((A, DA), (B, DB), (P, DP)), PLANE: ((A, DA),)}


def d(f: sp.Expr, *names: sp.Symbol) -> sp.Expr:
    return sp.diff(f, *names)


def lap(f: sp.Expr) -> sp.Expr:
    return d(f, x, x) + d(f, y, y)


def flux(f: sp.Expr) -> sp.Expr:
    """div(f grad u)."""
    return d(f * d(A, x), x) + d(f * d(A, y), y)


def over(f: sp.Expr, lower: object = 0, upper: object = 1, variable: sp.Symbol = x) -> sp.Expr:
    """An integral that is worked out by SymPy's own quadrature, not by the nodes of the library."""
    return sp.Integral(f.subs(variable, s), (s, lower, upper))


@dataclass(frozen=True, eq=False)
class Formula:
    """The field `fields + step directions` of a space, its derivatives by SymPy."""

    space: Space
    step: float = 0.0
    only_direction: bool = False

    def derivatives(self, points: torch.Tensor, indices: Sequence[tuple[int, ...]]) -> dict:
        symbols = [x, t if self.space is HEAT else y][: points.shape[1]]
        columns = points.detach().numpy().T
        found = {}
        for index in indices:
            channels = []
            for value, direction in FIELDS[self.space]:
                parts = [
                    np.broadcast_to(sp.lambdify(symbols, _differentiated(f, symbols, index))(*columns), len(points))
                    for f in (value, direction)
                ]
                channels.append(parts[1] if self.only_direction else parts[0] + self.step * parts[1])
            found[tuple(index)] = torch.tensor(np.stack(channels, axis=1))
        return found


def _differentiated(f: sp.Expr, symbols: Sequence[sp.Symbol], index: Sequence[int]) -> sp.Expr:
    for name, order in zip(symbols, index, strict=True):
        f = sp.diff(f, name, order)
    return f


def applied(operator: Operator, state: State, points: torch.Tensor, rules: Rules | None = None) -> torch.Tensor:
    """A linear operator on a field, (P, R)."""
    total = torch.zeros(points.shape[0], len(operator.rows), dtype=torch.float64)
    for probe in expand(operator, points, rules):
        for r, request in zip(probe.rows, probe.requests, strict=True):
            jets = state.derivatives(probe.points, list(request.weights))
            for index, weight in request.weights.items():
                total[:, r] += (weight * jets[index][:, request.channel]).reshape(-1, probe.nodes).sum(dim=1).detach()
    return total


def missed(constraint: Constraint, state: State) -> torch.Tensor:
    """N[state] - g, from the linear terms and what is beyond them."""
    assert constraint.nonlinear is not None
    asked = constraint.values if constraint.asked is None else constraint.asked
    linear = applied(constraint.nonlinear.linear, state, constraint.points)
    return (linear + constraint.beyond(state)[0] - asked).detach()


POINTS = torch.tensor([[0.1, 0.7], [0.35, 0.2], [0.6, 0.9], [0.85, 0.45]], dtype=torch.float64)
ROWS = torch.tensor([0.5, -1.25, 2.0, 0.75], dtype=torch.float64)  # a coefficient per point
ROW = sp.Symbol("row", real=True)  # stands for it in what SymPy evaluates


def kappa(points: torch.Tensor) -> torch.Tensor:
    return 1 + points[:, 0] ** 2


def law(columns: torch.Tensor) -> torch.Tensor:
    """Of one argument, (P, 1) -> (P, 1)."""
    return torch.exp(columns / 4) + columns**2


def law_of_two(columns: torch.Tensor) -> torch.Tensor:
    return torch.sin(columns[:, 0]) * columns[:, 1] + columns[:, 0] ** 2


def learnt(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


@dataclass(frozen=True)
class Case:
    """An equation, and N - g as SymPy has it for the fields above, row by row."""

    source: str
    space: Space
    rows: list[sp.Expr]
    given: Mapping[str, object] = field(default_factory=dict)


K = 1 + x**2
ROOT = sp.sqrt(1 + d(A, x) ** 2 + d(A, y) ** 2)
SPEED = sp.sqrt(d(A, x) ** 2 + d(A, y) ** 2)
FAST = sp.sqrt(A**2 + B**2)
W = sp.Symbol("w", real=True)
SLOPES = [sp.diff(sp.exp(W / 4) + W**2, W, k) for k in range(4)]  # of the law of one argument
LAW, LAW_ON_LINE, OF_TWO = SLOPES[0].subs(W, A), SLOPES[0].subs(W, L), sp.sin(A) * x + A**2
SCHROEDINGER = [d(V, t) + d(U, x, x) + (U**2 + V**2) * U, d(V, x, x) - d(U, t) + (U**2 + V**2) * V]
MIXED = [A * d(P, x) + B * d(P, y) - d(A, x) * d(B, x) - d(A, y) * d(B, y)]
CUBED = [SLOPES[3].subs(W, L) ** 2 * d(L, x) - SLOPES[0].subs(W, L - 1)]
NESTED = [over(LAW_ON_LINE) - SLOPES[0].subs(W, LAW_ON_LINE) - LAW_ON_LINE.subs(x, 0)]
OUTWARDS = {"k": law, "n": [3, -1]}
EXPRESSION = read_expression("x + u^2", FLOW.frame, with_field=True)
LEARNT = [d(U, t) + U * d(U, x) - 0.3 * (d(U, x, x) + U**3), V**2 - U]
CARRIED = [A * d(f, x) + B * d(f, y) for f in (A, B)]
CASES = [
    # powers, quotients, functions
    Case("u^2 = x", LINE, [L**2 - x]),
    Case("2 + x u v = 0", HEAT, [2 + x * U * V]),
    Case(r"u'' + u^{1.5} - u^{-1/2} = 0", LINE, [d(L, x, 2) + L**1.5 - 1 / sp.sqrt(L)]),
    Case(r"\sin(u) u_x + \frac{u}{1 + u^2} = v", HEAT, [sp.sin(U) * d(U, x) + U / (1 + U**2) - V]),
    Case(r"1/u + \frac{u_x}{v} \cdot u = \sqrt{u}", HEAT, [1 / U + d(U, x) * U / V - sp.sqrt(U)]),
    Case(r"e^u + \ln(v)^2 - \exp{-u} = t", HEAT, [sp.exp(U) + sp.log(V) ** 2 - sp.exp(-U) - t]),
    Case(r"v + u_x^2 = \tanh(u v)", HEAT, [V + d(U, x) ** 2 - sp.tanh(U * V)]),
    Case("u^v = 1", HEAT, [U**V - 1]),
    Case(r"u_{xx} = \lambda \sinh(u)^3", HEAT, [d(U, x, x) - 0.1 * sp.sinh(U) ** 3], {"lambda_": 0.1}),
    Case(r"|u - 5| u_x + \max(u, v) = 0", HEAT, [(5 - U) * d(U, x) + sp.Max(U, V)]),
    Case(r"\partial_x |u_x - 9| = 1", LINE, [-d(L, x, 2) - 1]),
    # products and brackets
    Case("u'' = u(1 - u)", LINE, [d(L, x, 2) - L * (1 - L)]),
    Case("u_t = u(1 - u)", HEAT, [d(U, t) - U * (1 - U)]),
    Case("u_t = u^2(1 - u) + x u(1 - u)(u - v)", HEAT, [d(U, t) - U**2 * (1 - U) - x * U * (1 - U) * (U - V)]),
    Case(r"u_t + \frac{1}{2} \partial_x (u^2) = c u_{xx}", HEAT, [d(U, t) + U * d(U, x) - 3 * d(U, x, x)], {"c": 3}),
    Case(r"(\partial_t + u \partial_x) v = u_t v", HEAT, [d(V, t) + U * d(V, x) - d(U, t) * V]),
    Case(r"\partial_x (u^2 u_x)_x - u u_{xxx} = 0", LINE, [d(L**2 * d(L, x), x, 2) - L * d(L, x, 3)]),
    # vectors
    Case(r"|\nabla u| = 1", FLOW, [SPEED - 1]),
    Case(r"\|\nabla u\|^2 + \lVert p \rVert = \left\| \mathbf{u} \right\|", FLOW, [SPEED**2 + P - FAST]),
    Case(
        r"(\mathbf{u}\cdot\nabla)\mathbf{u} = -\nabla p + \nu\Delta\mathbf{u}; \nabla\cdot\mathbf{u} = 0",
        FLOW,
        [CARRIED[0] + d(P, x) - lap(A) / 8, CARRIED[1] + d(P, y) - lap(B) / 8, d(A, x) + d(B, y)],
        {"nu": 0.125},
    ),
    Case(r"\mathbf{u}\cdot\nabla\mathbf{u} = (x, 1)", FLOW, [CARRIED[0] - x, CARRIED[1] - 1]),
    Case(r"\nabla\cdot((1 + u^2)\nabla u) = y", FLOW, [flux(1 + A**2) - y]),
    Case(r"\nabla\cdot\left(\frac{\nabla u}{\sqrt{1 + |\nabla u|^2}}\right) = 0", FLOW, [flux(1 / ROOT)]),
    Case(r"\nabla\cdot(|\nabla u|^{p-2}\nabla u) = 1", PLANE, [flux(SPEED**1.5) - 1], {"p": 3.5}),
    Case(r"\mathbf{u}\cdot\nabla p = \nabla u\cdot\nabla v", FLOW, MIXED),
    Case(r"u_{xx} u_{yy} - u_{xy}^2 = 1", FLOW, [d(A, x, x) * d(A, y, y) - d(A, x, y) ** 2 - 1]),
    Case(r"v_t + u_{xx} + |\mathbf{f}|^2 u = 0; v_{xx} - u_t + (u^2 + v^2) v = 0", HEAT, SCHROEDINGER),
    Case(r"\max(u - 2, 0) + \partial_x(u^2/2) = \tanh u", LINE, [sp.Max(L - 2, 0) + L * d(L, x) - sp.tanh(L)]),
    # other points, integrals
    Case("u(0)^2 + u^2(1) = 2", LINE, [L.subs(x, 0) ** 2 + L.subs(x, 1) ** 2 - 2]),
    Case("u'(x) u(1 - x) = 2", LINE, [d(L, x) * L.subs(x, 1 - x) - 2]),
    Case(r"u_x^2(0, t) = (u v)(1, t)", HEAT, [d(U, x).subs(x, 0) ** 2 - (U * V).subs(x, 1)]),
    Case(r"u + \partial_x u(0, t)^2 = 1", HEAT, [U + d(U**2, x).subs(x, 0) - 1]),
    Case(r"\int_0^1 u^2 \, dx = 1", LINE, [over(L**2) - 1]),
    Case(r"u + x \int_0^x \sin(u(s, t)) v \, ds = 1", HEAT, [U + x * V * over(sp.sin(U), 0, x) - 1]),
    Case(r"\int_0^2 \sqrt{1 + u_x^2} \, dx = 3", LINE, [over(sp.sqrt(1 + d(L, x) ** 2), 0, 2) - 3]),
    Case(r"\int_0^1 (u^2 + u v + x) \, dx = u^2", HEAT, [over(U**2 + U * V + x) - U**2]),
    # coefficients
    Case(r"a u u_x = f", HEAT, [K * U * d(U, x) - K], {"a": kappa, "f": kappa}),
    Case(r"\partial_x (a u u_x) = 0", HEAT, [d(K * U * d(U, x), x)], {"a": kappa}),
    Case(r"a u_x^2 + u = a", HEAT, [ROW * d(U, x) ** 2 + U - ROW], {"a": ROWS}),
    Case(r"c e^{u/2} + x^2 u^2 = c x", HEAT, [(1 + x * t) * (sp.exp(U / 2) - x) + x**2 * U**2], {"c": 1 + x * t}),
    Case(r"u_t + u u_x = \nu u_{xx} + \nu u^3; v^2 = u", HEAT, LEARNT, {"nu": learnt(0.3)}),
    # laws: callables of the field, and expressions in it that have a name
    Case(r"-\nabla\cdot(k(u)\nabla u) = y", FLOW, [-flux(LAW) - y], {"k": law}),
    Case(r"\mathbf{n}\cdot(k(u)\nabla u) = -u^4", FLOW, [LAW * (3 * d(A, x) - d(A, y)) + A**4], OUTWARDS),
    Case(r"\nabla\cdot(k(u, x)\nabla u) = k(v, y)", FLOW, [flux(OF_TWO) - sp.sin(B) * y - B**2], {"k": law_of_two}),
    Case(r"k'''(u)^2 u_x = k((u - 1))", LINE, CUBED, {"k": law}),
    Case(r"k^{(1,1)}(u, x) = k(|\nabla u|, p)", FLOW, [sp.cos(A) - sp.sin(SPEED) * P - SPEED**2], {"k": law_of_two}),
    Case(r"\int_0^1 k(u) \, dx = k(k(u)) + k(u(0))", LINE, NESTED, {"k": law}),
    Case(r"\nabla\cdot(k(u, x)\nabla u) = k", FLOW, [flux(x + A**2) - x - A**2], {"k": EXPRESSION}),
]  # fmt: skip
EACH = pytest.mark.parametrize("case", CASES, ids=[case.source for case in CASES])


def constraint_of(case: Case) -> Constraint:
    return case.space.constraint(case.source, at=POINTS[:, : len(case.space.coordinates)], **case.given)


def expected(case: Case) -> np.ndarray:
    """N[s] - g by SymPy, (P, R)."""
    second = t if case.space is HEAT else y
    rows = []
    for at, row in zip(POINTS.tolist(), ROWS.tolist(), strict=True):
        here = {x: at[0], second: at[1], ROW: row}
        rows.append([float(sp.N(formula.subs(here), 20)) for formula in case.rows])
    return np.array(rows)


@EACH
def test_values_are_those_of_sympy(case):
    """N[s] - g for a known field; and L[s] - (g - B[s] + B'[s]) of the linearisation around it is the same."""
    constraint, state = constraint_of(case), Formula(case.space)
    value, size = expected(case), 1 + np.abs(expected(case))
    assert (np.abs(missed(constraint, state).numpy() - value) < 1e-12 * size).all()
    around = constraint.around(state)
    assert torch.equal(around.asked, constraint.values)
    found = applied(around.operator, state, around.points) - around.values.detach()
    assert (np.abs(found.numpy() - value) < 1e-12 * size).all()


@EACH
def test_the_linearisation_is_the_derivative(case):
    """Around s, in the direction d: (N[s + h d] - N[s - h d]) / 2h, off by h^2 and by rounding over h."""
    constraint, h = constraint_of(case), 1e-4
    ahead, behind = (missed(constraint, Formula(case.space, step)) for step in (h, -h))
    slope = applied(
        constraint.around(Formula(case.space)).operator, Formula(case.space, only_direction=True), constraint.points
    )
    size = 1 + slope.abs() + ahead.abs()
    assert ((slope - (ahead - behind) / (2 * h)).abs() < 1e3 * h**2 * size).all()
    assert slope.abs().max() > 1e-2  # or nothing was tested


@EACH
def test_what_is_printed_reads_back(case):
    operator, *_ = read_equation(case.source, case.space.frame, case.given)
    assert isinstance(operator, NonlinearOperator)
    again = read_operator(operator.to_latex(), case.space.frame, dict(operator.data))
    assert isinstance(again, NonlinearOperator) and again.to_latex() == operator.to_latex()
    assert again.beyond == operator.beyond and again.linear == operator.linear
    points, state = POINTS[:, : len(case.space.coordinates)], Formula(case.space)
    one, other = (n.parts_at(state, points, {})[0] + applied(n.linear, state, points) for n in (operator, again))
    torch.testing.assert_close(one, other, rtol=1e-13, atol=1e-13)


# -- what is read how ----------------------------------------------------------------------------------------------

LINEAR = [
    ("u^2/u = x", "u", [x]),
    ("(u + 1)^2 - u^2 = 3", "2u", [2]),
    ("(u + x)(u - x) - u^2 + u_x = t", "u_x", [t + x**2]),
    ("u v - v u + x u = v", "x u - v", [0]),
    ("(a u + 1)^2 - a^2 u^2 = v", "2 a u - v", [-1]),
    (r"\int_0^1 ((u + x)^2 - u^2) \, dx = 1", r"\int_0^1 2 x u \, dx", [sp.Rational(2, 3)]),
    (r"u_t = \sqrt{u^2}^2 / u + e^{\ln(2)} v", "u_t - u - 2v", [0]),
]


@pytest.mark.parametrize(("source", "left", "right"), LINEAR, ids=[case[0] for case in LINEAR])
def test_what_is_linear_after_all_is_an_operator(source, left, right):
    given = {"a": kappa} if "(a u" in source else {}
    operator, values, _ = read_equation(source, HEAT.frame, given)
    assert isinstance(operator, Operator)
    assert operator == read_operator(left, HEAT.frame, given)
    assert [sp.expand(a - b) for a, b in zip(values, right, strict=True)] == [0] * len(right)


def test_only_the_row_that_is_linear_after_all_becomes_so():
    operator, values, _ = read_equation("(u + 1)^2 - u^2 = v; u v = 1", HEAT.frame)
    assert isinstance(operator, NonlinearOperator) and operator.beyond[0] == 0
    assert operator.linear == read_operator("2u - v; 0", HEAT.frame) and list(values) == [-1, 1]


@pytest.mark.parametrize("source", ["u^2(1 - x) = 0", "u u'^2(x - 1) = 0"])
def test_a_bracket_behind_a_power_that_may_be_a_point_or_a_factor_is_refused(source):
    """u^2(0) is u at 0, squared; u^2(1 - u) is a product."""
    with pytest.raises(CnfError, match="at another point\\? Not clear"):
        read_equation(source, LINE.frame)


def test_gradients_reach_learnable_numbers():
    """d/dnu of the linearisation of nu u u_x around s, in direction d, and of its values: by hand."""
    nu = learnt(0.5)
    state, direction = Formula(HEAT), Formula(HEAT, only_direction=True)
    around = HEAT.constraint(r"\nu u u_x = 1", at=POINTS, nu=nu).around(state)
    (gradient,) = torch.autograd.grad(around.values.sum(), nu)
    jets = state.derivatives(POINTS, [(0, 0), (1, 0)])
    assert float(gradient) == pytest.approx(float((jets[0, 0] * jets[1, 0])[:, 0].sum()), rel=1e-13)
    (probe,) = expand(around.operator, POINTS)
    moved = direction.derivatives(POINTS, [(0, 0), (1, 0)])
    value = sum((w * moved[index][:, 0]).sum() for index, w in probe.requests[0].weights.items())
    (gradient,) = torch.autograd.grad(value, nu)
    by_hand = (moved[0, 0] * jets[1, 0] + jets[0, 0] * moved[1, 0])[:, 0].sum()
    assert float(gradient) == pytest.approx(float(by_hand), rel=1e-13)


def test_kinks_and_jumps_have_slopes_that_can_be_evaluated():
    """max(u, 0) has slope 1 or 0, sign(u) none, and |u| the sign; on either side of zero."""
    space = Space("x", "u")
    for source, slopes in ((r"\max(u, 0)", (0, 1)), (r"\operatorname{sign}(u) + u", (1, 1)), ("|u|", (-1, 1))):
        constraint = space.constraint(source, at=[[0.5]], equals=0)
        for level, slope in zip((-2.0, 2.0), slopes, strict=True):
            (probe,) = expand(constraint.around(Constant(1, level)).operator, constraint.points)
            assert float(probe.requests[0].weights[0,]) == slope


# -- strings from strangers ------------------------------------------------------------------------------------------

FACTORS = [rf"\cdot (u + {k} v)" for k in range(2, 500)]
HOSTILE = {
    "nested powers": "((u^{64})^{64}) = 1",
    "powers of sums": "((1 + u)^{64} + v)^{64} = 1",
    "tower": "u^{u^{u^u}} = 1",
    "sines": r"\sin(" * 200 + "u" + ")" * 200 + " = 0",
    "sines without brackets": r"\sin" * 200 + " u = 0",
    "as many sines as may be": r"\sin(" * 45 + "u" + ")" * 45 + " = 0",
    "derivatives of sines": r"\partial_x^4" + r"\sin(" * 40 + "u" + ")" * 40 + " = 0",
    "many factors": "u" + "".join(FACTORS) + " = 0",
    "some factors": "u" + "".join(FACTORS[:8]) + " = 0",
    "many squares": " + ".join(f"(u + {k} v)^2" for k in range(500)) + " = 0",
    "many quotients": "".join(rf"\frac{{1}}{{u + {k}}}" for k in range(500)) + " = 0",
    "wide": "(1 + u + v)^{64}(2 + u + v)^{64} = 0",
    "swelling": r"\partial_x^{32}(e^{\sin(e^u)}) = 0",
    "swelling quotient": r"\partial_x^{32} \frac{1}{1 + u^2 + v^2} = 0",
    "power of an operator": r"(u \partial_x)^{32} v = 0",
    "long numbers": "((99999999 u)^8)^8 = 0",
    "nested fractions": r"\frac{1}{1 + " * 45 + "u" + "}" * 45 + " = 0",
    "nested quotients": r"\frac{v}{u + " * 45 + "u" + "}" * 45 + " = 0",
    "nested roots": r"\sqrt{1 + " * 45 + "u" + "}" * 45 + " = 0",
    "nested products": "(1 + u" * 45 + "(1 + u)" + ")" * 45 + " = 0",
    "nested squares": "(" * 40 + "u" + " + 1)^2" * 40 + " = 0",
    "integrals": r"\int_0^1" * 20 + "u^2" + "dx" * 20 + " = 1",
    "letters": "u v" * 3000 + " = 0",
    "brackets": "u" + "(1 - u)" * 1000 + " = 0",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_strings_come_back(name):
    """With a result or an error of the library: in two seconds at most when measured, 20 allow for a busy machine."""
    start = time.perf_counter()
    with contextlib.suppress(CnfError):
        operator, _, _ = read_equation(HOSTILE[name], HEAT.frame)
        assert len(operator.to_latex()) < 10_000
    assert time.perf_counter() - start < 20
