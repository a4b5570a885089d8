"""Physics and lobes of materials against closed forms and quadrature of another kind."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from cnf.errors import ConstraintError
from cnf.materials.fitting.measuring import inspect_fit
from cnf.materials.reflectance import GGX, Lambert, Material, cosines, directions, half_difference
from cnf.materials.reflectance.lobe import REACH, compare_peaks, lobe_angles, lobe_errors
from cnf.materials.reflectance.physics import (
    INCIDENCE,
    directional_albedo,
    measure_physics,
    mirror_jumps,
    random_pairs,
    reciprocity_errors,
    swapped,
)
from cnf.materials.report.inspection import describe_inspection, describe_physics

GOLD = GGX("gold", 0.2)


class OneSided(Material):
    """f = 1 + cos(phi_d) / 2: with light and eye swapped 1 - cos(phi_d) / 2. As a model, below 0 for phi_d < pi / 2."""

    name = label = "one-sided"

    def __call__(self, angles: Tensor) -> Tensor:
        return torch.where(self.valid(angles)[:, None], 1 + angles[:, 2:].cos().expand(-1, 3) / 2, 0.0)

    def logarithm(self, angles: Tensor) -> Tensor:
        return torch.where(angles[:, 2:] < math.pi / 2, -1.0, 1.0).expand(-1, 3)


@pytest.mark.parametrize("degrees", INCIDENCE)
def test_albedo_of_lambert(degrees: float):
    """The integral of a / pi cos over the hemisphere is a, for light from anywhere."""
    albedo = torch.tensor([0.2, 0.5, 0.9], dtype=torch.float64)
    assert (directional_albedo(Lambert((0.2, 0.5, 0.9)), degrees) - albedo).abs().max() < 1e-13


@pytest.mark.parametrize("degrees", [0.0, 40.0, 75.0])
def test_albedo_of_a_rough_metal(degrees: float):
    """Gauss's rule over cosine and azimuth of the way out itself, which knows nothing of half vectors."""
    metal = GGX("copper", 0.5)
    nodes, weights = np.polynomial.legendre.leggauss(160)
    height, phi = torch.from_numpy((nodes + 1) / 2), torch.arange(400, dtype=torch.float64) / 400 * 2 * math.pi
    z, turn = (part.reshape(-1) for part in torch.meshgrid(height, phi, indexing="ij"))
    across = (1 - z.square()).sqrt()
    out = torch.stack([across * turn.cos(), across * turn.sin(), z], -1)
    light = out.new_tensor([math.sin(math.radians(degrees)), 0, math.cos(math.radians(degrees))]).expand_as(out)
    area = torch.from_numpy(weights / 2).repeat_interleave(400) * (2 * math.pi / 400)
    expected = (metal(half_difference(light, out)) * (z * area)[:, None]).sum(0)
    assert (directional_albedo(metal, degrees) - expected).abs().max() < 1e-7


def test_albedo_follows_a_sharp_lobe():
    """A lobe of half a degree: four times as many nodes change nothing that is shown; beyond 90 degrees is refused."""
    sharp = GGX((1.0, 1.0, 1.0), 0.01)
    for degrees in (0.0, 60.0, 85.0):
        coarse, fine = directional_albedo(sharp, degrees), directional_albedo(sharp, degrees, 128, 512)
        assert (coarse - fine).abs().max() < 1e-7 and 0.98 < float(fine[0]) < 1
    with pytest.raises(ConstraintError, match="below 90"):
        directional_albedo(sharp, 90.0)


def test_swapping_light_and_eye():
    """`swapped` exchanges the directions; a metal does not mind; 1 + cos / 2 differs by |cos| of a mean of 1."""
    pairs = random_pairs(GOLD.valid, 2000)
    (wi, wo), (back_o, back_i) = directions(pairs), directions(swapped(pairs))
    assert (wi - back_i).abs().max() < 1e-14 and (wo - back_o).abs().max() < 1e-14
    cos_i, cos_o = cosines(pairs)
    assert float(cos_i.mean()) == pytest.approx(0.5, abs=0.03) and float(cos_o.mean()) == pytest.approx(0.5, abs=0.03)
    assert max(reciprocity_errors(GOLD, pairs)) < 1e-13
    worst, mean = reciprocity_errors(OneSided(), pairs)
    assert worst == pytest.approx(float(pairs[:, 2].cos().abs().max())) and worst > 0.99
    assert mean == pytest.approx(float(pairs[:, 2].cos().abs().mean()))


def test_jump_at_the_mirror_direction():
    """Nothing for a metal; 1 + cos / 2 goes from 1/2 to 3/2 around a mean of 1."""
    assert mirror_jumps(GOLD) == (0.0, 0.0)
    assert mirror_jumps(OneSided()) == pytest.approx((1.0, 1.0))
    half = mirror_jumps(OneSided(), lambda angles: angles[:, 2] < 3.1)  # 0 to 170 degrees: the mean is 1 + 0.5 / 18
    assert half == pytest.approx(2 * [0.5 * (1 + math.cos(math.radians(10))) / (1 + 0.5 / 18)])


def test_all_of_it():
    """The numbers of one material and of two side by side; energy from nothing is marked; plain data for JSON."""
    found = measure_physics(OneSided())
    assert found.makes_energy and not measure_physics(Lambert((1.0, 1.0, 1.0))).makes_energy
    assert found.negative_share == pytest.approx(0.25, abs=0.02) and measure_physics(GOLD).negative_share is None
    assert "ABOVE 1" in describe_physics([("fit", found)]) and "25 %" in describe_physics([("fit", found)])
    both = inspect_fit(OneSided(), GOLD)
    assert both.reference is not None and not both.reference.makes_energy and both.lobe is not None
    assert "it makes energy" in describe_inspection(both) and "reference 0.9" in describe_inspection(both)
    assert json.loads(json.dumps(both.to_dict()))["fitted"]["makes_energy"] is True


# The lobe


def test_directions_in_the_lobe():
    """Half vectors uniform over a cap of 4 degrees: 1 - cos is uniform; light uniform from 0 to 75 degrees."""
    angles = lobe_angles(4096)
    assert float(angles[:, 0].max()) <= REACH * (1 + 1e-9)
    assert float((1 - angles[:, 0].cos()).mean()) == pytest.approx((1 - math.cos(REACH)) / 2, rel=1e-2)
    incidence = torch.rad2deg(torch.acos(cosines(angles)[0]))
    assert float(incidence.mean()) == pytest.approx(37.5, abs=0.1) and float(incidence.max()) < 75.1


def test_errors_in_the_lobe():
    """A tenth too bright everywhere, or black; and at normal incidence a lobe half as wide is four times as high."""
    bright = lobe_errors(lambda angles: 1.1 * GOLD(angles), GOLD)
    assert (bright.median, bright.mean, bright.peak_ratio, bright.peak_worst) == pytest.approx((0.1, 0.1, 1.1, 1.1))
    dark = lobe_errors(lambda angles: 0 * GOLD(angles), GOLD)
    assert (dark.median, dark.mean, dark.peak_worst) == pytest.approx((1, 1, 0))
    assert compare_peaks(GGX("gold", 0.1), GOLD, 0.0, REACH) == pytest.approx(4.0, rel=1e-9)
