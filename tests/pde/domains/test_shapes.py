"""What a domain is: its volume, its bounding box, which points it contains, uniform points of its inside."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

import cnf
from cnf.pde.domains import Ball, Box, Difference, Disk, Domain, Interval, Polygon, Timed, Union
from tests.pde.domains.shapes import ALL, KNOWN, L_SHAPE, Known

every_shape = pytest.mark.parametrize("known", ALL.values(), ids=ALL)


def around(domain: Domain, count: int = 3000) -> np.ndarray:
    """Points in a box somewhat larger than the bounding box."""
    low, high = np.array(domain.lower), np.array(domain.upper)
    unit = np.random.default_rng(5).random((count, domain.dimension))
    return low + (high - low) * (1.3 * unit - 0.15)


@every_shape
def test_volume_and_boundary(known: Known):
    """Lengths, areas and volumes of intervals, polygons, balls and their combinations, from formulas."""
    assert known.domain.volume == pytest.approx(known.volume, rel=known.accuracy)
    assert known.domain.boundary_measure() == pytest.approx(known.boundary, rel=known.accuracy)


@every_shape
def test_contains(known: Known):
    """Membership agrees with the inequality that defines the shape, inside and outside the bounding box."""
    points = around(known.domain)
    value = known.formula(points.T)
    clear = np.abs(value) > 1e-9
    inside = known.domain.contains(torch.from_numpy(points))
    assert inside.dtype == torch.bool and 100 < inside.sum() < len(points) - 100
    np.testing.assert_array_equal(inside.numpy()[clear], (value > 0)[clear])


@every_shape
def test_bounding_box(known: Known):
    """No point outside `lower` and `upper` is inside, and the inside comes near all sides but those a hole cuts."""
    points = known.domain.random(4000, torch.Generator().manual_seed(1))
    assert known.domain.dimension == points.shape[1] == len(known.domain.upper)
    assert (points >= torch.tensor(known.domain.lower)).all() and (points <= torch.tensor(known.domain.upper)).all()


@every_shape
def test_random_is_uniform(known: Known):
    """The share of random points below the middle of each coordinate is that of a quasi-random count."""
    points = known.domain.random(20000, torch.Generator().manual_seed(2))
    assert points.shape == (20000, known.domain.dimension) and points.dtype == torch.float64
    assert (known.formula(points.numpy().T) > -1e-12).all()
    again = known.domain.random(20000, torch.Generator().manual_seed(2))
    assert torch.equal(points, again)
    middle = (torch.tensor(known.domain.lower) + torch.tensor(known.domain.upper)).double() / 2
    grid = around(known.domain, 200_000)
    grid = grid[known.formula(grid.T) > 0]
    expected = (grid < middle.numpy()).mean(axis=0)
    np.testing.assert_allclose((points < middle).double().mean(dim=0).numpy(), expected, atol=0.025)


def nearest_boundary(domain: Domain, points: np.ndarray, count: int) -> np.ndarray:
    from scipy.spatial import cKDTree

    return cKDTree(domain.boundary_points(count).points.numpy()).query(points)[0]


@pytest.mark.parametrize("name", ["disk", "triangle", "L polygon", "L touching", "hole", "bite", "lens", "two disks"])
def test_margin_inside(name: str):
    """`margin` asks for that distance to the boundary: measured to 20000 points on it. Seams of unions do not count."""
    domain = KNOWN[name].domain
    points = domain.random(2000, torch.Generator().manual_seed(3))
    distance = nearest_boundary(domain, points.numpy(), 20000)
    for margin in (0.02, 0.1):
        clear = np.abs(distance - margin) > 2e-3
        expected = (distance >= margin)[clear]
        np.testing.assert_array_equal(domain.contains(points, margin).numpy()[clear], expected)
        assert expected.any() and not expected.all()


@pytest.mark.parametrize("name", ["disk", "triangle", "L polygon", "L touching", "two disks", "box 2"])
def test_margin_outside(name: str):
    """A negative margin lets in points outside by at most that distance."""
    domain = KNOWN[name].domain
    points = around(domain)
    points = points[~domain.contains(points).numpy()]
    distance = nearest_boundary(domain, points, 20000)
    clear = np.abs(distance - 0.1) > 2e-3
    np.testing.assert_array_equal(domain.contains(points, -0.1).numpy()[clear], (distance <= 0.1)[clear])


@every_shape
def test_the_boundary_counts_as_inside(known: Known):
    """Points on the boundary are contained, with rounding; a margin leaves them out."""
    points = known.domain.boundary_points(200).points
    assert known.domain.contains(points).all()
    assert not known.domain.contains(points, 1e-3).any()


def test_polygon_against_winding_numbers():
    """A star with 600 vertices: a point is inside if the angles to the vertices add up to a full turn."""
    angle = np.linspace(0, 2 * np.pi, 600, endpoint=False)
    corners = (1 + 0.5 * np.cos(7 * angle))[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    star = Polygon(corners)
    points = around(star, 1000)
    offset = corners[None] - points[:, None]
    direction = np.arctan2(offset[..., 1], offset[..., 0])
    turns = np.mod(np.diff(direction, append=direction[:, :1], axis=1) + np.pi, 2 * np.pi) - np.pi
    np.testing.assert_array_equal(star.contains(points).numpy(), np.abs(turns.sum(axis=1)) > np.pi)


def test_values_not_objects():
    """Domains are frozen and compare by value; copies remember nothing that cannot be copied."""
    domain = KNOWN["cave"].domain
    other = copy.deepcopy(domain)
    assert other == domain and hash(other) == hash(domain) and other is not domain
    assert torch.equal(other.boundary_points(50).points, domain.boundary_points(50).points)
    with pytest.raises(AttributeError):
        domain.name = "other"  # type: ignore[misc]
    assert Disk((0, 0), 1) != Disk((0, 0), 1, name="a")


def test_box_is_the_box_of_always():
    """`cnf.Box` is this Box: corners of its grid, its faces and its boundary are those of the unit square."""
    assert cnf.Box is Box
    box = Box((0, 0), (1, 2), name="wall")
    assert box.name == "wall" and box.parts == ("wall",)
    assert box.grid(2).tolist() == [[0, 0], [0, 2], [1, 0], [1, 2]]
    assert box.face(1, 1, 3).tolist() == [[0, 2], [0.5, 2], [1, 2]]
    assert len(box.boundary(3)) == 8
    assert box.halton(7).shape == (7, 2) and torch.equal(box.halton(7, 4), box.halton(7, 4))
    assert Box(0, 1).dimension == 1


def test_names_of_parts():
    """Parts are the named shapes whose boundary is left, a combination's name standing for all of it."""
    holes = Union([Disk((0.3, 0.3), 0.1, name="one"), Disk((0.7, 0.7), 0.1)], name="holes")
    plate = Difference(Box((0, 0), (1, 1), name="frame"), [holes], name="plate")
    assert set(plate.parts) == {"plate", "frame", "holes", "one"}
    assert Timed(plate, 0, 1).parts == plate.parts and Timed(plate, 0, 1).name == "plate"
    for part, length in {"one": 0.2, "holes": 0.4}.items():
        assert plate.boundary_measure(part) == pytest.approx(length * math.pi, rel=1e-9)
    assert plate.boundary_measure("frame") == pytest.approx(4)
    assert plate.boundary_measure("plate") == pytest.approx(4 + 0.4 * math.pi)
    assert Ball((0, 0, 0), 1).parts == ()


