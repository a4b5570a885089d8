"""Conditions of a fit: half around the highlight, measurements as they are, one after the other at the worst, and on
nodes of MERL's grid."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.interpolate import RBFInterpolator
from torch import Tensor

from cnf.errors import ConstraintError
from cnf.materials.fitting import conditions as placing
from cnf.materials.fitting.conditions import APART, PER_ROUND, choose_grid, largest_errors, place_conditions
from cnf.materials.fitting.sampling import Samples, draw_samples, draw_valid, look_up, uniform_angles
from cnf.materials.reflectance import GGX, Table, decode, encode
from cnf.materials.reflectance.scattered import Scattered
from tests.materials.test_sampling import LIKELY, by_hand

GOLD = GGX("gold", 0.2)


def interpolate(conditions: Samples, points: Tensor) -> Tensor:
    """SciPy's thin-plate-like interpolant, which knows nothing of this library."""
    found = RBFInterpolator(conditions.points.numpy(), conditions.logs.numpy(), kernel="linear", degree=0)
    return torch.from_numpy(found(points.numpy()))


def measured(count: int, seed: int = 4) -> Scattered:
    angles = draw_valid(GOLD, count, uniform_angles, torch.Generator().manual_seed(seed))
    return Scattered("list", "list", angles, GOLD(angles) * 1.25)


def rows(samples: Samples) -> set[tuple[float, ...]]:
    return {tuple(row) for row in samples.points.tolist()}


def test_half_around_the_highlight():
    """Of 2000, the first 1000 have theta_h as rejection from a half-normal of 0.1 gives it, the others uniform ones."""
    theta = decode(place_conditions(GOLD, 2000).points).numpy()[:, 0]
    near, anywhere = by_hand("highlight")[:, 0], by_hand("uniform")[:, 0]
    assert stats.ks_2samp(theta[:1000], near).pvalue > LIKELY
    assert stats.ks_2samp(theta[1000:], anywhere).pvalue > LIKELY
    assert stats.ks_2samp(theta[:1000], anywhere).pvalue < 1e-10


@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_as_many_as_asked_and_of_the_material(count: int):
    """log(1 + f) of the material at distinct valid directions."""
    conditions = place_conditions(GOLD, count)
    angles = decode(conditions.points)
    assert len(conditions) == count == len(rows(conditions))
    assert bool(GOLD.valid(angles).all())
    assert (conditions.logs - torch.log1p(GOLD(angles))).abs().max() < 1e-9


def test_seeds():
    """The same seed the same conditions; another seed, or the training samples of the same seed, others."""
    first, again, other = (place_conditions(GOLD, 20, seed) for seed in (3, 3, 4))
    assert torch.equal(first.points, again.points) and torch.equal(first.logs, again.logs)
    assert not rows(first) & rows(other)
    assert not rows(first) & rows(draw_samples(GOLD, 2000, 3))


def test_measurements_are_used_as_they_are():
    """Of 60 measurements 20 conditions: each one of them with its value; the ten nearest the highlight, ten others."""
    listed = measured(60)
    conditions = place_conditions(listed, 20)
    angles = decode(conditions.points)
    distance = (angles[:, None] - listed.angles[None]).norm(dim=2)
    which = distance.argmin(dim=1)
    assert distance.min(dim=1).values.max() < 1e-9 and len(set(which.tolist())) == 20
    assert torch.equal(conditions.logs, torch.log1p(listed.values[which]))
    nearest = set(listed.angles[:, 0].argsort()[:10].tolist())
    assert set(which[:10].tolist()) == nearest and not set(which[10:].tolist()) & nearest


@pytest.mark.parametrize("placement", ["paper", "largest-error"])
def test_fewer_measurements_than_conditions(placement: str):
    """Of 12 measurements all become conditions, each once."""
    listed = measured(12)
    conditions = place_conditions(listed, 30, placement=placement, interpolate=interpolate)
    assert len(conditions) == 12 == len(rows(conditions))


def test_the_largest_error_comes_first():
    """Before any condition the field is 0, so the first is where log(1 + f), summed over channels, is largest."""
    pool = look_up(GOLD, draw_valid(GOLD, 3000, uniform_angles, torch.Generator().manual_seed(1)))
    chosen = largest_errors(pool, 5, interpolate)
    assert torch.equal(chosen.points[0], pool.points[pool.logs.sum(dim=1).argmax()])
    whole = place_conditions(GOLD, 3, placement="largest-error", interpolate=interpolate)
    assert whole.logs[0].sum() >= pool.logs.sum(dim=1).max() * 0.9


def test_the_greedy_choice():
    """Two rounds against loops in NumPy: error times 1 - exp(-distance^2 / APART^2) for each chosen in the round."""
    pool = look_up(GOLD, draw_valid(GOLD, 400, uniform_angles, torch.Generator().manual_seed(2)))
    points, logs = pool.points.numpy(), pool.logs.numpy()
    expected: list[int] = []
    for _ in range(2):
        field = np.zeros_like(logs)
        if expected:
            field = interpolate(
                Samples(pool.points[expected], pool.logs[expected], pool.cosines[expected]), pool.points
            )
        error = np.abs(np.asarray(field) - logs).sum(1)
        started = len(expected)
        for _ in range(PER_ROUND):
            urgency = error.copy()
            for j in range(len(points)):
                for c in expected[started:]:
                    urgency[j] *= 1 - np.exp(-((points[j] - points[c]) ** 2).sum() / APART**2)
            urgency[expected] = -1
            expected.append(int(urgency.argmax()))
    chosen = largest_errors(pool, 2 * PER_ROUND, interpolate)
    assert torch.equal(chosen.points, pool.points[expected])


