"""Asking a surface less than everything: places that moved little, places of which only the sign matters."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cnf.meshes.mesh import unit_rows
from cnf.shapes.clouds.cloud import PointCloud
from cnf.shapes.clouds.preparation import prepare_cloud
from cnf.shapes.reconstruction import surface as fading
from cnf.shapes.reconstruction.conditions import BLEND, solve_surface
from cnf.shapes.reconstruction.lengths import typical_reach
from cnf.shapes.reconstruction.surface import Surface


@pytest.fixture(scope="module")
def cone() -> Surface:
    """A pointed ellipsoid of 700 random points: at its tips the field alone is wrong and the guide holds it."""
    random = np.random.default_rng(3)
    ball = unit_rows(random.normal(size=(700, 3)))
    axes = np.array([1.0, 0.25, 0.25])
    cloud = prepare_cloud(PointCloud(ball * axes, unit_rows(ball / axes)), None)
    support = typical_reach(cloud.points, 200)
    return Surface(solve_surface(cloud, "exact", BLEND, support, 0.01), cloud.points, cloud.normals, support)


def places_around(surface: Surface, far: float, count: int = 6000) -> np.ndarray:
    """Random places up to so many spacings beside the points."""
    random = np.random.default_rng(4)
    rows = random.integers(0, len(surface.points), count)
    ways = unit_rows(random.normal(size=(count, 3))) * random.uniform(0, far, (count, 1))
    return surface.points[rows] + surface.spacing.widths[rows, None] * ways


def test_leeway_is_kept(cone: Surface):
    """Wherever places go within their leeway, the field alone is what the whole surface says there, to rounding.

    Some move by more than 0.01 spacings, places beside which the bound takes hold by less.
    """
    x = places_around(cone, 1.5)
    found, leeway = cone.slopes_near(x, np.full(len(x), -1.0))
    assert np.abs(found - cone.slopes(x)).max() <= 1e-9
    free = leeway >= 0
    assert 0.3 < free.mean() < 0.95 and (leeway > 0.01 * cone.spacing.widths.max()).any()
    ways = unit_rows(np.random.default_rng(5).normal(size=x.shape))
    for share in (0.5, 0.999):
        moved = (x + share * leeway[:, None] * ways)[free]
        alone, left = cone.slopes_near(moved, leeway[free])
        assert np.array_equal(left, leeway[free])
        assert np.abs(alone - cone.slopes(moved)).max() <= 1e-9 * np.abs(alone).max()
    held = np.abs(cone.slopes(x)[:, 0] - cone.solution.apply(cone._operator, torch.from_numpy(x))[:, 0].numpy()) > 1e-6
    assert held.any() and not (held & free).any()


def test_what_has_moved_too_far_is_looked_at_anew(cone: Surface):
    """A negative leeway: the answer is that of `slopes`, bound and all, and there is a new leeway."""
    x = places_around(cone, 1.5, 500)
    found, leeway = cone.slopes_near(x, np.where(np.arange(500) % 2, -1e-9, -1.0))
    assert np.abs(found - cone.slopes(x)).max() <= 1e-9
    assert (leeway > 0).any()


def test_values_to_follow_have_the_same_sign(cone: Surface):
    """They differ by at most ROUGH of the scale, where places are held beside the points, and never across zero.

    Elsewhere by what sums of the winding number depend on what else is asked: 0.005 at most.
    """
    x = places_around(cone, 2.5)
    exact, rough = cone.values(x), cone.values_to_follow(x)
    distance, apart = cone.spacing.measure(x)
    off = np.abs(exact - rough) / np.maximum(cone.support, 2 * distance)
    assert np.array_equal(exact < 0, rough < 0)
    assert 1e-6 < off.max() <= fading.ROUGH
    assert off[apart < fading.FREE].max() <= 1e-9 and off[apart > fading.BESIDE].max() <= 5e-3
