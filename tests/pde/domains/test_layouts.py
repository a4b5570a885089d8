"""Points inside: how many, how far from the boundary and from each other, and always the same for a seed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial import cKDTree
from scipy.stats import qmc

from cnf.errors import DomainError
from cnf.pde.domains import LAYOUTS, Ball, Box, Difference, Disk, Domain, Interval, Polygon, Timed
from cnf.pde.domains.layouts import cells, halton
from tests.pde.domains.shapes import ALL, KNOWN, Known

every_shape = pytest.mark.parametrize("known", ALL.values(), ids=ALL)
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


def spacing(known: Known, count: int) -> float:
    return (known.volume / count) ** (1 / known.domain.dimension)


def gaps(points: torch.Tensor) -> np.ndarray:
    """Distance of each point to its nearest neighbour."""
    return cKDTree(points.numpy()).query(points.numpy(), k=2)[0][:, 1]


@every_layout
@every_shape
def test_count_inside_and_away_from_the_boundary(known: Known, layout: str):
    """Exactly the number asked for, but within a tenth for grids (a fifth from four dimensions on).

    By formula, every point is inside, and moves of a twentieth of the spacing along any axis keep it there.
    """
    for count in (1, 37, 500):
        points = known.domain.fill(count, layout, seed=4).numpy()
        number = len(points)
        if layout in ("halton", "poisson", "random"):
            assert number == count
        elif count == 500:
            assert abs(number - count) <= (0.1 if known.domain.dimension < 4 else 0.2) * count
        else:
            assert number >= 1
        assert (known.formula(points.T) > 0).all()
    step = 0.05 * spacing(known, 500)
    for axis in range(points.shape[1]):
        for sign in (-1, 1):
            moved = points + sign * step * np.eye(points.shape[1])[axis]
            assert (known.formula(moved.T) > 0).all()


@every_layout
@pytest.mark.parametrize("name", ["interval", "box 3", "hole", "timed hole", "L polygon"])
def test_seeds(name: str, layout: str):
    """The same seed gives the same points, another one other points: none is within a thousandth of a spacing."""
    known = ALL[name]
    first = known.domain.fill(100, layout, seed=0)
    assert torch.equal(first, known.domain.fill(100, layout, seed=0))
    other = known.domain.fill(100, layout, seed=7)
    assert torch.equal(other, known.domain.fill(100, layout, seed=7))
    distance = cKDTree(first.numpy()).query(other.numpy())[0]
    assert np.median(distance) > 0.1 * spacing(known, 100)
    assert (distance > 1e-3 * spacing(known, 100)).mean() > 0.98


@every_shape
def test_poisson_keeps_apart(known: Known):
    """Blue noise: no two points closer than half a spacing; independent ones come closer by chance."""
    count = 400
    closest = gaps(known.domain.fill(count, "poisson", seed=1)).min() / spacing(known, count)
    assert closest > 0.5
    assert gaps(known.domain.fill(count, "random", seed=1)).min() / spacing(known, count) < 0.45


@pytest.mark.parametrize("name", ["box 2", "disk", "hole", "L touching", "L polygon"])
def test_no_hole_is_left(name: str):
    """Every point of the domain has a point of the layout within 1.6 spacings (2.5 for jitter, 3 for Halton)."""
    known = KNOWN[name]
    probe = known.domain.random(5000, torch.Generator().manual_seed(8)).numpy()
    for layout, reach in {"grid": 1.6, "poisson": 1.6, "jittered": 2.5, "halton": 3.0}.items():
        tree = cKDTree(known.domain.fill(400, layout).numpy())
        assert tree.query(probe)[0].max() < reach * spacing(known, 400)


def test_grid_of_a_box():
    """The centres of 20 x 20 cells of the unit square."""
    points = Box((0, 0), (1, 1)).fill(400, "grid")
    assert sorted(set(points[:, 0].tolist())) == pytest.approx([(k + 0.5) / 20 for k in range(20)])
    assert len(points) == 400


def test_grid_of_a_long_box():
    """A box 100 times as long as wide gets square cells: 100 x 1 for 100 points, 400 x 4 for 1600."""
    long = Box((0, 0), (100, 1))
    for count, rows in ((100, 1), (1600, 4)):
        points = long.fill(count, "grid")
        assert len(points) == count and len(set(points[:, 1].tolist())) == rows


def test_cells_of_many_dimensions():
    """Equal numbers along ten sides would be 1024 or 59049 cells; unequal ones come nearer to 4000."""
    assert abs(int(np.prod(cells([1.0] * 10, 4000))) - 4000) < 600


def test_jitter_stays_in_its_cell():
    """Each of 10 x 10 cells holds one point."""
    points = Box((0, 0), (1, 1)).fill(100, "jittered", seed=3)
    assert len({(int(10 * x), int(10 * y)) for x, y in points.tolist()}) == 100
    assert (points - Box((0, 0), (1, 1)).fill(100, "grid")).abs().max() > 0.02


@every_layout
@pytest.mark.parametrize(
    "domain",
    [
        Difference(Disk((0, 0), 1), [Disk((0, 0), 0.995)]),
        Box((0, 0), (1, 1e-4)),
        Timed(Interval(0, 1), 0, 1e-3),
        Polygon([(0, 0), (1, 0), (0.5, 1e-3)]),
        Ball([0.0] * 7, 1.0),
    ],
    ids=["ring", "box", "short time", "needle", "ball"],
)
def test_thin_domains(domain: Domain, layout: str):
    """Thinner than the spacing of 100 points, or with hardly anything far from the boundary: filled all the same."""
    points = domain.fill(100, layout)
    assert 50 <= len(points) <= 200
    assert domain.contains(points).all() and len(torch.unique(points, dim=0)) == len(points)


def test_unknown_layout():
    with pytest.raises(DomainError, match=r"no layout 'posson': choose one of grid, .* Did you mean 'poisson'\?"):
        Box(0, 1).fill(10, "posson")


@pytest.mark.parametrize("count", [0, -3, 2.5, True, "10", None])
def test_bad_count(count: object):
    for ask in (Box(0, 1).fill, Disk((0, 0), 1).random, Disk((0, 0), 1).boundary_points):
        with pytest.raises(DomainError, match="the number of points is a whole number from 1 on, got"):
            ask(count)  # type: ignore[operator]


@pytest.mark.parametrize("seed", [-1, 0.5, True, None])
def test_bad_seed(seed: object):
    with pytest.raises(DomainError, match="the seed is a whole number from 0 on, got"):
        Disk((0, 0), 1).fill(10, seed=seed)  # type: ignore[arg-type]


@pytest.mark.parametrize("dimension", [1, 2, 6])
def test_halton_is_that_of_scipy(dimension: int):
    """Scrambled Halton points, drawn in two goes, to the bit those of scipy.stats.qmc, which takes long to import."""
    own = halton(dimension, 5)
    known = qmc.Halton(dimension, scramble=True, rng=np.random.default_rng(5))
    for number in (10, 3000):
        assert np.array_equal(own(number), known.random(number))
