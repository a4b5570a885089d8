"""Nonlinear conditions met by Newton's iteration: exact at their points, differentiable, and honest where they fail."""

from __future__ import annotations

import copy
import math
import warnings

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from torch.func import functional_call

import cnf
from cnf.certificate.convergence import Convergence
from cnf.errors import CnfError, ViolationWarning

LINE = cnf.Space("x", "u")
UNIT = torch.linspace(0, 1, 24, dtype=torch.float64)[:, None]
QUERY = torch.linspace(0.02, 0.98, 57, dtype=torch.float64)[:, None]
START = torch.zeros(1, 1, dtype=torch.float64)


def waves(size: int = 120, bandwidth: float = 0.3) -> cnf.bases.RandomFourier:
    return cnf.bases.RandomFourier(LINE, size, bandwidth=bandwidth)


def equation(latex: str, at: torch.Tensor = UNIT, **coefficients: object) -> cnf.constraints.Constraint:
    return LINE.constraint(latex, at=at, name="equation", **coefficients)


def begin(value: float) -> cnf.constraints.Constraint:
    return LINE.constraint("u", at=START, equals=value, name="begin")


def test_a_cubic_equation_in_the_plane_is_solved_to_rounding():
    """-Laplace u + u^3 = f with u = sin(pi x) sin(pi y): conditions to 1e-12 and the field between them to 1e-9."""
    space = cnf.Space("x y", "u")
    grid = (torch.cartesian_prod(*[torch.arange(14, dtype=torch.float64)] * 2) + 0.5) / 14
    side = torch.linspace(0, 1, 15, dtype=torch.float64)[:-1]
    edge = torch.cat([torch.stack(p, 1) for p in ((side, 0 * side), (1 + 0 * side, side))])
    edge = torch.cat([edge, 1 - edge])
    known = r"\sin(\pi x) \sin(\pi y)"
    inside = space.constraint(rf"-\Delta u + u^3 = 2 \pi^2 {known} + ({known})^3", at=grid, name="inside")
    field = cnf.ConstrainedField(
        cnf.bases.RandomFourier(space, 600, bandwidth=0.3), [inside, space.constraint("u = 0", at=edge, name="edge")]
    )
    solution = field.solve()
    found = solution.certificate
    assert found.exact and found.worst < 1e-12
    assert found.convergence is not None and not found.convergence.stopped and found.convergence.steps <= 8
    x = torch.rand(500, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    exact = torch.sin(math.pi * x[:, :1]) * torch.sin(math.pi * x[:, 1:])
    assert float((solution(x) - exact).abs().max()) < 1e-9
    assert torch.allclose(solution.apply("u^3 - u_x u", x), solution(x) ** 3 - solution.apply("u_x", x) * solution(x))


def test_a_pendulum_agrees_with_an_integrator():
    """u'' + sin u = 0 from u = 1.5 over [0, 2] against SciPy's DOP853 to 1e-9."""
    points = 2 * UNIT
    slope = LINE.constraint("u' = 0", at=START, name="slope")
    solution = cnf.ConstrainedField(waves(), [equation(r"u'' + \sin(u) = 0", points), begin(1.5), slope]).solve()
    known = solve_ivp(
        lambda t, y: [y[1], -np.sin(y[0])],
        [0, 2],
        [1.5, 0],
        method="DOP853",
        rtol=1e-13,
        atol=1e-14,
        t_eval=2 * QUERY[:, 0].numpy(),
    )
    assert solution.certificate.exact
    assert np.abs(solution(2 * QUERY)[:, 0].detach().numpy() - known.y[0]).max() < 1e-9


@pytest.mark.parametrize(
    ("latex", "known", "named"),
    [
        (r"u' = \frac{1}{u}", lambda x: torch.sqrt(1 + 2 * x), "the linear part"),  # no number at zero
        (r"u^2 = (1 + x) u", lambda x: 1 + x, "one"),  # zero solves all of it but the beginning
        (r"u' = u^2 / 2", lambda x: 1 / (1 - x / 2), "zero"),
    ],
)
def test_the_iteration_begins_where_it_can(latex: str, known, named: str):
    """From zero if the conditions are numbers there and it leads on, else from the linear part, else from one."""
    solution = cnf.ConstrainedField(waves(), [equation(latex), begin(1.0)]).solve()
    convergence = solution.convergence
    assert convergence is not None and convergence.start == named and not convergence.stopped
    assert solution.certificate.exact
    assert float((solution(QUERY) - known(QUERY)).abs().max()) < 1e-7


def test_a_start_decides_between_two_solutions():
    """Bratu's u'' + e^u = 0 with u = 0 at both ends has two, theta = sqrt(2) cosh(theta / 4) in closed form."""
    points = torch.linspace(0, 1, 40, dtype=torch.float64)[:, None]
    ends = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    asked = [equation(r"u'' + e^u = 0", points), LINE.constraint("u = 0", at=ends, name="ends")]

    def branch(theta: float) -> torch.Tensor:
        return -2 * torch.log(torch.cosh((QUERY - 0.5) * theta / 2) / math.cosh(theta / 4))

    lower = cnf.ConstrainedField(waves(160, 0.04), asked).solve()
    upper = cnf.ConstrainedField(waves(160, 0.04), asked, start=lambda x: 16 * x * (1 - x)).solve()
    assert lower.certificate.exact and upper.certificate.exact
    assert float((lower(QUERY) - branch(1.5171645990507543)).abs().max()) < 1e-8
    assert float((upper(QUERY) - branch(10.938702772122106)).abs().max()) < 1e-6


@pytest.mark.parametrize("latex", ["u^2 = -1", r"u' = 1 + u^2 + 4 e^{u}", r"\ln(u) = x - 1000", r"\sqrt{u} = -1"])
def test_what_has_no_solution_is_not_called_exact(latex: str):
    """No real solution, blow-up before the end, numbers out of range: the certificate says that it did not converge."""
    with pytest.warns(ViolationWarning):
        found = cnf.ConstrainedField(waves(), [equation(latex), begin(1.0)]).solve().certificate
    assert not found.exact and found.convergence is not None and found.convergence.stopped
    assert "NOT CONVERGED" in str(found) and "start" in found.advice()
    assert found.to_dict()["newton"]["verdict"] == "NOT CONVERGED"


def test_conditions_without_a_number_anywhere_ask_for_a_start():
    """ln(u - 2) is no number at zero, at one or at the linear part: an error that says what to give."""
    with pytest.raises(CnfError, match="give a start"):
        cnf.ConstrainedField(waves(), [equation(r"\ln(u - 2) = 0"), begin(1.0)]).solve()
    with pytest.raises(CnfError, match="start is a field or a function"):
        cnf.ConstrainedField(waves(), [equation("u^2 = 1")], start=3.0)


@pytest.mark.parametrize(
    ("latex", "count", "start"),
    [
        (r"a u'' + u u' + \sin(u)", 6, None),
        ("u^3 + a u u'", 3, None),  # much is open: the smallest weights move along with the linearisation
        ("a u^2 + (u')^2", 3, lambda x: 1 + x),
    ],
)
def test_gradients_are_those_of_the_solution(latex: str, count: int, start):
    """`gradcheck` by a parameter of the basis, a coefficient, data and the points of a query."""
    points = torch.linspace(0.1, 1, count, dtype=torch.float64)[:, None]

    def values(bandwidth, coefficient, data, query):
        asked = LINE.constraint(latex, at=points, equals=data, a=coefficient, name="equation")
        field = cnf.ConstrainedField(waves(30, 0.5), [asked, begin(1.0)], start=start)
        return functional_call(field, {"basis.log_bandwidth": bandwidth}, (query,))

    given = (
        waves(30, 0.5).log_bandwidth.detach().clone(),
        torch.tensor(0.7, dtype=torch.float64),
        torch.linspace(1, 1.5, count, dtype=torch.float64),
        torch.tensor([[0.23], [0.77]], dtype=torch.float64),
    )
    given = tuple(tensor.requires_grad_() for tensor in given)
    assert torch.autograd.gradcheck(values, given, eps=1e-5, atol=1e-6, rtol=1e-6, nondet_tol=1e-12)


def test_gradients_do_not_depend_on_where_the_iteration_began():
    """In training the last field is the next start: where much is open, value and gradient are the same anyway."""
    points = torch.tensor([[0.2], [0.5], [0.9]], dtype=torch.float64)
    field = cnf.ConstrainedField(waves(40, 0.4), [equation("u^2 + (u')^2 = 1 + x", points)], start=lambda x: 1 + x)
    found = []
    for shift in (0.0, 0.02):
        with torch.no_grad():
            field.basis.log_bandwidth += shift
        assert field.solve().certificate.exact
        with torch.no_grad():
            field.basis.log_bandwidth -= shift
        value = field.solve()(QUERY).square().sum()
        found.append((float(value.detach()), float(torch.autograd.grad(value, field.basis.log_bandwidth)[0].sum())))
    assert found[0] == pytest.approx(found[1], rel=1e-7)


def test_where_much_is_open_conditions_hold_to_rounding_all_the_same():
    """u(0) = 1 and one integral of u^2: plain steps come closer by 0.3 each, 14 of them."""
    mass = LINE.constraint(r"\int_0^1 u^2 \, dx = 1.2", name="mass")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ViolationWarning)
        found = cnf.ConstrainedField(waves(), [begin(1.0), mass]).solve().certificate
    assert found.worst < 1e-13 and found.convergence is not None and found.convergence.steps <= 10


