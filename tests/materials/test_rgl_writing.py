"""Materials written as `.bsdf` files: the reader, itself tested against Mitsuba, finds the material again."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from cnf.errors import ConstraintError
from cnf.materials.reflectance import GGX, Lambert, Material, above_horizon, cosines, half_difference, plastic, tabulate
from cnf.materials.reflectance.rgl import read_rgl
from cnf.materials.reflectance.rgl_writing import SPARE, lift, write_rgl
from cnf.materials.reflectance.tensor_file import read_tensor_file


def lit_pairs(count: int = 20000, least: float = 0.06) -> Tensor:
    """Angles of pairs, the eye uniform in its cosine, half of the half vectors close to the normal."""
    cosine, phi, part = torch.rand(3, count, dtype=torch.float64)
    theta = part ** torch.where(torch.arange(count) % 2 == 0, 4, 2) * (math.pi / 2)
    eye = torch.stack([(1 - cosine**2).sqrt(), torch.zeros(count), cosine], -1).double()
    turn = 2 * math.pi * phi
    half = torch.stack([theta.sin() * turn.cos(), theta.sin() * turn.sin(), theta.cos()], -1)
    light = 2 * (half * eye).sum(1, keepdim=True) * half - eye
    angles = half_difference(light, eye)
    return angles[above_horizon(angles, least) & ((half * eye).sum(1) > 0)]


def share_of_error(found: Material, material: Material, angles: Tensor) -> float:
    """The part of the reflected light that is wrong: sum of |difference| over the sum, both times the cosine."""
    cosine = cosines(angles)[0][:, None]
    expected = material(angles) * cosine
    return float((found(angles) * cosine - expected).abs().sum() / expected.sum())


@pytest.mark.parametrize("alpha", [0.02, 0.2])
def test_a_table_survives(tmp_path, alpha):
    """A table of gold, as smooth as polished or as satin, is found again: 99.5 % of the light is where it was."""
    table = tabulate(GGX("gold", alpha))
    found = read_rgl(write_rgl(tmp_path / "gold.bsdf", table))
    assert found.description == f"{table.label}, resampled"
    assert share_of_error(found, table, lit_pairs()) < 5e-3


def test_theta_h_is_kept_as_it_is(tmp_path):
    """At an elevation of the file's own, a table's highlight is the same on its nodes and between them."""
    table = tabulate(GGX("gold", 0.05), dtype=torch.float64)
    found = read_rgl(write_rgl(tmp_path / "gold.bsdf", table, elevations=4, resolution=91))
    # For the eye straight above theta_d = theta_h and phi_d = 0, and the light is at 2 theta_h. Table and file are both
    # linear in sqrt(theta_h) but for theta_d and the cosine, which hardly change within a cell of the highlight.
    x = torch.linspace(0.001, 0.3, 500, dtype=torch.float64)
    theta = x.square() * (math.pi / 2)
    angles = torch.stack([theta, theta, torch.zeros_like(theta)], -1)
    difference = (found(angles) / table(angles) - 1).abs()
    assert difference.max() < 1e-3
    assert table(angles).max() / table(angles).min() > 30  # a highlight indeed


def test_error_falls_with_the_square_of_the_spacing(tmp_path):
    """Linear interpolation of a smooth plastic: half the spacing, a quarter of the error."""
    material = plastic((0.6, 0.3, 0.1), 0.5)
    angles = lit_pairs(least=0.3)
    errors = []
    for elevations, resolution in ((9, 31), (17, 61), (33, 121)):
        path = write_rgl(tmp_path / "plastic.bsdf", material, elevations, resolution)
        errors.append(share_of_error(read_rgl(path), material, angles))
    assert errors[0] / errors[1] > 3.2 and errors[1] / errors[2] > 3.2, errors


def test_no_step_at_the_horizon(tmp_path):
    """Lambert: reflectance times the cosine of the light is 0.5 cos / pi, down to a cosine of 0.002 of light or eye."""
    found = read_rgl(write_rgl(tmp_path / "grey.bsdf", Lambert((0.5, 0.5, 0.5))))
    angles = lit_pairs(100000, least=0.002)
    light, eye = cosines(angles)
    error = (found.weighted(angles)[:, 0] * math.pi / 0.5 - light).abs()
    for low, share in ((light < 0.01, 0.05), (light < 0.1, 0.005), (eye < 0.1, 0.001)):
        assert low.sum() > 300
        assert error[low].sum() / light[low].sum() < share


def test_density_for_sampling_adds_up_to_the_albedo(tmp_path):
    """The density of reflected light over the unit square integrates to the albedo, whatever the elevation."""
    fields = read_tensor_file(write_rgl(tmp_path / "grey.bsdf", Lambert((0.5, 0.5, 0.5)), 10, 181))
    assert fields["luminance"].shape == (1, 10, 181, 181) and fields["rgb"].shape == (1, 10, 3, 181, 181)
    density = fields["luminance"][0].astype(float)
    assert density.min() > 0
    albedo = np.trapezoid(np.trapezoid(density, dx=1 / 180), dx=1 / 180)
    np.testing.assert_allclose(albedo[:-1], 0.5 * (1 + SPARE), rtol=3e-3)  # at 90 degrees half of a cell is cut off


def test_lifting_above_the_horizon():
    """Pairs below the horizon are moved to it and no further; pairs above stay; half vectors are kept if they can."""
    angles = torch.rand(5000, 3, dtype=torch.float64) * torch.tensor([1, 1, 4]) * (math.pi / 2)
    moved = lift(angles, 0.05)
    lowest = torch.minimum(*cosines(moved))
    assert lowest.min() > 0.05 * (1 - 1e-12)
    above = above_horizon(angles, 0.05001)
    torch.testing.assert_close(moved[above], angles[above])
    kept = ~above & (angles[:, 0].cos() > 0.06)
    torch.testing.assert_close(moved[kept][:, [0, 2]], angles[kept][:, [0, 2]])
    torch.testing.assert_close(lowest[kept], torch.full_like(lowest[kept], 0.05), rtol=1e-3, atol=0)


def test_what_cannot_be_written(tmp_path):
    """Sizes out of range and materials that are not finite are refused before anything is written."""
    grey = Lambert((0.5, 0.5, 0.5))
    for elevations, resolution in ((1, 91), (1000, 91), (10, 1), (10, 5000)):
        with pytest.raises(ConstraintError, match="elevations"):
            write_rgl(tmp_path / "a.bsdf", grey, elevations, resolution)

    class Broken(Lambert):
        def __call__(self, angles: Tensor) -> Tensor:
            return super().__call__(angles) / 0.0

    with pytest.raises(ConstraintError, match="not finite"):
        write_rgl(tmp_path / "a.bsdf", Broken((0.5, 0.5, 0.5)), 3, 5)
    assert not list(tmp_path.iterdir())
