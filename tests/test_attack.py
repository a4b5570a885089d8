"""The attack's own tools: a reference that cannot see a lie, or sees one where there is none, proves nothing."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from scipy.integrate import dblquad, quad

import cnf
from benchmarks.attack.extended import Extended
from benchmarks.attack.problems import KINDS, draw_problem
from benchmarks.attack.quadrature import integrate
from benchmarks.attack.verdict import attack
from cnf.certificate import Certificate


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cnf.errors.CnfWarning)
        yield


def test_a_case_is_the_same_whenever_it_is_asked_for():
    for number in range(len(KINDS)):
        first, second = draw_problem(5, number), draw_problem(5, number)
        assert first.description == second.description
        for a, b in zip(first.parts, second.parts, strict=True):
            assert np.array_equal(a.points, b.points)
            assert np.array_equal(a.values, b.values)


@pytest.mark.slow
def test_a_certificate_that_always_says_exact_is_caught(monkeypatch):
    """Repeated points with other values cannot hold; called exact, some of these problems are lies."""
    monkeypatch.setattr(Certificate, "exact", property(lambda self: True))
    monkeypatch.setattr("cnf.solving.judge", lambda *given: None)
    step, first = len(KINDS), list(KINDS).index("twice")
    verdicts = [attack(0, first + k * step).verdict for k in range(4)]
    assert "lie" in verdicts


def test_a_field_off_by_little_is_caught(monkeypatch):
    """Values larger by 1e-7 than they were solved for: not seen by a certificate taken before, seen by every query."""
    asked = cnf.Solution.__call__
    monkeypatch.setattr(cnf.Solution, "__call__", lambda self, x: asked(self, x) * (1 + 1e-7))
    first = list(KINDS).index("values")
    outcomes = [attack(0, first + k * len(KINDS)) for k in range(4)]
    assert any(o.verdict == "lie" for o in outcomes)


def test_quadrature_against_scipy():
    """A peak of width 1e-5 with break points around it, and a double integral; SciPy's numbers."""
    centre, width = 0.3712345, 1e-5

    def peak(x):
        return np.exp(-(((x - centre) / width) ** 2)) / width

    breaks = [centre + k * width for k in (-30, -6, -3, 0, 3, 6, 30)]
    expected = quad(peak, 0, 1, points=breaks, limit=200)[0]
    found, error = integrate(lambda x: peak(x[:, 0]), [0.0], [1.0], [breaks], 0.0)
    assert found == pytest.approx(expected, rel=1e-12)
    assert found == pytest.approx(math.sqrt(math.pi), rel=1e-12)
    assert error < 1e-10
    expected = dblquad(lambda y, x: math.sin(5 * x * y), 0, 1, -1, 2, epsabs=1e-13, epsrel=1e-13)[0]
    found, _ = integrate(lambda p: np.sin(5 * p[:, 0] * p[:, 1]), [0.0, -1.0], [1.0, 2.0], [[], []], 0.0)
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["derivatives", "calculus", "encoded"])
def test_fields_in_many_digits_are_the_fields(kind):
    """Values and slopes by textbook formulas in a hundred digits: the solution's, where its weights are moderate."""
    step, first, compared = len(KINDS), list(KINDS).index(kind), 0
    for number in range(first, first + 6 * step, step):
        problem = draw_problem(11, number)
        try:
            solution = problem.build().solve()
            if not solution.weights.abs().max() < 1e3:
                continue
        except (cnf.errors.CnfError, AttributeError):
            continue
        parts = [(part.asked, part.points) for part in problem.parts]
        point = problem.setting.random_points(problem.rng, 1)
        value, slope = (tuple(int(k == 0) * order for k in range(point.shape[1])) for order in (0, 1))
        if solution.basis.smoothness == 0:
            slope = value
        with torch.no_grad():
            own = solution.derivatives(torch.tensor(point), [value, slope])
        for index in (value, slope):
            expected = float(Extended(solution, parts).derivative(0, index, point[0]))
            assert float(own[index][0, 0]) == pytest.approx(expected, rel=1e-9, abs=1e-9)
            compared += 1
    assert compared >= 2
