"""The winding number of oriented points: against the sum written down, against solid angles, and its gradient."""

from __future__ import annotations

import numpy as np
import pytest

from cnf.shapes.clouds import winding
from cnf.shapes.clouds.spacing import measure_spacing
from cnf.shapes.clouds.winding import WindingNumber
from cnf.shapes.reconstruction import surface as surfaces
from cnf.shapes.reconstruction.reconstruct import reconstruct
from tests.shapes.known_clouds import slab, sphere, torus


def write_down(given: WindingNumber, x: np.ndarray) -> np.ndarray:
    """The sum over all points, one by one."""
    r = given.points - x[:, None]  # (P, n, 3)
    square = (r * r).sum(axis=2) + given.widths**2
    return (given.areas * (given.normals * r).sum(axis=2) / square**1.5).sum(axis=1) / (4 * np.pi)


def of_cloud(points: np.ndarray, normals: np.ndarray) -> WindingNumber:
    spacing = measure_spacing(points, normals)
    return WindingNumber(points, normals, spacing.areas, 0.5 * spacing.widths)


def clusters(count: int, size: int = 64) -> np.ndarray:
    """Places close together, so that far points are summed as one: `count` groups around the torus and in its hole."""
    random = np.random.default_rng(1)
    return (random.normal(size=(count, 1, 3)) + 0.03 * random.normal(size=(count, size, 3))).reshape(-1, 3)


@pytest.mark.parametrize("count", [5, 17, 3000])
def test_the_tree_adds_up_all_points(count: int):
    """Near and far places, more than one batch of them: within 1e-2 of the sum, 2e-3 on average, wherever they are."""
    given = of_cloud(*torus(count))
    random = np.random.default_rng(1)
    x = np.concatenate([random.normal(size=(300, 3)), given.points[random.integers(count, size=300)] * 1.02])
    error = np.abs(given.values(x) - write_down(given, x))
    assert error.max() <= 1e-2 and error.mean() <= 2e-3
    moved = WindingNumber(given.points + 1e4, given.normals, given.areas, given.widths)
    assert np.abs(moved.values(x + 1e4) - given.values(x)).max() <= 1e-6


def test_the_error_falls_with_the_opening_of_the_tree(monkeypatch: pytest.MonkeyPatch):
    """Moments up to the second order: a quarter of the opening, less than a tenth of the error."""
    given, x = of_cloud(*torus(3000)), clusters(16)
    errors = []
    for opening in (0.4, 0.1):
        monkeypatch.setattr(winding, "NARROW", opening)
        errors.append(np.abs(given.values(x) - write_down(given, x)).mean())
    assert errors[0] <= 5e-3  # without the second moments 3e-2
    assert errors[1] < errors[0] / 10  # 1/16 in the limit; moments of first order alone give 1/4


@pytest.mark.parametrize("moved", [0.0, 1e4])
def test_estimates_are_off_by_no_more_than_they_say(moved: float):
    """The sum over all points, at places near and far, scattered and in clusters: within `ROUGH`, wherever they are."""
    random = np.random.default_rng(1)
    for points, normals in (torus(1500), sphere(500), slab(1000)):
        given = of_cloud(points, normals)
        scattered = np.concatenate([random.normal(size=(300, 3)), points[::5] + 0.02 * random.normal(size=(1, 3))])
        for x in (scattered, clusters(8, 256)):  # by themselves, or the groups would be larger than the clusters
            there = WindingNumber(points + moved, normals, given.areas, given.widths)
            assert np.abs(there.estimate(x + moved) - write_down(given, x)).max() <= winding.ROUGH


def test_estimates_decide_nothing(monkeypatch: pytest.MonkeyPatch):
    """A surface's values and slopes are those that it has if its bound is looked at with the sums themselves."""
    surface = reconstruct(*torus(800), resolution=24).surface
    random = np.random.default_rng(2)
    x = surface.points[random.integers(800, size=4000)] + 0.12 * random.normal(size=(4000, 3))
    monkeypatch.setattr(winding, "NARROW", 1e-9)  # nothing is left to the tree, which goes by who else is asked
    found = surface.slopes(x)
    monkeypatch.setattr(surfaces, "ROUGH", 1e9)
    everywhere = surface.slopes(x)
    assert np.abs(found - everywhere).max() <= 1e-9
    monkeypatch.setattr(surfaces, "BOUND", 1e9)
    assert np.mean(np.abs(found - surface.slopes(x)).max(axis=1) > 1e-3) > 0.2  # many places are held by the bound


