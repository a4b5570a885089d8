"""Equations that carry detail through time: second order in time on patches, and the cells they begin with."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import cnf
from cnf.bases import Cells
from cnf.domains import Timed
from cnf.errors import ProblemError
from cnf.pde.patches.building import Mesh, build_field, orders_of
from cnf.pde.patches.carrying import carried_cells, carries, fastest, in_slabs
from cnf.pde.patches.question import Question
from cnf.pde.patches.rates import with_rates
from cnf.pde.problems.on_patches import question_of


def starting(interior: str, start: str, rate: str, *boundary: str) -> list[dict[str, str]]:
    """Equations of a field with u and u_t given at the start."""
    return [
        {"on": "interior", "equation": interior},
        {"on": "t = 0", "equation": f"u = {start}", "name": "start"},
        {"on": "t = 0", "equation": f"u_t = {rate}", "name": "rate"},
        *({"on": "boundary", "equation": e, "name": f"edge {k}"} for k, e in enumerate(boundary)),
    ]


def asked(equations: list[dict[str, str]], domain: Timed, **more: object) -> cnf.Problem:
    names = "x t" if domain.dimension == 2 else "x y t"
    return cnf.Problem(names, domain=domain, equations=equations, **more)


STRING = starting("u_{tt} = 4 u_{xx}", r"\sin(\pi x)", "0", "u = 0")


def rated(problem: cnf.Problem) -> Question:
    return with_rates(question_of(problem))


def test_rates_take_the_place_of_derivatives_in_time():
    """u_tt + 3 u_t = u_xxx: v_t + 3 v = u_xxx and u_t = v; the start's u_t = ... is v = ...; third order: two rates."""
    edges = ("u = 0", "u_x = 0")
    question = rated(asked(starting("u_{tt} + 3 u_t = u_{xxx}", "1", "x", *edges), Timed(cnf.Box(0, 1), 0, 1)))
    u, v = question.space.channels
    assert question.asked == 1 and question.inside == [0, 5]
    terms = {(t.channel, t.derivatives): float(t.coefficient) for t in question.constraints[0].operator.rows[0]}
    assert terms == {(v, (("t", 1),)): 1.0, (v, ()): 3.0, (u, (("x", 3),)): -1.0}
    (start,) = question.constraints[2].operator.rows[0]
    assert (start.channel, start.derivatives) == (v, ())
    last = {(t.channel, t.derivatives) for t in question.constraints[5].operator.rows[0]}
    assert last == {(u, (("t", 1),)), (v, ())}
    third = asked([{"on": "interior", "equation": "u_{ttt} = u_x"}], Timed(cnf.Box(0, 1), 0, 1))
    assert len(rated(third).space.channels) == 3
    first = asked([{"on": "interior", "equation": "u_t = u_x"}], Timed(cnf.Box(0, 1), 0, 1))
    assert rated(first).asked is None


def test_a_string_swings_for_long():
    """sin(pi x) cos(2 pi t) for twenty periods in 80 slabs: no mode of the slabs grows, all conditions hold."""
    problem = asked(STRING, Timed(cnf.Box(0, 1), 0, 20))
    question = rated(problem)
    cells = in_slabs(Cells([0, 0], [1, 20]).cut([0], 0), 1, 0.25)
    field = build_field(question, orders_of(question), Mesh.of(cells, (10, 8), problem.domain)).eval()
    assert cells.count == 160 and field.certificate.exact
    assert field.certificate.rank == field.certificate.conditions == int(field.basis.active().sum())
    x = problem.domain.random(1000, torch.Generator().manual_seed(0))
    exact = torch.sin(math.pi * x[:, 0]) * torch.cos(2 * math.pi * x[:, 1])
    assert float((field(x)[:, 0] - exact).abs().max()) < 1e-8


