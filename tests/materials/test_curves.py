"""Learning curves: what smoothing keeps and removes, and pictures of odd histories."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cnf.errors import ConstraintError
from cnf.materials.report.curves import draw_learning_curves, smooth

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.filterwarnings("error")


def test_smoothing_keeps_an_exponential():
    """exp(-t) is a line in the logarithm; symmetric means keep it, from the first step up to the window at the end."""
    losses = np.exp(-np.linspace(0, 5, 101))
    np.testing.assert_allclose(smooth(losses)[:97], losses[:97], rtol=1e-12)


def test_smoothing_removes_noise():
    """Independent noise of 0.3 in the logarithm falls by the root of the 41 points averaged; at the end, of 21."""
    noisy = np.exp(0.3 * np.random.default_rng(0).standard_normal(500))
    logs = np.log(smooth(noisy))
    assert np.std(logs[20:480]) == pytest.approx(0.3 / math.sqrt(41), rel=0.3)
    ends = [np.log(smooth(np.exp(0.3 * np.random.default_rng(k).standard_normal(500)))[-1]) for k in range(400)]
    assert np.std(ends) == pytest.approx(0.3 / math.sqrt(21), rel=0.15)


def test_smoothing_leaves_out_what_is_not_finite():
    """Constant 2 with one NaN: 2 everywhere else, NaN there."""
    losses = np.full(50, 2.0)
    losses[20] = math.nan
    found = smooth(losses)
    assert np.isnan(found[20])
    np.testing.assert_allclose(np.delete(found, 20), 2.0, rtol=1e-12)


def test_pictures_of_odd_histories(tmp_path):
    """One step; a loss that ends in NaN; one never finite; zeros; times that differ a thousandfold; unknown methods."""
    steps = list(range(100))
    falling = [1 / (1 + k) for k in steps]
    cases = {
        "one": {"siren": ([0], [1.0], [0.0])},
        "failed": {"ffn": (steps, [*falling[:60], *[math.nan] * 40], steps), "nbrdf": (steps, [math.nan] * 100, steps)},
        "zero": {"layer": (steps, [*falling[:-1], 0.0], steps)},
        "wide": {"nbrdf": (steps, falling, steps), "new": (steps, falling, [1000 * k for k in steps])},
    }
    for name, curves in cases.items():
        assert draw_learning_curves(curves, tmp_path / f"{name}.png", name).read_bytes().startswith(b"\x89PNG")


def test_curves_that_cannot_be_drawn_are_refused(tmp_path):
    """Nothing, nothing finite, columns of different lengths, empty columns: one clear line each."""
    cases = [
        ({}, "at least one method"),
        ({"ffn": ([0, 1], [math.nan, math.inf], [0, 1])}, "finite loss"),
        ({"ffn": ([0, 1], [1.0], [0, 1])}, r"ffn has \[2, 1, 2\]"),
        ({"ffn": ([], [], [])}, "at least one"),
    ]
    for curves, message in cases:
        with pytest.raises(ConstraintError, match=message):
            draw_learning_curves(curves, tmp_path / "x.png")
