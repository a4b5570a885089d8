"""Level sets: curves on the zeros of a function to rounding, corners found, nothing hidden, bad functions refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad

import cnf
from cnf.errors import DomainError, LatexError, ProblemError
from cnf.pde.domains import Box, Disk, Intersection, LevelSet, to_text
from cnf.pde.domains.boundary import Curve

FLOWER = r"\sqrt{x^2 + y^2} - 1 - \frac{3}{10} \cos(5 \mathrm{atan2}(y, x))"


def curves(domain: LevelSet) -> list[Curve]:
    return [piece for piece in domain._pieces if isinstance(piece, Curve)]


def test_a_flower_is_traced_to_rounding():
    """r = 1 + 0.3 cos 5t: points on it, normals and length by formulas and SciPy's quadrature."""
    flower = LevelSet(FLOWER, (-2, -2), (2, 2))
    (curve,) = curves(flower)
    points, normals = curve.at(np.random.default_rng(0).uniform(0, curve.measure, 4000))
    angle = np.arctan2(points[:, 1], points[:, 0])
    radius, slope = 1 + 0.3 * np.cos(5 * angle), -1.5 * np.sin(5 * angle)
    assert np.abs(np.hypot(*points.T) - radius).max() < 1e-13
    along = np.stack([slope * np.cos(angle) - radius * np.sin(angle), slope * np.sin(angle) + radius * np.cos(angle)])
    outward = np.stack([along[1], -along[0]], axis=1) / np.hypot(*along)[:, None]
    assert np.abs(normals - outward).max() < 1e-12
    length = quad(lambda t: math.hypot(1 + 0.3 * math.cos(5 * t), 1.5 * math.sin(5 * t)), 0, 2 * math.pi, epsabs=1e-12)
    assert curve.measure == pytest.approx(length[0], rel=1e-11)
    assert flower.volume == pytest.approx(math.pi * (1 + 0.3**2 / 2), rel=1e-13)
    arc = np.linspace(0, curve.measure, 300)
    step = 1e-4  # by arc length: equal steps are equally long, up to curvature
    there, back = curve.at(arc + step)[0], curve.at(arc - step)[0]
    np.testing.assert_allclose(np.linalg.norm(there - back, axis=1), 2 * step, rtol=1e-6)


def test_corners_are_found():
    """A disk cut off at x = 0.3 by max: corners at (0.3, +- sqrt 0.91) to rounding, and nowhere else."""
    cut = LevelSet(r"\max(x^2 + y^2 - 1, x - 0.3)", (-2, -2), (2, 2))
    pieces = curves(cut)
    assert len(pieces) == 2
    ends = sorted((piece.at(np.array([piece.start]))[0][0] for piece in pieces), key=lambda point: point[1])
    np.testing.assert_allclose(ends, [(0.3, -math.sqrt(0.91)), (0.3, math.sqrt(0.91))], atol=1e-14)


def test_an_island_smaller_than_the_grid_is_found():
    """A disk of radius 0.004 beside one of radius 1 in a box of size 4: interval arithmetic shows what no node does."""
    two = LevelSet("(x^2 + y^2 - 1)((x - 1.51)^2 + (y - 1.52)^2 - 0.000016)", (-2, -2), (2, 2))
    assert two.volume == pytest.approx(math.pi * (1 + 0.004**2), rel=1e-12)
    assert two.boundary_measure() == pytest.approx(2 * math.pi * 1.004, rel=1e-12)


@pytest.mark.parametrize(
    "function",
    [
        lambda p: torch.linalg.vector_norm(p, dim=1) - 1,
        lambda p: np.hypot(p.numpy()[:, 0], p.numpy()[:, 1]) - 1,  # no gradients
    ],
    ids=["torch", "numpy"],
)
def test_functions_of_python(function):
    """The signed distance to the unit circle, in torch or NumPy: length and area of the disk; not described."""
    disk = LevelSet(function, (-1.5, -1.5), (1.5, 1.5), name="rim")
    assert disk.volume == pytest.approx(math.pi, rel=1e-12)
    assert disk.boundary_measure("rim") == pytest.approx(2 * math.pi, rel=1e-12)
    sample = disk.boundary_points(100)
    assert torch.allclose(sample.points, sample.normals, atol=1e-12)
    assert to_text(disk) == "level set 'rim' of the level function, negative inside"
    with pytest.raises(DomainError, match="by a Python function cannot be described"):
        cnf.domains.describe(disk)


def test_cut_off_by_a_box():
    """What the error advises: a strip |y| < 0.5 that leaves its box, as a hole-free intersection of a disk and it."""
    wave = LevelSet("x^2 + y^2 - 4", (-3, -3), (3, 3))
    assert Intersection([wave, Box((0, -5), (5, 5))]).volume == pytest.approx(2 * math.pi, rel=1e-6)


