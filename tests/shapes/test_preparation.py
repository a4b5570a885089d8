"""Clouds as they come: cleaned with a note, or refused with a reason; scaled without losing digits; thinned evenly."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
from scipy.spatial import cKDTree

from cnf.errors import CnfWarning, ConstraintError, NumericalWarning
from cnf.shapes.clouds.cloud import PointCloud
from cnf.shapes.clouds.preparation import prepare_cloud
from cnf.shapes.clouds.thinning import group_duplicates, thin
from tests.shapes.known_clouds import circle, sphere, torus


def test_a_clean_cloud_is_only_scaled():
    """No note, no warning; the box of the unit sphere's points is centred and its longest side is [-1, 1]."""
    points, normals = sphere(2000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ready = prepare_cloud(PointCloud(points, normals, {"heat": np.arange(2000.0)}))
    assert ready.notes == () and not ready.estimated and len(ready.flipped) == 0
    low, high = ready.points.min(axis=0), ready.points.max(axis=0)
    np.testing.assert_allclose(low + high, 0, atol=1e-15)
    assert (high - low).max() == pytest.approx(2, abs=1e-15)
    np.testing.assert_allclose(ready.normals, normals, atol=1e-15)
    np.testing.assert_array_equal(ready.rows, np.arange(2000))
    np.testing.assert_array_equal(ready.attributes["heat"][:, 0], np.arange(2000))
    nearest = cKDTree(ready.points).query(ready.points, k=2)[0][:, 1]
    assert (ready.spacing, ready.closest) == (np.median(nearest), nearest.min())


@pytest.mark.parametrize("offset", [[0, 0, 0], [5e5, 5e6, 300], [-1e3, 1e-9, 1e7]])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e8])
def test_scaling_keeps_all_digits(offset, size):
    """Integers k of a known box, scaled by a power of two near `size`: to_input(points) gives the input back.

    The map is measured in the file's own precision: half a step of its numbers, or 1e-12 of the size.
    """
    size = 2.0 ** np.round(np.log2(size))
    lattice = np.random.default_rng(0).integers(0, 1 << 20, (500, 3)) / float(1 << 20)
    points = lattice * size + np.array(offset)
    ready = prepare_cloud(PointCloud(points, sphere(500)[1]), check_flips=False)
    allowed = 1e-12 * size + np.spacing(np.abs(points[ready.rows]))
    assert (np.abs(ready.to_input(ready.points) - points[ready.rows]) <= allowed).all()
    assert (np.abs(ready.from_input(points[ready.rows]) - ready.points) <= 1e-12).all()
    steps = (
        points[ready.rows] - points[ready.rows[0]]
    ) / ready.scale  # differences are exact: no digit lost to the offset
    np.testing.assert_allclose(ready.points - ready.points[0], steps, atol=4e-16 * 4)


def test_single_precision_far_away_is_noted():
    """A shape of size 2 at 5e6 in float32 sits on steps of 0.5: a quarter of its size."""
    points, normals = sphere(300)
    far = (points + 5e6).astype(np.float32).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        notes = prepare_cloud(PointCloud(far, normals), check_flips=False).notes
    assert any("steps of 5.0e-01" in note and "single precision" in note for note in notes)


@pytest.mark.parametrize(
    ("points", "says"),
    [
        (np.array([[0, 0, 0], [1, np.nan, 0], [2, 0, 0], [np.inf, 0, 1], [0, 1, 2.0]]), "2 of 5 points.*number 1"),
        (np.zeros((0, 3)), "0 points are too few"),
        (np.eye(3), "3 points are too few"),
        (np.array([[0, 0], [1.0, 1]]), "2 points are too few"),
        (np.ones((9, 3)), "same place"),
        (np.repeat(np.eye(3), 4, axis=0), "only 3 different points"),
        (np.random.default_rng(0).random((50, 3)) * [1, 1, 0] + 7, "one plane"),
        (np.random.default_rng(0).random((50, 2)) @ np.array([[1, 2, 3], [3, 1, 1.0]]) / 7 + 100, "one plane"),
        ((np.random.default_rng(0).random((50, 2)) @ np.array([[1, 2, 3], [3, 1, 1.0]])).astype("f4"), "one plane"),
        (np.arange(20.0)[:, None] * [1, 2, 3], "one line"),
        (np.arange(20.0)[:, None] * [1, 3], "one line"),
        (np.array([[1e308, 0, 0], [-1e308, 0, 0], [0, 1, 0], [0, 0, 1]]), "too far apart"),
        (np.zeros((5, 4)), r"\(P, 3\) or \(P, 2\)"),
    ],
)
def test_hopeless_clouds_are_refused(points, says):
    with pytest.raises(ConstraintError, match=says) as caught:
        prepare_cloud(points)
    assert "\n" not in str(caught.value)


