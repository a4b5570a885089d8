"""The LaTeX reader: meaning against SymPy, agreement with operators built in Python, round trips, errors, hostility."""

from __future__ import annotations

import contextlib
import math
import random
import time

import pytest
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cnf
from cnf.errors import CnfError, LatexError, OperatorError
from cnf.operators import library as ops
from cnf.operators.frame import Frame, symbol
from cnf.operators.latex import read_equation, read_operator
from cnf.operators.operator import Operator, Term
from cnf.operators.place import HERE, over, point
from tests.operators.oracle import acted, assert_equal, t, theta, x, y, z

LINE = Frame(("x",), ("u",))
HEAT = Frame(("x", "t"), ("u", "v"), ("t",))
FLOW = Frame(("x", "y"), ("u", "v", "p"))
SOLID = Frame(("x", "y", "z"), ("u_1", "u_2", "u_3"))
WAVE = Frame(("x", "y", "t"), ("u",), ("t",))
POLAR = Frame(("r", "theta"), ("u", "temp"))
ATLAS = Frame(("x_1", "x_2"), ("u", "w1"))

# One concrete field per channel; polynomials times simple functions, so that SymPy can integrate them.
U = x**3 * t**2 + x * sp.exp(t) + x**2 * t + 2
V = x**2 * t + x**4 + sp.sin(t)
A, B, P = x**3 * y**2 + x * y + y**4, x**2 * y**3 - x + y, x**2 * y + y**3
R = sp.Symbol("r", real=True)
X1, X2 = symbol("x_1"), symbol("x_2")
FIELDS: dict[Frame, dict[str, sp.Expr]] = {
    LINE: {"u": x**5 + x**2 * sp.sin(x) + 3},
    HEAT: {"u": U, "v": V},
    FLOW: {"u": A, "v": B, "p": P},
    SOLID: {"u_1": x * y**2 * z**3, "u_2": x**2 * y * z + z**2, "u_3": x + y**3 * z},
    WAVE: {"u": x**3 * y**2 * t + sp.exp(x) * t**2 + y},
    POLAR: {"u": R**3 * sp.sin(2 * theta), "temp": R**2 * theta**3},
    ATLAS: {"u": X1**3 * X2**2, "w1": X1 * X2},
}
L = FIELDS[LINE]["u"]
W = FIELDS[WAVE]["u"]
U1, U2, U3 = FIELDS[SOLID].values()
Q, TEMP = FIELDS[POLAR].values()
G = FIELDS[ATLAS]["u"]


def d(f: sp.Expr, *names: sp.Symbol) -> sp.Expr:
    return sp.diff(f, *names)


def lap(f: sp.Expr) -> sp.Expr:
    return d(f, x, x) + d(f, y, y)


s = sp.Symbol("s", real=True)
KAPPA = 1 + x**2 * y

