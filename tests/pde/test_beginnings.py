"""Where iterations begin: continuations through any numbers."""

from __future__ import annotations

import warnings

import pytest
import torch

import cnf
from cnf.errors import ProblemError

INTERVAL = {"type": "interval", "from": 0, "to": 1}
MIDDLE = torch.tensor([[0.5]], dtype=torch.float64)


def cubic(a: float, **ways: object) -> cnf.Problem:
    """u'' + a u^3 = 2 between ones: linear for a = 0."""
    equations = {"interior": "u'' + a u^3 = 2", "boundary": "u = 1"}
    solve = {"method": "patches", "target": 1e-8} | ways
    return cnf.Problem("x", domain=INTERVAL, parameters={"a": a}, equations=equations, solve=solve)


@pytest.mark.parametrize(("a", "values"), [(1.0, [0]), (-1.0, [0, -0.5]), (2.0, [-1, 0.0, 2, 1])])
def test_continuations_pass_through_zero_and_signs(a: float, values: list[float]):
    """All values are solved for, in their order, a value that is the last one's as well; the answer is that of no way."""
    answer = cubic(a, continuation={"a": values}).solve()
    assert [step.values["a"] for step in answer.passed] == [*values, a] and all(step.found for step in answer.passed)
    assert answer.certificate.exact
    assert float(answer(MIDDLE)) == pytest.approx(float(cubic(a).solve()(MIDDLE)), abs=1e-9)


@pytest.mark.slow
def test_steps_from_zero_become_short_enough_to_end():
    """Bratu's equation from a = 0 to beyond its fold at 3.51: steps are halved, and the value that is not passed told."""
    equations = {"interior": "u'' + a e^u = 0", "boundary": "u = 0"}
    solve = {"method": "patches", "continuation": {"a": [0]}}
    problem = cnf.Problem("x", domain=INTERVAL, parameters={"a": 4.0}, equations=equations, solve=solve)
    with warnings.catch_warnings(), pytest.raises(ProblemError, match=r"does not get past a = 3\.5"):
        warnings.simplefilter("ignore")
        problem.solve()


def test_values_of_a_continuation_are_finite_numbers():
    for value in (float("nan"), float("inf"), "1", True):
        with pytest.raises(ProblemError, match="expected a number"):
            cubic(1.0, continuation={"a": [value]})


def test_steps_beside_zero_are_measured_by_the_largest_value():
    """Halving steps from zero on must end, or a continuation that is stuck there would take all its steps."""
    from cnf.pde.problems.beginning import NARROWEST, _between, _gap

    step, count = 1.0, 0
    while _gap({"a": 0.0}, {"a": step}, {"a": 1.0}) >= NARROWEST:
        step, count = _between(0.0, step), count + 1
    assert count == 10
    assert _between(-1.0, 2.0) == 0.5 and _between(-4.0, -1.0) == -2.0
    assert _gap({"a": 0.0}, {"a": 0.0}, {"a": 0.0}) == 0.0
