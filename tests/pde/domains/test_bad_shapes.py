"""Shapes that make no sense are refused when they are made, with what was given and what to do."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from cnf.errors import ConstraintError, DomainError
from cnf.pde.domains import Ball, Box, Difference, Disk, Intersection, Interval, Polygon, Timed, Union

SQUARE = Box((0, 0), (1, 1))
BAD = {
    "box upside down": (lambda: Box((0, 1), (1, 0)), "must lie below the upper corner"),
    "box of width zero": (lambda: Box((0, 1), (1, 1)), "must lie below the upper corner"),
    "box nan": (lambda: Box((0, 0), (1, math.nan)), "must lie below the upper corner"),
    "box infinite": (lambda: Box((0, 0), (1, math.inf)), "must be finite"),
    "box widths": (lambda: Box((0, 0), (1,)), "two corners of the same width"),
    "box text": (lambda: Box("ab", (1, 1)), "the corners of a box are numbers"),
    "interval": (lambda: Interval(1, 1), "the start 1 of an interval must lie below its end 1"),
    "interval nan": (lambda: Interval(math.nan, 1), "the start of an interval is nan; it must be finite"),
    "interval text": (lambda: Interval("0", 1), "the start of an interval must be a number, got '0'"),
    "interval truth": (lambda: Interval(0, True), "the end of an interval must be a number, got True"),
    "radius zero": (lambda: Disk((0, 0), 0), "the radius of a disk must be positive, got 0"),
    "radius negative": (lambda: Ball((0, 0, 0), -2), "the radius of a ball must be positive, got -2"),
    "radius nan": (lambda: Disk((0, 0), math.nan), "the radius of a disk is nan"),
    "center of three": (lambda: Disk((0, 0, 0), 1), "the center of a disk is two numbers, got 3"),
    "center a number": (lambda: Disk(0, 1), "the center of a disk must be a list of numbers, got 0"),
    "center a tensor of none": (lambda: Ball(torch.tensor(1.0), 1), "the center of a ball must be a list of numbers"),
    "center empty": (lambda: Ball([], 1), "the center of a ball must be a list of numbers, got an empty one"),
    "two vertices": (lambda: Polygon([(0, 0), (1, 1), (0, 0)]), "at least three different vertices, got 2"),
    "vertex of three": (lambda: Polygon([(0, 0), (1, 0), (1, 1, 1)]), "vertex 2 must be two numbers, got 3"),
    "vertex nan": (lambda: Polygon([(0, 0), (1, 0), (1, math.nan)]), "vertex 2 of a polygon is nan"),
    "vertices a number": (lambda: Polygon(3), "the vertices of a polygon are a list of points, got 3"),
    "vertex repeated": (lambda: Polygon([(0, 0), (1, 0), (1, 0), (1, 1)]), "vertex 2 of the polygon repeats"),
    "on a line": (lambda: Polygon([(0, 0), (1, 1), (3, 3), (2, 2)]), "lie on a line: it has no inside"),
    "bow tie": (
        lambda: Polygon([(0, 0), (1, 1), (1, 0), (0, 1)]),
        "crosses or touches itself: .* vertex 0 .* vertex 2",
    ),
    "pentagram": (
        lambda: Polygon([(math.cos(0.8 * math.pi * k), math.sin(0.8 * math.pi * k)) for k in range(5)]),
        "crosses or touches itself",
    ),
    "touching itself": (
        lambda: Polygon([(0, 0), (2, 0), (2, 2), (1, 0), (0, 2)]),
        "crosses or touches itself",
    ),
    "spike": (lambda: Polygon([(0, 0), (2, 0), (1, 0), (1, 1)]), "doubles back on itself at vertex 1"),
    "name a number": (lambda: Disk((0, 0), 1, name=3), "the name of a shape is a text"),
    "name empty": (lambda: Box(0, 1, name=" "), "the name of a shape is a text"),
    "name reserved": (lambda: Disk((0, 0), 1, name="interior"), "cannot be called 'interior'"),
    "name a place": (lambda: Disk((0, 0), 1, name="x = 0"), "cannot be called 'x = 0'"),
    "union of none": (lambda: Union([]), r"a union takes a list of shapes, got \[\]"),
    "union of numbers": (lambda: Union([1, 2]), "a union is made of shapes such as Box or Disk, got a int"),
    "union of widths": (lambda: Union([SQUARE, Interval(0, 1)]), "must have the same number of coordinates"),
    "union of timed": (lambda: Union([Timed(SQUARE, 0, 1)]), r"put the time around the whole: Timed\(Union"),
    "names twice": (
        lambda: Union([Disk((0, 0), 1, name="a"), Disk((9, 0), 1, name="a")]),
        "2 shapes are called 'a'; give each its own name",
    ),
    "apart": (lambda: Intersection([SQUARE, Disk((5, 5), 1)]), "this intersection has no inside"),
    "apart, boxes overlap": (
        lambda: Intersection([SQUARE, Disk((1.08, 1.08), 0.1)]),
        "this intersection has no inside",
    ),
    "touching only": (lambda: Intersection([SQUARE, Box((1, 0), (2, 1))]), "this intersection has no inside"),
    "hole covers all": (lambda: Difference(SQUARE, [Disk((0.5, 0.5), 1)]), "no inside: the holes cover everything"),
    "holes cover all": (
        lambda: Difference(SQUARE, [Box((-1, -1), (0.5, 2)), Box((0.5, -1), (2, 2))]),
        "no inside: the holes cover everything",
    ),
    "hole is all": (lambda: Difference(SQUARE, SQUARE), "no inside: the holes cover everything"),
    "hole beside": (lambda: Difference(SQUARE, [Disk((3, 3), 1, name="h")]), "hole 'h' does not meet the domain"),
    "hole in the corner": (lambda: Difference(SQUARE, [Disk((1.08, 1.08), 0.1)]), "hole number 0 does not meet"),
    "hole touching": (lambda: Difference(SQUARE, [Box((1, 0), (2, 1))]), "hole number 0 does not meet"),
    "hole within a hole": (
        lambda: Difference(SQUARE, [Disk((0.5, 0.5), 0.3, name="a"), Disk((0.5, 0.5), 0.1, name="b")]),
        "nothing is left of the boundary of 'b'",
    ),
    "hidden in a union": (
        lambda: Union([SQUARE, Disk((0.5, 0.5), 0.1, name="b")]),
        "nothing is left of the boundary of 'b'",
    ),
    "no inside in 3D": (lambda: Difference(Ball((0, 0, 0), 1), [Box((-1, -1, -1), (1, 1, 1))]), "the holes cover"),
    "time backwards": (lambda: Timed(SQUARE, 1, 0), "the start of time 1 must lie before its end 0"),
    "time twice": (lambda: Timed(Timed(SQUARE, 0, 1), 0, 1), "has a time interval already"),
    "time of nothing": (lambda: Timed([0, 1], 0, 1), "Timed takes a domain of space such as Box or Disk, got a list"),
}


@pytest.mark.parametrize(("make", "message"), BAD.values(), ids=BAD)
def test_refused(make, message: str):
    with pytest.raises(DomainError, match=message):
        make()


def test_a_domain_error_is_a_constraint_error():
    """Whoever caught the errors of Box before still does."""
    with pytest.raises(ConstraintError):
        Box((0,), (-1,))


@pytest.mark.parametrize("points", [[1.0, 2.0], np.zeros((3, 3)), np.zeros((2, 2, 2)), 1.0])
def test_bad_points(points: object):
    with pytest.raises(DomainError, match=r"points have shape .* expected \(P, 2\)"):
        SQUARE.contains(points)


def test_points_that_are_none():
    with pytest.raises(DomainError, match=r"points are an array \(P, 2\), got a str"):
        SQUARE.contains("here")
    assert SQUARE.contains(np.array([[math.nan, 0.5], [0.5, 0.5]])).tolist() == [False, True]
    assert SQUARE.contains(np.zeros((0, 2))).shape == (0,)


def test_slivers_are_not_empty():
    """What a hole leaves may be far too small to be hit by samples of the bounding box: it is found at the boundary."""
    sliver = Difference(SQUARE, [Box((-1, -1), (1 - 1e-5, 2))])
    assert sliver.volume == pytest.approx(1e-5, rel=1e-3)


def test_too_small_to_fill():
    """Points of such a sliver are not found by proposing points of its bounding box; the error says so."""
    sliver = Difference(SQUARE, [Box((-1, -1), (1 - 2e-6, 2))])
    with pytest.raises(DomainError, match="the domain is a tiny part of its bounding box"):
        sliver.fill(100)
