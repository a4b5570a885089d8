"""Parameters of problems that are learnable numbers or callables: solved with their values, differentiable in them."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch
from scipy.optimize import brentq

import cnf
from cnf.domains import Box, Disk
from cnf.errors import ProblemError

PATCHES = {"method": "patches", "target": 1e-4}
DOCS = Path(__file__).parents[2] / "docs" / "problems.md"


def number(value: float) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor(value, dtype=torch.float64))


def slope_of(field: cnf.ConstrainedField, k: torch.nn.Parameter, x: torch.Tensor, step: float = 0.02) -> float:
    """d/dk of the sum of squares, by differences of sixth order."""
    found, start = 0.0, float(k.detach())
    for times, weight in ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60)):
        for sign in (1, -1):
            with torch.no_grad():
                k.fill_(start + sign * times * step)
                found += sign * weight / step * float(field.solve()(x).square().sum())
    with torch.no_grad():
        k.fill_(start)
    return found


def gradient_of(field: cnf.ConstrainedField, k: torch.nn.Parameter, x: torch.Tensor) -> float:
    return float(torch.autograd.grad(field.solve()(x).square().sum(), k)[0])


def test_documented_script():
    """-div(k grad u) = 1 on a disk, u = (1 - r^2) / (4 k): the script of the documentation finds k = 0.8 to 1e-8."""
    text = DOCS.read_text().partition("## Gradients\n")[2]
    names: dict = {}
    exec(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], names)
    assert abs(float(names["k"].detach()) - 0.8) < 1e-8


def test_values_are_those_of_numbers():
    """-div(k grad u) = q with q = 2 k on a disk, u = (1 - r^2) / 2: the answer is that of k = 1.5, and k drops out."""
    k = number(1.5)
    problem = cnf.Problem(
        "x y",
        domain=Disk((0, 0), 1),
        parameters={"k": k, "q": "2 k"},
        equations={"interior": r"-\nabla\cdot(k\nabla u) = q", "boundary": "u = 0"},
        exact={"u": "q (1 - x^2 - y^2) / (4 k)"},
        solve=PATCHES,
    )
    answer = problem.solve()
    x = Disk((0, 0), 1).random(20, torch.Generator().manual_seed(0))
    wanted = (1 - x.square().sum(dim=1)) / 2
    assert answer.certificate.exact and answer.errors["u"] < 1e-8
    assert float((answer.field(x)[:, 0] - wanted).abs().max()) < 1e-9
    assert abs(gradient_of(answer.field.train(), k, x)) < 1e-7


def test_gradients_of_regions_and_interfaces():
    """A conductivity of a core, and a flux that jumps by g^2 around it, by the adjoint and by differences."""
    k, g = number(2.0), number(1.5)
    problem = cnf.Problem(
        "x y",
        domain=Disk((0, 0), 1),
        regions={"core": Disk((0.1, 0), 0.4)},
        parameters={"k": {"core": k, "rest": 1}, "g": g},
        equations={
            "interior": r"-\nabla\cdot(k\nabla u) = 1 + x",
            "boundary": "u = 0",
            "interface rest": r"[k \partial_n u] = g^2",
        },
        solve={"method": "patches", "target": 1e-2},
    )
    field = problem.solve().field.train()
    x = Disk((0, 0), 0.9).random(30, torch.Generator().manual_seed(0))
    assert {id(p) for p in field.parameters()} == {id(k), id(g)}
    with torch.no_grad():
        g.fill_(1.2)
    assert field.solve().certificate.exact  # the jump that is measured is the one by now
    for learnt in (k, g):
        wanted = slope_of(field, learnt, x)
        assert abs(gradient_of(field, learnt, x) - wanted) < 1e-6 * abs(wanted)


def test_callables_are_followed_when_they_change():
    """-Laplace u = g, u = g on a disk with g = c x: u = c x (1 + (1 - r^2) / 8), whatever c is by now."""
    c = number(1.0)
    problem = cnf.Problem(
        "x y",
        domain=Disk((0, 0), 1),
        parameters={"g": lambda x: c * x[:, 0]},
        equations={"interior": r"-\Delta u = g", "boundary": "u = g"},
        solve=PATCHES,
    )
    field = problem.solve().field
    x = Disk((0, 0), 1).random(20, torch.Generator().manual_seed(0))
    shape = x[:, 0] * (1 + (1 - x.square().sum(dim=1)) / 8)
    with torch.no_grad():
        c.fill_(3.0)
    assert float((field(x)[:, 0] - 3 * shape).abs().max()) < 1e-8
    (slope,) = torch.autograd.grad(field.train().solve()(x)[:, 0].sum(), c)
    assert abs(float(slope - shape.sum())) < 1e-8


def test_waves():
    """-k Laplace u = 2 pi^2 sin(pi x) sin(pi y) on a square: u is one over k times the sines, and so is its slope."""
    k = number(2.0)
    problem = cnf.Problem(
        "x y",
        domain=Box((0, 0), (1, 1)),
        parameters={"k": k},
        equations={"interior": r"-k\Delta u = 2\pi^2\sin(\pi x)\sin(\pi y)", "boundary": "u = 0"},
        points={"count": 120},
        solve={"method": "waves"},
    )
    answer = problem.solve()
    x = torch.rand(50, 2, dtype=torch.float64)
    assert torch.allclose(answer.field(x), answer.solution(x), rtol=1e-9, atol=1e-12)
    field = answer.field.train()
    middle = torch.tensor([[0.5, 0.5]], dtype=torch.float64)
    (slope,) = torch.autograd.grad(field.solve()(middle).sum(), k)
    assert abs(float(slope) + 0.25) < 1e-3


def test_a_nonlinear_field_begins_where_the_answer_ended():
    """u'' + a e^u = 0 between zeros: two steps and no more; u(1/2) and its slope in a follow from theta = f(a)."""
    a = number(1.0)
    problem = cnf.Problem(
        "x",
        domain={"type": "interval", "from": 0, "to": 1},
        parameters={"a": a},
        equations={"interior": "u'' + a e^u = 0", "boundary": "u = 0"},
        solve={"method": "patches", "target": 1e-10},
    )
    field = problem.solve().field.train()
    solution = field.solve()
    assert len(solution.convergence.changes) <= 2
    assert solution.convergence.start == "the answer"
    assert field.solve().convergence.start == "the solve before"

    def middle(a: float) -> float:
        theta = brentq(lambda theta: theta - math.sqrt(2 * a) * math.cosh(theta / 4), 0, 4, xtol=1e-15)
        return 2 * math.log(math.cosh(theta / 4))

    half = torch.tensor([[0.5]], dtype=torch.float64)
    (slope,) = torch.autograd.grad(solution(half).sum(), a)
    assert float(slope) == pytest.approx((middle(1.001) - middle(0.999)) / 0.002, rel=1e-5)


def test_saved_and_loaded(tmp_path):
    """A number that is learnt goes into the file: the loaded field has the same values and the same slope in it."""
    k = number(1.5)
    equations = {"interior": r"-k\Delta u = 1", "boundary": "u = 0"}
    problem = cnf.Problem("x y", domain=Disk((0, 0), 1), parameters={"k": k}, equations=equations, solve=PATCHES)
    answer = problem.solve()
    answer.field.save(tmp_path / "field.pt")
    loaded = cnf.load(tmp_path / "field.pt")
    x = torch.tensor([[0.2, 0.1]], dtype=torch.float64)
    assert torch.equal(loaded(x), answer.field(x))
    (own,) = loaded.parameters()
    wanted = gradient_of(answer.field.train(), k, x)
    assert abs(gradient_of(loaded.train(), own, x) - wanted) < 1e-9 * abs(wanted)


def test_what_cannot_be_learnt_is_refused():
    """Three numbers for one, and a shape that would move with its parameter."""
    equations = {"interior": r"-k\Delta u = 1", "boundary": "u = 0"}
    with pytest.raises(ProblemError, match="expected one number"):
        cnf.Problem(
            "x y", domain=Disk((0, 0), 1), parameters={"k": torch.nn.Parameter(torch.ones(3))}, equations=equations
        )
    disk = {"type": "disk", "center": [0, 0], "radius": "k"}
    with pytest.raises(ProblemError, match="expected a number"):
        cnf.Problem("x y", domain=disk, parameters={"k": number(1.0)}, equations=equations)