# (string, frame, coefficients, the rows SymPy gives for the fields above)
MEANING: list[tuple[str, Frame, dict[str, object], list[sp.Expr]]] = [
    # values and coefficients
    ("u", HEAT, {}, [U]),
    ("2u - v", HEAT, {}, [2 * U - V]),
    (r"\beta u", HEAT, {"beta": 0.25}, [0.25 * U]),
    (r"\lambda u", HEAT, {"lambda_": 3}, [3 * U]),
    (r"\mathrm{speed} u + \text{speed} v", HEAT, {"speed": 2}, [2 * U + 2 * V]),
    ("speed u", HEAT, {"speed": 2}, [2 * U]),
    ("x^2 u", HEAT, {}, [x**2 * U]),
    (r"\sin(\pi x) u", HEAT, {}, [sp.sin(sp.pi * x) * U]),
    (r"\sin x u + \cos 2\pi x\, v", HEAT, {}, [sp.sin(x) * U + sp.cos(2 * sp.pi * x) * V]),
    (r"\sin^2(x) u + \cos^{2} x \, u", HEAT, {}, [U]),
    (r"\sin{\left(\pi x \right)} u", HEAT, {}, [sp.sin(sp.pi * x) * U]),
    (r"\sin(x)^2 u", HEAT, {}, [sp.sin(x) ** 2 * U]),
    (r"\frac{1}{1+x^2} u", HEAT, {}, [U / (1 + x**2)]),
    (r"\tfrac12 u + \dfrac{x}{2} v + \frac 3 4 u", HEAT, {}, [U / 2 + x * V / 2 + 3 * U / 4]),
    (r"\sqrt{x} u + \sqrt[3]{x} v", HEAT, {}, [sp.sqrt(x) * U + x ** sp.Rational(1, 3) * V]),
    (r"e^{-x} u + \exp(-t) v", HEAT, {}, [sp.exp(-x) * U + sp.exp(-t) * V]),
    (r"\ln(1+x) u + \log{\left(1 + x \right)} u", HEAT, {}, [2 * sp.log(1 + x) * U]),
    (r"\log_{10}(x) u", HEAT, {}, [sp.log(x, 10) * U]),
    (r"|x - 1| u + \left|{t}\right| v", HEAT, {}, [abs(x - 1) * U + t * V]),
    (r"\operatorname{asin}{\left(x \right)} u + \arctan x \, v", HEAT, {}, [sp.asin(x) * U + sp.atan(x) * V]),
    (r"\max(x, t) u", HEAT, {}, [sp.Max(x, t) * U]),
    (r"\pi u + e v", HEAT, {}, [sp.pi * U + sp.E * V]),
    ("1e-05 u + .5 v + 2.u", HEAT, {}, [1e-5 * U + V / 2 + 2 * U]),
    (r"3 \cdot 10^{-2} \times u * 2", HEAT, {}, [sp.Rational(6, 100) * U]),
    ("u/2 + 1/2 v", HEAT, {}, [U / 2 + V / 2]),
    ("x(1-x) u + x [1 - x] v", HEAT, {}, [x * (1 - x) * (U + V)]),
    (r"\left( 1 + \big[ x \bigr] \right) \{ u + v \}", HEAT, {}, [(1 + x) * (U + V)]),
    (r"{} 2~{u}\quad - \; (-v)", HEAT, {}, [2 * U + V]),
    ("- -u + - v", HEAT, {}, [U - V]),
    ("a u", HEAT, {"a": 1 + sp.Symbol("x") * sp.Symbol("t")}, [(1 + x * t) * U]),
    ("a(x) u + a(x, t) v", HEAT, {"a": 1 + x}, [(1 + x) * (U + V)]),
    ("u; v + u", HEAT, {}, [U, U + V]),
    (r"u \\ v", HEAT, {}, [U, V]),
    # derivatives
    ("u_x", HEAT, {}, [d(U, x)]),
    ("u_{xxt}", HEAT, {}, [d(U, x, x, t)]),
    ("u_{x x} + u_{x,t}", HEAT, {}, [d(U, x, x) + d(U, x, t)]),
    (r"\partial_x u", HEAT, {}, [d(U, x)]),
    (r"\partial_{xx} u", HEAT, {}, [d(U, x, x)]),
    (r"\partial_{x}\partial_t u", HEAT, {}, [d(U, x, t)]),
    (r"\partial_x^2 u + \partial_{x}^{3} v + \partial^2_{xt} u", HEAT, {}, [d(U, x, x) + d(V, x, 3) + d(U, x, t)]),
    (r"\frac{\partial u}{\partial x}", HEAT, {}, [d(U, x)]),
    (r"\frac{\partial^3 u}{\partial x^2 \partial t}", HEAT, {}, [d(U, x, x, t)]),
    (r"\frac{\partial}{\partial x} u", HEAT, {}, [d(U, x)]),
    (r"\frac{\partial^2}{\partial x^2} (x u)", HEAT, {}, [d(x * U, x, x)]),
    (r"\frac{d^2 u}{dx^2} + \frac{d}{dx} u", LINE, {}, [d(L, x, x) + d(L, x)]),
    (r"\frac{\mathrm{d}u}{\mathrm{d}x}", LINE, {}, [d(L, x)]),
    ("u' + u'' + u^{(3)} + u^\\prime + u^{\\prime\\prime}", LINE, {}, [2 * d(L, x) + 2 * d(L, x, 2) + d(L, x, 3)]),
    (r"\dot u + \ddot{u}", HEAT, {}, [d(U, t) + d(U, t, t)]),
    (r"\dot u", LINE, {}, [d(L, x)]),
    (
        r"\partial_\theta u + u_\theta + u_{\theta\theta} + u_{r\theta}",
        POLAR,
        {},
        [2 * d(Q, theta) + d(Q, theta, 2) + d(Q, R, theta)],
    ),
    (r"\mathrm{temp}_r + temp_\theta", POLAR, {}, [d(TEMP, R) + d(TEMP, theta)]),
    (
        r"\partial_{x_1} u + u_{x_1 x_2} + \frac{\partial u}{\partial x_2}",
        ATLAS,
        {},
        [d(G, X1) + d(G, X1, X2) + d(G, X2)],
    ),
    ("x_1 w1 + \\mathrm{w1}", ATLAS, {}, [(X1 + 1) * X1 * X2]),
    (r"u_1 + u_{1,x} + \partial_y u_2 + \mathrm{u_3}", SOLID, {}, [U1 + d(U1, x) + d(U2, y) + U3]),
    # products, brackets, composition
    (r"x \partial_x u", HEAT, {}, [x * d(U, x)]),
    (r"\partial_x x u", HEAT, {}, [d(x * U, x)]),
    (r"\partial_x (x \partial_x u)", HEAT, {}, [d(x * d(U, x), x)]),
    ("(x^2 u_x)_x", HEAT, {}, [d(x**2 * d(U, x), x)]),
    (r"(\partial_t + c\,\partial_x) u", HEAT, {"c": 2}, [d(U, t) + 2 * d(U, x)]),
    (r"(\partial_t + x \partial_x)^2 u", HEAT, {}, [d(d(U, t) + x * d(U, x), t) + x * d(d(U, t) + x * d(U, x), x)]),
    (r"\frac{\partial_x + x}{2} u", HEAT, {}, [(d(U, x) + x * U) / 2]),
    (r"\nabla\cdot(\kappa \nabla u)", FLOW, {"kappa": KAPPA}, [d(KAPPA * d(A, x), x) + d(KAPPA * d(A, y), y)]),
    (r"\nabla\cdot\kappa \nabla u", FLOW, {"kappa": KAPPA}, [d(KAPPA * d(A, x), x) + d(KAPPA * d(A, y), y)]),
    # vector calculus
    (r"\nabla u", FLOW, {}, [d(A, x), d(A, y)]),
    (r"\nabla u", WAVE, {}, [d(W, x), d(W, y)]),
    (r"\nabla^2 u - \Delta u", FLOW, {}, [sp.S.Zero]),
    (r"(1 - \Delta) u", FLOW, {}, [A - lap(A)]),
    (r"\Delta^2 u", FLOW, {}, [lap(lap(A))]),
    (r"\nabla^4 u", FLOW, {}, [lap(lap(A))]),
    (r"\Delta(\Delta u)", FLOW, {}, [lap(lap(A))]),
    (r"\nabla\cdot\nabla u", FLOW, {}, [lap(A)]),
    (r"\nabla\cdot\mathbf{u}", FLOW, {}, [d(A, x) + d(B, y)]),
    (r"\operatorname{div} \vec{u}", FLOW, {}, [d(A, x) + d(B, y)]),
    (r"\nabla\cdot\boldsymbol u", SOLID, {}, [d(U1, x) + d(U2, y) + d(U3, z)]),
    (r"\nabla\times\mathbf{u}", FLOW, {}, [d(B, x) - d(A, y)]),
    (r"\nabla\times\bm{u}", SOLID, {}, [d(U3, y) - d(U2, z), d(U1, z) - d(U3, x), d(U2, x) - d(U1, y)]),
    (r"\nabla\cdot(\nabla\times\mathbf{u})", SOLID, {}, [sp.S.Zero]),
    (r"\nabla(\nabla\cdot\mathbf{u})", FLOW, {}, [d(d(A, x) + d(B, y), x), d(d(A, x) + d(B, y), y)]),
    (r"-\nabla p + \mu\Delta\mathbf{u}", FLOW, {"mu": 3}, [-d(P, x) + 3 * lap(A), -d(P, y) + 3 * lap(B)]),
    (
        r"\nabla\cdot(\nabla\mathbf{u} + (\nabla\mathbf{u})^T)",
        FLOW,
        {},
        [lap(A) + d(A, x, x) + d(B, x, y), lap(B) + d(A, x, y) + d(B, y, y)],
    ),
    (r"(\mathbf{b}\cdot\nabla) u", FLOW, {"b": [y, 2]}, [y * d(A, x) + 2 * d(A, y)]),
    (r"\mathbf{b}\cdot\nabla u", FLOW, {"b": [y, 2]}, [y * d(A, x) + 2 * d(A, y)]),
    (r"(\mathbf b \cdot \nabla)\mathbf{u}", FLOW, {"b": (1, x)}, [d(A, x) + x * d(A, y), d(B, x) + x * d(B, y)]),
    (r"\mathbf{b}\cdot\nabla\mathbf{u}", FLOW, {"b": (1, x)}, [d(A, x) + x * d(A, y), d(B, x) + x * d(B, y)]),
    (r"\nabla u\cdot\mathbf{n}", FLOW, {"n": torch.tensor([3.0, 4.0])}, [3 * d(A, x) + 4 * d(A, y)]),
    (r"\partial_n u - \frac{\partial u}{\partial n} + u_n", FLOW, {"n": [1, x]}, [d(A, x) + x * d(A, y)]),
    (r"\frac{\partial^2 u}{\partial n^2}", FLOW, {"n": [1, x]}, [d(A, x, x) + 2 * x * d(A, x, y) + x**2 * d(A, y, y)]),
    (r"n_x u_x + n_2 u_y", FLOW, {"n": [5, 7]}, [5 * d(A, x) + 7 * d(A, y)]),
    (r"\mathbf{u}\cdot\hat{\mathbf{n}}", FLOW, {"n": [5, 7]}, [5 * A + 7 * B]),
    (r"\partial_t \mathbf{b}\cdot\nabla u", WAVE, {"b": [1, t]}, [d(d(W, x) + t * d(W, y), t)]),
    (r"\mathbf{b}\times\mathbf{u}", SOLID, {"b": [0, 0, 1]}, [-U2, U1, sp.S.Zero]),
    (r"(1, 2)\cdot\nabla p", FLOW, {}, [d(P, x) + 2 * d(P, y)]),
    (r"\mathbf{u}_x", FLOW, {}, [d(A, x), d(B, x)]),
    # integrals and nonlocal points
    (r"\int_0^1 u \, dx", HEAT, {}, [sp.integrate(U, (x, 0, 1))]),
    (r"\int_0^1\!\int_0^2 u\,dx\,dy", FLOW, {}, [sp.integrate(A, (x, 0, 2), (y, 0, 1))]),
    (r"\int_0^1 x u\,dx", HEAT, {}, [sp.integrate(x * U, (x, 0, 1))]),
    (r"\int_{0}^{x} u \,\mathrm{d}x", HEAT, {}, [sp.integrate(U.subs(x, s), (s, 0, x))]),
    (r"\int_0^x (x - s) u(s, t)\,ds", HEAT, {}, [sp.integrate((x - s) * U.subs(x, s), (s, 0, x))]),
    (r"2 \int_0^1 (u_x + v) \, dx + u", HEAT, {}, [2 * sp.integrate(d(U, x) + V, (x, 0, 1)) + U]),
    (r"\int_0^x \int_0^s u(r, t)\, dr\, ds", HEAT, {}, [sp.integrate(U.subs(x, R), (R, 0, s), (s, 0, x))]),
    (r"\partial_x \int_0^x u(s, t) \, ds", HEAT, {}, [U]),
    (r"\int_0^3 v(0, t)\, dx", HEAT, {}, [3 * V.subs(x, 0)]),
    ("u(0,t) - u(1,t)", HEAT, {}, [U.subs(x, 0) - U.subs(x, 1)]),
    ("u(x,t)", HEAT, {}, [U]),
    ("u(1-x, 2t)", HEAT, {}, [U.subs({x: 1 - x, t: 2 * t}, simultaneous=True)]),
    ("u_x(0,t)", HEAT, {}, [d(U, x).subs(x, 0)]),
    (r"\partial_x u(0,t) + \partial_x^2 v(1,t)", HEAT, {}, [d(U, x).subs(x, 0) + d(V, x, x).subs(x, 1)]),
    (r"\partial_x (u(0,t))", HEAT, {}, [sp.S.Zero]),
    (r"\partial_x (u(2x,t))", HEAT, {}, [d(U.subs(x, 2 * x), x)]),
    (r"\frac{\partial u}{\partial x}(0,t)", HEAT, {}, [d(U, x).subs(x, 0)]),
    (r"(u_x + x v)(1, t)", HEAT, {}, [(d(U, x) + x * V).subs(x, 1)]),
    (r"x u_x(1, t)", HEAT, {}, [x * d(U, x).subs(x, 1)]),
    ("u'(0) + u(1)", LINE, {}, [d(L, x).subs(x, 0) + L.subs(x, 1)]),
    (
        r"\left. u_x \right|_{x=0} + u|_{x=0,t=1} + \partial_x u|_{x=1}",
        HEAT,
        {},
        [d(U, x).subs(x, 0) + U.subs({x: 0, t: 1}) + d(U, x).subs(x, 1)],
    ),
    (r"\mathbf{u}(0, y)", FLOW, {}, [A.subs(x, 0), B.subs(x, 0)]),
]