@pytest.mark.parametrize(
    ("level", "message"),
    [
        ("x^2 + y^2 + 1", "nowhere negative in its box"),
        ("x^2 + y^2 - 9", "reaches out of its box"),
        ("-1", "reaches out of its box"),
        (r"\sqrt{x} - 1", r"not a number at \(-2, -2\)"),
        ("(x^2 + y^2)^2 - x^2 + y^2", r"near \(.*: curves touch or cross"),
        (lambda p: torch.sign(p.norm(dim=1) - 1), "flat or jumps"),
        (lambda p: p, r"gave shape \(\d+, 2\)"),
        (lambda p: p.missing, "failed at points .* AttributeError"),
        (7, "is LaTeX or a function"),
    ],
)
def test_bad_levels(level, message: str):
    """One line each: nothing inside, out of the box, undefined, crossing itself, jumping, functions that fail."""
    with pytest.raises(DomainError, match=message) as caught:
        LevelSet(level, (-2, -2), (2, 2))
    assert "\n" not in str(caught.value)


def test_bad_boxes_and_expressions():
    for low, high in (((0, 0), (1,)), ((0,), (1,)), ((0,) * 4, (1,) * 4), ((1, 0), (0, 1))):
        with pytest.raises(DomainError, match="of a level set"):
            LevelSet("x", low, high)
    with pytest.raises(LatexError):
        LevelSet("x^2 + q", (0, 0), (1, 1))
    with pytest.raises(DomainError, match="as many coordinates"):
        LevelSet("x", (0, 0), (1, 1), coordinates="x y z")


def test_in_space():
    """The unit ball: points on it, normals along them, distances of SciPy's tree of a million points; a cube by max."""
    ball = LevelSet("x^2 + y^2 + z^2 - 1", (-1.5, -1.4, -1.3), (1.5, 1.3, 1.4))
    assert ball.lower == pytest.approx((-1,) * 3, abs=1e-12) and ball.upper == pytest.approx((1,) * 3, abs=1e-12)
    assert ball.volume == pytest.approx(4 / 3 * math.pi, rel=1e-6)
    sample = ball.boundary_points(400)
    assert torch.allclose(sample.points, sample.normals, atol=1e-12)
    points = np.random.default_rng(0).uniform(-1.3, 1.3, (2000, 3))
    exact = 1 - np.linalg.norm(points, axis=1)
    near = np.abs(exact) < 0.1
    np.testing.assert_allclose(ball._bound(points)[near], exact[near], atol=1e-6)
    np.testing.assert_allclose(ball._bound(points), exact, atol=1e-3)
    assert ball._section(2, 0.6).volume == pytest.approx(0.64 * math.pi, rel=1e-12)
    cube = LevelSet(r"\max(|x|, |y|, |z|) - 1", (-2, -2, -2), (2, 2, 2))
    assert cube.volume == pytest.approx(8, rel=5e-3) and cube.boundary_measure() == pytest.approx(24, rel=3e-2)
    assert len(cube.slice_points(0, -1.0, 50)) > 40
    with pytest.raises(DomainError, match="flat or jumps"):
        LevelSet(lambda p: torch.sign(p.norm(dim=1) - 1), (-2, -2, -2), (2, 2, 2))


ELLIPSE = {"type": "level-set", "expression": "x^2 + a y^2 - 1", "lower": [-1.1, -1.1], "upper": [1.1, 1.1]}


def poisson(domain: object, **more: object) -> cnf.Problem:
    r"""u = sin(2x) e^y, for which \Delta u = -3 u."""
    equations = [
        {"on": "interior", "equation": r"\Delta u = -3 \sin(2x) e^y"},
        {"on": "boundary", "equation": r"u = \sin(2x) e^y"},
    ]
    return cnf.Problem("x y", domain=domain, equations=equations, exact={"u": r"\sin(2x) e^y"}, **more)


def test_in_a_problem():
    """An expression may use parameters and the problem's names; errors name the entry."""
    problem = poisson(ELLIPSE, parameters={"a": 4})
    assert problem.domain.volume == pytest.approx(math.pi / 2, rel=1e-12)
    with pytest.raises(ProblemError, match=r"domain.*'q'? ?is not known|q"):
        poisson({**ELLIPSE, "expression": "x^2 + q - 1"})
    with pytest.raises(ProblemError, match="expression must be LaTeX"):
        poisson({**ELLIPSE, "expression": 3})
    with pytest.raises(ProblemError, match=r"domain: the level set reaches out of its box"):
        poisson({**ELLIPSE, "upper": [0.5, 1]}, parameters={"a": 4})


@pytest.mark.slow
@pytest.mark.parametrize("method", ["patches", "waves"])
def test_poisson_on_a_flower(method: str):
    """Solved to 1e-8 on a curve that exists only as an expression, with a disk cut out."""
    flower = LevelSet(FLOWER, (-2, -2), (2, 2))
    domain = cnf.domains.Difference(flower, [Disk((0.2, 0.1), 0.2, name="hole")])
    target = {"target": 1e-8} if method == "patches" else {}
    answer = poisson(domain, solve={"method": method, **target}).solve()
    assert answer.certificate.exact and answer.errors is not None
    assert answer.errors["u"] <= 1e-8
    assert answer.errors["u"] <= 10 * answer.estimate + 1e-13