CRITICAL = 3.513830719125162  # u'' + a e^u = 0 between zeros has two solutions below, one here, none above


@pytest.mark.parametrize(("a", "singular"), [(1.0, False), (3.3, False), (CRITICAL, True)])
def test_a_fold_is_not_called_unique(a: float, singular: bool):
    """Bratu's equation by as many conditions as there are powers of x: locally unique but for the fold itself."""
    nodes = (1 - torch.cos(torch.pi * (torch.arange(14, dtype=torch.float64) + 0.5) / 14))[:, None] / 2
    ends = LINE.constraint("u = 0", at=torch.tensor([[0.0], [1.0]], dtype=torch.float64), name="ends")
    asked = [equation(r"u'' + a e^u = 0", nodes, a=a), ends]
    found = cnf.ConstrainedField(cnf.bases.Polynomial(LINE, 15), asked).solve().certificate
    assert found.exact and ("nearly singular" in str(found)) is singular
    assert ("locally unique" in str(found)) is not singular
    waved = cnf.ConstrainedField(waves(160, 0.1), asked).solve().certificate
    assert "locally unique" not in str(waved)
    assert not singular or "singular" in str(waved) or "NOT CONVERGED" in str(waved)


@pytest.mark.parametrize(
    ("changes", "contraction"),
    [
        ((1e-15, 2e-15), math.nan),  # a start that is the solution: both are rounding
        ((1e-1, 1e-3, 1e-15, 2e-15), 1e-12),
        ((4e-1, 2e-1, 1e-1), 0.5),
        ((1e-1,), math.nan),
    ],
)
def test_rounding_does_not_contract(changes: tuple[float, ...], contraction: float):
    """What comes after a change that is rounding says nothing of the iteration."""
    told = Convergence("zero", (1.0,), changes)
    assert told.contraction == pytest.approx(contraction, nan_ok=True)
    assert ("contraction" in told.lines("")[0]) is not math.isnan(contraction)