def test_a_named_side_is_kept_where_two_coincide():
    """Two boxes share a part of their bottom; the one with a name has it all, and nothing counts twice."""
    joined = Union([Box((0, 0), (2, 1)), Box((1, 0), (3, 1), name="right")])
    assert joined.boundary_measure() == pytest.approx(8)
    assert joined.boundary_measure("right") == pytest.approx(1 + 2 + 2)


def test_many_dimensions():
    """In ten dimensions a ball fills 0.25 % of its box; its points are found all the same, at the right radii."""
    ball = Ball([0.0] * 10, 1.0)
    assert ball.volume == pytest.approx(math.pi**5 / 120)
    assert ball.fill(2000).norm(dim=1).max() < 1
    radii = ball.random(2000, torch.Generator().manual_seed(0)).norm(dim=1)
    assert (radii < 0.5 ** (1 / 10)).double().mean() == pytest.approx(0.5, abs=0.05)  # half the volume


def test_tensors_and_arrays_build_shapes():
    """Vertices and centres may be tensors or arrays; a repeated last vertex is dropped."""
    assert Polygon(torch.tensor([*L_SHAPE, L_SHAPE[0]], dtype=torch.float64)) == Polygon(np.array(L_SHAPE))
    assert Ball(torch.zeros(2), torch.tensor(1.0)) == Ball((0, 0), 1)
    assert Interval(np.float64(0), 1) == Interval(0, 1)