@pytest.mark.parametrize(("source", "frame", "coefficients", "rows"), MEANING, ids=[m[0] for m in MEANING])
def test_meaning_agrees_with_sympy(source, frame, coefficients, rows):
    """The operator read from the string, applied by SymPy to a concrete field, is what the formula says."""
    operator = read_operator(source, frame, coefficients)
    found = acted(operator, FIELDS[frame])
    assert len(found) == len(rows)
    for one, expected in zip(found, rows, strict=True):
        assert_equal(one, expected)


BUILT = [
    (
        r"\partial_t u + \beta \partial_x u",
        HEAT,
        {"beta": 0.1},
        ops.partial("t", channel="u") + 0.1 * ops.partial("x", channel="u"),
    ),
    (r"\Delta u", FLOW, {}, ops.laplacian("u", FLOW)),
    (r"\nabla u", FLOW, {}, ops.gradient("u", FLOW)),
    (r"\Delta^2 p", FLOW, {}, ops.biharmonic("p", FLOW)),
    (r"\nabla\cdot\mathbf{u}", FLOW, {}, ops.divergence(frame=FLOW)),
    (r"\nabla\times\mathbf{u}", SOLID, {}, ops.curl(frame=SOLID)),
    (r"\mathbf{b}\cdot\nabla p", FLOW, {"b": [1, x]}, ops.directional([1, x], "p", FLOW)),
    ("u(0, t) - u(1, t)", HEAT, {}, ops.value_at("u", x=0) - ops.value_at("u", x=1)),
    (r"\int_0^1 u\,dx", HEAT, {}, ops.integral("x", 0, 1, "u")),
    (r"\int_0^2\int_0^1 u\,dx\,dy", FLOW, {}, ops.integral("y", 0, 2) @ ops.integral("x", 0, 1, "u")),
    (r"\mathbf{f}", HEAT, {}, ops.identity().bind(HEAT)),
]


