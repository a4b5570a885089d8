"""Patches in a box and time: degrees and slabs that a field of four coordinates can pay for."""

from __future__ import annotations

import math

import numpy as np
import pytest

import cnf
from cnf.bases import Cells
from cnf.pde.patches.degrees import begin_with
from cnf.pde.problems.choosing import rank

EQUATIONS = [
    ("interior", r"u_t - \Delta u = 0"),
    ("t = 0", r"u = \sin(\pi x) \sin(\pi y) \sin(\pi z)"),
    ("boundary", "u = 0"),
]


def heat(target: float) -> cnf.Problem:
    return cnf.Problem(
        coordinates="x y z t",
        domain={"type": "box", "lower": [0, 0, 0], "upper": [1, 1, 1], "time": [0, 0.02]},
        equations=[{"on": on, "equation": equation} for on, equation in EQUATIONS],
        solve={"method": "patches", "target": target},
        exact={"u": r"e^{-3\pi^2 t} \sin(\pi x) \sin(\pi y) \sin(\pi z)"},
    )


def test_heat_in_a_cube():
    """One mode of the unit cube, exp(-3 pi^2 t) sin sin sin, to a few percent: exact, and the estimate says how far."""
    answer = heat(5e-2).solve()
    (error,) = answer.errors.values()
    assert answer.certificate.exact and error <= answer.estimate * 3 and answer.estimate <= 5e-2


def test_degree_is_that_of_least_work():
    """One cell of degree 8 has 9^3 4 functions; if 7 takes 2 cells and 6 takes 3, 6 makes the least work of all."""
    domain = heat(1e-2).domain
    needed = {8: 1, 7: 2, 6: 3, 5: 40, 4: 80}

    def cells_for(degree):
        cells = Cells(domain.lower, domain.upper)
        while cells.count < needed[degree[0]]:
            cells = cells.cut([int(np.argmax((cells.upper - cells.lower)[:, 0]))], 0)
        return cells

    degree, cells = begin_with((6, 6, 6, 3), 1, cells_for)
    work = {p: n * (1 + math.log2(n)) * (4 * (p + 1) ** 3) ** 3 for p, n in needed.items()}
    assert degree[0] == min(work, key=work.__getitem__) == 6
    assert degree[3] == 3 and cells.count == 3


def test_interrupted_before_an_estimate():
    """Ctrl-C while the second opinion is worked out: there is a field, its estimate is infinite and said in words."""
    problem = cnf.Problem(
        coordinates="x y",
        domain={"type": "box", "lower": [0, 0], "upper": [1, 1]},
        equations=[{"on": "interior", "equation": r"\Delta u = 1"}, {"on": "boundary", "equation": "u = 0"}],
        solve={"method": "patches"},
    )

    def interrupt(trial):
        raise KeyboardInterrupt

    answer = problem.solve(interrupt)
    assert math.isinf(answer.estimate) and not answer.resolved
    said = " ".join(answer.verdict())
    assert "nan" not in said and "inf" not in said.replace("information", "") and "was not measured" in said


@pytest.mark.parametrize("estimate", [66.0, math.inf])
def test_useless_exact_fields_rank_last(estimate: float):
    """A field that is exact at its points with an error of 66 is no better than one fitted to one percent."""

    class Given:
        def __init__(self, exact: bool, off: float):
            self.certificate, self.estimate = type("Certificate", (), {"exact": exact}), off

    assert rank(Given(False, 1e-2)) < rank(Given(True, estimate))
    assert rank(Given(True, 1e-2)) < rank(Given(False, 1e-3))
