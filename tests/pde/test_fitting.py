"""Waves on too few points: the closest field by least squares instead of an exact one that is nothing between them."""

import warnings

import pytest
import torch

import cnf
from cnf.errors import CnfWarning, UnderdeterminedError
from cnf.pde.problems.fitting import weighed_rows

SQUARE = {"type": "box", "lower": [0, 0], "upper": [1, 1]}


def poisson(wave: float, points: int, **more: object) -> cnf.Problem:
    exact = rf"\sin({wave} x) \sin({wave} y)"
    return cnf.Problem(
        "x y",
        domain=SQUARE,
        equations={"interior": rf"-\Delta u = {2 * wave**2} {exact}", "boundary": f"u = {exact}"},
        points={"count": points},
        exact=exact,
        **more,
    )


def solve(problem: cnf.Problem) -> cnf.Answer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)
        return problem.solve()


def test_too_few_points_are_fitted(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """Waves of the length 0.2 on 150 points, 12 per side: exact fields are off by 0.8, the fit by less than 0.01.

    Guides, which would make an exact field of it (error 2e-3), are left out: fits are for what is too much for them.
    The answer says that it is a fit and is not exact, its estimate covers the error, and files keep its weights.
    """
    with monkeypatch.context() as patched:
        patched.setattr("cnf.pde.problems.planning.make_guiding", lambda problem: None)
        answer = solve(poisson(30, 150))
    error = max(answer.errors.values())
    assert error < 0.01 and not answer.certificate.exact
    assert error / 3 < answer.estimate < 10 * error
    assert "fitted by least squares" in answer.choice and answer.tuning.best.settings["fit"] == "least squares"
    said = " ".join(answer.verdict())
    assert "NOT EXACT" in said and "too few points" in said and "hold at their points" not in said
    path = tmp_path / "field.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)
        answer.field.save(path)
        x = torch.rand(20, 2, dtype=torch.float64)
        assert torch.equal(cnf.load(path).eval()(x), answer(x))


def test_guides_come_before_fits(tmp_path):
    """The same with guides: exact, right between the points, and files keep its weights too."""
    answer = solve(poisson(30, 150))
    error = max(answer.errors.values())
    assert error < 0.01 and answer.certificate.exact and not answer.choice and answer.tuning.best.settings["guided"]
    assert error / 3 < answer.estimate < 10 * error
    answer.field.save(tmp_path / "field.pt")
    x = torch.rand(20, 2, dtype=torch.float64)
    assert torch.equal(cnf.load(tmp_path / "field.pt").eval()(x), answer(x))


def test_what_is_resolved_stays_exact():
    answer = solve(poisson(5, 100))
    assert answer.certificate.exact and not answer.choice and "fit" not in answer.tuning.best.settings


def test_open_problems_are_refused_all_the_same():
    """Without its boundary a Poisson problem has many solutions, fitted or not."""
    with pytest.raises(UnderdeterminedError):
        solve(
            cnf.Problem(
                "x y",
                domain=SQUARE,
                equations={"interior": r"-\Delta u = 1800 \sin(30 x) \sin(30 y)"},
                points={"count": 150},
            )
        )


def test_rows_are_of_order_one():
    """Two channels, two rows, derivatives of different orders: each row of an operator has unit size on average."""
    space = cnf.Space("x y", "u v")
    x = torch.rand(40, 2, dtype=torch.float64)
    given = [
        space.constraint(r"u_{xx} + v = x; v_x = 1", at=x, name="inside"),
        space.constraint("1000 v = 2000", at=x[:10], name="edge"),
    ]
    basis = cnf.bases.RandomFourier(space, 30, 0.1)
    rows, right = weighed_rows(basis, given)
    assert rows.shape == (90, 60) and right.shape == (90,)
    for part in (rows[:40], rows[40:80], rows[80:]):
        assert (part**2).sum(axis=1).mean() == pytest.approx(1.0)
    weights = torch.rand(30, 2, dtype=torch.float64)
    field = (basis.rows(x[:10], [cnf.bases.basis.values_request(2, x[:10])])[:, 0] @ weights)[:, 1]
    seen = torch.from_numpy(rows[80:]) @ weights.T.reshape(-1)
    assert torch.allclose(seen / torch.from_numpy(right[80:]), field / 2)
