"""A sample of the random nonlinear problems, and the tools that look at them: what cannot see a lie proves nothing."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
import torch

import cnf
from benchmarks.attack.setting import Setting
from benchmarks.nonlinear_attack.expressions import channels_of, coordinates_of
from benchmarks.nonlinear_attack.looking import Looker
from benchmarks.nonlinear_attack.problems import draw_problem
from benchmarks.nonlinear_attack.verdict import attack
from benchmarks.random_nonlinear import FATAL
from cnf.certificate import Certificate


@pytest.mark.slow
def test_what_is_said_of_random_problems_is_true():
    """60 of another seed than the one lies were looked for with: none is a lie, a crash, silent or slow."""
    outcomes = [attack(7, number) for number in range(60) if number % 20 != 19]
    assert not [(o.number, o.verdict, o.detail) for o in outcomes if o.verdict in FATAL]
    assert sum(o.verdict == "exact" for o in outcomes) >= 20


def test_a_problem_is_the_same_whenever_it_is_asked_for():
    for number in range(20):
        first, second = draw_problem(3, number), draw_problem(3, number)
        assert first.description == second.description
        assert all(np.array_equal(a.values, b.values) for a, b in zip(first.parts, second.parts, strict=True))


def test_a_certificate_that_always_says_exact_is_caught(monkeypatch):
    """u^2 = -1 among others of its kind: a lie if it is called exact."""
    monkeypatch.setattr(Certificate, "exact", property(lambda self: True))
    assert any(attack(0, number).verdict == "lie" for number in (5, 12, 25, 32))


def test_a_field_off_by_little_is_caught(monkeypatch):
    """Values larger by 1e-6 than they were solved for: not seen by a certificate, seen by the reference."""
    asked = cnf.Solution.__call__
    assert attack(0, 56).verdict == "exact"
    monkeypatch.setattr(cnf.Solution, "__call__", lambda self, x: asked(self, x) * (1 + 1e-6))
    assert attack(0, 56).verdict == "lie"


@pytest.mark.parametrize("number", [157, 165])
def test_a_condition_beside_one_that_cannot_hold_is_not_excused(number: int):
    """u^2 = -1 leads to u = 0, where it depends on nothing and asks for any u; u = 1 there is missed by a half."""
    outcome = attack(0, number)
    assert outcome.verdict == "not converged" and "u at 1 points" in outcome.description


def test_the_reference_evaluates_what_is_written():
    """u u_x + sin(u_xx) of u = x^3 at x = 0.5, and the integral of u^2 over [0, 1]: by hand."""
    setting = Setting(("x",), ("u",), np.zeros(1), np.ones(1))
    points = torch.linspace(0, 1, 4, dtype=torch.float64)[:, None]
    cubic = setting.space.constraint("u", at=points, equals=points**3, name="values")
    solution = cnf.ConstrainedField(cnf.bases.Polynomial(setting.space, 3), [cubic]).solve()
    looker = Looker(solution, setting, np.random.default_rng(0), np.ones(1))
    (x,), (u,) = coordinates_of(setting), channels_of(setting)
    seen = looker.row(u * sp.diff(u, x) + sp.sin(sp.diff(u, x, 2)), np.array([[0.5]]), over=False)
    assert seen.value[0] == pytest.approx(0.125 * 0.75 + np.sin(3.0), abs=1e-12)
    assert looker.row(u**2, points.numpy(), over=True).value[0] == pytest.approx(1 / 7, abs=1e-13)


def test_a_double_root_that_is_reached_is_not_called_unique():
    """u^2 - 2 u + 1 = 0 by as many kernels as points: at u = 1 the conditions depend on no weight."""
    outcome = attack(0, 637)
    assert outcome.verdict == "exact" and "locally unique" not in outcome.said