def test_a_multiple_root_is_told():
    """u^2 = 0: every step halves u, and no u but 0 itself holds relative to its size; u^2 = 2 u - 1 has u = 1."""
    with pytest.warns(ViolationWarning):
        found = cnf.ConstrainedField(waves(), [equation("u^2 = 0")], start=lambda x: 1 + x).solve().certificate
    assert not found.exact and "multiple root" in found.advice() and "NOT CONVERGED" in str(found)
    double = cnf.ConstrainedField(waves(), [equation("u^2 - 2 u = -1")]).solve().certificate
    assert double.exact and "singular" in str(double)


def test_what_blows_up_is_not_called_a_multiple_root():
    """u' = u^2 from 1 over [0, 2] ends at x = 1."""
    with pytest.warns(ViolationWarning):
        found = cnf.ConstrainedField(waves(), [equation("u' = u^2", 2 * UNIT), begin(1.0)]).solve().certificate
    assert not found.exact and found.convergence is not None and found.convergence.stopped
    assert "multiple root" not in found.advice()


def test_a_coefficient_is_recovered_from_sensors():
    """u' = -k u^2, u(0) = 1: k = 2.5 from three values of 1 / (1 + k x), to eight digits."""
    k = torch.nn.Parameter(torch.tensor(1.5, dtype=torch.float64))
    points = torch.linspace(0, 1, 40, dtype=torch.float64)[:, None]
    field = cnf.ConstrainedField(waves(160, 0.08), [equation("u' = -k u^2", points, k=k), begin(1.0)])
    sensors = torch.tensor([[0.2], [0.5], [0.9]], dtype=torch.float64)
    optimiser = torch.optim.LBFGS(
        [k], max_iter=40, tolerance_grad=1e-14, tolerance_change=1e-16, line_search_fn="strong_wolfe"
    )

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        found = (field.solve()(sensors) - 1 / (1 + 2.5 * sensors)).square().sum()
        found.backward()
        return found

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optimiser.step(loss)
    assert abs(float(k.detach()) - 2.5) < 1e-8


