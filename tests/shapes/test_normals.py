"""Normals estimated, oriented and checked on surfaces whose normals are known."""

from __future__ import annotations

import numpy as np
import pytest

from cnf.errors import ConstraintError
from cnf.shapes.clouds.normals import estimate_normals, find_flipped, orient_normals, points_outward
from tests.shapes.known_clouds import circle, slab, sphere, torus

SHAPES = {"sphere": sphere(6000), "torus": torus(6000), "slab": slab(6000), "circle": circle(500)}
every_shape = pytest.mark.parametrize("name", SHAPES)


def angles(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Degrees between unit rows."""
    return np.degrees(np.arccos(np.clip((found * exact).sum(axis=1), -1, 1)))


def test_estimates_converge_on_the_sphere():
    """The error of a plane through random points falls with their spacing, 1 / sqrt(P): 16-fold points, a quarter.

    Signs are free, so they are taken from the exact normals, which here are the points.
    """
    errors = []
    for count in (1000, 16_000):
        points, exact = sphere(count)
        found = estimate_normals(points)
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-12)
        errors.append(angles(found * np.sign((found * exact).sum(axis=1))[:, None], exact).mean())
    assert errors[0] < 3
    assert 3 < errors[0] / errors[1] < 5.5


def test_a_plane_is_found_exactly():
    """Points of x + 2 y + 2 z = 3 have normals (1, 2, 2) / 3, up to sign, to rounding; also 1e-6 small and far away."""
    random = np.random.default_rng(0)
    plane = random.random((200, 2)) @ np.array([[2, -1, 0], [2, 0, -1.0]]) + [3, 0, 0]
    for points in (plane, plane * 1e-6, plane * 1e6):
        found = estimate_normals(points)
        np.testing.assert_allclose(np.abs(found @ [1 / 3, 2 / 3, 2 / 3]), 1, atol=1e-10)


@every_shape
def test_orientation_is_outward(name):
    """Random signs are all put right: on closed smooth shapes, and on a slab whose sides are 3 spacings apart."""
    points, exact = SHAPES[name]
    signs = np.random.default_rng(1).choice([-1.0, 1.0], len(points))
    found = orient_normals(points, exact * signs[:, None])
    np.testing.assert_array_equal(found, exact)
    estimated = orient_normals(points, estimate_normals(points))
    assert ((estimated * exact).sum(axis=1) > 0).mean() > 0.998  # a few at the slab's rim lie on an edge


def test_several_parts_are_each_turned_outward():
    """Two spheres and a torus, far apart, of different sizes."""
    parts = [sphere(500), sphere(700, seed=1), torus(900)]
    points = np.concatenate(
        [p * size + shift for (p, _), size, shift in zip(parts, (1, 0.1, 3), (0, 4, 30), strict=True)]
    )
    exact = np.concatenate([n for _, n in parts])
    np.testing.assert_array_equal(orient_normals(points, -exact), exact)


@every_shape
def test_right_normals_are_not_reported(name):
    """Not even where two sides with opposite normals face each other closely."""
    assert len(find_flipped(*SHAPES[name])) == 0


@pytest.mark.parametrize("gap", [0.75, 1.0, 2.0, 5.0])
def test_thin_sheets_are_not_reported(gap):
    """Sides as near to each other as neighbours on one side are, down to 3/4 of their mean distance."""
    assert len(find_flipped(*slab(4000, gap))) == 0


@every_shape
@pytest.mark.parametrize("share", [0.002, 0.05, 0.4])
def test_a_flipped_patch_is_reported_whole(name, share):
    """Exactly the points of the patch, not its rim only, and not the rest though its normals disagree with the rim."""
    points, normals = SHAPES[name]
    patch = np.argsort(((points - points[7]) ** 2).sum(axis=1))[: int(share * len(points))]
    flipped = normals.copy()
    flipped[patch] *= -1
    np.testing.assert_array_equal(find_flipped(points, flipped), np.sort(patch))


def test_scattered_flips_are_reported():
    points, normals = SHAPES["torus"]
    chosen = np.sort(np.random.default_rng(2).choice(len(points), 60, replace=False))
    flipped = normals.copy()
    flipped[chosen] *= -1
    np.testing.assert_array_equal(find_flipped(points, flipped), chosen)


def test_noise_is_not_called_a_flip():
    """Normals with noise of half their length in every direction: all that are more than 120 degrees off are reported,
    and none that is less than 60 degrees off, which without the vote of the surroundings some are.
    """
    points, exact = torus(6000, seed=2)
    noisy = exact + 0.5 * np.random.default_rng(2).normal(size=exact.shape)
    off = angles(noisy / np.linalg.norm(noisy, axis=1, keepdims=True), exact)
    found = find_flipped(points, noisy / np.linalg.norm(noisy, axis=1, keepdims=True))
    assert off[found].min() > 60
    assert set(np.flatnonzero(off > 120)) <= set(found)


@every_shape
def test_inside_out(name):
    """All normals turned over are no flips, but they point inward."""
    points, normals = SHAPES[name]
    assert len(find_flipped(points, -normals)) == 0
    assert points_outward(points, normals) is True
    assert points_outward(points, -normals) is False


def test_an_open_sheet_has_no_outside():
    points = np.concatenate([np.random.default_rng(0).random((500, 2)), np.zeros((500, 1))], axis=1)
    assert points_outward(points, np.tile([0, 0, 1.0], (500, 1))) is None


def test_few_points_and_repeated_ones():
    """Four points are enough, three are not; twenty at one place (no direction at all) give unit normals, not NaN."""
    four = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])
    assert estimate_normals(four).shape == orient_normals(four, estimate_normals(four)).shape == (4, 3)
    with pytest.raises(ConstraintError, match="more than 3 points"):
        estimate_normals(four[:3])
    with pytest.raises(ConstraintError, match="at least 3 neighbours"):
        estimate_normals(four, neighbours=2)
    repeated = np.concatenate([np.zeros((20, 3)), sphere(100)[0]])
    np.testing.assert_allclose(
        np.linalg.norm(orient_normals(repeated, estimate_normals(repeated)), axis=1), 1, atol=1e-9
    )
