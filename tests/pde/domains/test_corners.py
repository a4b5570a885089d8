"""Corners and holes of plane domains: where poles go, and where boundary points crowd."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from cnf.pde.domains import Box, Difference, Disk, Interval, Polygon, Timed, Union
from cnf.pde.domains.corners import PER_RAY, RAYS, crowd, find_corners, place_poles, taper

L_SHAPE = Polygon([[-1, -1], [1, -1], [1, 0], [0, 0], [0, 1], [-1, 1]])


def test_corners_of_a_square():
    """Four corners; outward along the diagonals."""
    corners = find_corners(Box([0, 0], [1, 1]))
    assert len(corners) == 4
    for corner in corners:
        away = corner.point - 0.5
        assert corner.outward == pytest.approx(away / np.linalg.norm(away), abs=1e-6)
        assert corner.reach == pytest.approx(1.0)


def test_re_entrant_corner_points_into_the_notch():
    """The corner (0, 0) of the L lies between the notch's sides: outward is (1, 1) / sqrt 2."""
    (corner,) = [c for c in find_corners(L_SHAPE) if np.abs(c.point).max() < 1e-6]
    assert corner.outward == pytest.approx([math.sqrt(0.5)] * 2, abs=1e-6)


def test_corners_where_shapes_meet():
    """A disk over a corner of a square: three corners of the square and two where the circle meets its sides."""
    corners = find_corners(Union([Box([0, 0], [1, 1]), Disk([1, 1], 0.5)]))
    points = sorted((round(float(c.point[0]), 5), round(float(c.point[1]), 5)) for c in corners)
    assert points == [(0.0, 0.0), (0.0, 1.0), (0.5, 1.0), (1.0, 0.0), (1.0, 0.5)]


@pytest.mark.parametrize(
    "domain",
    [Interval(0, 1), Disk([0, 0], 1), Box([0] * 3, [1] * 3), Timed(Box([0, 0], [1, 1]), 0, 1)],
    ids=["interval", "disk", "cube", "timed"],
)
def test_no_corners(domain):
    """One dimension, smooth edges, three dimensions: nothing to do."""
    assert find_corners(domain) == []
    assert len(place_poles(domain, 0.1)) == 0


@pytest.mark.parametrize("domain", [Box([0, 0], [1, 1]), L_SHAPE], ids=["square", "L"])
def test_poles_lie_outside_and_crowd(domain):
    """No pole in the domain; the nearest to a corner is as close as the taper says."""
    poles = place_poles(domain, 0.05)
    assert not bool(domain.contains(poles, 1e-12).any())
    corners = find_corners(domain)
    assert len(poles) <= len(corners) * PER_RAY * len(RAYS)
    for corner in corners:
        nearest = np.linalg.norm(poles.numpy() - corner.point, axis=1).min()
        assert nearest == pytest.approx(taper(corner.reach)[0], rel=1e-3)


def test_ring_of_poles_in_a_hole():
    """A hole of radius 0.2 gets poles inside it, on a circle around its centre."""
    domain = Difference(Disk([0, 0], 1), Disk([0.3, 0], 0.2, name="hole"))
    poles = place_poles(domain, 0.05)
    radii = torch.linalg.vector_norm(poles - torch.tensor([0.3, 0.0], dtype=torch.float64), dim=1)
    assert len(poles) >= 8
    assert float(radii.max() - radii.min()) < 1e-9
    assert 0.05 < float(radii.max()) < 0.19


def test_crowding_points_lie_on_the_boundary():
    """Within the spacing of a corner, on the edge, with the normal of that edge; names are those of the shape."""
    square = Box([0, 0], [1, 1], name="plate")
    found = crowd(square, 0.05)
    assert len(found) == 8  # two arms per corner
    for names, points, normals in found:
        assert names == ("plate",)
        on_edge = torch.minimum(points.abs(), (points - 1).abs()).amin(dim=1)
        assert float(on_edge.max()) < 1e-12
        outside = points + 1e-6 * normals
        assert not bool(square.contains(outside, 1e-9).any())
        corner = torch.minimum(points, 1 - points).amax(dim=1)
        assert float(corner.min()) > 0 and float(corner.max()) <= 0.05
