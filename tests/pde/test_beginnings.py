"""Where iterations begin: continuations through any numbers, starts that are numbers, and what plays no part."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import pytest
import torch

import cnf
from cnf.errors import CnfWarning, ProblemError

INTERVAL = {"type": "interval", "from": 0, "to": 1}
MIDDLE = torch.tensor([[0.5]], dtype=torch.float64)


def cubic(a: float, **ways: object) -> cnf.Problem:
    """u'' + a u^3 = 2 between ones: linear for a = 0."""
    equations = {"interior": "u'' + a u^3 = 2", "boundary": "u = 1"}
    solve = {"method": "patches", "target": 1e-8} | ways
    return cnf.Problem("x", domain=INTERVAL, parameters={"a": a}, equations=equations, solve=solve)


@pytest.mark.parametrize(("a", "values"), [(1.0, [0]), (-1.0, [0, -0.5]), (2.0, [-1, 0.0, 2, 1])])
def test_continuations_pass_through_zero_and_signs(a: float, values: list[float]):
    """All values are solved for, in their order, the last one's too; the answer is that of no way."""
    answer = cubic(a, continuation={"a": values}).solve()
    assert [step.values["a"] for step in answer.passed] == [*values, a] and all(step.found for step in answer.passed)
    assert answer.certificate.exact
    assert float(answer(MIDDLE)) == pytest.approx(float(cubic(a).solve()(MIDDLE)), abs=1e-9)


@pytest.mark.slow
def test_steps_from_zero_become_short_enough_to_end():
    """Bratu's equation from a = 0 to beyond its fold at 3.51: steps are halved, the value not passed is told."""
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


@pytest.mark.parametrize(
    ("ways", "message"),
    [
        ({"start": r"\sqrt{x - 1}"}, r"start of u is not a number at x = 0\.\d+, nor at 399 others of 400 points"),
        ({"start": {"u": r"\ln(x - 0.5)"}}, "not a number at x = 0"),
        ({"start": {"v": "1"}}, "no channel 'v'; the only one is u"),
        ({"continuation": {"q": [1, 2]}}, "'q' is no parameter; numbers that can be changed: a"),
        ({"continuation": {"k": [1, 2]}}, "'k' is not a number; numbers that can be changed: a"),
    ],
)
def test_beginnings_that_are_none(ways: dict, message: str):
    """What is wrong is said when the problem is read, in the words of the problem."""
    equations = {"interior": "u'' + a u^3 = k(u)", "boundary": "u = 1"}
    with pytest.raises(ProblemError, match=message):
        cnf.Problem("x", domain=INTERVAL, parameters={"a": 1, "k": "1 + u"}, equations=equations, solve=ways)


def test_a_start_may_be_singular_outside():
    """Only points of the domain count."""
    assert cubic(1.0, start=r"\sqrt{x} \ln(x)").start is not None


@pytest.mark.parametrize("ways", [{"start": "1"}, {"continuation": {"a": [1]}}])
def test_beginnings_of_linear_problems_are_noted(ways: dict):
    """By the check and by the answer; those of nonlinear ones are not."""
    (name,) = ways
    linear = cubic(0.0, **ways)
    assert any(note.startswith(f"{name} plays no part") for note in linear.check().notes)
    assert any(line.startswith(f"note: {name} plays no part") for line in linear.solve().verdict())
    assert not any("plays no part" in note for note in cubic(2.0, **ways).check().notes)


def test_columns_that_no_equation_uses_are_noted(tmp_path: Path):
    """u = e is Euler's number without a column of that name; a column that another equation uses is used."""
    (tmp_path / "data.csv").write_text("x,d,s\n0.0,1.0,2.0\n1.0,1.0,2.0\n")

    def notes(*latex: str) -> list[str]:
        equations = [{"on": "interior", "equation": "u'' = 0"}, *({"file": "data.csv", "equation": e} for e in latex)]
        problem = cnf.Problem("x", domain=INTERVAL, equations=equations, folder=tmp_path, points={"count": 20})
        found = [note for note in problem.check().notes if "column" in note]
        assert [line for line in problem.solve().verdict() if "column" in line] == [f"note: {note}" for note in found]
        return found

    assert notes("s u = e") == ["no equation uses the column 'd' of data.csv"]
    assert notes("u = 1", "u = d") == ["no equation uses the column 's' of data.csv"]
    assert notes("s u = 2 d") == []


@pytest.mark.parametrize("start", [["u = 0.5", r"\dot u = 0"], r"u = 0.5; \dot u = 0"])
def test_lists_of_equations(start: object, tmp_path: Path):
    """In a table of equations and in entries: the same as with a semicolon, and as two entries."""
    apart = [{"on": "interior", "equation": "u'' = -u"}, {"on": "t = 0", "equation": "u = 0.5"}]
    apart += [{"on": "t = 0", "equation": r"\dot u = 0"}]
    together = [{"on": "interior", "equation": "u'' = -u"}, {"on": "t = 0", "equation": start}]
    forms = [apart, together, {"interior": "u'' = -u", "t = 0": start}]
    solve = {"method": "patches"}
    answers = [cnf.Problem("t", domain=INTERVAL, equations=form, solve=solve).solve() for form in forms]
    values = [float(answer(MIDDLE)) for answer in answers]
    assert values == pytest.approx([0.5 * math.cos(0.5)] * 3, abs=1e-12)


@pytest.mark.parametrize("bad", [[], ["u = 0.5", 3], ["u = 0.5", ""]])
def test_lists_of_anything_else_are_refused(bad: list):
    with pytest.raises(ProblemError, match="expected"):
        cnf.Problem("t", domain=INTERVAL, equations={"interior": "u'' = -u", "t = 0": bad})


def test_what_did_not_converge_is_not_told_to_use_more_points():
    """The p-Laplacian from zero, where its linearisation vanishes: one message, and no raw warning of NumPy."""
    equations = {"interior": r"-\nabla\cdot(|\nabla u|^2 \nabla u) = 1", "boundary": "u = 0"}
    square = {"type": "box", "lower": [0, 0], "upper": [1, 1]}
    problem = cnf.Problem("x y", domain=square, equations=equations, solve={"method": "patches"})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        verdict = problem.solve().verdict()
    assert [w.category for w in said if not issubclass(w.category, CnfWarning)] == []
    assert any("NOT RESOLVED" in line and "may be no solution" in line for line in verdict)
    assert any("NOT REACHED" in line and "start" in line and "continuation" in line for line in verdict)
    assert not any("more points" in line or "data jump" in line or "that jump" in line for line in verdict)


def test_remedies_of_fields_that_are_not_resolved():
    """Linear fields hear of points and data; converged nonlinear ones of other solutions too."""

    def remedy(latex: str, **ways: object) -> str:
        domain, equations = {"type": "interval", "from": 0, "to": 1}, {"interior": latex, "boundary": "u = 0"}
        return cnf.Problem("x", domain=domain, equations=equations, solve=ways, points={"count": 20}).solve().remedy

    assert "no solution" not in remedy("u'' = 1") and remedy("u'' = 1").startswith("Use more points")
    assert "start or continuation" in remedy("u'' = 1 + u^2") and "more points" in remedy("u'' = 1 + u^2")
    assert remedy("u'' = 1", method="waves") == remedy("u'' = 1")