@pytest.mark.parametrize(
    ("equations", "until", "exact"),
    [
        (
            starting("u_{tt} + 0.4 u_t = u_{xx}", r"\sin(\pi x)", r"-0.2 \sin(\pi x)", "u = 0"),
            5,
            r"e^{-0.2 t} \sin(\pi x) \cos(\sqrt{\pi^2 - 0.04} t)",
        ),
        (
            starting("u_{tt} = u_{xx} - 9 u", r"\cos(\pi x)", "0", r"\partial_n u = 0"),
            5,
            r"\cos(\pi x) \cos(\sqrt{\pi^2 + 9} t)",
        ),
        (
            starting("u_{tt} + u_{xxxx} = 0", r"\sin(\pi x) + \sin(2 \pi x)", "0", "u = 0", "u_{xx} = 0"),
            1,
            r"\sin(\pi x) \cos(\pi^2 t) + \sin(2 \pi x) \cos(4 \pi^2 t)",
        ),
    ],
    ids=["damped", "Klein-Gordon", "beam"],
)
def test_known_waves(equations: list, until: float, exact: str):
    """Standing waves to 1e-6 by their estimates, which are right; the answer has the channel that was asked for."""
    domain = Timed(cnf.Box(0, 1), 0, until)
    answer = asked(equations, domain, exact=exact, solve={"method": "patches", "target": 1e-6}).solve()
    assert answer.certificate.exact and answer.errors["u"] < 1e-6
    assert answer.errors["u"] < 3 * answer.estimate < 30 * answer.errors["u"]
    x = domain.random(5, torch.Generator().manual_seed(0))
    assert answer(x).shape == (5, 1) and answer.grid(3).values.shape == (9, 1)
    assert answer.solution(x).shape == (5, 2)  # the rate comes after it
    assert torch.allclose(answer.solution(x)[:, 1:], answer.solution.apply("u_t", x), atol=1e-3)


def test_a_membrane():
    """sin(pi x) sin(pi y) cos(sqrt(2) pi t) on four cells and four slabs: as many conditions as functions, exact."""
    edge = starting(r"u_{tt} = \Delta u", r"\sin(\pi x) \sin(\pi y)", "0", "u = 0")
    problem = asked(edge, Timed(cnf.Box((0, 0), (1, 1)), 0, 1))
    question = rated(problem)
    cells = in_slabs(Cells([0, 0, 0], [1, 1, 1]).cut([0], 0).cut([0, 1], 1), 2, 0.25)
    x = problem.domain.random(500, torch.Generator().manual_seed(0))
    exact = torch.sin(math.pi * x[:, 0]) * torch.sin(math.pi * x[:, 1]) * torch.cos(math.sqrt(2) * math.pi * x[:, 2])
    errors = []
    for degree in ((5, 5, 3), (7, 7, 5)):
        field = build_field(question, orders_of(question), Mesh.of(cells, degree, problem.domain)).eval()
        assert field.certificate.exact
        assert field.certificate.rank == field.certificate.conditions == int(field.basis.active().sum())
        errors.append(float((field(x)[:, 0] - exact).abs().max()))
    assert errors[0] < 1e-2 and errors[1] < 0.01 * errors[0], errors


def test_damping_by_strain_is_refused():
    """u_tt = u_xx + u_xxt would need ties of the rate: said before anything is solved."""
    problem = asked(
        starting("u_{tt} = u_{xx} + u_{xxt}", r"\sin(\pi x)", "0", "u = 0"),
        Timed(cnf.Box(0, 1), 0, 1),
        solve={"method": "patches"},
    )
    with pytest.raises(ProblemError, match="derivatives in space of u_t"):
        problem.solve()


def test_cells_of_what_is_carried():
    """Frequencies of wave numbers k: 2 k for u_tt = 4 u_xx, k^2 for a beam; slabs to go with them, cells all alike."""
    domain = Timed(cnf.Box(0, 1), 0, 3)
    string = rated(asked(STRING, domain))
    beam = rated(asked(starting("u_{tt} + u_{xxxx} = 0", "0", "0", "u = 0", "u_x = 0"), domain))
    heat = question_of(asked([{"on": "interior", "equation": "u_t = u_{xx}"}], domain))
    assert [carries(q, orders_of(q)) for q in (string, beam, heat)] == [True, True, False]
    assert fastest(string, orders_of(string), np.array([5.0, 1.0])) == pytest.approx(10)
    assert fastest(beam, orders_of(beam), np.array([5.0, 1.0])) == pytest.approx(25)
    cells = Cells([0, 0], [1, 3]).cut([0], 0).cut([0], 0)  # 1/4, 1/4, 1/2
    found = carried_cells(string, orders_of(string), cells, (12, 12), 1000)
    width = found.upper - found.lower
    assert np.allclose(width, [0.25, 3 / 16]) and found.count == 64  # slabs of at most 1.5 * 0.25 / 2
    assert carried_cells(string, orders_of(string), cells, (12, 12), 60).count == 3
