"""Samples of a material: their distribution against rejection done by hand, their validity, their numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from cnf.errors import ConstraintError
from cnf.materials.fitting.sampling import (
    HIGHLIGHT,
    Samples,
    draw_samples,
    draw_valid,
    grid_like_angles,
    highlight_angles,
    look_up,
    uniform_angles,
)
from cnf.materials.reflectance import GGX, Material, decode
from cnf.materials.reflectance.scattered import Scattered

GOLD = GGX("gold", 0.2)
COUNT = 8000
LIKELY = 1e-3  # a right sampler falls below this once in a thousand seeds; the seed is fixed


def z_components(angles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """z of light and eye: h and the difference vector turned by rotation matrices, wo mirrored about h."""
    th, td, pd = angles.T
    h = np.stack([np.sin(th), 0 * th, np.cos(th)], 1)
    d = np.stack([np.sin(td) * np.cos(pd), np.sin(td) * np.sin(pd), np.cos(td)], 1)
    light = np.stack(
        [np.cos(th) * d[:, 0] + np.sin(th) * d[:, 2], d[:, 1], np.cos(th) * d[:, 2] - np.sin(th) * d[:, 0]], 1
    )
    eye = 2 * (light * h).sum(1)[:, None] * h - light
    return light[:, 2], eye[:, 2]


def by_hand(kind: str, count: int = 60_000) -> np.ndarray:
    """Valid angles by rejection with NumPy's random numbers."""
    random = np.random.default_rng(5)
    angles = random.uniform(size=(count, 3)) * [math.pi / 2, math.pi / 2, 2 * math.pi]
    if kind == "grid":
        angles[:, 0] = np.linspace(0, 1, count) ** 2 * math.pi / 2
    if kind == "highlight":
        angles[:, 0] = np.abs(random.normal(scale=HIGHLIGHT, size=count))
    light, eye = z_components(angles)
    return angles[(light > 0) & (eye > 0)]


def angles_of(samples: Samples) -> np.ndarray:
    return decode(samples.points).numpy()


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("kind", ["uniform", "grid", "highlight"])
def test_proposals(kind: str):
    """theta_h: uniform, (i / 90)^2 as MERL's rows, or half-normal of 0.1; the other two uniform (KS tests)."""
    draw = {"uniform": uniform_angles, "grid": grid_like_angles, "highlight": highlight_angles}[kind]
    angles = draw(COUNT, generator()).numpy()
    right = math.pi / 2
    expected = {
        "uniform": stats.uniform(0, right).cdf,
        "grid": lambda theta: np.sqrt(np.clip(theta / right, 0, 1)),
        "highlight": stats.halfnorm(scale=0.1).cdf,
    }[kind]
    assert stats.kstest(angles[:, 0], expected).pvalue > LIKELY
    assert stats.kstest(angles[:, 1], stats.uniform(0, right).cdf).pvalue > LIKELY
    assert stats.kstest(angles[:, 2], stats.uniform(0, 2 * math.pi).cdf).pvalue > LIKELY
    assert np.abs(np.corrcoef(angles.T) - np.eye(3)).max() < 0.05


@pytest.mark.parametrize("sampling", ["uniform", "highlight"])
def test_distribution_of_samples(sampling: str):
    """Each angle as by rejection with other random numbers: all uniform, or half and half (two-sample KS)."""
    found = angles_of(draw_samples(GOLD, COUNT, 3, sampling))
    expected = by_hand("uniform")
    if sampling == "highlight":
        near = by_hand("grid")
        random = np.random.default_rng(6)
        expected = np.concatenate([random.choice(p, 20_000, replace=False) for p in (near, expected)])
    for k in range(3):
        assert stats.ks_2samp(found[:, k], expected[:, k]).pvalue > LIKELY, k


def test_the_two_samplings_differ():
    """Towards the highlight theta_h below 0.1 is clearly more frequent, so that the test above can tell them apart."""
    share = [float((angles_of(draw_samples(GOLD, COUNT, 3, s))[:, 0] < 0.1).mean()) for s in ("uniform", "highlight")]
    assert share[1] > 2 * share[0]


