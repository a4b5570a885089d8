"""Re-entrant edges of solids: r^(2/3) along the edge of a prism, and files of such fields."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import cnf
from cnf.bases.edge_functions import Edge, EdgeFunctions
from cnf.pde.patches.building import orders_of
from cnf.pde.patches.solid_edges import straight_edges
from cnf.pde.problems.on_patches import question_of

PRISM = {
    "type": "difference",
    "of": {"type": "box", "lower": [-1, -1, 0], "upper": [1, 1, 1]},
    "minus": [{"type": "box", "lower": [0, -1, 0], "upper": [1, 0, 1]}],
}
ANGLE = r"\frac{3 \pi}{4} + 2 \arctan(\frac{-(x + y)}{\sqrt{2} \sqrt{x^2 + y^2} + y - x})"
SINGULAR = r"(x^2 + y^2)^{1/3} \sin(2 a / 3)"


def prism(source: str, values: str) -> cnf.Problem:
    return cnf.Problem(
        coordinates="x y z",
        domain=PRISM,
        parameters={"a": ANGLE},
        equations=[
            {"on": "interior", "equation": rf"\Delta u = {source}"},
            {"on": "boundary", "equation": f"u = {values}"},
        ],
        solve={"method": "patches", "target": 1e-5},
        exact={"u": values},
    )


def edges_of(problem: cnf.Problem) -> list[Edge]:
    question = question_of(problem)
    return [replace(edge, powers=4) for edge in straight_edges(question, orders_of(question))]


@pytest.mark.parametrize(
    ("source", "values"),
    [
        pytest.param("0", SINGULAR, id="plain", marks=pytest.mark.slow),
        pytest.param(rf"-{SINGULAR} \sin(z)", rf"{SINGULAR} \sin(z)", id="along"),
    ],
)
def test_singular_edge_of_a_prism(source: str, values: str, tmp_path):
    """u = r^(2/3) sin(2 theta / 3), alone and times sin z, in a prism over an L: exact, and the estimate is right."""
    answer = prism(source, values).solve()
    (error,) = answer.errors.values()
    assert answer.certificate.exact
    assert error <= 1e-5 and answer.estimate <= 1e-5 and error <= 3 * answer.estimate
    answer.field.save(tmp_path / "field.pt")
    points = torch.tensor([[-0.3, 0.2, 0.4], [0.1, 0.05, 0.9], [-0.01, -0.02, 0.5]], dtype=torch.float64)
    again = cnf.load(tmp_path / "field.pt")
    assert torch.allclose(again(points), answer.solution(points), rtol=0, atol=1e-12)
    grid = answer.grid(5)  # a face of the removed box on the outer boundary is no part of the domain
    x = grid.points[grid.inside]
    assert not ((x[:, 0] > 0) & (x[:, 1] < 0)).any() and ((x[:, 0] == 0) & (x[:, 1] == -1)).any()


def test_which_edges_and_exponents():
    """The prism has one re-entrant edge of 270 degrees along z: 2/3, 4/3, 8/3, 10/3 between values, and two shadows."""
    (edge,) = edges_of(prism("0", SINGULAR))
    assert edge.axis == 2 and edge.across.centre == (0.0, 0.0) and (edge.low, edge.high) == (0.0, 1.0)
    assert np.allclose(np.sort(edge.across.exponents), [2 / 3, 4 / 3, 8 / 3, 8 / 3, 10 / 3, 10 / 3])


def test_edges_that_meet_are_left_alone():
    """Of a cube without one of its octants, three re-entrant edges meet in a vertex, where r^lambda is another."""
    domain = {
        "type": "difference",
        "of": {"type": "box", "lower": [-1, -1, -1], "upper": [1, 1, 1]},
        "minus": [{"type": "box", "lower": [0, 0, 0], "upper": [1, 1, 1]}],
    }
    problem = cnf.Problem(
        coordinates="x y z",
        domain=domain,
        equations=[{"on": "interior", "equation": r"\Delta u = 1"}, {"on": "boundary", "equation": "u = 0"}],
    )
    assert edges_of(problem) == []


def test_columns_are_derivatives():
    """Derivatives of edge functions agree with central differences of lower ones, to 1e-6."""
    (edge,) = edges_of(prism("0", SINGULAR))
    functions, half = EdgeFunctions((edge,)), torch.tensor([[0.5, 0.5, 0.5]], dtype=torch.float64)
    centre, step = torch.tensor([[-0.5, 0.5, 0.5]], dtype=torch.float64), 1e-5
    at = torch.tensor([[-0.3, 0.2, 0.4]], dtype=torch.float64)

    def columns(x: torch.Tensor, index: tuple[int, ...]) -> torch.Tensor:
        return functions.values(x, (x - centre) / half, half, functions.derivative(index, 0))

    for axis in range(3):
        move = torch.zeros(1, 3, dtype=torch.float64)
        move[0, axis] = step
        one, two = (tuple(n if k == axis else 0 for k in range(3)) for n in (1, 2))
        for lower, higher in (((0, 0, 0), one), (one, two)):
            slope = (columns(at + move, lower) - columns(at - move, lower)) / (2 * step)
            assert torch.allclose(slope, columns(at, higher), rtol=1e-5, atol=1e-5 * math.e)
