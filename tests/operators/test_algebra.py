"""The algebra of operators: its laws, and its rules of calculus against SymPy on a concrete field."""

from __future__ import annotations

import pytest
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cnf.errors import OperatorError
from cnf.operators import library as ops
from cnf.operators.coefficients import simplest
from cnf.operators.frame import Frame
from cnf.operators.latex import read_operator
from cnf.operators.operator import Operator, Term
from cnf.operators.place import HERE, over, point
from tests.operators.oracle import acted, assert_equal, t, x

PLANE = Frame(("x", "t"), ("u",), ("t",))
PAIR = Frame(("x", "t"), ("u", "v"), ("t",))
U = x**4 * t**3 + x**2 * sp.exp(t) + 3 * x * t
V = x**3 + t**2 * x
FIELDS = {"u": U, "v": V}

COEFFICIENTS = [sp.Integer(1), sp.Integer(-2), sp.Rational(1, 3), x, t**2, x * t, 1 + x, sp.exp(x), sp.exp(-t) * x]
PLACES = [HERE, HERE, point(x=0), point(x=1 - x), point(x=2 * x, t=1), over("x", 0, 1), over("x", 0, x)]


@st.composite
def operators(draw, places=tuple(PLACES)) -> Operator:
    """One-row operators on the one channel u."""
    terms = []
    for _ in range(draw(st.integers(1, 3))):
        orders = tuple((n, k) for n in ("t", "x") if (k := draw(st.integers(0, 2))))
        terms.append(Term("u", draw(st.sampled_from(COEFFICIENTS)), orders, draw(st.sampled_from(places))))
    return Operator.of([terms], PLANE)


local = operators(places=(HERE,))
modest = settings(max_examples=40, deadline=None)


@modest
@given(operators(), operators(), operators())
def test_addition_is_a_commutative_group(a, b, c):
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a - b == -(b - a)
    assert (a - a).rows == ((),)
    assert 2 * a == a + a
    assert a / 2 + a / 2 == a


@modest
@given(operators(), operators(), operators())
def test_composition_distributes_over_sums(a, b, c):
    assert (a + b) @ c == a @ c + b @ c
    assert a @ (b + c) == a @ b + a @ c
    assert (3 * a) @ b == 3 * (a @ b)


@modest
@given(operators(), local, operators())
def test_composition_is_associative(a, b, c):
    assert (a @ b) @ c == a @ (b @ c)


@modest
@given(operators())
def test_identity_is_neutral(a):
    one = ops.identity("u").bind(PLANE)
    assert one @ a == a == a @ one


@modest
@given(local, local)
def test_composition_acts_one_after_the_other(a, b):
    """(A B) u computed by the library is A applied by SymPy to B applied by SymPy: product rule and all."""
    inner = acted(b, FIELDS)[0]
    assert_equal(acted(a @ b, FIELDS)[0], acted(a, {"u": inner})[0])


@modest
@given(operators(), operators())
def test_equal_operators_have_equal_hashes(a, b):
    for first, second in ((a + b, b + a), (a @ (b + b), 2 * (a @ b)), (a, read_operator(a.to_latex(), PLANE))):
        assert first == second
        assert hash(first) == hash(second)


def test_hash_does_not_depend_on_binding():
    loose = ops.partial("x", 2)
    assert loose == loose.bind(PAIR) and hash(loose) == hash(loose.bind(PAIR))
    assert len({loose, loose.bind(PAIR), ops.partial("x", 2)}) == 1


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 2])
def test_orders_add_under_composition(m, n):
    outer, inner = ops.partial("x", m) * x, ops.partial("t", n) * sp.sin(x)
    assert (outer @ inner).order == m + n
    assert (outer**2).order == 2 * m
    assert (outer @ inner).bind(PLANE).rows[0][0].order <= m + n


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_product_rule(order):
    """d^n (a u) = sum of binomials: the library's composition against SymPy's derivative of the product."""
    factor = sp.sin(x * t) / (1 + x**2)
    operator = (ops.partial("x", order) @ (ops.identity("u") * factor)).bind(PLANE)
    assert_equal(acted(operator, FIELDS)[0], sp.diff(factor * U, x, order))


def test_variable_coefficients_do_not_commute():
    """[d/dx, x] = 1."""
    derivative, multiply = ops.partial("x"), ops.identity() * x
    assert derivative @ multiply - multiply @ derivative == ops.identity()


def test_chain_rule_through_a_substituted_point():
    """d/dx u(x t, sin x) has both slots."""
    moved = Operator.of([[Term("u", place=point(x=x * t, t=sp.sin(x)))]], PLANE)
    operator = ops.partial("x", channel="u") @ moved
    expected = sp.diff(U.subs({x: x * t, t: sp.sin(x)}, simultaneous=True), x)
    assert_equal(acted(operator, FIELDS)[0], expected)