@pytest.mark.parametrize(("source", "frame", "coefficients", "built"), BUILT, ids=[b[0] for b in BUILT])
def test_reads_to_the_operator_built_in_python(source, frame, coefficients, built):
    read = read_operator(source, frame, coefficients)
    assert read == built.bind(frame)
    assert hash(read) == hash(built.bind(frame))


# -- vectors and data ----------------------------------------------------------------------------------------------


def test_bold_names_a_vector_as_documented():
    """vectors= first, then numbered or spatial channels, then the channel and those after it; f is all channels."""
    two = Frame(("x", "y"), ("p", "u_x", "u_y", "v", "w"))
    assert read_operator(r"\mathbf{u}", two) == read_operator(r"\mathrm{u_x}; \mathrm{u_y}", two)
    assert read_operator(r"\mathbf{v}", two) == read_operator("v; w", two)
    assert read_operator(r"\mathbf{q}", two, {}, {"q": ["w", "p"]}) == read_operator("w; p", two)
    assert len(read_operator(r"\mathbf{f}", two)) == 5
    with pytest.raises(LatexError, match=r"mathbf\{q\} is not known"):
        read_operator(r"\nabla\cdot\mathbf{q}", two)
    with pytest.raises(LatexError, match="only w"):
        read_operator(r"\mathbf{w}", two)
    with pytest.raises(LatexError, match="ambiguous"):
        read_operator(r"\mathbf{u}\cdot\nabla p", two, {"u": [1, 2]})


def test_a_vector_coefficient_may_share_a_channel_name():
    """u=[1, 2] is \\mathbf{u}; plain u stays the channel."""
    assert read_operator(r"\mathbf{u}\cdot\nabla u", FLOW, {"u": [1, 2]}) == read_operator("u_x + 2u_y", FLOW)
    with pytest.raises(OperatorError, match="name of a channel"):
        read_operator("u", FLOW, {"u": 2.0})


