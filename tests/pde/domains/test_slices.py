"""Slices: the points of a domain where one coordinate has a given value."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.spatial import cKDTree

from cnf.errors import DomainError
from cnf.pde.domains import LAYOUTS, Ball, Box, Difference, Disk, Interval, Polygon, Timed, Union
from tests.pde.domains.shapes import ALL, KNOWN, Known

# Domain, axis, value, measure by formula.
CASES = {
    "box": (KNOWN["box 2"].domain, 0, 0.5, 4.0),
    "box side": (KNOWN["box 2"].domain, 0, 1.0, 4.0),
    "box 3": (KNOWN["box 3"].domain, 1, 0.3, 3.0),
    "disk": (Disk((1, 2), 0.5), 1, 2.3, 2 * 0.4),
    "ball": (Ball((0, 0, 1), 2), 2, 2.0, 3 * math.pi),
    "triangle": (Polygon([(0, 0), (2, 0), (0, 1)]), 0, 1.0, 0.5),
    "triangle side": (Polygon([(0, 0), (2, 0), (0, 1)]), 0, 0.0, 1.0),
    "comb": (Polygon([(0, 0), (5, 0), (5, 2), (4, 2), (4, 1), (1, 1), (1, 2), (0, 2)]), 1, 1.5, 2.0),
    "comb at its inner side": (Polygon([(0, 0), (5, 0), (5, 2), (4, 2), (4, 1), (1, 1), (1, 2), (0, 2)]), 1, 1.0, 5.0),
    "comb top": (Polygon([(0, 0), (5, 0), (5, 2), (4, 2), (4, 1), (1, 1), (1, 2), (0, 2)]), 1, 2.0, 2.0),
    "L seam": (KNOWN["L touching"].domain, 0, 1.0, 2.0),
    "L side": (KNOWN["L touching"].domain, 0, 2.0, 1.0),
    "through the hole": (KNOWN["hole"].domain, 0, 0.5, 0.6),
    "beside the hole": (KNOWN["hole"].domain, 0, 0.1, 1.0),
    "lens": (KNOWN["lens"].domain, 0, 0.5, math.sqrt(3)),
    "cave": (KNOWN["cave"].domain, 2, 0.5, 1 - 0.09 * math.pi),
    "interval": (Interval(0, 2), 0, 0.3, 1.0),
    "two intervals": (KNOWN["two intervals"].domain, 0, 2.5, 1.0),
    "start of time": (Timed(KNOWN["hole"].domain, 0, 2), 2, 0.0, 1 - 0.04 * math.pi),
    "line in time": (Timed(Interval(0, 1), 0, 2), 0, 0.0, 2.0),
    "hole in time": (Timed(KNOWN["hole"].domain, 0, 2), 0, 0.5, 1.2),
}


@pytest.mark.parametrize(("domain", "axis", "value", "measure"), CASES.values(), ids=CASES)
def test_slices(domain, axis: int, value: float, measure: float):
    """The measure of the slice, points on it and in the domain, and exactly as many as asked for."""
    assert domain.slice_measure(axis, value) == pytest.approx(measure, rel=1e-6)
    for layout in LAYOUTS:
        sample = domain.slice_points(axis, value, 60, layout)
        assert sample.points.shape[1] == domain.dimension and (sample.points[:, axis] == value).all()
        assert domain.contains(sample.points).all()
        if domain.dimension == 1:
            assert len(sample) == 1
        elif layout in ("halton", "poisson", "random"):
            assert len(sample) == 60
        else:
            assert 50 <= len(sample) <= 70


@pytest.mark.parametrize(("domain", "axis", "value", "measure"), CASES.values(), ids=CASES)
def test_other_seeds(domain, axis: int, value: float, measure: float):
    """Seed 0 gives the same points again, seed 1 others, unless there is only one."""
    if domain.dimension == 1:
        return
    for layout in LAYOUTS:
        first, again, other = (domain.slice_points(axis, value, 40, layout, seed).points for seed in (0, 0, 1))
        assert torch.equal(first, again)
        assert cKDTree(first.numpy()).query(other.numpy())[0].min() > 1e-7


def test_even_line():
    """Five points on a side of the unit square: the middles of five cells."""
    points = Box((0, 0), (1, 1)).slice_points(1, 0.0, 5).points
    assert points.tolist() == [pytest.approx([x, 0.0]) for x in (0.1, 0.3, 0.5, 0.7, 0.9)]


def test_slice_of_a_difference_avoids_the_hole():
    """x = 0.5 through a disk of radius 0.2 at (0.5, 0.4): y is below 0.2 or above 0.6."""
    y = KNOWN["hole"].domain.slice_points(0, 0.5, 30).points[:, 1]
    assert ((y < 0.2) | (y > 0.6)).all() and (y < 0.2).any() and (y > 0.6).any()


@pytest.mark.parametrize("name", ["box 2", "box 3", "L touching", "L polygon", "timed box 2", "timed interval"])
def test_normals_at_the_ends(name: str):
    """On the lowest and highest value of a coordinate of space the normal is -1 or 1 along it; inside None."""
    known: Known = ALL[name]
    domain, timed = known.domain, isinstance(known.domain, Timed)
    for axis in range(domain.dimension - timed):
        for value, side in ((domain.lower[axis], -1.0), (domain.upper[axis], 1.0)):
            normals = domain.slice_points(axis, value, 10).normals
            expected = side * np.eye(domain.dimension - timed)[axis]
            np.testing.assert_array_equal(normals.numpy(), np.tile(expected, (len(normals), 1)))
        middle = 0.6 * domain.lower[axis] + 0.4 * domain.upper[axis]
        assert domain.slice_points(axis, middle, 10).normals is None


def test_time_has_no_normal():
    domain = Timed(Box((0, 0), (1, 1)), 0, 1)
    assert domain.slice_points(2, 0.0, 10).normals is None and domain.slice_points(2, 1.0, 10).normals is None


def test_rounding_at_the_ends():
    """0.1 + 0.2 is not 0.3, but a slice at either is the end of a box that stops at the other."""
    sample = Box((0, 0), (0.3, 1)).slice_points(0, 0.1 + 0.2, 5)
    assert (sample.points[:, 0] == 0.3).all() and sample.normals is not None


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: Box((0, 0), (1, 2)).slice_points(1, 2.5, 5), "no slice at 2.5: coordinate 1 .* from 0 to 2"),
        (lambda: Box((0, 0), (1, 2)).slice_measure(0, -1), "no slice at -1: coordinate 0 .* from 0 to 1"),
        (lambda: Box((0, 0), (1, 2)).slice_points(2, 0.5, 5), "the axis of a slice is one of 0 to 1, got 2"),
        (lambda: Box((0, 0), (1, 2)).slice_points(-1, 0.5, 5), "the axis of a slice is one of 0 to 1, got -1"),
        (lambda: Box((0, 0), (1, 2)).slice_points(0, math.nan, 5), "the value of a slice is nan; it must be finite"),
        (lambda: Box((0, 0), (1, 2)).slice_points(0, "0", 5), "the value of a slice must be a number, got '0'"),
        (lambda: Disk((0, 0), 1).slice_points(0, 1.0, 5), "holds no part of the domain"),
        (lambda: Union([Interval(0, 1), Interval(2, 3)]).slice_points(0, 1.5, 1), "holds no part of the domain"),
        (lambda: Timed(Union([Interval(0, 1), Interval(2, 3)]), 0, 1).slice_points(0, 1.5, 1), "holds no part"),
        (
            lambda: Difference(Box((0, 0), (3, 1)), [Box((1, -1), (2, 2))]).slice_points(0, 1.5, 5),
            "holds no part of the domain",
        ),
        (lambda: Box((0, 0), (1, 2)).slice_points(0, 0.5, 5, "gird"), "no layout 'gird'.*Did you mean 'grid'"),
    ],
)
def test_errors(ask, message: str):
    with pytest.raises(DomainError, match=message):
        ask()
