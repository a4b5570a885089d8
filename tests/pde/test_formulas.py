"""Formulas as they are looked at before anything is solved: bounds that hold, and as many points as they need."""

import numpy as np
import pytest
import sympy as sp
import torch

import cnf
from cnf.bases.cells import Cells
from cnf.operators.coefficients import data_function
from cnf.operators.field_functions import Jet
from cnf.operators.frame import symbol
from cnf.pde.patches.asked import asked_formulas
from cnf.pde.patches.building import orders_of
from cnf.pde.patches.formulas import Formula, _looks, _values, follow
from cnf.pde.problems.asking_patches import question_of
from cnf.systems.states import Differentiated

X, Y = symbol("x"), symbol("y")
SQUARE = {"type": "box", "lower": [0, 0], "upper": [1, 1]}
BOUNDED = {
    "waves": sp.sin(7 * X) * sp.cos(3 * Y) + X * Y,
    "a layer": (X - sp.exp((X - 1) / 0.01)) * sp.cos(2 * Y),
    "a field of exponentials": sp.exp(sp.sin(9 * X + 2) + sp.cos(5 * Y - 4 * X)),
    "a pole nearby": X / (0.01 + (X - 0.4) ** 2 + (Y - 0.6) ** 2),
    "a kink": sp.Abs(X - 0.3) * Y,
    "a jump": sp.sign(X - 0.3217) * (1 + Y),
    "a tangent": sp.tan(2 * X + Y),
}


def formula(expression: sp.Expr, **data: object) -> Formula:
    return Formula(expression, ("x", "y"), data)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", BOUNDED)
def test_bounds_hold_and_become_sharp(name: str):
    """|f| at 400 points of each of 200 boxes; where f is smooth, small boxes are bounded to a second order."""
    rng, asked = np.random.default_rng(1), formula(BOUNDED[name])
    for width in (0.5, 0.05, 0.005):
        low = rng.uniform(0, 1 - width, (200, 2))
        high = low + width * rng.uniform(0.1, 1, (200, 2))
        inside = low[:, None] + (high - low)[:, None] * rng.uniform(size=(200, 400, 2))
        largest = np.abs(_values(asked, inside)).max(axis=1)
        bound = asked.bound(low, high, _values(asked, (low + high) / 2))
        assert (bound >= largest * (1 - 1e-12)).all()
    if name in ("waves", "a field of exponentials"):
        assert np.median(bound / largest) < 1.02


def test_looks_follow_the_pace():
    """Few points for a slow sine, many along a layer, all there are for callables and kinks, which say nothing.

    Where there are as many as the pace asks for, 8 per unit, nothing can hide: not along the layer, for which 512 are
    too few, nor where nothing is known.
    """
    low, high, degree = np.zeros((1, 2)), np.ones((1, 2)), (10, 10)
    counts, seen = _looks(formula(sp.sin(2 * X)), low, high, degree, 2**18)
    assert counts == [22, 22] and seen.all()
    (along, across), seen = _looks(formula(sp.exp(-100 * X) * sp.sin(Y)), low, high, degree, 2**18)
    assert along == 512 and across == 22 and not seen.any()
    asked = data_function("f", (0, 0))(X, Y)
    counts, seen = _looks(formula(asked, f=lambda x: x[:, 0]), low, high, degree, 2**18)
    assert counts == [512, 512] and not seen.any()
    counts, seen = _looks(formula(sp.Abs(X - 0.3)), low, high, degree, 2**18)
    assert counts[0] == 512 and not seen.any()


def test_a_small_bump_is_no_peak_and_is_seen():
    """1 + 0.01 e^{-((x - 0.3137) / 0.003)^2} is hardly larger anywhere: points as close as its width find it."""
    asked = formula(1 + 0.01 * sp.exp(-(((X - 0.3137) / 0.003) ** 2)))
    cells = follow(Cells([0, 0], [1, 1]), [8, 8], [asked], 1e-6, 0, None)
    near = (cells.lower[:, 0] <= 0.3137) & (cells.upper[:, 0] > 0.3137)
    assert (cells.upper - cells.lower)[near, 0].max() < 0.02


def test_rounding_is_not_followed():
    """(x - e^{x}) sin(pi y) on the side y = 1 is 1e-16 and nothing but rounding: no cell is cut for it."""
    rounded = Formula((X - sp.exp(X)) * sp.sin(sp.pi * Y), ("x", "y"), {}, axis=1, position=1.0)
    other = Formula(rounded.expression, ("x", "y"), {}, axis=0, position=1.0)
    assert follow(Cells([0, 0], [1, 1]), [10, 10], [rounded, other], 1e-3, 0, None).count == 1


def test_second_opinions_are_not_certified(monkeypatch: pytest.MonkeyPatch):
    """The certificate of a field that only says how far another one is off would be measured for nothing."""
    measured: list[int] = []
    certify = cnf.solution.certify
    monkeypatch.setattr("cnf.solution.certify", lambda *given: measured.append(1) or certify(*given))
    problem = cnf.Problem(
        "x y",
        domain=SQUARE,
        equations={"interior": r"-\Delta u = 2 \sin(x) \sin(y)", "boundary": r"u = \sin(x) \sin(y)"},
        solve={"method": "patches", "target": 1e-6},
    )
    answer = problem.solve()
    assert answer.certificate.exact and len(measured) == len(answer.tuning.trials) == 1


def test_settled_fields_are_measured_when_asked():
    """1 at one point, twice: nothing is said of it until somebody asks for the certificate."""
    space = cnf.Space("x", "u")
    points = torch.zeros(1, 1, dtype=torch.float64)
    twice = [space.constraint("u", at=points, equals=v, name=f"{v}") for v in (1.0, 2.0)]
    field = cnf.ConstrainedField(cnf.bases.Polynomial(space, degree=3), twice).eval()
    found = field.settle(measure=False)
    assert found.spot_check is None and field.solution is found
    with pytest.warns(cnf.errors.CnfWarning):
        assert not found.certificate.exact
    with pytest.warns(cnf.errors.ViolationWarning) as said:
        cnf.ConstrainedField(cnf.bases.Polynomial(space, degree=3), twice).eval().solution  # noqa: B018
    assert said[0].filename == __file__


def test_nothing_hides_in_the_field_a_nonlinear_equation_starts_from():
    """Coefficients of the first linearisation: the field alone is not searched for peaks, a formula beside it is.

    (1 + u_y^2) u_xx has the coefficient 1 + u_y^2, a field; the peak of width 0.01 before u^3 has 3 f(x) u^2.
    """
    peak = r"e^{-10000 (x - 0.3)^2}"
    problem = cnf.Problem(
        "x y",
        domain=SQUARE,
        equations={
            "interior": rf"(1 + u_y^2) u_{{xx}} + (1 + u_x^2) u_{{yy}} + {peak} u^3 = 0",
            "boundary": "u = x^2 + y",
        },
    )
    question = question_of(problem).around(Differentiated(lambda x: x[:, :1] ** 2 + x[:, 1:]))
    found = [f for f in asked_formulas(question, orders_of(question)) if f.expression.has(Jet)]
    assert {f.hidden for f in found} == {True, False}
    for asked in found:
        assert asked.hidden == asked.expression.has(sp.exp)
