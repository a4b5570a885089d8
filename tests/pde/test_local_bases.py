"""Local bases by choice: patches with other functions than products of polynomials."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch

import cnf
from cnf.bases import Cells, Piecewise, Polynomial, RandomFourier
from cnf.domains import Box, Disk, Timed
from cnf.errors import BasisError, CnfWarning, ProblemError
from cnf.operators.expansion import Request

SQUARE = Box((0, 0), (1, 1))
PLANE = cnf.Space("x y", "u")
WAVES = r"\cos(20(0.6 x + 0.8 y)) + x y"
HELMHOLTZ = {"interior": r"\Delta u + 400 u = 400 x y", "boundary": f"u = {WAVES}"}


def problem(local: object, **entries: object) -> cnf.Problem:
    given = {"domain": SQUARE, "equations": HELMHOLTZ, "exact": WAVES, **entries}
    return cnf.Problem("x y", solve={"method": "patches", "target": 1e-5, "local": local}, **given)


def test_derivatives_are_those_of_the_cells():
    """By central differences, on cells of different sides: a derivative along x has the half side along x in it."""
    basis = Piecewise(PLANE, Cells([0, 0], [2, 1]).cut([0], 0, [0.5]), 4, local=RandomFourier(PLANE, 7, 0.8))
    x = torch.tensor([[0.2, 0.3], [1.1, 0.7], [1.9, 0.1]], dtype=torch.float64)
    one, step = torch.ones((), dtype=torch.float64), 1e-4
    assert basis.size == 2 * 7

    def rows(at: torch.Tensor, index: tuple[int, int]) -> torch.Tensor:
        return basis.rows(at, [Request(0, {index: one})])[:, 0]

    for axis, index in ((0, (1, 0)), (1, (0, 1))):
        move = step * torch.eye(2, dtype=torch.float64)[axis]
        slope = (rows(x + move, (0, 0)) - rows(x - move, (0, 0))) / (2 * step)
        assert torch.allclose(slope, rows(x, index), rtol=1e-6, atol=1e-6) and bool((slope.abs() > 0.1).any())
    bent = (rows(x + move, (0, 0)) - 2 * rows(x, (0, 0)) + rows(x - move, (0, 0))) / step**2
    assert torch.allclose(bent, rows(x, (0, 2)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("domain", [SQUARE, Disk((0.5, 0.5), 0.5)], ids=["box", "disk"])
def test_waves_on_patches(domain: cnf.domains.Domain):
    """Helmholtz, k = 20: every condition exact, the error below the target and the estimate right."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", CnfWarning)
        answer = problem("waves", domain=domain).solve()
    assert isinstance(answer.field.basis.local, RandomFourier)
    (error,) = answer.errors.values()
    assert answer.certificate.exact and error < 1e-5 and error / 3 < answer.estimate < 1e-5


def test_any_basis_by_a_function():
    """Longer waves for a smooth field; as many are asked for as the conditions are laid out for polynomials."""
    asked = []

    def make(space: cnf.Space, count: int) -> cnf.bases.Basis:
        asked.append(count)
        return RandomFourier(space, 2 * count, 0.6)

    smooth = {"interior": r"-\Delta u = 0", "boundary": r"u = e^x \cos y"}
    answer = problem(make, equations=smooth, exact=r"e^x \cos y").solve()
    assert max(answer.errors.values()) < 1e-5 and answer.certificate.exact
    assert asked[:2] == [9**2 - 1, 11**2 - 1]  # degree 8 for that target, and 10 for the second opinion


def test_saved_and_loaded(tmp_path: Path):
    """The chosen functions come back with the field, bit for bit."""
    field = problem("waves").solve().field
    field.save(tmp_path / "field.pt")
    x = SQUARE.random(200, torch.Generator().manual_seed(0))
    assert torch.equal(cnf.load(tmp_path / "field.pt").eval()(x), field(x))


def test_mistakes_are_named():
    with pytest.raises(BasisError, match="basis of 2 coordinates"):
        Piecewise(PLANE, Cells([0, 0], [1, 1]), 4, local=Polynomial(cnf.Space("x", "u"), 3))
    with pytest.raises(BasisError, match="same order"):
        Piecewise(PLANE, Cells([0, 0], [1, 1]), 4, local=Polynomial(PLANE, 3), channel_degrees=[[3, 3]])
    with pytest.raises(ProblemError, match="one of polynomials, waves"):
        problem("wavelets")
    with pytest.raises(ProblemError, match="method = 'patches'"):
        cnf.Problem("x y", domain=SQUARE, equations=HELMHOLTZ, solve={"local": "waves"})
    with pytest.raises(ProblemError, match="at least 80 local functions; got 6"):
        problem(lambda space, count: Polynomial(space, 2)).solve()
    with pytest.raises(ProblemError, match="without time"):
        heat = {"interior": "u_t - u_{xx} = 0", "t = 0": "u = x", "x = 0": "u = 0", "x = 1": "u = 1"}
        given = {"domain": Timed(Box(0, 1), 0, 1), "equations": heat}
        cnf.Problem("x t", solve={"method": "patches", "local": "waves"}, **given).solve()