def test_fields_with_nonlinear_conditions_are_saved_and_copied(tmp_path):
    """The same values from the file, from a copy and after new right-hand sides; an integral of u^2 included."""
    mass = LINE.constraint(r"\int_0^1 u^2 \, dx = 1.2", name="mass")
    field = cnf.ConstrainedField(waves(), [equation(r"u'' + u u' = \cos(x)"), begin(1.0), mass]).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ViolationWarning)
        expected = field(QUERY)
        field.save(tmp_path / "field.pt")
        loaded = cnf.load(tmp_path / "field.pt")
        assert torch.equal(loaded(QUERY), expected) and torch.equal(copy.deepcopy(field)(QUERY), expected)
        assert loaded.constraints[0].to_latex() == field.constraints[0].to_latex()
        moved = field.update({"begin": 1.1})
    assert float(moved(START)) == pytest.approx(1.1, abs=1e-9)
    assert float(moved.residual(field.constraints[0]).abs().max()) < 1e-7


def test_uniqueness_is_claimed_only_where_nothing_is_open():
    """u^2 = 4 at one point leaves waves open; a constant it does not; and beside u = 2 there it says nothing new."""
    asked = LINE.constraint("u^2 = 4", at=START, name="square")
    again = LINE.constraint("u = 2", at=START, name="value")

    def verdict(basis: cnf.bases.basis.Basis, *conditions: cnf.constraints.Constraint) -> str:
        field = cnf.ConstrainedField(basis, conditions, start=lambda x: 1 + 0 * x)
        found = field.solve().certificate
        assert found.exact
        return str(found)

    assert "leave room" in verdict(waves(), asked)
    assert "locally unique" in verdict(cnf.bases.Polynomial(LINE, 0), asked)
    assert "not known" in verdict(waves(), asked, again)


def test_linear_conditions_are_solved_at_once():
    """Nothing iterates where nothing is nonlinear, and what is linear after all is an operator."""
    field = cnf.ConstrainedField(waves(), [equation(r"\frac{u^2}{u} = x")])
    solution = field.solve()
    assert solution.convergence is None and field.constraints[0].nonlinear is None


def test_a_network_is_corrected_to_obey_a_nonlinear_equation():
    """base = a network: the sum obeys u' = -u^2, and the iteration begins at the network."""
    torch.manual_seed(0)
    base = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
    solution = cnf.ConstrainedField(waves(), [equation("u' = -u^2"), begin(1.0)], base=base).solve()
    assert solution.certificate.exact and solution.convergence is not None
    assert solution.convergence.start == "the base"
    assert float((solution(QUERY) - 1 / (1 + QUERY)).abs().max()) < 1e-6
