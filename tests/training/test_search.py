"""Line searches on functions whose lowest place is known: near enough, and with no more attempts than promised."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from cnf.training.search import LARGEST_SCAN, narrow, search_line, walk


class Memory:
    """A loss that remembers where it was asked."""

    def __init__(self, loss: Callable[[float], float]):
        self.loss, self.asked = loss, list[float]()

    def __call__(self, place: float) -> float:
        self.asked.append(place)
        return self.loss(place)

    @property
    def best(self) -> float:
        return min(self.asked, key=self.loss)


@pytest.mark.parametrize("lowest", [0.0, 0.4, 1.3, 2.9, -3.2, 9.7])
def test_search_finds_the_valley(lowest: float):
    """(v - lowest)^2: four more golden sections leave an error below 0.4 of the step, inside the scan or beyond it."""
    loss = Memory(lambda v: (v - lowest) ** 2)
    search_line(loss, 0.0, 1.0, 4, 4)
    assert abs(loss.best - lowest) <= 0.4
    beyond = max(0, math.ceil(-lowest)) + max(0, math.ceil(lowest - 3))
    assert len(loss.asked) <= 4 + beyond + 1 + 4


def test_search_scans_first_what_it_is_told():
    loss = Memory(lambda v: abs(v - 1))
    search_line(loss, -1.0, 0.5, 6, 0)
    assert loss.asked[:6] == [-1.0, -0.5, 0.0, 0.5, 1.0, 1.5]
    assert len(loss.asked) == 6


def test_search_ends_on_a_slope():
    """A loss that falls for ever must not be followed for ever."""
    loss = Memory(lambda v: -v)
    search_line(loss, 0.0, 1.0, 4, 4)
    assert len(loss.asked) <= LARGEST_SCAN + 4


def test_search_gives_up_where_nothing_can_be_solved():
    loss = Memory(lambda v: math.inf)
    search_line(loss, 0.0, 1.0, 4, 4)
    assert len(loss.asked) <= 8


def test_search_beside_a_cliff():
    """Infinite above 1.5, falling towards it: the best found is just below the cliff, nothing infinite."""
    loss = Memory(lambda v: -v if v < 1.5 else math.inf)
    search_line(loss, 0.0, 1.0, 4, 6)
    assert 1.2 < loss.best < 1.5


def test_search_never_asks_twice_in_one_place():
    """An attempt costs a solve."""
    loss = Memory(lambda v: (v - 1.7) ** 2)
    search_line(loss, 0.0, 1.0, 4, 6)
    assert len({round(v, 9) for v in loss.asked}) == len(loss.asked)


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 8])
def test_narrow_takes_its_steps_and_stays_between(steps: int):
    loss = Memory(lambda v: (v - 0.3) ** 2)
    narrow(loss, -1.0, 1.0, steps)
    assert len(loss.asked) == steps and all(-1 < v < 1 for v in loss.asked)


@pytest.mark.parametrize("lowest", [-0.9, -0.2, 0.3, 0.95])
def test_narrow_is_a_golden_section(lowest: float):
    """After n attempts the bracket is 2 * 0.618^(n - 1) wide, so the best is no further off than that."""
    loss = Memory(lambda v: (v - lowest) ** 2)
    narrow(loss, -1.0, 1.0, 12)
    assert abs(loss.best - lowest) <= 2 * 0.6180339887**11


def test_walk_goes_down_and_stops():
    """(v - 2)^2 from 0 in steps of 1: 1, 2, and one attempt too many."""
    loss = Memory(lambda v: (v - 2) ** 2)
    assert walk(loss, 0.0, 4.0, 1.0, 10) == (2.0, 0.0)
    assert loss.asked == [1, 2, 3]


def test_walk_uphill_stays():
    loss = Memory(lambda v: v)
    assert walk(loss, 0.0, 0.0, 1.0, 10) == (0.0, 0.0)
    assert loss.asked == [1]


def test_walk_takes_no_more_than_most():
    loss = Memory(lambda v: -v)
    assert walk(loss, 0.0, 0.0, 0.5, 3) == (1.5, -1.5)
    assert len(loss.asked) == 3


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_walk_stops_at_what_is_no_loss(bad: float):
    assert walk(lambda v: bad, 1.0, 5.0, 1.0, 3) == (1.0, 5.0)