def test_normals_per_point_become_row_coefficients():
    """A tensor (P, D) is one vector per point: components n_x, n_y with one value per point, kept as data."""
    normals = torch.rand(7, 2)
    operator = read_operator(r"\mathbf{n}\cdot\nabla u", FLOW, {"n": normals})
    data = dict(operator.data)
    assert set(data) == {"n_x", "n_y"}
    assert torch.equal(data["n_y"], normals[:, 1])
    for same in (r"\partial_n u", r"\frac{\partial u}{\partial n}", r"\nabla u\cdot\mathbf{n}", operator.to_latex()):
        assert read_operator(same, FLOW, {"n": normals}) == operator
    on_atlas = read_operator(r"\partial_n u", ATLAS, {"n": normals})
    assert read_operator(on_atlas.to_latex(), ATLAS, {"n": normals}) == on_atlas
    with pytest.raises(LatexError, match="known only at the points"):
        read_operator(r"\nabla\cdot(\mathbf{n} u)", FLOW, {"n": normals})
    with pytest.raises(LatexError, match="known only at the points"):
        read_operator(r"\int_0^1 a u\,dx", FLOW, {"a": normals[:, 0]})


def test_callable_coefficients_are_differentiated_and_called():
    def kappa(points):
        return 1 + points[:, 0] ** 2

    operator = read_operator(r"\partial_x (\kappa(x) \partial_x u)", HEAT, {"kappa": kappa})
    assert read_operator(r"\kappa u_{xx} + (\partial_x \kappa) u_x", HEAT, {"kappa": kappa}) == operator
    assert read_operator(r"\kappa u_{xx} + \kappa_x u_x", HEAT, {"kappa": kappa}) == operator
    assert read_operator(operator.to_latex(), HEAT, {"kappa": kappa}) == operator
    assert dict(operator.data) == {"kappa": kappa}
    shifted = read_operator(r"\kappa(0, t) u", HEAT, {"kappa": kappa})
    assert shifted != read_operator(r"\kappa u", HEAT, {"kappa": kappa})
    assert read_operator(shifted.to_latex(), HEAT, {"kappa": kappa}) == shifted
    product = read_operator(r"\kappa \cdot (u + v)", HEAT, {"kappa": kappa})
    assert product == read_operator(r"\kappa u + \kappa v", HEAT, {"kappa": kappa})


def test_callable_vectors_are_split_into_components():
    def wind(points):
        return torch.stack([points[:, 1], -points[:, 0]], dim=1)

    operator = read_operator(r"\mathbf{b}\cdot\nabla u", FLOW, {"b": wind})
    points = torch.rand(5, 2)
    assert torch.equal(dict(operator.data)["b_y"](points), -points[:, 0])
    assert read_operator(operator.to_latex(), FLOW, {"b": wind}) == operator


def test_a_learnable_number_stays_symbolic():
    beta = torch.tensor(0.5, requires_grad=True)
    operator = read_operator(r"\beta u_x", HEAT, {"beta": beta})
    assert operator.rows[0][0].coefficient == symbol("beta")
    assert dict(operator.data)["beta"].requires_grad
    assert read_operator(operator.to_latex(), HEAT, {"beta": beta}) == operator


# -- equations -----------------------------------------------------------------------------------------------------

EQUATIONS = [
    ("u = 0", HEAT, {}, "u", [0]),
    (r"u_t = \nu u_{xx} + x^2", HEAT, {"nu": 2}, r"u_t - 2u_{xx}", [x**2]),
    ("u - 1 = v", HEAT, {}, "u - v", [1]),
    ("0 = u - x", HEAT, {}, "u", [x]),
    (r"u - 2(v + \sin(x)) = 3", HEAT, {}, "u - 2v", [3 + 2 * sp.sin(x)]),
    (r"\Delta\mathbf{u} = 0", FLOW, {}, r"\Delta u; \Delta v", [0, 0]),
    (r"\mathbf{u} = (x, y^2)", FLOW, {}, "u; v", [x, y**2]),
    (r"\mathbf{u} = \begin{pmatrix} x \\ y^2 \end{pmatrix}", FLOW, {}, "u; v", [x, y**2]),
    (r"\Delta\mathbf{u} - \nabla p = \mathbf{g}", FLOW, {"g": [1, x]}, r"\Delta u - p_x; \Delta v - p_y", [1, x]),
    ("u = 1; v = x", HEAT, {}, "u; v", [1, x]),
    (r"\int_0^1 (u - x^2) \, dx = t", HEAT, {}, r"\int_0^1 u\,dx", [t + sp.Rational(1, 3)]),
    ("u|_{x=0} - (x + t)|_{x=0} = 0", HEAT, {}, "u(0, t)", [t]),
]


@pytest.mark.parametrize(("source", "frame", "coefficients", "left", "right"), EQUATIONS, ids=[e[0] for e in EQUATIONS])
def test_equations_put_the_field_left_and_all_else_right(source, frame, coefficients, left, right):
    operator, values, data = read_equation(source, frame, coefficients)
    assert operator == read_operator(left, frame)
    assert values is not None and [sp.expand(a - b) for a, b in zip(values, right, strict=True)] == [0] * len(right)
    assert data == {}


