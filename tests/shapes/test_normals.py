"""Normals estimated, oriented and checked on surfaces whose normals are known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import cKDTree

from cnf.errors import ConstraintError
from cnf.shapes.clouds.estimation import estimate_normals, fit_planes
from cnf.shapes.clouds.flipped import find_flipped
from cnf.shapes.clouds.links import find_doubtful, link_neighbours
from cnf.shapes.clouds.orientation import orient_normals, points_outward, settle_signs
from tests.shapes.known_clouds import circle, slab, sphere, torus

SHAPES = {"sphere": sphere(6000), "torus": torus(6000), "slab": slab(6000), "circle": circle(500)}
every_shape = pytest.mark.parametrize("name", SHAPES)


def angles(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Degrees between unit rows."""
    return np.degrees(np.arccos(np.clip((found * exact).sum(axis=1), -1, 1)))


def test_estimates_converge_on_the_torus():
    """The error of a quadric through random points falls with the square of their spacing: 16-fold points, a 16th.

    That of a plane would fall to a quarter. Signs are free, so they are taken from the exact normals.
    """
    errors = []
    for count in (1000, 16_000):
        points, exact = torus(count)
        found = estimate_normals(points)
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-12)
        errors.append(angles(found * np.sign((found * exact).sum(axis=1))[:, None], exact).mean())
    assert errors[0] < 0.6
    assert 12 < errors[0] / errors[1] < 24


@pytest.mark.parametrize("gap", [1.5, 2.0])
def test_planes_do_not_reach_across_a_thin_slab(gap):
    """Two sides `gap` mean spacings apart: within 15 degrees of the exact normals for all but the points at the rim,
    and outward. A plane through the 12 nearest points is off by more than that at most points.
    """
    points, exact = slab(4000, gap)
    found = orient_normals(points, estimate_normals(points))
    spacing = (2 / 4000) ** 0.5
    inner = (np.abs(points[:, :2] - 0.5).max(axis=1) < 0.5 - 2 * spacing) & (np.abs(exact[:, 2]) == 1)
    assert inner.sum() > 3000
    off = angles(found, exact)[inner]
    assert (off > 15).mean() < 0.01
    planes = angles(fit_planes(points)[0], exact)[inner]
    assert (np.minimum(planes, 180 - planes) > 15).mean() > (0.5 if gap < 2 else 0.1)


