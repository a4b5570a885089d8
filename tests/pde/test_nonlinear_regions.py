"""Nonlinear equations in regions, and what holds between these: laws that differ, jumps that depend on the field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import cnf
from cnf.bases.cells import Cells
from cnf.bases.piecewise import Piecewise
from cnf.bases.ties import Guide, Tie
from cnf.certificate import certify
from cnf.errors import CnfError, ProblemError

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


LEARNT = [
    ("interface left", "[k u_x] = -u - q"),
    ("interface rest, left", "[k u_x] = u + q"),
    ("interface left", "[k u_x] = -u^2 - q"),
    ("interface rest, left", "[k u_x] = q u^2 + q"),
]


def with_number(on: str, equation: str, q: object) -> cnf.Problem:
    """A bar with the number q on the right of what its flux does at the interface."""
    known = {"k": {"left": "1", "rest": "5"}, "q": q}
    between = {"on": on, "equation": equation}
    return cnf.Problem(**BAR, parameters=known, equations=[CONDUCTED, ENDS, between], solve={"method": "patches"})


@pytest.mark.parametrize(("on", "equation"), LEARNT)
def test_a_learnable_number_beside_the_field_on_the_right_of_a_jump(on: str, equation: str):
    """The field follows it, exactly as one that is solved anew; gradients are those of central differences."""
    q = torch.nn.Parameter(torch.tensor(0.3, dtype=torch.float64))
    field = with_number(on, equation, q).solve().field.train()

    def summed(value: float) -> float:
        with torch.no_grad():
            q.fill_(value)
            return float(field.solve()(LINE).sum())

    central = (summed(0.401) - summed(0.399)) / 0.002
    with torch.no_grad():
        q.fill_(0.4)
    solution = field.solve()
    values = solution(LINE)
    (gradient,) = torch.autograd.grad(values.sum(), q)
    fresh = with_number(on, equation, 0.4).solve()
    assert solution.certificate.exact
    assert float((values - fresh(LINE)).detach().abs().max()) < 1e-12
    assert abs(central) > 1 and float(gradient) == pytest.approx(central, rel=1e-5)


def test_an_unknown_number_beside_the_field_on_the_right_of_a_jump():
    """A measurement at 0.3 finds the number that it was taken with."""
    truth = with_number("interface rest, left", "[k u_x] = u + q", 0.7).solve()
    measured = float(truth(torch.tensor([[0.3]], dtype=torch.float64)).detach())
    answer = cnf.Problem(
        **BAR,
        parameters={"k": {"left": "1", "rest": "5"}},
        unknowns={"q": 0.3},
        equations=[
            CONDUCTED,
            ENDS,
            {"on": "interface rest, left", "equation": "[k u_x] = u + q"},
            {"on": "x = 0.3", "equation": f"u = {measured!r}", "fitted": True},
        ],
        solve={"method": "patches"},
    ).solve()
    assert answer.recovered is not None and answer.recovered.values["q"] == pytest.approx(0.7, abs=1e-9)


@pytest.mark.parametrize(("on", "ahead"), [("interface left", "rest"), ("interface rest, left", "left")])
def test_a_field_on_the_right_that_only_the_other_region_has(on: str, ahead: str):
    """The right-hand side is that of the region which the normal points to: without the field there, nothing jumps."""
    factor = {"left": "3", "rest": "3"} | {ahead: "0"}
    parameters = {"k": {"left": "1", "rest": "5"}, "h": factor}
    between = [{"on": on, "equation": "[k u_x] = h u"}]
    given, plain = (
        cnf.Problem(**BAR, parameters=known, equations=[CONDUCTED, ENDS, *more], solve={"method": "patches"}).solve()
        for known, more in ((parameters, between), ({"k": parameters["k"]}, []))
    )
    assert float((given(LINE) - plain(LINE)).detach().abs().max()) < 1e-12


def heated(level: float) -> cnf.pde.Answer:
    """A bar whose left conducts e^(u - level), near that level."""
    return cnf.Problem(
        **BAR,
        parameters={"k": {"left": rf"e^{{(u - {level})}}", "rest": "2"}},
        equations=[CONDUCTED, {"on": "boundary", "equation": f"u = {level} + x"}],
        solve={"method": "patches", "start": f"{level} + x"},
    ).solve()


@pytest.mark.parametrize("level", [0.0, 300.0])
def test_a_flux_is_measured_by_its_own_terms(level: float):
    """A field that misses a flux by 1e-6 of both sides together is told so, whatever level temperatures begin at."""
    solution = heated(level).solution
    expansion, space = solution.expansion, solution.basis.space
    last = expansion.evaluator.cells.count - 1
    half = 0.5 * float(expansion.evaluator.cells.upper[last, 0] - expansion.evaluator.cells.lower[last, 0])
    middle = torch.tensor([[0.5]], dtype=torch.float64)
    slope = float(expansion.beside(torch.tensor([last])).derivatives(middle, [(1,)])[1,].detach())
    flux = 2 * slope
    weights = expansion.weights.detach().clone()
    weights.unflatten(0, (last + 1, -1))[last, 1, space.channels.index("u")] += 1e-6 * flux * half
    moved = replace(solution, expansion=replace(expansion, weights=weights))
    found = certify(moved, 1e-9, 0.0).residuals["[flux] between left and rest"]
    assert found.absolute == pytest.approx(2e-6 * abs(flux), rel=1e-3)
    assert found.relative == pytest.approx(1e-6, rel=1e-3)


def test_nothing_that_flows_at_an_interface():
    """u = 1.1 + (x - 1/2)^2 e^x / 3: the flux is zero at 1/2, and its terms there are rounding."""
    bump = r"\frac{1}{3} (x - 0.5)^2 e^x"
    u, slope = f"(1.1 + {bump})", r"\frac{1}{3} (x^2 + x - 0.75) e^x"
    curved = r"\frac{1}{3} (x^2 + 3 x + 0.25) e^x"
    answer = cnf.Problem(
        **BAR,
        parameters={
            "k": {"left": "1 + u^2", "rest": "2"},
            "f": {"left": f"-2 {u} ({slope})^2 - (1 + {u}^2) {curved}", "rest": f"-2 {curved}"},
            "g": u,
        },
        equations=[
            {"on": "interior", "equation": r"\partial_x (k u_x) + f = 0"},
            {"on": "boundary", "equation": "u = g"},
        ],
        solve={"method": "patches"},
    ).solve()
    x = LINE[:, 0]
    off = (answer(LINE)[:, 0] - 1.1 - (x - 0.5) ** 2 * x.exp() / 3).detach().abs().max()
    assert answer.certificate.exact and float(off) < 1e-12
    assert answer.certificate.convergence.steps < 10 and answer.estimate < 1e-9


def test_a_flat_condition_between_regions_is_not_called_unique():
    """Next to u = 1, u^3 - 3 u may be the same on both sides with u - 1 and 1 - u: u = 1 + a x and 1 + a (x - 1)."""
    answer = cnf.Problem(
        **BAR,
        equations=[
            {"on": "interior", "equation": "u_{xx} = 0"},
            {"on": "boundary", "equation": "u = 1"},
            {"on": "interface left", "equation": "[u^3 - 3 u] = 0"},
            {"on": "interface left", "equation": "[u_x] = 0"},
        ],
        solve={"method": "patches"},
    ).solve()
    assert answer.certificate.exact
    assert "locally unique" not in str(answer.certificate) and "hardly changes" in str(answer.certificate)


def test_loose_ties_that_are_not_linear_follow_the_field():
    """u = 1 on the left; a loose u^2 = 4 u across the middle makes the right begin at 2, from a start at 1."""
    space, cells = cnf.Space("x", "u"), Cells([0], [1]).cut([0], 0)
    middle, ends, inside = (torch.tensor(x, dtype=torch.float64)[:, None] for x in ([0.5], [0.1, 0.4, 1.0], [0.2]))
    there, here = (space.constraint(f"{side} = 0", at=middle, name="across") for side in ("u^2", "4 u"))
    tie = Tie(there, torch.tensor([1]), torch.tensor([0]), here)
    given = space.constraint("u = 1", at=ends, name="values")
    guide = Guide(space.constraint("u = 1", at=inside, name="values"), torch.tensor([0]))
    basis = Piecewise(space, cells, 1, loose=[tie], guides=[guide])
    solution = cnf.ConstrainedField(basis, [given], start=torch.ones_like).solve()
    found = solution.expansion.beside(torch.tensor([1])).derivatives(middle, [(0,)])[0,]
    assert float(found.detach()) == pytest.approx(2.0, rel=1e-6)


def test_a_base_beside_nonlinear_conditions_between_regions_is_refused():
    given = heated(0.0).field
    field = cnf.ConstrainedField(given.basis, given.constraints, base=torch.nn.Linear(1, 1).double())
    with pytest.raises(CnfError, match="leave out base=, or make the condition linear"):
        field.solve()


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