def test_equation_data_are_those_of_the_right_hand_side():
    def f(points):
        return points[:, 0]

    observed, scale = torch.rand(4), torch.tensor(2.0, requires_grad=True)
    operator, values, data = read_equation(
        r"a u_t = \sigma f(x) + g", HEAT, {"a": f, "f": f, "g": observed, "sigma": scale}
    )
    assert set(data) == {"f", "g", "sigma"} and dict(operator.data) == {"a": f}
    assert values is not None and len(values) == 1


def test_without_equals_there_is_no_right_hand_side():
    assert read_equation("u_x", HEAT) == (read_operator("u_x", HEAT), None, {})


# -- round trips ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "frame", "coefficients", "rows"), MEANING, ids=[m[0] for m in MEANING])
def test_what_is_printed_reads_back(source, frame, coefficients, rows):
    operator = read_operator(source, frame, coefficients)
    assert read_operator(operator.to_latex(), frame) == operator


COEFFICIENTS = [
    *(sp.Integer(1), sp.Integer(-3), sp.Rational(2, 3), sp.Float(0.1), sp.Float(1e-7), sp.pi, sp.E, sp.sqrt(2), 2**x),
    *(x, t, x**2 * t, 1 + x, abs(x - t), 1 / (1 + x**2), sp.sqrt(1 + t**2), x ** sp.Rational(1, 3), (1 + x) ** x),
    *(sp.sin(sp.pi * x), sp.cos(t) ** 2, sp.sin(x) ** -2, sp.tan(x) / 2, sp.asin(x / 3), sp.atan2(x, t)),
    *(sp.exp(-x * t), sp.log(2 + x), sp.tanh(x), sp.erf(x), sp.sign(x), sp.Max(x, t)),
]
PLACES = [
    HERE,
    point(x=0),
    point(x=1, t=sp.Rational(1, 2)),
    point(x=1 - x),
    point(x=t, t=x),
    point(t=sp.sin(x)),
    over("x", 0, 1),
    over("x", 0, x),
    over("t", -x, sp.exp(x)),
    (ops.integral("x", 0, 1) @ ops.integral("t", 0, x)).rows[0][0].place,
]


@st.composite
def terms(draw) -> Term:
    coefficient = draw(st.sampled_from(COEFFICIENTS)) * draw(st.sampled_from(COEFFICIENTS))
    place = draw(st.sampled_from(PLACES))
    if place.integrals and draw(st.booleans()):
        coefficient *= sp.sin(place.integrals[-1].variable)
    orders = [(n, draw(st.integers(0, 3))) for n in ("t", "x")]
    derivatives = tuple((n, k) for n, k in orders if k)
    return Term(draw(st.sampled_from(["u", "v"])), coefficient, derivatives, place)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.lists(terms(), min_size=1, max_size=3), min_size=1, max_size=2))
def test_any_operator_reads_back_from_its_latex(rows):
    operator = Operator.of(rows, HEAT)
    again = read_operator(operator.to_latex(), HEAT)
    assert again == operator, f"{operator.to_latex()} came back as {again.to_latex()}"


# -- errors --------------------------------------------------------------------------------------------------------

