"""Kernel grids: least squares on splines, corrected to be exact; reciprocal and without a jump by construction."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import cnf
from cnf.errors import CnfError
from cnf.materials.fitting import least_squares
from cnf.materials.fitting.coordinates import HighlightCoordinates
from cnf.materials.fitting.fit import QUICK, fit_material, suit_method
from cnf.materials.fitting.fitted import as_material
from cnf.materials.fitting.folders import check_conditions
from cnf.materials.fitting.sampling import draw_samples, draw_valid, swapping_gap, uniform_angles
from cnf.materials.reflectance.analytic import GGX
from cnf.materials.reflectance.material import Material

GOLD = GGX("gold", 0.2)
SMALL = replace(QUICK, samples=4000, parameters=6000, conditions=30)


class OneWay(Material):
    """Reflectance that knows light from eye: brighter if the light is the lower of the two."""

    name, label = "one-way", "one way"

    def __call__(self, angles: torch.Tensor) -> torch.Tensor:
        return torch.where(self.valid(angles)[:, None], 1 + 0.8 * angles[:, 2:].cos().expand(-1, 3), 0.0)


def swap(angles: torch.Tensor) -> torch.Tensor:
    return angles + angles.new_tensor([0.0, 0.0, math.pi])


@pytest.fixture(scope="module")
def fit():
    return fit_material(GOLD, "kernel-grid", SMALL)


def test_conditions_are_exact_and_the_rest_is_close(fit):
    """Gold by GGX is smooth: 30 conditions to rounding, as the certificate and as a query finds them; others near."""
    assert fit.certificate is not None and fit.certificate.exact and fit.certificate.worst < 1e-13
    assert check_conditions(fit).worst < 1e-12
    angles = draw_valid(GOLD, 500, uniform_angles, torch.Generator().manual_seed(3))
    error = (torch.log1p(as_material(fit)(angles)) - torch.log1p(GOLD(angles))).abs()
    assert float(error.median()) < 0.02


def test_light_and_eye_may_be_swapped_and_nothing_jumps_in_the_mirror_direction(fit):
    """f(i, o) = f(o, i) to rounding; at theta_h = 0 one value for all azimuths."""
    field = as_material(fit, torch.float64)
    angles = draw_valid(GOLD, 300, uniform_angles, torch.Generator().manual_seed(4))
    there, back = field.reflectance(angles), field.reflectance(swap(angles))
    assert float(((there - back).abs() / there.clamp_min(1e-3)).max()) < 1e-12
    around = torch.zeros(16, 3, dtype=torch.float64)
    around[:, 1], around[:, 2] = 0.7, torch.linspace(0, 6, 16, dtype=torch.float64)
    mirror = field.reflectance(around)
    assert float(((mirror - mirror[0]) / mirror[0]).abs().max()) < 1e-12


def test_a_material_that_knows_light_from_eye_is_not_made_reciprocal():
    """log(1 + f) changes by tens of percent with light and eye swapped: the data decide, unless told otherwise."""
    gap = swapping_gap(OneWay())
    assert gap is not None and gap > 0.3 and swapping_gap(GOLD) == pytest.approx(0.0, abs=1e-12)
    angles = torch.tensor([[0.3, 0.4, 0.2]], dtype=torch.float64)
    free, told = (
        as_material(fit_material(OneWay(), "kernel-grid", replace(SMALL, reciprocity=word))) for word in ("auto", "yes")
    )
    wanted = OneWay()(angles)
    assert torch.allclose(free(angles), wanted, rtol=0.05) and not torch.allclose(told(angles), wanted, rtol=0.2)


def test_coefficients_are_those_of_least_squares():
    """On a tiny grid: numpy's lstsq of the same samples and second differences gives the same field."""
    samples = draw_samples(GOLD, 400, 1)
    grid = cnf.encoders.SplineGrid([3, 3, 4], 3, [False, False, True], [[0, 2], [1, 2]])
    network = nn.Sequential(HighlightCoordinates(), grid)
    least_squares.fit_grid(network, samples.points, samples.logs, 0)
    matrix = least_squares.assemble(grid, network[0], samples.points).toarray().astype(float)
    rough = least_squares.roughness(grid).toarray().astype(float)
    wanted = np.vstack([samples.logs.numpy(), np.zeros((len(rough), 3))])
    known, *_ = np.linalg.lstsq(np.vstack([matrix, rough]), wanted, rcond=None)
    assert (
        np.abs(matrix @ (known - grid.coefficients.detach().numpy())).max() < 2e-3 * np.abs(samples.logs.numpy()).max()
    )


def test_lists_of_measurements_are_fitted_by_a_network():
    """A grid has more cells than such a list has measurements."""
    from cnf.materials.reflectance.scattered import Scattered

    angles = draw_valid(GOLD, 50, uniform_angles, torch.Generator().manual_seed(1))
    assert suit_method(Scattered("few", "few", angles, GOLD(angles))) == "kernel-siren"
    assert suit_method(GOLD) == "kernel-grid"


def test_the_course_ends_with_what_was_reached():
    """The last entry is the loss of the coefficients that are kept, and steps are counted like those of trainings."""
    told: list[tuple[int, int]] = []
    made = fit_material(GOLD, "kernel-grid", SMALL, lambda step, steps, loss, residual: told.append((step, steps)))
    assert [step for step, _ in told] == made.course.step and told[0][0] == 0 and told[-1][0] < told[-1][1]
    assert made.course.stopped == ("steps" if told[-1][0] + 1 == told[-1][1] else "converged")
    assert isinstance(made.model, cnf.ConstrainedField) and made.model.base is not None
    samples = draw_samples(GOLD, SMALL.samples, SMALL.seed, SMALL.sampling)
    given = (samples, made.conditions)
    with torch.no_grad():
        errors = [(made.model.base(some.points) - some.logs).abs() for some in given]
    loss = float(torch.cat(errors).mean())
    assert made.course.loss[-1] == pytest.approx(loss, rel=1e-3)


@pytest.mark.parametrize(
    ("method", "changes", "part"),
    [
        ("kernel-grid", {"rate": 0.1}, "takes no learning rate"),
        ("kernel-grid", {"loss": "cosine"}, "serves methods that are trained"),
        ("kernel-grid-free", {"reciprocity": "yes"}, "never reciprocal by construction; take kernel-grid"),
    ],
)
def test_settings_without_effect_are_refused(method: str, changes: dict[str, Any], part: str):
    with pytest.raises(CnfError, match=part):
        fit_material(GOLD, method, replace(SMALL, **changes))
