"""The comparison on nonlinear problems: problems, formulas and measuring, with no peer installed."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest
import sympy as sp

from benchmarks import peers
from benchmarks.peer_scripts import nonlinear_cnf_peer
from benchmarks.peer_scripts.measuring import Solved, measure
from benchmarks.peer_scripts.nonlinear_problems import (
    FASTLSQ_OWN,
    HARDER,
    NONLINEAR,
    NONLINEAR_DOES_NOT_APPLY,
    NONLINEAR_METHODS,
    NU,
    cole_hopf,
)

x, y, t = sp.symbols("x y t")
a = 20 - sp.sqrt(400 + 4 * sp.pi**2)
wave = sp.sin(sp.pi * x) * sp.sin(sp.pi * y)
fine = sp.sin(4 * sp.pi * x) * sp.sin(4 * sp.pi * y)

# The solutions a second time, in symbols; that of Burgers' equation is an integral and has a test of its own.
SOLUTIONS: dict[str, tuple[sp.Expr, ...]] = {
    "nl-poisson": (wave,),
    "bratu": (wave,),
    "steady-burgers": (sp.sin(2 * sp.pi * x),),
    "nl-helmholtz": (sp.sin(3 * x) * sp.sin(3 * y),),
    "allen-cahn": (sp.sin(sp.pi * x),),
    "tfc-test": (y**2 * sp.sin(sp.pi * x),),
    "cubic": (wave + 2 * fine,),
    "minimal-surface": (sp.log(sp.cos(y) / sp.cos(x)),),
    "kovasznay": (
        1 - sp.exp(a * x) * sp.cos(2 * sp.pi * y),
        a / (2 * sp.pi) * sp.exp(a * x) * sp.sin(2 * sp.pi * y),
        (1 - sp.exp(2 * a * x)) / 2,
    ),
}
every_solution = pytest.mark.parametrize("name", list(SOLUTIONS))


def exactly(name: str):
    """Derivatives of the solution in the form that `measure` takes, (P, C)."""

    def derivative(points: np.ndarray, index: tuple[int, ...]) -> np.ndarray:
        columns = []
        for channel in SOLUTIONS[name]:
            for symbol, order in zip((x, y), index, strict=False):
                channel = channel.diff(symbol, order) if order else channel
            found = sp.lambdify((x, y), channel, "numpy")(points[:, 0], points[:, -1])
            columns.append(np.broadcast_to(found, (len(points),)))
        return np.stack(columns, axis=1)

    return derivative


@every_solution
def test_the_solution_solves_what_is_asked(name: str):
    """Equation, conditions and values agree with SymPy's derivatives of the solution."""
    problem = NONLINEAR[name]
    measured = measure(problem, Solved(exactly(name), problem.grid()[::7], (1.0, 1.0), ""))
    assert max(m for m in measured.values() if m is not None) < 1e-12


@every_solution
def test_a_field_that_is_off_is_seen(name: str):
    """The solution plus 0.01 on its first channel: values and conditions are missed by it, and the error says so."""
    problem, exact = NONLINEAR[name], exactly(name)

    def moved(points: np.ndarray, index: tuple[int, ...]) -> np.ndarray:
        found = exact(points, index).astype(float)
        found[:, 0] += 0.0 if any(index) else 0.01
        return found

    measured = measure(problem, Solved(moved, problem.grid()[::7], (1.0, 1.0), ""))
    assert measured["max_error"] == pytest.approx(0.01, rel=1e-9)
    for where in ("conditions", "conditions_between"):
        assert measured[where] == pytest.approx(0.01, rel=1e-9)
    if name != "minimal-surface":  # whose equation has no values, only slopes
        assert measured["equation_between"] > 1e-5


def test_burgers_by_cole_and_hopf():
    """The integral solves the equation (differences of fourth order in its smooth part) and starts as it should."""
    problem, step = NONLINEAR["burgers"], 2e-3
    start = problem.conditions[0]
    assert cole_hopf(start.between) == pytest.approx(start.values(start.between), abs=1e-12)
    points = np.array([[-0.5, 0.2], [0.3, 0.4], [0.7, 0.9], [-0.2, 0.1]])

    def moved(along: np.ndarray) -> list[np.ndarray]:
        return [cole_hopf(points + k * step * along) for k in (-2, -1, 0, 1, 2)]

    def first(at: list[np.ndarray]) -> np.ndarray:
        return (at[0] - 8 * at[1] + 8 * at[3] - at[4]) / (12 * step)

    in_x, in_t = moved(np.array([1.0, 0.0])), moved(np.array([0.0, 1.0]))
    second = (-in_x[0] + 16 * in_x[1] - 30 * in_x[2] + 16 * in_x[3] - in_x[4]) / (12 * step**2)
    assert np.abs(first(in_t) + in_x[2] * first(in_x) - NU * second).max() < 1e-8
    assert cole_hopf(problem.grid(), nodes=150) == pytest.approx(cole_hopf(problem.grid()), abs=1e-12)


def test_points_that_were_given_are_measured():
    """A condition that holds where it was imposed and not elsewhere: two numbers, not one."""
    problem, exact = NONLINEAR["nl-poisson"], exactly("nl-poisson")
    ends = np.array([[0.0, 0.0], [0.0, 1.0]])

    def bent(points: np.ndarray, index: tuple[int, ...]) -> np.ndarray:
        extra = points[:, 1:] * (1 - points[:, 1:])  # nothing at the ends of the left edge
        return exact(points, index) + (0.0 if any(index) else 1.0) * extra

    measured = measure(problem, Solved(bent, np.zeros((0, 2)), (1.0, 1.0), "", {"boundary": ends}))
    assert measured["conditions"] < 1e-15 and measured["conditions_between"] == pytest.approx(0.25, rel=1e-4)
    assert measured["equation"] is None  # elements: not measured at points


def test_cnf_is_asked_for_no_more_than_a_target():
    """Allen and Cahn's equation, the cheapest: error, conditions and equation at rounding."""
    solved = nonlinear_cnf_peer.solve(NONLINEAR["allen-cahn"], argparse.Namespace(threads=1))
    measured = measure(NONLINEAR["allen-cahn"], solved)
    assert max(m for m in measured.values() if m is not None) < 1e-11
    assert solved.setting.startswith("target 1e-09; ") and solved.setting.endswith("exact")


def test_excuses_name_methods_and_problems():
    assert all(method in NONLINEAR_METHODS and problem in NONLINEAR for method, problem in NONLINEAR_DOES_NOT_APPLY)
    own = {p for p in NONLINEAR if ("fastlsq-tests", p) not in NONLINEAR_DOES_NOT_APPLY}
    assert own == set(FASTLSQ_OWN)
    assert {p for p in NONLINEAR if ("skfem-fine", p) not in NONLINEAR_DOES_NOT_APPLY} == set(HARDER)


def test_a_missing_peer_names_the_target_that_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(peers, "ENVIRONMENTS", tmp_path)
    row = peers.run_method("fastlsq-quick", "bratu", 1, 0, "fair", 1.0, peers.SETS["nonlinear"])
    assert row.note == "not installed: make bench-nonlinear"
