"""Light path: the end points hold at every step, and the time reaches the least that quadratics allow."""

from __future__ import annotations

import math

import numpy as np
import pytest

import cnf
from cnf.demo.light_path import LightPath, Medium, least_quadratic_time, least_time_path, solve_light_path


@pytest.fixture(scope="module")
def result() -> LightPath:
    return solve_light_path(progress=False)


def test_end_points_hold_at_every_step(result: LightPath) -> None:
    assert result.end_error <= 1e-12
    assert max(result.history.residual) <= 1e-12
    assert result.certificate.exact
    ends = np.asarray(result.ends)
    for path in (result.before, result.after):
        assert np.abs(path[[0, -1]] - ends).max() <= 1e-12


def test_time_falls_to_the_least_of_all_quadratics(result: LightPath) -> None:
    assert result.start_time > 1.1 * result.final_time
    assert abs(result.quadratic_excess) < 1e-8
    assert 0 < result.excess < 0.01  # no path is faster than the least, and quadratics come within 1 %


@pytest.mark.parametrize("seed", [0, 2, 3, 4])
def test_other_starts_reach_the_same_time(result: LightPath, seed: int) -> None:
    other = solve_light_path(seed=seed, progress=False)
    assert other.final_time == pytest.approx(result.final_time, rel=1e-7)
    assert other.end_error <= 1e-12


def test_shooting_finds_the_catenary() -> None:
    """With n = y the fastest path from (-1, c cosh(1/c)) to (1, same) is y = c cosh(x / c), here c = 1 (the upper one).

    Its time is the integral of y ds = the integral of cosh^2 = 1 + sinh(2) / 2.
    """
    ends = ((-1.0, math.cosh(1)), (1.0, math.cosh(1)))
    path, time = least_time_path(ends, Medium(base=0.0, growth=1.0))
    assert np.abs(path[:, 1] - np.cosh(path[:, 0])).max() < 1e-8
    assert time == pytest.approx(1 + math.sinh(2) / 2, rel=1e-9)


def test_best_quadratic_is_no_faster_than_the_best_path_and_no_slower_than_the_chord() -> None:
    ends, medium = ((0.0, 0.3), (1.0, 0.9)), Medium()
    chord = math.hypot(1.0, 0.6) * medium.index(0.6)  # the mean index of a linear medium is that of the middle
    assert least_time_path(ends, medium)[1] < least_quadratic_time(ends, medium) < chord


def test_points_too_far_apart_are_named() -> None:
    with pytest.raises(cnf.errors.CnfError, match="too far apart"):
        least_time_path(((-5.0, 1.0), (5.0, 1.0)), Medium(base=0.0, growth=1.0))


@pytest.mark.parametrize(
    ("ends", "medium"),
    [
        (((0.0, 0.3), (0.0, 0.9)), Medium()),
        (((0.0, float("nan")), (1.0, 0.9)), Medium()),
        (((0.0, -2.0), (1.0, 0.9)), Medium()),
        (((0.0, 0.3), (1.0, 0.9)), Medium(growth=-1.0)),
    ],
)
def test_bad_input_is_refused(ends, medium) -> None:
    with pytest.raises(cnf.errors.CnfError):
        solve_light_path(ends=ends, medium=medium, progress=False)
