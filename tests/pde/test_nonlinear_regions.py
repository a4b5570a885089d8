"""Nonlinear equations in regions, and what holds between these: laws that differ, jumps that depend on the field."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import cnf
from cnf.errors import ProblemError

BAR = {
    "coordinates": "x",
    "domain": {"type": "box", "lower": [0], "upper": [1]},
    "regions": {"left": {"type": "box", "lower": [0], "upper": [0.5]}},
}
CONDUCTED = {"on": "interior", "equation": r"-\partial_x (k u_x) = 1"}
ENDS = {"on": "boundary", "equation": "u = x"}
LINE = torch.linspace(0.01, 0.99, 50, dtype=torch.float64)[:, None]


def shot(
    left: Callable, right: Callable, more: Callable = lambda u: 0.0, jump: Callable = lambda u, flux: u
) -> np.ndarray:
    """-(k u')' = 1 with u(0) = 0, u(1) = 1 at LINE, by an integrator: the flux k u' grows by `more(u)` at 1/2."""

    def both(flux: float):
        first = solve_ivp(
            lambda x, u: (flux - x) / left(u), (0, 0.5), [0.0], "DOP853", None, True, rtol=1e-12, atol=1e-13
        )
        middle = first.y[0, -1]
        after = jump(middle, flux - 0.5)
        grown = flux + more(after)
        second = solve_ivp(
            lambda x, u: (grown - x) / right(u), (0.5, 1), [after], "DOP853", None, True, rtol=1e-12, atol=1e-13
        )
        return first, second

    flux = brentq(lambda flux: both(flux)[1].y[0, -1] - 1, -1, 5, xtol=1e-14)
    first, second = both(flux)
    return np.array([(first if x <= 0.5 else second).sol(x)[0] for x in LINE[:, 0].tolist()])


BETWEEN = {
    "laws that differ": ({"left": "1 + u^2", "rest": "2"}, [], shot, (lambda u: 1 + u**2, lambda u: 2)),
    "the same, said": (
        {"left": "1 + u^2", "rest": "2"},
        [{"on": "interface", "equation": "[k u_x] = 0"}],
        shot,
        (lambda u: 1 + u**2, lambda u: 2),
    ),
    "a flux that depends on the field": (
        {"left": "1", "rest": "5"},
        [{"on": "interface left", "equation": "[k u_x] = -u^2"}],
        shot,
        (lambda u: 1, lambda u: 5, lambda u: -(u**2)),
    ),
    "a flux linear in it, seen from the other side": (
        {"left": "1", "rest": "5"},
        [{"on": "interface rest, left", "equation": "[k u_x] = u"}],
        shot,
        (lambda u: 1, lambda u: 5, lambda u: -u),
    ),
    "a contact that resists": (
        {"left": "1", "rest": "2"},
        [{"on": "interface left", "equation": "[u] = 0.5 k u_x"}],
        shot,
        (lambda u: 1, lambda u: 2, lambda u: 0, lambda u, flux: u + 0.5 * flux),
    ),
    "one that is not linear": (
        {"left": "1", "rest": "2"},
        [{"on": "interface left", "equation": "[u + u^3] = 0.5 k u_x"}],
        shot,
        (
            lambda u: 1,
            lambda u: 2,
            lambda u: 0,
            lambda u, flux: brentq(lambda v: v + v**3 - u - u**3 - 0.5 * flux, -10, 10, xtol=1e-15),
        ),
    ),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_what_holds_between_regions(name: str):
    """Against an integrator, to 1e-11; the certificate is exact, and the estimate small."""
    conductivity, between, make, given = BETWEEN[name]
    answer = cnf.Problem(**BAR, parameters={"k": conductivity}, equations=[CONDUCTED, ENDS, *between]).solve()
    assert answer.certificate.exact
    off = np.abs(answer.field(LINE).detach().numpy()[:, 0] - make(*given)).max()
    assert off < 1e-11
    assert answer.estimate < 1e-6


def test_laws_that_differ_across_a_circle():
    """-div(k grad u) = f with k = 1 + u inside and 3 outside; with s = r^2 - 1/4, u = 1 + 3 s and 1 + 2 s."""
    inside, outside = "-12 (2 + 3 (x^2 + y^2 - 0.25)) - 36 (x^2 + y^2)", "-24"
    answer = cnf.Problem(
        coordinates="x y",
        domain={"type": "box", "lower": [-1, -1], "upper": [1, 1]},
        regions={"a": {"type": "disk", "center": [0, 0], "radius": 0.5}},
        parameters={"k": {"a": "1 + u", "rest": "3"}, "f": {"a": inside, "rest": outside}},
        equations=[
            {"on": "interior", "equation": r"-\nabla\cdot(k \nabla u) = f"},
            {"on": "boundary", "equation": "u = 1 + 2 (x^2 + y^2 - 0.25)"},
        ],
        solve={"target": 1e-6, "start": "1"},
    ).solve()
    points = 2 * torch.rand(300, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) - 1
    level = points.square().sum(dim=1) - 0.25
    off = (answer.field(points)[:, 0] - torch.where(level < 0, 1 + 3 * level, 1 + 2 * level)).abs().max()
    assert answer.certificate.exact and float(off.detach()) < 1e-8


def test_during_time():
    """u_t = (k u_x)_x + f with k = 1 + u and 4; u = 1 + 2 (x - 1/2) e^-t on the left, half that slope on the right."""
    left, right = r"-2 (x - 0.5) e^{-t} - 4 e^{-2 t}", r"-(x - 0.5) e^{-t}"
    answer = cnf.Problem(
        coordinates="x t",
        domain={"type": "box", "lower": [0], "upper": [1], "time": [0, 1]},
        regions={"left": {"type": "box", "lower": [0], "upper": [0.5]}},
        parameters={
            "k": {"left": "1 + u", "rest": "4"},
            "f": {"left": left, "rest": right},
            "g": {"left": "1 + 2 (x - 0.5) e^{-t}", "rest": "1 + (x - 0.5) e^{-t}"},
        },
        equations=[
            {"on": "interior", "equation": r"u_t = \partial_x (k u_x) + f"},
            {"on": "boundary", "equation": "u = g"},
            {"on": "t = 0", "equation": "u = g"},
        ],
    ).solve()
    points = torch.rand(200, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x, t = points.T
    known = 1 + torch.where(x < 0.5, 2.0, 1.0) * (x - 0.5) * torch.exp(-t)
    assert answer.certificate.exact
    assert float((answer.field(points)[:, 0] - known).detach().abs().max()) < 1e-9


REFUSED = [
    ([{"on": "interface", "equation": "[k u_x + 1] = -u"}], {}, "take that term to the right"),
    ([{"on": "interface", "equation": "[k u_x] = u(0)^2"}], {}, "not at other points"),
    ([], {"k": {"left": "1 + u_x^2", "rest": "2"}}, "depend on the slope of the field and jump"),
]


@pytest.mark.parametrize(("between", "parameters", "message"), REFUSED)
def test_what_is_not_clear_between_regions_is_refused(between: list, parameters: dict, message: str):
    with pytest.raises(ProblemError, match=message):
        cnf.Problem(
            **BAR,
            parameters={"k": {"left": "1", "rest": "2"}} | parameters,
            equations=[CONDUCTED, ENDS, *between],
            solve={"method": "patches"},
        ).solve()
