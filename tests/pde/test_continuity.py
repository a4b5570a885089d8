"""Coefficients of the highest derivatives that jump are refused, however they are written; steep ones are not."""

from __future__ import annotations

import pytest
import sympy as sp

import cnf
from cnf.errors import ProblemError
from cnf.pde.problems.continuity import is_continuous, refuse_jumping_coefficients

BOX = cnf.Box((0, 0), (1, 1))


def problem(equation: str, domain: cnf.domains.Domain = BOX, method: str = "auto") -> cnf.Problem:
    equations = {"interior": equation, "boundary": "u = 0"}
    return cnf.Problem("x y", domain=domain, equations=equations, solve={"method": method})


@pytest.mark.parametrize("method", ["patches", "waves", "auto"])
def test_jumps_are_refused_before_anything_is_solved(method: str):
    """k = 1 and 3 beside x = 0.53, as |x - a| / (x - a): it was solved with any flux there, and called exact."""
    with pytest.raises(ProblemError, match=r"jumps near \(0.53.*\[regions\]"):
        problem(r"-\nabla\cdot((2 + \frac{|x - 0.53|}{x - 0.53}) \nabla u) = 1", method=method).solve()


@pytest.mark.parametrize(
    "k",
    [r"2 + \frac{\sqrt{(x + y - 0.9)^2}}{x + y - 0.9}", r"2 + \arctan(\frac{1}{y - 0.3})"],
    ids=["oblique", "arctan"],
)
def test_other_ways_to_jump(k: str):
    with pytest.raises(ProblemError, match="jumps near"):
        refuse_jumping_coefficients(problem(rf"-\nabla\cdot(({k}) \nabla u) = 1"))


@pytest.mark.parametrize(
    "k",
    [r"2 + \tanh(\frac{x - 0.3}{0.0001})", r"1 + |x - 0.3|", r"\exp(3 \sin(20 x) \cos(17 y))", "1 + x^2"],
    ids=["steep", "kink", "rough", "smooth"],
)
def test_what_is_continuous_is_taken(k: str):
    refuse_jumping_coefficients(problem(rf"-\nabla\cdot(({k}) \nabla u) = 1"))


def test_poles_outside_the_domain_and_coefficients_of_lower_order():
    """x / (x^2 + y^2) has its pole in a hole; a jump before u means what it says."""
    ring = cnf.domains.Difference(cnf.domains.Disk((0, 0), 1), cnf.domains.Disk((0, 0), 0.3))
    refuse_jumping_coefficients(problem(r"-\nabla\cdot((9 + \frac{x}{x^2 + y^2}) \nabla u) = 1", ring))
    refuse_jumping_coefficients(problem(r"-\Delta u + (2 + \frac{|x - 0.5|}{x - 0.5}) u = 1"))


def test_what_is_made_of_continuous_functions_is_known_to_be():
    """Sums, products and powers of entire functions have no jump; a quotient, a root or a sign may have one."""
    x, y = sp.symbols("x y", real=True)
    for known in (sp.exp(sp.cos(3 * x + y)), (x - y) ** 3 * sp.Abs(x), sp.tanh(100 * x) + sp.Max(x, y)):
        assert is_continuous(known)
    for open_ in (sp.Abs(x) / x, sp.sqrt(x**2) / x, sp.sign(x), sp.atan(1 / y), sp.tan(x), sp.log(x)):
        assert not is_continuous(open_)
