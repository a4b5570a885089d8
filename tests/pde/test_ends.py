"""Ends of intervals: they have outward normals, -1 and 1, as faces of boxes do."""

from __future__ import annotations

import pytest
import torch

import cnf
from cnf.errors import ProblemError

INTERVAL = {"type": "interval", "from": 0, "to": 1}
BOX = {"type": "box", "lower": [0], "upper": [1]}
POINTS = torch.linspace(0, 1, 21, dtype=torch.float64)[:, None]


def field(equations: dict, method: str = "patches", domain: dict = INTERVAL, **more: object) -> torch.Tensor:
    problem = cnf.Problem("x", domain=domain, equations=equations, solve={"method": method}, **more)
    with torch.no_grad():
        return problem.solve()(POINTS)


@pytest.mark.parametrize("method", ["patches", "waves"])
@pytest.mark.parametrize(
    ("domain", "end", "other", "slope"),
    [
        (INTERVAL, "x = 1", "x = 0", "u_x"),
        (INTERVAL, "x = 0", "x = 1", "-u_x"),
        (BOX, "x = 0", "x = 1", "-u_x"),
        (INTERVAL, "boundary except x = 0", "x = 0", "u_x"),
    ],
)
def test_normal_derivatives_at_ends(method: str, domain: dict, end: str, other: str, slope: str):
    """The same field as with u_x and the sign of the normal; the other sign would give another one."""
    rest = {"interior": "u'' = 2", other: "u = 1"}
    found = field({**rest, end: r"\partial_n u + 3 u = 1"}, method, domain)
    wanted = field({**rest, end.removeprefix("boundary except ").replace(other, "x = 1"): f"{slope} + 3 u = 1"}, method)
    assert (found - wanted).abs().max() < 1e-12


def test_normal_derivatives_at_ends_of_regions():
    """With the conductivity of the region that the end belongs to."""
    entries: dict = {"regions": {"right": {"type": "interval", "from": 0.5, "to": 1}}}
    entries |= {"parameters": {"k": {"right": 2, "rest": 1}}}
    rest = {"interior": r"\nabla\cdot(k \nabla u) = 2", "x = 0": "u = 0"}
    found = field({**rest, "x = 1": r"k \partial_n u = 3"}, **entries)
    wanted = field({**rest, "x = 1": "k u_x = 3"}, **entries)
    assert (found - wanted).abs().max() < 1e-12 and float(found[-1]) == pytest.approx(1.375, abs=1e-9)


def test_there_is_no_normal_inside():
    with pytest.raises(ProblemError, match=r"no outward normal on 'x = 0\.5'"):
        cnf.Problem("x", domain=INTERVAL, equations={"interior": "u'' = 2", "x = 0.5": r"\partial_n u = 0"})


@pytest.mark.parametrize(
    ("on", "advice"),
    [
        ("y = 0, y = 1", "'boundary except x = 0, x = 3', or two entries"),
        ("y = 0, y = 0.5", "for both places write two entries"),
        ("t = 0, t = 2", "for both places write two entries"),
    ],
)
def test_a_coordinate_that_is_given_twice(on: str, advice: str):
    """What to write for both faces of a box is said; it is read."""
    domain = {"type": "box", "lower": [0, 0], "upper": [3, 1], "time": [0, 2]}
    with pytest.raises(ProblemError, match=advice):
        cnf.Problem("x y t", domain=domain, equations={"interior": r"u_t = \Delta u", on: "u = 0"})
    read = cnf.Problem(
        "x y t", domain=domain, equations={"interior": r"u_t = \Delta u", "boundary except x = 0, x = 3": "u = 0"}
    )
    assert [equation.on for equation in read.equations[1:]] == ["y = 0", "y = 1"]