def ear(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A unit ball, and on it a thin square plate of 1.5 spacings, side 1.2: points of their union, outward normals."""
    random = np.random.default_rng(seed)
    spacing = np.sqrt((4 * np.pi + 2 * 1.2**2) / count)
    half = np.array([0.6, 0.75 * spacing, 0.6])
    middle = np.array([0, 0, 1.45])
    ball = int(count * 4 * np.pi / (4 * np.pi + 2 * 1.2**2))
    points, normals = sphere(ball, seed)
    apart = np.abs(points - middle) - half
    outside = (apart > 0).any(axis=1)
    sides, looks = [], []
    for axis in range(3):
        others = np.delete(half, axis)
        for side in (-1, 1):
            amount = int(4 * others.prod() / spacing**2)
            part = (2 * random.random((amount, 3)) - 1) * half
            part[:, axis] = side * half[axis]
            sides.append(part + middle)
            looks.append(np.tile(side * np.eye(3)[axis], (amount, 1)))
    plate, looking = np.concatenate(sides), np.concatenate(looks)
    free = (plate * plate).sum(axis=1) > 1
    return np.concatenate([points[outside], plate[free]]), np.concatenate([normals[outside], looking[free]])


def test_a_sheet_that_the_tree_turned_over_is_put_right():
    """A thin ear on a ball, exact directions; one side of the ear is given the wrong sign, as a tree does at a joint.

    Its neighbours on the other side agree with it (both look the same way), the winding number does not.
    """
    points, exact = ear(4000)
    side = (points[:, 2] > 1.1) & (exact[:, 1] > 0.9)
    assert side.sum() > 200
    wrong = np.where(side, -1.0, 1.0)
    links = link_neighbours(points, exact, 12)
    found = settle_signs(points, exact * wrong[:, None], np.ones(len(points)), links.turn(wrong))
    assert (found * wrong > 0).mean() > 0.99  # of the rim, as narrow as the points are apart, some are wrong
    np.testing.assert_array_equal((found * wrong)[side], 1)
    assert (angles(orient_normals(points, estimate_normals(points)), exact) < 90).mean() > 0.99


def test_a_hollow_looks_inward():
    """A ball of radius 1 with a hollow of radius 1/2: outward is towards the middle there."""
    outer, inner = sphere(3000), sphere(1500, seed=1)
    points = np.concatenate([outer[0], 0.5 * inner[0]])
    exact = np.concatenate([outer[1], -inner[1]])
    np.testing.assert_array_equal(orient_normals(points, exact), exact)


def test_doubtful_normals_are_those_that_are_wrong():
    """On a cube nothing is in doubt away from the edges; exact normals turned by 60 degrees at 40 of 4000 points of a
    torus are all in doubt, and of the others fewer than one in a hundred.
    """
    points, exact = torus(4000)
    chosen = np.sort(np.random.default_rng(3).choice(4000, 40, replace=False))
    tilted = exact.copy()
    across = np.cross(exact[chosen], [0.3, 0.5, 0.8])
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    tilted[chosen] = 0.5 * exact[chosen] + np.sqrt(0.75) * across
    found = find_doubtful(points, tilted)
    assert set(chosen) <= set(found) and len(found) < 80
    cube, normals = slab(4000, gap=44.7)
    doubted = find_doubtful(cube, normals)
    edge = np.sort(np.minimum(cube, 1 - cube), axis=1)[:, 1]  # distance from the nearest edge
    assert len(doubted) == 0 or edge[doubted].max() < 0.06


@pytest.mark.parametrize(("noise", "most"), [(0.1, 5.0), (0.3, 8.0)])
def test_noisy_points_have_normals_too(noise, most):
    """A torus whose points are off by a tenth, and three tenths, of their spacing: planes of least squares are off by 3
    and 5 degrees on average; a fit that must pass through its point by 8 and 31.
    """
    points, exact = torus(6000)
    spacing = np.sqrt(4 * np.pi**2 * 0.35 / 6000)
    points = points + noise * spacing * np.random.default_rng(1).normal(size=points.shape)
    found = estimate_normals(points)
    assert angles(found * np.sign((found * exact).sum(axis=1))[:, None], exact).mean() < most


def test_true_normals_of_a_knife_are_not_reported():
    """Two planes that meet at 3 degrees: along the edge neighbours of one side lie on the other, and their signs alone
    suggest that one side is flipped.
    """
    random = np.random.default_rng(3)
    half, (along, across) = np.radians(1.5), random.random((2000, 2)).T
    side = np.where(random.random(2000) < 0.5, 1.0, -1.0)
    points = np.stack([along * np.cos(half), across, side * along * np.sin(half)], axis=1)
    normals = np.stack([np.full(2000, -np.sin(half)), np.zeros(2000), side * np.cos(half)], axis=1)
    assert len(find_flipped(points, normals)) == 0


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


@pytest.mark.parametrize("size", [2, 4, 5, 7, 8])
def test_small_patches_of_flipped_normals_are_found(size):
    """Five patches of a few neighbours each on a sphere, turned over: all of them are reported, and nothing else."""
    points, exact = sphere(4000)
    middles = np.random.default_rng(3).choice(4000, 5, replace=False)
    patches = np.unique(cKDTree(points).query(points[middles], k=size)[1])
    normals = exact.copy()
    normals[patches] *= -1
    np.testing.assert_array_equal(find_flipped(points, normals), patches)