@pytest.mark.parametrize(("lower", "upper"), [(0, x), (x, 1), (-x, x**2), (t, x * t), (0, 1)])
@pytest.mark.parametrize("order", [1, 2])
def test_leibniz_rule_for_variable_limits(lower, upper, order):
    """d/dx int_a(x)^b(x) x s u(s, t) ds, limits and integrand both depending on x."""
    s = sp.Symbol("s", real=True)
    inside = Operator.of([[Term("u", x * symbol_of(place), (), place)] for place in [over("x", lower, upper)]], PLANE)
    operator = ops.partial("x", order).bind(PLANE) @ inside
    integral = sp.integrate(sp.expand(x * s * U.subs(x, s)), (s, lower, upper))
    assert_equal(acted(operator, FIELDS)[0], sp.diff(integral, x, order))


def symbol_of(place) -> sp.Symbol:
    return place.integrals[0].variable


def test_integrals_compose_in_any_order():
    both = ops.integral("x", 0, 1) @ ops.integral("t", 0, 2)
    assert both == ops.integral("t", 0, 2) @ ops.integral("x", 0, 1)
    assert_equal(acted(both.bind(PLANE), FIELDS)[0], sp.integrate(U, (x, 0, 1), (t, 0, 2)))


def test_dependent_limits_keep_their_order():
    """int_0^x int_0^s u(r) dr ds is not int_0^s int_0^x: the inner variable's limit is the outer variable."""
    triangle = ops.integral("x", 0, x, "u").bind(PLANE) @ ops.integral("x", 0, x, "u").bind(PLANE)
    r, s = sp.symbols("r s", real=True)
    assert_equal(acted(triangle, FIELDS)[0], sp.integrate(U.subs(x, r), (r, 0, s), (s, 0, x)))
    assert read_operator(triangle.to_latex(), PLANE) == triangle


def test_fundamental_theorem():
    primitive = ops.integral("x", 0, x, "u").bind(PLANE)
    assert ops.partial("x").bind(PLANE) @ primitive == ops.identity("u").bind(PLANE)
    assert primitive @ ops.partial("x").bind(PLANE) != ops.identity("u").bind(PLANE)


def test_a_point_freezes_what_it_is_applied_to():
    """(x u_x) at x = 2 is 2 u_x(2, t), and differentiating it in x gives nothing."""
    at_two = ops.value_at("u", x=2).bind(PLANE)
    operator = at_two @ (ops.partial("x", channel="u") * x).bind(PLANE)
    assert_equal(acted(operator, FIELDS)[0], (x * sp.diff(U, x)).subs(x, 2))
    assert (ops.partial("x").bind(PLANE) @ operator).rows == ((),)


def test_rows_stack_index_and_refuse_to_mix():
    both = read_operator("u_x; v_t", PAIR)
    assert both[0] == read_operator("u_x", PAIR) and both[1] == read_operator("v_t", PAIR) and len(both) == 2
    with pytest.raises(OperatorError, match="rows"):
        both + both[0]
    with pytest.raises(OperatorError, match="compose"):
        both @ both[0]


def test_channelwise_composition():
    """An operator on the channels (u, v) after one with two rows: row k takes the place of channel k."""
    outer = read_operator("u_x - v; t v", PAIR)
    inner = read_operator(r"x v; \partial_t u", PAIR)
    found = acted(outer @ inner, FIELDS)
    assert_equal(found[0], sp.diff(x * V, x) - sp.diff(U, t))
    assert_equal(found[1], t * sp.diff(U, t))


def test_unequal_data_make_unequal_operators():
    first, second = torch.rand(3), torch.rand(3)
    a, same, b = (read_operator("k u", PAIR, {"k": k}) for k in (first, first.clone(), second))
    assert a == same and a != b
    with pytest.raises(OperatorError, match="two different coefficients"):
        a + b


def test_powers_of_operators():
    advection = ops.partial("t") + 2 * ops.partial("x")
    assert advection**2 == read_operator(r"(\partial_t + 2\partial_x)^2 u; (\partial_t + 2\partial_x)^2 v", PAIR)
    for exponent in (0, -1, 1.5):
        with pytest.raises(OperatorError, match="whole power"):
            advection**exponent


def test_zero_is_found_by_multiplying_out_and_small_is_not_zero():
    """(x + 1)^2 - x^2 - 2 x - 1 is nothing, 1e-30 e^x is something, and so is what vanishes at one point."""
    x, y = sp.symbols("x y", real=True)
    assert simplest((x + 1) ** 2 - x**2 - 2 * x - 1) == 0
    assert simplest((0.1 * x + y) * (x - y) - 0.1 * x**2 - 0.9 * x * y + y**2) == 0
    for something in (sp.Float("1e-30") * sp.exp(x), x - sp.Rational(3, 7), sp.sin(x) * (x - sp.Rational(3, 7))):
        assert simplest(something) == something
