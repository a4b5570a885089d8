"""Integrals of nonlinear expressions: resolved around the field, measured on it, in doubt where that cannot be."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch

import cnf
import cnf.settling
from cnf.errors import NumericalWarning, ViolationWarning

LINE = cnf.Space("x", "u")
DATA = torch.tensor([[0.05], [0.4], [0.9]], dtype=torch.float64)
VALUES = torch.tensor([[-0.5], [0.7], [-0.4]], dtype=torch.float64)
ORIGIN = torch.zeros(1, 1, dtype=torch.float64)


def data() -> cnf.constraints.Constraint:
    return LINE.constraint("u", at=DATA, equals=VALUES, name="data")


def waves(bandwidth: float = 0.2) -> cnf.bases.RandomFourier:
    return cnf.bases.RandomFourier(LINE, 60, bandwidth=bandwidth)


def summed(solution: cnf.Solution, integrand) -> float:
    """The integral over [0, 1] by midpoints, a hundred thousand of them: right to 1e-9 or better."""
    x = (torch.arange(100_000, dtype=torch.float64)[:, None] + 0.5) / 100_000
    with torch.no_grad():
        jets = solution.derivatives(x, [(0,), (1,)])
    return float(np.mean(integrand(jets[0,][:, 0].numpy(), jets[1,][:, 0].numpy())))


INTEGRANDS = {
    "u^2": (lambda u, slope: u**2, 0.8),
    r"\sqrt{1 + u_x^2}": (lambda u, slope: np.sqrt(1 + slope**2), 4.0),
    "e^{2 u} u_x^2": (lambda u, slope: np.exp(2 * u) * slope**2, 12.5),
}


@pytest.mark.parametrize("integrand", INTEGRANDS)
def test_integrals_of_nonlinear_expressions_are_met_and_measured(integrand: str):
    """Against sums over midpoints; the certificate has the figure of a second rule, and is exact."""
    evaluated, target = INTEGRANDS[integrand]
    asked = LINE.constraint(rf"\int_0^1 {integrand} \, dx = c", c=target, name="mass")
    solution = cnf.ConstrainedField(waves(), [data(), asked]).solve()
    found = solution.certificate
    assert found.exact and not found.unmeasured
    assert 0 <= found.quadrature["mass"] < 1e-12 * target
    assert summed(solution, evaluated) == pytest.approx(target, rel=1e-8)


PEAKED = {
    r"\frac{1}{10^{-5} + u^2}": lambda u, slope: 1 / (1e-5 + u**2),
    r"e^{-10^4 (u - 0.2)^2}": lambda u, slope: np.exp(-1e4 * (u - 0.2) ** 2),
    r"|u - 0.1|": lambda u, slope: np.abs(u - 0.1),
    r"\tanh(300 u)": lambda u, slope: np.tanh(300 * u),
}


@pytest.mark.parametrize("integrand", PEAKED)
def test_what_is_narrow_where_the_field_passes_a_value_is_found(integrand: str):
    """Two coarse rules would agree on missing it; looks at values and slopes of the field show it."""
    solution = cnf.ConstrainedField(waves(), [data()]).solve()
    with warnings.catch_warnings():
        warnings.simplefilter("error", NumericalWarning)
        found = float(solution.apply(rf"\int_0^1 {integrand} \, dx", ORIGIN).detach())
    assert found == pytest.approx(summed(solution, PEAKED[integrand]), rel=1e-7)


@pytest.mark.slow
def test_a_kink_that_moves_with_the_field_is_followed():
    """The integral of max(u, 0) is 0.3: met to 1e-9 on the field itself."""
    asked = LINE.constraint(r"\int_0^1 \max(u, 0) \, dx = 0.3", name="mass")
    solution = cnf.ConstrainedField(waves(0.4), [data(), asked]).solve()
    assert solution.certificate.exact
    assert summed(solution, lambda u, slope: np.maximum(u, 0)) == pytest.approx(0.3, abs=1e-8)


def test_integrals_in_the_plane():
    """Of u^2 over [0, 1] x [0, x], with u = x y: 1/18."""
    space = cnf.Space("x y", "u")
    grid = torch.tensor([[0, 0], [1, 0], [0, 1], [1, 1], [0.5, 0], [0, 0.5]], dtype=torch.float64)
    field = cnf.ConstrainedField(cnf.bases.Polynomial(space, 2), [space.constraint("u = x y", at=grid)])
    found = field.eval().solution.apply(r"\int_0^1 \int_0^x u^2 \, dy \, dx", grid[:1])
    assert float(found) == pytest.approx(1 / 18, rel=1e-12)


def test_what_nobody_can_bound_is_unmeasured():
    """A law that may do anything between values of the field, unless it says over which distance it varies."""

    def law(columns: torch.Tensor) -> torch.Tensor:
        return columns**2

    for declared in (False, True):
        if declared:
            law.shortest_length = 0.1  # type: ignore[attr-defined]
        asked = LINE.constraint(r"\int_0^1 k(u) \, dx = 0.8", k=law, name="mass")
        field = cnf.ConstrainedField(waves(), [data(), asked])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ViolationWarning)
            found = field.solve().certificate
        assert found.exact == declared and bool(found.unmeasured) != declared
        assert declared or "shortest_length" in found.unmeasured["mass"]


def test_without_a_field_nothing_is_measured():
    """The integral of u^2 cannot be negative: not converged, and called unmeasured instead of resolved."""
    asked = LINE.constraint(r"\int_0^1 u^2 \, dx = -1", name="mass")
    with pytest.warns(ViolationWarning):
        found = cnf.ConstrainedField(waves(), [data(), asked]).solve().certificate
    assert not found.exact and "mass" in found.unmeasured


def test_a_saved_field_has_its_integrals_measured_again(tmp_path):
    asked = LINE.constraint(r"\int_0^1 \sqrt{1 + u_x^2} \, dx = 4", name="mass")
    field = cnf.ConstrainedField(waves(), [data(), asked]).eval()
    assert field.certificate.exact
    field.save(tmp_path / "field.pt")
    loaded = cnf.load(tmp_path / "field.pt")
    assert torch.equal(loaded(DATA), field(DATA))
    assert loaded.certificate.exact and loaded.certificate.quadrature["mass"] < 1e-12


def test_gradients_of_what_an_integral_asks_for():
    """d u(0.7) / dc where the integral of u^2 is c: against a difference of two solves."""
    c = torch.nn.Parameter(torch.tensor(0.8, dtype=torch.float64))
    asked = LINE.constraint(r"\int_0^1 u^2 \, dx = c", c=c, name="mass")
    field = cnf.ConstrainedField(waves(0.4), [data(), asked])
    at = torch.tensor([[0.7]], dtype=torch.float64)
    (slope,) = torch.autograd.grad(field.solve()(at).sum(), c)
    sides = []
    for step in (1e-3, -1e-3):
        with torch.no_grad():
            c.add_(step)
            sides.append(float(field.solve()(at)))
            c.sub_(step)
    assert float(slope) == pytest.approx((sides[0] - sides[1]) / 2e-3, rel=1e-4)


def test_an_eigenvalue_on_patches():
    """-u'' = l u with a norm of 1, as three equations of first order: l = pi^2 in all digits, and 4 pi^2 by a start."""
    equations = [
        {"on": "interior", "equation": "u_x = w; w_x = -l u; l_x = 0"},
        {"on": "boundary", "equation": "u = 0"},
        {"equation": r"\int_0^1 u^2 \, dx = 1"},
    ]
    second = {"u": r"\sin(2 \pi x)", "w": r"2 \pi \cos(2 \pi x)", "l": "38"}
    middle = torch.tensor([[0.5]], dtype=torch.float64)
    for start, expected in (({}, math.pi**2), ({"start": second}, 4 * math.pi**2)):
        answer = cnf.Problem(
            coordinates="x",
            channels="u w l",
            domain={"type": "box", "lower": [0], "upper": [1]},
            equations=equations,
            solve={"method": "patches"} | start,
        ).solve()
        assert answer.certificate.exact and answer.certificate.quadrature["everywhere"] < 1e-13
        assert float(answer.field(middle)[0, 2]) == pytest.approx(expected, rel=1e-12)


def test_an_eigenvalue_by_waves():
    """The same as one equation of second order; that it is determined is seen near the answer."""
    answer = cnf.Problem(
        coordinates="x",
        channels="u l",
        domain={"type": "box", "lower": [0], "upper": [1]},
        equations=[
            {"on": "interior", "equation": "-u_{xx} = l u; l_x = 0"},
            {"on": "boundary", "equation": "u = 0"},
            {"equation": r"\int_0^1 u^2 \, dx = 1"},
        ],
        solve={"method": "waves", "start": {"u": "x(1 - x)", "l": "9"}},
    ).solve()
    assert answer.certificate.exact
    assert float(answer.field(torch.tensor([[0.5]], dtype=torch.float64))[0, 1]) == pytest.approx(math.pi**2, rel=1e-10)


def test_a_balance_of_integrals_is_resolved_as_soon_as_its_terms_are(monkeypatch: pytest.MonkeyPatch):
    """What two integrals add up to is zero: what rules say differently of it is compared with the integrals."""
    made = cnf.settling.resolved_around
    rounds = []

    def counted(*given):
        rounds.append(given)
        return made(*given)

    monkeypatch.setattr(cnf.settling, "resolved_around", counted)
    at = torch.linspace(0.1, 1, 8, dtype=torch.float64)[:, None]
    conditions = [
        LINE.constraint("u' + u = e^x", at=at, name="equation"),
        LINE.constraint(r"\int_0^1 u^3 \, dx - \int_0^1 u^2 \, dx = 0", at=ORIGIN, name="balance"),
    ]
    basis = cnf.bases.RandomFourier(LINE, 40, bandwidth=0.5)
    solution = cnf.ConstrainedField(basis, conditions, start=lambda x: 1 + x).solve()
    assert solution.certificate.exact and len(rounds) <= 3
    assert summed(solution, lambda u, slope: u**3 - u**2) == pytest.approx(0, abs=1e-8)
