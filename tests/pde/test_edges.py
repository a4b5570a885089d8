"""Edges of boxes: what a source makes where two faces with given values meet, beside series and finite differences."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import cnf
from benchmarks.space_patches import THIN, series
from cnf.bases.edge_potentials import EdgePotentials, Sum, differentiated, evaluated
from cnf.errors import BasisError
from cnf.pde.patches.building import orders_of
from cnf.pde.patches.edges import edge_potentials, octant, wedge
from cnf.pde.problems.on_patches import question_of

CUBE = cnf.Box((0, 0, 0), (1, 1, 1))


def points(count: int = 200) -> torch.Tensor:
    return torch.rand(count, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def values(potential: Sum, x: torch.Tensor) -> torch.Tensor:
    return evaluated([potential], x)[:, 0]


@pytest.mark.parametrize("power", [0, 1, 4])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_potentials_solve_their_problem(power: int, axis: int):
    """-Laplace u = x_axis^power by finite differences, u = 0 on the faces; on two of them along an edge without end."""
    x, h = 0.1 + 0.8 * points(), 1e-3
    for potential, faces in ((octant(power, axis), {0, 1, 2}), (wedge(power, axis), {0, 1, 2} - {axis})):
        total = torch.zeros(len(x), dtype=torch.float64)
        for k in range(3):
            step = h * torch.eye(3, dtype=torch.float64)[k]
            ends = values(potential, x + step) + values(potential, x - step)
            total += (ends - 2 * values(potential, x)) / h**2
        assert torch.allclose(-total, x[:, axis] ** power, atol=1e-3)
        exact = sum(values(differentiated(potential, i), x) for i in ((2, 0, 0), (0, 2, 0), (0, 0, 2)))
        assert torch.allclose(-exact, x[:, axis] ** power, rtol=0, atol=1e-11)
        for k in faces:
            on_face = x.clone()
            on_face[:, k] = 0.0
            assert values(potential, on_face).abs().max() < 1e-13


def test_the_potential_of_an_octant():
    """At (1, 1, 1) it is 6 / pi (asinh(1 / sqrt(2)) - atan(1 / sqrt(3)) / 2); along an edge, that of the wedge is
    all that is singular: their difference has bounded third derivatives, they themselves have not."""
    at = torch.ones(1, 3, dtype=torch.float64)
    expected = 6 / math.pi * (math.asinh(1 / math.sqrt(2)) - math.atan(1 / math.sqrt(3)) / 2)
    assert abs(float(values(octant(0, 2), at)) - expected) < 1e-14
    near = torch.tensor([[1e-5, 2e-5, 0.7]], dtype=torch.float64)
    parts = [float(values(differentiated(p, (2, 1, 0)), near)) for p in (octant(2, 2), wedge(2, 2))]
    assert abs(parts[0]) > 1e3 and abs(parts[0] - parts[1]) < 1.0


def asked(interior: str, domain: cnf.domains.Domain = CUBE, **more: str) -> cnf.Problem:
    equations = {"interior": interior, **(more or {"boundary": "u = 0"})}
    return cnf.Problem("x y z", domain=domain, equations=equations, solve={"method": "patches", "target": 1e-6})


def error_of(answer: cnf.Answer, exact: np.ndarray, x: torch.Tensor) -> float:
    return float(np.linalg.norm(answer(x)[:, 0].detach().numpy() - exact) / np.linalg.norm(exact))


def test_a_source_in_a_cube(tmp_path: Path):
    """-Laplace u = 1 with u = 0, by its series: 1e-6 on one patch, also from a file."""
    answer = asked(r"-\Delta u = 1").solve()
    assert answer.certificate.exact and answer.field.basis.cells.count == 1
    x = points()
    error = error_of(answer, series(x.numpy()), x)
    assert error < 1e-6 and error < 3 * answer.estimate < 3e-6
    answer.field.save(tmp_path / "field.pt")
    assert torch.equal(cnf.load(tmp_path / "field.pt").eval()(x), answer(x))


def test_other_lengths_other_diffusion_and_given_values():
    """-4 u_xx - u_yy - u_zz / 4 in a box of 2 x 1 x 1/2 is the cube again; sin(x) e^y is added to its solution."""
    box = cnf.Box((0, 0, 0), (2, 1, 0.5))
    answer = asked(r"-4u_{xx} - u_{yy} - 0.25u_{zz} = 1 + 3\sin(x)e^y", box, boundary=r"u = \sin(x)e^y").solve()
    scale = torch.tensor([2.0, 1.0, 0.5], dtype=torch.float64)
    x = points() * scale
    exact = series((x / scale).numpy()) + (torch.sin(x[:, 0]) * torch.exp(x[:, 1])).numpy()
    assert answer.certificate.exact and error_of(answer, exact, x) < 1e-7


def test_faces_with_slopes():
    """-Laplace u = 1, u_z = 0 at z = 0 and z = 1: the solution of the square, whose value in its middle is known."""
    sides = {"x = 0": "u = 0", "x = 1": "u = 0", "y = 0": "u = 0", "y = 1": "u = 0"}
    answer = asked(r"-\Delta u = 1", **sides, **{"z = 0": "u_z = 0", "z = 1": "u_z = 0"}).solve()
    middle = torch.tensor([[0.5, 0.5, 0.2]], dtype=torch.float64)
    assert answer.certificate.exact and abs(float(answer(middle)) - 0.0736713532814) < 1e-8


@pytest.mark.parametrize(
    ("interior", "boundary"),
    [
        (r"-\Delta u = -2\sin(x + y)e^{2z}", r"u = \sin(x + y)e^{2z}"),  # smooth: they agree
        (r"-\Delta u = \sin(\pi x) y (1 - y) \sin(\pi z)", "u = 0"),  # zero on all edges
        (r"-\Delta u - u_{xy} = 1", "u = 0"),  # other angles
        (r"-(1 + x) u_{xx} - u_{yy} - u_{zz} = 1", "u = 0"),  # other angles at every place
        (r"-\Delta u = 1", r"\partial_n u + u = 0"),
        (THIN["interior"], THIN["boundary"]),  # values with a layer: what is left over cannot be told
    ],
)
def test_where_no_potentials_are_known(interior: str, boundary: str):
    question = question_of(asked(interior, boundary=boundary))
    assert edge_potentials(question, orders_of(question)) is None


@pytest.mark.parametrize("change", ["shape", "scale", "place", "kind", "power", "nan"])
def test_damaged_potentials_are_refused(change: str):
    places, terms = torch.tensor([[0.0, 0, 0, 1, 1, 1]]), torch.tensor([[0.0, 1, 1, 1, 0, 0, 0.5]])
    EdgePotentials(places, terms)
    if change == "shape":
        terms = terms[:, :6]
    elif change == "scale":
        places[0, 4] = 0.0
    elif change == "nan":
        terms[0, 6] = math.nan
    else:
        terms[0, {"place": 0, "kind": 1, "power": 2}[change]] = 50.0 if change != "power" else 0.5
    with pytest.raises(BasisError):
        EdgePotentials(places, terms)