def test_equal_points_with_equal_normals_are_merged():
    """100 of 500 points given twice, one of them 1e-10 beside: 500 stay, the first of each, attributes averaged."""
    points, normals = sphere(500)
    points_twice = np.concatenate([points, points[:100]])
    points_twice[550] += 1e-10
    cloud = PointCloud(points_twice, np.concatenate([normals, normals[:100]]), {"heat": np.arange(600.0)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ready = prepare_cloud(cloud)
    np.testing.assert_array_equal(ready.rows, np.arange(500))
    np.testing.assert_allclose(ready.attributes["heat"][:100, 0], np.arange(100) + 250, atol=1e-12)
    assert "100 points at the same place" in ready.notes[0]


def test_equal_points_with_other_normals():
    """Normals 10 degrees apart: their mean, 5 degrees from both, with a warning; opposite ones: an error."""
    points, normals = sphere(500)
    points[:2] = [[0, 0, 1], [0, 0, 1]]
    angle = np.radians(10)
    normals[:2] = [[0, 0, 1], [np.sin(angle), 0, np.cos(angle)]]
    with pytest.warns(NumericalWarning, match=r"at 1 places.*different normals"):
        ready = prepare_cloud(PointCloud(points, normals))
    np.testing.assert_allclose(ready.normals[0], [np.sin(angle / 2), 0, np.cos(angle / 2)], atol=1e-14)
    normals[1] = [0, 0, -1]
    with pytest.raises(ConstraintError, match=r"at 1 places.*opposite normals.*point 0"):
        prepare_cloud(PointCloud(points, normals))


def test_zero_normals_do_not_weaken_a_good_one_at_their_place():
    """One point given forty times, once with its normal and else with zeros: that normal is used, none is missing."""
    points, normals = sphere(300)
    cloud = PointCloud(
        np.concatenate([points, np.tile(points[0], (40, 1))]), np.concatenate([normals, np.zeros((40, 3))])
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ready = prepare_cloud(cloud)
    np.testing.assert_allclose(ready.normals, normals, atol=1e-14)


def test_lengths_of_normals_do_not_matter():
    points, normals = sphere(300)
    ready = prepare_cloud(PointCloud(points, normals * np.linspace(1e-100, 7, 300)[:, None]))
    np.testing.assert_allclose(ready.normals, normals, atol=1e-15)
    assert "lengths 1e-100 to 7 were scaled" in ready.notes[0]


def test_zero_normals_are_filled_from_their_neighbours():
    """Ten of 3000 normals zero or NaN: estimated within 5 degrees of the exact ones, outward, and said."""
    points, normals = sphere(3000)
    given = normals.copy()
    given[:9] = 0
    given[9] = np.nan
    with pytest.warns(NumericalWarning, match="10 of 3000 normals were zero or not finite"):
        ready = prepare_cloud(PointCloud(points, given))
    assert (ready.normals * normals).sum(axis=1).min() > np.cos(np.radians(5))
    np.testing.assert_allclose(ready.normals[10:], normals[10:], atol=1e-15)


@pytest.mark.parametrize("shape", [sphere, torus, circle])
def test_missing_normals_are_estimated_outward(shape):
    points, normals = shape(4000)
    ready = prepare_cloud(points * 3 + 1)
    assert ready.estimated and "no normals were given" in ready.notes[-1]
    assert (ready.normals * normals[ready.rows]).sum(axis=1).min() > 0.9
    zero = prepare_cloud(PointCloud(points, np.zeros_like(points)))
    assert zero.estimated and "all normals given are zero" in zero.notes[-1]


def test_flipped_normals_are_counted():
    """A patch of 500 of 10,000; and a shape that is inside out."""
    points, normals = torus(10_000)
    patch = np.argsort(((points - points[0]) ** 2).sum(axis=1))[:500]
    normals[patch] *= -1
    with pytest.warns(CnfWarning, match="500 of 10000 normals point against"):
        ready = prepare_cloud(PointCloud(points, normals))
    np.testing.assert_array_equal(ready.flipped, np.sort(patch))
    points, normals = sphere(1000)
    with pytest.warns(CnfWarning, match="point into the shape"):
        prepare_cloud(PointCloud(points, -normals))


def test_thinning_is_even_and_repeatable():
    """40,000 random points to 2,000: nearly that many, and better spread than as many random ones.

    No two random points of 2,000 on a sphere are guaranteed apart: the median distance to the nearest is 0.47 spacings
    (spacing sqrt(4 pi / P)) and 5 % are within 0.13; one arbitrary point per cell gives 0.60 and 0.23. The point
    nearest the centre of each cell must reach 0.7 and 0.4, and no hole may be larger than 2 cells.
    """
    points, normals = sphere(40_000)
    ready = prepare_cloud(PointCloud(points, normals), most=2000, seed=3)
    assert 1800 <= len(ready) <= 2000
    assert "40000 points were kept" in ready.notes[0]
    kept = points[ready.rows]
    spacing = (4 * np.pi / len(kept)) ** 0.5
    nearest = cKDTree(kept).query(kept, k=2)[0][:, 1]
    assert np.median(nearest) > 0.7 * spacing and np.quantile(nearest, 0.05) > 0.4 * spacing
    assert cKDTree(kept).query(points)[0].max() < 2 * 3**0.5 * spacing
    np.testing.assert_array_equal(ready.rows, prepare_cloud(PointCloud(points, normals), most=2000, seed=3).rows)
    assert not np.array_equal(ready.rows, prepare_cloud(PointCloud(points, normals), most=2000, seed=4).rows)


@pytest.mark.parametrize("most", [1, 7, 99, 100, 5000])
def test_thinning_never_keeps_too_many(most):
    """Also for clouds of clusters, lines and repeated points."""
    random = np.random.default_rng(0)
    for points in (
        random.random((1000, 2)),
        np.repeat(random.random((10, 3)), 100, axis=0),
        np.concatenate([random.random((900, 3)) * 1e-9, random.random((100, 3))]),
        np.arange(1000.0)[:, None] * [1, 0, 0],
        np.ones((1000, 3)),
    ):
        kept = thin(points, most)
        assert 1 <= len(kept) <= most and (np.diff(kept) > 0).all()


def test_duplicates_are_found_like_by_comparing_all_pairs():
    """Clusters of width 1e-9 around 200 places (the pairs by brute force), and 20,000 points at one place at once."""
    random = np.random.default_rng(1)
    places = random.random((200, 3))
    points = np.repeat(places, 5, axis=0) + random.uniform(-1, 1, (1000, 3)) * 2e-10
    points = points[random.permutation(1000)]
    groups = group_duplicates(points, 1e-9)
    close = np.linalg.norm(points[:, None] - points[None], axis=2) <= 1e-9
    np.testing.assert_array_equal(close, groups[:, None] == groups[None])
    many = np.concatenate([np.zeros((20_000, 3)), places])
    assert group_duplicates(many, 1e-9).max() == 200
    np.testing.assert_array_equal(group_duplicates(places, 1e-9), np.arange(200))


def test_preparing_a_large_cloud_takes_little_memory():
    """300,000 points with normals are 14.4 MB; thinning them to 5,000 may not need six times that."""
    points, normals = sphere(300_000)
    cloud = PointCloud(points, normals)
    tracemalloc.start()
    ready = prepare_cloud(cloud, most=5000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(ready) <= 5000 and peak < 6 * 14.4e6
