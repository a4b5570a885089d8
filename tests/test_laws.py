"""Laws: callables of the field in conditions, solved, differentiated, learnt from sensors, kept and refused."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import cnf
from cnf.errors import CnfError, ProblemError

LINE = cnf.Space("x", "u")
UNIT = torch.linspace(0, 1, 24, dtype=torch.float64)[:, None]
QUERY = torch.linspace(0.05, 0.95, 7, dtype=torch.float64)[:, None]


class Conductivity(nn.Module):
    """1 + a u + b u^2 of one argument, (P, 1) -> (P, 1)."""

    def __init__(self, a: float, b: float):
        super().__init__()
        self.factors = nn.Parameter(torch.tensor([a, b], dtype=torch.float64))

    def forward(self, columns: Tensor) -> Tensor:
        return 1 + self.factors[0] * columns + self.factors[1] * columns**2


def conducted(x: Tensor, a: float, b: float) -> Tensor:
    """-(k(u) u')' = 1 with u(0) = 0, u(1) = 1, by Kirchhoff: K = u + a u^2/2 + b u^3/3 is a parabola in x."""
    level = -(x**2) / 2 + (1 + a / 2 + b / 3 + 0.5) * x
    u = x.clone()
    for _ in range(60):
        u = u - (u + a / 2 * u**2 + b / 3 * u**3 - level) / (1 + a * u + b * u**2)
    return u


def field_with(law: nn.Module) -> cnf.ConstrainedField:
    inside = LINE.constraint(r"-\partial_x (k(u) u_x) = 1", at=UNIT[1:-1], k=law, name="inside")
    ends = LINE.constraint("u = x", at=UNIT[[0, -1]], name="ends")
    return cnf.ConstrainedField(cnf.bases.Polynomial(LINE, 25), [inside, ends])


def test_a_law_is_solved_with_and_differentiated():
    """The field and its slopes by the parameters of the law, against Kirchhoff's transform and its differences."""
    law = Conductivity(0.3, 0.5)
    field = field_with(law)
    assert "coefficient_networks.k.factors" in dict(field.named_parameters())
    solution = field.solve()
    assert solution.certificate.exact
    torch.testing.assert_close(solution(QUERY), conducted(QUERY, 0.3, 0.5), rtol=0, atol=1e-7)
    (slopes,) = torch.autograd.grad(solution(QUERY).sum(), law.factors)
    h = 1e-5
    by_a = (conducted(QUERY, 0.3 + h, 0.5) - conducted(QUERY, 0.3 - h, 0.5)).sum() / (2 * h)
    by_b = (conducted(QUERY, 0.3, 0.5 + h) - conducted(QUERY, 0.3, 0.5 - h)).sum() / (2 * h)
    torch.testing.assert_close(slopes, torch.stack([by_a, by_b]), rtol=0, atol=1e-5)


def test_a_solution_keeps_the_law_it_was_solved_with():
    """Its own conditions hold after the parameters have moved; those of the field, which moved along, do not."""
    law = Conductivity(0.3, 0.5)
    field = field_with(law)
    solution = field.solve(measure=False)
    with torch.no_grad():
        law.factors.add_(1.0)
    assert float(solution.residual(solution.constraints[0]).detach().abs().max()) < 1e-8
    assert float(solution.residual(field.constraints[0]).detach().abs().max()) > 1
    assert solution.certificate.exact


@pytest.mark.slow
def test_a_law_is_learnt_from_sensors():
    """k(u) = 1 + 0.8 u + 0.4 u^2 from seven values of the field, to six digits."""
    law = Conductivity(0.1, 0.1)
    field = field_with(law)
    optimiser = torch.optim.LBFGS(
        [law.factors], max_iter=30, tolerance_grad=1e-14, tolerance_change=1e-16, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimiser.zero_grad()
        found = (field.solve(measure=False)(QUERY) - conducted(QUERY, 0.8, 0.4)).square().sum()
        found.backward()
        return found

    optimiser.step(loss)
    torch.testing.assert_close(law.factors.detach(), torch.tensor([0.8, 0.4], dtype=torch.float64), rtol=0, atol=1e-6)


def test_a_field_with_a_law_is_saved(tmp_path):
    law = Conductivity(0.3, 0.5)
    field = field_with(law).eval()
    expected = field(QUERY)
    field.save(tmp_path / "field.pt")
    loaded = cnf.load(tmp_path / "field.pt", networks={"k": Conductivity(0.0, 0.0)})
    assert torch.equal(loaded(QUERY), expected) and loaded.certificate.exact


REFUSED = [
    ("k(u - 1) = 0", "Not clear; for a product write"),
    ("k(u) + k(u, x) = 0", "with 1 and with 2 arguments"),
    ("k'(u, x) = 0", r"write k\^\{\(1,0\)\}"),
    ("k_x(u) u = 1", "derivative of k by which of its arguments"),
]


@pytest.mark.parametrize(("source", "message"), REFUSED)
def test_what_is_not_clear_about_a_law_is_refused(source: str, message: str):
    with pytest.raises(CnfError, match=message):
        LINE.constraint(source, at=UNIT, k=lambda columns: columns**2)


def test_a_callable_that_takes_other_arguments_says_so():
    """k(u) gives one column; a function of points in the plane asks for a second one."""
    space = cnf.Space("x y", "u")
    points = torch.rand(9, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    asked = space.constraint("k(u) u = 1", at=points, k=lambda points: points[:, 0] + points[:, 1])
    with pytest.raises(CnfError, match=r"'k' .*\(P, 1\)"):
        cnf.ConstrainedField(cnf.bases.Polynomial(space, 3), [asked]).solve()


BAR = {
    "coordinates": "x",
    "domain": {"type": "box", "lower": [0], "upper": [1]},
    "equations": [
        {"on": "interior", "equation": r"-\partial_x (k(u) u_x) = 1"},
        {"on": "boundary", "equation": "u = x"},
    ],
}


@pytest.mark.parametrize("law", ["1 + 0.3 u + 0.5 u^2", Conductivity(0.3, 0.5)], ids=["expression", "module"])
def test_laws_in_problems(law: object):
    """An expression in the channel, as files have it, or a network; on patches, to 1e-9."""
    answer = cnf.Problem(**BAR, parameters={"k": law}).solve()
    assert answer.certificate.exact
    torch.testing.assert_close(answer.field(QUERY).detach(), conducted(QUERY, 0.3, 0.5), rtol=0, atol=1e-9)


def test_a_law_of_one_channel_is_no_law_of_another_expression():
    equations = [{"on": "interior", "equation": r"-\partial_x (k(u^2) u_x) = 1"}, BAR["equations"][1]]
    with pytest.raises(ProblemError, match=r"k is an expression in u already; write k or k\(u\)"):
        cnf.Problem(**{**BAR, "equations": equations}, parameters={"k": "1 + u"})