# (string, part of the message, caret column counted from 0)
ERRORS: list[tuple[str, str, int]] = [
    ("u(v, t)", "a point must be free of the field", 2),
    ("v + u|_{x=v}", "a point must be free of the field", 10),
    (r"\int_0^u v \, dx", "a limit must be free of the field", 7),
    (r"\sqrt[u]{x} v", "a root must be free of the field", 6),
    (r"\sin^u(x) v", "a script must be free of the field", 5),
    (r"\log_{u}(x) v", "a script must be free of the field", 6),
    (r"v + (\int_0^1 u \, dx) u", "product or function of an integral", 4),
    (r"v + u \int_0^1 u \, dx", "product or function of an integral", 4),
    (r"(\int_0^1 u \, dx)^2", "product or function of an integral", 0),
    (r"u - \sin(\int_0^1 u \, dx)", "product or function of an integral", 4),
    (r"\int_0^1 (u \int_0^1 v \, dx) \, dx", "product or function of an integral", 10),
    (r"v + \partial_x \int_0^x u^2 \, dx", "cannot be differentiated", 4),
    ("(u + 1)^2 - u^2", "no field in it", 0),
    (r"\|u\|_2", "a subscript has no meaning", 5),
    (r"v + \|u", "never closed", 4),
    (r"\sin(\nabla u)", "must be a scalar", 5),
    (r"v + \frac{1}{\nabla u}", "must be a scalar", 13),
    (r"\nabla u^2 \cdot (1 / (u - u))", "divided by zero", 22),
    (r"\beta u", "give it as a keyword: beta=", 0),
    ("u + k v", "give it as a keyword: k=", 4),
    ("sin(x) u", r"Write \sin", 0),
    ("pi u", r"Write \pi", 0),
    (r"\parital_x u", "Did you mean 'partial'", 0),
    (r"u + \foo v", "not known", 4),
    (r"\mathbf + u", "expected a name", 0),
    (r"\left + u", "expected a bracket", 0),
    (r"\iint u", r"one \int for each", 0),
    ("u_z", "no coordinate 'z'", 2),
    (r"\partial_{xz} u", "no coordinate 'z'", 11),
    (r"\frac{\partial u}{\partial z}", "no coordinate 'z'", 27),
    (r"\frac{\partial^2 u}{\partial x}", "orders do not match", 6),
    (r"\frac{\partial u}{\partial x t}", "expected \\partial", 18),
    ("u + 1", "no field in it", 4),
    ("u - x^2 + v", "no field in it", 4),
    ("x", "no field", 0),
    ("u = 1", "space.constraint", 2),
    ("", "empty", 0),
    ("u +", "ends too early", 3),
    ("u + * v", "did not expect '*'", 4),
    ("(u + v", "never closed", 0),
    ("u + v)", "closes nothing", 5),
    (r"\frac{u}{2", "never closed", 8),
    (r"\left( u \right]", "was expected to close", 9),
    ("(u}", "was expected to close", 2),
    (r"\frac{u}", "ends too early", 8),
    ("_x u", "nothing before", 0),
    ("u__x", "nothing before", 2),
    ("x^2^3 u", "second script", 3),
    ("u_{x}_{t}", "second subscript", 5),
    ("u_xx", "in LaTeX only x", 2),
    ("x^10 u", "write ^{10}", 2),
    ("x^-1 u", "needs braces", 2),
    ("2 3 u", "two numbers", 2),
    ("u(0)", "takes 2 argument(s)", 1),
    ("u(0, t, 1)", "takes 2 argument(s)", 1),
    (r"\partial_x", "what does", 0),
    (r"u + v \partial_x", "what does", 6),
    (r"\Delta + u", "what does", 0),
    (r"\partial u", "with respect to what", 0),
    (r"\partial_{xt}^2 u", "of order 2 or 4", 13),
    (r"\int u \, dx", "both limits", 0),
    (r"u + \int_0^1 v", "no differential", 4),
    (r"\int_0^1 u + v \, dx", "needs brackets", 0),
    (r"\int_0^1 u \, dy", "no coordinate", 15),
    (r"\int_0^1 dx\, u", "is empty", 9),
    ("u''", "a prime is not clear", 1),
    ("x' u", "a prime has no meaning", 1),
    (r"\nabla\cdot u", r"write \mathbf{u}", 0),
    (r"\mathbf{u} + \nabla u + v", "cannot add", 24),
    (r"\mathbf{b}\cdot\nabla u", "b=[...]", 0),
    (r"\nabla^3 u", "even powers", 6),
    (r"\sin", "needs an argument", 0),
    (r"\sin x t u", "what is the argument", 7),
    (r"\sin 2 u", "what is the argument", 7),
    (r"\sin^{-1}(x) u", r"\arcsin", 4),
    (r"\frac{1}{0} u", "divided by zero", 9),
    (r"u + \ln(-1) v", "not a real number", 4),
    (r"u|_{z=0}", "a coordinate and its value", 4),
    (r"\left. u \right| + v", "point behind the bar", 17),
    ("u; v = 1", "space.constraint", 5),
    ("u & v", "pmatrix", 2),
    ("u $", "dollar", 2),
    ("∂u", r"write \partial", 0),
    ("x^{65} u", "too large", 2),
    (r"\partial_x^{33} u", "from 1 to 32", 11),
    (r"\partial_x^{20}\partial_x^{20} u", "order above 32", 0),
    ("__import__('os').system('true')", "cannot be used here", 16),
    ("eval(u)", "not known", 2),
]


@pytest.mark.parametrize(("source", "message", "column"), ERRORS, ids=[e[0] or "empty" for e in ERRORS])
def test_errors_say_what_and_where(source, message, column):
    with pytest.raises(LatexError) as caught:
        read_operator(source, HEAT)
    assert message in str(caught.value)
    assert caught.value.position == column
    if source:
        shown, caret = str(caught.value).splitlines()[-2:]
        assert shown.strip() == source.strip() and caret.index("^") == column + 2


@pytest.mark.parametrize(
    ("source", "message", "column"),
    [
        ("u = 1 = 2", "one '='", 6),
        ("u = 1; v", "no '='", 7),
        (r"\mathbf{u} = (1, 2, 3)", "do not fit", 13),
        ("x = t", "no field", 0),
        ("u =", "ends too early", 3),
        (r"u = \frac{x}{x-x}", "divided by zero", 13),
        (r"u_t = v \int_0^1 u \, dx", "product or function of an integral", 6),
        (r"u_t = |u|_x", "a subscript has no meaning", 9),
        (r"\partial_x^3 |u| = 0", "jumps", 13),
    ],
)
def test_equation_errors(source, message, column):
    with pytest.raises(LatexError, match=message) as caught:
        read_equation(source, FLOW if "mathbf" in source else HEAT)
    assert caught.value.position == column


def test_coefficient_errors():
    cases: list[tuple[str, dict[str, object], str]] = [
        (r"\beta u", {"beta": None}, "expected a number"),
        (r"\beta u", {"bta": 1.0}, "Did you mean 'bta'"),
        ("u", {"beta": 1.0}, "'beta' is given but not used"),
        (r"\beta u", {"beta": 1, "bet": 2}, "'bet' is given but not used. Did you mean 'beta'"),
        ("x u", {"x": 1.0}, "name of a coordinate"),
        (r"c u", {"c": "2"}, "expected a number"),
        (r"c u", {"c": float("nan")}, "finite"),
        (r"c u", {"c": 10**400}, "expected a number"),
        (r"c u", {"c": sp.Symbol("q")}, "unknown symbols"),
        (r"c(x) u", {"c": 2.0}, "is a number, not a function"),
        (r"c(x) u", {"c": x * t}, "also depends on t"),
        (r"c(1 - x) u", {"c": torch.sin}, "takes 2 argument"),
        (r"b u", {"b": [1, 2]}, "is a vector"),
        (r"\mathbf{b}\cdot\nabla u", {"b": [1, 2]}, "has 2 components; expected 1"),
        (r"\partial_x (c u)", {"c": torch.rand(5)}, "cannot be differentiated"),
        (r"c_x u", {"c": 2.0}, "c_x is not known"),
    ]
    for source, coefficients, message in cases:
        with pytest.raises(CnfError) as caught:
            pytest.fail(f"{source} was read as {read_operator(source, HEAT, coefficients)}")
        assert message in str(caught.value), (source, str(caught.value))


