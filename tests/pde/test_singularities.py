"""Fields that are singular in corners or continue into a singularity inside a hole: solved with poles."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import cnf

SQUARE = {"type": "box", "lower": [0, 0], "upper": [1, 1]}
LOAD = {"interior": r"-\Delta u = 1", "boundary": "u = 0"}


def membrane(x: float, y: float, terms: int = 199) -> float:
    """The deflection of a square membrane under unit load, by its classical series."""
    total = x * (1 - x) / 2
    for k in range(1, terms + 1, 2):
        a = k * math.pi
        shape = (math.exp(-a * y) + math.exp(-a * (1 - y))) / (1 + math.exp(-a))
        total -= 4 / a**3 * math.sin(a * x) * shape
    return total


@pytest.fixture(scope="module")
def loaded():
    return cnf.Problem("x y", domain=SQUARE, equations=LOAD, points=200).solve()


def test_square_membrane(loaded):
    """-Delta u = 1, u = 0 on the edge: not smooth in the corners. The centre sinks by 0.0736713532815."""
    assert membrane(0.5, 0.5) == pytest.approx(0.0736713532815, rel=1e-12)
    points = np.random.default_rng(0).uniform(0.01, 0.99, (50, 2))
    found = loaded(torch.from_numpy(points))[:, 0].numpy()
    wanted = np.array([membrane(x, y, 1999) for x, y in points])
    assert np.abs(found - wanted).max() <= 1e-9 * wanted.max()
    assert loaded.certificate.exact


def test_poles_make_the_difference(loaded):
    """The same without poles misses the equation between the points by a thousand times more, at least."""
    plain = cnf.Problem("x y", domain=SQUARE, equations=LOAD, points=200, basis={"poles": False}).solve()
    assert plain.worst_held_out > 1e3 * loaded.worst_held_out


def test_field_with_poles_is_saved(loaded, tmp_path):
    """Saved and loaded, it gives the same values bit for bit."""
    loaded.field.save(tmp_path / "field.pt")
    x = torch.rand(20, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(cnf.load(tmp_path / "field.pt").eval()(x), loaded.field(x))


def test_no_poles_beside_integrals_and_time():
    """Integrals over functions with a pole nearby are too costly, and in time there are none."""
    mean = {**LOAD, "x = 0": r"u = 0"}
    with_mean = [{"on": k, "equation": v} for k, v in mean.items()] + [{"equation": r"\int_0^1\int_0^1 u\,dx\,dy = 1"}]
    assert len(cnf.Problem("x y", domain=SQUARE, equations=with_mean, points=50).poles) == 0
    timed = {**SQUARE, "time": [0, 1]}
    heat = {"interior": r"u_t = \Delta u", "boundary": "u = 0", "t = 0": "u = 0"}
    assert len(cnf.Problem("x y t", domain=timed, equations=heat, points=50).poles) == 0


def test_poles_belong_to_random_fourier():
    with pytest.raises(cnf.errors.ProblemError, match="only random-fourier"):
        cnf.Problem("x y", domain=SQUARE, equations=LOAD, basis={"type": "rbf", "poles": True})
