"""Generated materials: formulas in another form, energy by quadrature, reciprocity, bad parameters."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from cnf.errors import ConstraintError
from cnf.materials.reflectance import GGX, Lambert, above_horizon, directions, half_difference, plastic


def light_at(theta: float, count: int) -> torch.Tensor:
    """The same direction, `theta` from the normal, `count` times."""
    return torch.tensor([math.sin(theta), 0, math.cos(theta)], dtype=torch.float64).expand(count, 3)


def albedo_by_halves(material, theta: float, alpha: float, count: int = 400) -> torch.Tensor:
    """What a material sends out of light from `theta`, (3,): the integral of f cos over the outgoing hemisphere.

    The midpoint rule over half vectors, uniform in log(1 + theta_h / alpha), so that a sharp highlight and its long
    tail are both resolved; an outgoing direction mirrors the light in h, dwo = 4 (wi . h) dh.
    """
    steps = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    longest = math.log1p(math.pi / 2 / alpha)
    tilt, turn = torch.meshgrid(alpha * (longest * steps).expm1(), 2 * math.pi * steps, indexing="ij")
    tilt, turn = tilt.flatten(), turn.flatten()
    h = torch.stack([tilt.sin() * turn.cos(), tilt.sin() * turn.sin(), tilt.cos()], -1)
    weight = tilt.sin() * (tilt + alpha) * longest * 2 * math.pi / count**2
    wi = light_at(theta, len(h))
    along = (wi * h).sum(1)
    wo = 2 * along[:, None] * h - wi
    ok = (along > 0) & (wo[:, 2] > 0)
    f = material(half_difference(wi[ok], wo[ok]))
    return (f * (wo[ok, 2] * 4 * along[ok] * weight[ok])[:, None]).sum(0)


def test_lambert_sends_out_its_albedo():
    """The integral of albedo / pi times the cosine over the hemisphere is the albedo (Gauss-Legendre: exact)."""
    material = Lambert((0.2, 0.5, 0.9))
    nodes, weights = np.polynomial.legendre.leggauss(8)
    cosine, weights = torch.from_numpy((nodes + 1) / 2), torch.from_numpy(weights / 2)
    sine = (1 - cosine.square()).sqrt()
    wo = torch.stack([sine, 0 * sine, cosine], -1)
    f = material(half_difference(light_at(0.7, 8), wo))
    total = 2 * math.pi * (f * (weights * cosine)[:, None]).sum(0)
    assert torch.allclose(total, torch.tensor([0.2, 0.5, 0.9], dtype=torch.float64), rtol=1e-14)


def test_the_quadrature_itself():
    """The quadrature of half vectors gives Lambert's albedo too, so that its measure is right."""
    assert torch.allclose(
        albedo_by_halves(Lambert(0.5), 0.5, 0.7), torch.full((3,), 0.5, dtype=torch.float64), rtol=1e-5
    )


def test_ggx_against_the_textbook_form(pairs):
    """f = D F G / (4 cos cos) written with tangents and Smith's Lambda, on directions instead of angles."""
    alpha, specular = 0.23, np.array([0.9, 0.5, 0.1])
    angles = pairs[above_horizon(pairs, 1e-3)]
    wi, wo = (w.numpy() for w in directions(angles))
    h = (wi + wo) / np.linalg.norm(wi + wo, axis=1, keepdims=True)

    def slope(w: np.ndarray) -> np.ndarray:
        return (1 - w[:, 2] ** 2) / w[:, 2] ** 2  # tan^2

    density = np.exp(-2 * np.log1p(slope(h) / alpha**2)) / (np.pi * alpha**2 * h[:, 2] ** 4)
    shade_i, shade_o = ((np.sqrt(1 + alpha**2 * slope(w)) - 1) / 2 for w in (wi, wo))
    fresnel = specular + (1 - specular) * (1 - (wi * h).sum(1))[:, None] ** 5
    expected = fresnel * (density / (1 + shade_i + shade_o) / (4 * wi[:, 2] * wo[:, 2]))[:, None]
    found = GGX(tuple(specular), alpha)(angles).numpy()
    assert np.allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("theta", [0.0, 0.6, 1.2, 1.45])
def test_no_more_light_out_than_in(alpha, theta):
    """A white mirror-like surface (F = 1) sends out at most what comes in; so does a white plastic."""
    for material in (GGX((1, 1, 1), alpha), GGX((0.04, 0.04, 0.04), alpha, (1, 1, 1))):
        total = albedo_by_halves(material, theta, max(alpha, 0.3) if any(material.diffuse) else alpha, 250)
        assert (total < 1 + 1e-4).all()  # the quadrature's own error is below this


def test_a_smooth_white_surface_loses_nothing():
    """With F = 1, what rough mirrors lose between themselves goes to zero with alpha^2: a rate, not only a bound."""
    lost = [1 - float(albedo_by_halves(GGX((1, 1, 1), alpha), 0.6, alpha, 800)[0]) for alpha in (0.08, 0.04, 0.02)]
    assert 0 < lost[2] < 1e-3
    assert lost[0] / lost[1] == pytest.approx(4, rel=0.1) and lost[1] / lost[2] == pytest.approx(4, rel=0.05)


@pytest.mark.parametrize("material", [Lambert(0.3), GGX("gold", 0.1), plastic((0.8, 0.1, 0.1))])
def test_reciprocal(material, pairs):
    """Light and eye swapped (phi_d + pi): the same to rounding; and 0 below the horizon, where nothing is valid."""
    swapped = material(pairs + torch.tensor([0, 0, math.pi], dtype=torch.float64))
    f = material(pairs)
    away = above_horizon(pairs, 1e-6) | ~above_horizon(pairs, -1e-6)  # at the horizon rounding decides
    assert torch.allclose(f[away], swapped[away], rtol=1e-9)
    assert (f[~material.valid(pairs)] == 0).all() and (f[material.valid(pairs)] > 0).all()


def test_names_and_labels():
    """Labels for pictures, names for files."""
    assert GGX("gold", 0.1).label == "GGX gold 0.1" and GGX("gold", 0.1).name == "ggx-gold-0.1"
    assert Lambert((0.1, 0.2, 0.3)).label == "Lambert 0.1,0.2,0.3" and Lambert(0.5).name == "lambert-0.5"
    assert plastic((0.8, 0.1, 0.1), 0.05).label == "Plastic 0.8,0.1,0.1 0.05"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Lambert(1.5),
        lambda: Lambert((0.1, 0.2)),
        lambda: Lambert((math.nan, 0, 0)),
        lambda: GGX("unobtainium"),
        lambda: GGX("gold", 0.0),
        lambda: GGX("gold", math.nan),
        lambda: GGX((0.1, -0.1, 0)),
        lambda: GGX("gold", 0.1, (2, 0, 0)),
    ],
)
def test_refuses_impossible_parameters(make):
    """Colours beyond 0 to 1, unknown metals, a roughness of zero."""
    with pytest.raises(ConstraintError):
        make()