@pytest.mark.parametrize("source", [None, b"u", 3, ["u"], float("nan")])
def test_other_things_than_strings_are_refused(source):
    with pytest.raises(OperatorError, match="expected a LaTeX string"):
        read_operator(source, HEAT)


# -- hostility -----------------------------------------------------------------------------------------------------


def noise(length: int, seed: int, alphabet: str = "ux t\\partial_{}()^+-0123456789frac$%#\n\t\x00é") -> str:
    return "".join(random.Random(seed).choices(alphabet, k=length))


HOSTILE = {
    "1 MB of noise": noise(10**6, 0),
    "1 MB that would parse": "u+" * 500_000 + "u",
    "deep brackets": "(" * 4000 + "u" + ")" * 4000,
    "deep braces": "{" * 4000 + "u" + "}" * 4000,
    "deep functions": r"\sin" * 2000 + " x u",
    "deep fractions": r"\frac1" * 1500 + "2 u",
    "deep integrals": r"\int_0^1" * 800 + "u" + "dx" * 800,
    "tower of powers": "9^{9^{9^{9^9}}} u",
    "high power": "x^{999999999} u",
    "power of a power": "((((2x)^{64})^{64})^{64})^{64} u",
    "rational power": r"9^{\frac{999999999}{7}} u",
    "hidden power": "2^{x+1000000000} u",
    "float overflow": r"\exp(\exp(\exp(\exp(9.0)))) u",
    "wide expansion": "(1+x+t)^{64}(2+x+t)^{64} u",
    "nested expansion": "((1+x)^{64}+t)^{64} u",
    "powers of operators": r"(((1+\partial_x)^{32})^{32})^{32} u",
    "powers on a number": r"(((1+\partial_x)^{32})^{32})^{32} 1",
    "swelling derivative": r"\partial_x^{32}(e^{\sin(e^{x t})} u)",
    "swelling quotient": r"\partial_x^{32}(\frac{1}{1+x^2+t^2} u)",
    "swelling nest": r"\partial_x^{8}(" + r"\sin(" * 40 + "x" + ")" * 40 + " u)",
    "long number": "9" * 9000 + " u",
    "huge float": "1e999999999 u",
    "import": "__import__('os').system('touch owned')",
    "lambda": "(lambda: u)()",
    "attribute": "u.__class__",
    "underscores": "_" * 9999,
    "backslashes": "\\" * 9999,
    "bars": "|" * 9999,
    "nul": "u\x00v",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_strings_fail_fast(name):
    """Each is refused with an error of the library, in seconds at most (20 s allows for a busy machine)."""
    start = time.perf_counter()
    with pytest.raises(CnfError):
        read_operator(HOSTILE[name], HEAT)
    assert time.perf_counter() - start < 20


WORDS = (
    r"u v x t 2 .5 \pi e a \beta \mathbf{u} \nabla \Delta \partial_x \partial ^2 ^{2} _x _{xt} ' ( ) [ ] { } | "
    r"\left( \right) + - "
    r"\cdot \times / , ; = \\ \frac \sqrt \sin \log \int_0^1 dx ds u(s) (0,t) |_{x=0} \dot & \mathrm{a} ^T"
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(WORDS.split(" ")), max_size=12))
def test_no_string_raises_anything_else(words):
    with contextlib.suppress(CnfError):
        read_equation(" ".join(words), HEAT, {"a": 2.0} if "a" in words else {})


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_no_text_raises_anything_else(text):
    with contextlib.suppress(CnfError):
        read_operator(text, HEAT)


def test_long_but_honest_strings_are_read():
    terms_ = " + ".join(f"x^{{{k % 60}}} u_x" for k in range(500))
    operator = read_operator(terms_, HEAT)
    assert len(operator.rows[0]) == 1
    assert_equal(operator.rows[0][0].coefficient, sp.Add(*(x ** (k % 60) for k in range(500))))


def test_large_powers_of_e():
    """A boundary layer as textbooks write it, (e^{(x - 1) / d} - e^{-1 / d}) / (1 - e^{-1 / d}) with d = 0.001."""
    layer = cnf.Space("x", "u").constraint(r"u = \frac{e^{1000 (x - 1)} - e^{-1000}}{1 - e^{-1000}}", at=[[0.9995]])
    assert abs(float(layer.values) - math.exp(-0.5)) < 1e-12  # 1000 (x - 1) is rounded
    assert float(cnf.Space("x", "u").constraint(r"u = e^{-100}", at=[[0.0]]).values) == pytest.approx(math.exp(-100))
    with pytest.raises(LatexError, match="too large for a number"):
        cnf.Space("x", "u").operator("e^{800} u")