@pytest.mark.parametrize("sampling", ["uniform", "highlight"])
def test_samples_are_valid_and_hold_the_material(sampling: str):
    """Both directions above the horizon; log(1 + f) of the material there; the cosine is z of the light."""
    samples = draw_samples(GOLD, 3001, 1, sampling)
    assert len(samples) == 3001 and samples.points.shape == (3001, 6) and samples.logs.shape == (3001, 3)
    angles = angles_of(samples)
    light, eye = z_components(angles)
    assert light.min() > 0 and eye.min() > 0
    assert np.abs(samples.cosines.numpy() - light).max() < 1e-12
    expected = np.log1p(GOLD(torch.from_numpy(angles)).numpy())
    assert np.abs(samples.logs.numpy() - expected).max() < 1e-9 * expected.max()
    assert samples.logs.dtype == samples.points.dtype == torch.float64


def test_samples_are_in_random_order():
    """Batches are consecutive parts: the first half is not all from around the highlight."""
    theta = angles_of(draw_samples(GOLD, COUNT, 2))[:, 0]
    assert stats.ks_2samp(theta[: COUNT // 2], theta[COUNT // 2 :]).pvalue > LIKELY


def test_seeds():
    """The same seed the same samples bit for bit, whatever torch's own generator does; another seed, others."""
    first = draw_samples(GOLD, 500, 7)
    torch.manual_seed(123)
    again, other = draw_samples(GOLD, 500, 7), draw_samples(GOLD, 500, 8)
    assert torch.equal(first.points, again.points) and torch.equal(first.logs, again.logs)
    assert not torch.equal(first.points, other.points)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_samples(count: int):
    """Halves of one are none and one."""
    assert len(draw_samples(GOLD, count)) == count


def test_measurements_are_their_own_samples():
    """A list of 50: all of them once in random order, or as many as asked, with the values that were measured."""
    angles = draw_valid(GOLD, 50, uniform_angles, generator(4))
    values = torch.rand(50, 3, dtype=torch.float64, generator=generator(5))
    listed = Scattered("list", "list", angles, values)
    samples = draw_samples(listed, 1000)
    assert len(samples) == 50 and len(draw_samples(listed, 20)) == 20
    assert not torch.equal(samples.logs, torch.log1p(values))
    order = samples.logs[:, 0].argsort(), values[:, 0].argsort()
    assert torch.equal(samples.logs[order[0]], torch.log1p(values)[order[1]])
    assert (angles_of(samples)[order[0].numpy()] - angles.numpy()[order[1].numpy()]).__abs__().max() < 1e-9


class Somewhere(Material):
    """Known only where `known` says, and of the value `level`."""

    name, label = "somewhere", "Somewhere"

    def __init__(self, least: float, level: float):
        self.least, self.level = least, level

    def valid(self, angles: Tensor) -> Tensor:
        return super().valid(angles) & (angles[:, 1] >= self.least)

    def __call__(self, angles: Tensor) -> Tensor:
        return torch.full_like(angles, self.level)


def test_a_material_known_in_part():
    """Where it is not known it is not asked."""
    assert angles_of(draw_samples(Somewhere(1.3, 1.0), 300))[:, 1].min() >= 1.3 - 1e-12


def test_a_material_known_nowhere():
    """One line that says so, and no endless search."""
    with pytest.raises(ConstraintError, match="too few directions: 0 of"):
        draw_samples(Somewhere(4.0, 1.0), 300)


@pytest.mark.parametrize("level", [math.nan, math.inf, -2.0])
def test_values_that_are_not_finite(level: float):
    """NaN, infinity, and log(1 + f) of f < -1 are refused."""
    with pytest.raises(ConstraintError, match="not finite"):
        look_up(Somewhere(0.0, level), torch.zeros(2, 3, dtype=torch.float64))


def test_an_unknown_sampling():
    with pytest.raises(ConstraintError, match="highlight, uniform; got 'best'"):
        draw_samples(GOLD, 10, sampling="best")