def test_the_error_falls():
    """Mean error on fresh samples: from 10 to 40 conditions to under 0.6 of what it was, and again from 40 to 160."""
    fresh = draw_samples(GOLD, 2000, 11)
    errors = []
    for count in (10, 40, 160):
        conditions = place_conditions(GOLD, count, placement="largest-error", interpolate=interpolate)
        assert len(rows(conditions)) == count
        errors.append(float((interpolate(conditions, fresh.points) - fresh.logs).abs().mean()))
    assert errors[1] < 0.6 * errors[0] and errors[2] < 0.6 * errors[1], errors


def test_no_measurement_is_chosen_twice():
    """Even for a field that misses its conditions, so that the error where they are stays the largest."""
    pool = look_up(GOLD, draw_valid(GOLD, 400, uniform_angles, torch.Generator().manual_seed(2)))
    chosen = largest_errors(pool, 4 * PER_ROUND, lambda conditions, points: torch.zeros(len(points), 3).double())
    assert len(rows(chosen)) == 4 * PER_ROUND


def test_bad_input():
    """An unknown placement, no conditions, and no field to measure errors with: one line each."""
    with pytest.raises(ConstraintError, match="paper, largest-error; got 'best'"):
        place_conditions(GOLD, 10, placement="best")
    with pytest.raises(ConstraintError, match="at least one condition; got 0"):
        place_conditions(GOLD, 0)
    with pytest.raises(ConstraintError, match="needs a field"):
        place_conditions(GOLD, 10, placement="largest-error")


# On nodes of MERL's grid


def grid_places(conditions: Samples, offset: float = 0.0) -> np.ndarray:
    """Rows, columns and layers (M, 3) of conditions by the format's formulas, as whole numbers if they are nodes."""
    theta_h, theta_d, phi_d = decode(conditions.points).numpy().T
    quarter = np.pi / 2
    return np.stack([90 * np.sqrt(theta_h / quarter), 90 * theta_d / quarter, 180 * phi_d / np.pi], axis=1) - offset


def noisy_table(convention: str = "nodes", known: int = 90) -> Table:
    """Entries that have nothing to do with their neighbours; rows from `known` on were not measured."""
    values = torch.rand(90, 90, 180, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    values[known:] = torch.nan
    return Table("noise", "noise", values, convention)


@pytest.mark.parametrize("placement", ["paper", "largest-error"])
def test_conditions_on_nodes(placement: str):
    """100 distinct nodes with phi_d below pi, where the format has entries, and the metal's own values there."""
    conditions = place_conditions(GOLD, 100, placement=placement, interpolate=interpolate, grid="nodes")
    places = grid_places(conditions)
    whole = places.round()
    assert np.abs(places - whole).max() < 1e-6 and len({tuple(row) for row in whole}) == len(conditions) == 100
    assert whole.min() >= 0 and (whole < [90, 90, 180]).all()
    assert (conditions.logs - torch.log1p(GOLD(decode(conditions.points)))).abs().max() < 1e-12


def test_nodes_are_next_to_where_the_paper_puts_conditions():
    """One after the other: less than a cell from the direction drawn, or from that with light and eye swapped."""
    drawn, moved = (decode(place_conditions(GOLD, 60, grid=grid).points) for grid in (None, "nodes"))
    swapped = drawn + torch.tensor([0.0, 0.0, np.pi], dtype=torch.float64)
    apart = torch.minimum(*((encode(moved) - encode(way)).norm(dim=1) for way in (drawn, swapped)))
    assert (drawn[:, 2] > np.pi).sum() > 15 and moved[:, 2].max() < np.pi
    assert apart.max() < 0.06 and apart.median() < 0.02  # at 90 degrees a row is 2 degrees high, in the middle 1


@pytest.mark.parametrize("convention", ["nodes", "centers"])
def test_of_a_table_they_are_its_entries(convention: str):
    """Bit by bit, and of measured rows alone: what a mean of neighbours gives in such a table is another number."""
    table = noisy_table(convention, known=60)
    conditions = place_conditions(table, 50, grid=choose_grid(table))
    places = grid_places(conditions, 0.5 if convention == "centers" else 0.0)
    i, j, k = places.round().astype(int).T
    assert np.abs(places - places.round()).max() < 1e-6 and i.max() < 60
    assert torch.equal(conditions.logs, torch.log1p(table.values[i, j, k]))


def test_when_conditions_lie_on_nodes():
    """Unless told, those of a table, on its own convention; measurements at directions of their own never."""
    table, listed = noisy_table("centers"), measured(12)
    assert [choose_grid(table, told) for told in ("auto", "yes", "no")] == ["centers", "centers", None]
    assert [choose_grid(GOLD, told) for told in ("auto", "yes", "no")] == [None, "nodes", None]
    assert choose_grid(listed) is None
    with pytest.raises(ConstraintError, match="lie where they were measured; leave --on-nodes out"):
        choose_grid(listed, "yes")


def test_too_few_nodes(monkeypatch: pytest.MonkeyPatch):
    """A table of 2160 entries apart from each other, known at ever so many directions: no 3000 conditions."""
    monkeypatch.setattr(placing, "ROUNDS", 3)
    entries = torch.full((90, 90, 180, 3), torch.nan)
    entries[9:45:3, ::3, ::30] = 0.5
    with pytest.raises(ConstraintError, match=r"too few nodes .* of 3000 found; ask for fewer conditions"):
        place_conditions(Table("apart", "apart", entries), 3000, grid="nodes")
