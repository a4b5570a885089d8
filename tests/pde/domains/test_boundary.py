"""Points on the boundary: on it, evenly spread, with outward normals, other points for other seeds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.spatial import cKDTree

from cnf.errors import DomainError
from cnf.pde.domains import Ball, Box, Difference, Disk, Intersection, Interval, Polygon, Timed, Union
from cnf.pde.domains.boundary import divide
from tests.pde.domains.shapes import ALL, KNOWN, Known

every_shape = pytest.mark.parametrize("known", ALL.values(), ids=ALL)


@pytest.mark.parametrize("seed", [0, 3])
@every_shape
def test_on_the_boundary_with_outward_normals(known: Known, seed: int):
    """By formula: a tiny step against the normal leads inside, along it outside. With time, normals are of space."""
    sample = known.domain.boundary_points(120, seed=seed)
    points, normals = sample.points.numpy(), sample.normals.numpy()
    timed = isinstance(known.domain, Timed)
    assert normals.shape == (len(points), known.domain.dimension - timed) and len(sample) == len(points)
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1, rtol=1e-12)
    step = 1e-5 * np.concatenate([normals, np.zeros((len(points), int(timed)))], axis=1)
    assert (known.formula((points - step).T) > 0).all()
    assert (known.formula((points + step).T) < 0).all()


@pytest.mark.parametrize("seed", [0, 5])
@every_shape
def test_divergence_theorem(known: Known, seed: int):
    """The integral of position times normal over the boundary is D times the volume (of space, over time)."""
    sample = known.domain.boundary_points(20_000, seed=seed)
    width = sample.normals.shape[1]
    flux = (sample.points[:, :width] * sample.normals).sum(dim=1).mean() * known.domain.boundary_measure()
    assert flux.item() == pytest.approx(width * known.volume, rel=max(3 * known.accuracy, 6e-3))


@every_shape
def test_count_is_close(known: Known):
    """Within a tenth of the number asked for; in one dimension there are only the ends."""
    number = len(known.domain.boundary_points(300))
    if known.domain.dimension == 1:
        assert number == known.boundary
    else:
        assert abs(number - 300) <= 30


@every_shape
def test_other_seeds_are_other_points(known: Known):
    """Held-out points: seed 1 shares none with seed 0, on the same boundary. An interval has only its ends."""
    first, again, other = (known.domain.boundary_points(100, seed=s).points.numpy() for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    distance = cKDTree(first).query(other)[0]
    if known.domain.dimension == 1:
        assert distance.max() == 0
    else:
        assert distance.min() > 1e-6 and np.median(distance) > 0.1 * np.median(
            cKDTree(first).query(first, k=2)[0][:, 1]
        )


@pytest.mark.parametrize("seed", [0, 2])
@pytest.mark.parametrize("name", ["disk", "box 2", "L polygon", "L touching", "hole", "bite", "lens", "two disks"])
def test_evenly_spread(name: str, seed: int):
    """In the plane the gap to the nearest neighbour along the boundary is length / count, within a tenth."""
    known = KNOWN[name]
    points = known.domain.boundary_points(400, seed=seed).points.numpy()
    assert len(points) == 400
    gaps = cKDTree(points).query(points, k=2)[0][:, 1]
    even = known.boundary / 400
    assert np.quantile(gaps, 0.05) > 0.9 * even and gaps.max() < 1.1 * even
    assert gaps.min() > 0.2 * even  # around corners


def test_sphere_is_even():
    """1000 points on the unit sphere: neighbours are about sqrt(4 pi / 1000) = 0.11 apart, none much closer."""
    points = Ball((0, 0, 0), 1).boundary_points(1000).points.numpy()
    gaps = cKDTree(points).query(points, k=2)[0][:, 1]
    assert gaps.min() > 0.07 and gaps.max() < 0.13


def test_circle():
    """Four points on the unit circle are a square."""
    sample = Disk((0, 0), 1).boundary_points(4)
    assert torch.allclose(sample.points, sample.normals)
    assert torch.allclose(
        sample.points @ sample.points.T,
        torch.tensor([[1, 0, -1, 0], [0, 1, 0, -1], [-1, 0, 1, 0], [0, -1, 0, 1]], dtype=torch.float64),
        atol=1e-12,
    )


def test_square():
    """Two cells on each side of the unit square; the corners stay free."""
    sample = Box((0, 0), (1, 1)).boundary_points(8)
    expected = {(a, b) for b in (0.0, 1.0) for a in (0.25, 0.75)}
    assert {tuple(p) for p in sample.points.tolist()} == expected | {(b, a) for a, b in expected}
    for point, normal in zip(sample.points.tolist(), sample.normals.tolist(), strict=True):
        assert normal == [{0.0: -1.0, 1.0: 1.0}.get(x, 0.0) for x in point]


def test_interval():
    """The ends, whatever the count, the seed."""
    for count, seed in ((1, 0), (50, 9)):
        sample = Interval(2, 3).boundary_points(count, seed)
        assert sample.points.tolist() == [[2.0], [3.0]] and sample.normals.tolist() == [[-1.0], [1.0]]


def test_every_side_has_a_point():
    """A box asked for one point has one on each side; a long box shares points by length."""
    assert len(Box((0, 0), (1, 1)).boundary_points(1)) == 4
    assert len(Box((0, 0, 0), (1, 1, 1)).boundary_points(1)) == 6
    sample = Box((0, 0), (9, 1)).boundary_points(40)
    assert (sample.normals[:, 1] != 0).sum() == 36


def test_drawn_curve_is_one_piece():
    """A polygon of 500 edges that follows a circle gets the 40 points asked for, not one per edge; a star gets 10."""
    angle = np.linspace(0, 2 * np.pi, 500, endpoint=False)
    sample = Polygon(np.stack([np.cos(angle), np.sin(angle)], axis=1)).boundary_points(40)
    assert len(sample) == 40
    gaps = cKDTree(sample.points.numpy()).query(sample.points.numpy(), k=2)[0][:, 1]
    np.testing.assert_allclose(gaps, 2 * math.sin(math.pi / 40), rtol=0.02)
    star = [(r * math.cos(k * math.pi / 5), r * math.sin(k * math.pi / 5)) for k in range(10) for r in [1 - k % 2 / 2]]
    assert len(Polygon(star).boundary_points(3)) == 10


@pytest.mark.parametrize("count", [10, 50])
def test_part(count: int):
    """Points of one hole only: on its circle, the normals into it."""
    plate = Difference(Box((0, 0), (4, 1)), [Disk((1, 0.5), 0.2, name="a"), Disk((3, 0.5), 0.3, name="b")])
    sample = plate.boundary_points(count, part="b")
    offset = sample.points - torch.tensor([3, 0.5])
    assert len(sample) == count
    assert torch.allclose(offset, -0.3 * sample.normals)
    timed = Timed(plate, 0, 1).boundary_points(count, part="b")
    assert torch.allclose(timed.points[:, :2] - torch.tensor([3, 0.5]), -0.3 * timed.normals)


def test_unknown_part():
    plate = KNOWN["hole"].domain
    for domain in (plate, Timed(plate, 0, 1)):
        for ask in (lambda d: d.boundary_points(5, part="whole"), lambda d: d.boundary_measure("whole")):
            with pytest.raises(DomainError, match=r"is called 'whole': it has 'hole'\. Did you mean 'hole'\?"):
                ask(domain)
    with pytest.raises(DomainError, match="no shape has a name"):
        Box((0, 0), (1, 1)).boundary_points(5, part="left")


def test_lateral_boundary():
    """An interval in time: two lines, cells of time halved; times of other seeds differ."""
    sample = Timed(Interval(0, 1), 2, 3).boundary_points(8)
    assert sample.normals.shape == (8, 1)
    for end, normal in ((0.0, -1.0), (1.0, 1.0)):
        here = sample.points[:, 0] == end
        assert sample.points[here, 1].tolist() == pytest.approx([2.125, 2.375, 2.625, 2.875])
        assert (sample.normals[here] == normal).all()


def test_small_hole():
    """A hole of a ten-thousandth of the size is found, and so is a bite of a thousandth of a side."""
    tiny = Difference(Box((0, 0), (1, 1)), [Disk((0.3, 0.3), 1e-4, name="pin"), Disk((1, 0.5), 1e-3, name="nick")])
    assert tiny.boundary_measure("pin") == pytest.approx(2e-4 * math.pi, rel=1e-6)
    assert tiny.boundary_measure() == pytest.approx(4 - 2e-3 + 2e-4 * math.pi + 1e-3 * math.pi, rel=1e-6)


def test_far_from_the_origin():
    """Shapes of size one a million away: the same lengths."""
    c = 1e6
    ring = Difference(Disk((c, c), 1), [Disk((c, c), 0.5)])
    assert ring.volume == pytest.approx(0.75 * math.pi, rel=1e-6)
    assert ring.boundary_measure() == pytest.approx(3 * math.pi, rel=1e-9)
    assert ring.contains(ring.boundary_points(50).points).all()


def test_three_dimensions_cut():
    """A ball in a corner: three flat quarter disks and an eighth of the sphere; no points where the box was cut off."""
    corner = Intersection([Box((0, 0, 0), (2, 2, 2)), Ball((0, 0, 0), 1, name="dome")])
    sample = corner.boundary_points(600)
    round_ones = torch.isclose(sample.points.norm(dim=1), torch.tensor(1.0, dtype=torch.float64))
    share = (math.pi / 2) / (math.pi / 2 + 3 * math.pi / 4)
    assert round_ones.double().mean() == pytest.approx(share, abs=0.05)
    assert corner.boundary_measure("dome") == pytest.approx(math.pi / 2, rel=0.02)


def test_union_in_three_dimensions_counts_shared_faces_never():
    """Two unit cubes side by side are a brick: 10 unit faces, and no point between them."""
    brick = Union([Box((0, 0, 0), (1, 1, 1)), Box((1, 0, 0), (2, 1, 1))])
    assert brick.boundary_measure() == pytest.approx(10)
    points = brick.boundary_points(500).points
    inner = (points[:, 1] > 1e-9) & (points[:, 1] < 1 - 1e-9) & (points[:, 2] > 1e-9) & (points[:, 2] < 1 - 1e-9)
    assert set(points[inner, 0].tolist()) == {0.0, 2.0}


def test_divide():
    """Shares add up, are proportional, and at least one."""
    assert divide(10, [1, 1]) == [5, 5]
    assert divide(10, [8, 1, 1]) == [8, 1, 1]
    assert divide(10, [1000, 1, 1]) == [8, 1, 1]
    assert divide(2, [5, 3, 1]) == [1, 1, 1]
    assert sum(divide(101, [0.3, 0.2, 0.7, 1.9])) == 101


@pytest.mark.parametrize(("edges", "pieces"), [(6, 6), (16, 16), (64, 64), (100, 1)])
def test_a_chain_of_few_edges_means_its_corners(edges: int, pieces: int):
    """A disk of 16 edges has 16 corners, at each of which a solution is not smooth; one of 100 is a drawn circle."""
    turn = 2 * np.pi * np.arange(edges) / edges
    polygon = Polygon(np.stack([np.cos(turn), np.sin(turn)], axis=1).tolist())
    assert len(polygon._pieces) == pieces
