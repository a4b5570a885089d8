"""Domains in parts that do not touch: how many there are, which holds a point, and what a problem must say in each."""

from __future__ import annotations

import numpy as np
import pytest

import cnf
from cnf.errors import UnderdeterminedError
from cnf.pde.domains import Ball, Box, Difference, Disk, Domain, Interval, LevelSet, Outline, Timed, Union
from cnf.pde.domains.connected import connected_parts
from tests.pde.domains.shapes import KNOWN

TWO = Union([Disk((0, 0), 1, name="a"), Disk((3, 0), 0.5, name="b")])
ISLAND = Outline("M 0 0 H 4 V 4 H 0 Z M 1 1 H 3 V 3 H 1 Z M 1.5 1.5 h 1 v 1 h -1 z")


@pytest.mark.parametrize(
    ("domain", "count"),
    [
        (TWO, 2),
        (Timed(TWO, 0, 1), 2),
        (ISLAND, 2),
        (Difference(Box((0, 0), (3, 1)), [Box((1, -1), (2, 2))]), 2),  # cut in two
        (Union([Interval(0, 1), Interval(2, 4)]), 2),
        (LevelSet("(x^2 + y^2 - 1)((x - 3)^2 + y^2 - 1)", (-2, -2), (5, 2)), 2),
        (KNOWN["nested"].domain, 2),
        (KNOWN["L touching"].domain, 1),
        (KNOWN["L overlapping"].domain, 1),
        (KNOWN["two disks"].domain, 1),
        (KNOWN["bite"].domain, 1),
        (KNOWN["joined intervals"].domain, 1),
        (KNOWN["hole"].domain, 1),
        (Ball((0, 0, 0), 1), 1),
    ],
)
def test_count(domain: Domain, count: int):
    assert connected_parts(domain).count == count


def test_points_of_parts():
    """Points of an island and of its rim belong to it, not to the ring around it."""
    parts = connected_parts(ISLAND)
    points = np.array([[2, 2], [1.5, 2], [2.5, 2.5], [0.5, 0.5], [0, 2], [3, 2], [3.5, 3.9]])
    assert parts.of(points).tolist() == [0, 0, 0, 1, 1, 1, 1]


def problem(on_b: str, method: str, **solve: object) -> cnf.Problem:
    equations = {"interior": r"\Delta u = 0", "a": r"u = \sin(x) e^y", "b": on_b}
    exact = {"u": r"\sin(x) e^y"}
    return cnf.Problem("x y", domain=TWO, equations=equations, exact=exact, solve={"method": method, **solve})


@pytest.mark.parametrize("method", ["patches", "waves"])
def test_every_part_needs_its_own_conditions(method: str):
    """Values on both disks: solved. Slopes alone on the second: nothing can know its constant, and it is refused."""
    answer = problem(r"u = \sin(x) e^y", method).solve()
    assert answer.certificate.exact and answer.errors is not None and answer.errors["u"] < 1e-9
    with pytest.raises(UnderdeterminedError, match=r"in 2 parts that do not touch, and in the one around \(3, "):
        problem(r"\partial_n u = n_x \cos(x) e^y + n_y \sin(x) e^y", method).solve()