def test_the_gradient_is_that_of_the_values():
    """Central differences of the values, to 1e-6 of the largest slope: groups are the same, so the sums are too."""
    given, x = of_cloud(*torus(2000)), clusters(1)
    found, step = given.slopes(x), 1e-5
    assert np.abs(found[:, 0] - given.values(x)).max() <= 1e-14
    for axis in np.eye(3):
        difference = (given.values(x + step * axis) - given.values(x - step * axis)) / (2 * step)
        assert np.abs(found[:, 1:] @ axis - difference).max() <= 1e-6 * np.abs(found[:, 1:]).max()


def test_batches_change_nothing(monkeypatch: pytest.MonkeyPatch):
    """Places summed in batches of one group give the same numbers as all at once."""
    given, x = of_cloud(*sphere(500)), np.random.default_rng(1).normal(size=(1000, 3))
    whole = given.slopes(x)
    monkeypatch.setattr(winding, "BATCH", 1)
    assert np.array_equal(given.slopes(x), whole)


def test_inside_and_outside():
    """A sphere of uneven density, nine points above to one below: 1 inside, 0 outside, to the noise of random areas."""
    points = sphere(4000)[0]
    kept = points[(points[:, 2] > 0) | (np.arange(4000) % 9 == 0)]
    given = of_cloud(kept, kept)
    inside = 0.6 * sphere(200, seed=1)[0]
    assert np.abs(given.values(inside) - 1).max() <= 0.15
    assert np.abs(given.values(3 * inside)).max() <= 0.1


def test_sheets_close_to_each_other_keep_their_area():
    """A slab half a spacing thick: the points of either side stand for their own side, 2 in all and the rim."""
    points, normals = slab(4000, gap=0.5)
    found = measure_spacing(points, normals)
    assert found.areas.sum() == pytest.approx(2 + 4 * 0.5 * (2 / 4000) ** 0.5, rel=0.1)


def test_points_in_a_cluster_share_what_one_would_have():
    """A square lattice of step 1 with one point in five others: every cell has area 1, and the cluster one together.

    Discs of twelve neighbours gave the cluster three times that, and each of its points the same.
    """
    x, y = np.meshgrid(np.arange(21.0), np.arange(21.0))
    lattice = np.stack([x.ravel(), y.ravel(), 0 * x.ravel()], axis=1)
    turned = 0.06 + np.pi / 2 * np.arange(4)
    around = 0.01 * np.column_stack([np.cos(turned), np.sin(turned), 0 * turned])
    points = np.concatenate([lattice, around + np.array([10.0, 10.0, 0.0])])
    found = measure_spacing(points, np.tile([0.0, 0.0, 1.0], (len(points), 1)))
    inner = (np.abs(lattice[:, :2] - 10) <= 6).all(axis=1)
    single = inner & (np.abs(lattice[:, :2] - 10).max(axis=1) >= 2)
    cells = found.areas[: len(lattice)]
    assert np.allclose(cells[single], 1, rtol=0.02)
    assert cells[220] + found.areas[len(lattice) :].sum() == pytest.approx(1, rel=0.1)


def test_cells_end_soon_after_a_rim():
    """Random points of a square of area 4: the cells add up to it and a strip around, less than half a spacing wide."""
    random = np.random.default_rng(0)
    points = np.column_stack([random.uniform(-1, 1, size=(4000, 2)), np.zeros(4000)])
    found = measure_spacing(points, np.tile([0.0, 0.0, 1.0], (4000, 1)))
    strip = 8 * 0.5 * (4 / 4000) ** 0.5
    assert 4 * 0.97 <= found.areas.sum() <= 4 + strip
