"""Starts that contradict the boundary, in the plane: slabs and cells that follow from the data, and what comes out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.special import j0, j1, jn_zeros

import cnf
from cnf.domains import Box, Difference, Disk, Timed
from cnf.pde.patches.building import orders_of
from cnf.pde.patches.known_cells import known_cells
from cnf.pde.patches.point_choice import points_to_start_from
from cnf.pde.patches.shaped import Shaped, first_cells
from cnf.pde.patches.starting import contradicted_curves
from cnf.pde.problems.coverage import boundary_gaps
from cnf.pde.problems.on_patches import lowered, question_of

HEAT = r"u_t - \Delta u = 0"
PLATE = Difference(Box((-8, -12), (8, 12), name="outside"), [Disk((0, 0), 1, name="hole")])


def plate(
    start: str, hole: str = r"\partial_n u + u = 5", outside: str | None = r"\partial_n u + u = 0"
) -> cnf.Problem:
    equations = [("interior", HEAT), ("t = 0", start), ("hole", hole)] + ([("outside", outside)] if outside else [])
    return cnf.Problem(
        "x y t",
        domain=Timed(PLATE, 0, 3),
        equations=[{"on": on, "equation": equation} for on, equation in equations],
        solve={"method": "patches", "target": 1e-3},
    )


def test_shapes_that_are_long_beside_time_are_covered():
    """Every part of the plate has its condition; without that of the outside, 40 of 46 units of length are bare."""
    assert boundary_gaps(plate("u = 0")) == []
    (gap,) = boundary_gaps(plate("u = 0", outside=None))
    assert "93 % of it has fewer" in gap


@pytest.mark.parametrize(
    ("start", "hole", "strengths"),
    [
        ("u = 0", r"\partial_n u + u = 5", {"hole": 1.0}),
        ("u = 5", r"\partial_n u + u = 5", {"outside": 1.0}),
        ("u = x", "u = x", {"outside": 1.0}),  # slopes of 1 and values of up to 12 on a side, beside 0
        ("u = 0", "u = 0", {}),
    ],
)
def test_contradictions_are_found_in_the_data(start: str, hole: str, strengths: dict[str, float]):
    """L of the start against the right-hand sides: as large as the data where one of both is zero."""
    question = lowered(question_of(plate(start, hole)))
    found = contradicted_curves(question, orders_of(question))
    assert {name for curve in found for name in curve.names} == set(strengths)
    for name, strength in strengths.items():
        assert max(v for c, v in found.items() if name in c.names) == pytest.approx(strength, rel=0.1)


def test_rounding_on_the_boundary_is_no_contradiction():
    """A start that vanishes there but for its last bits: its size is that which it has inside."""
    start = r"u = (x^2 + y^2 - 1)(64 - x^2)(144 - y^2) e^{x/3}"
    question = lowered(question_of(plate(start, "u = 0", "u = 0")))
    assert contradicted_curves(question, orders_of(question)) == {}


def test_slabs_shrink_towards_contradictions_and_cells_with_them():
    """The end of every slab is 0.4 of the next; cells at the hole are 1.06 p sqrt(t) wide at most, t the end."""
    question = lowered(question_of(plate("u = 0")))
    cells = known_cells(question, orders_of(question), (), (8, 8, 4), 1e-3)
    ends = np.unique(cells.upper[:, 2])
    assert len(ends) > 5 and ends[1:-1] / ends[2:] == pytest.approx(0.4)
    for end in ends:
        own = cells.upper[:, 2] == end
        low, high = cells.lower[own, :2], cells.upper[own, :2]
        nearest = np.linalg.norm(np.clip(0.0, low, high), axis=1)
        farthest = np.linalg.norm(np.maximum(np.abs(low), np.abs(high)), axis=1)
        at_hole = (nearest <= 1) & (farthest >= 1)
        assert (high - low)[at_hole].max() <= 1.06 * 8 * np.sqrt(end)
    calm = lowered(question_of(plate("u = 0", "u = 0")))
    assert len(np.unique(known_cells(calm, orders_of(calm), (), (8, 8, 4), 1e-3).upper[:, 2])) == 1


def test_points_that_slabs_start_from_tell_functions_apart_inside():
    """Polynomials stay below 40 times what they are at the points of a patch (2000 times at points of its frame)."""
    disk, p = Disk((0, 0), 1), 6
    shaped = Shaped.of(disk, first_cells(disk))
    for patch, points in enumerate(points_to_start_from(shaped, (p, p))):
        low, high = shaped.cover.lower[patch], shaped.cover.upper[patch]

        def functions(x: np.ndarray, low: np.ndarray = low, high: np.ndarray = high) -> np.ndarray:
            unit = (2 * x - low - high) / (high - low)
            tables = [np.polynomial.chebyshev.chebvander(unit[:, k], p) for k in (0, 1)]
            return np.einsum("pi,pj->pij", *tables).reshape(len(x), -1)[:, :-1]

        dense = low + (high - low) * np.random.default_rng(0).uniform(size=(2000, 2))
        dense = dense[(shaped.cover.locate(dense) == patch) & shaped.inside(dense)]
        assert len(points) == (p + 1) ** 2 - 1
        cardinal = np.linalg.solve(functions(points).T, functions(dense).T)
        assert np.abs(cardinal).sum(axis=0).max() < 40


def warmed(x: np.ndarray, y: np.ndarray, t: np.ndarray) -> np.ndarray:
    """A cold disk whose edge exchanges heat with surroundings of 1: the series of Bessel functions."""
    ends = zip([0.0, *jn_zeros(1, 199)], jn_zeros(0, 200), strict=True)
    root = np.array([brentq(lambda z: z * j1(z) - j0(z), a + 1e-12, b) for a, b in ends])
    parts = 2 * j0(root * np.hypot(x, y)[:, None]) * np.exp(-(root**2) * t[:, None]) / ((root**2 + 1) * j0(root))
    return 1 - parts.sum(axis=1)


@pytest.mark.slow
def test_a_cold_disk_in_warm_surroundings():
    """u = 0 at the start beside u_n + u = 1: 2e-3 off, all time long, where weights that nothing sees are kept."""
    problem = cnf.Problem(
        "x y t",
        domain=Timed(Disk((0, 0), 1), 0, 0.5),
        equations={"interior": HEAT, "boundary": r"\partial_n u + u = 1", "t = 0": "u = 0"},
        solve={"method": "patches", "target": 1e-3},
    )
    answer = problem.solve()
    x = problem.domain.random(2000, torch.Generator().manual_seed(1))
    exact = warmed(*x.numpy().T)
    error = np.linalg.norm(answer(x).detach().numpy()[:, 0] - exact) / np.linalg.norm(exact)
    assert error < 2e-4 and error < 2 * answer.estimate < 2e-3
    assert answer.certificate.exact
