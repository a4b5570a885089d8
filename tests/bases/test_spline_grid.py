"""Grids of splines as networks, against SciPy's B-splines and what poles and periods promise."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.interpolate import BSpline

import cnf
from cnf.errors import BasisError


def grid_with_numbers(*arguments, **options) -> cnf.encoders.SplineGrid:
    grid = cnf.encoders.SplineGrid(*arguments, **options)
    with torch.no_grad():
        grid.coefficients.copy_(torch.randn(grid.coefficients.shape, dtype=torch.float64))
    return grid


def test_one_coordinate_is_a_clamped_cubic_spline():
    """On [0, 1] with 5 cells: SciPy's BSpline with the knots 0 0 0 0 .2 .4 .6 .8 1 1 1 1 and the same coefficients."""
    grid = grid_with_numbers([5], 2)
    knots = np.r_[[0.0] * 3, np.linspace(0, 1, 6), [1.0] * 3]
    known = BSpline(knots, grid.coefficients.detach().numpy(), 3)
    at = np.linspace(0, 1, 41)
    assert np.allclose(grid(torch.from_numpy(at)[:, None]).detach().numpy(), known(at), atol=1e-13)


def test_two_coordinates_are_products_and_one_of_them_repeats():
    """A tensor product: SciPy's splines of x, contracted with periodic splines of y, which repeat after 1."""
    grid = grid_with_numbers([3, 6], 1, periodic=[False, True])
    x, y = torch.rand(20, dtype=torch.float64), torch.rand(20, dtype=torch.float64)
    first = BSpline.design_matrix(x.numpy(), np.r_[[0.0] * 3, np.linspace(0, 1, 4), [1.0] * 3], 3).toarray()
    uniform = BSpline.basis_element(np.arange(-2.0, 3.0), extrapolate=False)  # centred on 0, four cells wide
    apart = (y.numpy()[:, None] * 6 - np.arange(6) + 3) % 6 - 3  # around the circle
    second = np.nan_to_num(uniform(apart))
    known = np.einsum("pi,pj,ij->p", first, second, grid.coefficients.detach().numpy().reshape(6, 6))
    at = torch.stack([x, y], dim=1)
    assert np.allclose(grid(at)[:, 0].detach().numpy(), known, atol=1e-13)
    assert torch.allclose(grid(at), grid(at + torch.tensor([0.0, 3.0])), atol=1e-12)


def test_at_a_pole_the_azimuth_has_no_say():
    """Polar coordinates (r, phi): at r = 0 one value for every phi, beyond it not."""
    grid = grid_with_numbers([4, 8], 1, periodic=[False, True], poles=[[0, 1]])
    phi = torch.rand(9, dtype=torch.float64)
    grid.requires_grad_(False)
    centre, beside = (grid(torch.stack([torch.full_like(phi, r), phi], dim=1)) for r in (0.0, 0.3))
    assert float(centre.max() - centre.min()) < 1e-12
    assert float(beside.max() - beside.min()) > 1e-3


def test_many_points_are_looked_up_in_another_way_with_the_same_numbers():
    """With poles, one table per query instead of one look-up per function and point, bit by bit the same."""
    grid = grid_with_numbers([5, 4, 6], 3, periodic=[False, False, True], poles=[[0, 2], [1, 2]]).requires_grad_(False)
    x = torch.rand(400, 3, dtype=torch.float64)
    x[:40, 0], x[20:60, 1] = 0.0, 0.0  # on the poles
    assert 64 * 2 < len(grid.columns) < 64 * len(x)
    assert torch.equal(grid(x), torch.cat([grid(pair) for pair in x.split(2)]))
    index, weight = grid.places(x)
    assert torch.allclose(grid(x), torch.einsum("pk,pkc->pc", weight, grid.coefficients[index]), atol=1e-13)


def test_values_with_and_without_gradients_agree_and_can_be_differentiated():
    """Both ways to the values are one function; gradients to points and coefficients are right (finite differences)."""
    grid = grid_with_numbers([3, 4], 2, periodic=[False, True], poles=[[0, 1]])
    x = torch.rand(6, 2, dtype=torch.float64)
    with torch.no_grad():
        plain = grid(x)
    assert torch.allclose(plain, grid(x), atol=1e-14)
    assert torch.autograd.gradcheck(lambda at: grid(at), (x.clone().requires_grad_(),))
    names = dict(grid.named_parameters())
    assert torch.autograd.gradcheck(
        lambda c: torch.func.functional_call(grid, {"coefficients": c}, (x,)), (names["coefficients"],)
    )


def test_a_field_with_a_grid_as_its_base_is_saved_and_exact(tmp_path):
    """A grid as the base of a field of values at points: exact, and the same after a file."""
    space = cnf.Space("x y", "u")
    at = torch.rand(5, 2, dtype=torch.float64)
    field = cnf.ConstrainedField(
        cnf.bases.Kernel(space, at, cnf.kernels.Gaussian(0.2)),
        space.constraint("u", at=at, equals=torch.arange(5.0), name="values"),
        base=grid_with_numbers([4, 4], 1, poles=[[0, 1]], periodic=[False, True]),
    ).eval()
    field.save(tmp_path / "field.pt")
    again = cnf.load(tmp_path / "field.pt").eval()
    x = torch.rand(50, 2, dtype=torch.float64)
    assert field.solve().certificate.exact
    assert torch.equal(field(x), again(x))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([], 1), "cells"),
        (([0], 1), "needs a cell"),
        (([3], 1, [True]), "four along a periodic"),
        (([4, 4], 1, None, [[0, 0]]), "pairs of two coordinates"),
        (([4, 4], 1, [True]), "for each coordinate"),
        (([10**6, 10**6], 1), "at most"),
    ],
)
def test_what_cannot_be_built_is_refused(arguments, said):
    """Sizes are looked at before memory is asked for."""
    with pytest.raises(BasisError, match=said):
        cnf.encoders.SplineGrid(*arguments)


def test_single_precision_with_and_without_gradients():
    """Points in float32 on coefficients in float64: the same numbers, whether a gradient is asked for or not."""
    grid = cnf.encoders.SplineGrid([4, 5], 2, [False, True]).double()
    with torch.no_grad():
        grid.coefficients.copy_(torch.arange(grid.coefficients.numel()).reshape_as(grid.coefficients) / 7)
    x = torch.rand(9, 2, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        plain = grid(x)
    followed = grid(x)
    assert plain.dtype == followed.dtype == torch.float32 and followed.requires_grad
    assert (plain - followed).abs().max() <= 1e-5 * plain.abs().max()
