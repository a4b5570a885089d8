"""Domains whose volume, boundary and membership are known in closed form, for all tests of domains."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ellipe

from cnf.pde.domains import (
    Ball,
    Box,
    Difference,
    Disk,
    Domain,
    Intersection,
    Interval,
    LevelSet,
    Outline,
    Polygon,
    Solid,
    Timed,
    Union,
)

Formula = Callable[[np.ndarray], np.ndarray]  # columns of points -> positive inside, negative outside


@dataclass(frozen=True)
class Known:
    """A domain and what pencil and paper say about it; `accuracy` of volume and boundary, relative."""

    domain: Domain
    volume: float
    boundary: float
    formula: Formula
    accuracy: float = 1e-12


def disk(x: np.ndarray, y: np.ndarray, cx: float, cy: float, r: float) -> np.ndarray:
    return r**2 - (x - cx) ** 2 - (y - cy) ** 2


def box(p: np.ndarray, *sides: tuple[float, float]) -> np.ndarray:
    return np.min([np.minimum(x - a, b - x) for x, (a, b) in zip(p, sides, strict=True)], axis=0)


TRIANGLE = [(0.0, 0.0), (2.0, 0.0), (0.0, 1.0)]
L_SHAPE = [(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]  # counterclockwise
OCTAHEDRON = [(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)]
EIGHT_FACES = [(a, b, c) for a in (0, 1) for b in (2, 3) for c in (4, 5)]  # in no common direction
LENS = 2 * math.pi / 3 - math.sqrt(3) / 2  # two unit disks, centres 1 apart


def in_l_shape(p: np.ndarray) -> np.ndarray:
    return np.maximum(box(p, (0, 1), (0, 2)), box(p, (0, 2), (0, 1)))


KNOWN = {
    "interval": Known(Interval(-1, 2), 3.0, 2.0, lambda p: box(p, (-1, 2))),
    "ball 1": Known(Ball([1.0], 0.5), 1.0, 2.0, lambda p: box(p, (0.5, 1.5))),
    "box 2": Known(Box((0, -1), (1, 3)), 4.0, 10.0, lambda p: box(p, (0, 1), (-1, 3))),
    "box 3": Known(Box((0, 0, 0), (1, 2, 3)), 6.0, 22.0, lambda p: box(p, (0, 1), (0, 2), (0, 3))),
    "box 5": Known(Box([0] * 5, [1] * 5), 1.0, 10.0, lambda p: box(p, *[(0, 1)] * 5)),
    "disk": Known(Disk((1, 2), 0.5), math.pi / 4, math.pi, lambda p: disk(*p, 1, 2, 0.5)),
    "ball 3": Known(
        Ball((0, 0, 1), 2), 32 * math.pi / 3, 16 * math.pi, lambda p: 4 - p[0] ** 2 - p[1] ** 2 - (p[2] - 1) ** 2
    ),
    "ball 4": Known(Ball([0] * 4, 1), math.pi**2 / 2, 2 * math.pi**2, lambda p: 1 - (p**2).sum(0)),
    "triangle": Known(
        Polygon(TRIANGLE), 1.0, 3 + math.sqrt(5), lambda p: np.min([p[0], p[1], 1 - p[0] / 2 - p[1]], axis=0)
    ),
    "triangle turned": Known(
        Polygon([*TRIANGLE[::-1], TRIANGLE[-1]]),
        1.0,
        3 + math.sqrt(5),
        lambda p: np.min([p[0], p[1], 1 - p[0] / 2 - p[1]], axis=0),
    ),
    "L polygon": Known(Polygon(L_SHAPE), 3.0, 8.0, in_l_shape),
    "L touching": Known(Union([Box((0, 0), (1, 2)), Box((1, 0), (2, 1))]), 3.0, 8.0, in_l_shape, 1e-9),
    "L overlapping": Known(Union([Box((0, 0), (1, 2)), Box((0, 0), (2, 1))]), 3.0, 8.0, in_l_shape, 1e-9),
    "hole": Known(
        Difference(Box((0, 0), (1, 1)), [Disk((0.5, 0.4), 0.2, name="hole")]),
        1 - 0.04 * math.pi,
        4 + 0.4 * math.pi,
        lambda p: np.minimum(box(p, (0, 1), (0, 1)), -disk(*p, 0.5, 0.4, 0.2)),
        1e-9,
    ),
    "bite": Known(  # half a disk cut from the right side
        Difference(Box((0, 0), (2, 1)), Disk((2, 0.5), 0.25, name="bite")),
        2 - math.pi * 0.25**2 / 2,
        6 - 0.5 + math.pi * 0.25,
        lambda p: np.minimum(box(p, (0, 2), (0, 1)), -disk(*p, 2, 0.5, 0.25)),
        1e-6,
    ),
    "flush": Known(  # the hole's right side lies on the box's
        Difference(Box((0, 0), (2, 1)), [Box((1.5, 0.25), (2, 0.75))]),
        1.75,
        7.0,
        lambda p: np.minimum(box(p, (0, 2), (0, 1)), -box(p, (1.5, 9), (0.25, 0.75))),
        1e-6,
    ),
    "lens": Known(
        Intersection([Disk((0, 0), 1), Disk((1, 0), 1)]),
        LENS,
        4 * math.pi / 3,
        lambda p: np.minimum(disk(*p, 0, 0, 1), disk(*p, 1, 0, 1)),
        1e-6,
    ),
    "two disks": Known(
        Union([Disk((0, 0), 1), Disk((1, 0), 1)]),
        2 * math.pi - LENS,
        8 * math.pi / 3,
        lambda p: np.maximum(disk(*p, 0, 0, 1), disk(*p, 1, 0, 1)),
        1e-6,
    ),
    "two intervals": Known(
        Union([Interval(0, 1), Interval(2, 4)]), 3.0, 4.0, lambda p: np.maximum(box(p, (0, 1)), box(p, (2, 4)))
    ),
    "joined intervals": Known(Union([Interval(0, 1), Interval(1, 4)]), 4.0, 2.0, lambda p: box(p, (0, 4))),
    "nested": Known(  # an island in a lake in an island
        Union([Difference(Disk((0, 0), 3), [Disk((0, 0), 2)]), Disk((0, 0), 1)]),
        6 * math.pi,
        12 * math.pi,
        lambda p: np.maximum(np.minimum(disk(*p, 0, 0, 3), -disk(*p, 0, 0, 2)), disk(*p, 0, 0, 1)),
        1e-9,
    ),
    "ellipse": Known(
        LevelSet("x^2 + 4 y^2 - 1", (-1.3, -1.1), (1.2, 1.1), name="rim"),
        math.pi / 2,
        4 * ellipe(0.75),
        lambda p: 1 - p[0] ** 2 - 4 * p[1] ** 2,
    ),
    "ring": Known(  # two curves
        LevelSet(r"(x^2 + y^2 - 1)(x^2 + y^2 - \frac{1}{4})", (-1.5, -1.5), (1.5, 1.5)),
        0.75 * math.pi,
        3 * math.pi,
        lambda p: np.minimum(disk(*p, 0, 0, 1), -disk(*p, 0, 0, 0.5)),
    ),
    "diamond": Known(  # four corners
        LevelSet(r"|x| + |y - 1| - 1", (-2, -2), (2, 3)),
        2.0,
        4 * math.sqrt(2),
        lambda p: 1 - np.abs(p[0]) - np.abs(p[1] - 1),
    ),
    "drawn": Known(  # a rectangle with a round hole, drawn against each other, and an island in the hole
        Outline("M 0 0 H 4 V 3 H 0 Z M 1 1.5 a 1 1 0 1 0 2 0 a 1 1 0 1 0 -2 0 M 1.75 1.25 v 0.5 h 0.5 v -0.5 z"),
        12 - math.pi + 0.25,
        14 + 2 * math.pi + 2,
        lambda p: np.maximum(
            np.minimum(box(p, (0, 4), (0, 3)), -disk(*p, 2, 1.5, 1)), box(p, (1.75, 2.25), (1.25, 1.75))
        ),
    ),
    "smooth": Known(  # a circle through 200 of its points
        Outline([(math.cos(k * math.pi / 100), math.sin(k * math.pi / 100)) for k in range(200)], smooth=True),
        math.pi,
        2 * math.pi,
        lambda p: disk(*p, 0, 0, 1),
        1e-12,
    ),
    "bitten ellipse": Known(  # cut along its short axis
        Difference(LevelSet("x^2 + 4 y^2 - 1", (-2, -2), (2, 2)), [Box((0, -1), (2, 1), name="cut")]),
        math.pi / 4,
        2 * ellipe(0.75) + 1,
        lambda p: np.minimum(1 - p[0] ** 2 - 4 * p[1] ** 2, -p[0]),
        1e-6,
    ),
    "torus": Known(
        LevelSet(r"(\sqrt{x^2 + y^2} - 0.8)^2 + z^2 - 0.09", (-1.5, -1.4, -0.6), (1.5, 1.3, 0.5)),
        2 * math.pi**2 * 0.8 * 0.09,
        4 * math.pi**2 * 0.8 * 0.3,
        lambda p: 0.09 - (np.hypot(p[0], p[1]) - 0.8) ** 2 - p[2] ** 2,
        1e-5,
    ),
    "octahedron": Known(
        Solid(OCTAHEDRON, EIGHT_FACES),
        4 / 3,
        4 * math.sqrt(3),
        lambda p: 1 - np.abs(p).sum(axis=0),
    ),
    "cave": Known(
        Difference(Box((0, 0, 0), (1, 1, 1)), [Ball((0.5, 0.5, 0.5), 0.3, name="cave")]),
        1 - 4 / 3 * math.pi * 0.3**3,
        6 + 4 * math.pi * 0.09,
        lambda p: np.minimum(box(p, (0, 1), (0, 1), (0, 1)), ((p - 0.5) ** 2).sum(0) - 0.09),
        2e-3,
    ),
    "half ball": Known(
        Intersection([Ball((0, 0, 0), 1), Box((-2, -2, 0), (2, 2, 2))]),
        2 / 3 * math.pi,
        3 * math.pi,
        lambda p: np.minimum(1 - (p**2).sum(0), p[2]),
        2e-2,
    ),
}
# With time: volume and boundary are those of space times the duration.
TIMED = {
    name: Known(
        Timed(known.domain, 1, 1.5),
        known.volume / 2,
        known.boundary / 2,
        lambda p, f=known.formula: np.minimum(f(p[:-1]), np.minimum(p[-1] - 1, 1.5 - p[-1])),
        known.accuracy,
    )
    for name, known in KNOWN.items()
    if name in ("interval", "box 2", "disk", "hole", "L touching", "ball 3", "ring")
}
ALL = KNOWN | {f"timed {name}": known for name, known in TIMED.items()}
